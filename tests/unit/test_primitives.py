"""Time, threads and waiting: the operating system's, and what is built on them."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from genericjob.reconcile import primitives
from genericjob.reconcile.primitives import Backoff, Flag, System
from sim.scheduler import Stepped


@pytest.fixture
def system():
    return System()


@pytest.fixture
def stepped():
    with Stepped(1) as stepped:
        yield stepped


@pytest.fixture
def process(stepped):
    return stepped.process("p")


# ------------------------------------------------------------------------------------------------ the operating system's


def test_the_time_of_day_is_in_utc(system):
    assert system.now().tzinfo is UTC
    assert abs(system.now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_time_goes_on(system):
    before = system.monotonic()
    system.sleep(0.001)
    assert system.monotonic() >= before + 0.001


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux counts suspended time")
def test_the_time_while_the_machine_is_suspended_counts(monkeypatch):
    monkeypatch.setattr(time, "clock_gettime", {time.CLOCK_BOOTTIME: 3600.0, time.CLOCK_MONOTONIC: 60.0}.get)
    assert primitives._steady_clock()() == 3600.0


@pytest.mark.parametrize("missing", ["a clock", "the call"])
def test_where_suspended_time_cannot_be_counted_time_goes_on_nevertheless(monkeypatch, missing):
    def refuse(clock):
        raise OSError("no such clock")

    if missing == "a clock":
        monkeypatch.setattr(time, "clock_gettime", refuse)
    else:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert primitives._steady_clock() is time.monotonic


def test_the_clock_of_connections_is_that_of_the_lease(system):
    assert primitives.monotonic is System.monotonic


def test_numbers_and_identities_differ(system):
    assert len({system.new_id() for _ in range(100)}) == 100
    assert all(0 <= system.random() < 1 for _ in range(100))


def test_a_thread_runs_beside_and_ends(system):
    go, ran = threading.Event(), []
    thread = system.start("worker", lambda: (go.wait(), ran.append(threading.current_thread().name)))
    assert thread.alive()
    assert not thread.join(0.001)
    go.set()
    assert thread.join()
    assert not thread.alive()
    assert ran == ["worker"] == [thread.name]


def test_a_thread_that_hangs_does_not_keep_the_process(system):
    go = threading.Event()
    thread = system.start("hangs", go.wait)
    assert next(real for real in threading.enumerate() if real.name == "hangs").daemon
    go.set()
    assert thread.join()


def test_what_escapes_from_a_thread_is_logged(system, caplog):
    thread = system.start("fails", lambda: 1 // 0)
    assert thread.join(30)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "thread fails died")
    assert record.exc_info[0] is ZeroDivisionError


def test_a_condition_wakes_who_waits(system):
    changed, value = system.condition(), []

    def waiting():
        with changed:
            while not value:
                changed.wait(30)
            value.append("seen")

    thread = system.start("waits", waiting)
    with changed:
        value.append("set")
        changed.notify_all()
    assert thread.join(30)
    assert value == ["set", "seen"]
    with changed:
        assert not changed.wait(0.001)


# ------------------------------------------------------------------------------------------------ flags


def test_a_flag_wakes_all_who_wait_and_stays_set(stepped, process):
    flag, seen = Flag(process), []
    for _ in range(3):
        process.start("waits", lambda: seen.append(flag.wait()))
    stepped.run()
    assert (bool(flag), seen) == (False, [])
    flag.set()
    stepped.run()
    assert (bool(flag), seen) == (True, [True] * 3)
    assert flag.wait()
    flag.set()
    assert flag.wait(0)


def test_waiting_for_a_flag_ends_when_the_time_is_over(stepped, process):
    flag = Flag(process)
    assert not flag.wait(5)
    assert stepped.monotonic() == 5
    process.start("sets", lambda: (process.sleep(2), flag.set()))
    assert flag.wait(5)
    assert stepped.monotonic() == 7
    assert not Flag(process).wait(0)


def test_who_is_woken_early_waits_on(stepped, process):
    flag, ended = Flag(process), []
    process.start("waits", lambda: ended.append((flag.wait(5), process.monotonic())))
    stepped.advance(2)
    with flag._changed:
        flag._changed.notify_all()
    stepped.advance(10)
    assert ended == [(False, 5)]


# ------------------------------------------------------------------------------------------------ back-off


def test_waiting_times_double_up_to_a_limit(process):
    backoff = Backoff(process, first=0.8, limit=30, jitter=0)
    assert [backoff.next() for _ in range(8)] == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30])
    backoff.reset()
    assert backoff.next() == 0.8


def test_jitter_makes_waiting_times_differ_but_never_shorter(process):
    backoff = Backoff(process, first=1, limit=1, jitter=0.5)
    waits = [backoff.next() for _ in range(200)]
    assert 1 <= min(waits) < 1.05
    assert 1.45 < max(waits) < 1.5


def test_back_off_is_forgotten_after_a_while_without_need(process):
    backoff = Backoff(process, first=1, limit=100, jitter=0, reset_after=120)
    assert [backoff.next(), backoff.next()] == [1, 2]
    process.sleep(120)
    assert backoff.next() == 4
    process.sleep(121)
    assert backoff.next() == 1
