"""Time by hand: real threads, and a clock that moves only when the test says so.

`settle` waits until every thread waits for something; `advance` moves from one moment at which somebody wants to be woken to the next.
Only threads started here may wait here, so that nobody is missed.
"""

import random
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count

PATIENCE = 20.0


class HandClock:
    """`Primitives` whose clock is moved by the test."""

    def __init__(self, seed=1):
        self.jump = timedelta()
        """How wrong the time of day is."""
        self.failures = []
        self.time = 1000.0
        self._random = random.Random(seed)
        self._ids = count(1)
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._live = self._parked = 0
        self._timers = []
        self._woken = set()
        """Timers of those who wait no longer."""

    # ------------------------------------------------------------------------------------------------ the primitives

    def now(self):
        return self.true_now() + self.jump

    def true_now(self):
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self):
        return self.time

    def sleep(self, seconds):
        until = self.time + seconds
        with self.condition() as condition:
            while self.time < until:
                condition.wait(until - self.time)

    def condition(self, lock=None):
        return _Condition(self, lock or threading.Lock())

    def start(self, name, run):
        with self._lock:
            self._live += 1
        return _Thread(self, name, run)

    def random(self):
        return self._random.random()

    def new_id(self):
        return f"id-{next(self._ids)}"

    # ------------------------------------------------------------------------------------------------ for the test

    def settle(self):
        """Let every thread go on until it waits."""
        with self._quiet:
            if not self._quiet.wait_for(lambda: self._parked >= self._live, PATIENCE):
                raise AssertionError(f"of {self._live} threads only {self._parked} wait after {PATIENCE:g} s")
        assert not self.failures, self.failures

    def advance(self, seconds):
        """Move the clock, and let everybody do what is due on the way."""
        until = self.time + seconds
        self.settle()
        while (found := self._due(until)) is not None:
            self.time, condition = found
            with condition:
                condition.notify_all()
            self.settle()
        self.time = until

    def call(self, do):
        """Do something that may wait, in a thread; the list gets its result when there is one."""
        results = []
        self.start("call", lambda: results.append(do()))
        self.settle()
        return results

    # ------------------------------------------------------------------------------------------------ inside

    def _due(self, until):
        with self._lock:
            while self._timers and self._timers[0][1] in self._woken:
                self._woken.remove(heappop(self._timers)[1])
            if not self._timers or self._timers[0][0] > until:
                return None
            at, _, condition = heappop(self._timers)
            return max(at, self.time), condition

    def park(self, condition, timeout):
        with self._lock:
            self._parked += 1
            timer = next(self._ids)
            if timeout is not None:
                heappush(self._timers, (self.time + max(0.0, timeout), timer, condition))
            if self._parked >= self._live:
                self._quiet.notify_all()
            return timer

    def woke(self, timer):
        with self._lock:
            self._woken.add(timer)

    def unpark(self, threads):
        with self._lock:
            self._parked -= threads

    def ended(self):
        with self._lock:
            self._live -= 1
            self._quiet.notify_all()


class _Condition(threading.Condition):
    def __init__(self, clock, lock):
        super().__init__(lock)
        self._clock = clock

    def __enter__(self):
        super().__enter__()
        return self

    def wait(self, timeout=None):
        assert isinstance(threading.current_thread(), _Worker), "only threads of the clock may wait"
        timer = self._clock.park(self, timeout)
        woken = super().wait()
        if timeout is not None:
            self._clock.woke(timer)
        return woken

    def notify(self, n=1):
        self._clock.unpark(min(n, len(self._waiters)))
        super().notify(n)

    def notify_all(self):
        self.notify(len(self._waiters))


class _Worker(threading.Thread):
    pass


class _Thread:
    def __init__(self, clock, name, run):
        self.name = name
        self._clock, self._run = clock, run
        self._over = False
        self._end = clock.condition()
        _Worker(target=self._guarded, name=name, daemon=True).start()

    def _guarded(self):
        try:
            with suppress(SystemExit):
                self._run()
        except Exception as error:
            self._clock.failures.append((self.name, error))
        with self._end:
            self._over = True
            self._end.notify_all()
        self._clock.ended()

    def alive(self):
        return not self._over

    def join(self, timeout=None):
        deadline = None if timeout is None else self._clock.time + timeout
        with self._end:
            while not self._over:
                left = None if deadline is None else deadline - self._clock.time
                if left is not None and left <= 0:
                    break
                self._end.wait(left)
            return self._over
