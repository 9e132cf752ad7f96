"""Simulated processes: threads, locks and time of the seeded scheduler, in the form that components know.

Threads belong to processes, and a process can crash. Its threads then raise `Crashed` where they stand and run to their ends at once, one
after the other. Nothing that they do on their way out has an effect: every primitive of a crashed process raises `Crashed`, and so does its
API.
"""

import random
import threading
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.scheduler import Stepped


class Crashed(BaseException):
    """The process is dead. Nobody is expected to catch it."""


class SimulationError(AssertionError):
    """A run went wrong."""


class DeadlockError(SimulationError):
    """Threads wait for each other, or for something that can no longer happen."""


class RunawayError(SimulationError):
    """Threads go on and on."""


class NotReachedError(SimulationError):
    """What a test waited for did not happen."""


class ThreadDiedError(SimulationError):
    """An exception escaped from a thread. It is the cause of this one."""


class Process:
    """Primitives for the components of one simulated process."""

    def __init__(self, stepped: "Stepped", name: str) -> None:
        self.stepped = stepped
        self.name = name
        self.crashed = False
        self.frozen = False
        """Whether it stands still as a whole."""
        self.threads: list[SteppedThread] = []
        """Those that live, in the order in which they were started."""
        self.random: Callable[[], float] = random.Random(f"{stepped.seed} {name}").random
        self.monotonic = stepped.monotonic

    def now(self) -> datetime:
        """The virtual time of day."""
        return self.stepped.now()

    def new_id(self) -> str:
        """A text that nobody else has in this run."""
        return self.stepped.new_id()

    def condition(self) -> "SteppedCondition":
        """A new condition."""
        return SteppedCondition(self)

    def start(self, name: str, run: Callable[[], None]) -> "SteppedThread":
        """Start a thread. What escapes from it ends the run, and reaches the test."""
        self.check()
        thread = SteppedThread(self, self.stepped.unique(f"{self.name}/{name}"))
        self.threads.append(thread)
        thread.begin(run)
        self.pause(f"starts {thread.name}")
        return thread

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        if seconds > 0:
            self.block(seconds, f"sleeps {seconds:g}")
        else:
            self.pause()

    def pause(self, what: str = "") -> None:
        """A place where another thread may go on first, with a line in the trace if there is something to say."""
        self.check()
        self.stepped.pause(what)

    def block(self, timeout: float | None, doing: str) -> None:
        """Stand still until woken, so long at most."""
        self.check()
        me = self.stepped.me()
        me.inside = self
        self.stepped.block(me, timeout, doing)
        me.inside = None
        self.check()

    def check(self) -> None:
        """A crashed process does nothing more."""
        if self.crashed:
            raise Crashed

    def crash(self) -> None:
        """End all threads, here and now. In one of them it does not return."""
        stepped = self.stepped
        me = stepped.me()
        if not self.crashed:
            stepped.note(f"crash of {self.name}")
            if self.frozen:
                stepped.thaw(self)
            self.crashed = True
            stepped.free_test(self)
            for thread in [thread for thread in self.threads if thread is not me]:
                stepped.unwind(thread)
        if me.process is self:
            raise Crashed


class SteppedThread:
    """A real thread that runs when it is its turn."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.ident = 0
        self.baton = threading.Lock()
        self.baton.acquire()
        self.doing = "runs"
        self.blocked = False
        self.turn = 0
        """Counts the times it was woken: a timer that was set for an earlier wait means nothing."""
        self.inside: Process | None = None
        self.unwinder: SteppedThread | None = None
        self.wants: SteppedCondition | None = None
        self.joins: SteppedThread | None = None
        self._joined_by: list[SteppedThread] = []
        self._ended = False

    def begin(self, run: Callable[[], None]) -> None:
        """Be ready to run this."""
        self._run = run
        self._thread = threading.Thread(target=self._body, name=self.name, daemon=True)
        self._thread.start()
        self.process.stepped.begin(self)

    def _body(self) -> None:
        self.ident = threading.get_ident()
        self.baton.acquire()
        process, stepped = self.process, self.process.stepped
        try:
            process.check()
            self._run()
        except Crashed:
            if not process.crashed:
                stepped.fail(SimulationError(f"{self.name} ended because another process is dead"))
        except BaseException as error:
            if not process.crashed:
                died = ThreadDiedError(f"{self.name}: {error!r}")
                died.__cause__ = error
                stepped.note(f"dies: {error!r}")
                stepped.fail(died)
        self._ended = True
        process.threads.remove(self)
        for thread in self._joined_by:
            stepped.wake(thread)
        if not process.crashed:
            stepped.note("ends")
        stepped.finish(self)

    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end."""
        process, stepped = self.process, self.process.stepped
        process.pause()
        me = stepped.me()
        if self._ended or (timeout is not None and timeout <= 0):
            return self._ended
        self._joined_by.append(me)
        me.joins = self if timeout is None else None
        stepped.check_deadlock(me)
        try:
            process.block(timeout, f"waits for the end of {self.name}")
        finally:
            me.joins = None
            self._joined_by.remove(me)
        return self._ended

    def gone(self, *, wait: bool = False) -> bool:
        """Whether the operating system has ended it, too."""
        if wait:
            self._thread.join()
        return not self._thread.is_alive()

    def waits_for(self) -> "SteppedThread | None":
        """Who has to move before this thread can."""
        return self.wants.owner if self.wants else self.joins


class SteppedCondition:
    """A condition whose lock is taken by turns."""

    def __init__(self, process: Process) -> None:
        self._process, self._stepped = process, process.stepped
        self.owner: SteppedThread | None = None
        self._wanted_by: list[SteppedThread] = []
        self._waiting: list[SteppedThread] = []

    def __enter__(self) -> bool:
        if not self._stepped.asking:
            self._process.pause()
            self._take(self._stepped.me())
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._stepped.asking and self.owner is self._stepped.me():
            self._give()

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock away, wait to be notified or for so long, take it again."""
        me = self._mine()
        self._give()
        self._waiting.append(me)
        try:
            self._process.block(timeout, "waits" if timeout is None else f"waits {timeout:g}")
        finally:
            notified = me not in self._waiting
            if not notified:
                self._waiting.remove(me)
        self._take(me)
        return notified

    def notify(self, n: int = 1) -> None:
        """Wake so many of those who wait: any, for a component must not care which."""
        self._mine()
        for _ in range(min(n, len(self._waiting))):
            self._stepped.wake(self._waiting.pop(int(self._stepped.chance() * len(self._waiting))))

    def notify_all(self) -> None:
        """Wake all who wait."""
        self.notify(len(self._waiting))

    def _mine(self) -> SteppedThread:
        me = self._stepped.me()
        if self.owner is not me:
            raise RuntimeError("the lock of this condition is not held")
        return me

    def _take(self, me: SteppedThread) -> None:
        while self.owner is not None:
            me.wants = self
            self._wanted_by.append(me)
            self._stepped.check_deadlock(me)
            try:
                self._process.block(None, f"waits for a lock that {self.owner.name} holds")
            finally:
                me.wants = None
                if me in self._wanted_by:
                    self._wanted_by.remove(me)
        self.owner = me

    def _give(self) -> None:
        self.owner = None
        while self._wanted_by:
            self._stepped.wake(self._wanted_by.pop())


class Bell:
    """A condition on a real lock that nobody is ever stopped with, as `MemoryApi` has one: belongs to no process."""

    def __init__(self, stepped: "Stepped", lock: Any) -> None:
        self._stepped, self._lock = stepped, lock
        self._waiting: list[SteppedThread] = []

    def __enter__(self) -> bool:
        self._lock.acquire()
        return True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the bell, or for so long."""
        me = self._stepped.me()
        # ALL OF IT: the lock may have been taken more than once.
        held = self._lock._release_save()
        self._waiting.append(me)
        try:
            self._stepped.block(me, timeout, "waits for the API")
        finally:
            rung = me not in self._waiting
            if not rung:
                self._waiting.remove(me)
            self._lock._acquire_restore(held)
        return rung

    def notify_all(self) -> None:
        """Ring."""
        while self._waiting:
            self._stepped.wake(self._waiting.pop())
