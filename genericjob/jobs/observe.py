"""What there is of a job: the pod of each rank, its services, and the outcomes that are stored.

A pod counts for its rank only if it belongs to the present epoch of the job and the present attempt of the rank; any other is *old* and has
to go, whatever it does. An end counts once a pod has been seen at its end while nobody had asked for its deletion. From then on it holds,
whatever becomes of the pod: what is stored in status is never doubted, and the end of a pod that was deleted before it could be stored is
remembered (`departures.py`). A pod that was asked to go first says nothing: its kubelet writes a final phase for it, too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from genericjob.api import ranges
from genericjob.api.names import ATTEMPT_ANNOTATION, CHARGED_ANNOTATION, EPOCH_ANNOTATION, Rank
from genericjob.api.status import Task
from genericjob.reconcile.objects import UNREADABLE, Pod, Service

from .job import Job
from .ledger import Entries, Ledger
from .rules import Outcomes

FINISHED = frozenset(("Succeeded", "Failed"))
"""Phases of pods that run no more."""


def unfinished(pod: Pod) -> bool:
    """Whether a pod has not ended; of one that cannot be decoded that is not known."""
    return pod.phase not in FINISHED and pod.reason != UNREADABLE


@dataclass(frozen=True, slots=True)
class RanksOfType:
    """All ranks of a type."""

    type: str
    names: tuple[str, ...]
    pods: tuple[Pod | None, ...]
    """By rank: the pod of the present attempt, if it exists."""
    old: Mapping[int, Pod]
    """Pods of earlier attempts and epochs that still have the rank's name."""
    succeeded: frozenset[int]
    failed: frozenset[int]
    """Outcomes."""
    ledger: Ledger
    ends: Mapping[int, Pod]
    """Pods that have ended, there or gone, and whose ends are not accounted for yet."""
    lost: Mapping[int, Pod]
    """Pods that vanished before they ended, likewise."""

    @property
    def open(self) -> frozenset[int]:
        """Ranks without an outcome."""
        return frozenset(range(len(self.names))) - self.succeeded - self.failed


@dataclass(frozen=True, slots=True)
class Observation:
    """A job's own objects."""

    types: tuple[RanksOfType, ...]
    services: Mapping[str, Service]
    """By name."""
    epoch: int = 0
    """The latest that the status or a pod speaks of."""
    strays: tuple[Pod, ...] = ()
    """Pods of ranks that the job does not have any more."""

    def missing_services(self, job: Job) -> tuple[Rank, ...]:
        """Ranks that should have a service and have none."""
        if job.spec.service is None or not job.spec.service.ports:
            return ()
        return tuple(Rank(part.type, rank) for part in self.types for rank, name in enumerate(part.names) if name not in self.services)

    def stray_services(self) -> tuple[Service, ...]:
        """Services of ranks that the job does not have any more."""
        if not self.services:
            return ()
        names = frozenset(chain.from_iterable(part.names for part in self.types))
        return tuple(service for name, service in self.services.items() if name not in names and service.deleted is None)

    def old_pods(self) -> Iterable[Pod]:
        """Everything that is there and does not belong to the present."""
        return chain(self.strays, chain.from_iterable(part.old.values() for part in self.types))

    def current_pods(self) -> Iterable[Pod]:
        """The pods of the present attempts."""
        return (pod for part in self.types for pod in part.pods if pod is not None)

    def of_earlier_epochs(self, epoch: int) -> bool:
        """Whether anything from before this epoch is still there."""
        return any(number(pod, EPOCH_ANNOTATION) < epoch for pod in self.old_pods())

    @property
    def outcomes(self) -> Outcomes:
        """How ranks have ended."""
        return Outcomes({part.type: part.succeeded for part in self.types}, {part.type: part.failed for part in self.types})


def observe(job: Job, pods: Iterable[Pod], *, services: Collection[Service] = (), departed: Iterable[Pod] = ()) -> Observation:
    """Put together what the caches know. All pods and services given are the job's own, by owner."""
    by_name = {pod.name: pod for pod in pods}
    gone = {pod.name: pod for pod in departed}
    stored = {task.type: task for task in job.status.tasks}
    told = {pod.annotations.get(EPOCH_ANNOTATION, "0") for pod in by_name.values()}
    epoch = max(job.status.epoch, *map(_number, told), 0)  # THE LARGER WINS, as with attempts
    types = tuple(
        _Looking(epoch, names, stored.get(type), gone).ranks(type, tuple(map(by_name.get, names)))
        for type, names in job.design.names.items()
    )
    known = sum(pod is not None for part in types for pod in part.pods) + sum(len(part.old) for part in types)
    strays: tuple[Pod, ...] = ()
    if known < len(by_name):
        named = frozenset(chain.from_iterable(job.design.names.values()))
        strays = tuple(pod for name, pod in by_name.items() if name not in named)
    return Observation(types, {service.name: service for service in services}, epoch, strays)


class _Looking:
    """At the ranks of one type."""

    def __init__(self, epoch: int, names: tuple[str, ...], stored: Task | None, gone: Mapping[str, Pod]) -> None:
        self._epoch, self._epoch_text = epoch, str(epoch)
        self._names, self._gone = names, gone
        total = len(names)
        self._succeeded = _within(stored.succeeded_ranks, total) if stored else frozenset()
        self._failed = _within(stored.failed_ranks, total) if stored else frozenset()
        self._ledger = Ledger.of(stored, total)

    def ranks(self, type: str, there: tuple[Pod | None, ...]) -> RanksOfType:
        """Sort them. Every rank of every job comes by here at every look: the loop is plain, and calls nothing for the usual pod."""
        ledger = self._with_what_pods_say(there)
        current = list(there)
        old: dict[int, Pod] = {}
        ends: dict[int, Pod] = {}
        lost: dict[int, Pod] = {}
        epoch, attempt = self._epoch_text, "0"
        for rank, pod in enumerate(there):
            if pod is None:
                continue
            if ledger:
                attempt = str(ledger.attempt(rank))
            notes = pod.annotations
            if (notes.get(EPOCH_ANNOTATION) != epoch or notes.get(ATTEMPT_ANNOTATION) != attempt) and not self._is_current(pod, attempt):
                old[rank], current[rank] = pod, None
            elif pod.phase in FINISHED and pod.deleted is None and rank not in self._succeeded and rank not in self._failed:
                ends[rank] = pod
        if self._gone:
            for rank, name in enumerate(self._names):
                if departed := self._gone.get(name):
                    self._departed(rank, departed, str(ledger.attempt(rank)), current, old, ends, lost)
        return RanksOfType(type, self._names, tuple(current) if old else there, old, self._succeeded, self._failed, ledger, ends, lost)

    def _departed(
        self,
        rank: int,
        pod: Pod,
        attempt: str,
        current: list[Pod | None],
        old: dict[int, Pod],
        ends: dict[int, Pod],
        lost: dict[int, Pod],
    ) -> None:
        """A pod is gone, or was asked to go after its end was seen: does it still matter?"""
        if rank in self._succeeded or rank in self._failed or not self._is_current(pod, attempt):
            return
        heir = current[rank]
        if pod.phase in FINISHED and pod.deleted is None:
            ends[rank] = pod
            if heir is not None and heir.uid != pod.uid:  # created by somebody who did not know of the end
                old[rank], current[rank] = heir, None
        elif heir is None:
            lost[rank] = pod

    def _is_current(self, pod: Pod, attempt: str) -> bool:
        return (number(pod, EPOCH_ANNOTATION), str(number(pod, ATTEMPT_ANNOTATION))) == (self._epoch, attempt)

    def _with_what_pods_say(self, there: Iterable[Pod | None]) -> Ledger:
        """The ledger; where pods know of more restarts than the status does, theirs."""
        more = [
            (rank, pod)
            for rank, pod in enumerate(there)
            if pod is not None
            and pod.annotations.get(ATTEMPT_ANNOTATION, "0") != "0"
            and number(pod, ATTEMPT_ANNOTATION) > self._ledger.attempt(rank)
            and number(pod, EPOCH_ANNOTATION) == self._epoch  # of an earlier one its rank may have been another
        ]
        if not more:
            return self._ledger
        entries = Entries(self._ledger)
        for rank, pod in more:
            entries.at_least(rank, charged=number(pod, CHARGED_ANNOTATION), attempt=number(pod, ATTEMPT_ANNOTATION))
        return entries.ledger()


def _within(text: str, total: int) -> frozenset[int]:
    """Ranks that the job has; it may have had more."""
    found = ranges.parse(text)
    return found if not found or max(found) < total else frozenset(rank for rank in found if rank < total)


def number(pod: Pod, annotation: str) -> int:
    """A number that we have written on a pod; of one that somebody has spoilt, 0."""
    return _number(pod.annotations.get(annotation, "0"))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0  # nobody counts further
