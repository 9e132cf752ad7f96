"""JSON in and out: single objects, pages of a list, lines of a watch.

Each resource gets decoders made for its wire struct, so that bytes become small objects in one pass and nothing else is ever built.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from .api import Body, Event, EventType, Operations, Page
from .errors import NO_ANSWER, UNREADABLE_OBJECT, ApiError, from_status
from .objects import MESSAGE_LIMIT, Unreadable, WireObject
from .pieces import elements, members, members_of
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
    """Reads what the server sends of one resource.

    ONE OBJECT THAT CANNOT BE DECODED COSTS ONLY ITSELF (clause 8): anybody who may create objects can
    create such a one, and the caches of all others depend on the same page and the same stream. So a
    page or line that fails as a whole is cut into pieces, which are decoded one by one.
    """

    def __init__(self, resource: Resource[T]) -> None:
        wire: Any = resource.wire
        self._name = resource.full_name
        self._slim = resource.slim
        self._salvage = resource.salvage
        self._one = decoder(wire)
        self._line = decoder(msgspec.defstruct("Line", [("type", str), ("object", wire)]))
        self._list = decoder(msgspec.defstruct("List", [("metadata", _ListMeta | None, None), ("items", _list_of(wire), None)]))

    def one(self, data: bytes) -> T:
        """Read one object; raises ApiError if it cannot be decoded."""
        found, unreadable = self.read(data)
        if found is None:
            assert unreadable is not None  # noqa: S101 - for the type checker
            raise ApiError(NO_ANSWER, UNREADABLE_OBJECT, f"{self._name} {unreadable} cannot be read: {unreadable.problem}")
        return found

    def read(self, data: bytes) -> tuple[T | None, Unreadable | None]:
        """Read one object. One that cannot be decoded is reported as such, with what could be salvaged of it, if anything."""
        try:
            return self._slim(self._one.decode(data)), None
        except Exception as error:
            return self._salvaged(data, error)

    def page(self, data: bytes) -> Page[T]:
        """Read one page of a list."""
        slim = self._slim
        try:
            found: Any = self._list.decode(data)
            items = [slim(item) for item in found.items or ()]
        except Exception as error:
            return self._page_in_pieces(data, error)
        return _page(items, (), found.metadata, len(data))

    def event(self, line: bytes) -> Event[T]:
        """Read one line of a watch; an ERROR line is raised."""
        try:
            found: Any = self._line.decode(line)
            kind = _EVENT_TYPES[found.type]
            if kind != "BOOKMARK":
                return Event(kind, self._slim(found.object), version_of(found.object))
        except Exception as error:
            return self._event_in_pieces(line, error)
        return self._bookmark(line)

    def event_of(self, kind: EventType, data: bytes, version: str) -> Event[T]:
        """The event of one object, readable or not."""
        found, unreadable = self.read(data)
        return Event(kind, found, version, unreadable=unreadable)

    def _bookmark(self, line: bytes) -> Event[T]:
        try:
            meta = _bookmark.decode(line).object.metadata
        except UNREADABLE as error:
            raise _senseless(self._name, error) from None
        annotations = (meta.annotations if meta else None) or {}
        version = (meta.resource_version if meta else None) or ""
        return Event("BOOKMARK", None, version, initial_events_end=annotations.get(INITIAL_EVENTS_END) == "true")

    # -------------------------------------------------------------------------------------------- in pieces

    def _page_in_pieces(self, data: bytes, error: Exception) -> Page[T]:
        try:
            parts = dict(members(data))
            meta = _list_meta.decode(parts.get("metadata", b"null"))
            listed = parts.get("items", b"null")
            found = [self.read(item) for item in ([] if listed == b"null" else elements(listed))]
        except (ValueError, *UNREADABLE):
            raise _senseless(self._name, error) from None
        return _page([one for one, _ in found if one is not None], [lost for _, lost in found if lost is not None], meta, len(data))

    def _event_in_pieces(self, line: bytes, error: Exception) -> Event[T]:
        try:
            type, object = _type_and_object(line)
        except ValueError:
            raise _senseless(self._name, error) from None
        kind = _EVENT_TYPES.get(type)
        if kind is None:
            # The Status object of an ERROR line need not fit the wire struct.
            raise _error_line(line) or _senseless(self._name, f"a watch event of type {type!r}")
        if kind == "BOOKMARK":
            return self._bookmark(line)
        found, lost = self.read(object)
        version = lost.resource_version if lost else identified(object, "").resource_version
        return Event(kind, found, version, unreadable=lost)

    def _salvaged(self, data: bytes, error: Exception) -> tuple[T | None, Unreadable]:
        lost = identified(data, _problem(error))
        if self._salvage is None or not (lost.name and lost.uid and lost.resource_version):
            return None, lost
        return self._salvage(lost, data), lost


def _page(items: Sequence[T], unreadable: Sequence[Unreadable], meta: _ListMeta | None, weight: int) -> Page[T]:
    meta = meta or _ListMeta()
    return Page(items, meta.resource_version or "", meta.continue_ or "", meta.remaining_item_count, unreadable, weight)


_EVENT = re.compile(rb'\{"type":"([A-Z]+)","object":(?=\{)')
"""How API servers write an event, whose object is the rest of the line."""


def _type_and_object(line: bytes) -> tuple[str, bytes]:
    """Return the type of an event and its object, undecoded."""
    # `members` would look for the end of the object in all of it, for a tenth of a second if that is deep and large.
    if (event := _EVENT.match(line)) and line.endswith(b"}}"):
        return event[1].decode(), line[event.end() : -1]
    parts = dict(members(line))
    return _text(parts.get("type", b"")), parts.get("object", b"null")


def identified(data: bytes, problem: str) -> Unreadable:
    """What can be known of an object that cannot be decoded: its name and version, if they can be found."""
    known: dict[str, str] = {}
    try:
        for name, value in members_of("metadata", data):
            if name in _IDENTITY:
                known[name] = _text(value)
    except ValueError:
        pass  # what was found before is known
    namespace, name, uid, version = (known.get(name, "") for name in _IDENTITY)
    return Unreadable(namespace, name, uid, version, problem)


_IDENTITY = ("namespace", "name", "uid", "resourceVersion")
"""Members of metadata that say which object it is."""


def _problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:MESSAGE_LIMIT] or type(error).__name__


def _text(data: bytes) -> str:
    """The string that these bytes are, or "" if they are none."""
    try:
        return _string.decode(data)
    except UNREADABLE:
        return ""


_string = decoder(str)
_list_meta = decoder(_ListMeta | None)  # type: ignore[arg-type]


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


def _senseless(name: str, problem: object) -> ApiError:
    """What was sent is not even a page or an event, so that there is nothing to go on with."""
    return ApiError(NO_ANSWER, "Unreadable", f"the server sent {name} that cannot be read: {problem}")
