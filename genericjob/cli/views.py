"""Runs, jobs and ranks as people see them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ENDED = ("Succeeded", "Failed")
STOPPING, AGAIN = "Stopping", "Restarting"


@dataclass
class RankView:
    """A rank."""

    label: str
    phase: str = "Creating"
    exit_code: int | None = None
    message: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its containers, by name."""
    job: str = ""
    type: str = ""
    number: int = 0
    uid: str = ""
    """Of its pod."""
    restarts: int = 0
    since: float = field(default_factory=time.monotonic)
    """When its pod came, or it became known that there is to be one."""
    until: float | None = None
    """When it ended."""
    last: tuple[str, int | None, str] = ("Not started", None, "")
    """What a rank without a pod did last: phase, exit code and message."""
    stopped: bool = False
    """The job was over before this rank was."""

    def stop(self, *, alive: bool) -> None:
        """The job is over: what has not ended will be ended, and that is no outcome. While its pod is `alive` that takes its time."""
        self.stopped = True
        if self.phase in ("Creating", AGAIN) and not alive:
            self.phase, self.exit_code, self.message = self.last
        elif self.phase not in ENDED:
            self.phase = STOPPING if alive else "Stopped"

    def settle(self) -> None:
        """Its pod is gone, or nobody waits for it any more."""
        if self.phase == STOPPING:
            self.phase, self.until = "Stopped", time.monotonic()

    def age(self, now: float) -> float:
        """Seconds since it began; one that has ended gets no older."""
        return max(0.0, (now if self.until is None else self.until) - self.since)


@dataclass
class JobView:
    """A job: its ranks by the names of their pods."""

    name: str
    ranks: dict[str, RankView] = field(default_factory=dict)
    phase: str = "Pending"
    verdict: str = ""
    namespace: str = "default"
    content: str = ""
    """What it consists of, in words."""
    unhonoured: Sequence[str] = ()
    restarts: int = 0
    job_restarts: int = 0
    """How often all of it was started again."""
    status: bytes = b""
    """As it was stored last."""
    over: bool = False
    """Ended, or gone."""
    since: float = field(default_factory=time.monotonic)


@dataclass
class RunView:
    """All of it."""

    name: str = ""
    jobs: Sequence[JobView] = ()
    logs: Path | None = None
    """Where the files are with what ranks have printed."""
