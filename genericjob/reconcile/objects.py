"""Slim objects: what controllers remember of pods and services, read straight from the server's JSON.

A pod is 5 KB on the wire and must be about 1 KB in a cache of 100,000. So a wire struct names just the fields that are read (msgspec skips
the rest without building them), and a flat frozen struct keeps them, sharing every value that pods tend to have in common: label values,
conditions, container states, times.

The server may be newer than this file. Every wire field is optional and may be null, enumerations are plain strings, unknown fields are
ignored: nothing that a newer server adds can raise here.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

MESSAGE_LIMIT = 256
"""Longest message kept of a pod or container, in characters. Logs are the place for more."""


class Object(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What every object has. Shared between threads and with the cache: never changed."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_uid: str
    """UID of the controlling owner; empty if there is none."""
    finalizers: tuple[str, ...]
    created: datetime | None
    deleted: datetime | None
    """When deletion was asked for. Such an object still exists, and may still run."""


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One of a pod's conditions, without its times."""

    type: str
    status: str
    reason: str
    message: str


class Container(msgspec.Struct, frozen=True, gc=False):
    """What a container is doing, or how it ended."""

    name: str
    state: str
    """`waiting`, `running`, `terminated`, or empty when the kubelet has not said anything yet."""
    reason: str
    message: str
    exit_code: int | None
    restarts: int
    finished: datetime | None


class Pod(Object, frozen=True, gc=False, kw_only=True):
    """A pod, as far as a job controller cares."""

    node: str
    phase: str
    reason: str
    message: str
    conditions: tuple[Condition, ...]
    init_containers: tuple[Container, ...]
    containers: tuple[Container, ...]


class Port(msgspec.Struct, frozen=True, gc=False):
    """One port of a service."""

    name: str
    port: int
    target: int | str


class Service(Object, frozen=True, gc=False, kw_only=True):
    """A service; `cluster_ip` is "None" for a headless one."""

    cluster_ip: str
    ports: tuple[Port, ...]


# ------------------------------------------------------------------------------------------------ as the server writes them


class _Wire(msgspec.Struct, rename="camel", gc=False):
    pass


class _WireOwner(_Wire):
    uid: str | None = None
    controller: bool | None = None


class _WireMeta(_Wire):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str | None] | None = None
    annotations: dict[str, str | None] | None = None
    owner_references: list[_WireOwner | None] | None = None
    finalizers: list[str | None] | None = None


class WireObject(_Wire):
    """Any object, metadata only."""

    metadata: _WireMeta | None = None


class _WireCondition(_Wire):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class _WireState(_Wire):
    reason: str | None = None
    message: str | None = None
    exit_code: int | None = None
    finished_at: str | None = None


class _WireStates(_Wire):
    waiting: _WireState | None = None
    running: _WireState | None = None
    terminated: _WireState | None = None


class _WireContainer(_Wire):
    name: str | None = None
    state: _WireStates | None = None
    restart_count: int | None = None


class _WirePodSpec(_Wire):
    node_name: str | None = None


class _WirePodStatus(_Wire):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_WireCondition | None] | None = None
    init_container_statuses: list[_WireContainer | None] | None = None
    container_statuses: list[_WireContainer | None] | None = None


class WirePod(WireObject):
    """A pod, the read parts of it."""

    spec: _WirePodSpec | None = None
    status: _WirePodStatus | None = None


class _WirePort(_Wire):
    name: str | None = None
    port: int | None = None
    target_port: int | str | None = None


class _WireServiceSpec(_Wire):
    cluster_ip: str | None = msgspec.field(default=None, name="clusterIP")
    ports: list[_WirePort | None] | None = None


class WireService(WireObject):
    """A service, the read parts of it."""

    spec: _WireServiceSpec | None = None


# ------------------------------------------------------------------------------------------------ from one to the other

_NO_META = _WireMeta()
_NO_POD_SPEC = _WirePodSpec()
_NO_POD_STATUS = _WirePodStatus()
_NO_SERVICE_SPEC = _WireServiceSpec()
_NO_STATE = _WireState()
_NOTHING: Mapping[str, str] = {}


def slim_object(wire: WireObject) -> Object:
    """Keep the metadata."""
    return Object(**_meta(wire.metadata or _NO_META, frozenset()))


def slim_pod(annotations: frozenset[str] = frozenset()) -> Callable[[WirePod], Pod]:
    """A reader of pods that keeps these annotations; others can be megabytes, and nobody reads them."""

    def slim(wire: WirePod) -> Pod:
        spec, status = wire.spec or _NO_POD_SPEC, wire.status or _NO_POD_STATUS
        return Pod(
            node=intern(spec.node_name or ""),
            phase=intern(status.phase or ""),
            reason=intern(status.reason or ""),
            message=_short(status.message),
            conditions=_conditions(status.conditions),
            init_containers=_containers(status.init_container_statuses),
            containers=_containers(status.container_statuses),
            **_meta(wire.metadata or _NO_META, annotations),
        )

    return slim


def slim_service(wire: WireService) -> Service:
    """Keep what tells whether a service is still the one that was asked for."""
    spec = wire.spec or _NO_SERVICE_SPEC
    return Service(
        cluster_ip=intern(spec.cluster_ip or ""),
        ports=tuple(_port(port.name or "", port.port or 0, port.target_port or 0) for port in spec.ports or () if port),
        **_meta(wire.metadata or _NO_META, frozenset()),
    )


def _meta(meta: _WireMeta, annotations: frozenset[str]) -> dict[str, Any]:
    return {
        "namespace": intern(meta.namespace or ""),
        "name": intern(meta.name or ""),
        "uid": meta.uid or "",
        "resource_version": meta.resource_version or "",
        "generation": meta.generation or 0,
        "labels": {key: intern(value or "") for key, value in meta.labels.items()} if meta.labels else _NOTHING,
        "annotations": _kept(meta.annotations, annotations) if annotations and meta.annotations else _NOTHING,
        "owner_uid": next((intern(owner.uid or "") for owner in meta.owner_references or () if owner and owner.controller), ""),
        "finalizers": tuple(name for name in meta.finalizers if name) if meta.finalizers else (),
        "created": instant(meta.creation_timestamp),
        "deleted": instant(meta.deletion_timestamp),
    }


def _kept(found: Mapping[str, str | None], names: frozenset[str]) -> Mapping[str, str]:
    return {name: found[name] or "" for name in names if name in found} or _NOTHING


def _conditions(found: Sequence[_WireCondition | None] | None) -> tuple[Condition, ...]:
    if not found:
        return ()
    return _shared(tuple(_condition(c.type or "", c.status or "", c.reason or "", _short(c.message)) for c in found if c))


def _containers(found: Sequence[_WireContainer | None] | None) -> tuple[Container, ...]:
    if not found:
        return ()
    return _shared(tuple(_container(c) for c in found if c))


def _container(wire: _WireContainer) -> Container:
    name, states, restarts = intern(wire.name or ""), wire.state, wire.restart_count or 0
    if states is None:
        return _shared(Container(name, "", "", "", None, restarts, None))
    if states.terminated is not None:
        end = states.terminated
        return _shared(
            Container(name, "terminated", end.reason or "", _short(end.message), end.exit_code, restarts, instant(end.finished_at))
        )
    if states.running is not None:
        return _shared(Container(name, "running", "", "", None, restarts, None))
    wait = states.waiting or _NO_STATE
    return _shared(Container(name, "waiting" if states.waiting else "", wait.reason or "", _short(wait.message), None, restarts, None))


def _short(message: str | None) -> str:
    return (message or "")[:MESSAGE_LIMIT]


@lru_cache(maxsize=8192)
def instant(text: str | None) -> datetime | None:
    """Read a time as the server writes it; anything that is not one reads as absent."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def _condition(type: str, status: str, reason: str, message: str) -> Condition:
    return Condition(intern(type), intern(status), intern(reason), message)


@lru_cache(maxsize=1024)
def _port(name: str, port: int, target: int | str) -> Port:
    return Port(name, port, target)


@lru_cache(maxsize=8192)
def _same(value: Any) -> Any:
    return value


def _shared(value: T) -> T:
    """The first of equal values: thousands of pods then hold one and the same."""
    return _same(value)  # type: ignore[no-any-return]
