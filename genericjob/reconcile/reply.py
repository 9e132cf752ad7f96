"""Reading one HTTP/1.1 answer from a socket.

`http.client` would do, but parses headers with the machinery for e-mail: a third of all that a create costs the client. This reader knows
what API servers and the proxies before them send: a head, and a body that has a length, comes in chunks, or lasts until the end.
"""

import re
import socket
from collections.abc import Iterator, Mapping

from .timeouts import remaining

RECEIVE = 64 * 1024
"""Four TLS records. More would be asked of the system for every answer, however small."""

HEAD_LIMIT = 64 * 1024
CHUNK_LINE_LIMIT = 4096
MOST_INTERIM = 10
"""Answers of the kind "continue" before the real one."""

_UNTIL_THE_END = -1

# A dozen others come with every answer, and to read them all would be a tenth of what an answer costs.
_FIELDS = re.compile(
    rb"\r\n(connection|content-encoding|content-length|retry-after|transfer-encoding|warning)[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE
)
"""The header fields that somebody reads."""
_CHUNK_SIZE = re.compile(rb"\s*([0-9a-fA-F]{1,16})\s*(?:;|\Z)")
"""What may follow behind a semicolon, nobody needs."""


class BrokenReplyError(Exception):
    """The answer ended before it was complete, or is not HTTP."""


class Reply:
    """An answer whose head has been read; the body follows by `read` (all of it) or `read_some` (as it comes)."""

    __slots__ = ("_buffer", "_chunked", "_left", "_skip", "_socket", "deadline", "done", "headers", "status", "will_close")

    def __init__(self, source: socket.socket, method: str, deadline: float | None = None) -> None:
        self._socket = source
        self.deadline = deadline
        """When all of it must be here, in monotonic time. A LIMIT PER READ IS NONE: a server that sends a byte now and then passes it."""
        self._buffer = b""
        for _ in range(MOST_INTERIM + 1):
            self.status, version, self.headers = _parsed(self._head())
            if not 100 <= self.status < 200:  # "continue" and its kin announce the real answer
                break
        else:
            raise BrokenReplyError(f"{MOST_INTERIM + 1} times {self.status} instead of an answer")
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._left, self._skip = self._length(method), 0
        self.done = self._left == 0 and not self._chunked
        """Whether the whole body has been taken."""
        connection = self.headers.get("connection", "").lower()
        self.will_close = (
            "close" in connection or self._left == _UNTIL_THE_END or (version == "HTTP/1.0" and "keep-alive" not in connection)
        )

    headers: Mapping[str, str]
    """Those of `_FIELDS`, names in lower case; repeated ones joined by a newline, which no header can hold."""

    @property
    def has_data(self) -> bool:
        """Whether part of the body has arrived with what was read before."""
        return bool(self._buffer)

    def read(self) -> bytes:
        """The whole body."""
        parts = list(self.parts())
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def parts(self) -> Iterator[bytes]:
        """The whole body, as it comes."""
        while part := self.read_some():
            yield part
        if self._buffer:
            self.will_close = True  # more than one answer to one request: nobody knows what comes next

    def read_some(self) -> bytes:
        """What has arrived of the body, at least one byte; empty at its end."""
        while not self.done:
            if part := self._take_chunks() if self._chunked else self._take_plain():
                return part
        return b""

    def _length(self, method: str) -> int:
        if method == "HEAD" or self.status in (204, 304):
            self._chunked = False
            return 0
        if self._chunked:
            return 0
        text = self.headers.get("content-length")
        if text is None:
            return _UNTIL_THE_END
        if not (text.isascii() and text.isdigit()):
            raise BrokenReplyError(f"a length of {text!r}")
        return int(text)

    def _take_plain(self) -> bytes:
        data = self._buffer or self._receive(end_is_fine=self._left == _UNTIL_THE_END)
        self._buffer = b""
        if self._left == _UNTIL_THE_END:
            self.done = not data
            return data
        if len(data) > self._left:
            data, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(data)
        self.done = self._left == 0
        return data

    def _take_chunks(self) -> bytes:
        """The content of all chunks, or parts of them, that have arrived."""
        data, at = self._buffer or self._receive(), 0
        left, skip, end = self._left, self._skip, len(data)
        parts: list[bytes] = []
        while at < end:
            if not (left or skip):
                line = data.find(b"\r\n", at)
                if line < 0:
                    break  # half of a size; the rest is on its way
                left, at = _chunk_size(data[at:line]), line + 2
                if left == 0:
                    self._buffer = data[at:]
                    self._finish()
                    return parts[0] if len(parts) == 1 else b"".join(parts)
            if left:
                part = data[at : at + left]
                parts.append(part)
                at += len(part)
                left -= len(part)
                skip = 0 if left else 2
            if skip:  # the line end behind a chunk
                step = min(skip, end - at)
                skip -= step
                at += step
        self._left, self._skip = left, skip
        self._buffer = data[at:]
        if not parts and self._buffer:
            if len(self._buffer) > CHUNK_LINE_LIMIT:
                raise BrokenReplyError("a chunk without a size")
            self._buffer += self._receive()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _finish(self) -> None:
        """Read over trailers, up to the empty line."""
        taken = 0
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if taken + len(self._buffer) > HEAD_LIMIT:
                    raise BrokenReplyError("trailers without end")
                self._buffer += self._receive()
                continue
            line, self._buffer = self._buffer[:end], self._buffer[end + 2 :]
            taken += end + 2
            if not line:
                self.done = True
                return

    def _head(self) -> bytes:
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end >= 0:
                head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
                return head
            if len(self._buffer) > HEAD_LIMIT:
                raise BrokenReplyError("a head without end")
            self._buffer += self._receive()

    def _receive(self, *, end_is_fine: bool = False) -> bytes:
        if self.deadline is not None:
            self._socket.settimeout(remaining(self.deadline))
        data = self._socket.recv(RECEIVE)
        if not data and not end_is_fine:
            raise BrokenReplyError("the connection was closed before the answer was complete")
        return data


def _parsed(head: bytes) -> tuple[int, str, dict[str, str]]:
    first = head.partition(b"\r\n")[0].decode("latin-1")
    version, _, rest = first.partition(" ")
    code = rest[:3]
    if not version.startswith("HTTP/1.") or not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise BrokenReplyError(f"no HTTP: {first[:80]!r}")
    headers: dict[str, str] = {}
    for field, content in _FIELDS.findall(head):
        name, value = field.decode().lower(), content.decode("latin-1").rstrip()
        headers[name] = f"{headers[name]}\n{value}" if name in headers else value
    return int(code), version, headers


def _chunk_size(line: bytes) -> int:
    if (found := _CHUNK_SIZE.match(line)) is None:
        raise BrokenReplyError(f"a chunk size of {line[:20]!r}")
    return int(found[1], 16)
