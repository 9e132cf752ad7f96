"""Time, threads, waiting and chance: everything that would make two runs of the framework differ.

No module of the framework blocks, sleeps, starts a thread, reads a clock or draws a number except through `Primitives`. In a real process
these are the operating system's. A simulation puts its own in their place: the same threads then run one at a time, in an order that a seed
decides, on a clock that moves only when everybody waits.

A plain `threading.Lock` is fine around code that calls none of these: nobody can be stopped while holding it.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Protocol

log = logging.getLogger(__name__)


class Condition(Protocol):
    """A lock, and a place to wait for a change of what it guards."""

    def __enter__(self) -> object: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> object: ...

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock away, wait to be notified or for so long, take it again. Like any wait it may return early: ask again."""
        ...

    def notify(self, n: int = 1) -> None:
        """Wake so many of those who wait."""
        ...

    def notify_all(self) -> None:
        """Wake all who wait."""
        ...


class Thread(Protocol):
    """A thread that was started."""

    @property
    def name(self) -> str:
        """What it is for."""
        ...

    def alive(self) -> bool:
        """Whether it has not ended yet."""
        ...

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end, so long at most; whether it has ended."""
        ...


class Primitives(Protocol):
    """What a component may use to wait, to run beside others, and to tell the time."""

    def now(self) -> datetime:
        """The time of day, in UTC. It may jump: for timestamps only."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since some moment. The value never falls, and counts the time while the machine is suspended."""
        ...

    def sleep(self, seconds: float) -> None:
        """Do nothing for a while. Where an end must be noticed, wait for a `Flag` instead."""
        ...

    def condition(self) -> Condition:
        """A new condition, with a lock of its own."""
        ...

    def start(self, name: str, run: Callable[[], None]) -> Thread:
        """Run something in a thread of its own. What escapes from it is logged, never lost."""
        ...

    def random(self) -> float:
        """A number in [0, 1)."""
        ...

    def new_id(self) -> str:
        """A text that nobody else has."""
        ...


def _steady_clock() -> Callable[[], float]:
    """Return a clock that also counts while the machine is suspended; `time.monotonic` stands still then, and a lease does not."""
    try:
        boot_time = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        boot_time()
    except (AttributeError, OSError):  # not Linux, or a sandbox that lacks this clock
        return time.monotonic
    return boot_time


monotonic: Callable[[], float] = _steady_clock()
"""The clock of `System`, for modules below the primitives: connections."""


class System:
    """The operating system's own."""

    def now(self) -> datetime:
        """The time of day."""
        return datetime.now(UTC)

    monotonic = staticmethod(monotonic)
    sleep = staticmethod(time.sleep)
    random = staticmethod(random.random)

    def condition(self) -> Condition:
        """A new condition."""
        return threading.Condition(threading.Lock())

    def start(self, name: str, run: Callable[[], None]) -> Thread:
        """Run something in a thread of its own."""
        return _SystemThread(name, run)

    def new_id(self) -> str:
        """A random UUID."""
        return str(uuid.uuid4())


class _SystemThread:
    def __init__(self, name: str, run: Callable[[], None]) -> None:
        self.name = name
        self._run = run
        # DAEMON: a thread that hangs in a request must not keep a process alive that has said goodbye.
        self._thread = threading.Thread(target=self._guarded, name=name, daemon=True)
        self._thread.start()

    def _guarded(self) -> None:
        try:
            self._run()
        except Exception:
            log.exception("thread %s died", self.name)

    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout: float | None = None) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()


class Flag:
    """Something that happens once, and that many can wait for: the end of a process, a first list."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._changed = primitives.condition()
        self._set = False

    def __bool__(self) -> bool:
        return self._set

    def set(self) -> None:
        """It has happened."""
        with self._changed:
            self._set = True
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it happens, so long at most; whether it has."""
        deadline = None if timeout is None else self._primitives.monotonic() + timeout
        with self._changed:
            while not self._set:
                left = None if deadline is None else deadline - self._primitives.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            return self._set


class Backoff:
    """Waiting times that double, with jitter, up to a limit; forgotten after a while without need."""

    def __init__(self, primitives: Primitives, *, first: float, limit: float, jitter: float = 1.0, reset_after: float = 120.0) -> None:
        self._primitives = primitives
        self._first, self._limit, self._jitter, self._reset_after = first, limit, jitter, reset_after
        self._next = first
        self._last_used = float("-inf")

    def next(self) -> float:
        """Seconds to wait this time."""
        now = self._primitives.monotonic()
        if now - self._last_used > self._reset_after:
            self._next = self._first
        self._last_used = now
        wait, self._next = self._next, min(self._limit, self._next * 2)
        return wait * (1 + self._jitter * self._primitives.random())

    def reset(self) -> None:
        """All is well again."""
        self._next = self._first
