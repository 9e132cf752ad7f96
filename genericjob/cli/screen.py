"""What `genericjob run` shows: lines of programs with the rank before them, what happens to ranks and jobs, and a table
at the end.

On a terminal a table of ranks stays below all that (`live.py`), and above the table the lines that programs have not
finished, as they are at present: progress bars move there. Used by one thread. Text of users and programs is written as
it is, and nothing in it is taken for markup; only where a table stands below it, what would move the cursor is left out.
Bytes that are not UTF-8 are shown as \\xNN, and a warning says so. A line that was shown in part is continued after a
`+` in the place of `|`. What is said about a run is one line each time, whatever was in the messages that it is made of.
"""

import re
import time
from collections.abc import Callable, Iterable
from typing import IO

from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

from genericjob.reconcile.resources import Key

from .live import BAD, COLOURS, GOOD, OF_PHASE, PLAIN, QUIET, STRONG, Line, Live, ranks_table
from .outlet import Outlet
from .printed import CONTINUED, FIRST, LineCutter, Piece, last_state, text_of
from .tables import colourful, live
from .text import one_line
from .views import JobView, RankView, RunView

MOST_ROWS = 40
EVERY = 0.2
"""Seconds between two pictures of the table, at least."""
AGES = 1.0
"""Seconds after which the table is drawn again although nothing has happened: ages have."""
SOON = 0.3
"""Seconds after which a line that has not ended is shown above the table."""
UNFINISHED_ROWS = 4
"""Which part of the screen such lines may take, one in so many rows."""
MOST_HELD = 256 * 1024
"""Characters that wait for the next picture; more are shown at once."""

_MOVES = re.compile(r"\x1b\[[0-9;:?]*[^0-9;:?m]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?|\x1b[^\[\]]|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]")
"""Everything that a terminal obeys, but for colours and tabs."""
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


class Screen:
    """A terminal, or a file."""

    def __init__(self, file: IO[str] | None = None, *, table: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._outlet = Outlet(file)
        colours = colourful(self._outlet.file)
        self._colours = ColorSystem.STANDARD if colours else None
        self._console = Console(file=self._outlet.file, color_system="standard" if colours else None)
        self._live = Live(self._outlet, self._paint) if table and live(self._outlet.file) else None
        self._clock, self._drawn = clock, float("-inf")
        self._held: list[str] = []
        self._size = 0
        self._moved = False
        """A line that is not finished may have changed."""
        self._cutter: LineCutter[tuple[Key, str]] = LineCutter(clock)
        self._labels: dict[tuple[Key, str], str] = {}
        self._replaced: set[str] = set()
        """Labels of programs that print what is not UTF-8."""
        self._width = 0
        self._prefixes: dict[tuple[str, str], str] = {}
        self._colour_of: dict[str, str] = {}
        self._run: RunView | None = None

    @property
    def lost(self) -> OSError | None:
        """Why nothing can be shown any more."""
        return self._outlet.lost

    # -------------------------------------------------------------------------------------------- the story

    def begin(self, run: RunView) -> None:
        """What is going to happen."""
        self._run = run
        ranks = [rank for job in run.jobs for rank in job.ranks.values()]
        self.set_width({label for rank in ranks for label in (rank.label, *rank.labels.values())} | {job.name for job in run.jobs})
        for job in run.jobs:
            self.say(f"{job.name}: {job.content}, as programs on this machine")
            if job.unhonoured:
                self.say(f"{job.name}: not honoured here: {', '.join(job.unhonoured)}")
        if run.name:
            self._write(self._paint(f"other terminals can talk to it: genericjob get --run {run.name}", QUIET))

    def set_width(self, labels: Iterable[str]) -> None:
        """Line up what follows for these labels."""
        self._width = max(map(len, labels), default=0)

    def printed(self, rank: RankView | None, pod: Key, container: str, data: bytes) -> None:
        """What a program printed; b"" is the end of it."""
        key = pod, container
        self._labels[key] = label = rank.labels.get(container, rank.label) if rank else pod.name
        for piece in self._cutter.feed(key, data):
            self._lines(label, piece)
        self._moved = True

    def _lines(self, label: str, piece: Piece) -> None:
        text, replaced = text_of(piece.data)
        first, newline, others = text.removesuffix("\n").partition("\n")
        first = first.removesuffix("\r")
        mark = CONTINUED if piece.continued and "\r" not in first else FIRST  # what is written over does not go on
        if piece.continued or not text.endswith("\n"):
            first = last_state(first)
        shown = f"{self._prefix(label, mark)}{self._tame(first)}"
        if newline:
            prefix = self._prefix(label, FIRST)
            if self._live or "\r" in others:
                others = "\n".join(self._tame(line.removesuffix("\r")) for line in others.split("\n"))
            shown += f"\n{prefix}" + others.replace("\n", f"\n{prefix}")
        self._write(shown)
        if replaced and label not in self._replaced:
            self._replaced.add(label)
            kept = "; its log file has them as they are" if self._run and self._run.logs else ""
            self.warn(label, f"prints bytes that are not UTF-8: they are shown as \\xNN{kept}")

    def _prefix(self, label: str, mark: str) -> str:
        if (label, mark) not in self._prefixes:
            colour = self._colour_of.setdefault(label, COLOURS[len(self._colour_of) % len(COLOURS)])
            self._prefixes[label, mark] = self._paint(f"{label:<{self._width}} {mark}", Style(color=colour)) + " "
        return self._prefixes[label, mark]

    def _unfinished(self, rows: int) -> list[Line]:
        """Lines that programs have not finished, for a screen of so many rows."""
        lines: list[Line] = []
        for key, data in self._cutter.unfinished(SOON):
            if len(lines) == rows // UNFINISHED_ROWS:
                break
            text = _COLOURS.sub("", self._tame(last_state(text_of(data)[0]))).expandtabs()
            lines.append([(f"{self._labels[key]:<{self._width}} {FIRST} ", QUIET), (text, PLAIN)])
        return lines

    def say(self, text: str) -> None:
        """Something about the run."""
        self._write(self._paint(one_line(text), STRONG))

    def rank(self, rank: RankView, text: str) -> None:
        """Something about a rank."""
        self._state(rank.label, text, rank.phase)

    def job(self, job: JobView, text: str) -> None:
        """Something about a job."""
        self._state(job.name, text, job.phase)

    def warn(self, label: str, text: str) -> None:
        """Something that somebody should see to."""
        self._write(self._paint(f"{label:<{self._width}} * ", QUIET) + self._paint(one_line(f"warning: {text}"), Style(color="yellow")))

    def end(self, run: RunView, code: int) -> None:
        """How it all ended."""
        if self._live:
            self._live.draw(self._taken(), ())
            self._live = None
        self._summary(run)
        self.refresh(busy=False)

    def refresh(self, *, busy: bool) -> float | None:
        """Let it be seen, unless there is more to come or it was seen just now; returns after how many seconds to call again."""
        if self._live is None:
            for key, piece in self._cutter.overdue():
                self._lines(self._labels[key], piece)
            if not busy:
                self._outlet.flush()
            return self._cutter.wait()
        now = self._clock()
        wait = self._drawn + (EVERY if self._held or self._moved else AGES) - now
        if wait > 0 and self._size < MOST_HELD:
            return wait
        self._drawn, self._moved = now, False
        columns, rows = self._live.size()
        table = ranks_table(self._run, columns=columns, rows=rows, now=now) if self._run else ()
        self._live.draw(self._taken(), [*self._unfinished(rows), *table])
        return EVERY

    # -------------------------------------------------------------------------------------------- how it is written

    def _state(self, label: str, text: str, phase: str) -> None:
        self._write(self._paint(f"{label:<{self._width}} * ", QUIET) + self._paint(one_line(text), OF_PHASE.get(phase, QUIET)))

    def _paint(self, text: str, style: Style) -> str:
        return style.render(text, color_system=self._colours) if text else ""

    def _tame(self, text: str) -> str:
        """Below a table nobody else may move the cursor. Of a line that was written over and over the last state is shown."""
        if self._live is None or text.isprintable():
            return text
        last = next((part for part in reversed(text.split("\r")) if part), "")
        tamed = _MOVES.sub("", last)
        return f"{tamed}\x1b[0m" if "\x1b" in tamed else tamed

    def _write(self, text: str) -> None:
        if self._live is None:
            self._outlet.write(text + "\n")
        else:
            self._held.append(text)
            self._size += len(text)

    def _taken(self) -> list[str]:
        held, self._held, self._size = self._held, [], 0
        return held

    def _summary(self, run: RunView) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        ranks = [rank for job in run.jobs for rank in job.ranks.values() if rank.phase != "Not started" or job.phase != "Pending"]
        shown = ranks if len(ranks) <= MOST_ROWS else [rank for rank in ranks if rank.phase != "Succeeded"][:MOST_ROWS]
        why, again = any(rank.message for rank in shown), any(rank.restarts for rank in shown)
        for title in ("RANK", "PHASE", *(["RESTARTS"] if again else []), "EXIT CODE", *(["WHY"] if why else [])):
            table.add_column(title, justify="right" if title in ("EXIT CODE", "RESTARTS") else "left", overflow="fold")
        for rank in shown:
            code = "" if rank.exit_code is None else str(rank.exit_code)
            row = [Text(rank.label), Text(rank.phase, style=OF_PHASE.get(rank.phase, QUIET))]
            row += [*([Text(str(rank.restarts))] if again else []), Text(code), *([Text(one_line(rank.message))] if why else [])]
            table.add_row(*row)
        self._write("")
        if shown:
            with self._console.capture() as printed:
                self._console.print(table)
            self._write(printed.get().removesuffix("\n"))
        if len(shown) < len(ranks):
            done = sum(rank.phase == "Succeeded" for rank in ranks)
            others = f"; {len(shown)} others are shown" if shown else ""
            self._write(f"{len(ranks)} ranks, {done} succeeded{others}")
        if shown or ranks:
            self._write("")
        if run.logs:
            self._write(self._paint(f"what they printed is in {run.logs}", QUIET))
        for job in run.jobs:
            if job.job_restarts:
                times = "once" if job.job_restarts == 1 else f"{job.job_restarts} times"
                self._write(self._paint(f"{job.name} was started again as a whole, {times}", QUIET))
            self._write(self._paint(one_line(f"{job.name} {job.verdict}"), {"Succeeded": GOOD, "Failed": BAD}.get(job.phase, QUIET)))
