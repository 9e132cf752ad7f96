"""The parts of the GenericJob controller, put together on any API: a server's, or the one in memory."""

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from genericjob.api import names
from genericjob.api.names import Reason
from genericjob.reconcile.api import Api
from genericjob.reconcile.coalesce import Coalescer
from genericjob.reconcile.controller import Controller
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.objects import Object, Pod, Service, Unreadable
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.recorder import Recorder, Reference
from genericjob.reconcile.resources import Key, Resource
from genericjob.reconcile.store import Change
from genericjob.reconcile.writer import Writer

from .bodies import Bodies, Host, bare_name
from .controller import OWNER, JobController, owner_key
from .departures import Departures
from .resource import JOBS, PODS, SERVICES, StoredJob
from .sweeping import Sweeper

T = TypeVar("T", bound=Object)

NAME = "genericjob"
"""Of the controller, in metrics and logs."""

RESERVED = 0.25
"""The part of all workers that is kept free: from the jobs of one namespace, from jobs whose writes were interrupted, and from old ones."""

MOST_UNREPORTED = 1000
"""Objects that cannot be decoded of which a standby remembers to emit an event when it leads."""
LONGEST_BACKOFF = 60.0
"""Seconds: when a server comes back after an hour, no job waits for another one."""


class Assembly:
    """Everything that makes GenericJobs run. `reads` may differ from `writes`: a leader's writes are fenced."""

    def __init__(
        self,
        api: Api,
        *,
        writes: Api | None = None,
        namespaces: Sequence[str] = ("",),
        workers: int = 8,
        writers: int = 8,
        host: Host = bare_name,
        primitives: Primitives,
        metrics: Metrics,
        processor_time: Callable[[], float] = time.thread_time,
    ) -> None:
        fenced = writes or api
        self.jobs = Informer(api, JOBS, namespaces=namespaces, primitives=primitives, metrics=metrics)

        def owned(resource: Resource[T]) -> Informer[T]:
            return Informer(
                api,
                resource,
                namespaces=namespaces,
                labels=names.SELECTOR,
                indexes={OWNER: _owner},
                primitives=primitives,
                metrics=metrics,
            )

        self.pods, self.services = owned(PODS), owned(SERVICES)
        own_writes = OwnWrites({JOBS: self.jobs.reached, PODS: self.pods.reached, SERVICES: self.services.reached})
        self.queue: Queue[Key] = Queue(
            primitives=primitives,
            metrics=metrics.queue(NAME),
            limit=LONGEST_BACKOFF,
            group=lambda key: key.namespace,
            share=max(1, workers - math.ceil(RESERVED * workers)),
            places=workers,
        )
        self.writer = Writer(fenced, threads=writers, primitives=primitives, own_writes=own_writes)
        self.recorder = Recorder(fenced, component=names.CONTROLLER, primitives=primitives, metrics=metrics)
        measures = metrics.controller(NAME, workers)
        self._working = False
        self._unreported: deque[tuple[Resource[Any], Unreadable]] = deque(maxlen=MOST_UNREPORTED)
        """Pods and services that could not be decoded before the work began."""
        self.departures = Departures()
        self._sweeper = Sweeper(self.departures, jobs=self.jobs, pods=self.pods)
        self._jobs = JobController(
            fenced,
            jobs=self.jobs,
            pods=self.pods,
            services=self.services,
            pod_resource=PODS,
            own_writes=own_writes,
            writer=self.writer,
            recorder=self.recorder,
            bodies=Bodies(pods=PODS, host=host, new_id=primitives.new_id),
            departures=self.departures,
            sweep=self._sweeper.job,
            coalescer=Coalescer(primitives=primitives),
            queue=self.queue,
            stale=measures.stale,
            primitives=primitives,
        )
        self.controller = Controller(
            NAME,
            self._jobs.reconcile,
            queue=self.queue,
            workers=workers,
            primitives=primitives,
            metrics=measures,
            processor_time=processor_time,
            begin=self._begin,
        )
        self.jobs.on_change(self._job_changed)
        self.pods.on_change(self._pod_changed)
        self.services.on_change(self._owned_changed)
        for resource, informer in ((PODS, self.pods), (SERVICES, self.services)):
            informer.on_unreadable(partial(self._report_unreadable, resource))

    @property
    def informers(self) -> tuple[Informer[StoredJob], Informer[Pod], Informer[Service]]:
        """What is read from the server."""
        return self.jobs, self.pods, self.services

    @property
    def synced(self) -> bool:
        """Whether all caches have what the server had when they began."""
        return all(informer.synced for informer in self.informers)

    def start(self, timeout: float = 60.0) -> bool:
        """Begin, as the only controller there is: for engines and tests. Whether the caches were filled within so long."""
        for informer in self.informers:
            informer.start()
        if not all(informer.wait_synced(timeout) for informer in self.informers):
            return False
        self.recorder.start()
        self.controller.start()
        return True

    def stop(self, timeout: float = 10.0) -> None:
        """End, in the order that loses nothing."""
        self.controller.stop(timeout)
        self.writer.stop()
        self.recorder.stop(timeout)
        for informer in self.informers:
            informer.stop(timeout)

    # -------------------------------------------------------------------------------------------- events become keys

    def _begin(self) -> None:
        """Look at every job, those that come now first. A standby puts nothing aside: it would be there for days, and in front."""
        self._working = True
        for job in self.jobs.values():
            self.queue.add(Key(job.namespace, job.name), low=True)
        for resource, lost in list(self._unreported):
            self._report_unreadable(resource, lost)
        self._unreported.clear()

    def _enqueue(self, namespace: str, name: str, *, low: bool) -> None:
        if self._working:
            self.queue.add(Key(namespace, name), low=low)

    def _job_changed(self, change: Change[StoredJob]) -> None:
        if change.new is None and change.old is not None:
            self._jobs.forget(change.old.uid)
        elif change.new is not None and change.new.deleted is not None:
            self.departures.forget(change.new.uid)
        elif change.new is not None and not self._working and (change.old is None or change.old.status != change.new.status):
            self._sweeper.job(change.new)
        job = change.new or change.old
        if job is not None:
            self._enqueue(job.namespace, job.name, low=change.initial)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.old is not None and self._may_matter(change.old) and not _hidden(change):
            self.departures.note(change.old, change.new)
            if not self._working and (change.new is None or change.new.uid != change.old.uid):
                self._sweeper.pod(change.old)
        self._owned_changed(change)

    def _report_unreadable(self, resource: Resource[Any], lost: Unreadable) -> None:
        """Emit an event about a pod or service that cannot be decoded. (A job is reported by its reconcile.)"""
        if not self._working:
            self._unreported.append((resource, lost))
        elif lost.name and lost.uid:
            about = Reference(resource.api_version, resource.kind, lost.namespace, lost.name, lost.uid)
            self.recorder.event(about, "Warning", Reason.UNREADABLE, f"The controller cannot read it: {lost.problem}")

    def _may_matter(self, pod: Pod) -> bool:
        """Whether its job is there, or may be: of the pods that go with their job nobody wants to know how they ended."""
        job = self.jobs.get(Key(pod.namespace, pod.labels.get(names.JOB_LABEL, "")))
        return not self.jobs.synced or (job is not None and job.uid == pod.owner_uid and job.deleted is None)

    def _owned_changed(self, change: Change[Pod] | Change[Service]) -> None:
        """THE LABEL, NOT THE OWNER, names the job: one that waits for its predecessor's pods to go must hear of them, too."""
        for found in (change.new, change.old):
            name = found.labels.get(names.JOB_LABEL) if found is not None else None
            if found is not None and name:
                self._enqueue(found.namespace, name, low=change.initial)
                if change.old is None or (change.new is not None and change.old.labels.get(names.JOB_LABEL) == name):
                    return


def _hidden(change: Change[Pod]) -> bool:
    """Whether a pod is not gone but out of sight: somebody took its label away. Of one that goes the server first says that it shall."""
    return change.new is None and not change.tombstone and change.old is not None and change.old.deleted is None


def _owner(found: Object) -> str:
    return owner_key(found.namespace, found.owner_uid) if found.owner_uid else ""
