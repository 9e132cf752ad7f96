"""The kubelet's role on this machine: pods become groups of programs, and what becomes of those is reported as the pods' status.

It is a controller like any other: an informer of pods, a queue of names, and a reconcile that compares what the server wants with what
runs here. At most one group runs under a name: a pod that takes the place of another waits until the last program of that one has ended.

Nobody else schedules in an API in memory, so given a way to `bind` this takes every pod that waits for a node.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal

import msgspec

from genericjob.reconcile.api import Api
from genericjob.reconcile.controller import DONE, Controller, Result
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.objects import Object, object_of
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, SECRETS, Key, Resource
from genericjob.reconcile.store import Change

from .cgroups import Cgroups
from .gpus import Gpus
from .groups import Group
from .logfiles import LogFiles
from .processes import Processes
from .reports import TERMINAL, status
from .scratch import Scratch
from .sources import Surroundings

log = logging.getLogger(__name__)

NODE = "this-machine"
GRACE = 30
WORKERS = 2
PATIENCE = 10.0
"""Seconds in which a killed program has to be gone."""

Output = Callable[[Key, str, bytes], None]
"""Hears what programs print: pod, container, output as it comes, and b"" at its end."""
Notice = Callable[[Key, str], None]
"""Hears, of a pod, what is different on this machine."""


class Assignment(Object, frozen=True, gc=False):
    """A pod with everything that it takes to run it."""

    whole: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        """What to run."""
        return self.whole.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """What is on record."""
        return self.whole.get("status") or {}

    @property
    def grace(self) -> float:
        """Seconds from SIGTERM to SIGKILL: as the deletion has it, before one as the manifest does."""
        given = self.whole["metadata"].get("deletionGracePeriodSeconds")
        own = self.spec.get("terminationGracePeriodSeconds", GRACE)
        return float(next((value for value in (given, own) if isinstance(value, int)), GRACE))


def _assignment(pod: dict[str, Any]) -> Assignment:
    return Assignment(**msgspec.structs.asdict(object_of(pod)), whole=pod)


ASSIGNMENTS: Resource[Assignment] = Resource("", "v1", "pods", "Pod", dict[str, Any], _assignment)


class _Run:
    """A pod that was begun here."""

    def __init__(self, pod: Assignment, group: Group) -> None:
        self.uid, self.group, self.grace = pod.uid, group, pod.grace
        self.reported: Mapping[str, Any] | None = None


class Kubelet:
    """Runs pods as programs of this machine."""

    def __init__(
        self,
        api: Api,
        *,
        address: Callable[[Key], str],
        output: Output,
        primitives: Primitives,
        notice: Notice | None = None,
        logs: LogFiles | None = None,
        gpus: Gpus | None = None,
        cgroups: Cgroups | None = None,
        bind: Callable[[Key, str], None] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`logs` get what programs print before `output` hears it; `notice` hears every sentence once."""
        metrics = metrics or Metrics()
        self._api, self._address, self._output, self._bind, self._primitives = api, address, output, bind, primitives
        self._notice, self._logs = notice, logs
        self._gpus, self._cgroups = gpus or Gpus(lambda: ()), cgroups
        self._noticed: set[str] = set()
        self._scratch = Scratch()
        self._machine = dict(os.environ)  # a copy: to read the original is slow
        self._runs: dict[Key, _Run] = {}
        """Each entry belongs to the worker that has its key."""
        self._processes = Processes(primitives=primitives)
        self._pods = Informer(api, ASSIGNMENTS, indexes={}, primitives=primitives, metrics=metrics)
        self._pods.on_change(self._changed)
        self._queue: Queue[Key] = Queue(primitives=primitives, metrics=metrics.queue("kubelet"))
        self._controller = Controller(
            "kubelet",
            self._reconcile,
            queue=self._queue,
            workers=WORKERS,
            primitives=primitives,
            metrics=metrics.controller("kubelet", WORKERS),
            processor_time=lambda: 0.0,  # no rest: every change of a pod is news, and there are few
        )

    def start(self) -> None:
        """Begin to take pods."""
        self._pods.start()
        self._controller.start()

    def stop(self) -> bool:
        """Kill all that runs; whether it is gone."""
        gone = self._processes.close(PATIENCE)
        self._pods.stop()
        self._controller.stop(PATIENCE)
        self._scratch.close()
        return gone

    # -------------------------------------------------------------------------------------------- reconcile

    def _changed(self, change: Change[Assignment]) -> None:
        pod = change.new or change.old
        if pod is not None:
            self._queue.add(Key(pod.namespace, pod.name))

    def _reconcile(self, key: Key) -> Result:
        pod, run = self._pods.get(key), self._runs.get(key)
        if run is not None and (pod is None or pod.uid != run.uid):
            return self._end_forgotten(key, run)
        if pod is None:
            return DONE
        if run is None:
            run = self._take(key, pod)
        return self._advance(key, pod, run) if run else DONE

    def _end_forgotten(self, key: Key, run: _Run) -> Result:
        """The server has removed a pod, perhaps by force: end what runs of it before anything else under its name."""
        wait = run.group.step(stop=True, grace=run.grace)
        if not run.group.over:
            return DONE if wait is None else Result.again_in(wait)
        del self._runs[key]
        self._queue.add(key)
        return DONE

    def _take(self, key: Key, pod: Assignment) -> _Run | None:
        """Begin with a pod, if it is for this machine and not over already."""
        node = pod.spec.get("nodeName")
        if not node and self._bind and not pod.deleted and not pod.spec.get("schedulingGates"):
            with _unless_gone():
                self._bind(key, NODE)  # the watch brings it back, with its node
        if node != NODE:
            return None
        if pod.deleted:
            self._remove(key, pod.uid)
            return None
        if pod.status.get("phase") in TERMINAL:
            return None
        group = Group(
            pod.spec,
            Surroundings(pod.whole["metadata"], self._address(key), NODE, self._machine, partial(self._read, key.namespace), pod.spec),
            processes=self._processes,
            primitives=self._primitives,
            scratch=self._scratch,
            gpus=self._gpus,
            cgroups=self._cgroups,
            told=partial(self._told, key, pod.uid),
            notice=partial(self._note, key),
            changed=partial(self._queue.add, key),
        )
        if self._logs:
            self._logs.begin(key, pod.uid)
        self._runs[key] = run = _Run(pod, group)
        return run

    def _advance(self, key: Key, pod: Assignment, run: _Run) -> Result:
        run.grace = pod.grace
        wait = run.group.step(stop=pod.deleted is not None, grace=run.grace)
        self._report(key, pod, run)
        if run.group.over and pod.deleted:
            self._remove(key, pod.uid)
        return DONE if wait is None else Result.again_in(wait)

    # -------------------------------------------------------------------------------------------- what is heard of programs

    def _told(self, key: Key, uid: str, container: str, data: bytes) -> None:
        if self._logs and data:
            try:
                self._logs.write(key, uid, container, data)
            except OSError as error:  # what is shown must not suffer from a disk that is full
                self._note(key, f"what programs print cannot be written to {self._logs.directory}: {error.strerror}")
        self._output(key, container, data)

    def _note(self, key: Key, text: str) -> None:
        if self._notice and text not in self._noticed:
            self._noticed.add(text)
            self._notice(key, text)

    # -------------------------------------------------------------------------------------------- the server

    def _report(self, key: Key, pod: Assignment, run: _Run) -> None:
        known = pod.status.get("conditions") or ()
        # WHAT WAS REPORTED LAST IS NEWER THAN THE CACHE, except for what others say.
        own = (run.reported or {}).get("conditions") or known
        now = status(run.group.seen(), own=own, others=known, now=self._primitives.now())
        if now != run.reported:
            with _unless_gone():
                # THE UID IS THE PRECONDITION: another pod may have the name by now.
                self._api.patch(RAW_PODS, key, {"metadata": {"uid": run.uid}, "status": now}, subresource="status")
                run.reported = now

    def _remove(self, key: Key, uid: str) -> None:
        with _unless_gone():
            self._api.delete(RAW_PODS, key, uid=uid, grace=0)

    def _read(self, namespace: str, kind: Literal["ConfigMap", "Secret"], name: str) -> Mapping[str, Any] | None:
        try:
            return self._api.get(CONFIG_MAPS if kind == "ConfigMap" else SECRETS, Key(namespace, name))
        except (ApiError, ValueError) as error:  # a reference without a name finds nothing
            if isinstance(error, ApiError) and not error.not_found:
                raise
            return None


@contextmanager
def _unless_gone() -> Iterator[None]:
    """What is asked of a pod that is gone, or whose name another has by now, is nobody's business any more."""
    try:
        yield
    except ApiError as error:
        if not (error.not_found or error.conflict or any(cause.field == "metadata.uid" for cause in error.causes)):
            raise
