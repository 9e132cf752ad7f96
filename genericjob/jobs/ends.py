"""The end of a job, and what comes after it: deadline, clean-up, expiry.

A terminal phase is final. After it nothing is created; pods are deleted as the clean-up policy says, and one that appears late is deleted
under every policy. The policy is read anew at every look, so it can be changed afterwards.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Literal

from genericjob.api import ranges
from genericjob.api.names import Reason
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.objects import Pod

from .course import Course
from .job import Job
from .observe import Observation, unfinished
from .restarts import Settlement
from .rules import Verdict
from .status import begun, condition


def deadline(job: Job, settled: Settlement, now: datetime, *, course: Course | None = None) -> datetime | None:
    """When the job will have been active for too long; never while it is paused."""
    limit, course = job.spec.active_deadline_seconds, course or settled.course
    if limit is None or course.paused:
        return None
    left = timedelta(seconds=limit) - course.active(begun(job, settled, now), now)
    return now + max(timedelta(), left)


def deadline_exceeded(job: Job, settled: Settlement, now: datetime) -> Verdict | None:
    """Whether the job has been active for too long."""
    moment = deadline(job, settled, now)
    if moment is None or moment > now:
        return None
    text = f"The job was active for longer than {job.spec.active_deadline_seconds} seconds (spec.activeDeadlineSeconds)."
    return Verdict("Failed", Reason.DEADLINE_EXCEEDED, text)


def expiry(job: Job) -> datetime | None:
    """When a job that has ended is deleted."""
    ttl, ended = job.spec.ttl_seconds_after_finished, job.status.completion_time
    return ended + timedelta(seconds=ttl) if ttl is not None and ended else None


def as_it_ended(status: GenericJobStatus) -> Verdict:
    """The verdict that is stored."""
    told = condition(status, "Completed")
    phase: Literal["Succeeded", "Failed"] = "Succeeded" if status.phase == "Succeeded" else "Failed"
    return Verdict(phase, told.reason, told.message) if told else Verdict(phase, phase, "")


def to_clean_up(job: Job, seen: Observation) -> Iterator[Pod]:
    """Pods that the job's policy does not want any more. Who exceeds a deadline keeps nothing running."""
    policy = job.spec.clean_up_policy
    if policy == "None" and as_it_ended(job.status).reason != Reason.DEADLINE_EXCEEDED:
        return
    for pod in seen.current_pods():
        if pod.deleted is None and (policy == "All" or unfinished(pod)):
            yield pod


def late(job: Job, seen: Observation) -> Iterator[Pod]:
    """Pods that were on their way when the job ended, and are nobody's wish any more."""
    yield from run_again(seen)
    stored = {task.type: task for task in job.status.tasks}
    for part in seen.types:
        task = stored.get(part.type)
        if task and task.absent_ranks:
            pods = (part.pods[rank] for rank in ranges.parse(task.absent_ranks) if rank < len(part.pods))
            yield from (pod for pod in pods if pod is not None and pod.deleted is None)


def run_again(seen: Observation) -> Iterator[Pod]:
    """Pods of ranks that have ended before: created late, by a leader of old or a write whose answer was lost. Never two runs of a rank."""
    for part in seen.types:
        for rank in (*part.succeeded, *part.failed):
            pod = part.pods[rank]
            if pod is not None and unfinished(pod) and pod.deleted is None:
                yield pod
