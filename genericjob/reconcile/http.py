"""The API port over HTTP: a real API server.

Configuration, authentication and TLS come from the official `kubernetes` package (`access.py`); requests, streams and decoding are our own,
because the generated calls cost four times the processor time and know no timeouts. One request is one send on a keep-alive connection.

What is retried here, and nothing else is: a request that certainly had no effect. That is one that could not be sent on a connection which
had been idle, a read whose connection broke, one refused with 401 for which there are new credentials, and one refused with 429, after the
time the server asked for, as far as the request's own time allows. Everything else is the caller's decision, told by `ApiError`.
"""

import platform
import re
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from genericjob import __version__

from .access import Access, Credentials, unauthorized_hint
from .api import Body, Created, FieldValidation, Operations, Page, Propagation
from .codec import UNREADABLE, codec, encode
from .connection import Connection, NotAnsweredError, NotSentError, Pool
from .errors import NO_ANSWER, ApiError, from_status
from .reply import Reply
from .resources import Key, Resource
from .stream import HttpText, HttpWatch
from .structs import decoder

T = TypeVar("T")

USER_AGENT = f"genericjob/{__version__} (python/{platform.python_version()}; {sys.platform})"

JSON, MERGE_PATCH, JSON_PATCH = "application/json", "application/merge-patch+json", "application/json-patch+json"

NO_SUCH_PAGE = "404 page not found"
"""How the server answers for a group that nobody has defined: in plain text, as if it were no API server."""

_CUSTOM = re.compile(r"/apis/(?P<group>[^/?]+)/(?P<version>[^/?]+)/(?:namespaces/[^/?]+/)?(?P<plural>[^/?]+)")

Observe = Callable[[str, int, str, float], None]
"""Is told of every request: method, code of the answer (0 for none), host and port of the server, seconds until the answer began."""


@dataclass(frozen=True)
class Timeouts:
    """Limits in seconds; nothing here ever waits for ever."""

    connect: float = 5.0
    read: float = 60.0
    write: float = 4.0
    """Less than a lease's duration minus its renew deadline (15 - 10 s): no write outlives its leader. The server is told, too."""
    silence: float = 70.0
    """A watch without event or bookmark for so long is dead; bookmarks come once a minute."""


@dataclass(frozen=True)
class Throttling:
    """How a 429 is met: wait as asked, so often, and never longer than this at a time."""

    tries: int = 3
    longest: float = 10.0
    unasked: float = 1.0
    """Seconds to wait when the server names none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class HttpApi:
    """The port, on a real API server. Share one between threads; give the lease one of its own."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        throttling: Throttling = Throttling(),  # noqa: B008 - frozen
        sleep: Callable[[float], None] = time.sleep,
        observe: Observe | None = None,
    ) -> None:
        self._credentials = credentials
        self._timeouts = timeouts
        self._throttling = throttling
        self._sleep = sleep
        self._observe = observe
        self._pool = Pool()

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
        """Read one page."""
        query = {
            "labelSelector": labels,
            "fieldSelector": fields,
            "limit": str(limit) if limit else "",
            "continue": continue_token,
            # The token remembers its own version, and the server refuses to be told twice.
            "resourceVersion": "" if continue_token else resource_version,
        }
        return codec(resource).page(self.request("GET", resource.path(namespace), query, gzip=True).data)

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
        connection, reply = self._exchange("GET", target, b"", JSON, self._timeouts.read, stream=True)
        connection.limit_silence(reply, self._timeouts.silence)
        return HttpWatch(
            connection, reply, codec(resource), resource_version, initial_events=initial_events, silence=self._timeouts.silence
        )

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        answer = self._write("POST", resource.path(namespace), encode(body), field_validation=field_validation)
        return Created(_stored(resource, answer), _warnings(answer.headers))

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status."""
        return _stored(resource, self._write("PUT", resource.path(*_named(key)), encode(body)))

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status."""
        return _stored(resource, self._write("PUT", resource.path(*_named(key), "status"), encode(body)))

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields."""
        merge = isinstance(patch, bytes | Mapping)
        path = resource.path(*_named(key), subresource)
        return _stored(resource, self._write("PATCH", path, encode(patch), content=MERGE_PATCH if merge else JSON_PATCH))

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
        return None if _is_status(answer) else _stored(resource, answer)

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
    ) -> Answer:
        """Send one request and read its whole answer: for the port's verbs, and for what lies beside it (`/version`, `pods/…/binding`)."""
        timeout = self._timeouts.read if method == "GET" else self._timeouts.write
        target = path + _query(query) if query else path
        connection, reply = self._exchange(method, target, encode(body) if body else b"", content, timeout, gzip=gzip)
        try:
            answer = _read(connection, reply)
        except NotAnsweredError as error:
            connection.close()
            raise _lost(method, connection.access, error) from error
        self._keep(connection, reply)
        return answer

    def text(self, path: str, query: Mapping[str, str] | None = None) -> HttpText:
        """Open an answer that is text and comes as it is written: a log."""
        connection, reply = self._exchange("GET", path + _query(query or {}), b"", JSON, self._timeouts.read, stream=True)
        connection.limit_silence(reply, None)
        return HttpText(connection, reply)

    def close(self) -> None:
        """Close idle connections."""
        self._pool.close()

    def _write(
        self, method: str, path: str, body: bytes, *, content: str = JSON, field_validation: FieldValidation | None = None
    ) -> Answer:
        # THE SERVER GETS THE SAME LIMIT: what it has not stored by then it never will.
        query = f"?timeout={self._timeouts.write:g}s"
        return self.request(
            method, f"{path}{query}&fieldValidation={field_validation}" if field_validation else path + query, body=body, content=content
        )

    def _exchange(
        self, method: str, target: str, body: bytes, content: str, timeout: float, *, gzip: bool = False, stream: bool = False
    ) -> tuple[Connection, Reply]:
        """Send until there is an answer to give back; anything from 300 on is raised."""
        # ONE LIMIT FOR ALL OF IT, waiting included: a write may not be sent when its time is over.
        deadline = time.monotonic() + timeout
        throttled = 0
        renewed = False
        while True:
            access = self._credentials.current
            connection, reply = self._observed(access, method, target, body, content, deadline, gzip=gzip, stream=stream)
            if reply.status < 300:
                return connection, reply
            error = self._refusal(connection, reply, method, target)
            if error.unauthorized and not renewed and self._credentials.replace(access):
                renewed = True
                continue
            wait = self._throttling.unasked if error.retry_after is None else min(error.retry_after, self._throttling.longest)
            if error.throttled and throttled < self._throttling.tries and time.monotonic() + wait < deadline:
                throttled += 1
                self._sleep(wait)
                continue
            if error.unauthorized:
                error = ApiError(error.code, error.reason, f"{unauthorized_hint(access)} ({access.url} says: {error.message})")
            raise error

    def _observed(
        self, access: Access, method: str, target: str, body: bytes, content: str, deadline: float, *, gzip: bool, stream: bool
    ) -> tuple[Connection, Reply]:
        if self._observe is None:
            return self._once(access, method, target, body, content, deadline, gzip=gzip, stream=stream)
        begin, code = time.monotonic(), NO_ANSWER
        try:
            connection, reply = self._once(access, method, target, body, content, deadline, gzip=gzip, stream=stream)
            code = reply.status
        finally:
            self._observe(method, code, access.authority, time.monotonic() - begin)
        return connection, reply

    def _once(
        self, access: Access, method: str, target: str, body: bytes, content: str, deadline: float, *, gzip: bool, stream: bool
    ) -> tuple[Connection, Reply]:
        request = self._head(access, method, target, len(body), content, gzip=gzip) + body
        while True:
            patience = min(self._timeouts.connect, deadline - time.monotonic())
            if patience <= 0:
                raise ApiError(NO_ANSWER, "Unreachable", f"no connection to {access.url} in time")
            connection = Connection(access, patience) if stream else self._pool.take(access, patience)
            reused = connection.requests > 0
            try:
                return connection, connection.send(request, method, deadline)
            except NotSentError as error:
                connection.close()
                if not reused:
                    raise ApiError(NO_ANSWER, "Unreachable", f"the connection to {access.url} broke: {error}") from error
            except NotAnsweredError as error:
                connection.close()
                if not reused or method != "GET":
                    raise _lost(method, access, error) from error

    def _head(self, access: Access, method: str, target: str, length: int, content: str, *, gzip: bool) -> bytes:
        authorization = f"Authorization: {access.authorization}\r\n" if access.authorization else ""
        payload = f"Content-Type: {content}\r\nContent-Length: {length}\r\n" if length or method in ("POST", "PUT", "PATCH") else ""
        return (
            f"{method} {access.prefix}{target} HTTP/1.1\r\nHost: {access.authority}\r\nUser-Agent: {USER_AGENT}\r\n"
            f"Accept: {JSON}\r\nAccept-Encoding: {'gzip' if gzip else 'identity'}\r\n{authorization}{payload}\r\n"
        ).encode("latin-1")

    def _refusal(self, connection: Connection, reply: Reply, method: str, target: str) -> ApiError:
        try:
            answer = _read(connection, reply)
        except NotAnsweredError:
            connection.close()
            answer = Answer(reply.status, reply.headers, b"")
        else:
            self._keep(connection, reply)
        status = _status(answer)
        if status is None:
            status = {"message": _explained(answer, connection.access.url, target)}
        return from_status(answer.status, status, wrote=method != "GET", retry_after=_retry_after(answer.headers))

    def _keep(self, connection: Connection, reply: Reply) -> None:
        if reply.will_close:
            connection.close()
        else:
            self._pool.give_back(connection)


class _Kind(msgspec.Struct):
    kind: str = ""


_kind = decoder(_Kind)


def _is_status(answer: Answer) -> bool:
    try:
        return _kind.decode(answer.data).kind == "Status"
    except UNREADABLE:
        return False  # and so an object, which its reader will not like either


def _named(key: Key) -> tuple[str, str]:
    if not key.name:
        raise ValueError("a request for one object needs its name")
    return key.namespace, key.name


def _query(values: Mapping[str, str]) -> str:
    found = "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items() if value)
    return f"?{found}" if found else ""


def _stored(resource: Resource[T], answer: Answer) -> T:
    try:
        return codec(resource).one(answer.data)
    except ApiError as error:
        error.unknown = True  # it was stored; only this reader cannot say what
        raise


def _read(connection: Connection, reply: Reply) -> Answer:
    data = connection.read(reply)
    if data and reply.headers.get("content-encoding") == "gzip":
        try:
            data = zlib.decompress(data, wbits=31)
        except zlib.error as error:
            raise NotAnsweredError(f"the answer is not gzip as it claims: {error}") from error
    return Answer(reply.status, reply.headers, data)


def _lost(method: str, access: Access, error: NotAnsweredError) -> ApiError:
    outcome = "" if method == "GET" else "; whether it happened is unknown"
    return ApiError(NO_ANSWER, "Unanswered", f"the server {access.url} gave no whole answer: {error}{outcome}", unknown=method != "GET")


def _status(answer: Answer) -> Any:
    """The server's own words about a refusal, if these are any."""
    try:
        found = msgspec.json.decode(answer.data)
    except UNREADABLE:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("message"), str) else None


def _explained(answer: Answer, url: str, target: str) -> str:
    """What an answer means that is not in the server's usual words: a kind without its definition, or somebody else altogether."""
    words = " ".join(answer.data[:200].decode("utf-8", "replace").split())
    if answer.status == 404 and words == NO_SUCH_PAGE and (kind := _CUSTOM.match(target)):
        return (
            f"the server knows no {kind['plural']}.{kind['group']}: is its CustomResourceDefinition installed? "
            f"({url} answered 404 for version {kind['version']})"
        )
    return f"{url} answered {answer.status}, not as a Kubernetes API server does: {words or 'nothing'}"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None


def _warnings(headers: Mapping[str, str]) -> Sequence[str]:
    """The texts of `Warning: 299 - "text"` headers."""
    found = headers.get("warning")
    return [_unquoted(value) for value in found.split("\n")] if found else ()


def _unquoted(value: str) -> str:
    _, _, text = value.partition('"')
    return text.rstrip().removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")
