"""The pods of one node, in step with the server.

A watch thread keeps the table of instances; writers of the fleet send their statuses, and their final deletes. Local steps (a process that
ends when its time is up) happen also while the line to the server is cut; the server then learns of them when it is mended.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from genericjob.reconcile.api import Watch
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import RAW_PODS, Key
from harness.clusters import PATIENCE

from .instance import Instance, Life, Shutdown
from .status import OWNED, TERMINAL, report
from .work import Line, WorkQueue

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
RETRY = 0.2
"""Seconds between two tries while the server is away."""

DEFAULT_SHUTDOWN = Shutdown()

Which = Key | str
"""A pod by name (its newest instance on the node), or one instance by UID."""


class _Meta(msgspec.Struct):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Stored(msgspec.Struct):
    metadata: _Meta


_stored = msgspec.json.Decoder(_Stored)


@dataclass(frozen=True)
class Habits:
    """How a node treats its pods."""

    automatic: bool = False
    """New pods run as soon as they are seen."""
    brisk: bool = False
    """Statuses that a kubelet writes one after the other are folded into the last of them: fewer writes, for benchmarks."""
    shutdown: Shutdown = DEFAULT_SHUTDOWN
    """How pods take their deletion, unless told otherwise one by one."""


@dataclass(frozen=True)
class Surroundings:
    """What the nodes of a fleet share."""

    api: HttpApi
    queue: WorkQueue[tuple["Pods", Instance]]
    new_ip: Callable[[], str]
    born: Callable[[Life], None]
    failed: Callable[[Exception], None]
    beat: Callable[[], None]
    """Renew leases and put node statuses right, now."""
    unregister: Callable[[str], None]
    """Delete a Node object."""


class Pods:
    """The table of a node's instances."""

    def __init__(self, node: str, ip: str, habits: Habits, shared: Surroundings) -> None:
        self.line = Line()
        self._node = node
        self._ip = ip
        self._habits = habits
        self._shared = shared
        self._api = shared.api
        self._lock = threading.Lock()
        self._instances: dict[str, Instance] = {}
        self._names: dict[Key, str] = {}
        self._watch: Watch[dict[str, Any]] | None = None
        self._version = ""
        self._closing = False
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"kubelet {node}", daemon=True)

    def start(self) -> None:
        """Begin to follow the server."""
        self._thread.start()

    def close(self) -> None:
        """Stop following; the thread has ended on return."""
        with self._lock:
            self._closing = True
        self.wake()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE)
            if self._thread.is_alive():
                self._shared.failed(RuntimeError(f"the watch of node {self._node} does not end"))

    def wake(self) -> None:
        """Have the thread look at the line anew."""
        with self._lock:
            self._awake.set()
            if self._watch is not None:
                self._watch.close()

    def find(self, which: Which) -> Instance:
        """An instance that the node has taken over; while it has not, that is an AssertionError (see `eventually`)."""
        with self._lock, suppress(KeyError):
            return self._instances[which if isinstance(which, str) else self._names[which]]
        raise AssertionError(f"node {self._node} has no pod {which}")

    def has(self, which: Which) -> bool:
        """Whether the node has taken a pod over, and not forgotten it."""
        with self._lock:
            return which in self._names or which in self._instances

    def all(self) -> list[Instance]:
        """Every instance."""
        with self._lock:
            return list(self._instances.values())

    def report(self, instance: Instance) -> int:
        """Have the server told about an instance; `Instance.written` reaches the number returned when it knows."""
        with instance.changed:
            instance.wanted += 1
            target = instance.wanted
        self.look_at(instance)
        return target

    def look_at(self, instance: Instance, *, after: float = 0.0) -> None:
        """Have a writer look at an instance."""
        self._shared.queue.add((self, instance), after=after)

    # -------------------------------------------------------------------------------------------- following the server

    def _follow(self) -> None:
        while not self._closing:
            self._awake.clear()
            try:
                if self.line.up:
                    self._version = self._version or self._list()
                    self._watch_on()
                else:
                    self._version = ""  # whatever happens meanwhile, a list will tell
                    self._awake.wait(1.0)
            except ApiError as error:
                if error.refused:
                    self._shared.failed(error)
                    return
                if error.gone:
                    self._version = ""
                self._awake.wait(RETRY)
            except Exception as error:
                self._shared.failed(error)
                return

    def _list(self) -> str:
        page = self._api.list(RAW_PODS, fields=f"spec.nodeName={self._node}")
        present = {pod["metadata"]["uid"] for pod in page.items}
        for pod in page.items:
            self._observe(pod)
        for instance in self.all():
            if instance.spec.uid not in present:
                self._forget(instance)
        return page.resource_version

    def _watch_on(self) -> None:
        with self._api.watch(RAW_PODS, fields=f"spec.nodeName={self._node}", resource_version=self._version) as watch:
            with self._lock:
                self._watch = watch
            try:
                if self._closing or not self.line.up:  # nobody could close it before it was known
                    return
                for event in watch:
                    if self._closing or not self.line.up:
                        return
                    if event.object is not None and event.type == "DELETED":
                        self._dismiss(event.object)
                    elif event.object is not None:
                        self._observe(event.object)
            finally:
                with self._lock:
                    self._watch = None
                self._version = watch.resource_version

    def _observe(self, pod: dict[str, Any]) -> None:
        meta, status = pod["metadata"], pod.get("status", {})
        instance = self._instances.get(meta["uid"])
        fresh = instance is None
        if instance is None:
            if status.get("phase") in TERMINAL:
                return
            instance = Instance(pod, ip=self._shared.new_ip(), node=self._node, born=self._shared.born)
            with self._lock:
                self._instances[meta["uid"]] = instance
                self._names[instance.spec.key] = meta["uid"]
        with instance.changed:
            version = int(meta["resourceVersion"])
            news = fresh or instance.generation != meta.get("generation", 1) or _differs(instance, status, version)
            instance.generation = meta.get("generation", 1)
            instance.phase_on_server = status.get("phase", "")
            if "deletionTimestamp" in meta and not instance.stopping:
                instance.stop(self._habits.shutdown)
                news = True
        if news:
            self.report(instance)

    def _dismiss(self, pod: Mapping[str, Any]) -> None:
        if instance := self._instances.get(pod["metadata"]["uid"]):
            self._forget(instance)

    def _forget(self, instance: Instance) -> None:
        """The server has forgotten a pod: end what still runs of it, then forget it here."""
        with instance.changed:
            instance.gone = True
            instance.stop(self._habits.shutdown)
        self.look_at(instance)

    # -------------------------------------------------------------------------------------------- telling the server

    def sync(self, instance: Instance) -> None:
        """Bring the server up to date with one instance: the work of a writer."""
        try:
            self._sync(instance)
        except ApiError as error:
            if error.not_found or any(cause.field == "metadata.uid" for cause in error.causes):
                # Gone, or another pod has the name by now. The watch will say so, too.
                self._settle(instance, instance.wanted)
            elif error.refused:
                self._settle(instance, instance.wanted, error)
                self._shared.failed(error)
            else:
                self.look_at(instance, after=RETRY)

    def _sync(self, instance: Instance) -> None:
        while True:
            with instance.changed:
                target = instance.wanted
                if self._habits.brisk or instance.gone or not self.line.up:
                    while instance.step(automatic=self._habits.automatic):
                        pass
                if instance.gone or not self.line.up:
                    break
                status = report(instance.spec, instance.facts, generation=instance.generation, host_ip=self._ip)
            self._send(instance, status)
            with instance.changed:
                if not instance.step(automatic=self._habits.automatic):
                    break
        if instance.over and instance.stopping and not instance.gone:
            self._remove(instance)
        if instance.gone or self.line.up:
            self._settle(instance, target)
        self._look_again(instance)

    def _send(self, instance: Instance, status: Mapping[str, Any]) -> None:
        if instance.phase_on_server in TERMINAL and status["phase"] not in TERMINAL:
            return  # somebody else ended the pod on paper; no kubelet takes that back
        # THE UID IS THE PRECONDITION: another pod may have the name by now. Conditions of others survive, because lists are merged by key.
        patch = {"metadata": {"uid": instance.spec.uid}, "status": status}
        path = RAW_PODS.path(*instance.spec.key, "status")
        with self.line.use() as up:
            if not up:
                return
            answer = self._api.request("PATCH", path, body=patch, content=STRATEGIC_MERGE_PATCH)
        with instance.changed:
            instance.version_on_server = int(_stored.decode(answer.data).metadata.resource_version)
            instance.phase_on_server = status["phase"]

    def _remove(self, instance: Instance) -> None:
        with self.line.use() as up:
            if up and not instance.removed:
                self._api.delete(RAW_PODS, instance.spec.key, uid=instance.spec.uid, grace=0)
                instance.removed = True

    def _look_again(self, instance: Instance) -> None:
        if instance.gone and not instance.alive:
            with self._lock:
                self._instances.pop(instance.spec.uid, None)
                if self._names.get(instance.spec.key) == instance.spec.uid:
                    del self._names[instance.spec.key]
        elif instance.stop_at is not None and not instance.over:
            self.look_at(instance, after=max(0.0, instance.stop_at - time.monotonic()))

    def _settle(self, instance: Instance, target: int, error: Exception | None = None) -> None:
        with instance.changed:
            instance.written, instance.error = target, error
            instance.changed.notify_all()


def _differs(instance: Instance, status: Mapping[str, Any], version: int) -> bool:
    """Whether somebody else changed what is ours to say. Older news than our last word are only its echo."""
    if version <= instance.version_on_server or not instance.version_on_server:
        return False
    found = {each["type"]: each["status"] for each in status.get("conditions", ())}
    ours = {type: instance.facts.transitions[type][0] for type in OWNED if type in instance.facts.transitions}
    return status.get("phase") != instance.facts.told or any(found.get(type) != status for type, status in ours.items())
