"""The stations of a write, in the order in which a request passes them on the real server.

Admission, preconditions, the kind's own preparation, the checks, the store. Whoever calls holds the lock.
"""

import os
import random
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from genericjob.reconcile.api import Propagation
from genericjob.reconcile.errors import Cause
from genericjob.reconcile.resources import Key

from . import custom, deletion, names, refusals
from .deletion import Ending
from .drafts import Draft, written
from .garbage import Collector
from .kinds import Kind, Policy
from .store import Store, Table, Version
from .views import drafted, presented

NAMESPACES = ("", "namespaces")
DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_TRIES = 8


def random_uid() -> str:
    """A UUID of version 4."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


class Writer:
    """Creates, updates and ends objects: for requests, and for the collector."""

    def __init__(
        self,
        store: Store,
        policies: Mapping[tuple[str, str], Policy],
        *,
        now: Callable[[], datetime],
        new_uid: Callable[[], str],
        seed: int | None,
    ) -> None:
        self._store, self._policies = store, policies
        self._now = now
        self._new_uid = new_uid
        self._suffixes = random.Random(seed)  # noqa: S311 - names, not secrets
        self.collector = Collector(store, self)

    def time(self) -> str:
        """Now, as objects carry it."""
        return deletion.text(self._now())

    # -------------------------------------------------------------------------------------------- begin

    def admit(self, table: Table, kind: Kind, namespace: str, name: str) -> None:
        """The namespace must exist, and live; so must the kind's definition."""
        if kind.namespaced:
            if self._store.tables[NAMESPACES].get(Key("", namespace)) is None:
                raise refusals.not_found("namespaces", namespace)
            if self.collector.closing(namespace):
                why = f"unable to create new content in namespace {namespace} because it is being terminated"
                raise refusals.forbidden(kind, name, why, [refusals.terminating(namespace)])
        if table.closing:
            raise refusals.not_allowed("create not allowed while custom resource definition is terminating")

    def name(self, table: Table, draft: Draft) -> None:
        """Make up a name that is free, if there is none and one may be made up."""
        meta = draft.meta
        if meta.name or not meta.generate_name:
            return
        for _ in range(_SUFFIX_TRIES):
            meta.name = meta.generate_name[:58] + "".join(self._suffixes.choices(_SUFFIX_LETTERS, k=5))
            if table.get(Key(meta.namespace, meta.name)) is None:
                return

    def create(self, table: Table, kind: Kind, draft: Draft, prepare: Callable[[Draft], None] | None = None) -> Version:
        """Store a new object."""
        meta = draft.meta
        meta.uid = self._new_uid()
        meta.creation_timestamp = self.time()
        meta.deletion_timestamp = meta.deletion_grace_period_seconds = None
        (prepare or kind.creating)(draft)
        problems = [*names.problems(meta, kind.name, namespaced=kind.namespaced, core=kind.core), *kind.check(draft, None)]
        if problems := problems or [*self._against(kind, draft, None)]:
            raise refusals.invalid(kind, meta.name, problems)
        if meta.resource_version.strip("0") and meta.resource_version.isdigit():
            raise refusals.unexpected("resourceVersion should not be set on objects to be created", wrote=True)
        key = Key(meta.namespace, meta.name)
        existing = table.get(key)
        if existing is not None:
            raise refusals.already_exists(kind, key.name, deleting=existing.draft().meta.deletion_timestamp is not None)
        return self._put(table, key, draft)

    # -------------------------------------------------------------------------------------------- change

    def update(self, found: Version, kind: Kind, new: Draft, subresource: str) -> bytes:
        """Store a new version of an object; returns what to answer."""
        old = drafted(found, kind)
        _check_version(new, found, kind)
        new.meta.generation = old.meta.generation
        (kind.updating_status if subresource else kind.updating)(new, old)
        _keep_what_is_fixed(new, old)
        new.meta.resource_version = str(found.version)
        problems = [*(kind.check_status(new, old) if subresource else kind.check(new, old))]
        if new.meta != old.meta:
            problems += names.problems(new.meta, names.path_segment, namespaced=kind.namespaced, core=kind.core)
            problems += names.update_problems(new.meta, old.meta)
        if problems := problems or [*(() if subresource else self._against(kind, new, old))]:
            raise refusals.invalid(kind, found.key.name, problems)
        return self._changed(found, kind, new, old)

    def _against(self, kind: Kind, new: Draft, old: Draft | None) -> Iterable[Cause]:
        """What a policy has against it; asked where nothing else is wrong. (The real server asks unless something has the wrong type.)"""
        policy = self._policies.get(kind.place)
        return policy(_document(new), _document(old) if old else None) if policy else ()

    def _changed(self, found: Version, kind: Kind, new: Draft, old: Draft) -> bytes:
        """Store it, unless nothing changed, or the object was only waiting for this."""
        if deletion.let_go(new, old, kind):
            # THE ANSWER HAS THE OLD VERSION, the deletion's event the content before this update: as on the real server.
            self._remove(found)
            return written(new, kind.api_version, kind.kind)
        data = self._bytes(found, new)
        return presented(found if data == found.data else self._put(found.table, found.key, new, data), kind)

    def bind(self, found: Version, node: str) -> None:
        """Put a pod on a node."""
        draft = found.draft()
        spec, name = draft.section("spec"), found.key.name
        if draft.meta.deletion_timestamp is not None:
            raise refusals.conflict(found.table.kind, name, f"pod {name} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise refusals.conflict(found.table.kind, name, f"pod {name} is already assigned to node {spec['nodeName']!r}")
        spec["nodeName"] = node
        status = draft.section("status")
        others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        bound = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": self.time()}
        status["conditions"] = [*others, bound]
        self._put(found.table, found.key, draft)

    # -------------------------------------------------------------------------------------------- end

    def delete(self, found: Version, kind: Kind, *, grace: int | None, propagation: Propagation | None) -> tuple[Version, bool]:
        """Begin or finish a deletion; returns the last version, and whether the object is gone."""
        draft = drafted(found, kind)
        if kind.place == NAMESPACES:
            ending = deletion.ask_namespace(draft, propagation=propagation, now=self._now())
        else:
            ending = deletion.ask(draft, kind, grace=grace, propagation=propagation, now=self._now())
        if ending in (Ending.MARK, Ending.MARK_AND_REMOVE) and (data := self._bytes(found, draft)) != found.data:
            found = self._put(found.table, found.key, draft, data)
        if ending in (Ending.REMOVE, Ending.MARK_AND_REMOVE):
            return self._remove(found), True
        return found, False

    def end(self, found: Version, propagation: Propagation | None) -> None:
        """Delete an object, for the collector."""
        self.delete(found, found.table.kind, grace=None, propagation=propagation)

    def save(self, found: Version, draft: Draft) -> None:
        """Store a new version, for the collector."""
        self._changed(found, found.table.kind, draft, found.draft())

    def expire(self, table: Table) -> None:
        """Remove the objects of a kind whose lifetime is over."""
        now = self._now()
        while table.due and next(iter(table.due.values())) <= now:
            key, _ = table.due.popitem(last=False)
            if found := table.get(key):
                self._remove(found)

    # -------------------------------------------------------------------------------------------- the store

    def _bytes(self, found: Version, draft: Draft) -> bytes:
        """A draft as it would be stored if nothing but its content could change."""
        kind = found.table.kind
        return written(draft, kind.api_version, kind.kind)

    def _put(self, table: Table, key: Key, draft: Draft, data: bytes | None = None) -> Version:
        stored = self._store.put(table, key, draft, data)
        self.collector.stored(stored, draft.meta)
        if table.kind.lifetime:
            table.due[key] = self._now() + table.kind.lifetime
            table.due.move_to_end(key)
        if table.kind.place == DEFINITIONS:
            self._define(draft)
        return stored

    def _remove(self, found: Version) -> Version:
        final = self._store.remove(found)
        self.collector.removed(found)
        found.table.due.pop(found.key, None)
        if found.table.kind.place == DEFINITIONS:
            self._store.drop(custom.place_of(found.draft()))
        return final

    def _define(self, definition: Draft) -> None:
        """Serve the kinds of a definition, or serve them under its new schema."""
        kinds = list(custom.kinds_of(definition))
        if kinds:
            self._store.add(kinds, custom.storage_version(definition))


def _document(draft: Draft) -> dict[str, Any]:
    """An object as policies see it: of its metadata the name alone."""
    return {**draft.rest, "metadata": {"name": draft.meta.name}}


def _keep_what_is_fixed(new: Draft, old: Draft) -> None:
    """Some metadata is the server's own."""
    meta, before = new.meta, old.meta
    meta.uid = meta.uid or before.uid
    meta.creation_timestamp = before.creation_timestamp
    if before.deletion_timestamp is not None:
        meta.deletion_timestamp = before.deletion_timestamp
    if meta.deletion_grace_period_seconds is None:
        meta.deletion_grace_period_seconds = before.deletion_grace_period_seconds


def _check_version(draft: Draft, found: Version, kind: Kind) -> None:
    try:
        asked = draft.meta.version
    except ValueError as error:
        raise refusals.unexpected(str(error), wrote=True) from None
    if asked == 0 and not kind.unconditional_update:
        raise refusals.invalid(kind, found.key.name, [refusals.wrong("metadata.resourceVersion", 0, "must be specified for an update")])
    if asked not in (0, found.version):
        raise refusals.conflict(kind, found.key.name, refusals.MODIFIED)
