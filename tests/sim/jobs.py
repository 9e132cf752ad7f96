"""GenericJobs in the simulation: a cluster, a node, users, and controllers that crash."""

from collections.abc import Callable, Sequence
from typing import Any

from genericjob.api.crd import definition
from genericjob.api.names import API_VERSION, KIND
from genericjob.jobs.assembly import Assembly
from genericjob.jobs.resource import JOBS, read_status
from genericjob.local.faults import FaultyApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, RAW_PODS, RAW_SERVICES, Key, raw
from sim.contract import Contract
from sim.node import Node, Program, Script
from sim.world import SteppedApi, World

NAMESPACE = "default"
RAW_JOBS = raw(JOBS.group, JOBS.version, JOBS.plural, JOBS.kind)


class Watched(SteppedApi):
    """The API as a controller sees it, with the contract looking on."""

    contract: Contract

    @property
    def crashed(self) -> bool:
        """Whether its process is dead."""
        return self._process.crashed

    def _stepped(self, call: Call, do: Callable[[], Any]) -> Any:
        def judged() -> Any:
            try:
                self.contract.look_at(call)
            except AssertionError as error:
                self._process.stepped.fail(error)  # RAISED it would be one more error that a controller survives
            return do()

        return super()._stepped(call, judged)


class Cluster(World):
    """A world with our kind of jobs, and one node."""

    def __init__(self, seed: int, script: Script = lambda name, before: Program()) -> None:
        super().__init__(seed)
        self.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        self.faults = FaultyApi(self.api, sleep=self.stepped.process("faults").sleep)
        self.contract = Contract(self.api)
        self.assemblies: list[Assembly] = []
        self.node = Node(self, script, self.contract.begins)

    def controller(self, *, workers: int = 2, writers: int = 3, leads: bool = True, namespaces: Sequence[str] = ("",)) -> Watched:
        """Start a controller; returns its way to the API, which can be made to crash. One that does not lead only fills its caches."""
        process = self.stepped.process("controller")
        api = Watched(self.faults, process)
        api.contract = self.contract
        assembly = Assembly(
            api,
            namespaces=namespaces,
            primitives=process,
            metrics=Metrics(),
            workers=workers,
            writers=writers,
            processor_time=lambda: 0.0,
        )
        self.assemblies.append(assembly)
        begin = assembly.start if leads else lambda: [informer.start() for informer in assembly.informers]
        process.start("main", lambda: begin() and None)
        return api

    def kept_running(self) -> Watched:
        """A controller that is started again when it crashes, as a Deployment would; returns the first."""
        first = self.controller()
        self.stepped.process("deployment").start(
            "restarts", lambda: self.stepped.block_until(lambda: first.crashed) and self.controller() and None
        )
        return first

    # -------------------------------------------------------------------------------------------- users

    def submit(self, name: str = "train", namespace: str = NAMESPACE, **spec: Any) -> Key:
        """Create a job; types are given as `types={"worker": 3}`."""
        types = spec.pop("types")
        template = spec.pop("template", {"spec": {"containers": [{"name": "main", "image": "i", "command": ["run", "$(rank)"]}]}})
        replicas = [{"type": type, "replicas": count, "template": template} for type, count in types.items()]
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"replicaSpecs": replicas, **spec}}
        self.api.create(RAW_JOBS, body, namespace)
        return Key(namespace, name)

    def phase(self, name: str = "train") -> str:
        """Where a job stands; empty when there is none."""
        try:
            stored = self.api.get(JOBS, Key(NAMESPACE, name))
        except ApiError:
            return ""
        return read_status(stored).phase if stored.status else "Pending"

    def pods(self) -> list[str]:
        """Names of the pods."""
        return sorted(pod["metadata"]["name"] for pod in self.api.list(RAW_PODS).items)

    def delete_pod(self, name: str) -> None:
        """As a user would with kubectl, or a preempting scheduler."""
        self.api.delete(RAW_PODS, Key(NAMESPACE, name))

    # -------------------------------------------------------------------------------------------- how it ended

    def state(self) -> dict[str, Any]:
        """Everything that matters of the state, without what differs from run to run: identities, versions, times, and events."""
        found: dict[str, Any] = {}
        for resource in (RAW_JOBS, RAW_PODS, RAW_SERVICES):
            for item in self.api.list(resource).items:
                found[f"{resource.plural}/{item['metadata']['name']}"] = _timeless(item, {_uid(item): "itself"} | self._owners())
        return found

    def _owners(self) -> dict[str, str]:
        return {_uid(job): f"uid of {job['metadata']['name']}" for job in self.api.list(RAW_JOBS).items}

    def events(self) -> set[str]:
        """Reasons of the events that were told."""
        return {event["reason"] for event in self.api.list(EVENTS).items}


def _uid(item: dict[str, Any]) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def _timeless(value: Any, known: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each, known) for key, each in value.items() if not _passing(key)}
    if isinstance(value, list):
        return [_timeless(each, known) for each in value]
    if isinstance(value, str) and value.startswith("uid-"):
        return known.get(value, "a uid")
    return value


def _passing(field: str) -> bool:
    return field in ("resourceVersion", "creationTimestamp") or field.endswith(("Time", "At"))
