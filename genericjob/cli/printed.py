"""What programs print, on its way to those who read it: bytes become lines, or pieces of lines.

Log files hold every byte. A screen cannot: some bytes are not UTF-8, some lines are very long, and a progress bar is
one line that is written again and again. So output is cut into pieces. A piece is a number of whole lines, or a part of
one line, because the line is too long or because it has been unfinished for a while. A piece that continues a line of
which a part was shown before is marked.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

LONGEST_LINE = 1024 * 1024
"""Bytes of a line that are kept until it ends; a longer one is given out in pieces."""
UNFINISHED_S = 1.0
"""Seconds after which a line that has not ended is given out as far as it has come. Twice as many after each time, for the same line."""
MOST_UNFINISHED_S = 60.0
FIRST, CONTINUED = "|", "+"
"""What stands between a label and a line, and between a label and the continuation of a line."""


class Piece(NamedTuple):
    """Whole lines, or a part of a line."""

    data: bytes
    """Ends with a newline if its last line has ended."""
    continued: bool = False
    """Its first line goes on with what was given out before."""


class _Output:
    """What one program prints."""

    __slots__ = ("continued", "due", "pause", "rest", "since")

    def __init__(self) -> None:
        self.rest = b""
        self.continued = False
        self.since = self.due = 0.0
        self.pause = UNFINISHED_S


class LineCutter(Generic[K]):
    """The output of several programs, each under a key. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[K, _Output] = {}
        self._unfinished: dict[K, _Output] = {}
        """Those that have printed a part of a line that was not given out."""
        self._next = 0.0
        """Nothing is overdue before."""

    def feed(self, key: K, data: bytes) -> Iterator[Piece]:
        """Take what a program has printed; b"" is the end of it. Yields what can be shown now."""
        output = self._known.setdefault(key, _Output())
        if not data:
            yield from self._end(key, output)
            return
        before, now = output.rest, self._clock()
        cut = data.rfind(b"\n") + 1
        if cut:
            if whole := _without_bare_end(before + data[:cut], output):
                yield Piece(whole, output.continued)
            output.rest, output.continued, output.pause = data[cut:], False, UNFINISHED_S
        else:
            output.rest = before + data
        if len(output.rest) >= LONGEST_LINE:
            yield self._part(output)
        if cut or not before:
            output.since, output.due = now, max(now + UNFINISHED_S, 0.0 if cut else output.due)
        self._note(key, output)

    def part(self, key: K) -> Iterator[Piece]:
        """Yield what there is of an unfinished line, now."""
        if output := self._unfinished.get(key):
            yield self._part(output)
            self._note(key, output)

    def overdue(self) -> Iterator[tuple[K, Piece]]:
        """Yield lines that have been unfinished for too long, as far as they have come."""
        now = self._clock()
        if now < self._next:
            return
        for key, output in [pair for pair in self._unfinished.items() if pair[1].due <= now]:
            output.pause = min(2 * output.pause, MOST_UNFINISHED_S)
            output.due = now + output.pause
            if output.rest.strip(b"\r"):
                piece = self._part(output)
                self._note(key, output)
                if piece.data:
                    yield key, piece
        self._next = min((output.due for output in self._unfinished.values()), default=math.inf)

    def wait(self) -> float | None:
        """Return the seconds until something is overdue; None if nothing is unfinished."""
        return max(0.0, self._next - self._clock()) if self._unfinished else None

    def unfinished(self, seconds: float) -> Iterator[tuple[K, bytes]]:
        """Yield lines that have been unfinished for so long, each as it is at present: what was written over is forgotten."""
        until = self._clock() - seconds
        for key, output in self._unfinished.items():
            if output.since <= until:
                output.rest = output.rest[max(0, output.rest.rstrip(b"\r").rfind(b"\r")) :]
                yield key, output.rest

    def _end(self, key: K, output: _Output) -> Iterator[Piece]:
        del self._known[key]
        self._unfinished.pop(key, None)
        if output.rest:
            yield Piece(output.rest, output.continued)

    def _part(self, output: _Output) -> Piece:
        """Take what there is of a line. NOT IN THE MIDDLE OF A LETTER: its other bytes may be under way."""
        cut = _whole_letters(output.rest)
        piece = Piece(output.rest[:cut], output.continued)
        output.rest = output.rest[cut:]
        output.continued |= cut > 0
        return piece

    def _note(self, key: K, output: _Output) -> None:
        if output.rest:
            self._unfinished[key] = output
            self._next = min(self._next, output.due)
        else:
            self._unfinished.pop(key, None)


def _without_bare_end(data: bytes, output: _Output) -> bytes:
    """Of a line that was given out already, drop the newline that ends it."""
    if output.continued:
        for end in (b"\n", b"\r\n"):
            if data.startswith(end):
                output.continued = False
                return data.removeprefix(end)
    return data


def _whole_letters(data: bytes) -> int:
    """Return up to where bytes are whole characters of UTF-8, or certainly none."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < length else len(data)
        if byte < 0x80:
            break
    return len(data)


def text_of(data: bytes) -> tuple[str, bool]:
    """Return output as text, and whether bytes were replaced: those that are not UTF-8 are shown as \\xNN."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="backslashreplace"), True


def last_state(line: str) -> str:
    """Return what a line shows that was written over and over."""
    return next((part for part in reversed(line.split("\r")) if part), "") if "\r" in line else line
