"""The audit log of a control plane of ours: every request that the API server answered, who sent it, and what came of it.

    log = Audit(plane.audit_log, api)
    begin = log.here
    ...
    tries = log.requests(since=begin, user=USER, verbs={"create"}, resource="pods", namespace=namespace)

The server writes a line after it has sent the answer. So whoever looks sends a request of his own first, and waits for its line: that of
what was seen before is there by then.
"""

import secrets
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from genericjob.reconcile.api import Api
from genericjob.reconcile.resources import CONFIG_MAPS

from .clusters import eventually

WRITES = frozenset(("create", "update", "patch", "delete", "deletecollection"))
CREDENTIAL = "authentication.kubernetes.io/credential-id"


class Request(msgspec.Struct, frozen=True):
    """One request, and its answer."""

    user: str
    """Who sent it; whom he speaks for is not looked at."""
    verb: str
    group: str
    resource: str
    """With its subresource: `pods`, `genericjobs/status`; empty for what is no resource."""
    namespace: str
    name: str
    code: int
    allowed: bool
    """Whether the user's roles allow it, whatever else was wrong with it."""
    received: datetime
    answered: datetime
    agent: str
    uri: str = ""
    """The path and what was asked of it."""
    credential: str = ""
    """Which token of an account it came with: processes that share an account differ in this."""
    sent: Any = None
    """The body, where the log has it: of all writes to jobs, pods, services, events and leases."""
    stored: Any = None
    """The answer's body, likewise: the object as it is stored, or a Status that tells why it is not."""

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was sent for."""
        return self.code < 300

    @property
    def uid(self) -> str:
        """Of the object that was written."""
        return str(self._metadata.get("uid", ""))

    @property
    def version(self) -> int:
        """The resourceVersion that the write made: writes of one resource are in this order."""
        return int(self._metadata.get("resourceVersion", 0))

    @property
    def owner_uid(self) -> str:
        """The controller of the object that was written."""
        owners = self._metadata.get("ownerReferences", ())
        return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")

    @property
    def _metadata(self) -> dict[str, Any]:
        found = self.stored.get("metadata") if isinstance(self.stored, dict) else None
        return found if isinstance(found, dict) else {}


class Audit:
    """The log of one server, also while it grows."""

    def __init__(self, path: Path, api: Api) -> None:
        self._path, self._api = path, api

    @property
    def here(self) -> int:
        """This moment, for `since`."""
        self._catch_up()
        return self._path.stat().st_size

    def requests(
        self,
        *,
        since: int = 0,
        user: str = "",
        verbs: Collection[str] = (),
        resource: str = "",
        namespace: str = "",
        name: str = "",
    ) -> list[Request]:
        """The requests that are all this, in the order in which they came; what is left empty does not matter."""
        self._catch_up()
        found = [
            request
            for request in self._read(since, user, namespace)
            if (not user or request.user == user)
            and (not verbs or request.verb in verbs)
            and (not resource or request.resource == resource)
            and (not namespace or request.namespace == namespace)
            and (not name or request.name == name)
        ]
        return sorted(found, key=lambda request: request.received)

    def writes(self, **which: Any) -> list[Request]:
        """The requests that change something, of those that `requests` would find."""
        return self.requests(verbs=WRITES, **which)

    def _catch_up(self) -> None:
        """Wait until the log has what the server has answered."""
        here, mark = self._path.stat().st_size, f"mark-{secrets.token_hex(8)}"
        self._api.list(CONFIG_MAPS, "default", labels=f"{mark}=", limit=1)
        eventually(lambda: self._has(mark.encode(), here))

    def _has(self, mark: bytes, since: int) -> bool:
        with self._path.open("rb") as log:
            log.seek(since)
            return mark in log.read()

    def _read(self, since: int, user: str, namespace: str) -> Iterator[Request]:
        """Each request once: a watch is in the log when it begins and again when it ends.

        Lines that cannot be about this user or namespace are not decoded: that is quick, and objects of others may be nested too deeply.
        """
        marks = [f'"{word}"'.encode() for word in (user, namespace) if word]
        found: dict[str, _Line] = {}
        with self._path.open("rb") as log:
            log.seek(since)
            for text in log:
                if text.endswith(b"\n") and all(mark in text for mark in marks):  # the last line may be half written
                    line = _line.decode(text)
                    found[line.id] = line
        return map(_request, found.values())


# ------------------------------------------------------------------------------------------------ the lines of the log


class User(msgspec.Struct):
    """Who asked."""

    username: str = ""
    extra: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class Object(msgspec.Struct, rename="camel"):
    """For what."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    subresource: str = ""


class Answer(msgspec.Struct):
    """What came of it."""

    code: int = 0


class _Line(msgspec.Struct, rename="camel"):
    verb: str
    user: User
    request_received_timestamp: datetime
    stage_timestamp: datetime
    id: str = msgspec.field(name="auditID")
    object_ref: Object = msgspec.field(default_factory=Object)
    response_status: Answer = msgspec.field(default_factory=Answer)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    user_agent: str = ""
    uri: str = msgspec.field(default="", name="requestURI")
    request_object: Any = None
    response_object: Any = None


_line = msgspec.json.Decoder(_Line)


def _request(line: _Line) -> Request:
    about = line.object_ref
    return Request(
        user=line.user.username,
        verb=line.verb,
        group=about.api_group,
        resource=f"{about.resource}/{about.subresource}" if about.subresource else about.resource,
        namespace=about.namespace,
        name=about.name,
        code=line.response_status.code,
        allowed=line.annotations.get("authorization.k8s.io/decision") == "allow",
        received=line.request_received_timestamp,
        answered=line.stage_timestamp,
        agent=line.user_agent,
        uri=line.uri,
        credential=next(iter(line.user.extra.get(CREDENTIAL, ())), ""),
        sent=line.request_object,
        stored=line.response_object,
    )
