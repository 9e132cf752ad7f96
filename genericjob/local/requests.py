"""Requests and answers of a server, apart from how they come and go: what somebody asks for, and what they are told."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.structs import decoder

from . import refusals

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCESS = "selfsubjectaccessreviews"
INTO_PODS = frozenset(("exec", "attach", "portforward"))
"""What leads into a pod, and is not possible here."""
_TABLE = "as=Table;v=v1;g=meta.k8s.io"


@dataclass(frozen=True)
class Request:
    """What somebody asks for."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content: str = JSON
    accept: str = JSON

    @property
    def wants_table(self) -> bool:
        """Whether it is kubectl, asking on behalf of a person."""
        return _TABLE in self.accept.replace(" ", "")

    def says(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.query.get(name, "") in ("1", "true", "True")

    @property
    def validation(self) -> Any:
        """What is to become of unknown fields, if somebody says so."""
        return self.query.get("fieldValidation") or None

    def number(self, name: str) -> int | None:
        """An option that is a number."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit()):
            raise refusals.bad_request(f"{name}: {text!r} is no number")
        return int(text)


@dataclass(frozen=True, eq=False)
class Answer:
    """What they get: bytes, or pieces as they come."""

    status: int = 200
    body: bytes = b""
    content: str = JSON
    warnings: Sequence[str] = ()
    stream: Iterator[bytes] | None = None
    stop: Callable[[], None] = lambda: None
    """Ends the stream, from any thread."""


def refusal(error: ApiError) -> Answer:
    """An error in the server's own words."""
    return Answer(error.code or 500, msgspec.json.encode(status_of(error)))


def status_of(error: ApiError) -> dict[str, Any]:
    """An error as the object that servers make of it."""
    causes = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in error.causes]
    details: dict[str, Any] = {**error.about} if isinstance(error, refusals.InvalidError) else {}
    details |= ({"causes": causes} if causes else {}) | ({"retryAfterSeconds": int(error.retry_after)} if error.retry_after else {})
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.message, "reason": error.reason}
    return told | ({"details": details} if details else {}) | {"code": error.code or 500}


def answered(value: Any, status: int = 200) -> Answer:
    """An answer in JSON."""
    return Answer(status, msgspec.json.encode(value))


# ------------------------------------------------------------------------------------------------ bodies


def patch_in(request: Request, *, custom: bool) -> Any:
    """The patch as the port takes it: bytes to be merged, or operations. How to merge lists a server knows of built-in kinds alone."""
    match request.content.partition(";")[0].strip():
        case "application/merge-patch+json":
            return request.body
        case "application/json-patch+json":
            found = _decoded(request.body)
            if not isinstance(found, list):
                raise refusals.bad_request("error decoding patch: it is not a list of operations")
            return found
        case "application/strategic-merge-patch+json" if not custom and _merges_plainly(_decoded(request.body)):
            return request.body
    text = f"a run on this machine takes merge patches and JSON patches only, not {request.content} (no server-side apply)"
    raise ApiError(415, "UnsupportedMediaType", text)


def _merges_plainly(patch: Any) -> bool:
    """Whether a strategic merge patch means what a merge patch would: no lists, which might be merged, and no directives."""
    if isinstance(patch, dict):
        return all(not name.startswith("$") and _merges_plainly(value) for name, value in patch.items())
    return not isinstance(patch, list)


class Preconditions(msgspec.Struct, rename="camel"):
    """What must hold for a deletion."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """How something is to be deleted."""

    grace_period_seconds: int | None = None
    propagation_policy: Any = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


_delete_options = decoder(DeleteOptions)


def delete_options(request: Request) -> DeleteOptions:
    """The options of a deletion, from the body or the address."""
    options = DeleteOptions()
    if request.body:
        try:
            options = _delete_options.decode(request.body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise refusals.bad_request(f"the options of the request cannot be read: {error}") from None
    if options.grace_period_seconds is None:
        options.grace_period_seconds = request.number("gracePeriodSeconds")
    options.propagation_policy = options.propagation_policy or request.query.get("propagationPolicy")
    return options


def target_in(body: bytes) -> str:
    """The node that a Binding names."""
    found = _decoded(body)
    with suppress(LookupError, TypeError):
        return str(found["target"]["name"])
    raise refusals.bad_request("target.name is missing")


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise refusals.bad_request(f"the body cannot be read: {error}") from None


def reviewed(request: Request, review: str) -> Answer:
    """Who somebody is, and what they may: whoever has the token is the user of the run, and may everything that is possible."""
    if request.method != "POST" or review not in (ACCESS, "selfsubjectreviews"):
        raise refusals.no_such_kind(request.path)
    asked = _decoded(request.body)
    asked = asked if isinstance(asked, dict) else {}
    wanted = (asked.get("spec") or {}).get("resourceAttributes") or {}
    status = {"allowed": wanted.get("subresource") not in INTO_PODS} if review == ACCESS else {"userInfo": {"username": "you"}}
    return answered({**asked, "status": status}, 201)
