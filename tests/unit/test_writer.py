"""Many writes at a time: slow start, stop, turns, and no hostages."""

import gc
import threading
import weakref
from collections import Counter
from contextlib import contextmanager
from functools import partial

import msgspec
import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import PODS, Key
from genericjob.reconcile.writer import Create, Delete, Writer
from sim.world import World
from unit.builders import a_pod

PATIENCE = 30


class Gate:
    """An API that knows how many creates are under way, and lets a test hold them back."""

    def __init__(self, api):
        self.api = api
        self.changed = threading.Condition()
        self.requests, self.threads, self.under_way, self.succeeded, self.most = [], [], set(), 0, 0
        self.broken_starts = []
        self.holds = lambda name: False

    def create(self, resource, body, namespace="", **options):
        name = msgspec.json.decode(body)["metadata"]["name"]
        with self.changed:
            self.requests.append(name)
            self.threads.append(threading.current_thread())
            self.under_way.add(name)
            self.most = max(self.most, len(self.under_way))
            if len(self.under_way) > 1 + self.succeeded:
                self.broken_starts.append(sorted(self.under_way))
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.holds(name))
        try:
            created = self.api.create(resource, body, namespace, **options)
            with self.changed:
                self.succeeded += 1
            return created
        finally:
            with self.changed:
                self.under_way.discard(name)
                self.changed.notify_all()

    def get(self, resource, key):
        return self.api.get(resource, key)

    def hold(self, which):
        with self.changed:
            self.holds = which
            self.changed.notify_all()

    def open(self):
        self.hold(lambda name: False)

    def wait(self, condition):
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE), (self.requests, self.under_way)

    def thread_of(self, name):
        return self.threads[self.requests.index(name)] if name in self.requests else None


class Calling(threading.Thread):
    """Somebody who applies writes and waits."""

    def __init__(self, writer, writes):
        super().__init__(daemon=True)
        self.writer, self.writes, self.done = writer, writes, None
        self.start()

    def run(self):
        self.done = self.writer.apply(self.writes)

    def fates(self):
        self.join(PATIENCE)
        assert not self.is_alive()
        return fates(self.done)


class Known(System):
    """Remembers the threads it started, who waits for something, and how."""

    def __init__(self, gate):
        self.started, self.timeouts, self.gate, self.waiting = [], [], gate, set()

    def start(self, name, run):
        self.started.append(super().start(name, run))
        return self.started[-1]

    def condition(self):
        condition, wait = super().condition(), threading.Condition.wait

        def waiting(timeout=None):
            self.timeouts.append(timeout)
            self._tell(self.waiting.add)
            try:
                return wait(condition, timeout)
            finally:
                self._tell(self.waiting.discard)

        condition.wait = waiting
        return condition

    def _tell(self, change):
        with self.gate.changed:
            change(threading.current_thread())
            self.gate.changed.notify_all()


@pytest.fixture
def memory():
    return MemoryApi()


@pytest.fixture
def gate(memory):
    return Gate(memory)


@pytest.fixture
def primitives(gate):
    return Known(gate)


@contextmanager
def a_writer(api, primitives=None, threads=8):
    writer = Writer(api, threads=threads, primitives=primitives or System(), own_writes=OwnWrites({}))
    yield writer
    writer.stop()


def create(name):
    return Create(PODS, "default", name, partial(msgspec.json.encode, a_pod(name)), "job", lambda pod: "ours")


def creates(count, prefix="p"):
    return [create(f"{prefix}{n}") for n in range(count)]


def fates(done):
    return [each.fate for each in done]


def quota():
    return ApiError(403, "Forbidden", "exceeded quota")


# ------------------------------------------------------------------------------------------------ order and number


def test_every_write_has_its_fate_in_the_order_of_the_writes(memory):
    pods = [memory.create(PODS, a_pod(f"old{n}"), "default").object for n in range(20)]
    writes = creates(20) + [Delete(PODS, Key("default", pod.name), pod.uid, "job", 0) for pod in pods]
    with a_writer(memory) as writer:
        done = writer.apply(writes)
    assert [each.write for each in done] == writes
    assert set(fates(done)) == {"done"}
    assert {pod.name for pod in memory.list(PODS).items} == {f"p{n}" for n in range(20)}
    assert [each.object.name for each in done[:20]] == [f"p{n}" for n in range(20)]


def test_nothing_to_write_is_done_at_once(memory, primitives):
    with a_writer(memory, primitives) as writer:
        assert writer.apply([]) == []
    assert primitives.started == []


def test_a_single_write_needs_no_other_thread(gate, primitives):
    with a_writer(gate, primitives) as writer:
        for n in range(5):
            assert fates(writer.apply([create(f"p{n}")])) == ["done"]
    assert set(gate.threads) == {threading.current_thread()}
    assert primitives.started == []


def test_slow_start_allows_one_more_with_every_success_up_to_the_limit(gate):
    with a_writer(gate, threads=4) as writer:
        gate.hold(lambda name: True)
        calling = Calling(writer, creates(30))
        for expected in (1, 2, 3, 4, 4, 4):
            gate.wait(lambda expected=expected: len(gate.under_way) == expected)
            passed = min(gate.under_way, key=lambda name: int(name[1:]))
            gate.hold(lambda name, passed=passed: name != passed)
            gate.wait(lambda passed=passed: passed not in gate.under_way)
        gate.open()
        assert set(calling.fates()) == {"done"}
    assert gate.most == 4
    assert gate.broken_starts == []


def test_helpers_that_had_nothing_to_do_come_again(gate, primitives):
    with a_writer(gate, primitives, threads=4) as writer:
        gate.hold({"a1", "a2"}.__contains__)
        calling = Calling(writer, creates(3, "a"))
        gate.wait(lambda: gate.under_way == {"a1", "a2"})
        gate.open()
        assert set(calling.fates()) == {"done"}
        for prefix, idle in (("b", 1), ("c", 3), ("d", 3)):
            gate.wait(lambda idle=idle: len(primitives.waiting) == idle)
            gate.hold(lambda name: int(name[1:]) >= 10)
            calling = Calling(writer, creates(20, prefix))
            gate.wait(lambda: len(gate.under_way) == 4 and min(int(name[1:]) for name in gate.under_way) == 10)
            gate.open()
            assert set(calling.fates()) == {"done"}
    assert len(primitives.started) == 3


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_never_more_than_the_limit_and_never_faster_than_slow_start(gate, threads):
    with a_writer(gate, threads=threads) as writer:
        assert set(fates(writer.apply(creates(300)))) == {"done"}
    assert gate.most <= threads
    assert gate.broken_starts == []
    assert Counter(gate.requests) == Counter(f"p{n}" for n in range(300))


class Body(bytes):
    """A body that is counted for as long as it is in memory."""

    alive = 0

    def __del__(self):
        Body.alive -= 1


def test_a_body_is_made_when_it_is_sent_and_not_kept(memory):
    most = []

    def made(name):
        Body.alive += 1
        most.append(Body.alive)
        return Body(msgspec.json.encode(a_pod(name)))

    writes = [Create(PODS, "default", f"p{n}", partial(made, f"p{n}"), "job", lambda pod: "ours") for n in range(100)]
    with a_writer(memory, threads=4) as writer:
        done = writer.apply(writes)
    assert set(fates(done)) == {"done"}
    assert len(most) == 100
    assert max(most) <= 4 + 3  # those under way, and those whose threads are just about to let them go
    assert Body.alive == 0


def test_helpers_are_started_once_and_wait_without_looking_at_a_clock(gate, primitives):
    with a_writer(gate, primitives, threads=4) as writer:
        for job in range(10):
            writer.apply(creates(40, f"job{job}-"))
        assert len(primitives.started) <= 3
        assert set(primitives.timeouts) <= {None}


# ------------------------------------------------------------------------------------------------ stopping


def test_a_refusal_of_the_first_write_costs_one_request(memory):
    api = FaultyApi(memory)
    rule = api.refuse(quota(), "create", times=100)
    with a_writer(api) as writer:
        done = writer.apply(creates(50))
    assert fates(done) == ["refused"] + ["skipped"] * 49
    assert (done[0].error.message, done[1].error) == ("exceeded quota", None)
    assert rule.times == 99


@pytest.mark.parametrize(("error", "fate"), [(quota(), "refused"), (ApiError(429, "TooManyRequests", "busy"), "failed")])
def test_a_refusal_in_the_middle_ends_the_batch(memory, error, fate):
    api = FaultyApi(memory)
    api.refuse(error, "create", skip=5, times=100)
    with a_writer(api, threads=1) as writer:
        assert fates(writer.apply(creates(50))) == ["done"] * 5 + [fate] + ["skipped"] * 44


def test_what_nobody_wants_any_more_is_not_sent(memory):
    sent = iter((True, True, False))
    with a_writer(memory, threads=1) as writer:
        assert fates(writer.apply(creates(10), wanted=lambda: next(sent))) == ["done"] * 3 + ["skipped"] * 7


def test_what_is_under_way_at_a_refusal_ends_and_the_rest_is_never_sent(gate, memory, primitives):
    gate.api = FaultyApi(memory)
    gate.api.refuse(quota(), "create", when=lambda call: b'"p9"' in call.body)
    with a_writer(gate, primitives) as writer:
        gate.hold(lambda name: int(name[1:]) > 9)
        calling = Calling(writer, creates(200))
        gate.wait(lambda: gate.thread_of("p9") in primitives.waiting)  # so the refusal was heard
        gate.hold(lambda name: False)
        assert calling.fates()[:10] == ["done"] * 9 + ["refused"]
        stored = {pod.name for pod in memory.list(PODS).items}
        assert {each.write.name for each in calling.done if each.fate == "done"} == stored
        assert set(gate.requests) == stored | {"p9"}
        assert 9 <= len(stored) < 9 + 8
        assert set(calling.fates()) == {"done", "refused", "skipped"}
        assert fates(writer.apply(creates(3, "next"))) == ["done"] * 3  # another call is another matter


def test_a_name_that_somebody_has_does_not_stop_the_others_and_one_that_becomes_free_does(memory):
    for name in ("p0", "p3"):
        memory.create(PODS, a_pod(name), "default")
    standing = {"p0": "foreign", "p3": "wait"}
    writes = [msgspec.structs.replace(write, accept=lambda pod: standing.get(pod.name, "ours")) for write in creates(6)]
    with a_writer(memory, threads=1) as writer:
        assert fates(writer.apply(writes)) == ["foreign", "done", "done", "waiting", "skipped", "skipped"]


def test_an_exception_that_nobody_expected_is_a_failure_and_helpers_survive_it(memory, gate, primitives, caplog):
    class Broken(Gate):
        def create(self, resource, body, namespace="", **options):
            if b"odd" in body:
                raise ZeroDivisionError("what?")
            return super().create(resource, body, namespace, **options)

    with a_writer(Broken(memory), primitives, threads=3) as writer:
        for n in range(10):
            done = writer.apply([*creates(8, f"a{n}-"), *creates(8, f"odd{n}-")])
            assert fates(done)[:8] == ["done"] * 8
            assert set(fates(done)[8:]) <= {"failed", "skipped"}
            failed = next(each for each in done if each.fate == "failed")
            assert "ZeroDivisionError: what?" in failed.error.message
            assert failed.error.unknown
        assert all(thread.alive() for thread in primitives.started)
        assert len(primitives.started) == 2
    assert "ZeroDivisionError" in caplog.text
    assert "create of pods default/odd" in caplog.text


# ------------------------------------------------------------------------------------------------ several callers


def test_a_job_whose_first_write_hangs_delays_nobody(gate):
    with a_writer(gate, threads=2) as writer:
        gate.hold(lambda name: name.startswith("hung"))
        hung = [Calling(writer, creates(5, f"hung{n}-")) for n in range(6)]
        gate.wait(lambda: len(gate.under_way) == 6)
        assert set(fates(writer.apply(creates(20)))) == {"done"}
        gate.open()
        assert all(set(each.fates()) == {"done"} for each in hung)


def test_a_job_that_holds_every_helper_delays_nobody(gate):
    with a_writer(gate, threads=4) as writer:
        gate.hold(lambda name: name.startswith("hung") and int(name[4:]) >= 10)
        hung = Calling(writer, creates(40, "hung"))
        everybody = {"hung10", "hung11", "hung12", "hung13"}
        gate.wait(lambda: gate.under_way == everybody)
        for n in range(3):
            assert set(fates(writer.apply(creates(20, f"p{n}-")))) == {"done"}
        assert gate.under_way == everybody
        gate.open()
        assert set(hung.fates()) == {"done"}


def test_a_refused_job_stops_alone(memory):
    api = FaultyApi(memory)
    api.refuse(quota(), "create", when=lambda call: b'"bad' in call.body, times=100)
    with a_writer(api, threads=3) as writer:
        calls = [Calling(writer, creates(30, prefix)) for prefix in ("a", "bad", "b")]
        assert set(calls[0].fates()) == set(calls[2].fates()) == {"done"}
        assert calls[1].fates() == ["refused"] + ["skipped"] * 29


def test_helpers_serve_callers_in_turn(gate):
    with a_writer(gate, threads=3) as writer:
        gate.hold({"a1", "a2", "b1"}.__contains__)
        one = Calling(writer, creates(40, "a"))
        gate.wait(lambda: gate.under_way == {"a1", "a2"})  # a1 by its caller, a2 by a helper or the other way round
        other = Calling(writer, creates(40, "b"))
        gate.wait(lambda: gate.under_way == {"a1", "a2", "b1"})  # and that is the limit: one helper
        helped = next(name for name, thread in zip(gate.requests, gate.threads, strict=True) if thread.name == "writer")
        gate.hold({"b1", "a1" if helped == "a2" else "a2"}.__contains__)
        gate.wait(lambda: len(gate.requests) == 80)
        gate.open()
        assert set(one.fates()) == set(other.fates()) == {"done"}
    served = [name[0] for name, thread in zip(gate.requests, gate.threads, strict=True) if thread.name == "writer"]
    turns = served[:60]
    assert all(abs(turns[:n].count("a") - turns[:n].count("b")) <= 2 for n in range(len(turns)))


def test_helpers_make_room_for_callers(gate, primitives):
    with a_writer(gate, primitives, threads=3) as writer:
        gate.hold(lambda name: name != "a0")
        calls = [Calling(writer, creates(9, "a"))]
        gate.wait(lambda: gate.under_way == {"a1", "a2"})
        calls += [Calling(writer, creates(9, "b")), Calling(writer, creates(9, "c"))]
        gate.wait(lambda: gate.under_way == {"a1", "a2", "b0", "c0"})  # one more than the limit: callers need nobody's leave
        helped = next(name for name in ("a1", "a2") if gate.thread_of(name).name == "writer")
        gate.hold(lambda name: name != helped)
        gate.wait(lambda: gate.thread_of(helped) in primitives.waiting)
        assert len(gate.under_way) == len(gate.requests) - 2 == 3
        gate.open()
        assert all(set(each.fates()) == {"done"} for each in calls)


def test_callers_have_one_write_of_their_own_and_helpers_stay_below_the_limit(gate):
    with a_writer(gate, threads=3) as writer:
        calls = [Calling(writer, creates(30, f"job{n}-")) for n in range(6)]
        assert all(set(each.fates()) == {"done"} for each in calls)
    assert gate.most <= 6 + 2


def test_many_callers_with_faults_all_get_their_answers(memory):
    api = FaultyApi(memory)
    api.refuse(quota(), "create", when=lambda call: b'7"' in call.body, times=1000)
    with a_writer(api, threads=4) as writer:

        def work(job):
            for round in range(10):
                writes = creates(12, f"job{job}-{round}-")
                done = writer.apply(writes)
                assert [each.write for each in done] == writes
                assert fates(done)[7] == "refused"
                assert fates(done)[:7] == ["done"] * 7
                assert set(fates(done)[8:]) <= {"done", "skipped"}
            finished.append(job)

        finished: list[int] = []
        threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(finished) == list(range(8))
        assert writer.stop()


# ------------------------------------------------------------------------------------------------ the end


def test_after_the_end_nothing_is_sent(gate, primitives):
    with a_writer(gate, primitives, threads=3) as writer:
        writer.apply(creates(20))
        assert writer.stop()
        assert fates(writer.apply(creates(3, "late"))) == ["skipped"] * 3
    assert all(thread.join(PATIENCE) for thread in primitives.started)
    assert primitives.started
    assert not any(name.startswith("late") for name in gate.requests)


def test_the_end_waits_for_what_is_under_way_and_skips_the_rest(gate):
    with a_writer(gate, threads=3) as writer:
        gate.hold(lambda name: True)
        calling = Calling(writer, creates(10))
        gate.wait(lambda: len(gate.under_way) == 1)
        assert not writer.stop()
        assert not writer.stop(0.01)
        gate.open()
        assert writer.stop(None)
        assert calling.fates() == ["done"] + ["skipped"] * 9


def test_without_threads_to_start_callers_do_everything_themselves(gate, caplog):
    class Poor(System):
        def start(self, name, run):
            raise RuntimeError("can't start new thread")

    with a_writer(gate, Poor()) as writer:
        assert set(fates(writer.apply(creates(30)))) == {"done"}
        assert writer.stop()
    assert caplog.text.count("can't start new thread") == 1


def test_threads_that_could_not_be_started_are_started_later(gate):
    class Moody(System):
        starts = 0

        def start(self, name, run):
            self.starts += 1
            if self.starts == 1:
                raise RuntimeError("can't start new thread")
            return super().start(name, run)

    with a_writer(gate, Moody(), threads=3) as writer:
        writer.apply(creates(5, "alone"))
        assert gate.most == 1
        gate.hold(lambda name: int(name[1:]) >= 10)
        calling = Calling(writer, creates(20))
        gate.wait(lambda: gate.under_way == {"p10", "p11", "p12"})
        gate.open()
        assert set(calling.fates()) == {"done"}


def test_a_caller_that_is_interrupted_leaves_nothing_to_be_sent(gate, primitives):
    class InterruptedError(BaseException):
        pass

    def is_caller():
        return threading.current_thread() is threading.main_thread()

    class Interrupting(FaultyApi):
        def create(self, *args, **options):
            if is_caller() and gate.succeeded > 5:
                gate.wait(lambda: gate.under_way)  # a helper is at work
                raise InterruptedError
            return super().create(*args, **options)

    with a_writer(Interrupting(gate), primitives, threads=2) as writer:
        gate.hold(lambda name: int(name[1:]) > 5 and not is_caller())
        with pytest.raises(InterruptedError):
            writer.apply(creates(1000))
        gate.open()
        gate.wait(lambda: len(primitives.waiting) == 1)
        assert len(gate.requests) < 10


def test_a_call_leaves_nothing_behind(gate, primitives):
    def accept(pod):
        return "ours"

    with a_writer(gate, primitives) as writer:
        assert set(fates(writer.apply([msgspec.structs.replace(write, accept=accept) for write in creates(30)]))) == {"done"}
        gate.wait(lambda: len(primitives.waiting) == len(primitives.started) > 0)
        left = weakref.ref(accept)
        del accept
        gc.collect()
        assert left() is None


# ------------------------------------------------------------------------------------------------ in every order


def stepped(seed, jobs=3, ranks=10, threads=3, refused=(), crash=None):
    """Callers under the seeded scheduler: what each got, what is stored, how many were under way, and the trace."""
    with World(seed) as world:
        process, api = world.process("controller")
        faulty = FaultyApi(api)
        for name in refused:
            faulty.refuse(quota(), "create", when=lambda call, name=name: f'"{name}"'.encode() in call.body)
        if crash:
            api.crash_at(*crash)
        writer = Writer(faulty, threads=threads, primitives=process, own_writes=OwnWrites({}))
        got = {}

        def work(job):
            got[job] = writer.apply(creates(ranks, f"job{job}-"))

        for job in range(jobs):
            process.start("caller", lambda job=job: work(job))
        world.stepped.run()
        return got, {pod.name for pod in world.api.list(PODS).items}, _under_way(world.stepped.trace), world.stepped.trace


def _under_way(trace):
    """How many creates were under way at most, in sum and of each job."""
    now, most = Counter(), Counter()
    for line in trace:
        for step, change in (("before create pods default/", 1), ("after create pods default/", -1)):
            if step in line:
                job = line.partition(step)[2].partition("-")[0]
                now[job] += change
                now["all"] += change
        most |= now
    return most


@pytest.mark.parametrize("seed", range(25))
def test_in_every_order_everybody_gets_everything_within_the_limits(seed):
    got, stored, most, _ = stepped(seed)
    assert {job: set(fates(done)) for job, done in got.items()} == {job: {"done"} for job in range(3)}
    assert len(stored) == 30
    assert most["all"] <= 3 + 2
    assert all(most[f"job{job}"] <= 3 for job in range(3))


@pytest.mark.parametrize("seed", range(25))
def test_in_every_order_a_refusal_stops_its_own_call_only(seed):
    got, stored, _, _ = stepped(seed, refused=["job1-0", "job2-4"])
    assert set(fates(got[0])) == {"done"}
    assert fates(got[1]) == ["refused"] + ["skipped"] * 9
    assert fates(got[2])[:5] == ["done"] * 4 + ["refused"]
    assert {each.write.name for done in got.values() for each in done if each.fate == "done"} == stored


def test_the_pool_is_really_used():
    assert max(stepped(seed, jobs=1)[2]["all"] for seed in range(10)) == 3


def test_the_same_seed_gives_the_same_order():
    assert stepped(7)[3] == stepped(7)[3]
    assert stepped(7)[3] != stepped(8)[3]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [1, 4, 17])
def test_a_crash_in_the_middle_ends_everything(write, when):
    got, stored, _, _ = stepped(3, crash=(write, when))
    assert got == {}
    assert len(stored) == write - (when == "before")
