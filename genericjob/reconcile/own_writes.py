"""Read your writes: what a cache must have seen before a decision may rest on it.

After a write the caches are behind until its event has come round. Who decides again in between would create what exists and delete what is
gone. So the version of every write is remembered per owner, and a reconcile first asks whether all of them are visible. One number per
owner and resource is enough, the highest: versions only grow, and a cache that has come so far has seen everything before.

Nothing is counted and nothing times out. What a restart forgets it does not need: a cache that is listed afresh is newer than any write.
"""

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, NamedTuple

from .resources import Resource
from .versions import newer_or_same

Reached = Callable[[str, str], bool]
"""Whether the cache of a namespace has come as far as a version."""

FIRST_SWEEP = 1024
"""Owners that are remembered before somebody looks which of them can be forgotten."""


class _Place(NamedTuple):
    """A collection on the server: group, plural and namespace. Not the `Resource`: two of them may read the same kind differently."""

    group: str
    plural: str
    namespace: str


class OwnWrites:
    """The highest version written per owner and resource. Safe to share between threads.

    `reached` has an entry for each resource that is cached; writes to others are not remembered, since no decision reads them.
    """

    def __init__(self, reached: Mapping[Resource[Any], Reached]) -> None:
        self._reached = {(resource.group, resource.plural): asked for resource, asked in reached.items()}
        self._lock = Lock()
        self._written: dict[str, dict[_Place, str]] = {}
        self._sweep_at = FIRST_SWEEP

    def record(self, owner_uid: str, resource: Resource[Any], namespace: str, version: str) -> None:
        """A write for this owner was stored as this version."""
        if not version or (resource.group, resource.plural) not in self._reached:
            return
        place = _Place(resource.group, resource.plural, namespace)
        with self._lock:
            written = self._written.setdefault(owner_uid, {})
            # WRITES RUN IN PARALLEL: the answer that comes last need not be that of the last write.
            if not newer_or_same(written.get(place, ""), version):
                written[place] = version
            crowded = len(self._written) > self._sweep_at
        if crowded:
            self._sweep()

    def visible(self, owner_uid: str) -> bool:
        """Whether the caches show everything that was written for this owner."""
        with self._lock:
            written = list(self._written.get(owner_uid, {}).items())
        seen = [(place, version) for place, version in written if self._reached[place.group, place.plural](place.namespace, version)]
        if seen:
            self._drop(owner_uid, seen)
        return len(seen) == len(written)

    def forget(self, owner_uid: str) -> None:
        """This owner is gone."""
        with self._lock:
            self._written.pop(owner_uid, None)

    def __len__(self) -> int:
        return len(self._written)

    def _drop(self, owner_uid: str, seen: list[tuple[_Place, str]]) -> None:
        with self._lock:
            written = self._written.get(owner_uid, {})
            for place, version in seen:
                if written.get(place) == version:  # else there was another write meanwhile
                    del written[place]
            if not written:
                self._written.pop(owner_uid, None)

    def _sweep(self) -> None:
        """Forget what nobody asked about any more: an owner that went while its last write was under way."""
        for owner_uid in list(self._written):
            self.visible(owner_uid)
        with self._lock:
            self._sweep_at = max(FIRST_SWEEP, 2 * len(self._written))
