"""Threads' common ground: a queue of pods that need a writer, and the line between a node and the server."""

import heapq
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T")


class WorkQueue(Generic[T]):
    """Things to be looked at, now or later; one that is added twice is looked at once, and never by two threads at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[T, float] = {}
        self._heap: list[tuple[float, int, T]] = []
        self._order = count()
        self._busy: set[T] = set()
        self._parked: set[T] = set()
        self._closed = False

    def add(self, item: T, *, after: float = 0.0) -> None:
        """Have it looked at that many seconds from now, or earlier if somebody already asked for that."""
        due = time.monotonic() + after
        with self._changed:
            if due < self._due.get(item, float("inf")):
                self._due[item] = due
                heapq.heappush(self._heap, (due, next(self._order), item))
                self._changed.notify()

    @contextmanager
    def take(self) -> Iterator[T | None]:
        """The next thing due, for as long as the block lasts; None once the queue is closed."""
        item = self._next()
        try:
            yield item
        finally:
            with self._changed:
                if item is not None:
                    self._busy.discard(item)
                    if item in self._parked:
                        self._parked.discard(item)
                        heapq.heappush(self._heap, (self._due[item], next(self._order), item))
                        self._changed.notify()

    def close(self) -> None:
        """Send every thread home."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self) -> T | None:
        with self._changed:
            while not self._closed:
                item = self._pop_due()
                if item is not None:
                    self._busy.add(item)
                    return item
                self._changed.wait(max(0.0, self._heap[0][0] - time.monotonic()) if self._heap else None)
        return None

    def _pop_due(self) -> T | None:
        """The next thing due that is in nobody's hands. What is waits for the end of `take`, outside the heap."""
        while self._heap and self._heap[0][0] <= time.monotonic():
            due, _, item = heapq.heappop(self._heap)
            if self._due.get(item) != due:  # asked for earlier, and served
                continue
            if item in self._busy:
                self._parked.add(item)
                continue
            del self._due[item]
            return item
        return None


class Line:
    """The line between a node and the server. Once `cut` has returned, nothing more goes over it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._up = True
        self._users = 0

    @property
    def up(self) -> bool:
        """Whether requests get through."""
        return self._up

    @contextmanager
    def use(self) -> Iterator[bool]:
        """Hold the line for one request; yields whether there is one."""
        with self._changed:
            up = self._up
            self._users += up
        try:
            yield up
        finally:
            with self._changed:
                self._users -= up
                self._changed.notify_all()

    def cut(self) -> None:
        """Cut it, after the last request that is on its way."""
        with self._changed:
            self._up = False
            self._changed.wait_for(lambda: not self._users)

    def mend(self) -> None:
        """Let requests through again."""
        with self._changed:
            self._up = True
