"""The store: what a cluster held at one version, with indexes.

One thread writes, the reflector's; any number read. A reader sees all of a change or nothing of it, in the objects and in every index, and
never waits for a list: that is compared and indexed beside the old content, which it replaces at one stroke. Objects are frozen and are
handed out as they are.

Writing says what changed. Whoever replays these changes from the beginning has the same content, so that an object which was deleted and
made again under its name never looks like one that was modified.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

import msgspec

from .api import Event
from .objects import Object, Unreadable
from .resources import Key
from .versions import older_or_same

T = TypeVar("T", bound=Object)

_Place = tuple[str, str]
"""A `Key`, equal to it and as good to look up with, but not watched by the garbage collector: there are 100,000 of them."""

_Buckets = dict[str, dict[_Place, T]]
"""One index: value → the objects that have it."""


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object came (no `old`), went (no `new`) or is different now."""

    old: T | None
    """As it was before; of an object that went, its very last state."""
    new: T | None
    initial: bool = False
    """Whether the very first list brought it: it need not be news to anybody."""
    tombstone: bool = False
    """Whether nobody saw the object go: `old` is the last that was known of it, and may be out of date."""


class Store(Generic[T]):
    """Objects of one resource, by key and by the values of some functions; an object whose value is "" is not in that index."""

    def __init__(self, indexes: Mapping[str, Callable[[T], str]]) -> None:
        self._lock = Lock()
        self._values = dict(indexes)
        self._objects: dict[_Place, T] = {}
        self._indexes: dict[str, _Buckets[T]] = {name: {} for name in indexes}
        self._version = ""

    # -------------------------------------------------------------------------------------------- reading

    def get(self, key: Key) -> T | None:
        """One object."""
        with self._lock:
            return self._objects.get(key)

    def by(self, index: str, value: str) -> Sequence[T]:
        """The objects with that value in an index, as they are now."""
        with self._lock:
            found = self._indexes[index].get(value)
            return list(found.values()) if found else ()

    def values(self) -> Sequence[T]:
        """All objects, as they are now."""
        with self._lock:
            return list(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    @property
    def version(self) -> str:
        """The version up to which everything that happened is in here; empty before the first list."""
        return self._version

    @property
    def synced(self) -> bool:
        """Whether there was a list."""
        return self._version != ""

    def known(self, found: T) -> T:
        """The object in here if it is the same version of the same object: a list then costs no memory for what has not changed."""
        with self._lock:
            have = self._objects.get((found.namespace, found.name))
        return have if have is not None and _same(have, found) else found

    # -------------------------------------------------------------------------------------------- writing

    def replace(self, items: Iterable[T], version: str, unreadable: Iterable[Unreadable] = ()) -> list[Change[T]]:
        """Take a whole list for the truth, whatever was known before. What cannot be read stays as it was known last."""
        if not version:
            raise ValueError("a list has a version")
        initial = not self.synced
        before, now = self._objects, {(item.namespace, item.name): item for item in items}
        for lost in unreadable:
            place = (lost.namespace, lost.name)
            if (last := before.get(place)) is not None and _may_be(last, lost):
                now.setdefault(place, last)
        indexes = {name: _indexed(now, value_of) for name, value_of in self._values.items()}
        changes = [Change(old, None, tombstone=True) for place, old in before.items() if not _lives_on(old, now.get(place))]
        for place, new in now.items():
            old = before.get(place)
            if old is None or old.uid != new.uid:
                changes.append(Change(None, new, initial))
            elif not _same(old, new):
                changes.append(Change(old, new))
        with self._lock:
            self._objects, self._indexes, self._version = now, indexes, version
        return changes

    def apply(self, event: Event[T]) -> list[Change[T]]:
        """Take over one event of a watch. What is older than what is known already changes nothing; a bookmark moves the version only."""
        found, version = event.object, event.resource_version
        with self._lock:
            if found is None:
                changes = self._lose(event.unreadable, gone=event.type == "DELETED") if event.unreadable else []
            elif event.type == "DELETED":
                changes = self._remove(found)
            else:
                changes = self._put(found)
            # LAST: whoever sees the version without taking the lock finds everything up to it.
            if version and not older_or_same(version, self._version):
                self._version = version
        return changes

    def _put(self, new: T) -> list[Change[T]]:
        place = (new.namespace, new.name)
        old = self._objects.get(place)
        if old is not None and older_or_same(new.resource_version, old.resource_version):
            return []
        self._index(place, old, new)
        self._objects[place] = new
        if old is not None and old.uid != new.uid:
            return [Change(old, None, tombstone=True), Change(None, new)]
        return [Change(old, new)]

    def _lose(self, lost: Unreadable, *, gone: bool) -> list[Change[T]]:
        """An object of which nothing but its name can be read any more stays as it was known last, until it is deleted."""
        place = (lost.namespace, lost.name)
        old = self._objects.get(place)
        # Either the object was deleted, or another one has taken its name: never both, and never neither.
        if old is None or gone != _may_be(old, lost):
            return []
        if lost.resource_version and older_or_same(lost.resource_version, old.resource_version):
            return []
        self._index(place, old, None)
        del self._objects[place]
        return [Change(old, None, tombstone=True)]

    def _remove(self, last: T) -> list[Change[T]]:
        place = (last.namespace, last.name)
        old = self._objects.get(place)
        if old is None:
            return []
        ours = old.uid == last.uid
        # An equal version is fine: servers of old did not give a deletion a version of its own.
        if older_or_same(last.resource_version, old.resource_version) and not (ours and last.resource_version == old.resource_version):
            return []
        self._index(place, old, None)
        del self._objects[place]
        return [Change(last, None)] if ours else [Change(old, None, tombstone=True)]

    def _index(self, place: _Place, old: T | None, new: T | None) -> None:
        # ALL VALUES BEFORE THE FIRST MOVE: a function that raises leaves everything as it was.
        moves = [
            (self._indexes[name], "" if old is None else value_of(old), "" if new is None else value_of(new))
            for name, value_of in self._values.items()
        ]
        for buckets, before, now in moves:
            if before and before != now:
                bucket = buckets[before]
                del bucket[place]
                if not bucket:
                    del buckets[before]
            if now and new is not None:
                buckets.setdefault(now, {})[place] = new


def _indexed(objects: Mapping[_Place, T], value_of: Callable[[T], str]) -> _Buckets[T]:
    buckets: _Buckets[T] = {}
    for place, found in objects.items():
        if value := value_of(found):
            buckets.setdefault(value, {})[place] = found
    return buckets


def _same(one: T, other: T) -> bool:
    return one is other or (one.uid == other.uid and one.resource_version == other.resource_version != "")


def _may_be(known: Object, lost: Unreadable) -> bool:
    """Whether the one that cannot be read is the one that is known."""
    return lost.uid in ("", known.uid)


def _lives_on(old: T, new: T | None) -> bool:
    return new is not None and new.uid == old.uid
