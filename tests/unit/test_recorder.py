"""Events about objects: condensed, limited, and never in the way."""

import threading
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.recorder import COMBINED, Recorder, Reference
from genericjob.reconcile.resources import EVENTS
from harness.clusters import eventually
from unit.builders import in_default

JOB = Reference("batch.tensorstack.dev/v1beta1", "GenericJob", "default", "train", "uid-1")
PATIENCE = 30


class Jumping(System):
    """A clock that the test moves, and that jumps over every wait with a limit."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self):
        return self.time

    def random(self):
        return 0.5

    def condition(self):
        condition, wait = super().condition(), threading.Condition.wait

        def waiting(timeout=None):
            if timeout is None:
                return wait(condition)
            self.time += timeout
            return False

        condition.wait = waiting
        return condition


@pytest.fixture
def clock():
    return Jumping()


@pytest.fixture
def memory():
    return MemoryApi()


@pytest.fixture
def api(memory):
    return FaultyApi(memory)


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def recorder(api, clock, metrics):
    recorder = Recorder(api, primitives=clock, metrics=metrics)
    recorder.start()
    yield recorder
    recorder.stop(PATIENCE)


@pytest.fixture
def fate(metrics):
    return lambda name: metrics.registry.get_sample_value("genericjob_events_total", {"fate": name})


@pytest.fixture
def settled(fate):
    """Wait until so many events have met their fate."""

    def settled(count):
        eventually(lambda: fate("sent") + fate("failed") + fate("dropped") >= count)

    return settled


def events(memory):
    return sorted(memory.list(EVENTS, "default").items, key=lambda event: int(event["metadata"]["resourceVersion"]))


def told(memory):
    return [(event["message"], event["count"]) for event in events(memory)]


# ------------------------------------------------------------------------------------------------ one event


def test_an_event_says_what_happened_to_whom(recorder, memory, settled):
    recorder.event(JOB, "Warning", "FailedCreate", "exceeded quota")
    settled(1)
    (event,) = events(memory)
    assert event["involvedObject"] == {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "namespace": "default",
        "name": "train",
        "uid": "uid-1",
    }
    assert (event["type"], event["reason"], event["message"], event["count"]) == ("Warning", "FailedCreate", "exceeded quota", 1)
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert event["source"] == {"component": "genericjob"}
    assert event["reportingComponent"] == "genericjob"
    assert event["metadata"]["name"].startswith("train.")


def test_an_event_about_something_without_namespace_goes_to_the_default_one(recorder, memory, settled):
    recorder.event(Reference("v1", "Node", "", "n1", "u"), "Normal", "Seen", "hello")
    settled(1)
    assert told(memory) == [("hello", 1)]


def test_long_messages_are_cut_and_long_names_shortened(recorder, memory, settled):
    about = Reference("v1", "Pod", "default", "a" * 253, "u")
    recorder.event(about, "Normal", "Long", "x" * 5000)
    settled(1)
    (event,) = events(memory)
    assert len(event["message"]) == 1024
    assert len(event["metadata"]["name"]) <= 253


# ------------------------------------------------------------------------------------------------ many


def test_the_same_again_raises_the_count(recorder, memory, clock, settled):
    recorder.event(JOB, "Normal", "Waiting", "for a node")
    settled(1)
    clock.time = 90
    for _ in range(4):
        recorder.event(JOB, "Normal", "Waiting", "for a node")
    settled(5)
    (event,) = events(memory)
    assert event["count"] == 5
    assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z")


@pytest.mark.parametrize(
    "other",
    [
        (msgspec.structs.replace(JOB, uid="uid-2"), "Normal", "Waiting", "for a node"),
        (JOB, "Warning", "Waiting", "for a node"),
        (JOB, "Normal", "Paused", "for a node"),
        (JOB, "Normal", "Waiting", "for a volume"),
    ],
)
def test_what_differs_is_another_event(recorder, memory, settled, other):
    recorder.event(JOB, "Normal", "Waiting", "for a node")
    recorder.event(*other)
    settled(2)
    assert len(events(memory)) == 2


def test_an_event_that_expired_is_made_again_and_counts_on(recorder, memory, settled):
    recorder.event(JOB, "Normal", "Waiting", "for a node")
    settled(1)
    (event,) = events(memory)
    memory.delete(EVENTS, in_default(event["metadata"]["name"]))
    recorder.event(JOB, "Normal", "Waiting", "for a node")
    recorder.event(JOB, "Normal", "Waiting", "for a node")
    settled(3)
    assert told(memory) == [("for a node", 3)]


def test_more_than_ten_similar_ones_share_an_event(recorder, memory, settled):
    for rank in range(14):
        recorder.event(JOB, "Warning", "FailedCreate", f"rank {rank}")
    recorder.event(JOB, "Warning", "FailedCreate", "rank 3")  # still has its own
    settled(15)
    found = dict(told(memory))
    assert found.pop(f"{COMBINED}rank 13") == 4
    assert found.pop("rank 3") == 2
    assert found == {f"rank {rank}": 1 for rank in range(10) if rank != 3}


def test_similar_ones_are_forgotten_after_ten_quiet_minutes(recorder, memory, clock, settled):
    for rank in range(10):
        recorder.event(JOB, "Warning", "FailedCreate", f"rank {rank}")
    settled(10)
    clock.time += 599
    recorder.event(JOB, "Warning", "FailedCreate", "rank 10")
    settled(11)
    clock.time += 601
    recorder.event(JOB, "Warning", "FailedCreate", "rank 11")
    settled(12)
    assert [message for message, _ in told(memory)][10:] == [f"{COMBINED}rank 10", "rank 11"]


def test_another_reason_is_not_similar(recorder, memory, settled):
    for n in range(9):
        recorder.event(JOB, "Normal", "Created", f"rank {n}")
        recorder.event(JOB, "Normal", "Deleted", f"rank {n}")
    settled(18)
    assert len(events(memory)) == 18


def test_a_combined_message_is_cut_as_well(recorder, memory, settled):
    for n in range(11):
        recorder.event(JOB, "Normal", "Long", f"{n}" + "x" * 2000)
    settled(11)
    assert max(len(message) for message, _ in told(memory)) == 1024


def test_an_object_that_never_stops_gets_25_and_then_one_in_five_minutes(recorder, api, memory, clock, settled, fate):
    requests = api.delay(0, "create", "patch", resource=EVENTS, times=1000)
    for _ in range(40):
        recorder.event(JOB, "Warning", "Again", "and again")
    settled(40)
    assert (fate("sent"), fate("dropped"), requests.times) == (25, 15, 975)
    assert told(memory) == [("and again", 25)]
    clock.time += 300
    for _ in range(3):
        recorder.event(JOB, "Warning", "Again", "and again")
    settled(43)
    assert (fate("sent"), fate("dropped")) == (26, 17)
    assert told(memory) == [("and again", 41)]  # what was not sent has been counted all the same


def test_objects_do_not_share_their_budget(recorder, memory, settled, fate):
    for _ in range(40):
        recorder.event(JOB, "Warning", "Again", "and again")
    recorder.event(Reference("v1", "Pod", "default", "p", "other"), "Normal", "Fine", "all is well")
    settled(41)
    assert ("all is well", 1) in told(memory)


def test_a_budget_is_never_more_than_a_burst(recorder, clock, settled, fate):
    recorder.event(JOB, "Warning", "Again", "and again")
    settled(1)
    clock.time += 1_000_000
    for _ in range(40):
        recorder.event(JOB, "Warning", "Again", "and again")
    settled(41)
    assert fate("sent") == 26


# ------------------------------------------------------------------------------------------------ trouble


def test_a_refused_event_is_counted_and_the_next_one_sent(recorder, api, memory, settled, fate, caplog):
    api.refuse(ApiError(403, "Forbidden", "namespace is being terminated"), "create")
    recorder.event(JOB, "Normal", "One", "one")
    recorder.event(JOB, "Normal", "Two", "two")
    settled(2)
    assert (fate("failed"), fate("sent")) == (1, 1)
    assert told(memory) == [("two", 1)]
    assert "namespace is being terminated" in caplog.text


def test_a_refused_event_is_made_when_it_happens_again(recorder, api, memory, settled):
    api.refuse(ApiError(403, "Forbidden", "no"), "create")
    recorder.event(JOB, "Normal", "One", "one")
    recorder.event(JOB, "Normal", "One", "one")
    settled(2)
    assert told(memory) == [("one", 2)]


@pytest.mark.parametrize(
    "error",
    [
        ApiError(0, "Unreachable", "nobody there"),
        ApiError(429, "TooManyRequests", "later"),
        ApiError(503, "ServiceUnavailable", "starting", unknown=True),
    ],
)
def test_a_server_that_is_away_is_waited_for(recorder, api, memory, clock, settled, fate, error):
    api.refuse(error, "create", times=4)
    recorder.event(JOB, "Normal", "One", "one")
    settled(1)
    assert told(memory) == [("one", 1)]
    assert fate("sent") == 1
    assert clock.time == 5 + 3 * 10  # the first wait is random


def test_patience_ends_after_twelve_tries(recorder, api, clock, settled, fate):
    rule = api.refuse(ApiError(0, "Unreachable", "nobody there"), times=100)
    recorder.event(JOB, "Normal", "One", "one")
    settled(1)
    assert fate("failed") == 1
    assert rule.times == 100 - 12


def test_a_lost_answer_makes_no_second_event(recorder, api, memory, settled):
    api.lose("create")
    recorder.event(JOB, "Normal", "One", "one")
    settled(1)
    recorder.event(JOB, "Normal", "One", "one")
    settled(2)
    assert told(memory) == [("one", 2)]


def test_an_event_that_was_made_although_the_server_failed_counts_on(recorder, api, memory, settled, fate):
    api.lose("create", error=ApiError(500, "InternalError", "oh", unknown=True))
    recorder.event(JOB, "Normal", "One", "one")
    recorder.event(JOB, "Normal", "One", "one")
    settled(2)
    assert told(memory) == [("one", 2)]
    assert (fate("failed"), fate("sent")) == (1, 1)


def test_an_exception_that_nobody_expected_ends_nothing(recorder, api, memory, settled, fate, caplog):
    def explode(call):
        raise ZeroDivisionError("what?")

    api.delay(0, "create", when=explode)
    recorder.event(JOB, "Normal", "One", "one")
    settled(1)
    api.heal()
    recorder.event(JOB, "Normal", "Two", "two")
    settled(2)
    assert (fate("failed"), fate("sent")) == (1, 1)
    assert "ZeroDivisionError" in caplog.text


class Hanging:
    """An API whose writes hang."""

    def __init__(self):
        self.entered, self.leave = threading.Event(), threading.Event()

    def create(self, *args, **options):
        self.entered.set()
        self.leave.wait(PATIENCE)
        raise ApiError(0, "Unanswered", "gone", unknown=True)


def test_nobody_waits_for_a_server_that_hangs_and_what_is_too_much_is_dropped(metrics, fate):
    api = Hanging()
    recorder = Recorder(api, primitives=System(), metrics=metrics)
    recorder.start()
    recorder.event(JOB, "Normal", "One", "one")
    assert api.entered.wait(PATIENCE)
    for n in range(1005):
        recorder.event(JOB, "Normal", "Many", str(n))
    assert fate("dropped") == 5
    assert not recorder.stop(0.01)
    api.leave.set()


# ------------------------------------------------------------------------------------------------ namespaces

CROWD, QUIET = (Reference("v1", "Pod", namespace, "p", namespace) for namespace in ("crowd", "quiet"))


class Elsewhere(FaultyApi):
    """An API that writes down who stores an Event, and when; one namespace costs time, or is refused."""

    def __init__(self, memory, clock, seconds=0.0, error=None):
        super().__init__(memory)
        self.clock, self.seconds, self.error, self.stored = clock, seconds, error, []

    def create(self, resource, body, namespace="", **options):
        if namespace == "crowd":
            self.clock.time += self.seconds
            if self.error:
                raise self.error
        self.stored.append((namespace, self.clock.time))
        return super().create(resource, body, namespace, **options)

    def moments(self, namespace):
        return [time for stored, time in self.stored if stored == namespace]


def sent(api, clock, metrics, settled, *abouts):
    recorder = Recorder(api, primitives=clock, metrics=metrics)
    for n, about in enumerate(abouts):
        recorder.event(about, "Normal", f"Reason{n}", "hello")
    recorder.start()
    settled(len(abouts))
    recorder.stop(PATIENCE)


def test_namespaces_take_turns(memory, clock, metrics, settled):
    api = Elsewhere(memory, clock)
    sent(api, clock, metrics, settled, *[CROWD] * 3, *[QUIET] * 2)
    assert [namespace for namespace, _ in api.stored] == ["crowd", "quiet", "crowd", "quiet", "crowd"]


def test_a_namespace_that_is_told_to_wait_delays_no_other(memory, clock, metrics, settled):
    api = Elsewhere(memory, clock, error=ApiError(429, "TooManyRequests", "later"))
    sent(api, clock, metrics, settled, *[CROWD] * 3, *[QUIET] * 5)
    assert api.moments("quiet") == [0.0] * 5


def test_a_namespace_whose_admission_is_slow_has_a_tenth_of_the_time(memory, clock, metrics, settled):
    api = Elsewhere(memory, clock, seconds=20.0)
    sent(api, clock, metrics, settled, *[CROWD] * 3, *[QUIET] * 10)
    assert api.moments("quiet") == [20.0] * 10
    assert api.moments("crowd") == [20.0, 220.0, 420.0]


def test_where_there_is_no_room_the_namespace_with_the_most_loses_the_latest(memory, clock, metrics, settled, fate):
    api = Elsewhere(memory, clock)
    crowd = [msgspec.structs.replace(CROWD, uid=str(n)) for n in range(1005)]
    sent(api, clock, metrics, settled, *crowd, *[QUIET] * 7)
    assert len(api.moments("quiet")) == 7
    assert (len(api.moments("crowd")), fate("dropped")) == (993, 12)


# ------------------------------------------------------------------------------------------------ beginning and end


def test_what_is_told_before_the_start_is_sent_after_it(memory, clock, metrics):
    recorder = Recorder(memory, primitives=clock, metrics=metrics)
    recorder.event(JOB, "Normal", "Early", "early")
    assert told(memory) == []
    recorder.start()
    assert recorder.stop(PATIENCE)
    assert told(memory) == [("early", 1)]


def test_the_end_sends_what_is_waiting_and_drops_what_comes_later(recorder, memory, fate):
    for n in range(10):
        recorder.event(JOB, "Normal", "Late", str(n))
    assert recorder.stop(PATIENCE)
    assert len(events(memory)) == 10
    recorder.event(JOB, "Normal", "Late", "too late")
    assert fate("dropped") == 1
    assert len(events(memory)) == 10


def test_the_end_does_not_wait_for_a_server_that_is_away(api, clock, metrics, settled, fate):
    tries = api.refuse(ApiError(0, "Unreachable", "nobody there"), times=100)
    recorder = Recorder(api, primitives=clock, metrics=metrics)
    for n in range(5):
        recorder.event(JOB, "Normal", "Late", str(n))
    recorder.stop(10)  # before its thread has begun, so that nothing was tried earlier
    recorder.start()
    settled(5)
    assert fate("failed") == 5
    assert tries.times == 95


def test_the_end_comes_in_time_even_if_not_everything_was_sent(memory, clock, metrics, settled, fate):
    class Slow(FaultyApi):
        def create(self, *args, **options):
            clock.time += 3
            return super().create(*args, **options)

    recorder = Recorder(Slow(memory), primitives=clock, metrics=metrics)
    for n in range(10):
        recorder.event(JOB, "Normal", "Late", str(n))
    recorder.stop(10)  # before its thread has begun, so that the clock is ours
    recorder.start()
    settled(10)
    assert (fate("sent"), fate("dropped")) == (4, 6)


def test_without_a_start_nothing_is_waited_for(memory, clock, metrics):
    assert Recorder(memory, primitives=clock, metrics=metrics).stop(0)
