"""What happened to a job, in order: events, conditions that came true, and how ranks failed, each told once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import EVENTS

from .jobs import Job, key_of, status_of
from .options import Target
from .ranks import Rank, how_it_failed
from .tables import age, moment


@dataclass(frozen=True)
class Moment:
    """Something that happened."""

    at: datetime
    who: str
    what: str
    count: int = 1
    first: datetime | None = None

    @property
    def ages(self) -> str:
        """How long ago, and how often before, as kubectl writes it."""
        return f"{age(self.at)} (x{self.count} over {age(self.first, self.at)})" if self.count > 1 and self.first else age(self.at)


def history(where: Target, job: Job, ranks: Sequence[Rank]) -> list[Moment]:
    """All that is known."""
    told = list(_events(where, job, ranks))
    said = {each.what for each in told}
    known = [each for each in _from_status(job, status_of(job), ranks) if each.what not in said]
    return sorted(known + told, key=lambda each: (each.at, each.who))


def _from_status(job: Job, status: GenericJobStatus, ranks: Sequence[Rank]) -> Iterator[Moment]:
    created = moment(job["metadata"].get("creationTimestamp"))
    if created:
        yield Moment(created, "job", "Created")
    for each in status.conditions:
        if each.status == "True":
            # THE MESSAGE OF A RUNNING JOB IS THE PRESENT ONE, not that of the moment in which it began to run.
            message = "All replicas have their pods, and the first runs" if each.type == "Running" else each.message
            yield Moment(each.last_transition_time, "job", f"{each.type}: {message}")
    if status.last_job_restart:
        yield Moment(status.last_job_restart, "job", "All replicas were started again")
    for rank in ranks:
        if failure := rank.failure:
            code = f" with exit code {failure.exit_code}" if failure.exit_code is not None else ""
            node = f" on {failure.node}" if failure.node else ""
            words = how_it_failed(failure)
            yield Moment(failure.time, rank.label, f"Failed{code}{node}{f': {words}' if words else ''} (attempt {failure.attempt + 1})")


def _events(where: Target, job: Job, ranks: Sequence[Rank]) -> Iterator[Moment]:
    """What was told of the job, and of its pods. Who may not read events sees the rest."""
    labels = {rank.name: rank.label for rank in ranks}
    namespace, created = key_of(job).namespace, moment(job["metadata"].get("creationTimestamp"))
    try:
        for event in _listed(where, namespace, f"involvedObject.uid={job['metadata']['uid']}"):
            yield from _told(event, "job")
        for event in _listed(where, namespace, "involvedObject.kind=Pod"):
            if label := labels.get((event.get("involvedObject") or {}).get("name", "")):
                # AN EARLIER JOB MAY HAVE HAD THE NAME: its pods were called the same.
                yield from (each for each in _told(event, label) if created is None or each.at >= created)
    except ApiError as error:
        if error.code != 403:
            raise


def _listed(where: Target, namespace: str, fields: str) -> Iterator[dict[str, Any]]:
    for page in pages(where.api, EVENTS, namespace, fields=fields):
        yield from page.items


def _told(event: dict[str, Any], who: str) -> Iterator[Moment]:
    series = event.get("series") or {}
    first = moment(event.get("firstTimestamp")) or moment(event.get("eventTime")) or moment(event["metadata"].get("creationTimestamp"))
    last = moment(series.get("lastObservedTime")) or moment(event.get("lastTimestamp")) or first
    if last:
        count = series.get("count") or event.get("count") or 1
        yield Moment(last, who, f"{event.get('reason')}: {event.get('message')}", count, first)
