"""Bodies of pods and services, compiled once per job generation and type, and what an object found under one of our names is.

A job that has gone on after a pause has other pods than before (`modes.py`), in the same generation.
"""

from collections.abc import Callable
from threading import Lock
from typing import Literal

from cachetools import LRUCache

from genericjob.api.names import (
    ATTEMPT_ANNOTATION,
    COMPONENT,
    COMPONENT_LABEL,
    EPOCH_ANNOTATION,
    JOB_LABEL,
    JobIdentity,
    Rank,
)
from genericjob.reconcile.objects import Object, Pod, Service
from genericjob.reconcile.resources import SERVICES, Resource
from genericjob.reconcile.writer import Create

from .job import Job
from .pods import PodBodies, compile_pods
from .services import ServiceBodies, compile_services

Host = Callable[[JobIdentity, str, int], str]
"""How a rank is reached by the others: its bare name on a cluster, an address without one."""

Found = Literal["ours", "wait", "foreign"]
Compiled = dict[str, tuple[PodBodies, ServiceBodies | None]]
"""The bodies of a job, by type."""


class Bodies:
    """Makes the creates of jobs."""

    def __init__(self, *, pods: Resource[Pod], host: Host, new_id: Callable[[], str], remembered: int = 1024) -> None:
        self._pods = pods
        self._host = host
        self._new_id = new_id
        self._lock = Lock()
        self._compiled: LRUCache[tuple[str, bool], tuple[int, Compiled]] = LRUCache(remembered)

    def of(self, job: Job, *, resumed: bool) -> Compiled:
        """All compiled bodies of a job; those of its latest generation are remembered."""
        key = job.identity.uid, resumed
        with self._lock:
            generation, found = self._compiled.get(key, (0, None))
        if found is None or generation != job.generation:
            found = {part.type: self._compile(job, part.type, resumed=resumed) for part in job.spec.replica_specs}
            with self._lock:
                self._compiled[key] = job.generation, found
        return found

    def forget(self, uid: str) -> None:
        """A job is gone."""
        with self._lock:
            for resumed in (False, True):
                self._compiled.pop((uid, resumed), None)

    def _compile(self, job: Job, type: str, *, resumed: bool) -> tuple[PodBodies, ServiceBodies | None]:
        def host(type: str, rank: int) -> str:
            return self._host(job.identity, type, rank)

        markers = self._new_id(), self._new_id(), self._new_id(), self._new_id()
        pods = compile_pods(job=job.identity, spec=job.spec, type=type, resumed=resumed, host=host, markers=markers)
        service = job.spec.service
        services = compile_services(job=job.identity, service=service, type=type, marker=self._new_id()) if service else None
        return pods, services

    def pod(self, job: Job, rank: Rank, *, epoch: int, attempt: int, charged: int, resumed: bool) -> Create[Pod]:
        """The create of a rank's pod, in this run of the job and this try of the rank."""
        compiled, _ = self.of(job, resumed=resumed)[rank.type]
        body = compiled.body(rank.number, epoch=epoch, attempt=attempt, charged=charged)
        name = job.design.names[rank.type][rank.number]
        return Create(self._pods, job.identity.namespace, name, body, job.identity.uid, accepts_pod(job.identity, epoch, attempt))

    def service(self, job: Job, rank: Rank) -> Create[Service]:
        """The create of a rank's service."""
        _, compiled = self.of(job, resumed=job.status.resumes > 0)[rank.type]  # the same before and after; so whichever is at hand
        assert compiled is not None  # noqa: S101 - ranks of jobs without a service never get here
        name = job.design.names[rank.type][rank.number]
        return Create(SERVICES, job.identity.namespace, name, compiled.body(rank.number), job.identity.uid, accepts(job.identity))


def accepts(job: JobIdentity) -> Callable[[Object], Found]:
    """Judges an object that is there already: only one with our owner, and the labels that let us see it, is ours."""

    def judge(found: Object) -> Found:
        ours = found.owner_uid == job.uid and found.labels.get(COMPONENT_LABEL) == COMPONENT
        # A PREDECESSOR of the same name was deleted and its pods are on their way out: no conflict, only a wait.
        heir = found.owner_uid != "" and found.labels.get(JOB_LABEL) == job.name and found.labels.get(COMPONENT_LABEL) == COMPONENT
        if ours and found.deleted is None:
            return "ours"
        return "wait" if ours or heir else "foreign"

    return judge


def accepts_pod(job: JobIdentity, epoch: int, attempt: int) -> Callable[[Pod], Found]:
    """The same for a pod, which must also belong to the present run of the job and be the present try of its rank."""
    judge = accepts(job)
    present = str(epoch), str(attempt)

    def judge_pod(found: Pod) -> Found:
        verdict = judge(found)
        if verdict == "ours" and (found.annotations.get(EPOCH_ANNOTATION), found.annotations.get(ATTEMPT_ANNOTATION)) != present:
            return "wait"
        return verdict

    return judge_pod
