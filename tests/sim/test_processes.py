"""Simulated processes: locks that are taken by turns, and crashes."""

import pytest

from genericjob.reconcile.primitives import Flag
from sim.processes import Crashed, SimulationError
from sim.scheduler import Stepped

SEEDS = range(30)


def test_a_lock_is_held_by_one_thread():
    for seed in SEEDS:
        with Stepped(seed) as stepped:
            process, inside, most = stepped.process("p"), [], []
            lock = process.condition()

            def working(process=process, lock=lock, inside=inside, most=most):
                with lock:
                    inside.append(1)
                    process.pause()
                    most.append(len(inside))
                    inside.pop()

            for _ in range(4):
                process.start("works", working)
            stepped.run()
            assert most == [1, 1, 1, 1]


def test_who_is_notified_goes_on_when_the_lock_is_free():
    for seed in SEEDS:
        with Stepped(seed) as stepped:
            process, order = stepped.process("p"), []
            changed = process.condition()

            def waiting(changed=changed, order=order):
                with changed:
                    changed.wait()
                    order.append("woken")

            def notifying(process=process, changed=changed, order=order):
                with changed:
                    changed.notify()
                    process.pause()
                    order.append("notified")

            process.start("waits", waiting)
            stepped.run()
            process.start("notifies", notifying)
            stepped.run()
            assert order == ["notified", "woken"]


def test_any_of_those_who_wait_may_be_notified():
    def first(seed):
        with Stepped(seed) as stepped:
            process, woken = stepped.process("p"), []
            changed = process.condition()

            def waiting(name):
                with changed:
                    changed.wait()
                    woken.append(name)

            for name in "ab":
                process.start(name, lambda name=name: waiting(name))
                stepped.run()
            with changed:
                changed.notify()
            stepped.run()
            return woken

    assert {*map(tuple, map(first, SEEDS))} == {("a",), ("b",)}


def test_notify_wakes_so_many_and_no_more(stepped):
    process, woken = stepped.process("p"), []
    changed = process.condition()

    def waiting():
        with changed:
            woken.append(changed.wait())

    for _ in range(5):
        process.start("waits", waiting)
    for n, total in ((1, 1), (2, 3), (9, 5)):
        stepped.run()
        with changed:
            changed.notify(n)
        stepped.run()
        assert woken == [True] * total
    with pytest.raises(RuntimeError):
        changed.notify()
    with pytest.raises(RuntimeError):
        changed.wait()


def test_a_thread_that_was_not_begun_never_runs(stepped):
    process, begun = stepped.process("p"), []
    process.start("late", lambda: begun.append(1))
    process.crash()
    stepped.advance(1)
    assert begun == []


def test_a_thread_can_crash_its_own_process_and_another(stepped):
    one, two, seen = stepped.process("one"), stepped.process("two"), []

    def murder():
        two.crash()
        seen.append("two")
        one.crash()
        seen.append("never")

    one.start("sleeps", lambda: (one.sleep(10), seen.append("never")))
    two.start("sleeps", lambda: (two.sleep(10), seen.append("never")))
    stepped.run()
    one.start("murders", murder)
    stepped.advance(100)
    assert seen == ["two"]
    assert one.threads == two.threads == []


def test_a_crash_frees_the_test_that_waits_inside(stepped):
    process = stepped.process("p")
    thread = process.start("sleeps", lambda: process.sleep(100))
    stepped.process("other").start("crashes", lambda: (stepped.block_until(lambda: False, timeout=1), process.crash()))
    with pytest.raises(Crashed):
        thread.join()
    assert stepped.monotonic() == 1


def test_a_crash_frees_the_test_that_waits_for_a_flag_of_the_dead(stepped):
    process = stepped.process("p")
    stepped.process("other").start("crashes", process.crash)
    with pytest.raises(Crashed):
        Flag(process).wait()


def test_what_a_dying_thread_raises_is_nobodys_business(stepped):
    process = stepped.process("p")

    def dying():
        try:
            process.sleep(100)
        finally:
            raise ValueError("on the way out")

    process.start("dies", dying)
    stepped.run()
    process.crash()
    stepped.advance(1)
    assert process.threads == []


def test_a_crash_opens_locks_for_nobody_else(stepped):
    """A thread of another process that shared a condition goes on: the dead hold no locks, and take no notifications."""
    dead, alive, seen = stepped.process("dead"), stepped.process("alive"), []
    shared = alive.condition()

    def waiting(name):
        with shared:
            shared.wait()
            seen.append(name)

    dead.start("waits", lambda: waiting("dead"))
    alive.start("waits", lambda: waiting("alive"))
    stepped.run()
    dead.crash()
    with shared:
        shared.notify()
    stepped.run()
    assert seen == ["alive"]


def test_a_process_that_stands_still_notices_nothing_until_it_goes_on(stepped):
    frozen, other = stepped.process("frozen"), stepped.process("other")
    seen = []

    def tick(process):
        while True:
            process.sleep(1.0)
            seen.append((process.name, process.monotonic()))

    for process in (frozen, other):
        process.start("ticks", lambda process=process: tick(process))
    stepped.advance(1.5)
    stepped.freeze(frozen)
    stepped.advance(3.0)
    assert [time for name, time in seen if name == "frozen"] == [1.0]
    assert [time for name, time in seen if name == "other"] == [1.0, 2.0, 3.0, 4.0]
    stepped.thaw(frozen)
    stepped.advance(1.0)
    assert [time for name, time in seen if name == "frozen"] == [1.0, 4.5, 5.5]  # its timer had run out long ago


def test_a_thread_can_make_its_own_process_stand_still_and_others_can_kill_it(stepped):
    process, done = stepped.process("p"), []

    def stops():
        stepped.freeze(process)
        process.pause()
        done.append("went on")

    process.start("stops", stops)
    stepped.advance(10.0)
    process.start("comes later", lambda: done.append("ran"))
    stepped.advance(10.0)
    assert done == []
    process.crash()
    assert process.threads == done == []


def test_a_thread_that_ends_because_another_process_is_dead_is_found(stepped):
    dead, living = stepped.process("dead"), stepped.process("living")
    dead.crash()
    living.start("asks", lambda: dead.sleep(1.0))
    with pytest.raises(SimulationError, match="living/asks ended because another process is dead"):
        stepped.run()
