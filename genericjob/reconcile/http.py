"""The API port over HTTP: a real API server.

Configuration, authentication and TLS come from `access.py`. Requests, streams and decoding are our own: the generated calls of the official
`kubernetes` package cost four times the processor time and know no timeouts. `exchange.py` sends a request, within its time and no more
often than is safe; here is what each verb asks.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from .access import Access, Credentials
from .answers import Answer, TooHeavyError
from .api import Body, Created, FieldValidation, Operations, Page, Propagation
from .codec import codec, encode
from .connection import Connection
from .errors import NO_ANSWER, ApiError
from .exchange import JSON, USER_AGENT, Exchange, Observe, Request
from .page_limit import LARGEST_OBJECT_BYTES, TOO_HEAVY_BYTES, smaller
from .primitives import monotonic
from .resources import Key, Resource
from .stream import HttpText, HttpWatch
from .timeouts import WATCH_END_S, Throttling, Timeouts

__all__ = ["JSON", "MERGE_PATCH", "USER_AGENT", "Answer", "HttpApi", "Throttling", "Timeouts"]

T = TypeVar("T")

MERGE_PATCH, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"


class HttpApi:
    """The port, on a real API server. Share one between threads; give the lease one of its own."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        throttling: Throttling = Throttling(),  # noqa: B008 - frozen
        may_write: Callable[[], bool] = lambda: True,
        observe: Observe | None = None,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = time.sleep,
        connect: Callable[[Access, float], Connection] = Connection,
    ) -> None:
        """`may_write` is asked directly before each send of a write. A simulation brings its own clock and connections."""
        self._timeouts = timeouts
        self._exchange = Exchange(
            credentials,
            timeouts=timeouts,
            throttling=throttling,
            may_write=may_write,
            observe=observe,
            clock=clock,
            sleep=sleep,
            connect=connect,
        )

    # -------------------------------------------------------------------------------------------- the port

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object."""
        return codec(resource).one(self.request("GET", resource.path(*_named(key))).data)

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
        """Read one page, of fewer objects than `limit` if they are heavy."""
        path = resource.path(namespace)
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            # The token remembers its own version, and the server refuses to be told twice.
            "resourceVersion": "" if continue_token else resource_version,
        }
        while True:
            # Who wants no pages gets everything.
            most = TOO_HEAVY_BYTES if limit > 1 else LARGEST_OBJECT_BYTES if limit else 0
            try:
                answer = self.request("GET", path, query, gzip=True, most=most)
            except TooHeavyError:
                if limit == 1:
                    told = f"the server sent one object of {resource.full_name} with more than {most:,} bytes: no API server stores so much"
                    raise ApiError(NO_ANSWER, "Unreadable", told) from None
                limit = smaller(limit)
                query["limit"] = str(limit)
                continue
            return codec(resource).page(answer.data)

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
    ) -> HttpWatch[T]:
        """Open a stream, on a connection of its own."""
        query = {
            "watch": "1",
            "resourceVersion": resource_version,
            "labelSelector": labels,
            "fieldSelector": fields,
            "timeoutSeconds": str(max(1, round(timeout))),
            "allowWatchBookmarks": "true" if bookmarks else "",
            "sendInitialEvents": "true" if initial_events else "",
            "resourceVersionMatch": "NotOlderThan" if initial_events else "",
        }
        target = resource.path(namespace) + _query(query)
        longest = timeout + WATCH_END_S
        silence = min(self._timeouts.silence, longest)
        connection, reply = self._exchange.begun(Request("GET", target), min(self._timeouts.read, longest), stream=True)
        connection.limit_silence(reply, silence)
        return HttpWatch(connection, reply, codec(resource), resource_version, initial_events=initial_events, silence=silence)

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        validation = f"?fieldValidation={field_validation}" if field_validation else ""
        request = Request("POST", resource.path(namespace) + validation, encode(body))
        answer = self._exchange.whole(request, self._timeouts.create or self._timeouts.write)
        return Created(answer.stored(resource), answer.warnings)

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status."""
        return self._write("PUT", resource.path(*_named(key)), encode(body)).stored(resource)

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status."""
        return self._write("PUT", resource.path(*_named(key), "status"), encode(body)).stored(resource)

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields."""
        merge = isinstance(patch, bytes | Mapping)
        path = resource.path(*_named(key), subresource)
        return self._write("PATCH", path, encode(patch), MERGE_PATCH if merge else JSON_PATCH).stored(resource)

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
        """Ask for an object's end."""
        options: dict[str, Any] = {}
        if preconditions := {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}:
            options["preconditions"] = preconditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation:
            options["propagationPolicy"] = propagation
        answer = self._write("DELETE", resource.path(*_named(key)), encode(options) if options else b"")
        return None if answer.is_status else answer.stored(resource)

    # -------------------------------------------------------------------------------------------- one request

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | Operations = b"",
        *,
        content: str = JSON,
        gzip: bool = False,
        most: int = 0,
    ) -> Answer:
        """Send one request and read its whole answer: for the port's verbs, and for what lies beside it (`/version`, `pods/…/binding`)."""
        target = path + _query(query) if query else path
        request = Request(method, target, encode(body) if body else b"", content, gzip, most)
        return self._exchange.whole(request, self._timeouts.read if request.reads else self._timeouts.write)

    def text(self, path: str, query: Mapping[str, str] | None = None, *, whole: bool = True) -> HttpText:
        """Open an answer that is text and comes as it is written: a log, by `whole` lines or also by parts of them."""
        request = Request("GET", path + _query(query or {}))
        connection, reply = self._exchange.begun(request, self._timeouts.read, stream=True)
        connection.limit_silence(reply, None)
        return HttpText(connection, reply, whole=whole)

    def close(self) -> None:
        """Close idle connections."""
        self._exchange.close()

    def _write(self, method: str, path: str, body: bytes, content: str = JSON) -> Answer:
        return self._exchange.whole(Request(method, path, body, content), self._timeouts.write)


def _named(key: Key) -> tuple[str, str]:
    if not key.name:
        raise ValueError("a request for one object needs its name")
    return key.namespace, key.name


def _query(values: Mapping[str, str]) -> str:
    found = "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items() if value)
    return f"?{found}" if found else ""
