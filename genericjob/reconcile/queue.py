"""The work queue: which keys to look at, when, and by whom.

A key is asked for, never an event: however often it is added, it is served once. It stands in one place at a time:

    added ──▶ ready (normal or low) ──get──▶ at work ──done──▶ gone, or back if it was added meanwhile
                ▲                                                │
                └── later: back-off, add-after, rest ◀───────────┘

So no key is in two hands, and a change during work is never lost. Who asks twice gets the earlier time and the higher priority: a reconcile
looks at everything, and says itself when it wants to look again.

No group of keys stops another. Groups (namespaces) are served in turn (`turns.py`). A key whose work was interrupted, because there is much
of it, counts as low until it is finished, however often it is added meanwhile. And neither low keys nor those of one group take all
workers, so that others do not wait until a worker is done with one of them. A key that makes no progress, because the server takes long to
answer a write, counts neither as a worker's place nor as one of the low keys at work: a relief takes the next key instead (`relieve`).

There is no timer thread. Of the workers that wait in `get` one waits for the next timer, the others until they are notified. When that
worker takes a key, another one waits for the timer instead, so a timer wakes one thread and not all of them.
"""

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count
from math import inf
from typing import Generic, NamedTuple, TypeVar

from .metrics import QueueMetrics
from .primitives import Primitives
from .turns import Turns

K = TypeVar("K", bound=Hashable)

NORMAL_PRIORITY, LOW_PRIORITY = "0", "-100"
"""As dashboards of Go controllers know them."""

HANGING_S = 1.0
"""Seconds without progress after which a key at work leaves its place to another."""
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
        self,
        *,
        primitives: Primitives,
        metrics: QueueMetrics,
        first: float = 0.005,
        limit: float = 1000.0,
        ageing: float = 30.0,
        group: Callable[[K], Hashable] = lambda key: None,
        share: float = inf,
        places: float = inf,
    ) -> None:
        """`group` says which keys take turns as one. At most `share` keys of a group, and `share` low ones that progress, are at work.

        `places` is how many keys that make progress may be at work before `relieve` hands out no more.
        """
        self._monotonic = primitives.monotonic
        self._metrics = metrics
        self._first, self._limit, self._ageing, self._share = first, limit, ageing, share
        self._changed = primitives.condition()
        self._group, self._places = group, places
        self._bell, self._rung = primitives.condition(), False
        self._reliefs_waiting = 0
        """Reliefs that wait for keys, or for all places to be taken; they are called by the bell."""
        self._normal, self._low = Turns(group), Turns(group)
        self._unfinished: set[K] = set()
        """Keys whose work was interrupted. They are low, whoever adds them."""
        self._normal_was_served = False
        self._later: dict[K, _Asked] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._order = count()
        self._at_work: dict[K, float] = {}
        self._progressed: dict[K, float] = {}
        """When each key at work was taken, or last got on."""
        self._low_at_work: set[K] = set()
        self._groups_at_work: dict[Hashable, int] = {}
        self._full: set[Hashable] = set()
        """Groups that have their share."""
        self._again: dict[K, _Asked] = {}
        self._resting: dict[K, float] = {}
        self._rests: deque[tuple[float, K]] = deque()
        self._failures: dict[K, int] = {}
        self._waiting = 0
        self._watched = inf
        """The moment that a waiting worker will wake up for."""
        self._closed = self._draining = False
        metrics.follow(self._depth, self.working, self.silent)

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
                if (found := self._next(now)) is not None:
                    break
                if self._closed:
                    return None
                self._wait(now)
            key, since, low = found
            self._take(key, low, now)
            if self._waiting and self._next_moment() < self._watched:
                self._changed.notify()  # SOMEBODY MUST WATCH THE TIME while this worker is away
            self._call_relief()
        self._metrics.waited(now - since)
        return key

    def relieve(self) -> K | None:
        """Wait until no worker is free because keys at work hang, and take a key in the place of one of those. None means the end.

        For threads beside the workers. While all of them work, nobody else watches the timers.
        """
        while True:
            with self._changed:
                if self._closed:
                    return None
                now = self._monotonic()
                until = self._relief_due()
                if until <= now:
                    self._ripen(now)
                    if (found := self._next(now)) is not None:
                        key, since, low = found
                        self._take(key, low, now)
                        self._call_relief()
                        break
                    until = self._next_moment()
                self._reliefs_waiting += 1
            with self._bell:
                if not self._rung:
                    self._bell.wait(until - now if until < inf else None)
                self._rung = False
            with self._changed:
                self._reliefs_waiting -= 1
        self._metrics.waited(now - since)
        return key

    def done(self, key: K, *, rest: float = 0.0, unfinished: bool | None = False) -> None:
        """Give a key back. It is not served again before `rest` is over, so that what changes often is not all that is looked at.

        `unfinished` says that its work was interrupted, so that others get their turn; None that nothing is known about that, so that
        an interrupted one stays so.
        """
        with self._changed:
            now = self._monotonic()
            started = self._at_work.pop(key)
            self._leave(key)
            if unfinished is not None:
                (self._unfinished.add if unfinished else self._unfinished.discard)(key)
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
        with self._bell:
            self._rung = True
            self._bell.notify_all()

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

    def silent(self) -> list[float]:
        """For how many seconds each key at work has not got on."""
        with self._changed:
            now = self._monotonic()
            return [now - progressed for progressed in self._progressed.values()]

    def progress(self, key: K) -> None:
        """A key at work gets on. Takes no lock; not to be called at the same time as `done`."""
        if key in self._progressed:
            self._progressed[key] = self._monotonic()

    def crowded(self) -> bool:
        """Whether a key is ready that no worker has taken yet, or reliefs are at work. Takes no lock."""
        return bool(self._normal or self._low) or len(self._at_work) > self._places

    # -------------------------------------------------------------------------------------------- inside, with the lock held

    def _depth(self) -> dict[str, int]:
        return {NORMAL_PRIORITY: len(self._normal), LOW_PRIORITY: len(self._low)}

    def _put(self, key: K, ready: float, low: bool, now: float) -> None:
        if key in self._at_work:
            known = self._again.get(key)
            self._again[key] = _Asked(ready, low) if known is None else known.and_also(ready, low)
            return
        low = low or key in self._unfinished
        if key in self._low:
            if not low:
                self._normal.add(key, self._low.remove(key))  # AT THE END: it overtakes the low ones, nobody else
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
            else:
                self._call_relief()

    def _put_off(self, key: K, asked: _Asked) -> None:
        self._later[key] = asked
        heapq.heappush(self._timers, (asked.ready, next(self._order), key))
        if len(self._timers) > 2 * len(self._later) + STALE_TIMERS:
            self._timers = [timer for timer in self._timers if self._counts(timer)]
            heapq.heapify(self._timers)
        if self._waiting and asked.ready < self._watched:
            self._changed.notify()
        self._call_relief()

    def _make_ready(self, key: K, since: float, low: bool) -> None:
        (self._low if low else self._normal).add(key, since)
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

    def _next(self, now: float) -> tuple[K, float, bool] | None:
        """The key whose turn it is, since when it is ready, and whether it is low; None if no key may be taken now."""
        normal = self._normal.next(self._full)
        low = self._low.next(self._full) if self._low and self._low_due() <= now else None
        # TURN AND TURN ABOUT once the low ones have aged: neither a busy day nor a restart with 10,000 old keys starves anybody.
        if low is not None and (normal is None or (self._normal_was_served and now - low[1] >= self._ageing)):
            return *low, True
        return None if normal is None else (*normal, False)

    def _low_due(self) -> float:
        """When another low key may be taken: as soon as fewer than `share` of those at work have made progress within the last second."""
        beyond = len(self._low_at_work) - self._share
        if beyond < 0:
            return -inf
        return sorted(self._progressed[key] for key in self._low_at_work)[int(beyond)] + HANGING_S

    def _next_moment(self) -> float:
        """When something may be taken that may not be taken now: the next timer is due, or low keys at work count as hanging."""
        timer = self._timers[0][0] if self._timers else inf
        return min(timer, self._low_due()) if self._low.next(self._full) is not None else timer

    def _take(self, key: K, low: bool, now: float) -> None:
        (self._low if low else self._normal).take(key)
        self._normal_was_served = not low
        self._at_work[key] = self._progressed[key] = now
        if low:
            self._low_at_work.add(key)
        group = self._group(key)
        self._groups_at_work[group] = number = self._groups_at_work.get(group, 0) + 1
        if number >= self._share:
            self._full.add(group)

    def _leave(self, key: K) -> None:
        del self._progressed[key]
        self._low_at_work.discard(key)
        group = self._group(key)
        self._full.discard(group)
        self._groups_at_work[group] -= 1
        if not self._groups_at_work[group]:
            del self._groups_at_work[group]
        if self._waiting and self.crowded():
            self._changed.notify()  # A WORKER MAY WAIT because too many keys like this one were at work

    def _relief_due(self) -> float:
        """When a relief may take a key: as soon as fewer keys than there are places have made progress within the last second."""
        beyond = len(self._at_work) - self._places
        if self._waiting or beyond < 0:
            return inf
        return sorted(self._progressed.values())[int(beyond)] + HANGING_S

    def _call_relief(self) -> None:
        """Have a relief look, if all workers are away and there is, or will be, something to do."""
        if self._reliefs_waiting and not self._waiting and len(self._at_work) >= self._places and (self._timers or self.crowded()):
            with self._bell:
                self._rung = True
                self._bell.notify()

    def _wait(self, now: float) -> None:
        """Wait until called; if nobody else watches the time until the next moment, no longer than for that."""
        until = self._next_moment()
        if until < self._watched:
            self._watched = until
        else:
            until = inf
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
