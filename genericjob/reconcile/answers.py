"""Whole answers of an API server, and what they say: objects, refusals, warnings, or that this is no API server."""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeVar

import msgspec

from . import warning_header
from .codec import UNREADABLE, codec
from .connection import Connection, NotAnsweredError
from .errors import NOT_FOUND, ApiError, from_status
from .reply import Reply
from .resources import Resource
from .structs import decoder

T = TypeVar("T")

NO_SUCH_PAGE = "404 page not found"
"""How the server answers for a group that nobody has defined: in plain text, as if it were no API server."""

_CUSTOM = re.compile(r"/apis/(?P<group>[^/?]+)/(?P<version>[^/?]+)(?:/(?:namespaces/[^/?]+/)?(?P<plural>[^/?]+))?")


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def is_status(self) -> bool:
        """Whether it holds a `Status` in place of an object."""
        try:
            return _kind.decode(self.data).kind == "Status"
        except UNREADABLE:
            return False  # and so an object, which its reader will not like either

    @property
    def warnings(self) -> Sequence[str]:
        """The texts of `Warning: 299 - "text"` headers."""
        found = self.headers.get("warning")
        return warning_header.read(found) if found else ()

    def stored(self, resource: Resource[T]) -> T:
        """Return the object that a write has stored."""
        try:
            return codec(resource).one(self.data)
        except ApiError as error:
            error.unknown = True  # it was stored; only this reader cannot say what
            raise

    def refusal(self, method: str, url: str, target: str) -> ApiError:
        """Return what an answer from 300 on means."""
        status, wrote = _status(self), method != "GET"
        if self.status == 404 and (status is None or status.get("kind") != "Status"):
            return _nothing_there(self, url, target, wrote=wrote)
        if status is None:
            status = {"message": _explained(self, url)}
        return from_status(self.status, status, wrote=wrote, retry_after=_retry_after(self.headers))


class _Kind(msgspec.Struct):
    kind: str = ""


_kind = decoder(_Kind)


class TooHeavyError(Exception):
    """An answer has more bytes than its reader takes."""


INFLATED = 2**20
"""Bytes that are decompressed at a time: a few of them on the wire can be a thousand times as many."""


def read(connection: Connection, reply: Reply, most: int = 0) -> Answer:
    """Read the body that follows the head of an answer; one of more than `most` bytes raises TooHeavyError, unless that is 0."""
    compressed = reply.headers.get("content-encoding") == "gzip"
    if not (compressed or most):
        return Answer(reply.status, reply.headers, connection.read(reply))
    parts = connection.parts(reply)
    body = BytesIO()  # not a list of parts: to join them would take all of it twice
    for part in _decompressed(parts) if compressed else parts:
        body.write(part)
        if 0 < most < body.tell():
            raise TooHeavyError
    return Answer(reply.status, reply.headers, body.getvalue())


def _decompressed(parts: Iterator[bytes]) -> Iterator[bytes]:
    stream, begun = zlib.decompressobj(wbits=31), False
    try:
        for part in parts:
            begun = True
            yield stream.decompress(part, INFLATED)
            while stream.unconsumed_tail:
                yield stream.decompress(stream.unconsumed_tail, INFLATED)
        while found := stream.decompress(b"", INFLATED):
            yield found
    except zlib.error as error:
        raise NotAnsweredError(f"the answer is not gzip as it claims: {error}") from error
    if begun and not stream.eof:
        raise NotAnsweredError("the answer is not gzip as it claims: its end is missing")


def _status(answer: Answer) -> Any:
    """The server's own words about a refusal, if these are any."""
    try:
        found = msgspec.json.decode(answer.data)
    except UNREADABLE:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("message"), str) else None


def _nothing_there(answer: Answer, url: str, target: str, *, wrote: bool) -> ApiError:
    """Return what a 404 means that is no `Status`: a kind without its definition, or an answer of another server."""
    if _words(answer) == NO_SUCH_PAGE and (kind := _CUSTOM.match(target)):
        name = f"{kind['plural']}.{kind['group']}" if kind["plural"] else kind["group"]
        hint = "is its CustomResourceDefinition installed?"
        return ApiError(404, NOT_FOUND, f"the server knows no {name}: {hint} ({url} answered 404 for version {kind['version']})")
    # AN INGRESS KNOWS NO OBJECTS: who took its 404 for their end would report, and clean up, what still exists.
    return ApiError(404, "Unreadable", _explained(answer, url), unknown=wrote)


def _explained(answer: Answer, url: str) -> str:
    """What to report of an answer that is not in the server's usual words."""
    return f"{url} answered {answer.status}, not as a Kubernetes API server does: {_words(answer) or 'nothing'}"


def _words(answer: Answer) -> str:
    return " ".join(answer.data[:200].decode("utf-8", "replace").split())


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("retry-after", "")
    return float(value) if value.isascii() and value.isdigit() else None
