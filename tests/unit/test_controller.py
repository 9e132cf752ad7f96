"""The loop around a reconcile function, in real threads on a virtual clock."""

import logging

import pytest

from genericjob.reconcile.controller import AGAIN, DONE, MORE, Controller, Result
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.resources import Key
from sim.scheduler import Stepped

A, B, C = (Key("default", name) for name in "abc")


class Room:
    """A controller whose reconcile does what a test says, and the times at which it was called."""

    def __init__(self, stepped):
        self.stepped = stepped
        self.process = stepped.process("p")
        self.metrics = Metrics()
        self.queue = Queue(primitives=self.process, metrics=self.metrics.queue("jobs"))
        self.calls = []
        self.answers = {}
        self.processor = 0.0

    def start(self, workers=1, **options):
        self.controller = Controller(
            "jobs",
            self.reconcile,
            queue=self.queue,
            workers=workers,
            primitives=self.process,
            metrics=self.metrics.controller("jobs", workers),
            processor_time=lambda: self.processor,
            **options,
        )
        self.controller.start()

    def reconcile(self, key):
        self.calls.append((key.name, round(self.process.monotonic(), 6)))
        answers = self.answers.get(key, [])
        answer = answers.pop(0) if answers else DONE
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def times(self):
        return [time for _, time in self.calls]

    def count(self, name, **labels):
        return self.metrics.registry.get_sample_value(name, {"controller": "jobs", **labels})

    def results(self):
        names = ("success", "error", "requeue", "requeue_after")
        return {name: count for name in names if (count := self.count("controller_runtime_reconcile_total", result=name))}


@pytest.fixture
def room():
    with Stepped(1) as stepped:
        yield Room(stepped)


def test_a_key_that_is_done_is_not_looked_at_again(room):
    room.start()
    room.queue.add(A)
    room.stepped.advance(10_000)
    assert room.calls == [("a", 0)]
    assert room.results() == {"success": 1}


def test_again_means_soon_and_later_each_time(room):
    room.answers[A] = [AGAIN, AGAIN, AGAIN]
    room.start()
    room.queue.add(A)
    room.stepped.advance(1)
    assert room.times() == [0, 0.005, 0.015, 0.035]
    assert room.results() == {"requeue": 3, "success": 1}
    assert room.queue.failures(A) == 0


def test_again_in_a_while_means_then_and_forgets_failures(room):
    room.answers[A] = [AGAIN, Result.again_in(60), AGAIN]
    room.start()
    room.queue.add(A)
    room.stepped.advance(100)
    assert room.times() == [0, 0.005, 60.005, 60.01]
    assert room.results() == {"requeue": 2, "requeue_after": 1, "success": 1}


def test_what_is_given_up_is_counted_and_not_tried_again(room, caplog):
    room.answers[A] = [AGAIN, Result.give_up("the name is too long")]
    room.start()
    room.queue.add(A)
    room.stepped.advance(10_000)
    assert len(room.calls) == 2
    assert room.queue.failures(A) == 0
    assert room.results() == {"requeue": 1, "error": 1}
    assert room.count("controller_runtime_terminal_reconcile_errors_total") == 1
    assert "jobs default/a: gave up: the name is too long" in caplog.text


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (ApiError(409, "Conflict", "somebody else wrote"), logging.DEBUG),
        (ApiError(403, "Forbidden", "exceeded quota"), logging.INFO),
        (ApiError(0, "Unreachable", "no route"), logging.DEBUG),
    ],
)
def test_an_error_of_the_api_is_tried_again_and_said_quietly(room, caplog, error, level):
    caplog.set_level(logging.DEBUG)
    room.answers[A] = [error, error]
    room.start()
    room.queue.add(A)
    room.stepped.advance(1)
    assert room.times() == [0, 0.005, 0.015]
    assert room.results() == {"error": 2, "success": 1}
    assert room.count("controller_runtime_reconcile_errors_total") == 2
    assert room.count("controller_runtime_reconcile_panics_total") == 0
    assert [(record.levelno, record.job, record.reason) for record in caplog.records] == [(level, "default/a", error.reason)] * 2
    assert error.message in caplog.text


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(room):
    room.answers[A] = [ApiError(429, "TooManyRequests", "busy", retry_after=7.0)]
    room.start()
    room.queue.add(A)
    room.stepped.advance(10)
    assert room.times() == [0, 7]


@pytest.mark.parametrize("unexpected", [ZeroDivisionError("oh"), RecursionError("deep"), lambda: None, lambda: "done"])
def test_what_nobody_expected_is_shown_counted_and_tried_again(room, caplog, unexpected):
    room.answers[A] = [unexpected]
    room.start(workers=1)
    room.queue.add(A)
    room.queue.add(B)
    room.stepped.advance(1)
    assert room.calls == [("a", 0), ("b", 0), ("a", 0.005)]
    assert room.controller.alive()
    assert room.count("controller_runtime_reconcile_panics_total") == 1
    assert room.results() == {"error": 1, "success": 2}
    (record,) = caplog.records
    assert (record.levelno, record.job) == (logging.ERROR, "default/a")
    assert record.exc_info


def test_what_failed_keeps_its_priority(room):
    room.answers = {A: [AGAIN], B: [Result.again_in(0.005)], C: [lambda: room.process.sleep(1) or DONE]}
    room.queue.add(A, low=True)
    room.queue.add(B, low=True)
    room.queue.add_after(C, 0.001)
    room.start()
    room.stepped.advance(0.5)
    room.queue.add(Key("default", "new"))
    room.stepped.advance(1)
    assert [name for name, _ in room.calls] == ["a", "b", "c", "new", "a", "b"]


def test_workers_work_beside_each_other(room):
    room.answers = {key: [lambda: room.process.sleep(1) or DONE] for key in (A, B, C)}
    room.start(workers=2)
    for key in (A, B, C):
        room.queue.add(key)
    room.stepped.advance(0.5)
    assert room.count("controller_runtime_active_workers") == 2
    assert room.count("controller_runtime_max_concurrent_reconciles") == 2
    room.stepped.advance(10)
    assert sorted(room.times()) == [0, 0, 1]
    assert room.count("controller_runtime_active_workers") == 0
    assert room.count("controller_runtime_reconcile_time_seconds_sum") == 3


@pytest.mark.parametrize(("spent", "rest"), [(0.01, 0.09), (0.6, 5.4), (5.0, 45.0)])
def test_a_key_rests_in_proportion_to_the_work_it_made(room, spent, rest):
    def working():
        room.processor += spent
        room.queue.add(A)
        return DONE

    room.answers[A] = [working]
    room.start()
    room.queue.add(A)
    room.queue.add(B)
    room.stepped.advance(60)
    assert room.calls == [("a", 0), ("b", 0), ("a", rest)]


@pytest.mark.parametrize(("waited", "again"), [(9.0, 10.0), (60.0, 61.0), (4.0, 10.0), (0.0, 10.0)])
def test_what_is_not_finished_goes_on_after_everybody_else_when_it_has_waited_nine_times_as_long_as_it_computed(room, waited, again):
    def working():
        room.process.sleep(1.0 + waited)
        room.processor += 1.0
        for key in (A, B, C):
            room.queue.add(key)
        return MORE

    room.answers[A] = [working]
    room.start()
    room.queue.add(A)
    room.stepped.advance(100)
    assert room.calls == [("a", 0), ("b", 1 + waited), ("c", 1 + waited), ("a", again)]


def test_even_failing_work_makes_a_key_rest(room):
    def failing():
        room.processor += 0.1
        raise ApiError(0, "Unreachable", "no route")

    room.answers[A] = [failing]
    room.start()
    room.queue.add(A)
    room.stepped.advance(10)
    assert room.times() == [0, 0.9]


def test_a_stop_finishes_what_is_ready_and_then_the_workers_are_gone(room):
    room.answers = {A: [lambda: room.process.sleep(2) or AGAIN], C: [Result.again_in(1)]}
    room.start()
    for key in (A, B, C):
        room.queue.add(key)
    room.stepped.advance(1)
    assert room.controller.stop(30)
    assert [name for name, _ in room.calls] == ["a", "b", "c"]
    assert not room.controller.alive()
    assert room.stepped.monotonic() == 2


def test_a_stop_without_draining_finishes_only_what_is_at_work(room):
    room.answers[A] = [lambda: room.process.sleep(2) or DONE]
    room.start()
    for key in (A, B):
        room.queue.add(key)
    room.stepped.advance(1)
    assert room.controller.stop(30, drain=False)
    assert [name for name, _ in room.calls] == ["a"]


def test_a_stop_does_not_wait_for_ever(room):
    room.answers = {key: [lambda: room.process.sleep(100) or DONE] for key in (A, B)}
    room.start(workers=2)
    for key in (A, B):
        room.queue.add(key)
    room.stepped.advance(1)
    room.queue.add(A)
    assert not room.controller.stop(30)
    assert room.stepped.monotonic() == 31
    room.stepped.advance(1000)
    assert room.process.threads == []
    assert sorted(name for name, _ in room.calls) == ["a", "b"]


def test_the_time_that_a_worker_spent_is_that_of_its_own_thread():
    """Without an injected clock: a real one, of which a sleeping worker uses almost nothing."""
    with Stepped(1) as stepped:
        process = stepped.process("p")
        queue = Queue(primitives=process, metrics=Metrics().queue("q"))
        rests = []
        queue.done, done = lambda key, *, rest, **more: (rests.append(rest), done(key, rest=rest, **more)), queue.done
        controller = Controller(
            "jobs",
            lambda key: (sum(range(300_000)), DONE)[1] if key == A else DONE,
            queue=queue,
            workers=1,
            primitives=process,
            metrics=Metrics().controller("jobs", 1),
        )
        controller.start()
        queue.add(A)
        queue.add(B)
        stepped.advance(10)
    assert 0 < rests[1] < rests[0] <= 1
