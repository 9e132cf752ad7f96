"""JSON in and out: single objects, pages of a list, lines of a watch.

Each resource gets decoders made for its wire struct, so that bytes become small objects in one pass and nothing else is ever built.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from .api import Body, Event, EventType, Operations, Page
from .errors import NO_ANSWER, ApiError, from_status
from .objects import WireObject
from .resources import Resource
from .structs import decoder

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_EVENT_TYPES: Mapping[str, EventType] = {"ADDED": "ADDED", "MODIFIED": "MODIFIED", "DELETED": "DELETED", "BOOKMARK": "BOOKMARK"}


UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What reading bytes of others may raise. The last is no error of msgspec's, though it comes from there."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class _Line(msgspec.Struct):
    type: str
    object: Any = None


class Codec(Generic[T]):
    """Reads what the server sends of one resource."""

    def __init__(self, resource: Resource[T]) -> None:
        wire: Any = resource.wire
        self._name = resource.full_name
        self._slim = resource.slim
        self._one = decoder(wire)
        self._line = decoder(msgspec.defstruct("Line", [("type", str), ("object", wire)]))
        self._list = decoder(msgspec.defstruct("List", [("metadata", _ListMeta | None, None), ("items", _list_of(wire), None)]))

    def one(self, data: bytes) -> T:
        """Read one object."""
        try:
            return self._slim(self._one.decode(data))
        except UNREADABLE as error:
            raise _unreadable(self._name, error) from None

    def page(self, data: bytes) -> Page[T]:
        """Read one page of a list."""
        try:
            found: Any = self._list.decode(data)
        except UNREADABLE as error:
            raise _unreadable(self._name, error) from None
        slim, meta = self._slim, found.metadata or _ListMeta()
        return Page(
            items=[slim(item) for item in found.items or ()],
            resource_version=meta.resource_version or "",
            continue_token=meta.continue_ or "",
            remaining=meta.remaining_item_count,
        )

    def event(self, line: bytes) -> Event[T]:
        """Read one line of a watch; an ERROR line is raised."""
        try:
            found: Any = self._line.decode(line)
        except UNREADABLE as error:
            # The Status object of an ERROR line need not fit the wire struct.
            raise _error_line(line) or _unreadable(self._name, error) from None
        kind = _EVENT_TYPES.get(found.type)
        if kind is None:
            raise _error_line(line) or _unreadable(self._name, f"a watch event of type {found.type!r}")
        if kind == "BOOKMARK":
            return self._bookmark(line)
        return Event(kind, self._slim(found.object), version_of(found.object))

    def _bookmark(self, line: bytes) -> Event[T]:
        try:
            meta = _bookmark.decode(line).object.metadata
        except UNREADABLE as error:
            raise _unreadable(self._name, error) from None
        annotations = (meta.annotations if meta else None) or {}
        version = (meta.resource_version if meta else None) or ""
        return Event("BOOKMARK", None, version, initial_events_end=annotations.get(INITIAL_EVENTS_END) == "true")


def _list_of(wire: Any) -> Any:
    return list[wire] | None


_codecs: dict[Resource[Any], Codec[Any]] = {}


def codec(resource: Resource[T]) -> Codec[T]:
    """The codec of a resource, made once."""
    found = _codecs.get(resource)
    if found is None:
        found = _codecs[resource] = Codec(resource)
    return found


def encode(body: Body | Operations | Any) -> bytes:
    """Write a body as JSON; bytes are taken to be JSON already."""
    if isinstance(body, bytes):
        return body
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ApiError(400, "BadRequest", f"the body cannot be written as JSON: {error}") from None


def version_of(wire: WireObject | dict[str, Any]) -> str:
    """The resourceVersion of an object as it was read."""
    if isinstance(wire, WireObject):
        return (wire.metadata.resource_version if wire.metadata else None) or ""
    meta = wire.get("metadata")
    version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return version if isinstance(version, str) else ""


class _Bookmark(msgspec.Struct):
    object: WireObject


_bookmark = decoder(_Bookmark)
_any_line = decoder(_Line)


def _error_line(line: bytes) -> ApiError | None:
    try:
        found = _any_line.decode(line)
    except UNREADABLE:
        return None
    if found.type != "ERROR":
        return None
    status = found.object if isinstance(found.object, dict) else {}
    code = status.get("code")
    return from_status(code if isinstance(code, int) else 500, status, wrote=False)


def _unreadable(name: str, problem: object) -> ApiError:
    return ApiError(NO_ANSWER, "Unreadable", f"the server sent {name} that cannot be read: {problem}")
