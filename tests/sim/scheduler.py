"""A seeded scheduler on a virtual clock, for real threads.

Components get their time, threads and waiting from `Primitives` (`genericjob/reconcile/primitives.py`). Here these are a game with one
baton: a thread runs only while it holds it. Whenever a thread starts another, takes a lock, waits, sleeps or talks to the API, the seed
says who goes on; it hands the baton over and stands still. The clock moves only when everybody stands still, and then to the next timer. So
a run is decided by its seed and by nothing else, and can be repeated.

The test's own thread has the baton when nobody else has, and is never interrupted. `run` and `advance` lend the baton out. So does whatever
makes the test wait (`sleep`, `wait`, `join`): the clock then moves as far as needed.
"""

import heapq
import random
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any, Self

from sim import processes
from sim.processes import Bell, Crashed, DeadlockError, NotReachedError, Process, RunawayError, SimulationError, SteppedThread

START = datetime(2026, 1, 1, tzinfo=UTC)
STEPS = 200_000
"""A run that takes more steps than this is taken for a loop."""
PATIENCE = 30.0
"""Real seconds that a thread may run without coming to a scheduling point."""
SECOND = 1_000_000_000
"""The clock counts nanoseconds, as integers: with floats a wait can be too short to move the clock at all, and so never end."""
ENDLESS = 1 << 62
SPARE_TIMERS = 64
LAST_LINES = 20


class Stepped:
    """The scheduler. Whatever has the same seed and does the same has the same trace."""

    def __init__(self, seed: int, *, start: datetime = START, limit_steps: int = STEPS) -> None:
        self.seed = seed
        self.steps = 0
        self.chance = random.Random(seed).random
        self._start, self._time = start, 0
        self._limit_steps, self._limit, self._lent = limit_steps, 0, 0
        self._ids, self._uids, self._order = count(1), count(1), count()
        self._trace: list[tuple[int, int, str, str]] = []
        self._names: dict[str, int] = {}
        self._processes: list[Process] = []
        self._started: list[SteppedThread] = []
        self._main = SteppedThread(Process(self, "test"), "test")
        self._main.ident = get_ident()
        self._current = self._main
        self._runnable: list[SteppedThread] = []
        """Who could go on, except the current thread. Their order is an accident, but the same one every time."""
        self._frozen: dict[Process, list[SteppedThread]] = {}
        """Processes that stand still as a whole, and which of their threads could go on."""
        self._timers: list[tuple[int, int, SteppedThread, int]] = []
        self._sweep_at = SPARE_TIMERS
        self._polled: list[tuple[SteppedThread, Callable[[], bool]]] = []
        self._until: Callable[[], bool] | None = None
        self._horizon = 0
        """How far the clock may move while the test waits."""
        self._failure: BaseException | None = None
        self.asking = False
        """While a predicate is asked. It may take locks, even those that others hold: it only looks."""

    # -------------------------------------------------------------------------------------------- for tests

    def process(self, name: str) -> Process:
        """A new process; the second of a name is called `name-2`, and so on."""
        process = Process(self, self.unique(name))
        self._processes.append(process)
        return process

    def run(self, until: Callable[[], bool] | None = None, *, limit_steps: int | None = None) -> bool:
        """Let others go on until nobody can at the present time, or until the predicate holds; whether it does."""
        return self.advance(0.0, until=until, limit_steps=limit_steps)

    def advance(self, seconds: float, *, until: Callable[[], bool] | None = None, limit_steps: int | None = None) -> bool:
        """Let so much time pass, from timer to timer, or less if the predicate holds earlier; whether it does."""
        self._until, self._horizon = until, self._time + _nanoseconds(seconds)
        self._lend(limit_steps or self._limit_steps)
        return until is None or self._holds(until)

    def reach(self, predicate: Callable[[], bool], *, within: float = 600.0, limit_steps: int | None = None) -> None:
        """Let time pass until the predicate holds; an error if it does not."""
        if not self.advance(within, until=predicate, limit_steps=limit_steps):
            raise NotReachedError(f"not reached in {within} s. Threads:\n{self.describe()}")

    @property
    def trace(self) -> list[str]:
        """What happened: step, virtual time, thread, what."""
        return [_line(*entry) for entry in self._trace]

    def describe(self) -> str:
        """Who stands where."""
        frames = sys._current_frames()
        threads = [thread for process in self._processes for thread in process.threads]
        return "\n".join(f"  {thread.name} {thread.doing}, at {_place(frames.get(thread.ident))}" for thread in threads) or "  none"

    def close(self) -> None:
        """End all threads."""
        if self._current is self._main:
            for process in self._processes:
                process.crash()
            for thread in self._started:
                thread.gone(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -------------------------------------------------------------------------------------------- for whatever is simulated

    def now(self) -> datetime:
        """The virtual time of day."""
        return self._start + timedelta(microseconds=self._time // 1000)

    def monotonic(self) -> float:
        """Virtual seconds since the beginning."""
        return self._time / SECOND

    def new_id(self) -> str:
        """A text that nobody else has in this run."""
        return f"id-{next(self._ids)}"

    def new_uid(self) -> str:
        """An identity for an object of the API."""
        return f"uid-{next(self._uids)}"

    def unique(self, name: str) -> str:
        """This name, numbered from the second time on."""
        used = self._names[name] = self._names.get(name, 0) + 1
        return name if used == 1 else f"{name}-{used}"

    def note(self, what: str) -> None:
        """Leave a line in the trace."""
        self._trace.append((self.steps, self._time, self._current.name, what))

    def pause(self, what: str = "") -> None:
        """A place where another thread may go on first, with a line in the trace if there is something to say."""
        if self.asking:
            return
        me = self.me()
        if me.process.crashed:
            raise Crashed
        if what:
            self._trace.append((self.steps, self._time, me.name, what))
        if me is self._main:
            return
        self.steps += 1
        runnable = self._runnable
        if self._until is not None or self._polled or self._frozen or self.steps >= self._limit:
            self._ready(me)
            self._hand_over(me, self._choose())
        elif runnable:
            n = int(self.chance() * (len(runnable) + 1))
            if n < len(runnable):
                other, runnable[n] = runnable[n], me
                self._hand_over(me, other)

    def block_until(self, predicate: Callable[[], bool], *, timeout: float | None = None) -> bool:
        """Stand still until the predicate holds, so long at most; whether it does. It is asked at every step: keep it cheap."""
        me = self.me()
        deadline = None if timeout is None else self.monotonic() + timeout
        while not self._holds(predicate):
            left = None if deadline is None else deadline - self.monotonic()
            if left is not None and left <= 0:
                return False
            entry = me, predicate
            self._polled.append(entry)
            try:
                self.block(me, left, "waits for a predicate")
            finally:
                if entry in self._polled:
                    self._polled.remove(entry)
        return True

    def bell(self, lock: Any) -> Any:
        """What the watches of a `MemoryApi` wait on: its argument `condition`, as far as it needs one."""
        return Bell(self, lock)

    # -------------------------------------------------------------------------------------------- for processes: who goes on

    def me(self) -> SteppedThread:
        """The thread that has the baton."""
        me = self._current
        if me.ident != get_ident():
            raise SimulationError(f"{threading.current_thread().name} runs, although it is {me.name}'s turn: who started it?")
        return me

    def begin(self, thread: SteppedThread) -> None:
        """A new thread may go on."""
        self._started = [*(other for other in self._started if not other.gone()), thread]
        self._ready(thread)

    def block(self, me: SteppedThread, timeout: float | None, doing: str) -> None:
        """Stand still until woken, so long at most."""
        if self.asking:
            raise SimulationError("a predicate must not wait")
        if me.process.crashed:
            raise Crashed
        me.blocked, me.doing = True, doing
        self.steps += 1
        if timeout is not None:
            self._set_timer(me, timeout)
        if me is self._main:
            self._horizon = ENDLESS
            self._lend(self._limit_steps)
        else:
            self._hand_over(me, self._choose())
        me.doing = "runs"

    def wake(self, thread: SteppedThread) -> None:
        """Let a thread that stands still go on, when its turn comes."""
        if thread.blocked:
            self._release(thread)
            self._ready(thread)

    def freeze(self, process: Process) -> None:
        """Let a process stand still as a whole, as SIGSTOP does: its timers run out, it is sent things, and it notices nothing.

        A thread that does so to its own process stands still at its next scheduling point.
        """
        if not process.crashed and process not in self._frozen:
            process.frozen = True
            self.note(f"{process.name} stands still")
            self._frozen[process] = [thread for thread in self._runnable if thread.process is process]
            self._runnable[:] = [thread for thread in self._runnable if thread.process is not process]

    def thaw(self, process: Process) -> None:
        """Let it go on."""
        if process in self._frozen:
            process.frozen = False
            self.note(f"{process.name} goes on")
            self._runnable += self._frozen.pop(process)

    def fail(self, error: BaseException) -> None:
        """Give the baton back to the test, with an error; what was wrong first counts."""
        self._failure = self._failure or error

    def check_deadlock(self, me: SteppedThread) -> None:
        """Notice a circle of threads of which each waits for the next."""
        seen, other = [me], me.waits_for()
        while other is not None:
            if other in seen:
                self.fail(DeadlockError(f"{me.name} waits in a circle. Threads:\n{self.describe()}"))
                return
            seen.append(other)
            other = other.waits_for()

    def unwind(self, thread: SteppedThread) -> None:
        """Let a thread of a crashed process run to its end, now."""
        me = self.me()
        if thread.blocked:
            self._release(thread)
        else:
            self._runnable.remove(thread)
        thread.unwinder = me
        self._pass(me, thread)

    def finish(self, thread: SteppedThread) -> None:
        """A thread is at its end: pass the baton on for the last time."""
        other = thread.unwinder or self._choose()
        self._current = other
        other.baton.release()

    def free_test(self, process: Process) -> None:
        """The test's own thread may be waiting inside a process that has crashed."""
        if self._main.inside is process:
            self.wake(self._main)

    # -------------------------------------------------------------------------------------------- inside

    def _lend(self, limit_steps: int) -> None:
        """Give the baton away, until it comes back."""
        main = self.me()
        if main is not self._main:
            raise SimulationError("only the test's own thread lets others run")
        self._limit, self._lent = self.steps + limit_steps, limit_steps
        self._hand_over(main, self._choose())
        self._until, self._horizon = None, self._time
        if self._failure is not None:
            if main.blocked:
                self._release(main)
            if main in self._runnable:
                self._runnable.remove(main)
            failure, self._failure = self._failure, None
            raise failure

    def _hand_over(self, me: SteppedThread, other: SteppedThread) -> None:
        if other is not me:
            self._pass(me, other)
            if me.process.crashed:
                raise Crashed

    def _pass(self, me: SteppedThread, other: SteppedThread) -> None:
        self._current = other
        other.baton.release()
        if me is not self._main:
            me.baton.acquire()
            return
        steps = -1
        while not me.baton.acquire(timeout=PATIENCE):
            if steps == self.steps:
                where = _place(sys._current_frames().get(self._current.ident))
                raise RunawayError(f"{self._current.name} runs without end, or blocks for real, at {where}")
            steps = self.steps

    def _choose(self) -> SteppedThread:
        """Whose turn it is, now that the current thread has had its own."""
        runnable = self._runnable
        while True:
            if self._failure is not None or ((self._until is not None or self._polled) and self._reached()):
                return self._main
            if self.steps >= self._limit:
                self.fail(RunawayError(f"{self._lent} steps, and no end. The last ones:\n" + "\n".join(self.trace[-LAST_LINES:])))
                return self._main
            if runnable:
                n = int(self.chance() * len(runnable))
                chosen, runnable[n] = runnable[n], runnable[-1]
                runnable.pop()
                return chosen
            if not self._tick():
                return self._main

    def _reached(self) -> bool:
        """Ask the predicates that threads wait for, and the one that the test waits for; whether that one holds."""
        try:
            for entry in [entry for entry in self._polled if self._holds(entry[1])]:
                self._polled.remove(entry)
                self.wake(entry[0])
            return self._until is not None and self._holds(self._until)
        except Exception as error:
            self.fail(error)  # it belongs to the test, in whichever thread it happens
            return True

    def _holds(self, predicate: Callable[[], bool]) -> bool:
        self.asking = True
        try:
            return predicate()
        finally:
            self.asking = False

    def _tick(self) -> bool:
        """Nobody can go on: move the clock to the next timer, unless that is farther than the test will wait."""
        timers = self._timers
        while timers and not _counts(timers[0]):
            heapq.heappop(timers)
        if not timers and self._horizon == ENDLESS:
            self.fail(DeadlockError(f"nothing can happen any more. Threads:\n{self.describe()}"))
            return True
        if not timers or timers[0][0] > self._horizon:
            self._time = self._horizon
            return False
        self._time = max(self._time, timers[0][0])
        while timers and timers[0][0] <= self._time:
            timer = heapq.heappop(timers)
            if _counts(timer):
                self.wake(timer[2])
        return True

    def _set_timer(self, thread: SteppedThread, seconds: float) -> None:
        nanoseconds = max(1, _nanoseconds(seconds)) if seconds > 0 else 0
        heapq.heappush(self._timers, (self._time + nanoseconds, next(self._order), thread, thread.turn))
        if len(self._timers) > self._sweep_at:
            self._timers = [timer for timer in self._timers if _counts(timer)]
            heapq.heapify(self._timers)
            self._sweep_at = 2 * len(self._timers) + SPARE_TIMERS

    def _ready(self, thread: SteppedThread) -> None:
        self._frozen.get(thread.process, self._runnable).append(thread)

    def _release(self, thread: SteppedThread) -> None:
        thread.blocked = False
        thread.turn += 1


def _counts(timer: tuple[int, int, SteppedThread, int]) -> bool:
    """Whether its thread still stands where it set this timer."""
    thread, turn = timer[2:]
    return thread.blocked and thread.turn == turn


def _nanoseconds(seconds: float) -> int:
    return round(min(seconds, 1e9) * SECOND)


def _line(step: int, time: int, name: str, what: str) -> str:
    return f"{step:>7} {time / SECOND:.6f} {name}: {what}"


def _place(frame: FrameType | None) -> str:
    """The line of whoever called the simulation."""
    while frame is not None and frame.f_code.co_filename in (__file__, processes.__file__):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}" if frame else "an unknown place"
