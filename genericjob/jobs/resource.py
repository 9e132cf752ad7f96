"""GenericJobs on the server, and as the cache keeps them: metadata, and the JSON of spec and status, parsed when somebody looks.

Of labels and annotations only those are kept that are read: none of a job, and those that say where they belong of its pods and services.
"""

from contextlib import suppress
from typing import Any

import msgspec
from msgspec import structs

from genericjob.api import names, ranges
from genericjob.api.names import JobIdentity
from genericjob.api.spec import MAX_DEPTH, MAX_REPLICAS, TOO_DEEP, InvalidSpecError, parse
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.codec import UNREADABLE
from genericjob.reconcile.objects import NO_LABELS, Object, Unreadable, WireObject, metadata
from genericjob.reconcile.pieces import deeper_than, members
from genericjob.reconcile.resources import Resource, pods, services
from genericjob.reconcile.structs import decoder
from genericjob.reconcile.weighed import Weighed, decoded_weight, one_at_a_time

from .conditions import of_others, own, without_others
from .job import Design, Job
from .ledger import Ledger


class UnreadableStatusError(Exception):
    """A status that another controller, or another version, has left."""


class StoredJob(Object, frozen=True, gc=False):
    """A job as the server has it."""

    spec: bytes
    status: bytes
    unreadable: str = ""
    """Why the object cannot be decoded, if it cannot: of the metadata only its identity is known then, and `status` is the whole object."""


class WireJob(WireObject):
    """A job on the wire; what users write in it is not looked at here."""

    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")


def _slim(wire: WireJob) -> StoredJob:
    return StoredJob(*metadata(wire, NO_LABELS), bytes(wire.spec), bytes(wire.status))


def _salvage(found: Unreadable, data: bytes) -> StoredJob:
    return StoredJob(
        found.namespace, found.name, found.uid, found.resource_version, 0, {}, {}, "", (), None, None, b"", data, found.problem
    )


JOBS: Resource[StoredJob] = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND, WireJob, _slim, salvage=_salvage)
PODS = pods(labels=names.LABELS, annotations=names.ANNOTATIONS)
"""Slim pods that remember which job and which run of it they belong to."""
SERVICES = services(labels=names.LABELS)

_status = decoder(GenericJobStatus)
_members = decoder(dict[str, msgspec.Raw])
_each_members = decoder(list[dict[str, msgspec.Raw]])


MOST = 32 * 2**20
"""Bytes of all specs that are kept as they were parsed: enough for 2,000 usual jobs, or for forty of 10,000 ranks."""


class Reader:
    """Parses jobs, each generation once, and keeps those that were read last."""

    def __init__(self, most: int = MOST) -> None:
        """`most` is the weight of all that is kept, in bytes."""
        self._designs: Weighed[str, tuple[int, Design]] = Weighed(most)

    def read(self, stored: StoredJob) -> Job:
        """A job as decisions see it; raises InvalidSpecError or UnreadableStatusError."""
        generation, design = self._designs.get(stored.uid) or (0, None)
        if design is None or generation != stored.generation:
            design = _design(stored)
            self._designs.put(stored.uid, (stored.generation, design), _weight(stored.spec, design))
        return Job(identity(stored), stored.generation, design, read_status(stored))

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._designs.forget(uid)

    @property
    def weight(self) -> int:
        """The bytes that all that is kept takes at most."""
        return self._designs.weight


def read_status(stored: StoredJob) -> GenericJobStatus:
    """The status that is stored; that of a new job is empty. Raises UnreadableStatusError."""
    if stored.status in (b"", b"null"):
        return GenericJobStatus()
    try:
        found = _read(stored.status)
        for task in found.tasks:
            for text in (task.succeeded_ranks, task.failed_ranks, task.absent_ranks):
                ranges.parse(text)
            Ledger.of(task, MAX_REPLICAS)
    except (ValueError, *UNREADABLE) as error:  # NOT TAKEN FOR EMPTY (clause 3): outcomes may be in it, and ended ranks would run again
        raise UnreadableStatusError(f"status: what is stored cannot be read: {error}") from None
    return found


def _read(status: bytes) -> GenericJobStatus:
    """Return what the controller wrote. A condition of another writer never makes a status unreadable."""
    try:
        return own(_status.decode(status))
    except UNREADABLE:
        return _status.decode(without_others(status))


def identity(stored: StoredJob) -> JobIdentity:
    """Which job it is."""
    return JobIdentity(stored.namespace, stored.name, stored.uid)


def _design(stored: StoredJob) -> Design:
    """Parse a spec whose templates may be of any size and shape: their JSON is kept, and decoded when pods are made of it."""
    if deeper_than(MAX_DEPTH, stored.spec):
        raise InvalidSpecError(TOO_DEEP)
    weight = decoded_weight(stored.spec)
    try:
        with one_at_a_time(weight):
            return Design.of(stored.name, parse(_outline(stored.spec)), decoded_weight=weight)
    except UNREADABLE as error:
        raise InvalidSpecError(f"spec: what is stored cannot be read: {error}") from None


def _outline(spec: bytes) -> Any:
    """The spec, with the JSON of its templates."""
    try:
        fields = _members.decode(spec or b"{}")
        types = _each_members.decode(fields.pop("replicaSpecs", b"[]"))
    except msgspec.ValidationError:
        return msgspec.json.decode(spec)  # parsing it tells which field is wrong
    parts = [{name: value if name == "template" else msgspec.json.decode(value) for name, value in part.items()} for part in types]
    return {name: msgspec.json.decode(value) for name, value in fields.items()} | ({"replicaSpecs": parts} if parts else {})


def _weight(spec: bytes, design: Design) -> int:
    """The bytes that a design takes at most: the text of its templates, and all else decoded."""
    templates = sum(decoded_weight(part.written_json) for part in design.spec.replica_specs)
    return len(spec) + design.decoded_weight - templates + design.weight


def reported_as(stored: StoredJob) -> StoredJob | None:
    """A job that cannot be decoded, with its own status in place of the whole object; None if another controller manages it."""
    manager, status = b"", b""
    with suppress(ValueError):
        for name, value in members(stored.status):
            if name == "spec":
                manager = next((value for name, value in members(value) if name == "managedBy"), b"")
            elif name == "status":
                status = value
    return structs.replace(stored, status=status) if manager in (b"", b"null", _MANAGER) else None


_MANAGER = msgspec.json.encode(names.MANAGER)


def status_body(stored: StoredJob, status: GenericJobStatus) -> bytes:
    """The body of a PUT on /status, good for the version that was read and no other: it has that version's foreign conditions."""
    meta = {"namespace": stored.namespace, "name": stored.name, "uid": stored.uid, "resourceVersion": stored.resource_version}
    if others := of_others(stored.status):
        status = structs.replace(status, conditions=(*status.conditions, *others))
    return msgspec.json.encode({"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "status": status})
