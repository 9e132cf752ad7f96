"""Where a run is told: a screen, lines, or records."""

from typing import Protocol

from genericjob.reconcile.resources import Key

from .views import JobView, RankView, RunView


class Show(Protocol):
    """Where it is told."""

    @property
    def lost(self) -> OSError | None:
        """Why nothing can be told any more."""
        ...

    def begin(self, run: RunView) -> None:
        """What is going to happen."""
        ...

    def printed(self, rank: RankView | None, pod: Key, container: str, data: bytes) -> None:
        """What a program printed; b"" is the end of it."""
        ...

    def rank(self, rank: RankView, text: str) -> None:
        """Something about a rank."""
        ...

    def job(self, job: JobView, text: str) -> None:
        """Something about a job."""
        ...

    def say(self, text: str) -> None:
        """Something about the run."""
        ...

    def warn(self, label: str, text: str) -> None:
        """Something that somebody should see to."""
        ...

    def end(self, run: RunView, code: int) -> None:
        """How it all ended."""
        ...

    def refresh(self, *, busy: bool) -> float | None:
        """Let it be seen; returns after how many seconds to call again."""
        ...
