"""What a kubelet says about a pod: a pure function of the pod's spec and of what the node knows.

The rules are those of kubelet 1.34: one phase from the states of all containers, five conditions, `observedGeneration` everywhere. Two of
them surprise. A terminal phase is held back while the pod's sandbox exists, so watchers see a Running pod whose containers have all ended.
And a container that never began is called `ContainerStatusUnknown`, exit code 137, once its pod is over.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from genericjob.reconcile.resources import Key

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)
OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The conditions that a kubelet writes, and puts right when others change them."""

LONGEST_MESSAGE, LONGEST_MESSAGES = 4096, 12288
"""Bytes of one termination message, and of all messages of a pod."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not started; an empty reason stands for the usual one (ContainerCreating, PodInitializing)."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and whether its readiness probe would agree."""

    since: str
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Terminated:
    """How a container ended; one without `since` never began."""

    exit_code: int
    reason: str = ""
    message: str = ""
    since: str = ""
    finished: str = ""


State = Waiting | Running | Terminated

LOST_TRACK = Terminated(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated")


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """The parts of a container that its status repeats."""

    name: str
    image: str
    resources: Mapping[str, Any]
    mounts: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class PodSpec:
    """The parts of a pod that never change, as far as a node cares."""

    key: Key
    uid: str
    init: tuple[ContainerSpec, ...]
    containers: tuple[ContainerSpec, ...]
    restart_policy: str
    host_network: bool

    @property
    def all(self) -> tuple[ContainerSpec, ...]:
        """Init containers first, as they run."""
        return self.init + self.containers


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why the node itself ended a pod; `disruption` says whether the pod's owner should be told that it was not the pod's fault."""

    message: str
    disruption: bool


@dataclass
class Facts:
    """What the node knows of a pod, and what it has said so far."""

    states: dict[str, State]
    ip: str
    began: str
    """When the node took the pod over: `status.startTime`."""
    sandbox: bool = False
    """Whether the pod's network exists. Images are pulled, and fail to be, after that."""
    networked: bool = False
    """Whether it ever existed."""
    over: bool = False
    """Nothing of the pod will run again, whatever its restart policy."""
    abandoned: bool = False
    """Over without having begun: the last status then is the one before it, with another phase."""
    eviction: Eviction | None = None
    phase: str = PENDING
    """The phase as the node sees it, which the server is told later if it is terminal."""
    told: str = PENDING
    """The phase the server has been told."""
    transitions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Per condition its status, and since when."""


def read_spec(pod: Mapping[str, Any]) -> PodSpec:
    """Keep what the status will need."""
    meta, spec = pod["metadata"], pod["spec"]
    if any(container.get("restartPolicy") for container in spec.get("initContainers", ())):
        raise ValueError(f"pod {meta['namespace']}/{meta['name']} has a sidecar (an init container that restarts): not imitated")
    return PodSpec(
        key=Key(meta["namespace"], meta["name"]),
        uid=meta["uid"],
        init=tuple(_container(each) for each in spec.get("initContainers", ())),
        containers=tuple(_container(each) for each in spec["containers"]),
        restart_policy=spec.get("restartPolicy", "Always"),
        host_network=spec.get("hostNetwork", False),
    )


def _container(found: Mapping[str, Any]) -> ContainerSpec:
    return ContainerSpec(
        found["name"], found["image"], found.get("resources", {}), [_mount(each) for each in found.get("volumeMounts", ())]
    )


def _mount(found: Mapping[str, Any]) -> Mapping[str, Any]:
    mount = {"name": found["name"], "mountPath": found["mountPath"]}
    return mount | {"readOnly": True, "recursiveReadOnly": "Disabled"} if found.get("readOnly") else mount


def now() -> str:
    """The present, as precisely as pod statuses know it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precisely() -> str:
    """The present, as precisely as logs know it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


def report(spec: PodSpec, facts: Facts, *, generation: int, host_ip: str) -> dict[str, Any]:
    """The status to send, as a strategic merge patch needs it; `facts` remember what was said."""
    facts.phase = phase_of(spec, facts)
    held = facts.phase in TERMINAL and facts.sandbox
    facts.told = facts.told if held else facts.phase
    status: dict[str, Any] = {
        "phase": facts.told,
        "observedGeneration": generation,
        "startTime": facts.began,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "conditions": [_dated(facts, condition) | {"observedGeneration": generation} for condition in _conditions(spec, facts, held)],
        "containerStatuses": [_container_status(spec, each, facts) for each in sorted(spec.containers, key=lambda each: each.name)],
    }
    if spec.init:
        status["initContainerStatuses"] = [_container_status(spec, each, facts, init=True) for each in spec.init]
    if facts.networked or spec.host_network:
        ip = host_ip if spec.host_network else facts.ip
        status |= {"podIP": ip, "podIPs": [{"ip": ip}]}
    if facts.eviction and not held:
        status |= {"reason": "Evicted", "message": facts.eviction.message}
    return status


def give_up(spec: PodSpec, facts: Facts) -> None:
    """Close the book on a pod: what never ran is reported as lost."""
    facts.abandoned = not facts.eviction and _phase_of_containers(spec, facts) not in TERMINAL
    initialized = not spec.init or any(not isinstance(facts.states[each.name], Waiting) for each in spec.containers)
    last = facts.states[spec.init[-1].name] if spec.init else None
    initialized = initialized or (isinstance(last, Terminated) and last.exit_code == 0)
    begun = [index for index, each in enumerate(spec.init) if not isinstance(facts.states[each.name], Waiting)]
    lost = spec.init[: max(begun, default=0) + 1] + (spec.containers if initialized else ())
    for each in lost:
        if not isinstance(facts.states[each.name], Terminated):
            facts.states[each.name] = LOST_TRACK


# ------------------------------------------------------------------------------------------------ phase and conditions


def phase_of(spec: PodSpec, facts: Facts) -> str:
    """The phase as the node sees it. A terminal one is final."""
    if facts.eviction:
        return FAILED
    if facts.phase in TERMINAL:
        return facts.phase
    phase = _phase_of_containers(spec, facts)
    return FAILED if facts.over and phase not in TERMINAL else phase


def _phase_of_containers(spec: PodSpec, facts: Facts) -> str:
    init = [facts.states[each.name] for each in spec.init]
    if spec.restart_policy == "Never" and any(isinstance(state, Terminated) and state.exit_code for state in init):
        return FAILED
    states = [facts.states[each.name] for each in spec.containers]
    if not all(isinstance(state, Terminated) for state in init) or any(isinstance(state, Waiting) for state in states):
        return PENDING
    if any(isinstance(state, Running) for state in states):
        return RUNNING
    failed = any(isinstance(state, Terminated) and state.exit_code for state in states)
    if not facts.over and (spec.restart_policy == "Always" or (failed and spec.restart_policy == "OnFailure")):
        return RUNNING
    return FAILED if failed else SUCCEEDED


def _conditions(spec: PodSpec, facts: Facts, held: bool) -> Iterable[dict[str, Any]]:
    if facts.eviction and facts.eviction.disruption and not held:
        yield _condition("DisruptionTarget", True, "TerminationByKubelet", facts.eviction.message)
    yield _condition("PodReadyToStartContainers", facts.sandbox)
    yield _initialized(spec, facts)
    unready = [each.name for each in spec.containers if not _ready(facts.states[each.name])]
    ended = "" if facts.abandoned else {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}.get(facts.phase, "")
    why = ended or ("ContainersNotReady" if unready else "")
    message = f"containers with unready status: {_go_list(unready)}" if unready and not ended else ""
    for type in ("Ready", "ContainersReady"):
        yield _condition(type, not why, why, message)
    yield _condition("PodScheduled", True)


def _initialized(spec: PodSpec, facts: Facts) -> dict[str, Any]:
    if facts.phase == SUCCEEDED:
        return _condition("Initialized", True, "PodCompleted")
    incomplete = [each.name for each in spec.init if not _succeeded(facts.states[each.name])]
    if not incomplete or any(not isinstance(facts.states[each.name], Waiting) for each in spec.containers):
        return _condition("Initialized", True)
    return _condition("Initialized", False, "ContainersNotInitialized", f"containers with incomplete status: {_go_list(incomplete)}")


def _condition(type: str, status: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    # NULL TAKES A FIELD AWAY: a merge would keep yesterday's reason.
    return {"type": type, "status": "True" if status else "False", "reason": reason or None, "message": message or None}


def _dated(facts: Facts, condition: dict[str, Any]) -> dict[str, Any]:
    type, status = condition["type"], condition["status"]
    if type not in facts.transitions or facts.transitions[type][0] != status:
        facts.transitions[type] = (status, now())
    return condition | {"lastTransitionTime": facts.transitions[type][1]}


def _ready(state: State) -> bool:
    return isinstance(state, Running) and state.ready


def _succeeded(state: State) -> bool:
    return isinstance(state, Terminated) and state.exit_code == 0


def _go_list(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"


# ------------------------------------------------------------------------------------------------ containers


def _container_status(spec: PodSpec, container: ContainerSpec, facts: Facts, *, init: bool = False) -> dict[str, Any]:
    state = facts.states[container.name]
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "restartCount": 0,
        "ready": _succeeded(state) if init else _ready(state),
        "started": isinstance(state, Running),
        "state": _state(spec, container, state),
        "lastState": {},
    }
    if container.mounts:
        status["volumeMounts"] = container.mounts
    if not isinstance(state, Waiting) and state.since:
        image = f"sha256:{sha256(container.image.encode()).hexdigest()}"
        status |= {"imageID": image, "containerID": _container_id(spec, container), "resources": container.resources}
        if requests := container.resources.get("requests"):
            status["allocatedResources"] = requests
    return status


def _state(spec: PodSpec, container: ContainerSpec, state: State) -> dict[str, Any]:
    if isinstance(state, Waiting):
        waiting = {"reason": state.reason or ("PodInitializing" if spec.init else "ContainerCreating")}
        return {"waiting": waiting | {"message": state.message} if state.message else waiting}
    if isinstance(state, Running):
        return {"running": {"startedAt": state.since}}
    ended: dict[str, Any] = {"exitCode": state.exit_code, "reason": state.reason or ("Error" if state.exit_code else "Completed")}
    if state.message:
        limit = min(LONGEST_MESSAGE, LONGEST_MESSAGES // len(spec.all))
        ended["message"] = state.message.encode()[:limit].decode("utf-8", "ignore")
    if state.since:
        ended |= {"startedAt": state.since, "finishedAt": state.finished, "containerID": _container_id(spec, container)}
    return {"terminated": ended}


def _container_id(spec: PodSpec, container: ContainerSpec) -> str:
    return f"containerd://{sha256(f'{spec.uid}/{container.name}'.encode()).hexdigest()}"
