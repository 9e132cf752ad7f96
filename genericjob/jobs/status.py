"""The status of a job: what people read, computed anew each time from what there is.

A pure function of the job, its previous status, its pods and the time. Conditions change their time only with their status.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache

from msgspec import structs

from genericjob.api import ranges
from genericjob.api.names import CONDITION_TYPES, ConditionType, Phase, Reason, ReplicaPhase
from genericjob.api.status import Aggregate, Condition, ContainerStatus, GenericJobStatus, Replica, Task
from genericjob.reconcile.objects import Container, Pod

from .job import Job
from .observe import Observation, RanksOfType
from .rules import Verdict

LISTED = 1_000
"""Jobs with more containers than this list only the replicas that failed, and of these the first hundred: an object has its limits."""
MESSAGE_LIMIT = 1_024
"""Longest message of a condition, in characters."""
LISTED_OF_MANY = 100

TROUBLES = frozenset(
    (
        Reason.FAILED_CREATE,
        Reason.FAILED_DELETE,
        Reason.NAME_CONFLICT,
        Reason.PREDECESSOR_ENDING,
        Reason.INVALID_SPEC,
        Reason.NOT_YET_SUPPORTED,
    )
)
"""Reasons why a job is not initialized that only a write, never the cache, can tell. They stay until all replicas exist."""

ALL_NORMAL = "All pods are running normally."
INITIALIZED = "The job has been initialized successfully."
NOT_FINISHED = "The job has not finished."

_REPLICA_PHASES: dict[str, ReplicaPhase] = {
    "": "Pending",  # the kubelet has not said anything yet
    "Pending": "Pending",
    "Running": "Running",
    "Succeeded": "Succeeded",
    "Failed": "Failed",
    "Unknown": "Unknown",
}


def status_of(job: Job, seen: Observation, ended: Verdict | None, now: datetime) -> GenericJobStatus:
    """What to say about a job; `ended` is how it has just ended, or did before."""
    now = now.replace(microsecond=0)
    previous = job.status
    tasks, counts = _tasks(job, seen, ended)
    phase = ended.phase if ended else _phase(previous.phase, counts)
    begun = previous.start_time or now
    return GenericJobStatus(
        phase=phase,
        conditions=_conditions(previous.conditions, _statements(job, seen, counts, phase, ended), now),
        ready=f"{counts.running + counts.succeeded}/{job.spec.total}",
        restarts=sum(task.restart_count for task in tasks),
        aggregate=counts,
        tasks=tasks,
        observed_generation=job.generation,
        start_time=begun,
        completion_time=(previous.completion_time or now) if ended else None,
        epoch=previous.epoch,
    )


# ------------------------------------------------------------------------------------------------ replicas


def _tasks(job: Job, seen: Observation, ended: Verdict | None) -> tuple[tuple[Task, ...], Aggregate]:
    stored = {task.type: task for task in job.status.tasks}
    counts = dict.fromkeys(_REPLICA_PHASES.values(), 0) | {"Creating": 0, "Deleted": 0}
    tasks = []
    few = job.design.lines <= LISTED
    for part in seen.types:
        before = stored.get(part.type) or Task(part.type)
        never_started = _never_started(job, part, before) if ended else ""
        replicas = _replicas(part, before, never_started if ended else None)
        for replica in replicas:
            counts[replica.phase] += 1
        tasks.append(
            Task(
                type=part.type,
                restart_count=before.restart_count,
                succeeded_ranks=_text(part.succeeded, before.succeeded_ranks),
                failed_ranks=_text(part.failed, before.failed_ranks),
                never_started_ranks=never_started,
                replicas=tuple(replicas if few else _worth_listing(replicas)),
            )
        )
    return tuple(tasks), Aggregate(**{phase.lower(): count for phase, count in counts.items()})


def _replicas(part: RanksOfType, before: Task, never_started: str | None) -> list[Replica]:
    """All replicas; `never_started` are the ranks that had no pod when the job ended, None while it has not."""
    missing = None in part.pods
    known = {replica.name: replica for replica in before.replicas} if missing else {}
    coming = (part.open if never_started is None else ranges.parse(never_started)) if missing else frozenset()
    found = []
    for name, pod in zip(part.names, part.pods, strict=True):
        if pod is not None:
            found.append(Replica(name, pod.uid, _REPLICA_PHASES.get(pod.phase, "Unknown"), _containers(pod.containers)))
        else:
            rank = len(found)
            found.append(Replica(name, "", "Creating") if rank in coming else _deleted(part, name, rank, known.get(name)))
    return found


def _deleted(part: RanksOfType, name: str, rank: int, known: Replica | None) -> Replica:
    """A rank whose pod is gone for good: it had ended, or its job had. What is known of its end stays."""
    if last := part.ends.get(rank):
        return Replica(name, last.uid, "Deleted", _containers(last.containers))
    return Replica(name, known.uid if known else "", "Deleted", known.containers if known else ())


def _worth_listing(replicas: Iterable[Replica]) -> Iterator[Replica]:
    left = LISTED_OF_MANY
    for replica in replicas:
        if replica.phase in ("Failed", "Unknown") and left:
            left -= 1
            yield replica


def _text(ranks: frozenset[int], before: str) -> str:
    return before if ranges.parse(before) == ranks else ranges.format(ranks)


def _never_started(job: Job, part: RanksOfType, before: Task) -> str:
    """Ranks that had no pod when the job ended: one that appears later is nobody's wish any more."""
    if job.status.completion_time is not None:
        return before.never_started_ranks
    return ranges.format(rank for rank in part.open if part.pods[rank] is None)


@lru_cache(maxsize=8192)
def _containers(containers: tuple[Container, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(ContainerStatus(found.name, found.state.capitalize(), found.exit_code, found.reason) for found in containers)


# ------------------------------------------------------------------------------------------------ phase and conditions


def _phase(before: Phase, counts: Aggregate) -> Phase:
    """Running once every rank has its pod and one of them runs; from then on a single rank's restart changes nothing."""
    if counts.unknown and not (counts.pending or counts.running):
        return "Unknown"
    if before == "Running" or (not counts.creating and counts.running):
        return "Running"
    return "Running" if before == "Unknown" and counts.running else "Pending"


Statement = tuple[bool, str, str]
"""Whether a condition holds, its reason, its message."""


def _statements(job: Job, seen: Observation, counts: Aggregate, phase: Phase, ended: Verdict | None) -> dict[ConditionType, Statement]:
    failure = _replica_failure(job, seen, ALL_NORMAL if phase == "Running" else "No replica has failed.")
    return {
        "Initialized": _initialized(job, seen, counts, ended),
        "Running": _running(phase, failure, ended),
        "ReplicaFailure": failure,
        "Completed": _end(ended, holds=ended is not None and ended.phase == "Succeeded"),
        "Failed": _end(ended, holds=ended is not None and ended.phase == "Failed"),
        "Paused": (False, Reason.NOT_PAUSED, "The job is not paused."),
    }


def _end(ended: Verdict | None, *, holds: bool) -> Statement:
    """`Completed` means success: `kubectl wait --for=condition=Completed` must not return for a job that failed."""
    return (holds, ended.reason, ended.message) if ended else (False, Reason.NOT_FINISHED, NOT_FINISHED)


def _initialized(job: Job, seen: Observation, counts: Aggregate, ended: Verdict | None) -> Statement:
    before = condition(job.status, "Initialized")
    if before and before.status == "True":
        return True, before.reason, before.message
    services = len(seen.missing_services(job))
    if not counts.creating and not services:
        return True, Reason.INITIALIZED, INITIALIZED
    if before and before.reason in TROUBLES and job.status.observed_generation == job.generation:
        return False, before.reason, before.message
    if ended:
        return False, ended.reason, "The job ended before all of its replicas were created."
    if not counts.creating:
        return False, Reason.CREATING, f"{services} of {job.spec.total} services are still to be created."
    return False, Reason.CREATING, f"{counts.creating} of {job.spec.total} pods are still to be created."


def _running(phase: Phase, failure: Statement, ended: Verdict | None) -> Statement:
    if ended:
        return False, ended.reason, ended.message
    if phase == "Running":
        return True, Reason.RUNNING, "The job goes on although replicas have failed." if failure[0] else ALL_NORMAL
    return False, Reason.PENDING, "The job waits for its replicas to run."


def _replica_failure(job: Job, seen: Observation, otherwise: str) -> Statement:
    before = condition(job.status, "ReplicaFailure")
    if before and before.status == "True":
        return True, before.reason, before.message
    for part in seen.types:
        if part.failed:
            rank = min(part.failed)
            pod = part.ends.get(rank) or part.pods[rank]
            return True, Reason.ERROR_IN_POD, _how_it_failed(pod) if pod else f"Pod[{part.names[rank]}] failed"
    return False, Reason.NO_FAILURE, otherwise


def _how_it_failed(pod: Pod) -> str:
    for container in (*pod.init_containers, *pod.containers):
        if container.exit_code:
            why = f" ({container.reason})" if container.reason not in ("", "Error") else ""
            return f"Pod[{pod.name}] exited with error code {container.exit_code}{why}"
    return f"Pod[{pod.name}] failed: {pod.reason or pod.message or 'the node gave no reason'}"


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


def troubled(status: GenericJobStatus, reason: str, message: str, now: datetime, *, stored: GenericJobStatus) -> GenericJobStatus:
    """The same status, with what keeps the job from being initialized; `stored` knows since when it is not."""
    before = condition(stored, "Initialized")
    told = _condition("Initialized", False, reason, message, before, now.replace(microsecond=0))
    others = tuple(found for found in status.conditions if found.type != "Initialized")
    return structs.replace(status, conditions=(told, *others))
