"""GenericJobs in the simulation: a cluster, a node, users, and controllers that crash."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from genericjob.api import ranges
from genericjob.api.crd import definition
from genericjob.api.names import API_VERSION, ATTEMPT_ANNOTATION, KIND
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.assembly import Assembly
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.jobs.resource import JOBS, read_status
from genericjob.local.custom import custom_kind
from genericjob.local.faults import FaultyApi
from genericjob.local.kinds import Kind
from genericjob.reconcile.api import Propagation
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import EVENTS, RAW_PODS, RAW_SERVICES, Key, Resource, raw
from sim.contract import Contract
from sim.crashes import Crash
from sim.node import Node, Program, Script
from sim.processes import SteppedThread
from sim.undecodable import Undecodable
from sim.world import Commit, SteppedApi, World

NAMESPACE = "default"
PASSING = frozenset(("resourceVersion", "creationTimestamp", "time", "pausedSeconds", "lastRestarts", "lastJobRestart"))
"""Fields that are times, or made of them."""
UNSEEN = frozenset(("unchargedRestarts", "restartsInARow", "failures", "failedExitCodes", ATTEMPT_ANNOTATION))
"""Fields that count what not everybody has seen."""
RAW_JOBS = raw(JOBS.group, JOBS.version, JOBS.plural, JOBS.kind)


class Watched(SteppedApi):
    """The API as a controller sees it, with the contract looking on."""

    contract: Contract
    heir: SteppedThread | None = None
    """Who is woken when its process dies."""

    @property
    def crashed(self) -> bool:
        """Whether its process is dead."""
        return self._process.crashed

    def crash(self, commit: Commit | None = None) -> None:
        """Crash the process now."""
        if self.heir is not None:
            self._process.stepped.wake(self.heir)
        super().crash(commit)

    def delete(
        self,
        resource: Resource[Any],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> Any:
        """Ask for an object's end; the contract sees on which conditions."""
        return self.through(
            Call("delete", resource, key, {"uid": uid, "resource_version": resource_version, "grace": grace}),
            lambda: self.api.delete(resource, key, uid=uid, resource_version=resource_version, grace=grace, propagation=propagation),
        )

    def _stepped(self, call: Call, do: Callable[[], Any]) -> Any:
        def judged() -> Any:
            try:
                self._judge(call)
            except AssertionError as error:
                self._process.stepped.fail(error)  # RAISED it would be one more error that a controller survives
            if call.verb == "delete" and call.resource.plural == JOBS.plural:
                gone = do()
                self.contract.deleted(call, self._process.name)
                return gone
            if call.verb != "replace_status":
                return do()
            try:
                answer = do()
            except ApiError:
                self.contract.unknown(call, self._process.name)
                raise
            self.contract.stored(call, self._process.name)
            return answer

        return super()._stepped(call, judged)

    def _judge(self, call: Call) -> None:
        self.contract.look_at(call, self._process.name)


class Cluster(World):
    """A world with our kind of jobs, and one node."""

    def __init__(self, seed: int, script: Script = lambda name, before: Program()) -> None:
        super().__init__(seed)
        self.api.register(job_kind())
        self.undecodable = Undecodable(self.api)
        self.faults = FaultyApi(self.undecodable, sleep=self.stepped.process("faults").sleep)
        self.contract = Contract(self.api)
        self.assemblies: list[Assembly] = []
        self.controllers: list[Watched] = []
        self.node = Node(self, script, self.contract)

    def controller(
        self,
        *,
        workers: int = 2,
        writers: int = 3,
        leads: bool = True,
        namespaces: Sequence[str] = ("",),
        latency: float = 0.0,
        processor_time: Callable[[], float] = lambda: 0.0,
    ) -> Watched:
        """Start a controller; returns its way to the API, which can be made to crash. One that does not lead only fills its caches."""
        process = self.stepped.process("controller")
        api = Watched(self.faults, process)
        api.contract, api.latency = self.contract, latency
        assembly = Assembly(
            api,
            namespaces=namespaces,
            primitives=process,
            metrics=Metrics(),
            workers=workers,
            writers=writers,
            processor_time=processor_time,
        )
        self.assemblies.append(assembly)
        self.controllers.append(api)
        process.start("main", lambda: _begin(assembly, leads=leads))
        return api

    def kept_running(self, *crashes: Crash, **options: Any) -> Watched:
        """A controller that is started again when it crashes, as a Deployment would; returns the first. Each dies its own death."""
        deployment, deaths = self.stepped.process("deployment"), iter(crashes)

        def begin() -> Watched:
            found = self.controller(**options)
            if crash := next(deaths, None):
                found.crash_at(crash.write, crash.when, crash.commit)
            return found

        def restart(found: Watched) -> None:
            while True:
                found.heir = self.stepped.me()
                deployment.block(None, "waits for a crash")
                found = begin()

        first = begin()
        deployment.start("restarts", lambda: restart(first))
        self.stepped.run(lambda: first.heir is not None)
        return first

    @property
    def written(self) -> int:
        """How many writes all controllers have sent, those included that changed nothing."""
        return sum(controller.writes for controller in self.controllers)

    # -------------------------------------------------------------------------------------------- users

    def submit(self, name: str = "train", namespace: str = NAMESPACE, **spec: Any) -> Key:
        """Create a job; types are given as `types={"worker": 3}`, restart policies of all or of some as `restart={"worker": {...}}`."""
        types, restart = spec.pop("types"), spec.pop("restart", {})
        template = spec.pop("template", {"spec": {"containers": [{"name": "main", "image": "i", "command": ["run", "$(rank)"]}]}})
        spec = {"replicaSpecs": replica_specs(types, restart, template), **spec}
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": spec}
        self.api.create(RAW_JOBS, body, namespace)
        return Key(namespace, name)

    def edit(self, name: str = "train", **spec: Any) -> None:
        """Change some fields of a job's spec."""
        self.api.patch(RAW_JOBS, Key(NAMESPACE, name), {"spec": spec})

    def pause(self, enabled: bool = True) -> None:
        """Have no replicas for a while."""
        self.edit(runMode={"pause": {"enabled": enabled}})

    def resume(self) -> None:
        """Go on."""
        self.pause(False)

    def resize(self, **types: int) -> None:
        """Other numbers of replicas."""
        specs = self.api.get(RAW_JOBS, Key(NAMESPACE, "train"))["spec"]["replicaSpecs"]
        self.edit(replicaSpecs=[{**part, "replicas": types[part["type"]]} for part in specs if part["type"] in types])

    def restart_policy(self, **policy: Any) -> None:
        """Another restart policy, for all types."""
        specs = self.api.get(RAW_JOBS, Key(NAMESPACE, "train"))["spec"]["replicaSpecs"]
        self.edit(replicaSpecs=[{**part, "restartPolicy": policy} for part in specs])

    def add_condition(
        self, type: str, status: str = "True", *, name: str = "train", time: str = "2026-01-01T00:00:00Z", message: str = ""
    ) -> tuple[str, dict[str, Any]]:
        """Another writer adds a condition of its own to the status of a job, or changes it, and leaves all others as they are.

        Returns the UID of the job, and the condition.
        """
        job = self.api.get(RAW_JOBS, Key(NAMESPACE, name))
        stored = job.get("status") or {}
        new = {"type": type, "status": status, "reason": "Other", "message": message, "lastTransitionTime": time, "observedGeneration": 1}
        kept = [found for found in stored.get("conditions", ()) if found["type"] != type]
        self.api.replace_status(RAW_JOBS, Key(NAMESPACE, name), {**job, "status": {**stored, "conditions": [*kept, new]}})
        return _uid(job), new

    def status(self, name: str = "train") -> GenericJobStatus:
        """Where a job stands; nothing when there is none."""
        try:
            return read_status(self.api.get(JOBS, Key(NAMESPACE, name)))
        except ApiError:
            return GenericJobStatus()

    def phase(self, name: str = "train") -> str:
        """Its phase; empty when there is no such job."""
        try:
            stored = self.api.get(JOBS, Key(NAMESPACE, name))
        except ApiError:
            return ""
        return read_status(stored).phase

    def reach(self, predicate: Callable[[], bool], *, within: float = 600.0) -> None:
        """Let time pass until this holds of what the server has; asked only when it has something new."""
        asked, held = "", False

        def holds() -> bool:
            nonlocal asked, held
            if asked != self.api.resource_version:
                asked, held = self.api.resource_version, predicate()
            return held

        self.stepped.reach(holds, within=within)

    def reach_phase(self, phase: str, name: str = "train") -> None:
        """Let time pass until a job is in this phase."""
        self.reach(lambda: self.phase(name) == phase)

    def reach_running(self) -> None:
        """Let time pass until the job `train` says that it runs, and all of its programs do."""
        self.reach(lambda: self.phase() == "Running" and all(map(self.node.table.running, self.pods())))

    def pods(self) -> list[str]:
        """Names of the pods."""
        return sorted(pod["metadata"]["name"] for pod in self.api.list(RAW_PODS).items)

    def commands(self) -> set[str]:
        """What pods were told to run."""
        return {pod["spec"]["containers"][0]["command"][0] for pod in self.api.list(RAW_PODS).items}

    def says(self, *words: str) -> bool:
        """Whether these are told in one of the job's conditions."""
        return any(all(word in f"{found.reason} {found.message}" for word in words) for found in self.status().conditions)

    def delete_pod(self, name: str) -> None:
        """As a user would with kubectl, or a preempting scheduler."""
        self.api.delete(RAW_PODS, Key(NAMESPACE, name))

    # -------------------------------------------------------------------------------------------- how it ended

    def state(self, *, losses: bool = False) -> dict[str, Any]:
        """Everything that matters of the state, without what differs from run to run: identities, versions, times, and events.

        With `losses` also without the counts of restarts that are charged to nobody: of a pod that others took away while no controller
        was there nobody knows, and its rank runs again without a word.
        """
        found: dict[str, Any] = {}
        for resource in (RAW_JOBS, RAW_PODS, RAW_SERVICES, POD_GROUPS):
            for item in self._all(resource):
                if resource is RAW_JOBS:
                    for task in item.get("status", {}).get("tasks", ()):
                        _forget_the_gone(task)
                known = {_uid(item): "itself"} | self._owners()
                found[f"{resource.plural}/{item['metadata']['name']}"] = _timeless(item, known, PASSING | UNSEEN if losses else PASSING)
        return found

    def _all(self, resource: Resource[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        try:
            return self.api.list(resource).items
        except ApiError:  # a kind that this cluster does not have
            return []

    def _owners(self) -> dict[str, str]:
        return {_uid(job): f"uid of {job['metadata']['name']}" for job in self.api.list(RAW_JOBS).items}

    def events(self) -> set[str]:
        """Reasons of the events that were told."""
        return {event["reason"] for event in self.api.list(EVENTS).items}


def replica_specs(types: Mapping[str, int], restart: Mapping[str, Any], template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Replicas by type, with restart policies by type or one for all."""
    found = []
    for type, count in types.items():
        policy = restart.get(type) if set(restart) <= set(types) else restart
        found.append({"type": type, "replicas": count, "template": template} | ({"restartPolicy": policy} if policy else {}))
    return found


def _begin(assembly: Assembly, *, leads: bool) -> None:
    if leads:
        assembly.start()
    else:
        for informer in assembly.informers:
            informer.start()


@cache
def job_kind() -> Kind:
    """Our kind of jobs. Made once: it takes as long as a short run."""
    spec = definition()["spec"]
    return custom_kind(spec, spec["versions"][0])


def _uid(item: dict[str, Any]) -> str:
    uid: str = item["metadata"]["uid"]
    return uid


def _forget_the_gone(task: dict[str, Any]) -> None:
    """A replica that was deleted before it ended is shown as it was last seen, which says something about who looked and when."""
    ended = ranges.parse(task.get("succeededRanks", "")) | ranges.parse(task.get("failedRanks", ""))
    for listed in (task.get("replicas", ()), task.get("status", ())):
        for rank, replica in enumerate(listed):
            if replica["phase"] == "Deleted" and rank not in ended:
                replica["containers"], replica["uid"] = [], ""


def _timeless(value: Any, known: dict[str, str], passing: frozenset[str]) -> Any:
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in passing and not key.endswith(("Time", "At"))}
        return {key: _timeless(each, known, passing) for key, each in kept.items()}
    if isinstance(value, list):
        return [_timeless(each, known, passing) for each in value]
    if isinstance(value, str) and value.startswith("uid-"):
        return known.get(value, "a uid")
    return value
