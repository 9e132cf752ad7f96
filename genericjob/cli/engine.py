"""The embedded engine: the API in memory, the same controller as on a cluster, and programs of this machine as pods."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from genericjob.api import crd
from genericjob.api.names import JobIdentity, replica_name
from genericjob.jobs.admission import POLICIES
from genericjob.jobs.assembly import Assembly
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.jobs.resource import JOBS, StoredJob
from genericjob.local.addresses import Addresses
from genericjob.local.cgroups import Cgroups
from genericjob.local.gpus import Gpus
from genericjob.local.kubelet import GRACE, Kubelet, Output
from genericjob.local.logfiles import LogFiles
from genericjob.local.memory import MemoryApi
from genericjob.local.reports import TERMINAL
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.objects import Object, object_of
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, RAW_PODS, SECRETS, Key, Resource

from .applied import remembering
from .documents import BadInputError, Document

PATIENCE = 10.0
"""Seconds for what takes milliseconds when all is well."""
WORKERS = 2


_RESOURCES: Mapping[str, Resource[Any]] = {JOBS.kind: JOBS, "ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class Warned(Object, frozen=True, gc=False):
    """An event, as far as people read it."""

    type: str
    reason: str
    message: str
    about: str


def _warned(event: dict[str, Any]) -> Warned:
    about = event.get("involvedObject") or {}
    return Warned(
        **msgspec.structs.asdict(object_of(event)),
        type=str(event.get("type")),
        reason=str(event.get("reason")),
        message=str(event.get("message")),
        about=str(about.get("name")),
    )


def _any(resource: Resource[Any]) -> dict[str, Any]:
    """The definition of a kind that nobody here looks into."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _applied(document: Document) -> Mapping[str, Any]:
    """An object as if somebody had applied it, so that somebody can apply it again; one whose name is made up cannot be."""
    meta = document.body["metadata"]
    return remembering({**document.body, "metadata": {**meta, "namespace": document.namespace}}) if meta.get("name") else document.body


WARNINGS: Resource[Warned] = Resource("", "v1", "events", "Event", dict[str, Any], _warned)


class Engine:
    """A cluster of one machine. Objects first, then `start`."""

    def __init__(
        self,
        *,
        output: Output,
        primitives: Primitives,
        notice: Callable[[Key, str], None] = lambda pod, text: None,
        logs: LogFiles | None = None,
        gpus: Gpus | None = None,
        cgroups: Cgroups | None = None,
    ) -> None:
        self.api = MemoryApi(policies=POLICIES)
        self.api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
        self.api.create(CUSTOM_RESOURCE_DEFINITIONS, _any(POD_GROUPS))  # gangs are easy here: everybody fits
        self.addresses = Addresses()
        metrics = Metrics()
        self.controller = Assembly(self.api, workers=WORKERS, writers=WORKERS, host=self._host, primitives=primitives, metrics=metrics)
        self.warnings = Informer(self.api, WARNINGS, primitives=primitives, metrics=metrics)
        self._kubelet = Kubelet(
            self.api,
            bind=self.api.bind,
            address=self.addresses.of,
            output=output,
            notice=notice,
            logs=logs,
            gpus=gpus,
            cgroups=cgroups,
            primitives=primitives,
            metrics=metrics,
        )

    def _host(self, job: JobIdentity, type: str, rank: int) -> str:
        return self.addresses.of(Key(job.namespace, replica_name(job.name, type, rank)))

    def apply(self, documents: Iterable[Document]) -> list[StoredJob]:
        """Store objects; returns the jobs."""
        jobs = []
        for document in documents:
            try:
                self._make_namespace(document.namespace)
                created = self.api.create(_RESOURCES[document.kind], _applied(document), document.namespace, field_validation="Strict")
            except ApiError as error:
                raise BadInputError(f"{document.where}: {error.message}") from None
            if isinstance(created.object, StoredJob):
                jobs.append(created.object)
        return jobs

    def _make_namespace(self, name: str) -> None:
        try:
            self.api.create(NAMESPACES, {"metadata": {"name": name}})
        except ApiError as error:
            if not error.already_exists:
                raise

    def start(self) -> None:
        """Let it run."""
        for informer in (*self.controller.informers, self.warnings):
            informer.start()
        for informer in (*self.controller.informers, self.warnings):
            informer.wait_synced(PATIENCE)
        self.controller.recorder.start()
        self.controller.controller.start()
        self._kubelet.start()

    def delete_all(self) -> None:
        """Have all jobs end gracefully, with everything that they made; and pods that somebody made without a job."""
        for job in self.api.list(JOBS).items:
            self._delete(JOBS, Key(job.namespace, job.name), job.uid)
        for pod in self.api.list(RAW_PODS).items:
            meta = pod["metadata"]
            if not meta.get("ownerReferences"):
                self._delete(RAW_PODS, Key(meta["namespace"], meta["name"]), meta["uid"])

    def _delete(self, resource: Resource[Any], key: Key, uid: str) -> None:
        try:
            self.api.delete(resource, key, uid=uid, propagation="Background")
        except ApiError as error:
            if not error.not_found:
                raise

    def grace(self) -> int | None:
        """Seconds that programs have to end when they are asked to: of those with the most; None if there are none."""
        pods = self.api.list(RAW_PODS).items
        living = [pod["spec"] for pod in pods if (pod.get("status") or {}).get("phase") not in TERMINAL]
        return max((int(spec.get("terminationGracePeriodSeconds", GRACE)) for spec in living), default=None)

    def stop(self) -> bool:
        """End everything, now; whether no program is left."""
        gone = self._kubelet.stop()
        parts: tuple[Callable[[], object], ...] = (
            lambda: self.controller.controller.stop(PATIENCE),
            lambda: self.controller.writer.stop(PATIENCE),
            lambda: self.controller.recorder.stop(PATIENCE),
            *(informer.stop for informer in (*self.controller.informers, self.warnings)),
            self.addresses.close,
        )
        for stop in parts:
            stop()
        return gone
