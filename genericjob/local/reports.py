"""What is reported about a pod whose containers are processes: its status, as a kubelet would write it.

A pure function of what was seen. Conditions that others write (the scheduler's, a disruption's) are handed through.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
TERMINAL = (SUCCEEDED, FAILED)
LONGEST_MESSAGE = 4096

OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


@dataclass(frozen=True)
class Waiting:
    """Not started."""

    reason: str = "PodInitializing"
    message: str = ""


@dataclass(frozen=True)
class Running:
    """A process."""

    since: datetime


@dataclass(frozen=True)
class Ended:
    """A process that has ended, or (without `since`) never began."""

    exit_code: int
    at: datetime
    since: datetime | None = None
    reason: str = ""
    message: str = ""


State = Waiting | Running | Ended


@dataclass(frozen=True)
class Seen:
    """What was seen of a pod: containers by name, in the order of the manifest."""

    ip: str
    began: datetime
    init: Mapping[str, State]
    sidecars: frozenset[str]
    """Init containers that nobody waits for."""
    containers: Mapping[str, State]
    images: Mapping[str, str]
    over: bool
    """Nothing of it runs, and nothing will."""

    @property
    def initialized(self) -> bool:
        """Whether all init containers have done their work."""
        return all(_done(state) or (name in self.sidecars and not isinstance(state, Waiting)) for name, state in self.init.items())

    @property
    def decided(self) -> bool:
        """Whether the outcome is certain, although something may still run."""
        return self.init_failed or all(isinstance(state, Ended) for state in self.containers.values())

    @property
    def init_failed(self) -> bool:
        """Whether the containers can never begin."""
        return any(isinstance(state, Ended) and state.exit_code for name, state in self.init.items() if name not in self.sidecars)

    @property
    def phase(self) -> str:
        """One word for all of it. A terminal one comes when nothing runs any more."""
        states = self.containers.values()
        if self.over:
            return SUCCEEDED if all(map(_done, states)) else FAILED
        begun = self.initialized and not any(isinstance(state, Waiting) for state in states)
        return RUNNING if begun else PENDING


def _done(state: State) -> bool:
    return isinstance(state, Ended) and state.exit_code == 0


Conditions = Sequence[Mapping[str, Any]]


def status(seen: Seen, *, own: Conditions, others: Conditions, now: datetime) -> dict[str, Any]:
    """The status to report, given the conditions as they were reported last, and as they are on record."""
    return {
        "phase": seen.phase,
        "startTime": stamp(seen.began),
        "hostIP": "127.0.0.1",
        "podIP": seen.ip,
        "podIPs": [{"ip": seen.ip}],
        "conditions": [*_of_others(others), *_dated(_conditions(seen), own, now)],
        "containerStatuses": [_container(name, state, seen) for name, state in seen.containers.items()],
        **({"initContainerStatuses": [_container(name, state, seen) for name, state in seen.init.items()]} if seen.init else {}),
    }


def stamp(moment: datetime) -> str:
    """A time as objects carry it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ------------------------------------------------------------------------------------------------ conditions


def _conditions(seen: Seen) -> Iterator[dict[str, Any]]:
    yield _condition("PodReadyToStartContainers", not seen.over)
    yield _condition("Initialized", seen.initialized, "ContainersNotInitialized")
    unready = [name for name, state in seen.containers.items() if not isinstance(state, Running)]
    why = {SUCCEEDED: "PodCompleted", FAILED: "PodFailed"}.get(seen.phase, "ContainersNotReady")
    message = f"containers with unready status: [{' '.join(unready)}]" if seen.phase not in TERMINAL else ""
    for type in ("Ready", "ContainersReady"):
        yield _condition(type, not unready, why, message)


def _condition(type: str, status: bool, reason: str = "", message: str = "") -> dict[str, Any]:
    if status:
        return {"type": type, "status": "True"}
    return {"type": type, "status": "False"} | ({"reason": reason} if reason else {}) | ({"message": message} if message else {})


def _of_others(before: Conditions) -> Iterator[Mapping[str, Any]]:
    return (condition for condition in before if condition.get("type") not in OWN_CONDITIONS)


def _dated(conditions: Iterable[dict[str, Any]], before: Conditions, now: datetime) -> Iterator[dict[str, Any]]:
    known = {(condition.get("type"), condition.get("status")): condition.get("lastTransitionTime") for condition in before}
    text = stamp(now)
    for condition in conditions:
        yield condition | {"lastTransitionTime": known.get((condition["type"], condition["status"])) or text}


# ------------------------------------------------------------------------------------------------ containers


def _container(name: str, state: State, seen: Seen) -> dict[str, Any]:
    ready = _done(state) if name in seen.init and name not in seen.sidecars else isinstance(state, Running)
    return {
        "name": name,
        "image": seen.images.get(name, ""),
        "imageID": "",
        "ready": ready,
        "started": isinstance(state, Running),
        "restartCount": 0,
        "state": _state(state),
        "lastState": {},
    }


def _state(state: State) -> dict[str, Any]:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason} | ({"message": message[:LONGEST_MESSAGE]} if message else {})}
        case Running(since):
            return {"running": {"startedAt": stamp(since)}}
        case Ended():
            ended: dict[str, Any] = {"exitCode": state.exit_code, "reason": state.reason or ("Error" if state.exit_code else "Completed")}
            if state.message:
                ended["message"] = state.message[:LONGEST_MESSAGE]
            return {"terminated": ended | {"startedAt": stamp(state.since or state.at), "finishedAt": stamp(state.at)}}
