"""What `genericjob run` shows: lines of programs with the rank before them, what happens to ranks and jobs, and a table at the end.

Used by one thread. Text of users and programs is written as it is: nothing in it is taken for markup.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO

from rich.console import Console
from rich.style import Style
from rich.table import Table
from rich.text import Text

COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow", "bright_magenta", "bright_blue")
MOST_ROWS = 40

GOOD, BAD, QUIET = Style(color="green"), Style(color="red"), Style(dim=True)
_OF_PHASE = {"Succeeded": GOOD, "Failed": BAD}


@dataclass
class RankView:
    """A rank as people see it."""

    label: str
    phase: str = "Creating"
    exit_code: int | None = None
    message: str = ""
    containers: Mapping[str, str] = field(default_factory=dict)
    """Labels of its containers, by name."""
    stopped: bool = False
    """The job was over before this rank was."""

    def stop(self) -> None:
        """The job is over: what has not ended will be ended, and that is no outcome."""
        self.stopped = True
        if self.phase not in _OF_PHASE:
            self.phase = "Not started" if self.phase == "Creating" else "Stopped"


@dataclass
class JobView:
    """A job as people see it: its ranks by the names of their pods."""

    name: str
    ranks: dict[str, RankView] = field(default_factory=dict)
    phase: str = "Pending"
    verdict: str = ""


class Screen:
    """A terminal, or a file."""

    def __init__(self, file: IO[str] | None = None) -> None:
        self._console = Console(file=file)
        self._width = 0
        self._prefixes: dict[str, str] = {}

    def set_width(self, labels: Iterable[str]) -> None:
        """Line up what follows for these labels."""
        self._width = max(map(len, labels), default=0)

    def line(self, label: str, text: str) -> None:
        """What a program printed."""
        if label not in self._prefixes:
            colour = COLOURS[len(self._prefixes) % len(COLOURS)]
            self._prefixes[label] = self._styled(f"{label:<{self._width}} |", Style(color=colour))
        self._write(f"{self._prefixes[label]} {text}")

    def say(self, text: str) -> None:
        """Something about the run."""
        self._write(self._styled(text, Style(bold=True)))

    def state(self, label: str, text: str, phase: str = "") -> None:
        """Something about a rank or a job."""
        self._write(self._styled(f"{label:<{self._width}} * ", QUIET) + self._styled(text, _OF_PHASE.get(phase, QUIET)))

    def summary(self, jobs: Sequence[JobView]) -> None:
        """How it all ended."""
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        ranks = [rank for job in jobs for rank in job.ranks.values()]
        shown = ranks if len(ranks) <= MOST_ROWS else [rank for rank in ranks if rank.phase != "Succeeded"][:MOST_ROWS]
        why = any(rank.message for rank in shown)
        for title in ("RANK", "PHASE", "EXIT CODE", *(["WHY"] if why else [])):
            table.add_column(title, justify="right" if title == "EXIT CODE" else "left", overflow="fold")
        for rank in shown:
            code = "" if rank.exit_code is None else str(rank.exit_code)
            row = Text(rank.label), Text(rank.phase, style=_OF_PHASE.get(rank.phase, QUIET)), Text(code)
            table.add_row(*row, *([Text(rank.message)] if why else []))
        self._write("")
        if shown:
            self._console.print(table)
        if len(shown) < len(ranks):
            done = sum(rank.phase == "Succeeded" for rank in ranks)
            others = f"; {len(shown)} others are shown" if shown else ""
            self._write(f"{len(ranks)} ranks, {done} succeeded{others}")
        self._write("")
        for job in jobs:
            self._write(self._styled(f"{job.name} {job.verdict}", _OF_PHASE.get(job.phase, QUIET)))

    def flush(self) -> None:
        """Let it be seen."""
        self._console.file.flush()

    def _styled(self, text: str, style: Style) -> str:
        with self._console.capture() as captured:
            self._console.print(Text(text, style=style), end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str) -> None:
        self._console.file.write(text + "\n")
