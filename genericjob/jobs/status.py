"""The status of a job: what people read, computed anew each time from what there is.

A pure function of the job, its previous status, its pods and the time. Conditions change their time only with their status.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import structs

from genericjob.api.names import CONDITION_TYPES, ConditionType, Phase, Reason
from genericjob.api.status import Aggregate, Condition, Failure, GenericJobStatus, Task
from genericjob.reconcile.objects import Pod

from .course import Course
from .job import Job
from .observe import Observation, RanksOfType
from .restarts import End, Settlement
from .rules import Verdict
from .tasks import failed_container, in_brief, tasks_of
from .waiting import Waiting, waiting

MESSAGE_LIMIT = 1_024
"""Longest message of a condition, in characters."""

TROUBLES = frozenset(
    (
        Reason.FAILED_CREATE,
        Reason.FAILED_DELETE,
        Reason.NAME_CONFLICT,
        Reason.PREDECESSOR_ENDING,
        Reason.INVALID_SPEC,
        Reason.SCHEDULER_MISSING,
    )
)
"""Reasons why a job is not initialized that only a write, never the cache, can tell. They stay until all replicas exist."""

ALL_NORMAL = "All pods are running normally."
INITIALIZED = "The job has been initialized successfully."
NOT_FINISHED = "The job has not finished."
BESIDES = "; meanwhile: "


def status_of(job: Job, settled: Settlement, ended: Verdict | None, now: datetime, *, course: Course | None = None) -> GenericJobStatus:
    """What to say about a job; `ended` is how it has just ended, or did before, and `course` the one it takes now."""
    now = now.replace(microsecond=0)
    previous, course = job.status, course or settled.course
    tasks, counts = tasks_of(job, settled.seen, settled.ends, now, ended=ended is not None, paused=course.paused)
    terminating = sum(1 for _ in _everybody(settled.seen)) if course.paused and not ended else 0
    story = _Story(job, settled, course, ended, now, tasks, counts, terminating)
    return GenericJobStatus(
        phase=story.phase,
        conditions=_conditions(previous.conditions, story.statements(), now),
        ready=f"{counts.running + sum(len(part.succeeded) for part in settled.seen.types)}/{job.spec.total}",
        restarts=sum(task.restart_count for task in tasks) + course.job_restarts,
        aggregate=counts,
        terminating=terminating,
        tasks=tasks,
        observed_generation=job.generation,
        start_time=begun(job, settled, now),
        completion_time=(previous.completion_time or now) if ended else None,
        **course.written(),
    )


def begun(job: Job, settled: Settlement, now: datetime) -> datetime:
    """When the job began: as it is stored or, as long as nothing is, when its first pod was created."""
    return job.status.start_time or min((pod.created for pod in settled.seen.current_pods() if pod.created), default=now)


Statement = tuple[bool, str, str]
"""Whether a condition holds, its reason, its message."""


class _Story:
    """One job, told in a phase and six conditions."""

    def __init__(
        self,
        job: Job,
        settled: Settlement,
        course: Course,
        ended: Verdict | None,
        now: datetime,
        tasks: tuple[Task, ...],
        counts: Aggregate,
        terminating: int,
    ) -> None:
        self._job, self._settled, self._course, self._terminating = job, settled, course, terminating
        self._ended, self._tasks, self._counts = ended, tasks, counts
        self._before, self._now = job.status, now
        self.phase = self._phase()
        self._waiting: Waiting | None = None
        if not ended and self.phase != "Paused":
            self._waiting = waiting(settled.seen, now)

    # -------------------------------------------------------------------------------------------- phase

    def _phase(self) -> Phase:
        before = self._before.phase
        if self._ended:
            return self._ended.phase
        if self._course.paused:
            return "Pausing" if self._terminating else "Paused"
        if self._settled.job_restarts:
            return "Pending"
        if self._before.pause_time is not None:
            before = "Resuming"
        return _running_phase(before, self._counts)

    # -------------------------------------------------------------------------------------------- conditions

    def statements(self) -> dict[ConditionType, Statement]:
        """All conditions."""
        failure = self._replica_failure()
        return {
            "Initialized": self._initialized(),
            "Running": self._running(failure),
            "ReplicaFailure": failure,
            "Completed": self._end("Succeeded"),
            "Failed": self._end("Failed"),
            "Paused": self._paused(),
        }

    def _end(self, phase: Phase) -> Statement:
        """`Completed` means success: `kubectl wait --for=condition=Completed` must not return for a job that failed."""
        if not self._ended:
            return False, Reason.NOT_FINISHED, NOT_FINISHED
        return self._ended.phase == phase, self._ended.reason, self._ended.message

    def _initialized(self) -> Statement:
        job, counts = self._job, self._counts
        before = condition(job.status, "Initialized")
        if before and before.status == "True":
            return True, before.reason, before.message
        if self._course.paused:
            return False, Reason.PAUSED, "The job was paused before all of its replicas were created."
        services = len(self._settled.seen.missing_services(job))
        absent = any(task.absent_ranks for task in self._tasks)
        if not counts.creating and not services and not absent:
            return True, Reason.INITIALIZED, INITIALIZED
        if before and before.reason in TROUBLES and job.status.observed_generation == job.generation:
            return False, before.reason, before.message
        if self._ended:
            return False, self._ended.reason, "The job ended before all of its replicas were created."
        if not counts.creating:
            return False, Reason.CREATING, f"{services} of {job.spec.total} services are still to be created."
        return False, Reason.CREATING, f"{counts.creating} of {job.spec.total} pods are still to be created."

    def _running(self, failure: Statement) -> Statement:
        if self._ended:
            return False, self._ended.reason, self._ended.message
        if self._course.paused:
            being = "being " if self.phase == "Pausing" else ""
            return False, self.phase, str(self._waiting) if self._waiting else f"The job is {being}paused."
        if self.phase == "Running":
            return True, Reason.RUNNING, str(self._waiting) if self._waiting else self._how_it_runs(failure)
        if cause := self._restarting():
            return False, Reason.RESTARTING_JOB, f"{cause}{BESIDES}{self._waiting}" if self._waiting else cause
        if self._waiting:
            return False, self._waiting.reason, str(self._waiting)
        return False, self.phase, "The job waits for its replicas to run."

    def _restarting(self) -> str:
        """Why the whole job is started again; remembered until it runs."""
        if cause := self._settled.job_restarts:
            return f"All replicas are started again: {how_it_ended(cause)}"
        before = condition(self._before, "Running")
        return before.message.partition(BESIDES)[0] if before and before.reason == Reason.RESTARTING_JOB else ""

    @property
    def _all_is_well(self) -> bool:
        counts = self._counts
        return self.phase == "Running" and not (self._waiting or counts.creating or counts.unknown)

    def _how_it_runs(self, failure: Statement) -> str:
        if failure[0]:
            return f"The job goes on although replicas have failed{self._next_try()}."
        if self._counts.creating:
            return f"{self._counts.creating} of {self._job.spec.total} replicas are being created again."
        return "All pods are running, to be debugged: how they end says nothing." if self._job.spec.debugged else ALL_NORMAL

    def _next_try(self) -> str:
        """Who waits for its next try, and until when: the first of those that do."""
        for part in self._settled.seen.types:
            for rank in sorted(part.ledger.last.keys() & part.open) if part.ledger else ():
                moment = part.ledger.not_before(rank)
                if part.pods[rank] is None and moment is not None and moment > self._now:
                    return f"; Pod[{part.names[rank]}] is started again at {moment:%H:%M:%SZ}"
        return ""

    def _paused(self) -> Statement:
        if self.phase == "Paused":
            return True, Reason.PAUSED, "The job is paused."
        if self.phase == "Pausing":
            pods = "1 pod is" if self._terminating == 1 else f"{self._terminating} pods are"
            stuck = self._waiting if self._waiting and self._waiting.reason == Reason.STUCK_TERMINATING else None
            return False, Reason.PAUSING, f"{pods} still terminating{f': {stuck}' if stuck else '.'}"
        if self.phase == "Resuming":
            return False, Reason.RESUMING, "The job goes on after a pause."
        return False, Reason.NOT_PAUSED, "The job is not paused."

    def _replica_failure(self) -> Statement:
        before = condition(self._before, "ReplicaFailure")
        if self._ended and self._before.completion_time and before:
            return before.status == "True", before.reason, before.message
        parts = list(zip(self._settled.seen.types, self._tasks, strict=True))
        for ask in (lambda part, known: part.failed, self._not_replaced):  # who failed for good comes first
            for part, task in parts:
                known = {failure.rank: failure for failure in task.failures}
                if ranks := ask(part, known):
                    return True, Reason.ERROR_IN_POD, self._failure(part, min(ranks), known, before)
        return False, Reason.NO_FAILURE, ALL_NORMAL if self._all_is_well else "No replica has failed."

    def _failure(self, part: RanksOfType, rank: int, known: Mapping[int, Failure], before: Condition | None) -> str:
        """How a rank failed: as it was just seen, or as it is known."""
        told = f"Pod[{part.names[rank]}]"
        for end in self._settled.ends:
            if (end.type, end.rank, end.lost) == (part.type, rank, False) and end.pod is not None and end.pod.phase == "Failed":
                return how_it_failed(end.pod)
        if last := known.get(rank):
            return f"{told} {_words(last.exit_code, last.reason, last.message)}"
        return before.message if before and before.message.startswith(f"{told} ") else f"{told} failed"

    def _not_replaced(self, part: RanksOfType, known: Mapping[int, Failure]) -> set[int]:
        """Ranks that failed, run again, and do not yet: their present attempt is the one after the failure."""
        if self._course.paused or not known:
            return set()
        unended = part.open
        return {
            rank
            for rank, failure in known.items()
            if rank in unended and not _runs(part.pods[rank])
            if (failure.epoch, failure.attempt + 1) == (self._course.epoch, part.ledger.attempt(rank))
        }


def _everybody(seen: Observation) -> Iterable[Pod]:
    return (*seen.current_pods(), *seen.old_pods())


def _runs(pod: Pod | None) -> bool:
    return pod is not None and pod.phase in ("Running", "Succeeded")


def _running_phase(before: Phase, counts: Aggregate) -> Phase:
    """Running once every rank has its pod and one of them runs; from then on a single rank's restart changes nothing."""
    if counts.unknown and not (counts.pending or counts.running):
        return "Unknown"
    if before == "Running" or (not counts.creating and counts.running):
        return "Running"
    if before == "Resuming":
        return "Resuming"
    return "Running" if before == "Unknown" and counts.running else "Pending"


def how_it_failed(pod: Pod) -> str:
    """In one line, with the exit code if there is one."""
    first = failed_container(pod)
    if first is None and pod.phase == "Succeeded":
        return f"Pod[{pod.name}] exited with code 0"
    told = _words(first.exit_code if first else None, (pod.reason or first.reason) if first else pod.reason, pod.message)
    return f"Pod[{pod.name}] {told}"


def how_it_ended(end: End) -> str:
    """The same of an end, and of a pod that vanished."""
    return f"Pod[{end.name}] was deleted" if end.lost or end.pod is None else how_it_failed(end.pod)


def _words(exit_code: int | None, reason: str, message: str) -> str:
    if exit_code is not None:
        return f"exited with error code {exit_code}{f' ({reason})' if reason not in ('', 'Error') else ''}"
    return f"failed: {reason or message or 'the node gave no reason'}"


def _conditions(before: Iterable[Condition], say: dict[ConditionType, Statement], now: datetime) -> tuple[Condition, ...]:
    known = {found.type: found for found in before}
    return tuple(_condition(type, *say[type], known.get(type), now) for type in CONDITION_TYPES)


def _condition(type: ConditionType, holds: bool, reason: str, message: str, before: Condition | None, now: datetime) -> Condition:
    status = "True" if holds else "False"
    since = before.last_transition_time if before and before.status == status else now
    return Condition(type, status, reason, message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…", since)


def condition(status: GenericJobStatus, type: ConditionType) -> Condition | None:
    """One of a status's conditions."""
    return next((found for found in status.conditions if found.type == type), None)


def shortened(status: GenericJobStatus) -> GenericJobStatus:
    """The same, without what no decision needs: for a job that fills its object by itself."""
    return structs.replace(status, tasks=in_brief(status.tasks))


def troubled(status: GenericJobStatus, reason: str, message: str, now: datetime, *, stored: GenericJobStatus) -> GenericJobStatus:
    """The same status, with what keeps the job from being initialized; `stored` knows since when it is not."""
    before = condition(stored, "Initialized")
    told = _condition("Initialized", False, reason, message, before, now.replace(microsecond=0))
    others = tuple(found for found in status.conditions if found.type != "Initialized")
    return structs.replace(status, conditions=(told, *others))
