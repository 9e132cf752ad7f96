"""The table of ranks that stays at the bottom of a terminal while everything else scrolls above it.

Nothing but text and two orders: go up so many lines, and clear what is below. The table never takes more than half of the screen; of more
ranks than that it tells how many there are of each kind, and lists those that somebody might want to look at.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from .outlet import Outlet
from .tables import duration
from .views import ENDED, JobView, RankView, RunView

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow", "bright_magenta", "bright_blue")
GOOD, BAD, BUSY, QUIET, STRONG, PLAIN = (
    Style(color="green"),
    Style(color="red"),
    Style(color="yellow"),
    Style(dim=True),
    Style(bold=True),
    Style(),
)
OF_PHASE: Mapping[str, Style] = {"Succeeded": GOOD, "Failed": BAD, "Pausing": BUSY, "Paused": BUSY}

TITLES = ("RANK", "PHASE", "RESTARTS", "EXIT CODE", "AGE", "WHY")
LEAST = ("RANK", "PHASE")
"""Columns that every table has, however narrow."""
DROPPED = ("WHY", "AGE", "RESTARTS", "EXIT CODE")
"""Columns that go when there is no room, in this order."""
GAP = 3
UNKNOWN_SIZE = os.terminal_size((80, 24))

Line = Sequence[tuple[str, Style]]
"""Pieces of a line, each in its style."""


class Live:
    """The lower part of a terminal."""

    def __init__(self, file: Outlet, paint: Callable[[str, Style], str]) -> None:
        self._file, self._paint = file, paint
        self._widths: list[int] = []
        """How many places the lines take that were drawn last."""

    def size(self) -> os.terminal_size:
        """Columns and rows, as they are now: people move their windows."""
        try:
            found = os.get_terminal_size(self._file.fileno())
        except (OSError, ValueError):
            return UNKNOWN_SIZE
        return found if found.columns and found.lines else UNKNOWN_SIZE

    def draw(self, scrolled: Iterable[str], table: Sequence[Line]) -> None:
        """Let lines scroll by, and show the table below them in place of the last one."""
        columns = self.size().columns
        parts = [self._erased(columns), *(f"{line}\n" for line in scrolled)]
        self._widths = []
        for line in table:
            shown = list(_cropped(line, columns - 1))
            self._widths.append(sum(cell_len(text) for text, _ in shown))
            parts += [*(self._paint(text, style) for text, style in shown), "\n"]
        self._file.write("".join(parts))
        self._file.flush()

    def _erased(self, columns: int) -> str:
        """To where the table begins. IN A WINDOW THAT HAS BECOME NARROWER its lines have been broken, and are more than they were."""
        rows = sum(max(1, -(-width // columns)) for width in self._widths)
        return f"\r\x1b[{rows}A\x1b[J" if rows else ""


def _cropped(line: Line, columns: int) -> Iterator[tuple[str, Style]]:
    left = max(1, columns)
    for text, style in line:
        if left > 0 and text:
            yield (text if cell_len(text) <= left else set_cell_size(text, left)), style
        left -= cell_len(text)


# ------------------------------------------------------------------------------------------------ what stands in it


def ranks_table(run: RunView, *, columns: int, rows: int, now: float) -> list[Line]:
    """The table of a run, for a screen of so many rows."""
    room = max(3, rows // 2)
    lines: list[Line] = [[("─" * (columns - 1), QUIET)], *(_job(job, now) for job in run.jobs)]
    ranks = [(job, rank) for job in run.jobs for rank in job.ranks.values()]
    if len(lines) + 1 + len(ranks) <= room:
        return [*lines, *_rows(ranks, columns, now)]
    lines += [_type(type, found) for (_, type), found in _by_type(ranks).items()]
    worth = sorted((pair for pair in ranks if _weight(pair[1])), key=lambda pair: -_weight(pair[1]))
    left = room - len(lines) - 1
    if worth and left > 0:
        lines += _rows(worth[:left], columns, now)
    return lines if len(lines) <= room else [*lines[: room - 1], [(f"and {len(lines) - room + 1} lines more", QUIET)]]


def _job(job: JobView, now: float) -> Line:
    ended = sum(rank.phase == "Succeeded" for rank in job.ranks.values())
    again = f", {job.restarts} restart{'s' if job.restarts != 1 else ''}" if job.restarts else ""
    told = f"   {ended} of {len(job.ranks)} succeeded{again}   {duration(now - job.since)}"
    return [(job.name, STRONG), ("   ", PLAIN), (job.phase, OF_PHASE.get(job.phase, PLAIN)), (told, QUIET)]


def _by_type(ranks: Iterable[tuple[JobView, RankView]]) -> dict[tuple[str, str], list[RankView]]:
    found: dict[tuple[str, str], list[RankView]] = {}
    for job, rank in ranks:
        found.setdefault((job.name, rank.type), []).append(rank)
    return found


def _type(type: str, ranks: Sequence[RankView]) -> Line:
    counts = Counter(rank.phase for rank in ranks)
    line: list[tuple[str, Style]] = [(f"{len(ranks)} x {type}:", PLAIN)]
    for phase, count in counts.most_common():
        line += [(f" {count} ", PLAIN), (phase.lower(), OF_PHASE.get(phase, PLAIN)), (",", QUIET)]
    return line[:-1]


def _weight(rank: RankView) -> int:
    """How much somebody might want to look at a rank."""
    if rank.phase == "Failed":
        return 4
    if rank.message:
        return 3
    if rank.restarts and rank.phase not in ENDED:
        return 2
    return int(rank.phase not in ("Running", "Succeeded"))


def _rows(ranks: Sequence[tuple[JobView, RankView]], columns: int, now: float) -> Iterator[Line]:
    cells = [_cells(job, rank, now) for job, rank in ranks]
    titles = [title for title in TITLES if title != "WHY" or any(each["WHY"] for each in cells)]
    widths = {title: max(len(title), *(cell_len(each[title]) for each in cells)) for title in titles}
    for title in DROPPED:
        if title in titles and title != "WHY" and _wide(titles, widths) >= columns:
            titles.remove(title)
    yield [(_padded(title, widths[title]), STRONG) for title in titles]
    for each in cells:
        yield [(_padded(each[title], widths[title]), _style(title, each[title])) for title in titles]


def _padded(text: str, width: int) -> str:
    """A cell and the gap behind it. BY PLACES ON THE SCREEN: characters of some languages take two."""
    return text + " " * (width + GAP - cell_len(text))


def _wide(titles: Sequence[str], widths: Mapping[str, int]) -> int:
    """Columns that a table takes; the last one may be cut off."""
    return sum(widths[title] + GAP for title in titles if title != "WHY") - GAP


def _cells(job: JobView, rank: RankView, now: float) -> dict[str, str]:
    code = "" if rank.exit_code is None else str(rank.exit_code)
    phase = "Paused" if job.phase == "Paused" and rank.phase not in ENDED else rank.phase
    ages = duration(rank.age(now))
    return dict(zip(TITLES, (rank.label, phase, str(rank.restarts), code, ages, rank.message), strict=True))


def _style(title: str, text: str) -> Style:
    return OF_PHASE.get(text, PLAIN) if title == "PHASE" else QUIET if title == "WHY" else PLAIN
