"""The seeded scheduler: the same seed is the same run, time is virtual, and what goes wrong reaches the test."""

import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import Flag
from genericjob.reconcile.queue import Queue
from sim.copying import a_run
from sim.processes import DeadlockError, NotReachedError, RunawayError, SimulationError, ThreadDiedError
from sim.scheduler import Stepped

SEEDS = range(30)

# ------------------------------------------------------------------------------------------------ the seed


def test_the_same_seed_is_the_same_run():
    for seed in SEEDS:
        assert a_run(seed) == a_run(seed)


def test_another_seed_is_another_run():
    assert len({tuple(a_run(seed)) for seed in SEEDS}) == len(SEEDS)


def test_another_process_with_another_order_of_hashes_has_the_same_run():
    there = "from sim.copying import a_run; print(*a_run(7), sep='\\n')"
    paths = os.pathsep.join(str(path) for path in (Path(__file__).parents[1], Path(__file__).parents[2]))

    def elsewhere(hashes):
        environment = os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": paths}
        return subprocess.Popen([sys.executable, "-c", there], env=environment, stdout=subprocess.PIPE, text=True)

    expected = a_run(7)
    for run in [elsewhere("1"), elsewhere("2")]:
        assert run.communicate()[0].splitlines() == expected


def test_every_order_comes_up():
    orders = set()
    for seed in SEEDS:
        with Stepped(seed) as stepped:
            process = stepped.process("p")
            order = []
            for name in "abc":
                process.start(name, partial(order.append, name))
            stepped.run()
            orders.add("".join(order))
    assert len(orders) == 6


def test_a_race_is_lost_with_some_seeds_and_won_with_others():
    def total(seed):
        with Stepped(seed) as stepped:
            process, counter = stepped.process("p"), {"value": 0}

            def increment():
                value = counter["value"]
                process.pause()
                counter["value"] = value + 1

            for _ in range(2):
                process.start("increments", increment)
            stepped.run()
            return counter["value"]

    assert {total(seed) for seed in SEEDS} == {1, 2}


def test_chance_and_identities_come_from_the_seed():
    def drawn(seed):
        with Stepped(seed) as stepped:
            first, second = stepped.process("a"), stepped.process("a")
            assert first.random() != second.random()
            return [first.random(), second.random(), first.new_id(), second.new_id(), stepped.new_uid(), stepped.new_uid()]

    assert drawn(3) == drawn(3)
    assert drawn(3)[0] != drawn(4)[0]
    assert len(set(drawn(3)[2:])) == 4


# ------------------------------------------------------------------------------------------------ the clock


def test_the_clock_jumps_from_timer_to_timer(stepped):
    process, seen, began = stepped.process("p"), [], stepped.now()

    def sleeping(seconds):
        process.sleep(seconds)
        seen.append((process.monotonic(), (process.now() - began).total_seconds()))

    for seconds in (7200, 0.25, 3600):
        process.start("sleeps", lambda seconds=seconds: sleeping(seconds))
    stepped.advance(3600)
    assert seen == [(0.25, 0.25), (3600, 3600)]
    stepped.advance(100_000)
    assert seen[2:] == [(7200, 7200)]
    assert stepped.monotonic() == 103_600


def test_time_stands_still_while_others_run(stepped):
    process, seen = stepped.process("p"), []
    process.start("sleeps", lambda: (process.sleep(1), seen.append("late")))
    process.start("goes on", lambda: (process.sleep(0), seen.append("soon")))
    assert stepped.run()
    assert (seen, stepped.monotonic()) == (["soon"], 0)


def test_a_wait_that_ends_early_leaves_no_timer_behind(stepped):
    process = stepped.process("p")
    changed, woken = process.condition(), []

    def waiting():
        for _ in range(1000):
            with changed:
                woken.append(changed.wait(5))

    process.start("sleeps", lambda: process.sleep(1))  # a timer before all of those
    process.start("waits", waiting)
    for _ in range(999):
        stepped.run()
        with changed:
            changed.notify_all()
    assert len(stepped._timers) < 200
    stepped.advance(4)
    assert woken == [True] * 999
    stepped.advance(1)
    assert woken[-1] is False


@pytest.mark.parametrize("seconds", [1e-12, 1e-9, 0.1 + 0.2])
def test_no_wait_is_too_short_to_move_the_clock(stepped, seconds):
    process, ended = stepped.process("p"), []

    def waiting():
        began = process.monotonic()
        while process.monotonic() == began:
            process.sleep(seconds)
        ended.append(Flag(process).wait(seconds))

    process.start("waits", waiting)
    stepped.advance(1)
    assert ended == [False]


def test_whatever_makes_the_test_wait_lets_time_pass(stepped):
    process = stepped.process("p")
    thread = process.start("sleeps", lambda: process.sleep(50))
    stepped.run(lambda: True)
    process.sleep(10)
    assert stepped.monotonic() == 10
    assert not thread.join(5)
    assert thread.alive()
    assert thread.join()
    assert not thread.alive()
    assert stepped.monotonic() == 50
    assert not Flag(process).wait(2)
    assert stepped.monotonic() == 52


def test_the_test_can_wait_for_something_to_happen(stepped):
    process, seen = stepped.process("p"), []
    process.start("counts", lambda: [(process.sleep(1), seen.append(n)) for n in range(10)])
    stepped.reach(lambda: len(seen) == 3)
    assert stepped.monotonic() == 3
    assert not stepped.run(lambda: len(seen) == 4)
    assert stepped.advance(100, until=lambda: len(seen) == 4)
    assert stepped.monotonic() == 4
    with pytest.raises(NotReachedError, match=r"p/counts sleeps 1, at .*test_scheduler.py"):
        stepped.reach(lambda: len(seen) == 11, within=2)


def test_a_thread_can_wait_for_something_to_happen(stepped):
    process, seen = stepped.process("p"), []
    process.start("counts", lambda: [(process.sleep(1), seen.append(n)) for n in range(10)])
    process.start("waits", lambda: seen.append(stepped.block_until(lambda: 3 in seen)))
    process.start("waits", lambda: seen.append(stepped.block_until(lambda: 99 in seen, timeout=1.5)))
    stepped.advance(100)
    assert seen == [0, False, 1, 2, 3, True, *range(4, 10)]


def test_a_predicate_is_asked_at_every_step_and_holds_when_its_thread_goes_on():
    def found(seed):
        with Stepped(seed) as stepped:
            process, value, seen = stepped.process("p"), [0], []

            def counting():
                for n in range(4):
                    value[0] = n
                    process.pause()

            process.start("waits", lambda: stepped.block_until(lambda: value[0] == 1, timeout=1) and seen.append(value[0]))
            stepped.run()
            process.start("counts", counting)
            stepped.advance(1)
            return tuple(seen)

    assert {found(seed) for seed in SEEDS} == {(1,), ()}


def test_a_predicate_that_nobody_waits_for_any_more_is_not_asked(stepped):
    process, asked = stepped.process("p"), []
    process.start("waits", lambda: (stepped.block_until(lambda: asked.append(1), timeout=1), process.sleep(10)))
    stepped.advance(2)
    asked.clear()
    stepped.advance(100)
    assert asked == []


def test_predicates_may_look_at_what_others_hold():
    for seed in SEEDS:
        with Stepped(seed) as stepped:
            process, order = stepped.process("p"), []
            lock, queue = process.condition(), Queue(primitives=process, metrics=Metrics().queue("q"))

            def holding(process=process, order=order, lock=lock, queue=queue):
                with lock:
                    process.sleep(1)
                    queue.add("key")
                    order.append("first")

            def wanting(order=order, lock=lock):
                with lock:
                    order.append("second")

            def seen(lock=lock, queue=queue):
                with lock:
                    return not queue.idle()

            process.start("holds", holding)
            stepped.run()
            process.start("wants", wanting)
            stepped.reach(seen)
            assert stepped.monotonic() == 1
            stepped.run()
            assert order == ["first", "second"]


# ------------------------------------------------------------------------------------------------ what goes wrong


def test_locks_taken_in_opposite_orders_are_a_deadlock():
    def taking(one, other):
        with one, other:
            pass

    def found(seed):
        with Stepped(seed) as stepped:
            process = stepped.process("p")
            first, second = process.condition(), process.condition()
            process.start("takes", lambda: taking(first, second))
            process.start("takes", lambda: taking(second, first))
            try:
                stepped.run()
            except DeadlockError as error:
                return "waits for a lock that p/takes" in str(error)
            return None

    assert {found(seed) for seed in SEEDS} == {True, None}


def test_a_lock_taken_twice_is_a_deadlock(stepped):
    process = stepped.process("p")
    lock = process.condition()

    def twice():
        with lock, lock:
            pass

    process.start("takes", twice)
    with pytest.raises(DeadlockError):
        stepped.run()
    with pytest.raises(DeadlockError):
        twice()


def test_threads_that_wait_for_each_others_end_are_a_deadlock(stepped):
    process, threads = stepped.process("p"), []
    threads += [process.start("joins", lambda: threads[1].join()), process.start("joins", lambda: threads[0].join())]
    with pytest.raises(DeadlockError):
        stepped.run()


def test_a_test_that_waits_for_what_nobody_will_do_is_a_deadlock(stepped):
    process = stepped.process("p")
    process.start("waits", lambda: Flag(process).wait())
    with pytest.raises(DeadlockError, match=r"nothing can happen any more. Threads:\n  p/waits waits, at .*primitives.py"):
        Flag(process).wait()


def test_a_loop_without_an_end_is_found(stepped):
    process = stepped.process("p")

    def spinning():
        while True:
            process.pause("again")

    process.start("spins", spinning)
    with pytest.raises(RunawayError, match=r"500 steps, and no end. The last ones:\n.*p/spins: again"):
        stepped.run(limit_steps=500)


def test_what_blocks_for_real_is_found(stepped, monkeypatch):
    monkeypatch.setattr("sim.scheduler.PATIENCE", 0.05)
    process, really = stepped.process("p"), threading.Event()
    process.start("blocks", really.wait)
    with pytest.raises(RunawayError, match=r"p/blocks runs without end, or blocks for real, at .*threading.py"):
        stepped.run()
    real = next(thread for thread in threading.enumerate() if thread.name == "p/blocks")
    really.set()
    real.join()


def test_what_escapes_from_a_thread_reaches_the_test(stepped):
    process, seen = stepped.process("p"), []
    process.start("fails", lambda: 1 // 0)
    with pytest.raises(ThreadDiedError, match="p/fails") as caught:
        stepped.run()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    process.start("goes on", lambda: seen.append(1))
    stepped.run()
    assert seen == [1]


def test_a_test_that_waited_when_a_thread_died_goes_on_as_before():
    for seed in SEEDS:
        with Stepped(seed) as stepped:
            process = stepped.process("p")
            flag, never = Flag(process), Flag(process)
            process.start("fails", lambda process=process: (process.sleep(1), 1 // 0))
            with pytest.raises(ThreadDiedError):
                never.wait(5)
            stepped.advance(9)
            assert stepped.monotonic() == 10
            process.start("wakes the test and fails", lambda flag=flag: (flag.set(), 1 // 0))
            with pytest.raises(ThreadDiedError):
                flag.wait()
            for _ in range(3):
                process.start("pauses", lambda process=process: [process.pause() for _ in range(5)])
            stepped.run()
            assert process.threads == []
            stepped.advance(100)
            assert stepped.monotonic() == 110


def test_an_error_in_a_predicate_reaches_the_test(stepped):
    process = stepped.process("p")
    process.start("waits", lambda: stepped.block_until(lambda: stepped.steps > 5 and 1 // 0))
    process.start("sleeps", lambda: [process.sleep(1) for _ in range(10)])
    with pytest.raises(ZeroDivisionError):
        stepped.advance(10)


def test_a_predicate_must_not_wait(stepped):
    process = stepped.process("p")
    process.start("sleeps", lambda: process.sleep(1))
    with pytest.raises(SimulationError, match="a predicate must not wait"):
        stepped.advance(10, until=lambda: process.sleep(1))


def test_a_thread_that_nobody_knows_is_found(stepped):
    process, caught = stepped.process("p"), []

    def stranger():
        with pytest.raises(SimulationError, match="who started it"):
            process.pause()
        caught.append(1)

    thread = threading.Thread(target=stranger)
    thread.start()
    thread.join()
    assert caught == [1]


def test_only_the_test_runs_others(stepped):
    process = stepped.process("p")
    process.start("runs", stepped.run)
    with pytest.raises(ThreadDiedError) as caught:
        stepped.run()
    assert isinstance(caught.value.__cause__, SimulationError)
