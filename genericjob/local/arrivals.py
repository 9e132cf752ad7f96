"""When the lines of a log came, beside the log: the log itself is what a program has printed, and nothing else.

    main.log        reading
                    epoch 1
    .main.times     0 1794830400000000000
                    8 1794830401500000000

A record says that what begins at this byte came at this time, in nanoseconds; the time of a line is that of its first byte. Lines that
came together share one.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

SECOND = 1_000_000_000
_EPOCH = datetime.fromtimestamp(0, UTC)


def nanoseconds(time: datetime) -> int:
    """A time as records have it."""
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000


def beside(log: Path) -> Path:
    """The file with the times of a log's lines."""
    return log.with_name(f".{log.stem}.times")


def record(begin: int, time: int) -> bytes:
    """What to note before output that begins at this byte."""
    return b"%d %d\n" % (begin, time)


def stamp(time: int) -> bytes:
    """A time as the kubelet puts it before lines: with all nine digits."""
    seconds, rest = divmod(time, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


class Arrivals:
    """The times of a log's lines, asked for from the first line to the last; the log may still grow."""

    def __init__(self, log: Path) -> None:
        self._log, self._path = log, beside(log)
        self._file: BinaryIO | None = None
        self._time = 0
        self._ahead: tuple[int, int] | None = None

    def of(self, begin: int) -> int:
        """When the line that begins at this byte came."""
        while (ahead := self._ahead or self._next()) and ahead[0] <= begin:
            self._time, self._ahead = ahead[1], None
        self._ahead = ahead
        # A LOG WITHOUT TIMES, because its disk was full: no line is younger than the file.
        return self._time or self._log.stat().st_mtime_ns

    def _next(self) -> tuple[int, int] | None:
        if self._file is None:
            try:
                self._file = self._path.open("rb")
            except FileNotFoundError:
                return None
        while (line := self._file.readline()).endswith(b"\n"):
            begin, _, time = line.partition(b" ")
            with suppress(ValueError):  # one that a full disk has cut
                return int(begin), int(time)
        self._file.seek(-len(line), 1)  # it is just being written
        return None

    def close(self) -> None:
        """Read nothing more."""
        if self._file is not None:
            self._file.close()
