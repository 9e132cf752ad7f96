"""What the controller manager does beside the server: collect what nobody owns, empty namespaces and definitions that are to go.

The collector keeps a list of objects to look at: dependents whose owner went, owners that wait for their dependents, whatever came with an
owner. Looking at one may put others on the list; `collect` runs until it is empty. When that happens is the API's choice.
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from genericjob.reconcile.api import Propagation

from .builtin import NAMESPACE_FINALIZER
from .custom import CLEANUP, place_of
from .drafts import Draft, Meta, OwnerReference
from .kinds import Kind
from .names import FOREGROUND, ORPHAN
from .store import Store, Table, Version


class Hands(Protocol):
    """What the collector may do: the same writes as anybody else's."""

    def end(self, found: Version, propagation: Propagation | None) -> None:
        """Delete an object."""
        ...

    def save(self, found: Version, draft: Draft) -> None:
        """Store a new version, or let the object go if that was its last finalizer."""
        ...


class _Owner(Enum):
    SOLID = auto()
    GONE = auto()
    WAITING = auto()
    """It is to go after its dependents."""
    UNKNOWN = auto()
    """Nobody can say: its kind is not served, or it cannot be addressed from here."""


class Collector:
    """Looks after owners, namespaces and definitions."""

    def __init__(self, store: Store, hands: Hands) -> None:
        self._store = store
        self._hands = hands
        self._look_at: dict[str, None] = {}
        self._closing: dict[str, str] = {}
        """Namespaces that are to go, and their UIDs."""

    def stored(self, now: Version, meta: Meta) -> None:
        """Take note of a new version."""
        if now.owners:
            # MOST OWNERS ARE THERE: whoever has only such owners need not be looked at.
            if any(self._owner(now, owner) is not _Owner.SOLID for owner in meta.owner_references):
                self._look_at[now.uid] = None
            for uid in now.owners:
                self._wake_waiting(uid)
        if meta.deletion_timestamp is not None and self._has_work(now.table.kind, meta):
            self._look_at[now.uid] = None
        if meta.deletion_timestamp is not None and now.table.kind.place == ("", "namespaces"):
            self._closing[now.key.name] = now.uid
        elif self._closing and now.key.namespace in self._closing:
            self._look_at[self._closing[now.key.namespace]] = None

    def removed(self, before: Version) -> None:
        """Take note of an object's end."""
        for child in sorted(self._store.dependents.get(before.uid, ())):  # the order of a set differs from process to process
            self._look_at[child] = None
        for owner in before.owners:
            self._wake_waiting(owner)
        kind = before.table.kind
        if self._closing:
            if before.key.namespace in self._closing:
                self._look_at[self._closing[before.key.namespace]] = None
            if kind.place == ("", "namespaces"):
                self._closing.pop(before.key.name, None)
        if before.table.closing:
            self._look_at[before.table.closing] = None

    def collect(self) -> None:
        """Look at everything there is to look at, and at what comes of it."""
        while self._look_at:
            uid = next(iter(self._look_at))
            del self._look_at[uid]
            found = self._store.by_uid.get(uid)
            if found is not None:
                self._look(found)

    def closing(self, namespace: str) -> bool:
        """Whether a namespace is to go."""
        return namespace in self._closing

    def _has_work(self, kind: Kind, meta: Meta) -> bool:
        return kind.place in _CONTAINERS or ORPHAN in meta.finalizers or FOREGROUND in meta.finalizers

    def _wake_waiting(self, uid: str) -> None:
        owner = self._store.by_uid.get(uid)
        if owner is not None and owner.foreground:
            self._look_at[uid] = None

    def _look(self, found: Version) -> None:
        draft = found.draft()
        meta, kind = draft.meta, found.table.kind
        if not kind.propagates:
            return
        if meta.deletion_timestamp is None:
            if meta.owner_references:
                self._look_at_owners(found, draft)
        elif ORPHAN in meta.finalizers:
            self._orphan(found, draft)
        elif FOREGROUND in meta.finalizers:
            self._wait_for_dependents(found, draft)
        elif empty := _CONTAINERS.get(kind.place):
            empty(self, found, draft)

    # -------------------------------------------------------------------------------------------- as an owner

    def _dependents(self, uid: str) -> list[Version]:
        found = (self._store.by_uid.get(child) for child in sorted(self._store.dependents.get(uid, ())))
        return [child for child in found if child is not None and child.table.kind.propagates]

    def _orphan(self, found: Version, draft: Draft) -> None:
        for child in self._dependents(found.uid):
            self._drop_owners(child, {found.uid})
        self._drop_finalizer(found, draft, ORPHAN)

    def _wait_for_dependents(self, found: Version, draft: Draft) -> None:
        children = self._dependents(found.uid)
        if not any(_blocks(child.draft(), found.uid) for child in children):
            self._drop_finalizer(found, draft, FOREGROUND)
            return
        for child in children:
            if child.draft().meta.deletion_timestamp is None:
                self._look_at[child.uid] = None

    def _drop_finalizer(self, found: Version, draft: Draft, name: str) -> None:
        draft.meta.finalizers = [one for one in draft.meta.finalizers if one != name]
        self._hands.save(found, draft)

    # -------------------------------------------------------------------------------------------- as a dependent

    def _look_at_owners(self, found: Version, draft: Draft) -> None:
        state = {owner.uid: self._owner(found, owner) for owner in draft.meta.owner_references}
        if _Owner.UNKNOWN in state.values():
            return
        gone = {uid for uid, owner in state.items() if owner is not _Owner.SOLID}
        if not gone:
            return
        if len(gone) < len(state):
            self._drop_owners(found, gone)
            return
        propagation: Propagation = "Background"
        if _Owner.WAITING in state.values() and (children := self._dependents(found.uid)):
            propagation = "Foreground"
            if any(child.foreground for child in children):
                found = self._unblock(found, draft)
        elif ORPHAN in draft.meta.finalizers:
            propagation = "Orphan"
        elif FOREGROUND in draft.meta.finalizers:
            propagation = "Foreground"
        self._hands.end(found, propagation)

    def _owner(self, found: Version, owner: OwnerReference) -> _Owner:
        there = self._store.by_uid.get(owner.uid)
        table = there.table if there is not None and _serves(there.table, owner) else self._table(owner)
        if table is None or (table.kind.namespaced and not found.key.namespace):
            return _Owner.UNKNOWN
        # AN OWNER IS LOOKED FOR WHERE ITS DEPENDENT LIVES: one in another namespace does not count.
        if there is None or there.table is not table or there.key != (found.key.namespace if table.kind.namespaced else "", owner.name):
            return _Owner.GONE
        return _Owner.WAITING if there.foreground else _Owner.SOLID

    def _table(self, owner: OwnerReference) -> Table | None:
        return next((table for table in self._store.tables.values() if _serves(table, owner)), None)

    def _drop_owners(self, found: Version, uids: set[str]) -> None:
        draft = found.draft()
        draft.meta.owner_references = [owner for owner in draft.meta.owner_references if owner.uid not in uids]
        self._hands.save(found, draft)

    def _unblock(self, found: Version, draft: Draft) -> Version:
        """Owners in a circle would wait for each other for ever."""
        for owner in draft.meta.owner_references:
            if owner.block_owner_deletion:
                owner.block_owner_deletion = False
        self._hands.save(found, draft)
        return self._store.by_uid.get(found.uid, found)

    # -------------------------------------------------------------------------------------------- namespaces, definitions

    def _empty_namespace(self, found: Version, draft: Draft) -> None:
        name = found.key.name
        tables = [table for table in self._store.tables.values() if table.kind.namespaced]
        for table in tables:
            self._end_all(table, name)
        if not any(name in table.spaces for table in tables):
            spec = draft.section("spec")
            spec["finalizers"] = [one for one in spec.get("finalizers") or () if one != NAMESPACE_FINALIZER]
            self._hands.save(found, draft)

    def _empty_definition(self, found: Version, draft: Draft) -> None:
        table = self._store.tables.get(place_of(draft))
        if table is not None:
            table.closing = found.uid
            self._end_all(table)
            if table.spaces:
                return
        self._drop_finalizer(found, draft, CLEANUP)

    def _end_all(self, table: Table, namespace: str = "") -> None:
        for found in list(table.all(namespace)):
            if found.draft().meta.deletion_timestamp is None:
                self._hands.end(found, "Background")


def _serves(table: Table, owner: OwnerReference) -> bool:
    group, _, version = owner.api_version.rpartition("/")
    kind = table.kinds.get(version)
    return kind is not None and kind.kind == owner.kind and kind.group == group


def _blocks(draft: Draft, owner: str) -> bool:
    return any(reference.uid == owner and reference.block_owner_deletion for reference in draft.meta.owner_references)


_CONTAINERS: dict[tuple[str, str], Callable[[Collector, Version, Draft], None]] = {
    ("", "namespaces"): Collector._empty_namespace,
    ("apiextensions.k8s.io", "customresourcedefinitions"): Collector._empty_definition,
}
