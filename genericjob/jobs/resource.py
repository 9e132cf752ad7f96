"""GenericJobs on the server, and as the cache keeps them: metadata, and the JSON of spec and status, parsed when somebody looks."""

from threading import Lock
from typing import Any

import msgspec
from cachetools import LRUCache

from genericjob.api import names, ranges
from genericjob.api.names import JobIdentity
from genericjob.api.spec import MAX_REPLICAS, parse
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.objects import Object, WireObject, metadata
from genericjob.reconcile.resources import Resource
from genericjob.reconcile.structs import decoder

from .job import Design, Job
from .ledger import Ledger


class UnreadableStatusError(Exception):
    """A status that another controller, or another version, has left."""


class StoredJob(Object, frozen=True, gc=False):
    """A job as the server has it."""

    spec: bytes
    status: bytes


class WireJob(WireObject):
    """A job on the wire; what users write in it is not looked at here."""

    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")


def _slim(wire: WireJob) -> StoredJob:
    return StoredJob(*metadata(wire), bytes(wire.spec), bytes(wire.status))


JOBS: Resource[StoredJob] = Resource(names.GROUP, names.VERSION, names.PLURAL, names.KIND, WireJob, _slim)

_status = decoder(GenericJobStatus)


class Reader:
    """Parses jobs, each generation once, and remembers the one that was read last."""

    def __init__(self, remembered: int = 4096) -> None:
        self._lock = Lock()
        self._designs: LRUCache[str, tuple[int, Design]] = LRUCache(remembered)

    def read(self, stored: StoredJob) -> Job:
        """A job as decisions see it; raises InvalidSpecError or UnreadableStatusError."""
        with self._lock:
            generation, design = self._designs.get(stored.uid, (0, None))
        if design is None or generation != stored.generation:
            design = Design.of(stored.name, parse(_decoded(stored.spec)))
            with self._lock:
                self._designs[stored.uid] = stored.generation, design
        return Job(identity(stored), stored.generation, design, read_status(stored))

    def forget(self, uid: str) -> None:
        """A job is gone."""
        with self._lock:
            self._designs.pop(uid, None)


def read_status(stored: StoredJob) -> GenericJobStatus:
    """The status that is stored; that of a new job is empty. Raises UnreadableStatusError."""
    if stored.status in (b"", b"null"):
        return GenericJobStatus()
    try:
        found = _status.decode(stored.status)
        for task in found.tasks:
            for text in (task.succeeded_ranks, task.failed_ranks, task.absent_ranks):
                ranges.parse(text)
            Ledger.of(task, MAX_REPLICAS)
    except (
        msgspec.MsgspecError,
        ValueError,
    ) as error:  # NOT TAKEN FOR EMPTY: outcomes may be in it, and ranks that have ended would run again
        raise UnreadableStatusError(f"status: what is stored cannot be read: {error}") from None
    return found


def identity(stored: StoredJob) -> JobIdentity:
    """Which job it is."""
    return JobIdentity(stored.namespace, stored.name, stored.uid)


def _decoded(spec: bytes) -> Any:
    return msgspec.json.decode(spec) if spec else {}


def status_body(stored: StoredJob, status: GenericJobStatus) -> bytes:
    """The body of a PUT on /status, good for the version that was read and no other."""
    meta = {"namespace": stored.namespace, "name": stored.name, "uid": stored.uid, "resourceVersion": stored.resource_version}
    return msgspec.json.encode({"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "status": status})
