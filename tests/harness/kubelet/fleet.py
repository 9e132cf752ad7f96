"""All stand-in nodes of a test: their objects, their heartbeats, and the writers they share."""

import threading
import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from ipaddress import IPv4Address
from itertools import combinations, count
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import LEASES, NODES, RAW_PODS, Key, Resource
from harness.clusters import PATIENCE, eventually

from .door import Door
from .instance import Instance, Life, Shutdown
from .node import Node
from .pods import DEFAULT_SHUTDOWN, STRATEGIC_MERGE_PATCH, Habits, Pods, Surroundings, Which
from .registration import HEALTHY, ZONE_LABEL, Machine, conditions, lease, lease_key, node, renew_time
from .work import WorkQueue

HEARTBEAT = 5.0
"""Seconds between renewals of a lease. Kubelets take 10; the control plane gives a node up after 50."""
STATUS_EVERY = 300.0
"""Seconds between two node statuses that say the same."""
WRITERS = 4
DEFAULT_MACHINE = Machine()


class Nodes:
    """Stand-in nodes in a zone of their own. `with Nodes(cluster.api) as nodes: node = nodes.add(automatic=True)`."""

    def __init__(self, connect: Callable[[], HttpApi], *, certificate: tuple[Path, Path] | None = None) -> None:
        """With a certificate and its key, the nodes have a door: logs can be read, and commands be run."""
        self.zone = f"zone-{uuid4().hex[:8]}"
        self.lives: list[Life] = []
        """The process table with its history: every instance that ever ran here."""
        self._api, self._heart_api = connect(), connect()
        self._nodes: dict[str, Node] = {}
        self._uids: dict[str, str] = {}
        self._reported: dict[str, float] = {}
        self._queue: WorkQueue[tuple[Pods, Instance]] = WorkQueue()
        self._problems: list[Exception] = []
        self._door = Door(*certificate, self._instance) if certificate else None
        self._node_ips, pod_ips = _addresses("172.16.0.1"), _addresses("10.64.0.1")
        beat = partial(self._heartbeat, self._api, statuses=True)
        self._shared = Surroundings(self._api, self._queue, pod_ips, self.lives.append, self._problems.append, beat, self._unregister)
        self._closing = threading.Event()
        self._beating = threading.Lock()
        loops = [("heart", self._beat), *((f"writer {number}", self._write) for number in range(WRITERS))]
        self._threads = [threading.Thread(target=loop, name=f"kubelets' {name}", daemon=True) for name, loop in loops]
        for thread in self._threads:
            thread.start()

    # -------------------------------------------------------------------------------------------- nodes

    def add(
        self,
        name: str = "",
        machine: Machine = DEFAULT_MACHINE,
        *,
        automatic: bool = False,
        brisk: bool = False,
        shutdown: Shutdown = DEFAULT_SHUTDOWN,
    ) -> Node:
        """A new node, once the scheduler may use it."""
        name = name or f"node-{uuid4().hex[:8]}"
        ip = "127.0.0.1" if self._door else self._node_ips()
        made = Node(name, ip, Habits(automatic, brisk, shutdown), self._shared)
        stored = self._api.create(NODES, node(name, machine, ip=ip, zone=self.zone, door=self._door.port if self._door else 0)).object
        with self._beating:
            self._nodes[name], self._uids[name] = made, stored["metadata"]["uid"]
            self._reported[name] = time.monotonic()
            self._renew(self._api, name)
        made.pods.start()
        eventually(lambda: not _not_ready(self._api.get(NODES, Key("", name))))
        return made

    def of(self, which: Which) -> Node:
        """The node that has a pod, once one has."""
        return eventually(lambda: [each for each in list(self._nodes.values()) if each.pods.has(which)])[0]

    def _instance(self, key: Key) -> Instance | None:
        for each in list(self._nodes.values()):
            if each.pods.has(key):
                return each.pods.find(key)
        return None

    # -------------------------------------------------------------------------------------------- the process table

    @property
    def running(self) -> frozenset[str]:
        """The UIDs of all instances that run, known to the server or not."""
        return frozenset(life.uid for life in list(self.lives) if life.ended is None)

    def overlaps(self, identity: Callable[[Life], Hashable] = lambda life: life.key) -> list[tuple[Life, Life]]:
        """Pairs of instances of the same identity that ran at the same time, ever."""
        same: dict[Hashable, list[Life]] = {}
        for life in list(self.lives):
            same.setdefault(identity(life), []).append(life)
        return [(one, two) for group in same.values() for one, two in combinations(group, 2) if one.overlaps(two)]

    # -------------------------------------------------------------------------------------------- the end

    def close(self, *, clean_up: bool = True) -> None:
        """End every thread, remove nodes, leases and what pods are bound to them, and raise what went wrong in a thread.

        Without `clean_up` everything stays on the server: for one that ends, too, and need not hear a thousand deletes before.
        """
        self._closing.set()
        if self._door:
            self._door.close()
        self._queue.close()
        for each in self._nodes.values():
            each.pods.close()
        for thread in self._threads:
            thread.join(PATIENCE)
            if thread.is_alive():
                self._problems.append(RuntimeError(f"thread {thread.name} does not end"))
        try:
            if clean_up:
                self._clean_up()
        except ApiError as error:
            self._problems.append(error)
        self._api.close()
        self._heart_api.close()
        if self._problems:
            raise ExceptionGroup("the kubelet stand-in met problems", self._problems)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _clean_up(self) -> None:
        with ThreadPoolExecutor(len(self._threads)) as pool:
            for name in self._nodes:
                # Nobody is left to end these pods, and namespaces would wait a minute for the pod garbage collector.
                pods = self._api.list(RAW_PODS, fields=f"spec.nodeName={name}").items
                keys = [Key(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
                list(pool.map(lambda key: self._drop(RAW_PODS, key), keys))
                self._drop(NODES, Key("", name))
                self._drop(LEASES, lease_key(name))

    def _drop(self, resource: Resource[Any], key: Key) -> None:
        try:
            self._api.delete(resource, key, grace=0)
        except ApiError as error:
            if not error.not_found:
                raise

    # -------------------------------------------------------------------------------------------- threads

    def _write(self) -> None:
        while True:
            with self._queue.take() as work:
                if work is None:
                    return
                try:
                    work[0].sync(work[1])
                except Exception as error:
                    self._problems.append(error)

    def _beat(self) -> None:
        beats = count(1)
        while not self._closing.wait(HEARTBEAT):
            try:
                self._heartbeat(self._heart_api, statuses=next(beats) % 2 == 0)
            except ApiError as error:
                if error.refused:
                    self._problems.append(error)
            except Exception as error:
                self._problems.append(error)
                return

    def _heartbeat(self, api: HttpApi, *, statuses: bool) -> None:
        with self._beating:
            for name in self._uids:
                with self._nodes[name].line.use() as up:
                    if up:
                        self._renew(api, name)
            if statuses:
                for found in api.list(NODES, labels=f"{ZONE_LABEL}={self.zone}").items:
                    self._report(api, found)

    def _renew(self, api: HttpApi, name: str) -> None:
        try:
            api.patch(LEASES, lease_key(name), {"spec": {"renewTime": renew_time()}})
        except ApiError as error:
            if not error.not_found:
                raise
            api.create(LEASES, lease(name, self._uids[name]), lease_key(name).namespace)

    def _report(self, api: HttpApi, found: dict[str, Any]) -> None:
        """Post the status of a node that looks ill to others, or has not posted for long."""
        name = found["metadata"]["name"]
        if name not in self._uids:
            return
        before = {each["type"]: each for each in found["status"].get("conditions", ())}
        well = all(before.get(type, {}).get("status") == status for type, (status, _, _) in HEALTHY.items())
        if well and time.monotonic() - self._reported[name] < STATUS_EVERY:
            return
        with self._nodes[name].line.use() as up:
            if up:
                patch = {"status": {"conditions": conditions(before)}}
                api.request("PATCH", NODES.path(name=name, subresource="status"), body=patch, content=STRATEGIC_MERGE_PATCH)
                self._reported[name] = time.monotonic()

    def _unregister(self, name: str) -> None:
        with self._beating:
            del self._uids[name]
        self._api.delete(NODES, Key("", name))


def _not_ready(found: dict[str, Any]) -> bool:
    taints: Iterable[dict[str, str]] = found["spec"].get("taints", ())
    return any(taint["key"] in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable") for taint in taints)


def _addresses(first: str) -> Callable[[], str]:
    numbers = count(int(IPv4Address(first)))
    return lambda: str(IPv4Address(next(numbers)))
