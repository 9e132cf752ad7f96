"""A node in the simulation: pods become instances in a process table that nobody can talk out of its knowledge.

The table outlives pods that are deleted by force, and it is where clause 1 of the contract is checked: never two running instances of a
rank of a job. What a program does is decided by the scenario, by name and by how often it ran before.

As on a real node a pod that is asked to go gets time to stop, and its end is reported before it is removed: a final phase that says nothing
about the rank. Pods can be put on a node that is lost (`lose`): their processes go on, and nobody hears of them until the node is back
(`back`) or taken away (`removed`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from genericjob.api.names import ANNOTATIONS
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import Key, pods
from sim.world import SteppedApi, World

PODS = pods(annotations=ANNOTATIONS)
SIGTERM = 143
DISRUPTION = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}


@dataclass(frozen=True)
class Program:
    """What a container does: run for some seconds and exit, or run until it is stopped."""

    seconds: float = 1.0
    exit_code: int | None = 0
    waits: float = 0.0
    """Seconds before it runs at all."""
    why: str = "ErrImagePull"
    """What it waits for then: `Unschedulable`, or the reason of a waiting container."""
    stops: float = 0.0
    """Seconds that it takes to stop when it is asked to."""
    stops_with: int = SIGTERM
    """How it exits then."""
    taken: Literal["", "Disrupted", "Evicted"] = ""
    """It does not exit, the node takes it away: for the sake of others (with the condition DisruptionTarget), or through its own fault."""

    def end(self) -> dict[str, Any]:
        """The pod's status when it has run."""
        status = _ended(self.exit_code or 0)
        if self.taken:
            status |= {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}
        if self.taken == "Disrupted":
            status |= {"reason": "Terminated", "conditions": [DISRUPTION]}
        return status


FOREVER = Program(exit_code=None)

Script = Callable[[str, int], Program]
"""The program of a pod, by the pod's name and how many of this name ran before."""


@dataclass
class Instance:
    """One run of a pod."""

    name: str
    uid: str
    owner: str
    key: Key
    program: Program
    running: bool = True
    stopping: bool = False
    end: dict[str, Any] | None = None
    """The status in which it ended."""


@dataclass
class Table:
    """Every instance there ever was."""

    instances: list[Instance] = field(default_factory=list)

    def begin(self, pod: Pod, program: Program) -> Instance:
        """A pod starts to run."""
        for other in self.instances:
            if other.running and (other.owner, other.name) == (pod.owner_uid, pod.name):
                raise AssertionError(
                    f"1: two instances of {pod.name} of job {pod.owner_uid} run at the same time: {other.uid} and {pod.uid}"
                )
        instance = Instance(pod.name, pod.uid, pod.owner_uid, Key(pod.namespace, pod.name), program)
        self.instances.append(instance)
        return instance

    def runs(self, name: str) -> int:
        """How often a pod of this name ran."""
        return sum(instance.name == name for instance in self.instances)

    def running(self, name: str) -> bool:
        """Whether one of this name runs."""
        return any(instance.name == name and instance.running for instance in self.instances)


class Judge(Protocol):
    """Who is told what happens on nodes."""

    def begins(self, pod: Pod) -> None:
        """A pod is about to run."""

    def ended(self, pod: Pod) -> None:
        """A pod may have ended; its node has said so."""


class Told(SteppedApi):
    """The API as a node sees it. The judge hears of an end in the moment in which the server does."""

    judge: Judge

    def _stepped(self, call: Call, do: Callable[[], Any]) -> Any:
        def told() -> Any:
            answer = do()
            if call.verb == "patch":
                self.judge.ended(answer)
            return answer

        return super()._stepped(call, told)


class Node:
    """The scheduler and the kubelet in one: binds every pod, runs it, reports, and ends it when it is deleted."""

    def __init__(self, world: World, script: Script, judge: Judge) -> None:
        self.table = Table()
        self._world, self._script, self._judge = world, script, judge
        self._process = world.stepped.process("node")
        self._api = Told(world.api, self._process)
        self._api.judge = judge
        self._seen: set[str] = set()
        self._mine: dict[str, Instance] = {}
        self._silent: set[str] = set()
        """UIDs of pods whose node is lost."""
        self._process.start("kubelet", self._follow)

    # -------------------------------------------------------------------------------------------- for scenarios

    def lose(self, *names: str) -> None:
        """The node of these pods goes silent. What runs there goes on."""
        self._silent |= {found.uid for found in self.table.instances if found.name in names and found.running}

    def back(self) -> None:
        """It is back, with everything that ran and ended there."""
        lost, self._silent = self._silent, set()
        self._process.start("back", lambda: self._catch_up(lost))

    def removed(self) -> None:
        """It burns, and Kubernetes hears of it: what ran there has ended, and the pods are removed by force."""
        lost, self._silent = self._silent, set()
        for uid in lost:
            self._mine[uid].running = False
        self._process.start("pod garbage collector", lambda: self._collect(sorted(lost)))

    def disrupt(self, name: str) -> None:
        """A running pod is evicted through the API, as by a drain: the condition first, then the deletion."""
        uid = next(self._running(name)).uid
        condition = {**DISRUPTION, "reason": "EvictionByEvictionAPI"}
        key = self._mine[uid].key
        self._world.api.patch(PODS, key, {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}, subresource="status")
        self._world.api.delete(PODS, key, uid=uid)

    def kill(self, name: str, exit_code: int = 137) -> None:
        """A program that runs ends now. Nobody hears of it as long as its node is lost."""
        instance = next(self._running(name))
        instance.running, instance.end = False, _ended(exit_code)
        if instance.uid not in self._silent:
            self._process.start(f"end of {name}", lambda: self._tell(instance))

    def _running(self, name: str) -> Iterator[Instance]:
        return (found for found in self._mine.values() if found.name == name and found.running)

    def _catch_up(self, lost: set[str]) -> None:
        for pod in self._api.list(PODS).items:
            if pod.uid in lost and pod.deleted is not None:
                self._look(pod)
            elif pod.uid in lost and self._mine[pod.uid].end is not None:
                self._tell(self._mine[pod.uid])

    def _collect(self, lost: list[str]) -> None:
        for instance in map(self._mine.__getitem__, lost):
            instance.end = {"phase": "Failed", "conditions": [{**DISRUPTION, "reason": "DeletionByPodGC"}]}
            self._tell(instance)
            self._remove(instance.key, instance.uid)

    # -------------------------------------------------------------------------------------------- what the server says

    def _follow(self) -> None:
        while True:
            page = self._api.list(PODS)
            for uid in self._mine.keys() - {pod.uid for pod in page.items}:
                self._gone(uid)
            for pod in page.items:
                self._look(pod)
            self._watch(page.resource_version)

    def _watch(self, version: str) -> None:
        """Until the server has forgotten where we stand."""
        while True:
            try:
                with self._api.watch(PODS, resource_version=version) as watch:
                    for event in watch:
                        if event.type == "DELETED" and event.object is not None:
                            self._gone(event.object.uid)
                        elif event.object is not None:
                            self._look(event.object)
                    version = watch.resource_version
            except ApiError as error:
                if not error.gone:
                    raise
                return

    def _look(self, pod: Pod) -> None:
        if pod.uid in self._silent:
            return
        if pod.deleted is not None:
            self._stop(pod)
        elif pod.uid not in self._seen:
            self._seen.add(pod.uid)
            program = self._script(pod.name, self.table.runs(pod.name))
            if program.waits:
                self._process.start(f"arrival of {pod.name}", lambda: self._wait(pod, program))
            else:
                self._begin(pod, program)

    def _gone(self, uid: str) -> None:
        """Removed from the server. A NODE THAT IS LOST does not hear of it, and goes on."""
        self._seen.add(uid)
        if uid in self._mine and uid not in self._silent:
            self._mine[uid].running = False

    # -------------------------------------------------------------------------------------------- the life of a pod

    def _wait(self, pod: Pod, program: Program) -> None:
        key = Key(pod.namespace, pod.name)
        if program.why == "Unschedulable":
            self._report(key, pod.uid, {"phase": "Pending", "conditions": [UNSCHEDULABLE]})
        else:
            self._try(lambda: self._world.api.bind(key, "node"))
            self._report(key, pod.uid, {"phase": "Pending", **_containers({"waiting": {"reason": program.why}})})
        self._process.sleep(program.waits)
        there = self._try(lambda: self._world.api.get(PODS, key))  # AT ONCE: it must not go between this look and its beginning
        if there is not None and there.uid == pod.uid and there.deleted is None:
            self._begin(pod, program)

    def _begin(self, pod: Pod, program: Program) -> None:
        self._judge.begins(pod)
        self._mine[pod.uid] = instance = self.table.begin(pod, program)
        self._try(lambda: self._world.api.bind(instance.key, "node"))
        self._report(instance.key, pod.uid, {"phase": "Running", "conditions": None, **_containers({"running": {}})})
        if program.exit_code is not None or program.taken:
            self._process.start(f"container of {pod.name}", lambda: self._run(instance))

    def _run(self, instance: Instance) -> None:
        self._process.sleep(instance.program.seconds)
        if instance.running:
            instance.running, instance.end = False, instance.program.end()
            if instance.uid not in self._silent:
                self._tell(instance)

    def _stop(self, pod: Pod) -> None:
        instance = self._mine.get(pod.uid)
        if instance is None:
            self._seen.add(pod.uid)
            self._remove(Key(pod.namespace, pod.name), pod.uid)
        elif not instance.stopping:
            instance.stopping = True
            if instance.running and instance.program.stops:
                self._process.start(f"end of {pod.name}", lambda: self._stopped(instance, instance.program.stops))
            else:
                self._stopped(instance)

    def _stopped(self, instance: Instance, after: float = 0.0) -> None:
        if after:
            self._process.sleep(after)
        if instance.running or instance.end is None:
            instance.running, instance.end = False, _ended(instance.program.stops_with)
        self._tell(instance)
        self._remove(instance.key, instance.uid)

    # -------------------------------------------------------------------------------------------- what the server is told

    def _tell(self, instance: Instance) -> None:
        self._report(instance.key, instance.uid, instance.end or {})

    def _report(self, key: Key, uid: str, status: dict[str, Any]) -> None:
        self._try(lambda: self._api.patch(PODS, key, {"metadata": {"uid": uid}, "status": status}, subresource="status"))

    def _remove(self, key: Key, uid: str) -> None:
        self._try(lambda: self._api.delete(PODS, key, uid=uid, grace=0))

    def _try(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except ApiError as error:
            if not (error.not_found or error.conflict or error.refused):
                raise
        return None


def _containers(state: dict[str, Any]) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": state}]}


def _ended(exit_code: int) -> dict[str, Any]:
    reason = "Error" if exit_code else "Completed"
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        **_containers({"terminated": {"exitCode": exit_code, "reason": reason}}),
    }
