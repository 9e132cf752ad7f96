"""A watch over HTTP: bytes of a connection become events.

Read in big chunks and split into lines here: a reader that takes line by line falls behind under load, and the server then hangs up.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from .api import Event, Position
from .codec import Codec
from .connection import Connection
from .errors import NO_ANSWER, ApiError
from .reply import BrokenReplyError, Reply

T = TypeVar("T")


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
        rest = b""
        try:
            while chunk := self._read():
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                for line in lines:
                    if self._closed:
                        return
                    if line:
                        event = decode(line)
                        advance(event)
                        yield event
        finally:
            self._connection.close()

    def _read(self) -> bytes:
        try:
            return self._reply.read_some()
        except TimeoutError as error:
            if self._closed:
                return b""
            text = f"no event and no bookmark for {self._silence:g} s: the connection is taken for dead"
            raise ApiError(NO_ANSWER, "Silent", text) from error
        except (OSError, BrokenReplyError) as error:
            if self._closed:
                return b""
            why = " ".join(str(error).split()) or type(error).__name__
            raise ApiError(NO_ANSWER, "Unreachable", f"the watch was cut: {why}") from error

    def close(self) -> None:
        """End the stream from any thread."""
        self._closed = True
        self._connection.interrupt()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        self._connection.close()
