"""The API port: the one door to a cluster.

Eight verbs, spoken by two implementations: `HttpApi` (a real server) and `genericjob.local.MemoryApi` (the same semantics in this process).
`tests/conformance` holds both to the same answers. Nothing else in the project talks to a cluster.

Objects come back decoded by their `Resource`: slim frozen structs for what controllers cache, plain dicts for the rest. Bodies go out as
dicts or as ready JSON bytes. Every failure is an `ApiError`.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import msgspec

from .errors import NO_ANSWER, ApiError
from .objects import Unreadable
from .page_limit import MOST, PageLimit
from .resources import Key, Resource

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Body = bytes | Mapping[str, Any]
"""An object to send: a dict, or JSON that is ready to go."""

Operations = Sequence[Mapping[str, Any]]
"""A JSON patch (RFC 6902)."""

MOST_EMPTY_PAGES = 100
"""Pages of a list that may follow each other without any object. One is odd already: servers fill their pages."""

Propagation = Literal["Background", "Foreground", "Orphan"]
FieldValidation = Literal["Ignore", "Warn", "Strict"]
EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Event(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """One line of a watch. A BOOKMARK has no object: it only says how far the stream has come.

    `unreadable` describes an object that could not be decoded; `object` then is what was salvaged of it, or None.
    """

    type: EventType
    object: T_co | None
    resource_version: str
    initial_events_end: bool = False
    """The bookmark that closes the initial events of a watch-list."""
    unreadable: Unreadable | None = None


class Page(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """One page of a list. `continue_token` is empty on the last."""

    items: Sequence[T_co]
    resource_version: str
    continue_token: str = ""
    remaining: int | None = None
    unreadable: Sequence[Unreadable] = ()
    """Objects of this page that could not be decoded; `items` has all others, and what was salvaged of these."""
    weight: int = 0
    """Bytes of its JSON; 0 where there is none."""


class Created(msgspec.Struct, Generic[T_co], frozen=True, gc=False):
    """The stored object, and what the server had to remark about the request."""

    object: T_co
    warnings: Sequence[str] = ()


class Position:
    """How far a watch has come, and so where its successor begins.

    THE INITIAL ADDED EVENTS OF A WATCH FROM "" OR "0" COME IN NO ORDER: advancing over them could skip what happened in between.
    """

    __slots__ = ("_ordered", "resource_version")

    def __init__(self, resource_version: str, *, initial_events: bool) -> None:
        self.resource_version = resource_version
        self._ordered = resource_version not in ("", "0") and not initial_events

    def advance(self, event: Event[Any]) -> None:
        """Take note of an event."""
        if self._ordered or event.type != "ADDED":
            self._ordered = True
            self.resource_version = event.resource_version or self.resource_version


class Watch(Protocol[T_co]):
    """A stream of events, ended by the server's timeout (quietly), by an `ApiError`, or by `close()` from any thread (quietly).

    `resource_version` is where the stream stands: pass it to a new watch and nothing is lost or repeated.
    """

    @property
    def resource_version(self) -> str:
        """Where the stream stands."""
        ...

    def __iter__(self) -> Iterator[Event[T_co]]: ...

    def close(self) -> None:
        """End the stream; a thread that waits in it comes back."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Api(Protocol):
    """What a controller may ask of a cluster. Safe to share between threads."""

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object, from the store itself and never from a cache."""
        ...

    def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """Read one page; `namespace=""` means all of them. `resource_version=""` asks the store, "0" takes what a cache has.

        A page has `limit` objects at most. It may have fewer although it is not the last.
        """
        ...

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        timeout: float = 300.0,
        bookmarks: bool = True,
        initial_events: bool = False,
    ) -> Watch[T]:
        """Open a stream of what happens after `resource_version`; `initial_events` asks for the present state first (watch-list)."""
        ...

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object under the name (or generateName) in its body."""
        ...

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status. A resourceVersion in the body makes it conditional."""
        ...

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status, and nothing else of the body."""
        ...

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields: a mapping (or bytes) is a JSON merge patch, a sequence of operations a JSON patch."""
        ...

    def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> T | None:
        """Ask for an object's end, if it still has that UID and version. Returns its last state where the server tells it."""
        ...


def pages(
    api: Api, resource: Resource[T], namespace: str = "", *, labels: str = "", fields: str = "", limit: int = MOST
) -> Iterator[Page[T]]:
    """List everything, page by page, all from the same moment. No page has more than `limit` objects; of heavy ones it has fewer."""
    token, size = "", PageLimit(limit)
    tokens: set[str] = set()
    empty = 0
    while True:
        page = api.list(resource, namespace, labels=labels, fields=fields, limit=size.next, continue_token=token)
        token = page.continue_token
        size.saw(max(len(page.items), len(page.unreadable)), page.weight)
        yield page
        if not token:
            return
        empty = 0 if page.items or page.unreadable else empty + 1
        if token in tokens or empty == MOST_EMPTY_PAGES:
            why = "a continue token came twice" if token in tokens else f"{empty} pages in a row are empty"
            raise ApiError(NO_ANSWER, "Unreadable", f"the server's list of {resource.full_name} has no end: {why}")
        tokens.add(token)
