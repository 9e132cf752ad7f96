"""What there is of a job: the pod of each rank, its services, and the outcomes.

An outcome counts once a pod has been seen at its end while nobody had asked for its deletion. From then on it holds, whatever becomes of
the pod: what is stored in status is never doubted, and the end of a pod that was deleted before it could be stored is remembered
(`departures.py`). A pod that was asked to go first says nothing: its kubelet writes a final phase for it, too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from genericjob.api import ranges
from genericjob.api.names import Rank
from genericjob.api.status import Task
from genericjob.reconcile.objects import Pod

from .job import Job
from .rules import Outcomes

ENDED = frozenset(("Succeeded", "Failed"))
DISRUPTION = "DisruptionTarget"
"""A pod's condition."""


@dataclass(frozen=True, slots=True)
class RanksOfType:
    """All ranks of a type."""

    type: str
    names: tuple[str, ...]
    pods: tuple[Pod | None, ...]
    """By rank: the pod that exists, if one does."""
    succeeded: frozenset[int]
    failed: frozenset[int]
    """Outcomes, stored or just seen."""
    ends: Mapping[int, Pod]
    """Pods in which an outcome was seen that is not stored yet."""

    @property
    def open(self) -> frozenset[int]:
        """Ranks without an outcome."""
        return frozenset(range(len(self.names))) - self.succeeded - self.failed


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's own objects."""

    types: tuple[RanksOfType, ...]
    services: Collection[str]
    """Names of the services that exist."""

    def missing_services(self, job: Job) -> tuple[Rank, ...]:
        """Ranks that should have a service and have none."""
        if job.spec.service is None or not job.spec.service.ports:
            return ()
        return tuple(Rank(part.type, rank) for part in self.types for rank, name in enumerate(part.names) if name not in self.services)

    @property
    def outcomes(self) -> Outcomes:
        """How ranks have ended."""
        return Outcomes({part.type: part.succeeded for part in self.types}, {part.type: part.failed for part in self.types})


def observe(job: Job, pods: Iterable[Pod], *, services: Collection[str] = (), departed: Iterable[Pod] = ()) -> Observation:
    """Put together what the caches know. All pods given are the job's own, by owner."""
    by_name = {pod.name: pod for pod in pods}
    gone = {pod.name: pod for pod in departed}
    stored = {task.type: task for task in job.status.tasks}
    types = tuple(_ranks(type, names, stored.get(type), by_name, gone) for type, names in job.design.names.items())
    return Observation(types, services)


def _ranks(type: str, names: tuple[str, ...], stored: Task | None, pods: Mapping[str, Pod], gone: Mapping[str, Pod]) -> RanksOfType:
    there = tuple(map(pods.get, names))
    succeeded = ranges.parse(stored.succeeded_ranks) if stored else frozenset()
    failed = ranges.parse(stored.failed_ranks) if stored else frozenset()
    ends: dict[int, Pod] = {}
    for rank, pod in enumerate(there):
        if gone and (departed := gone.get(names[rank])):
            pod = departed
        elif pod is None or outcome(pod) is None:
            continue
        if rank not in succeeded and rank not in failed:
            ends[rank] = pod
    if ends:
        succeeded |= {rank for rank, pod in ends.items() if pod.phase == "Succeeded"}
        failed |= {rank for rank, pod in ends.items() if pod.phase == "Failed"}
    return RanksOfType(type, names, there, succeeded, failed, ends)


def outcome(pod: Pod) -> Literal["Succeeded", "Failed"] | None:
    """What a pod, as it stands, says of its rank."""
    if pod.deleted is not None or disrupted(pod):
        return None
    return "Succeeded" if pod.phase == "Succeeded" else "Failed" if pod.phase == "Failed" else None


def disrupted(pod: Pod) -> bool:
    """Whether a pod failed because it was in the way: its node was drained, deleted or needed by others. That is nobody's failure."""
    return pod.phase == "Failed" and any(found.type == DISRUPTION and found.status == "True" for found in pod.conditions)


def stored_ends(job: Job) -> frozenset[str]:
    """Names of the ranks whose outcome is stored."""
    found: set[str] = set()
    for task in job.status.tasks:
        names = job.design.names.get(task.type, ())
        ended = ranges.parse(task.succeeded_ranks) | ranges.parse(task.failed_ranks)
        found.update(names[rank] for rank in ended if rank < len(names))
    return frozenset(found)
