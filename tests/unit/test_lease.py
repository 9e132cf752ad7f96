"""Who leads, on an API in memory and a clock moved by hand."""

import logging
import random
from datetime import timedelta

import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.lease import Elector, Timings, new_identity
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.resources import LEASES, Key
from unit.clocks import HandClock

KEY = Key("default", "genericjob")
A_MOMENT = 0.01


class Slow:
    """An API whose answers, good or bad, may be long on their way."""

    def __init__(self, api, clock):
        self.api, self._clock = api, clock
        self.lag = 0.0

    def __getattr__(self, verb):
        do = getattr(self.api, verb)

        def call(*args, **options):
            lag = 0.0 if verb == "watch" else self.lag
            try:
                return do(*args, **options)
            finally:
                self._clock.sleep(lag)

        return call


class Candidate:
    """An elector that runs, on an API of its own in which things can go wrong."""

    def __init__(self, clock, memory, identity):
        self.clock = clock
        self.api = FaultyApi(memory, sleep=clock.sleep)
        self.line = Slow(self.api, clock)
        self.metrics = Metrics()
        self.elector = Elector(self.line, KEY, identity, primitives=clock, metrics=self.metrics)
        self.identity = identity
        self.started = 0
        self.thread = None

    def run(self):
        self.thread = self.clock.start(self.identity, lambda: self.elector.run(self._begin))
        self.clock.settle()
        return self

    def _begin(self):
        assert self.elector.leading
        self.started += 1

    @property
    def leads(self):
        return self.elector.leading and self.elector.may_write()

    @property
    def gauge(self):
        return self.metrics.registry.get_sample_value("leader_election_master_status", {"name": KEY.name})

    def away(self, *verbs, times=1000, **which):
        self.api.refuse(ApiError(NO_ANSWER, "Unreachable", "no route to host"), *verbs, times=times, **which)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def memory(clock):
    return MemoryApi(now=clock.true_now, condition=clock.condition)


@pytest.fixture
def candidate(clock, memory):
    made = []

    def make(identity):
        made.append(Candidate(clock, memory, identity))
        return made[-1]

    yield make
    for each in made:
        each.api.heal()
        each.elector.stop()
    clock.settle()
    assert not clock.failures


def spec(memory):
    return memory.get(LEASES, KEY)["spec"]


def write(memory, **fields):
    """Somebody else's record."""
    memory.create(LEASES, {"metadata": {"name": KEY.name}, "spec": fields}, KEY.namespace)


def touch(memory):
    memory.patch(LEASES, KEY, {"metadata": {"labels": {"touched": "yes"}}})


# ------------------------------------------------------------------------------------------------ taking it


def test_an_absent_lease_is_taken_at_once(candidate, memory):
    a = candidate("a")
    assert (a.leads, a.gauge) == (False, 0)
    a.run()
    assert (a.leads, a.gauge, a.started) == (True, 1, 1)
    found = spec(memory)
    assert (found["holderIdentity"], found["leaseDurationSeconds"], found.get("leaseTransitions", 0)) == ("a", 15, 0)
    assert found["acquireTime"] == found["renewTime"] == "2026-01-01T00:16:40.000000Z"


def test_a_released_lease_is_taken_at_once_and_counts_as_a_transition(candidate, memory):
    write(memory, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=4, renewTime="2026-01-01T00:00:00.000000Z")
    assert candidate("a").run().leads
    assert spec(memory)["leaseTransitions"] == 5


def test_transitions_are_counted_as_far_as_the_server_can(candidate, memory):
    write(memory, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=2**31 - 1)
    assert candidate("a").run().leads
    assert spec(memory)["leaseTransitions"] == 2**31 - 1


def test_a_lease_without_content_is_free(candidate, memory):
    write(memory)
    assert candidate("a").run().leads


@pytest.mark.parametrize("renewed", ["1970-01-01T00:00:00.000000Z", "2926-01-01T00:00:00.000000Z"])
def test_another_s_lease_is_taken_after_it_stood_still_here_for_its_duration_whatever_its_times_say(candidate, memory, clock, renewed):
    write(memory, holderIdentity="b", leaseDurationSeconds=20, leaseTransitions=1, renewTime=renewed, acquireTime=renewed)
    a = candidate("a").run()
    clock.advance(20 - A_MOMENT)
    assert (a.leads, spec(memory)["holderIdentity"]) == (False, "b")
    clock.advance(2 * A_MOMENT)
    assert (a.leads, spec(memory)["holderIdentity"], spec(memory)["leaseTransitions"]) == (True, "a", 2)


def test_a_lease_without_a_duration_stands_for_ours(candidate, memory, clock):
    write(memory, holderIdentity="b")
    a = candidate("a").run()
    clock.advance(15 - A_MOMENT)
    assert not a.leads
    clock.advance(2 * A_MOMENT)
    assert a.leads


def test_every_change_of_the_record_begins_the_wait_anew(candidate, memory, clock):
    write(memory, holderIdentity="b", leaseDurationSeconds=15)
    a = candidate("a").run()
    for _ in range(3):
        clock.advance(10)
        memory.patch(LEASES, KEY, {"spec": {"renewTime": f"2026-01-01T00:00:{clock.time % 60:02.0f}.000000Z"}})
    clock.advance(14)
    assert not a.leads
    clock.advance(6)
    assert a.leads


def test_the_wait_counts_from_the_answer_for_the_record_may_have_changed_after_the_question(candidate, memory, clock):
    write(memory, holderIdentity="b", leaseDurationSeconds=15)
    a = candidate("a")
    a.api.delay(4, "get")
    a.run()
    clock.advance(3)
    memory.patch(LEASES, KEY, {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})
    clock.advance(15 - A_MOMENT)
    assert not a.leads
    clock.advance(1 + 2 * A_MOMENT)
    assert a.leads


def test_a_record_that_changes_between_the_look_and_the_taking_is_left_alone(candidate, memory, clock):
    write(memory, holderIdentity="b", leaseDurationSeconds=15)
    a = candidate("a").run()

    def renewed_in_between(call):
        if call.verb == "replace":
            touch(memory)
        return False

    a.api.refuse(ApiError(500, "InternalError", "never"), when=renewed_in_between)
    clock.advance(15.1)
    assert not a.leads
    assert spec(memory)["holderIdentity"] == "b"


def test_an_answer_that_is_lost_while_taking_it_is_found_out(candidate, memory, clock):
    a = candidate("a")
    a.api.lose("create")
    a.run()
    assert (a.leads, spec(memory)["holderIdentity"]) == (False, "a")
    clock.advance(4.4)
    assert a.leads
    assert spec(memory).get("leaseTransitions", 0) == 0


def test_of_two_that_create_it_one_wins_and_the_other_goes_on_waiting(candidate, memory, clock, caplog):
    b = candidate("b")
    write(memory, holderIdentity="a", leaseDurationSeconds=15)
    b.api.refuse(ApiError(404, "NotFound", "not there, a moment ago"), "get")
    with caplog.at_level(logging.WARNING):
        b.run()
        clock.advance(5)
    assert not b.leads
    assert not caplog.records  # that is no problem to tell anybody


def test_nothing_that_the_server_says_ends_the_waiting_and_one_problem_is_told_once(candidate, clock, caplog):
    a = candidate("a")
    a.away("get", times=10)
    a.api.refuse(ApiError(403, "Forbidden", "you may not"), "create", times=3)
    with caplog.at_level(logging.WARNING):
        a.run()
        clock.advance(60)
        assert a.leads
        a.api.refuse(ApiError(403, "Forbidden", "you may not"), "replace", times=2)
        clock.advance(60)
    assert a.leads
    told = [record.getMessage() for record in caplog.records]
    assert [text.rpartition(": ")[2] for text in told] == ["no route to host", "you may not", "you may not"]


# ------------------------------------------------------------------------------------------------ holding it


def test_the_holder_renews_every_two_seconds_with_one_request_each(candidate, memory, clock):
    a = candidate("a").run()
    first = spec(memory)
    a.away("get")  # the quick way needs no look
    times = set()
    for _ in range(20):
        clock.advance(1)
        times.add(spec(memory)["renewTime"])
    assert a.leads
    assert len(times) == 11
    found = spec(memory)
    assert (found["acquireTime"], found.get("leaseTransitions", 0)) == (first["acquireTime"], 0)


@pytest.mark.parametrize("jump", [timedelta(days=400), timedelta(days=-400)])
def test_a_clock_of_the_wall_that_jumps_changes_nothing(candidate, clock, jump):
    a, b = candidate("a").run(), candidate("b").run()
    clock.advance(5)
    clock.jump = jump
    clock.advance(60)
    assert (a.leads, b.leads) == (True, False)


def test_a_clock_of_the_wall_that_stands_still_does_not_make_the_holder_look_dead(candidate, clock, memory):
    a, b = candidate("a").run(), candidate("b").run()
    for _ in range(60):
        clock.jump -= timedelta(seconds=1)
        clock.advance(1)
    assert (a.leads, b.leads) == (True, False)


def test_without_renewal_the_right_to_write_ends_after_ten_seconds_and_the_lease_is_lost(candidate, clock, memory):
    a = candidate("a").run()
    clock.advance(4 + A_MOMENT)  # renewed at 2 and 4
    a.away()
    clock.advance(10 - 3 * A_MOMENT)
    assert (a.leads, bool(a.elector.lost), a.gauge) == (True, False, 1)
    clock.advance(3 * A_MOMENT)
    assert (a.leads, bool(a.elector.lost), a.elector.leading, a.gauge) == (False, True, False, 0)
    assert not a.thread.alive()
    a.api.heal()
    before = memory.resource_version
    clock.advance(60)
    assert (a.leads, memory.resource_version) == (False, before)  # lost is lost


def test_a_short_absence_of_the_server_costs_nothing(candidate, clock):
    a = candidate("a").run()
    a.away(times=3)
    clock.advance(60)
    assert a.leads
    assert a.started == 1


def test_the_right_to_write_counts_from_before_the_renewal_was_sent(candidate, clock):
    a = candidate("a").run()
    a.line.lag = 3
    clock.advance(2 + 3 + A_MOMENT)
    a.line.lag = 0
    a.away()
    clock.advance(12 - 5 - 3 * A_MOMENT)
    assert a.leads
    clock.advance(3 * A_MOMENT)
    assert not a.leads


def test_a_renewal_that_hangs_cannot_hide_that_the_time_is_over(candidate, clock):
    a = candidate("a").run()
    a.api.delay(1000, "replace")
    clock.advance(10 + A_MOMENT)
    assert (a.leads, bool(a.elector.lost)) == (False, True)
    assert not a.thread.alive()
    clock.advance(1000)  # and when it comes back at last, well done, nothing begins again
    assert (a.leads, a.elector.leading) == (False, False)


def test_a_renewal_that_fails_slowly_leaves_time_for_another(candidate, clock):
    a = candidate("a").run()
    a.line.lag = 5  # the limit of one request
    a.away("replace", times=2)
    clock.advance(7 - A_MOMENT)
    a.line.lag = 0
    clock.advance(60)
    assert (a.leads, a.started) == (True, 1)


def test_a_renewal_whose_answer_is_lost_is_found_out(candidate, clock):
    a = candidate("a").run()
    a.api.lose("replace", times=1)
    clock.advance(30)
    assert a.leads


def test_somebody_who_touches_the_record_does_no_harm(candidate, clock, memory):
    a = candidate("a").run()
    for _ in range(10):
        touch(memory)
        memory.patch(LEASES, KEY, {"metadata": {"labels": {"touched": None}}})
        clock.advance(2)
    assert a.leads
    assert spec(memory).get("leaseTransitions", 0) == 0


def test_a_record_that_names_somebody_else_is_lost_at_the_next_renewal(candidate, clock, memory):
    a = candidate("a").run()
    memory.patch(LEASES, KEY, {"spec": {"holderIdentity": "thief"}})
    clock.advance(2 + A_MOMENT)
    assert bool(a.elector.lost)
    assert not a.leads
    assert spec(memory)["holderIdentity"] == "thief"


def test_a_record_that_somebody_emptied_is_taken_back(candidate, clock, memory):
    a = candidate("a").run()
    memory.patch(LEASES, KEY, {"spec": {"holderIdentity": ""}})
    clock.advance(2 + A_MOMENT)
    assert (a.leads, spec(memory)["holderIdentity"]) == (True, "a")


def test_a_lease_deleted_by_somebody_is_made_again_by_its_holder_and_by_nobody_else(candidate, clock, memory):
    a, b = candidate("a").run(), candidate("b").run()
    clock.advance(5)
    memory.delete(LEASES, KEY)
    clock.advance(A_MOMENT)
    assert not b.leads  # the deletion was seen at once, and so was who held it
    clock.advance(5)
    assert (a.leads, b.leads, spec(memory)["holderIdentity"]) == (True, False, "a")


def test_a_lease_that_is_not_found_is_made_again_without_delay(candidate, clock, memory):
    a = candidate("a").run()
    memory.delete(LEASES, KEY)
    a.api.refuse(ApiError(404, "NotFound", "no such lease"), "replace")
    clock.advance(2 + A_MOMENT)
    assert (a.leads, spec(memory)["holderIdentity"]) == (True, "a")


def test_a_lease_deleted_after_its_holder_died_is_made_by_another_when_the_holder_s_time_is_over(candidate, clock, memory):
    write(memory, holderIdentity="dead", leaseDurationSeconds=15)
    b = candidate("b").run()
    clock.advance(1)
    memory.delete(LEASES, KEY)
    clock.advance(14 - A_MOMENT)
    assert not b.leads
    clock.advance(5)
    assert b.leads


def test_a_holder_that_finds_another_s_new_lease_in_place_of_its_own_gives_way(candidate, clock, memory):
    a = candidate("a").run()
    clock.advance(5)
    memory.delete(LEASES, KEY)
    write(memory, holderIdentity="b", leaseDurationSeconds=15)
    clock.advance(2)
    assert bool(a.elector.lost)
    assert spec(memory)["holderIdentity"] == "b"


# ------------------------------------------------------------------------------------------------ giving it away


def test_a_release_hands_over_at_once(candidate, clock, memory):
    a, b, c = candidate("a").run(), candidate("b").run(), candidate("c").run()
    clock.advance(30)
    moment = clock.time
    a.elector.stop()
    clock.call(a.elector.release)
    clock.settle()
    assert clock.time == moment
    assert (a.leads, a.gauge) == (False, 0)
    assert b.leads + c.leads == 1
    assert spec(memory)["leaseTransitions"] == 1


def test_a_release_is_found_by_looking_where_the_lease_cannot_be_watched(candidate, clock):
    a, b = candidate("a").run(), candidate("b")
    b.api.refuse(ApiError(403, "Forbidden", "you may not watch"), "watch", times=1000)
    b.run()
    clock.advance(30)
    a.elector.stop()
    clock.call(a.elector.release)
    assert not b.leads
    clock.advance(4.4)
    assert b.leads


def test_a_watch_that_is_cut_is_opened_again(candidate, clock, memory):
    a, b = candidate("a").run(), candidate("b").run()
    for _ in range(5):
        memory.cut_watches()
        clock.advance(8)
    clock.advance(60)
    a.elector.stop()
    clock.call(a.elector.release)
    assert b.leads


def test_what_a_released_record_says(candidate, clock, memory):
    a = candidate("a").run()
    clock.call(a.elector.release)
    found = spec(memory)
    assert (found.get("holderIdentity", ""), found["leaseDurationSeconds"], found.get("leaseTransitions", 0)) == ("", 1, 0)
    before = memory.resource_version
    clock.advance(60)
    assert memory.resource_version == before  # and nobody renews it


def test_a_release_finds_its_way_past_somebody_who_touched_the_record(candidate, clock, memory):
    a = candidate("a").run()
    touch(memory)
    clock.call(a.elector.release)
    assert not spec(memory).get("holderIdentity")


def test_a_release_by_one_who_does_not_hold_it_changes_nothing(candidate, clock, memory):
    a, b = candidate("a").run(), candidate("b").run()
    before = memory.resource_version
    clock.call(b.elector.release)
    assert memory.resource_version == before
    memory.patch(LEASES, KEY, {"spec": {"holderIdentity": "thief"}})
    clock.call(a.elector.release)
    assert spec(memory)["holderIdentity"] == "thief"


def test_a_lease_that_was_lost_is_not_released_either(candidate, clock, memory):
    a = candidate("a").run()
    a.away()
    clock.advance(11)
    a.api.heal()
    clock.call(a.elector.release)
    assert spec(memory)["holderIdentity"] == "a"


def test_a_release_that_fails_raises_nothing(candidate, clock, memory, caplog):
    a = candidate("a").run()
    a.away()
    assert clock.call(a.elector.release) == [None]
    assert "could not be released" in caplog.text
    assert spec(memory)["holderIdentity"] == "a"


def test_a_renewal_under_way_does_not_undo_a_release(candidate, clock, memory):
    a = candidate("a").run()
    a.api.delay(20, "replace", times=1)  # longer than release waits for it
    clock.advance(3)
    done = clock.call(a.elector.release)
    clock.advance(60)
    assert done == [None]
    assert not spec(memory).get("holderIdentity")


def test_a_release_waits_for_a_renewal_under_way(candidate, clock, memory):
    a = candidate("a").run()
    a.line.lag = 3
    clock.advance(3)
    done = clock.call(a.elector.release)
    assert (done, spec(memory)["holderIdentity"]) == ([], "a")
    clock.advance(2 + A_MOMENT)
    assert not spec(memory).get("holderIdentity")


def test_one_who_is_stopped_while_taking_the_lease_can_still_release_it(candidate, clock, memory):
    a = candidate("a")
    a.api.delay(1, "create")
    a.run()
    a.elector.stop()
    clock.advance(1)
    assert not a.thread.alive()
    assert (a.leads, a.started, spec(memory)["holderIdentity"]) == (False, 0, "a")
    clock.call(a.elector.release)
    assert not spec(memory).get("holderIdentity")


def test_stopping_ends_the_waiting_but_keeps_a_lease_that_is_held_for_as_long_as_it_lasts(candidate, clock, memory):
    a, b = candidate("a").run(), candidate("b").run()
    clock.advance(5)
    b.elector.stop()
    a.elector.stop()
    clock.settle()
    assert not a.thread.alive()
    assert not b.thread.alive()
    assert (a.leads, bool(a.elector.lost)) == (True, False)
    clock.advance(10)
    assert (a.leads, bool(a.elector.lost), spec(memory)["holderIdentity"]) == (False, False, "a")


# ------------------------------------------------------------------------------------------------ whatever happens


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"resourceVersion": 7}, "spec": {"holderIdentity": "b"}},
        {"metadata": {"resourceVersion": "7"}, "spec": []},
        {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": 5, "leaseDurationSeconds": "long", "leaseTransitions": True}},
        {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "b", "leaseDurationSeconds": -3, "renewTime": "yesterday"}},
        {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1e300, "leaseTransitions": 2**31}},
        {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "a", "acquireTime": 5, "renewTime": {}, "leaseTransitions": -1}},
    ],
)
def test_a_record_that_makes_no_sense_stops_nobody(clock, found, caplog):
    class Strange(MemoryApi):
        def get(self, resource, key):
            return found

        def replace(self, resource, key, body):
            assert body["metadata"]["resourceVersion"] in ("7", "8")
            assert body["spec"]["renewTime"].startswith("2026-")
            assert body["spec"]["acquireTime"].startswith("2026-")
            return {"metadata": {"resourceVersion": "8"}, "spec": body["spec"]}

    a = Candidate(clock, Strange(now=clock.true_now, condition=clock.condition), "a")
    a.run()
    clock.advance(40)
    versioned = (found.get("metadata") or {}).get("resourceVersion") == "7"
    assert a.leads == versioned  # a record without a version could only be overwritten blindly
    assert "unexpectedly" not in caplog.text
    a.elector.stop()
    clock.settle()


def test_what_nobody_expected_is_told_and_survived(candidate, clock, caplog):
    a = candidate("a")
    a.api.refuse(ZeroDivisionError("a bug"), "get")
    a.run()
    clock.advance(5)
    assert a.leads
    assert "failed unexpectedly" in caplog.text


@pytest.mark.parametrize("seed", range(15))
def test_two_never_may_write_at_the_same_time_whatever_fails(seed):
    clock, chance = HandClock(seed), random.Random(seed)
    memory = MemoryApi(now=clock.true_now, condition=clock.condition)
    running = [Candidate(clock, memory, name).run() for name in "abc"]
    names = iter(range(1000))
    for _ in range(300):
        for each in running:
            if chance.random() < 0.1:
                misfortune(each, chance, clock)
            if each.elector.lost or chance.random() < 0.01:
                each.elector.stop()
                if chance.random() < 0.5:
                    clock.call(each.elector.release)
                running[running.index(each)] = Candidate(clock, memory, f"{each.identity[0]}{next(names)}").run()
        clock.advance(chance.choice((0.05, 0.3, 1.0, 2.0)))
        assert sum(each.elector.may_write() for each in running) <= 1
    for each in running:
        each.api.heal()
        each.line.lag = 0.0
    clock.advance(60)
    alive = [each for each in running if not each.elector.lost]
    assert sum(each.elector.may_write() for each in running) == bool(alive)
    for each in running:
        each.elector.stop()


def misfortune(candidate, chance, clock):
    api, line, error = candidate.api, candidate.line, ApiError(NO_ANSWER, "Unreachable", "away")
    chance.choice(
        (
            api.heal,
            lambda: api.refuse(error, times=chance.randrange(1, 12)),
            lambda: api.lose("create", "replace"),
            lambda: api.delay(chance.uniform(0, 5), "replace", "create", "get"),
            lambda: setattr(line, "lag", chance.choice((0, 0, chance.uniform(0, 5)))),
            api.cut_watches,
            lambda: setattr(clock, "jump", timedelta(days=chance.uniform(-100, 100))),
        )
    )()


# ------------------------------------------------------------------------------------------------ small things


def test_timings_leave_room_for_each_other():
    assert (Timings().lease, Timings().renew, Timings().retry) == (15, 10, 2)
    for wrong in ({"lease": 10}, {"renew": 2.4}, {"retry": 0}, {"renew": 20}):
        with pytest.raises(ValueError, match="cannot be held"):
            Timings(**wrong)


def test_one_request_may_take_a_third_of_the_deadline_and_never_less_than_a_second():
    limits = Timings(lease=15, renew=9).timeouts()
    assert (limits.read, limits.write, limits.connect) == (3, 3, 3)
    assert Timings(lease=3, renew=1.5, retry=0.3).timeouts().write == 1


def test_an_identity_names_the_machine_and_is_nobody_else_s(clock):
    first, second = new_identity(clock), new_identity(clock)
    assert first != second
    assert first.partition("_")[0] == second.partition("_")[0]


def test_a_process_that_goes_on_after_its_time_fails_its_liveness(candidate, clock):
    a = candidate("a")
    assert a.elector.complaint() == ""
    a.run()
    clock.advance(60)
    assert a.elector.complaint() == ""
    a.away()
    clock.advance(14)
    assert a.elector.lost
    assert a.elector.complaint() == ""  # it is on its way out
    clock.advance(5)
    assert "the lease default/genericjob ended" in a.elector.complaint()


@pytest.mark.parametrize("verb", ["get", "create"])
def test_who_may_not_have_the_lease_is_not_ready_after_a_minute(candidate, clock, verb):
    a = candidate("a")
    a.api.refuse(ApiError(403, "Forbidden", "you may not"), verb, times=1000)
    a.run()
    clock.advance(59)
    assert a.elector.refusal() == ""
    clock.advance(11)
    assert a.elector.refusal().startswith("the lease default/genericjob has been refused for ")
    assert "you may not" in a.elector.refusal()
    a.api.heal()
    clock.advance(10)
    assert (a.leads, a.elector.refusal()) == (True, "")


def test_a_server_that_is_away_does_not_refuse_the_lease(candidate, clock):
    a = candidate("a")
    a.api.refuse(ApiError(403, "Forbidden", "you may not"), "get", times=10)
    a.run()
    a.away("get")
    clock.advance(200)
    assert a.elector.refusal() == ""


def test_a_released_lease_is_nothing_to_complain_about(candidate, clock):
    a = candidate("a").run()
    clock.call(a.elector.release)
    clock.advance(100)
    assert a.elector.complaint() == ""
