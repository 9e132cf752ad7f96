"""What a checker has to say."""

from dataclasses import dataclass

from .entries import Entry


@dataclass(frozen=True, eq=False)
class Violation:
    """A clause that was broken, and by which requests."""

    clause: int
    what: str
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return "\n    ".join((f"{self.clause}: {self.what}", *map(str, self.entries)))


class Findings:
    """Where violations are collected."""

    def __init__(self) -> None:
        self.all: list[Violation] = []

    def unless(self, holds: object, clause: int, what: str, *entries: Entry | None) -> None:
        """Note that a clause was broken, unless it holds."""
        if not holds:
            self.all.append(Violation(clause, what, tuple(entry for entry in entries if entry is not None)))
