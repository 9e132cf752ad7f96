"""Versions of objects: what is, what was, and in which order it happened.

A version is immutable bytes, so nothing that is handed out can reach back into the store. All kinds share one counter, the resourceVersion.
Each kind has a table of its present objects and a log of its last changes; a watch is a place in a log, and the past is the present with
the log undone. A log has a limit in entries and one in bytes: the status of a large job is a hundred times as large as a pod, and a run
may last for days.

Nothing here locks: whoever calls holds the API's lock.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from threading import Condition
from typing import Literal, NamedTuple

from genericjob.reconcile.resources import Key

from . import refusals
from .drafts import Draft, restamped, stored, written
from .kinds import Kind
from .names import FOREGROUND

OBJECT_LIMIT = 1536 * 1024
"""Bytes of the largest object that the real store takes."""

HISTORY_BYTES = 16 * 1024 * 1024
"""Bytes of objects in the log of one kind: enough for ten statuses of the largest job."""

SNAPSHOTS = 8
"""Past states kept ready for lists that are being paged through; others are made from the log again."""


class Version:
    """An object as it was from one resourceVersion on."""

    __slots__ = ("data", "foreground", "key", "owners", "table", "uid", "version")

    def __init__(
        self, table: "Table", key: Key, version: int, uid: str, owners: tuple[str, ...], data: bytes, *, foreground: bool = False
    ) -> None:
        self.table = table
        self.key = key
        self.version = version
        self.uid = uid
        self.owners = owners
        """The UIDs of its owners."""
        self.data = data
        self.foreground = foreground
        """Whether it waits for its dependents to go first."""

    def draft(self) -> Draft:
        """A copy to work on."""
        return stored(self.data)


class Change(NamedTuple):
    """One entry of a log. `now` of a deletion is the last state, with the deletion's own resourceVersion."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    before: Version | None
    now: Version

    @property
    def version(self) -> int:
        """When it happened."""
        return self.now.version


_happened = attrgetter("version")


class Table:
    """The objects of one kind, in all its versions."""

    def __init__(
        self, kinds: Iterable[Kind], storage_version: str, *, history: int, history_bytes: int, version: int, changed: Condition
    ) -> None:
        self.changed = changed
        """Watches wait here."""
        self.watches = 0
        self.kinds = {kind.version: kind for kind in kinds}
        self.storage_version = storage_version
        self.spaces: dict[str, dict[str, Version]] = {}
        self.coerced_until = 0
        """Versions up to this one were written under an older schema: they are coerced when they are read."""
        self.log: list[Change] = []
        self.log_begins = version
        """Everything after this resourceVersion is in the log."""
        self.list_begins = version
        """States from this resourceVersion on can be read."""
        self.dropped = 0
        """The last change that is no more in the log: a watch that has not told it never will."""
        self.closing = ""
        """The UID of the definition, once that is to go: nothing new may come."""
        self.removed = False
        self.due: OrderedDict[Key, datetime] = OrderedDict()
        """When objects expire, the earliest first; only kinds that have a lifetime."""
        self.log_bytes = 0
        """Bytes of the objects in the log."""
        self._history, self._history_bytes = history, history_bytes
        self._snapshots: OrderedDict[tuple[int, str], Sequence[Version]] = OrderedDict()

    @property
    def kind(self) -> Kind:
        """The kind in the version that is stored."""
        return self.kinds[self.storage_version]

    def redefine(self, kinds: Iterable[Kind], storage_version: str, version: int) -> None:
        """Serve other versions, under other schemas; what was stored before is read under the new ones."""
        self.kinds = {kind.version: kind for kind in kinds}
        self.storage_version = storage_version
        self.coerced_until = version

    def get(self, key: Key) -> Version | None:
        """One object."""
        space = self.spaces.get(key.namespace)
        return space.get(key.name) if space else None

    def all(self, namespace: str = "") -> Iterator[Version]:
        """The present objects, in no order."""
        for space in self.spaces.values() if not namespace else (self.spaces.get(namespace, {}),):
            yield from space.values()

    def apply(self, change: Change) -> None:
        """Let something happen."""
        key = change.now.key
        if change.type == "DELETED":
            space = self.spaces[key.namespace]
            del space[key.name]
            if not space:
                del self.spaces[key.namespace]
        else:
            self.spaces.setdefault(key.namespace, {})[key.name] = change.now
        self.log.append(change)
        self.log_bytes += len(change.now.data)
        # TWICE THE LENGTH, THEN HALVED: one change costs no more in a long history than in a short one.
        if len(self.log) >= 2 * self._history or self.log_bytes >= 2 * self._history_bytes:
            self.forget(self._beyond_limits())
        if self.watches:
            self.changed.notify_all()

    def _beyond_limits(self) -> int:
        """Return how many of the oldest entries the log has beyond its limits; the last one always stays."""
        kept, size = 1, len(self.log[-1].now.data)
        for change in reversed(self.log[-self._history : -1]):
            size += len(change.now.data)
            if size > self._history_bytes:
                break
            kept += 1
        return len(self.log) - kept

    def forget(self, count: int) -> None:
        """Drop the oldest entries of the log."""
        if count > 0:
            self.log_bytes -= sum(len(change.now.data) for change in self.log[:count])
            self.dropped = self.log_begins = self.list_begins = self.log[count - 1].version
            del self.log[:count]
            for snapshot in [found for found in self._snapshots if found[0] < self.log_begins]:
                del self._snapshots[snapshot]

    def compact(self, version: int) -> None:
        """Forget the past. As in the real store, what happened at this very version is still told, and older states cannot be read."""
        if count := self.since(version - 1):
            self.forget(count)
        self.log_begins = version - 1
        self.list_begins = version
        self._snapshots.clear()

    def since(self, version: int) -> int:
        """Where in the log the first change after a version stands."""
        return bisect_right(self.log, version, key=_happened)

    def listed(self, namespace: str, version: int, *, keep: bool = False) -> Sequence[Version]:
        """The objects as they were at a version, in the order of their keys; `keep` if more pages will be asked for."""
        found = self._snapshots.get((version, namespace))
        if found is None:
            if version < self.list_begins:
                raise refusals.expired(f"The provided resource version is too old: {version} ({self.list_begins})")
            found = self._at(namespace, version)
            if keep:
                self._snapshots[version, namespace] = found
                if len(self._snapshots) > SNAPSHOTS:
                    self._snapshots.popitem(last=False)
        return found

    def _at(self, namespace: str, version: int) -> Sequence[Version]:
        state = {found.key: found for found in self.all(namespace)}
        for change in reversed(self.log[self.since(version) :]):
            if namespace and change.now.key.namespace != namespace:
                continue
            if change.before is None:
                state.pop(change.now.key, None)
            else:
                state[change.now.key] = change.before
        return sorted(state.values(), key=_order)


def _order(version: Version) -> str:
    # THE ORDER OF THE REAL STORE'S KEYS: "a-b/x" comes before "a/x".
    return f"{version.key.namespace}/{version.key.name}"


class Store:
    """All tables, and who owns whom."""

    def __init__(self, *, history: int, condition: Callable[[], Condition], history_bytes: int = HISTORY_BYTES) -> None:
        self.version = 1
        self.tables: dict[tuple[str, str], Table] = {}
        self.by_uid: dict[str, Version] = {}
        self.dependents: dict[str, set[str]] = {}
        """UIDs of objects, by the UID of an owner."""
        self._history, self._history_bytes = history, history_bytes
        self._condition = condition

    def add(self, kinds: Sequence[Kind], storage_version: str) -> None:
        """Make a table for a kind, or serve the kind of a table anew."""
        table = self.tables.get(kinds[0].place)
        if table is not None:
            table.redefine(kinds, storage_version, self.version)
            return
        self.tables[kinds[0].place] = Table(
            kinds,
            storage_version,
            history=self._history,
            history_bytes=self._history_bytes,
            version=self.version,
            changed=self._condition(),
        )

    def drop(self, place: tuple[str, str]) -> None:
        """Serve a kind no more; its watches end."""
        table = self.tables.pop(place, None)
        if table is not None:
            table.removed = True
            table.changed.notify_all()

    def put(self, table: Table, key: Key, draft: Draft, data: bytes | None = None) -> Version:
        """Store a new version; `data` is the draft as bytes, if somebody has them already."""
        before = table.get(key)
        kind = table.kind
        meta = draft.meta
        meta.resource_version = str(self.version + 1)
        data = restamped(data, self.version + 1) if data else written(draft, kind.api_version, kind.kind)
        if len(data) > OBJECT_LIMIT:
            raise refusals.unexpected("etcdserver: request is too large", wrote=True)
        self.version += 1
        owners = tuple({reference.uid: None for reference in meta.owner_references}) if meta.owner_references else ()
        foreground = meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers
        now = Version(table, before.key if before else key, self.version, meta.uid, owners, data, foreground=foreground)
        if before is None or before.owners != owners:
            self._disown(before)
            for owner in owners:
                self.dependents.setdefault(owner, set()).add(now.uid)
        self.by_uid[now.uid] = now
        table.apply(Change("MODIFIED" if before else "ADDED", before, now))
        return now

    def remove(self, before: Version) -> Version:
        """Remove an object; returns its last state."""
        self.version += 1
        final = Version(before.table, before.key, self.version, before.uid, before.owners, restamped(before.data, self.version))
        self._disown(before)
        del self.by_uid[before.uid]
        before.table.apply(Change("DELETED", before, final))
        return final

    def _disown(self, version: Version | None) -> None:
        if version is None:
            return
        for owner in version.owners:
            children = self.dependents[owner]
            children.discard(version.uid)
            if not children:
                del self.dependents[owner]
