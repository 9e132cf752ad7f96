"""A watch in memory: a place in a kind's log.

Only the place is kept, never events, so a thousand watches cost as much as one. A watch that falls out of the log's window is closed, as a
real server hangs up on a reader that is too slow.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar

from genericjob.reconcile.api import Event, EventType, Position
from genericjob.reconcile.codec import Codec
from genericjob.reconcile.errors import ApiError

from . import refusals
from .drafts import restamped
from .kinds import Kind
from .selectors import Selector
from .store import Change, Table, Version
from .views import presented

T = TypeVar("T")

BATCH = 500
"""Changes taken from the log at a time."""

BOOKMARKS_EVERY = timedelta(seconds=60)
_NEVER = datetime.max.replace(tzinfo=UTC)


class Horizon:
    """How far watches and caches may see: everything, unless a lag is being simulated. Shared by all watches."""

    def __init__(self, newest: Callable[[], int]) -> None:
        self._newest = newest
        self.held: int | None = None
        self.bookmarks = 0
        """Counts the bookmarks that were asked for."""
        self.cuts = 0
        """Counts how often all watches were cut."""

    @property
    def version(self) -> int:
        """The newest version that may be seen."""
        return self._newest() if self.held is None else self.held


class MemoryWatch(Generic[T]):
    """A stream of events."""

    def __init__(
        self,
        table: Table,
        kind: Kind,
        codec: Codec[T],
        horizon: Horizon,
        now: Callable[[], datetime],
        *,
        namespace: str,
        selector: Selector | None,
        resource_version: str,
        timeout: float,
        bookmarks: bool,
        initial_events: bool,
    ) -> None:
        self._table, self._kind, self._codec, self._horizon, self._now = table, kind, codec, horizon, now
        self._namespace, self._selector, self._bookmarks = namespace, selector, bookmarks
        self._position = Position(resource_version, initial_events=initial_events)
        self._closed = False
        self._error: ApiError | None = None
        self._deadline = now() + timedelta(seconds=timeout)
        self._next_bookmark = min(now() + BOOKMARKS_EVERY, self._deadline)
        self._bookmarks_seen, self._cuts_seen = horizon.bookmarks, horizon.cuts
        self._initial: Iterator[Version] = iter(())
        self._says_when_initial_events_end = False
        self._seen = self._begin(resource_version, initial_events)

    def _begin(self, resource_version: str, initial_events: bool) -> int:
        asked = int(resource_version or "0")
        if initial_events or asked == 0:
            visible = self._horizon.version
            if asked > visible:
                self._error = refusals.too_large_version(asked, visible)
                return visible
            self._initial = iter(self._table.listed(self._namespace, visible))
            self._says_when_initial_events_end = self._bookmarks
            return visible
        if asked < self._table.log_begins:
            self._error = refusals.expired(f"too old resource version: {asked} ({self._table.log_begins})")
        return asked

    @property
    def resource_version(self) -> str:
        """Where the stream stands."""
        return self._position.resource_version

    def close(self) -> None:
        """End the stream from any thread."""
        with self._table.changed:
            self._closed = True
            self._table.changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __iter__(self) -> Iterator[Event[T]]:
        yield from self._events(wait=True)

    def ready(self) -> Iterator[Event[T]]:
        """What has happened already, without waiting for more."""
        yield from self._events(wait=False)

    # -------------------------------------------------------------------------------------------- the stream

    def _events(self, *, wait: bool) -> Iterator[Event[T]]:
        for event in self._stream(wait=wait):
            if self._ended:
                return
            self._position.advance(event)
            yield event

    def _stream(self, *, wait: bool) -> Iterator[Event[T]]:
        if self._error is not None:
            raise self._error
        for found in self._initial:
            data = presented(found, self._kind)
            if self._selector is None or self._selector(data):
                yield self._event("ADDED", data, found.version)
        if self._says_when_initial_events_end:
            self._says_when_initial_events_end = False
            yield Event("BOOKMARK", None, str(self._seen), initial_events_end=True)
        while (found_next := self._next(wait=wait)) is not None:
            changes, bookmark = found_next
            for change in changes:
                self._seen = change.version
                event = self._selected(change)
                if event is not None:
                    yield event
            if bookmark:
                self._seen = max(self._seen, bookmark)
                yield Event("BOOKMARK", None, str(bookmark))

    def _next(self, *, wait: bool) -> tuple[Sequence[Change], int] | None:
        """The next changes, or a bookmark that is due, or None at the end."""
        table, horizon = self._table, self._horizon
        with table.changed:
            while not self._ended and self._seen >= table.dropped:
                if changes := self._visible():
                    return changes, 0
                now = self._now()
                if self._bookmark_due(now):
                    return (), horizon.version
                if now >= self._deadline:
                    break
                if not wait:
                    return None
                self._pause(min(self._deadline, self._next_bookmark) - now)
            self._closed = True
            return None

    def _bookmark_due(self, now: datetime) -> bool:
        """Once a minute, when asked for, and at the end: a watch that ends says how far it came."""
        asked = self._horizon.bookmarks > self._bookmarks_seen
        if not self._bookmarks or not (asked or now >= self._next_bookmark):
            return False
        self._bookmarks_seen = self._horizon.bookmarks
        self._next_bookmark = _NEVER if now >= self._deadline else min(now + BOOKMARKS_EVERY, self._deadline)
        return self._horizon.version >= self._seen

    def _pause(self, longest: timedelta) -> None:
        self._table.watches += 1
        try:
            self._table.changed.wait(max(0.001, longest.total_seconds()))
        finally:
            self._table.watches -= 1

    def _visible(self) -> Sequence[Change]:
        log = self._table.log
        if not log or log[-1].version <= self._seen:
            return ()
        start = self._table.since(self._seen)
        changes = log[start : start + BATCH]
        if self._horizon.held is not None:
            changes = [change for change in changes if change.version <= self._horizon.held]
        return changes

    @property
    def _ended(self) -> bool:
        return self._closed or self._table.removed or self._horizon.cuts > self._cuts_seen

    def _selected(self, change: Change) -> Event[T] | None:
        """A change as the selector sees it: what begins to match is added, what ceases to match is deleted."""
        if self._namespace and change.now.key.namespace != self._namespace:
            return None
        now = presented(change.now, self._kind)
        if self._selector is None:
            return self._event(change.type, now, change.version)
        before = presented(change.before, self._kind) if change.before else None
        matched = before is not None and self._selector(before)
        if change.type == "DELETED":
            return self._event("DELETED", now, change.version) if matched else None
        if self._selector(now):
            return self._event("MODIFIED" if matched else "ADDED", now, change.version)
        if before is not None and matched:
            # THE OLD CONTENT, THE NEW VERSION: the object that did match, and the moment it stopped.
            return self._event("DELETED", restamped(before, change.version), change.version)
        return None

    def _event(self, type: EventType, data: bytes, version: int) -> Event[T]:
        return self._codec.event_of(type, data, str(version))
