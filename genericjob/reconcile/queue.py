"""The work queue: which keys to look at, when, and by whom.

A key is asked for, never an event: however often it is added, it is served once. It stands in one place at a time:

    added ──▶ ready (normal or low) ──get──▶ at work ──done──▶ gone, or back if it was added meanwhile
                ▲                                                │
                └── later: back-off, add-after, rest ◀───────────┘

So no key is in two hands, and a change during work is never lost. Who asks twice gets the earlier time and the higher priority: a reconcile
looks at everything, and says itself when it wants to look again.

Nobody keeps the time but the workers: of those that wait in `get` one waits for the next timer, the others until they are called. Whoever
leaves with work passes the watch on, so a timer wakes one thread and not all of them.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from itertools import count
from math import inf
from typing import Generic, NamedTuple, TypeVar

from .metrics import QueueMetrics
from .primitives import Primitives

K = TypeVar("K", bound=Hashable)

NORMAL_PRIORITY, LOW_PRIORITY = "0", "-100"
"""As dashboards of Go controllers know them."""

STALE_TIMERS = 64
"""Timers that were overtaken may outnumber those that count by so many before they are swept out."""


class _Asked(NamedTuple):
    """When a key is wanted, and how urgently."""

    ready: float
    low: bool

    def and_also(self, ready: float, low: bool) -> "_Asked":
        return _Asked(min(self.ready, ready), self.low and low)


class Queue(Generic[K]):
    """Keys that want to be looked at. Shared between threads."""

    def __init__(
        self, *, primitives: Primitives, metrics: QueueMetrics, first: float = 0.005, limit: float = 1000.0, ageing: float = 30.0
    ) -> None:
        self._monotonic = primitives.monotonic
        self._metrics = metrics
        self._first, self._limit, self._ageing = first, limit, ageing
        self._changed = primitives.condition()
        # Ready keys in their order, with the moment since when they are. NOT PLAIN DICTS: taking the first of those costs more each time.
        self._normal: OrderedDict[K, float] = OrderedDict()
        self._low: OrderedDict[K, float] = OrderedDict()
        self._normal_was_served = False
        self._later: dict[K, _Asked] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._order = count()
        self._at_work: dict[K, float] = {}
        self._low_at_work: set[K] = set()
        self._again: dict[K, _Asked] = {}
        self._resting: dict[K, float] = {}
        self._rests: deque[tuple[float, K]] = deque()
        self._failures: dict[K, int] = {}
        self._waiting = 0
        self._watched = inf
        """The timer that a waiting worker will wake up for."""
        self._closed = self._draining = False
        metrics.follow(self._depth, self.working)

    # -------------------------------------------------------------------------------------------- asking

    def add(self, key: K, *, low: bool = False) -> None:
        """Look at this key now."""
        with self._changed:
            if key in self._normal or self._closed:
                return
            now = self._monotonic()
            self._put(key, now, low, now)

    def add_after(self, key: K, seconds: float, *, low: bool = False) -> None:
        """Look at this key after so many seconds, unless it is looked at earlier."""
        with self._changed:
            if not self._closed:
                now = self._monotonic()
                self._put(key, now + seconds, low, now)

    def again(self, key: K, seconds: float) -> None:
        """Look again at a key at work, after so many seconds and with the priority that it has."""
        self.add_after(key, seconds, low=key in self._low_at_work)

    def retry(self, key: K, *, at_least: float = 0.0) -> None:
        """Look again at a key at work that failed: later with each failure, with the priority that it has."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._metrics.retried()
        self.again(key, max(at_least, min(self._limit, self._first * 2.0 ** min(failures, 64))))

    def forget(self, key: K) -> None:
        """All is well with this key: its next failure is the first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often in a row it failed."""
        return self._failures.get(key, 0)

    # -------------------------------------------------------------------------------------------- serving

    def get(self) -> K | None:
        """Wait for a key, and take it to work. None means the end: the queue is shut down, and what had to be done has been handed out."""
        with self._changed:
            while True:
                now = self._monotonic()
                if self._timers and self._timers[0][0] <= now and (ripe := self._ripen(now)) > 1 and self._waiting:
                    self._changed.notify(ripe - 1)  # the first of them is served here
                if self._normal or self._low:
                    break
                if self._closed:
                    return None
                self._wait(now)
            key, since = self._take(now)
            if self._waiting and self._timers and self._timers[0][0] < self._watched:
                self._changed.notify()  # SOMEBODY MUST WATCH THE TIME while this worker is away
        self._metrics.waited(now - since)
        return key

    def done(self, key: K, *, rest: float = 0.0) -> None:
        """Give a key back. It is not served again before `rest` is over, so that what changes often is not all that is looked at."""
        with self._changed:
            now = self._monotonic()
            started = self._at_work.pop(key)
            self._low_at_work.discard(key)
            asked = self._again.pop(key, None)
            if not self._closed:
                if rest > 0:
                    self._rest(key, now + rest, now)
                if asked is not None:
                    self._put(key, asked.ready, asked.low, now)
            elif self._draining and asked is not None and asked.ready <= now:
                self._make_ready(key, asked.ready, asked.low)
        self._metrics.worked(now - started)

    def shut_down(self, *, drain: bool) -> None:
        """Take no more keys. Draining, those that are ready are still handed out; those that wait for a time never are."""
        with self._changed:
            self._closed, self._draining = True, drain
            if drain:
                self._ripen(self._monotonic())
            else:
                self._normal.clear()
                self._low.clear()
            self._later.clear()
            self._changed.notify_all()

    def idle(self) -> bool:
        """Whether nobody works and nothing is ready; keys may wait for their time."""
        with self._changed:
            now = self._monotonic()
            return not (self._normal or self._low or self._at_work or any(asked.ready <= now for asked in self._later.values()))

    def working(self) -> list[float]:
        """For how many seconds each key at work has been so."""
        with self._changed:
            now = self._monotonic()
            return [now - started for started in self._at_work.values()]

    # -------------------------------------------------------------------------------------------- inside, with the lock held

    def _depth(self) -> dict[str, int]:
        return {NORMAL_PRIORITY: len(self._normal), LOW_PRIORITY: len(self._low)}

    def _put(self, key: K, ready: float, low: bool, now: float) -> None:
        if key in self._at_work:
            known = self._again.get(key)
            self._again[key] = _Asked(ready, low) if known is None else known.and_also(ready, low)
        elif key in self._low:
            if not low:
                self._normal[key] = self._low.pop(key)  # AT THE END: it overtakes the low ones, nobody else
        elif key not in self._normal:
            known = self._later.pop(key, None)
            if known is not None:
                ready, low = known.and_also(ready, low)
            if self._resting:
                ready = max(ready, self._resting.get(key, ready))
            if ready > now:
                self._put_off(key, _Asked(ready, low))
                return
            self._make_ready(key, ready, low)
            if self._waiting:
                self._changed.notify()

    def _put_off(self, key: K, asked: _Asked) -> None:
        self._later[key] = asked
        heapq.heappush(self._timers, (asked.ready, next(self._order), key))
        if len(self._timers) > 2 * len(self._later) + STALE_TIMERS:
            self._timers = [timer for timer in self._timers if self._counts(timer)]
            heapq.heapify(self._timers)
        if self._waiting and asked.ready < self._watched:
            self._changed.notify()

    def _make_ready(self, key: K, since: float, low: bool) -> None:
        (self._low if low else self._normal)[key] = since
        self._metrics.added()

    def _ripen(self, now: float) -> int:
        """Make those ready whose time has come, and count them."""
        timers, ripe = self._timers, 0
        while timers and timers[0][0] <= now:
            timer = heapq.heappop(timers)
            if self._counts(timer):
                key = timer[2]
                asked = self._later.pop(key)
                self._make_ready(key, asked.ready, asked.low)
                ripe += 1
        return ripe

    def _counts(self, timer: tuple[float, int, K]) -> bool:
        """Whether nothing has overtaken this timer: an earlier one, or an add."""
        asked = self._later.get(timer[2])
        return asked is not None and asked.ready == timer[0]

    def _take(self, now: float) -> tuple[K, float]:
        # TURN AND TURN ABOUT once the low ones have aged: neither a busy day nor a restart with 10,000 old keys starves anybody.
        low = bool(self._low) and (not self._normal or (self._normal_was_served and now - next(iter(self._low.values())) >= self._ageing))
        key, since = (self._low if low else self._normal).popitem(last=False)
        self._normal_was_served = not low
        self._at_work[key] = now
        if low:
            self._low_at_work.add(key)
        return key, since

    def _wait(self, now: float) -> None:
        """Wait until called; if nobody else watches the next timer, no longer than for that."""
        until = self._timers[0][0] if self._timers and self._timers[0][0] < self._watched else inf
        if until < inf:
            self._watched = until
        self._waiting += 1
        try:
            self._changed.wait(until - now if until < inf else None)
        finally:
            self._waiting -= 1
            if until == self._watched:
                self._watched = inf

    def _rest(self, key: K, until: float, now: float) -> None:
        self._resting[key] = until
        self._rests.append((until, key))
        while self._rests and self._rests[0][0] <= now:
            over, rested = self._rests.popleft()
            if self._resting.get(rested) == over:
                del self._resting[rested]
