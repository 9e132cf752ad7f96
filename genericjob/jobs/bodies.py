"""Bodies of pods and services, compiled once per job generation and type, and what an object found under one of our names is.

A job that has gone on after a pause has other pods than before (`modes.py`), in the same generation.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from sys import getsizeof
from typing import Literal

from genericjob.api.names import (
    ATTEMPT_ANNOTATION,
    COMPONENT,
    COMPONENT_LABEL,
    EPOCH_ANNOTATION,
    JOB_LABEL,
    JobIdentity,
    Rank,
    replica_name,
)
from genericjob.reconcile.objects import Object, Pod, Service
from genericjob.reconcile.resources import Resource
from genericjob.reconcile.weighed import Weighed, one_at_a_time
from genericjob.reconcile.writer import Create

from .job import Job
from .pods import PodBodies, compile_pods
from .resource import SERVICES
from .services import ServiceBodies, compile_services

Host = Callable[[JobIdentity, str, int], str]
"""How a rank is reached by the others: its bare name on a cluster, an address without one."""

Found = Literal["ours", "wait", "foreign"]

MOST = 16 * 2**20
"""Bytes of all bodies that are kept."""
PER_TYPE = 4_096
"""Bytes of the bodies of a type, beside their stencils."""


def bare_name(job: JobIdentity, type: str, rank: int) -> str:
    """How a rank is reached on a cluster: by the name of its service, within the namespace."""
    return replica_name(job.name, type, rank)


@dataclass(frozen=True, slots=True)
class JobBodies:
    """The bodies of one job, and the creates that are made of them."""

    identity: JobIdentity
    pods: Resource[Pod]
    types: Mapping[str, tuple[PodBodies, ServiceBodies | None]]

    def pod(self, rank: Rank, *, epoch: int, attempt: int, charged: int) -> Create[Pod]:
        """The create of a rank's pod, in this run of the job and this try of the rank."""
        compiled, _ = self.types[rank.type]
        body = partial(compiled.body, rank.number, epoch=epoch, attempt=attempt, charged=charged)
        return Create(self.pods, *self._place(rank), body, self.identity.uid, accepts_pod(self.identity, epoch, attempt))

    def service(self, rank: Rank) -> Create[Service]:
        """The create of a rank's service."""
        _, compiled = self.types[rank.type]
        assert compiled is not None  # noqa: S101 - ranks of jobs without a service never get here
        return Create(SERVICES, *self._place(rank), partial(compiled.body, rank.number), self.identity.uid, accepts(self.identity))

    def _place(self, rank: Rank) -> tuple[str, str]:
        return self.identity.namespace, replica_name(self.identity.name, rank.type, rank.number)

    @property
    def weight(self) -> int:
        """The bytes that they take in memory, at most."""
        stencils = [part.stencil for parts in self.types.values() for part in parts if part]
        words = [text for pods, _ in self.types.values() for text in (*pods.unresolved, *pods.remarks)]
        return PER_TYPE * len(self.types) + sum(one.weight for one in stencils) + sum(map(getsizeof, words))


class Bodies:
    """Compiles the bodies of jobs, each generation once, and keeps those that were used last."""

    def __init__(self, *, pods: Resource[Pod], host: Host, new_id: Callable[[], str], most: int = MOST) -> None:
        """`most` is the weight of all that is kept, in bytes."""
        self._pods = pods
        self._host = host
        self._new_id = new_id
        self._compiled: Weighed[tuple[str, bool], tuple[int, JobBodies]] = Weighed(most)

    def of(self, job: Job, *, resumed: bool) -> JobBodies:
        """All compiled bodies of a job. ONCE PER RECONCILE, not per rank: those of a very large job are not kept."""
        key = job.identity.uid, resumed
        generation, found = self._compiled.get(key) or (0, None)
        if found is None or generation != job.generation:
            with one_at_a_time(job.design.decoded_weight):
                types = {part.type: self._compile(job, part.type, resumed=resumed) for part in job.spec.replica_specs}
            found = JobBodies(job.identity, self._pods, types)
            self._compiled.put(key, (job.generation, found), found.weight)
        return found

    def forget(self, uid: str) -> None:
        """A job is gone."""
        for resumed in (False, True):
            self._compiled.forget((uid, resumed))

    def _compile(self, job: Job, type: str, *, resumed: bool) -> tuple[PodBodies, ServiceBodies | None]:
        def host(type: str, rank: int) -> str:
            return self._host(job.identity, type, rank)

        markers = self._new_id(), self._new_id(), self._new_id(), self._new_id()
        pods = compile_pods(job=job.identity, spec=job.spec, type=type, resumed=resumed, host=host, markers=markers)
        service = job.spec.service
        services = compile_services(job=job.identity, service=service, type=type, marker=self._new_id()) if service else None
        return pods, services


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
