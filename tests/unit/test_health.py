"""Is the process well? And threads that begin again."""

import pytest

from genericjob.reconcile.health import Deaths, Health, stuck
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.supervision import Supervisor
from unit.clocks import HandClock


@pytest.fixture
def clock():
    return HandClock()


def test_a_process_without_checks_is_well():
    assert Health().report("healthz").text == "healthz check passed\n"


def test_every_check_is_asked_and_the_failing_one_named():
    health = Health()
    health.live("threads", lambda: "")
    health.live("workers", lambda: "a worker is stuck")
    report = health.report("healthz")
    assert not report.well
    assert report.text.splitlines() == ["[+]threads ok", "[-]workers failed: a worker is stuck", "healthz check failed"]


def test_being_alive_and_being_ready_are_different_questions():
    health = Health()
    health.ready("caches", lambda: "not filled yet: pods")
    assert health.report("healthz").well
    assert not health.report("readyz").well


def test_a_check_that_breaks_has_found_something(caplog):
    health = Health()
    health.live("odd", lambda: str(1 / 0))
    report = health.report("healthz")
    assert not report.well
    assert "[-]odd failed: the check itself broke: ZeroDivisionError: division by zero" in report.text
    assert "the check odd failed" in caplog.text


def test_a_worker_is_stuck_after_ten_minutes_without_progress():
    times = {"jobs": 600.0, "nodes": 0.0}
    check = stuck(lambda: times)
    assert check() == ""
    times["jobs"] = 601.0
    assert check() == "a worker of jobs has made no progress for 601 s"


# ------------------------------------------------------------------------------------------------ threads that die


def test_two_deaths_are_bad_luck_and_three_within_a_minute_a_habit(clock):
    deaths = Deaths(clock)
    for _ in range(2):
        deaths.note("informer pods")
    assert deaths.complaint() == ""
    deaths.note("informer pods")
    assert deaths.complaint() == "informer pods keeps dying: the log says why"


def test_deaths_that_are_far_apart_or_of_different_threads_are_no_habit(clock):
    deaths = Deaths(clock)
    for name in ("a", "b", "c"):
        deaths.note(name)
    for _ in range(10):
        clock.advance(31)
        deaths.note("a")
    assert deaths.complaint() == ""


def test_a_habit_lasts_until_the_thread_has_lived_for_a_minute(clock):
    deaths = Deaths(clock)
    for name in ("b", "a") * 3:
        deaths.note(name)
    assert deaths.complaint() == "a, b keep dying: the log says why"
    clock.advance(50)
    deaths.note("a")  # seldom now, but still
    clock.advance(59)
    assert deaths.complaint() == "a keeps dying: the log says why"
    clock.advance(2)
    assert deaths.complaint() == ""


@pytest.fixture
def supervised(clock):
    metrics = Metrics()
    return metrics, Supervisor(primitives=clock, metrics=metrics)


def deaths_of(metrics, name):
    return metrics.registry.get_sample_value("genericjob_thread_deaths_total", {"thread": name})


def test_a_thread_that_dies_is_told_counted_and_begins_again(clock, supervised, caplog):
    metrics, supervisor = supervised
    runs = []

    def work():
        runs.append(clock.time)
        if len(runs) < 4:
            raise RuntimeError("a bug")

    thread = supervisor.start("reader", work)
    assert deaths_of(metrics, "reader") is not None
    clock.settle()
    assert (len(runs), deaths_of(metrics, "reader")) == (1, 1)
    clock.advance(60)
    assert (len(runs), deaths_of(metrics, "reader")) == (4, 3)
    assert runs[1] - runs[0] < runs[3] - runs[2]
    assert not thread.alive()  # work that returns is done
    assert "thread reader died" in caplog.text
    assert "a bug" in caplog.text


def test_a_thread_that_keeps_dying_does_so_often_enough_to_be_noticed(clock, supervised):
    metrics, supervisor = supervised
    deaths = Deaths(clock)
    metrics.on_thread_death(deaths.note)
    supervisor.start("reader", lambda: 1 / 0)
    clock.advance(10)
    for _ in range(60):
        clock.advance(10)
        assert deaths.complaint() == "reader keeps dying: the log says why"
    supervisor.stop()


def test_nothing_begins_again_after_the_end(clock, supervised):
    metrics, supervisor = supervised
    thread = supervisor.start("reader", lambda: 1 / 0)
    clock.settle()
    supervisor.stop()
    clock.settle()
    assert (thread.alive(), deaths_of(metrics, "reader")) == (False, 1)
