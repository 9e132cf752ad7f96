"""A watch over HTTP: bytes of a connection become events. And a log, where they become lines.

Being woken is what costs most, more than decryption and decoding together: so a reader that had to wait for an event lets a little more
arrive before it reads, and takes what has come in one go. A reader that takes line by line falls behind, and the server hangs up on it.
"""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from .api import Event, Position
from .codec import Codec
from .connection import Connection
from .errors import NO_ANSWER, ApiError
from .line_buffer import LineBuffer
from .page_limit import LARGEST_OBJECT_BYTES
from .reply import BrokenReplyError, Reply

T = TypeVar("T")

LONGEST_LINE = 256 * 1024
"""Bytes of a line of text; a longer one comes in pieces of about this size, since a program may never end its line."""
GATHER = 0.002
"""Seconds in which the events of one moment arrive; nobody notices them, and a dense stream costs half."""


class HttpText:
    """Lines of text as they come, on a connection of their own: the log of a container. However long nothing comes, that is no failure.

    Every line has its newline. What has none is a part of a line, and the next piece goes on with it.
    """

    def __init__(self, connection: Connection, reply: Reply, *, whole: bool = True) -> None:
        """Read lines when they have ended, or (not `whole`) as far as they have come."""
        self._connection = connection
        self._reply = reply
        self._longest = LONGEST_LINE if whole else 1
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        lines = LineBuffer()
        try:
            while piece := self._read():
                for line in lines.ended_by(piece):
                    yield line + b"\n"
                if lines.size >= self._longest:
                    yield lines.take()
            if lines.size:
                yield lines.take()
        finally:
            self._connection.close()

    def _read(self) -> bytes:
        try:
            return self._reply.read_some()
        except (OSError, BrokenReplyError) as error:
            if self._closed:
                return b""
            why = " ".join(str(error).split()) or type(error).__name__
            raise ApiError(NO_ANSWER, "Unreachable", f"the answer was cut: {why}") from error

    def close(self) -> None:
        """End it from any thread."""
        self._closed = True
        self._connection.interrupt()


class HttpWatch(Generic[T]):
    """A stream of events on a connection of its own."""

    def __init__(
        self,
        connection: Connection,
        reply: Reply,
        codec: Codec[T],
        resource_version: str,
        *,
        initial_events: bool,
        silence: float,
    ) -> None:
        self._connection = connection
        self._reply = reply
        self._codec = codec
        self._position = Position(resource_version, initial_events=initial_events)
        self._silence = silence
        self._closed = False

    @property
    def resource_version(self) -> str:
        """Where the stream stands: a new watch from here misses nothing."""
        return self._position.resource_version

    def __iter__(self) -> Iterator[Event[T]]:
        decode, advance = self._codec.event, self._position.advance
        lines = LineBuffer()
        try:
            while piece := self._read():
                for line in lines.ended_by(piece):
                    if self._closed:
                        return
                    if line:
                        event = decode(line)
                        advance(event)
                        yield event
                if lines.size > LARGEST_OBJECT_BYTES:
                    raise ApiError(NO_ANSWER, "Unreadable", f"the server sent an event of more than {LARGEST_OBJECT_BYTES:,} bytes")
            if lines.size and not self._closed:
                decode(lines.take())  # an answer that is no stream of lines says here what it is
                raise ApiError(NO_ANSWER, "Unreachable", "the watch was cut in the middle of an event")
        finally:
            self._connection.close()

    def _read(self) -> bytes:
        try:
            if not self._reply.done and not self._reply.has_data and not self._connection.has_data():
                if not self._connection.has_data(within=self._silence):
                    raise self._silent()
                time.sleep(GATHER)
            return self._reply.read_some()
        except TimeoutError as error:
            raise self._silent() from error
        except (OSError, BrokenReplyError) as error:
            if self._closed:
                return b""
            why = " ".join(str(error).split()) or type(error).__name__
            raise ApiError(NO_ANSWER, "Unreachable", f"the watch was cut: {why}") from error

    def _silent(self) -> ApiError:
        return ApiError(NO_ANSWER, "Silent", f"no event and no bookmark for {self._silence:g} s: the connection is taken for dead")

    def close(self) -> None:
        """End the stream from any thread."""
        self._closed = True
        self._connection.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        self._connection.close()
