"""The replicas of a job as its status lists them, and how many there are in each phase.

Outcomes and restarts are compact, and never left out: decisions are made from them. The list of replicas is for people. It is complete for
jobs that are small enough to be read, and of larger ones it has only those that failed: an object has its limits.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice

from msgspec import structs

from genericjob.api import ranges
from genericjob.api.names import ATTEMPT_ANNOTATION, EPOCH_ANNOTATION, ReplicaPhase
from genericjob.api.status import Aggregate, ContainerStatus, Failure, Replica, Task
from genericjob.reconcile.objects import Container, Pod

from .job import Job
from .observe import Observation, RanksOfType, number
from .restarts import End, failed_containers
from .waiting import told_as

LISTED = 1_000
"""Jobs with more containers than this list only the replicas that failed, and of these the first hundred."""
LISTED_OF_MANY = 100
ALIASED = 100
"""Jobs with more containers than this do not list them a second time, under the name that some clients know."""
DETAILED = 100
"""Ranks of a job of whose last failure the details are kept."""
CODES = 64
"""Different exit codes of a type that are counted apart."""
DETAIL_LIMIT = 256
"""Longest message and reason of a failure, in bytes."""

_REPLICA_PHASES: dict[str, ReplicaPhase] = {
    "": "Pending",  # the kubelet has not said anything yet
    "Pending": "Pending",
    "Running": "Running",
    "Succeeded": "Succeeded",
    "Failed": "Failed",
    "Unknown": "Unknown",
}


def tasks_of(
    job: Job, seen: Observation, ends: Sequence[End], now: datetime, *, ended: bool, paused: bool
) -> tuple[tuple[Task, ...], Aggregate]:
    """What the status says of replicas."""
    stored = {task.type: task for task in job.status.tasks}
    counts: Counter[str] = Counter(dict.fromkeys((*_REPLICA_PHASES.values(), "Creating", "Deleted"), 0))
    tasks = []
    # ALL TYPES SHARE what there is room for: an object has its limits, and a job may have a hundred types.
    room, lines = DETAILED - sum(len(task.failures) for task in job.status.tasks), LISTED_OF_MANY
    last: dict[str, dict[int, Pod]] = {}
    for end in ends:
        if end.pod is not None and not end.lost:
            last.setdefault(end.type, {})[end.rank] = end.pod
    for part in seen.types:
        before = stored.get(part.type) or Task(part.type)
        coming = frozenset() if ended or paused else part.open
        ended_pods = last.get(part.type, {})
        replicas = _replicas(part, before, coming, ended_pods)
        counts.update(replica.phase for replica in replicas)
        failed = {rank: pod for rank, pod in ended_pods.items() if pod.phase == "Failed"}
        failures = _failures(part, before, failed, now, room)
        room -= max(0, len(failures) - len(before.failures))
        listed = tuple(replicas if job.design.lines <= LISTED else islice(_worth_listing(replicas), lines))
        lines -= len(listed)
        tasks.append(
            Task(
                type=part.type,
                restart_count=part.ledger.total,
                succeeded_ranks=_text(part.succeeded, before.succeeded_ranks),
                failed_ranks=_text(part.failed, before.failed_ranks),
                absent_ranks=_absent(part, before) if ended else "",
                failures=failures,
                failed_exit_codes=_codes(before.failed_exit_codes, failed.values()),
                replicas=listed,
                unlisted=len(replicas) - len(listed),
                status=listed if job.design.lines <= ALIASED else (),
                **(part.ledger.written() if part.ledger else {}),
            )
        )
    return tuple(tasks), Aggregate(**{phase.lower(): counts[phase] for phase in counts})


def _replicas(part: RanksOfType, before: Task, coming: frozenset[int], ends: Mapping[int, Pod]) -> list[Replica]:
    """All replicas; those that have no pod are being created, or were deleted."""
    known = {replica.name: replica for replica in before.replicas} if None in part.pods else {}
    found = []
    for rank, (name, pod) in enumerate(zip(part.names, part.pods, strict=True)):
        if pod is not None:
            found.append(Replica(name, pod.uid, _REPLICA_PHASES.get(pod.phase, "Unknown"), _containers(pod.containers)))
        elif rank in coming:
            found.append(Replica(name, "", "Creating"))
        else:
            found.append(_deleted(name, ends.get(rank), known.get(name)))
    return found


def _deleted(name: str, last: Pod | None, known: Replica | None) -> Replica:
    """A replica whose pod is gone and is not replaced. What is known of its end stays; what it did before that is not true any more."""
    containers = _containers(last.containers) if last else known.containers if known else ()
    uid = last.uid if last else known.uid if known else ""
    return Replica(name, uid, "Deleted", tuple(found for found in containers if found.exit_code is not None))


def _worth_listing(replicas: Iterable[Replica]) -> Iterator[Replica]:
    return (replica for replica in replicas if replica.phase in ("Failed", "Unknown"))


def _text(ranks: frozenset[int], before: str) -> str:
    return before if ranges.parse(before) == ranks else ranges.format(ranks)


def _absent(part: RanksOfType, before: Task) -> str:
    """Ranks without an outcome that have no pod since the job ended: one that appears from now on is nobody's wish."""
    unended = part.open  # made anew each time it is asked for
    absent = frozenset(rank for rank in unended if part.pods[rank] is None)
    return _text(absent | (ranges.parse(before.absent_ranks) & unended), before.absent_ranks)


@lru_cache(maxsize=8192)
def _containers(containers: tuple[Container, ...]) -> tuple[ContainerStatus, ...]:
    return tuple(ContainerStatus(found.name, found.state.capitalize(), found.exit_code, told_as(found.reason)) for found in containers)


def in_brief(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The same without what only people read: lists of replicas, and details of failures."""
    return tuple(structs.replace(task, replicas=(), status=(), failures=(), unlisted=task.unlisted + len(task.replicas)) for task in tasks)


# ------------------------------------------------------------------------------------------------ failures


def _failures(part: RanksOfType, before: Task, pods: Mapping[int, Pod], now: datetime, room: int) -> tuple[Failure, ...]:
    """The last failure of each rank, as long as there is room for another rank."""
    if not pods and (not before.failures or before.failures[-1].rank < len(part.names)):
        return before.failures
    found = {failure.rank: failure for failure in before.failures if failure.rank < len(part.names)}
    for rank, pod in pods.items():
        if rank in found or room > 0:
            room -= rank not in found
            found[rank] = failure_of(rank, pod, now)
    return tuple(found[rank] for rank in sorted(found))


def failure_of(rank: int, pod: Pod, now: datetime) -> Failure:
    """How a pod failed, in short."""
    first = failed_container(pod)
    return Failure(
        rank,
        pod.uid,
        now.replace(microsecond=0),
        number(pod, EPOCH_ANNOTATION),
        number(pod, ATTEMPT_ANNOTATION),
        first.exit_code if first else None,
        _short(pod.reason or (first.reason if first else "")),
        _short(pod.node),
        _short(pod.message or (first.message if first else "")),
    )


def failed_container(pod: Pod) -> Container | None:
    """The first of the containers that made a pod fail."""
    return next(iter(failed_containers(pod)), None)


def _codes(before: Mapping[str, int], pods: Iterable[Pod]) -> dict[str, int]:
    counts = dict(before)
    for pod in pods:
        first = failed_container(pod)
        code = str(first.exit_code) if first else _short(pod.reason) or "unknown"
        if code not in counts and len(counts) >= CODES:
            code = "other"
        counts[code] = counts.get(code, 0) + 1
    return counts


def _short(text: str) -> str:
    """Cut to a number of bytes, between two characters."""
    data = text.encode()
    return text if len(data) <= DETAIL_LIMIT else data[: DETAIL_LIMIT - 3].decode(errors="ignore") + "…"
