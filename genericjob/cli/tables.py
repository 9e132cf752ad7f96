"""Tables, ages and colours, as kubectl's users know them."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO

from .text import one_line, painted

GAP = "   "
NOTHING = "<none>"
UNKNOWN = "<unknown>"

GOOD, BAD, BUSY, QUIET = "green", "red", "yellow", "bright_black"
OF_PHASE: Mapping[str, str] = {
    "Succeeded": GOOD,
    "Failed": BAD,
    "Running": "cyan",
    "Pausing": BUSY,
    "Paused": BUSY,
    "Unknown": BUSY,
    "Deleted": QUIET,
}
PREFIXES = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow", "bright_magenta", "bright_blue")
"""Colours of ranks, one after the other."""

MINUTE, HOUR, DAY = 60, 60 * 60, 24 * 60 * 60
YEAR = 365 * DAY


def now() -> datetime:
    """The present."""
    return datetime.now(UTC)


def moment(text: object) -> datetime | None:
    """A time as objects write it; None for anything else."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo else found.replace(tzinfo=UTC)


def age(since: datetime | None, until: datetime | None = None) -> str:
    """How long ago something was, as kubectl writes it."""
    return UNKNOWN if since is None else duration(((until or now()) - since).total_seconds())


def duration(seconds: float) -> str:
    """So many seconds, as kubectl writes them: ever less exact, two units at most."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    if whole < 2 * MINUTE:
        return f"{whole}s"
    for below, unit, name, smaller, smaller_name in _STEPS:
        if whole < below:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{name}" + (f"{rest}{smaller_name}" if rest else "")
    return f"{whole // YEAR}y"


_STEPS = (
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)
"""Up to how many seconds which units are written."""


# ------------------------------------------------------------------------------------------------ colours


def live(file: IO[str] | None = None) -> bool:
    """Whether there is a screen that can be painted anew, with or without colours."""
    shown = file or sys.stdout
    return os.environ.get("TERM") not in ("dumb", "unknown") and shown is not None and shown.isatty()


def colourful(file: IO[str] | None = None) -> bool:
    """Whether colours are wanted: on a terminal, unless $NO_COLOR is set."""
    return not os.environ.get("NO_COLOR") and live(file)


# ------------------------------------------------------------------------------------------------ tables


class Table:
    """Rows under titles, in columns as wide as they must be. Cells that are phases have their colours."""

    def __init__(self, *titles: str) -> None:
        self._titles = titles
        self._rows: list[tuple[str, ...]] = []
        self._widths = [len(title) for title in titles]
        self._titled = False

    def __bool__(self) -> bool:
        """Whether there is anything under the titles."""
        return bool(self._rows)

    def add(self, *cells: str) -> None:
        """Another row; what is empty is shown as nothing."""
        row = tuple(one_line(cell) or NOTHING for cell in cells)
        self._rows.append(row)
        self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]

    def lines(self, *, colours: bool = False, indent: str = "", titles: bool = True) -> Iterator[str]:
        """What to print."""
        if titles:
            yield indent + self._line(self._titles, colours=False)
        for row in self._rows:
            yield indent + self._line(row, colours=colours)

    def fresh_lines(self, *, colours: bool = False) -> Iterator[str]:
        """The titles once, and then only rows that were added since this was last asked: for tables that go on."""
        yield from self.lines(colours=colours, titles=not self._titled)
        self._titled = True
        self._rows.clear()

    def _line(self, row: Sequence[str], *, colours: bool) -> str:
        *first, last = zip(row, self._widths, strict=True)
        padded = [_cell(text, colours) + " " * (width - len(text)) for text, width in first]
        return GAP.join((*padded, _cell(last[0], colours)))


def _cell(text: str, colours: bool) -> str:
    return painted(text, OF_PHASE.get(text, ""), colours=colours)
