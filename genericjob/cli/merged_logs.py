"""Many logs as one, in the order of time, with a bounded amount of memory.

The next line to print is the earliest of the first lines of all logs, so the beginning of every log is read first, some logs at a time.
A log that ends within its share of the memory needs no connection any more. Any other one stays open and is read on only when it is its
turn: a server that is not read from waits. A connection that breaks meanwhile, because it was idle for too long, is opened again at the
time of the last line.

No more than `MAX_OPEN` logs stay open. If more of them are large, the rest is merged after these: one pass over each log, and the order of
time holds within each part.
"""

import heapq
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Lock

from genericjob.reconcile.errors import ApiError

from .loglines import Line, Source, lines_of
from .options import Target

READERS = 16
"""Logs whose beginnings are read at the same time."""
MAX_OPEN = 128
"""Logs that are open at the same time; a run on this machine takes 256 connections."""
MAX_AHEAD_BYTES = 32 * 1024 * 1024
"""Of the beginnings of all logs together."""
MAX_AHEAD_OF_ONE_BYTES = 256 * 1024
LINE_BYTES = 400
"""What a line takes besides its text."""
RESUMES = 3
"""How often in a row a connection may break without a line."""

OnError = Callable[[Source, ApiError], None]
"""Is called for a log that cannot be read, or not to its end."""
OnPart = Callable[[int, int], None]
"""Is called before another part: how many logs are left, and how many there are."""


def merged(
    where: Target, sources: Sequence[Source], *, tail: int = -1, previous: bool = False, on_error: OnError, on_part: OnPart
) -> Iterator[Line]:
    """Yield the lines of all logs in the order of their times."""
    left = list(sources)
    while left:
        if len(left) < len(sources):
            on_part(len(left), len(sources))
        logs = [_Log(where, source, tail=tail, previous=previous, on_error=on_error) for source in left]
        room = _Room(min(MAX_AHEAD_OF_ONE_BYTES, MAX_AHEAD_BYTES // len(logs)))
        with ThreadPoolExecutor(READERS) as pool:
            kept = list(pool.map(room.take, logs))
        yield from heapq.merge(*(log for log, fits in zip(logs, kept, strict=True) if fits))
        left = [source for source, fits in zip(left, kept, strict=True) if not fits]


class _Room:
    """The memory and the connections of one part. Used by several threads."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._lock = Lock()
        self._bytes = self._open = 0

    def take(self, log: "_Log") -> bool:
        """Read the beginning of a log; returns whether the log can be merged now. If not it is closed."""
        size = log.read_ahead(self._ahead)
        with self._lock:
            fits = self._bytes == 0 or self._bytes + size <= 2 * MAX_AHEAD_BYTES
            fits = fits and (log.ended or self._open < MAX_OPEN)
            if fits:
                self._bytes += size
                self._open += not log.ended
        if not fits:
            log.close()
        return fits


class _Log:
    """One log: its beginning, which was read ahead, and the rest."""

    def __init__(self, where: Target, source: Source, *, tail: int, previous: bool, on_error: OnError) -> None:
        self._where, self._source, self._tail, self._previous, self._on_error = where, source, tail, previous, on_error
        self._ahead: deque[Line] = deque()
        self._rest = self._read()
        self._error: ApiError | None = None
        self.ended = False

    def read_ahead(self, most: int) -> int:
        """Read about as many bytes; returns how many they take."""
        size = 0
        try:
            for line in self._rest:
                self._ahead.append(line)
                size += len(line.data) + LINE_BYTES
                if size >= most:
                    return size
        except ApiError as error:
            self._error = error  # reported when the lines before it were
        self.ended = True
        return size

    def close(self) -> None:
        """Drop what was read, and the connection."""
        self._rest.close()
        self._ahead.clear()

    def __iter__(self) -> Iterator[Line]:
        while self._ahead:
            yield self._ahead.popleft()
        try:
            if self._error:
                raise self._error
            yield from self._rest
        except ApiError as error:
            self._on_error(self._source, error)

    def _read(self) -> Generator[Line, None, None]:
        """Yield all lines, over as many connections as that takes."""
        since: datetime | None = None
        last, same, number, failures = None, 0, 0, 0
        while True:
            repeated, behind = same, since is not None
            try:
                for line in self._opened(since=since):
                    if behind and since is not None and line.at <= since and (line.at < since or repeated):
                        repeated -= line.at == since
                        continue
                    behind, failures = False, 0
                    last, same = line.at, same + 1 if line.at == last else 1
                    yield line._replace(number=number)
                    number += 1
            except ApiError as error:
                failures += 1
                if last is None or not error.unreachable or failures > RESUMES:
                    raise
                since = last
            else:
                return

    def _opened(self, *, since: datetime | None) -> Iterator[Line]:
        tail = self._tail if since is None else -1
        return lines_of(self._where, self._source, tail=tail, previous=self._previous, since=since)
