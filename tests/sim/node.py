"""A node in the simulation: pods become instances in a process table that nobody can talk out of its knowledge.

The table outlives pods that are deleted by force, and it is where clause 1 of the contract is checked: never two running instances of a
rank of a job. What a program does is decided by the scenario, by name and by how often it ran before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from genericjob.api.names import ANNOTATIONS
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.resources import Key, pods
from sim.world import World

PODS = pods(ANNOTATIONS)


@dataclass(frozen=True)
class Program:
    """What a container does: run for some seconds and exit, or run until it is stopped."""

    seconds: float = 1.0
    exit_code: int | None = 0


FOREVER = Program(exit_code=None)

Script = Callable[[str, int], Program]
"""The program of a pod, by the pod's name and how many of this name ran before."""


@dataclass
class Instance:
    """One run of a pod."""

    name: str
    uid: str
    owner: str
    running: bool = True


@dataclass
class Table:
    """Every instance there ever was."""

    instances: list[Instance] = field(default_factory=list)

    def begin(self, pod: Pod) -> Instance:
        """A pod starts to run."""
        for other in self.instances:
            if other.running and (other.owner, other.name) == (pod.owner_uid, pod.name):
                raise AssertionError(f"two instances of {pod.name} of job {pod.owner_uid} run at the same time: {other.uid} and {pod.uid}")
        instance = Instance(pod.name, pod.uid, pod.owner_uid)
        self.instances.append(instance)
        return instance

    def runs(self, name: str) -> int:
        """How often a pod of this name ran."""
        return sum(instance.name == name for instance in self.instances)


class Node:
    """The scheduler and the kubelet in one: binds every pod, runs it, reports, and ends it when it is deleted."""

    def __init__(self, world: World, script: Script, begins: Callable[[Pod], None]) -> None:
        self.table = Table()
        self._world, self._script, self._begins = world, script, begins
        self._process, self._api = world.process("node")
        self._mine: dict[str, Instance] = {}
        self._process.start("kubelet", self._follow)

    def _follow(self) -> None:
        while True:
            page = self._api.list(PODS)
            for uid in self._mine.keys() - {pod.uid for pod in page.items}:
                self._end(uid)
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
                            self._end(event.object.uid)
                        elif event.object is not None:
                            self._look(event.object)
                    version = watch.resource_version
            except ApiError as error:
                if not error.gone:
                    raise
                return

    def _look(self, pod: Pod) -> None:
        if pod.deleted is not None:
            self._end(pod.uid)
            self._try(lambda: self._api.delete(PODS, Key(pod.namespace, pod.name), uid=pod.uid, grace=0))
        elif pod.uid not in self._mine:
            program = self._script(pod.name, self.table.runs(pod.name))
            self._begins(pod)
            self._mine[pod.uid] = instance = self.table.begin(pod)
            key = Key(pod.namespace, pod.name)
            self._try(lambda: self._world.api.bind(key, "node"))
            self._report(key, "Running", {"running": {}})
            if program.exit_code is not None:
                self._process.start(f"container of {pod.name}", lambda: self._run(key, instance, program))

    def _run(self, key: Key, instance: Instance, program: Program) -> None:
        self._process.sleep(program.seconds)
        if instance.running:
            instance.running = False
            phase = "Failed" if program.exit_code else "Succeeded"
            self._report(key, phase, {"terminated": {"exitCode": program.exit_code}}, uid=instance.uid)

    def _report(self, key: Key, phase: str, state: dict[str, object], *, uid: str = "") -> None:
        status = {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
        meta = {"metadata": {"uid": uid}} if uid else {}
        self._try(lambda: self._api.patch(PODS, key, {**meta, "status": status}, subresource="status"))

    def _end(self, uid: str) -> None:
        if uid in self._mine:
            self._mine[uid].running = False

    def _try(self, do: Callable[[], object]) -> None:
        try:
            do()
        except ApiError as error:
            if not (error.not_found or error.conflict or error.refused):
                raise
