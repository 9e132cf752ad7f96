"""The course of a job as a whole: its epochs, pauses and restarts, and the time it was active.

An epoch ends when all replicas have to go: a pause begins, or the whole job is started again. Pods carry the number of theirs, and none
of a new epoch is created before all of the old ones are gone.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from genericjob.api.status import GenericJobStatus

from .ledger import FORGIVEN, MOST_IN_A_ROW, back_off


@dataclass(frozen=True, slots=True)
class Course:
    """Where a job stands in its course. Fields of the status, under their names there."""

    epoch: int = 0
    pause_time: datetime | None = None
    paused_before_start: bool = False
    paused_seconds: int = 0
    resumes: int = 0
    job_restarts: int = 0
    job_restarts_in_a_row: int = 0
    last_job_restart: datetime | None = None

    @classmethod
    def of(cls, status: GenericJobStatus, *, epoch: int) -> "Course":
        """As it is stored; `epoch` is the one that was seen, if that is later."""
        return cls(**{name: getattr(status, name) for name in cls.__slots__} | {"epoch": max(epoch, status.epoch)})

    @property
    def paused(self) -> bool:
        """Whether a pause has begun and not ended."""
        return self.pause_time is not None

    def pausing(self, now: datetime, *, before_start: bool = False) -> "Course":
        """A pause begins; `before_start` if the job starts for the first time when it ends."""
        return replace(self, epoch=self.epoch + 1, pause_time=now.replace(microsecond=0), paused_before_start=before_start)

    def resuming(self, now: datetime) -> "Course":
        """A pause ends. What starts for the first time does not resume."""
        taken = int(max(timedelta(), now - self.pause_time).total_seconds()) if self.pause_time else 0
        return replace(
            self,
            pause_time=None,
            paused_before_start=False,
            paused_seconds=self.paused_seconds + taken,
            resumes=self.resumes + (not self.paused_before_start),
        )

    def restarting(self, now: datetime, *, charged: bool) -> "Course":
        """The whole job is started again."""
        begun = self.not_before
        row = self.job_restarts_in_a_row + 1 if begun and now - begun < FORGIVEN else 1
        return replace(
            self,
            epoch=self.epoch + 1,
            job_restarts=self.job_restarts + charged,
            job_restarts_in_a_row=min(MOST_IN_A_ROW, row),
            last_job_restart=now.replace(microsecond=0),
        )

    @property
    def not_before(self) -> datetime | None:
        """When replicas may be started, if the whole job has to wait."""
        return self.last_job_restart + back_off(self.job_restarts_in_a_row) if self.last_job_restart else None

    def active(self, begun: datetime, now: datetime) -> timedelta:
        """How long the job has been active. A clock that was set back makes it no less than nothing."""
        until = self.pause_time or now
        return max(timedelta(), until - begun - timedelta(seconds=self.paused_seconds))

    def written(self) -> dict[str, Any]:
        """As fields of a status."""
        return {name: getattr(self, name) for name in self.__slots__}
