"""The audit log as a history: every write that the server stored, in the order in which it stored them.

All objects of a server are versions of one store, so their resourceVersions are one count, and tell the order of any two writes: of a
status and a delete, of a lease and a create. Clocks and the order of lines tell less: two requests under way at the same time are logged
in the order of their ends. Writes that were refused have no version and a place of their own.

A request whose sender went away before the answer is logged as failed, whatever came of it. So what later writes show of an object counts.
"""

from bisect import bisect
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from genericjob.api.names import GROUP, PLURAL, SCHEDULER_GROUP
from harness.audit import Answer, Object, User

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
CREDENTIAL = "authentication.kubernetes.io/credential-id"
JOBS = f"{PLURAL}.{GROUP}"
LEASES = "leases.coordination.k8s.io"
OWNED = frozenset(("pods", "services", f"podgroups.{SCHEDULER_GROUP}"))
"""What a controller makes for jobs."""


class _Owner(msgspec.Struct):
    uid: str = ""
    kind: str = ""
    controller: bool = False


class Meta(msgspec.Struct, rename="camel"):
    """Of an object, what clauses ask for."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: list[_Owner] = []
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    finalizers: list[str] = []
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def owner(self) -> _Owner | None:
        """The controller of the object."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Thing(msgspec.Struct):
    """An object as it was sent or stored. Of an answer that is none the kind is `Status`."""

    kind: str = ""
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: msgspec.Raw = msgspec.Raw(b"")
    status: msgspec.Raw = msgspec.Raw(b"")
    items: "list[Thing]" = []

    @property
    def version(self) -> int:
        """The resourceVersion."""
        return int(self.metadata.resource_version or 0)

    @property
    def gone(self) -> bool:
        """Whether the server forgets it with this write: its time is over and nobody holds it."""
        meta = self.metadata
        return meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0 and not meta.finalizers

    @property
    def phase(self) -> str:
        """Of a pod."""
        return _pod.decode(self.status).phase if self.status else ""

    @property
    def disrupted(self) -> bool:
        """Whether a pod was taken away for the sake of others."""
        told = _pod.decode(self.status).conditions if self.status else []
        return any(each.type == "DisruptionTarget" and each.status == "True" for each in told)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _PodStatus(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


_pod = msgspec.json.Decoder(_PodStatus)


class _Preconditions(msgspec.Struct):
    uid: str = ""


class Deletion(msgspec.Struct, rename="camel"):
    """On which conditions something was to be deleted, and how."""

    preconditions: _Preconditions | None = None
    grace_period_seconds: int | None = None

    @property
    def uid(self) -> str:
        """Which object was meant; empty for whichever has the name."""
        return self.preconditions.uid if self.preconditions else ""


class Entry(msgspec.Struct, rename="camel", dict=True):
    """One line of the log: a request and what came of it."""

    verb: str
    id: str = msgspec.field(name="auditID")
    received: datetime = msgspec.field(name="requestReceivedTimestamp")
    answered: datetime = msgspec.field(name="stageTimestamp")
    user: User = msgspec.field(default_factory=User)
    object_ref: Object = msgspec.field(default_factory=Object)
    response_status: Answer = msgspec.field(default_factory=Answer)
    request_object: msgspec.Raw = msgspec.Raw(b"")
    response_object: msgspec.Raw = msgspec.Raw(b"")

    @cached_property
    def who(self) -> str:
        """Which process sent it: processes that share an account have tokens of their own."""
        return next(iter(self.user.extra.get(CREDENTIAL, ())), "") or self.user.username

    @cached_property
    def resource(self) -> str:
        """`pods`, `genericjobs.batch.tensorstack.dev`; without the subresource."""
        about = self.object_ref
        return f"{about.resource}.{about.api_group}" if about.api_group else about.resource

    @property
    def subresource(self) -> str:
        """`status`, or nothing."""
        return self.object_ref.subresource

    @property
    def code(self) -> int:
        """How it was answered."""
        return self.response_status.code

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was sent for."""
        return 200 <= self.code < 300

    @property
    def in_doubt(self) -> bool:
        """Whether nobody knows what it did: whoever sent it went away, and the server gave up on an answer."""
        return not self.succeeded and (self.code == 0 or self.code >= 500)

    @cached_property
    def sent(self) -> Thing | None:
        """The object that was to be made or to be stored, where the log has it."""
        return _thing.decode(self.request_object) if self.request_object and self.verb in ("create", "update") else None

    @cached_property
    def stored(self) -> Thing | None:
        """The object as it was stored, or as it was when it was deleted."""
        found = _thing.decode(self.response_object) if self.response_object and self.succeeded else None
        return found if found and found.kind != "Status" and found.metadata.uid else None

    @cached_property
    def several(self) -> list[Thing]:
        """Objects that were deleted together."""
        if self.verb != "deletecollection" or not self.response_object or not self.succeeded:
            return []
        return _thing.decode(self.response_object).items

    @cached_property
    def deletion(self) -> Deletion:
        """What a delete asked for."""
        return _deletion.decode(self.request_object) if self.request_object else Deletion()

    def __str__(self) -> str:
        version = f" version {self.stored.version}" if self.stored else ""
        about = "/".join(part for part in (self.object_ref.namespace, self.object_ref.name, self.subresource) if part)
        when = self.received.strftime("%H:%M:%S.%f")
        return f"{when} {self.verb} {self.object_ref.resource} {about} -> {self.code}{version} by {self.who} [{self.id}]"


_entry = msgspec.json.Decoder(Entry)
_thing = msgspec.json.Decoder(Thing)
_deletion = msgspec.json.Decoder(Deletion)


class History:
    """What a log tells."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self.writes: list[Entry] = []
        """Every write, also those that were refused, as they came."""
        self.candidates: set[tuple[str, str]] = set()
        """Who ever asked for a lease, and its name."""
        for entry in entries:
            if entry.resource == LEASES:
                self.candidates.add((entry.who, entry.object_ref.name))
            if entry.verb in WRITES:
                self.writes.append(entry)
        self.writes.sort(key=lambda entry: entry.received)
        told = [(entry, thing) for entry in self.writes for thing in (entry.stored, *entry.several) if thing is not None]
        self.stored: list[tuple[Entry, Thing]] = sorted(told, key=_Order(told))
        """Every object that was stored or deleted, in the order of versions."""


class _Order:
    """Where a write belongs. Some deletes are answered with an object that has no version: they come after all that was answered before."""

    def __init__(self, told: list[tuple[Entry, Thing]]) -> None:
        answered = sorted((entry.answered, thing.version) for entry, thing in told if thing.version)
        self._times = [time for time, _ in answered]
        self._versions = list(accumulate((version for _, version in answered), max))

    def __call__(self, each: tuple[Entry, Thing]) -> float:
        entry, thing = each
        if thing.version:
            return thing.version
        before = bisect(self._times, entry.received)
        return self._versions[before - 1] + 0.5 if before else 0.0


def read(path: Path, *, since: int = 0) -> History:
    """The log of one server; of one that is still written to the last line may be half there."""
    with path.open("rb") as log:
        log.seek(since)
        return History(_entry.decode(line) for line in log if line.endswith(b"\n"))


def history(lines: "list[dict[str, Any]]") -> History:
    """A log that somebody made up."""
    return History(_entry.decode(msgspec.json.encode(line)) for line in lines)
