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
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from .pieces import members_of
from .structs import converter, decoder

T = TypeVar("T")

NEVER_STARTS = "NeverStartsHere"
"""Reason of a container that has ended because the machine of a run can never start it. Kubelets do not report it."""
UNREADABLE = "Unreadable"
"""The reason of a pod in phase Unknown of which only the metadata could be decoded."""

MESSAGE_LIMIT = 256
"""Longest message kept of a pod or container, in characters. Logs are the place for more."""

FINALIZER_LIMIT = 8
"""Finalizers that are kept: whether there are any matters, and a few names for people."""


class Object(msgspec.Struct, frozen=True, gc=False):
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
    """The first of them."""
    created: datetime | None
    deleted: datetime | None
    """When deletion was asked for. Such an object still exists, and may still run."""


class Unreadable(msgspec.Struct, frozen=True, gc=False):
    """An object that the server has and that could not be decoded, as far as its identity is known."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    problem: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.name))) or "an object without a readable name"


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
    started: datetime | None = None
    """Of one that has ended; running ones would all differ by it."""


class Pod(Object, frozen=True, gc=False):
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


class Service(Object, frozen=True, gc=False):
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
    started_at: str | None = None
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


# Positional and in the order of the structs' fields: names would cost a third of the whole reading.


def slim_object(wire: WireObject) -> Object:
    """Keep the metadata."""
    return Object(*metadata(wire))


def object_of(body: Mapping[str, Any]) -> Object:
    """The same of an object that was read whole."""
    return slim_object(_as_wire(body))


_as_wire = converter(WireObject)
_read_meta = decoder(_WireMeta).decode


class Kept(NamedTuple):
    """Which labels and annotations are remembered, by name. Others can be megabytes, and nobody reads them."""

    labels: frozenset[str] | None = None
    """None keeps all."""
    annotations: frozenset[str] = frozenset()


ALL_LABELS, NO_LABELS = Kept(), Kept(frozenset())


def metadata(wire: WireObject, kept: Kept = ALL_LABELS) -> "Metadata":
    """The fields of an `Object`, in their order: for kinds that have more."""
    return _meta(wire.metadata or _NO_META, kept)


def slim_pod(kept: Kept = ALL_LABELS) -> Callable[[WirePod], Pod]:
    """Return a reader of pods."""

    def slim(wire: WirePod) -> Pod:
        spec, status = wire.spec or _NO_POD_SPEC, wire.status or _NO_POD_STATUS
        return Pod(
            *_meta(wire.metadata or _NO_META, kept),
            intern(spec.node_name or ""),
            intern(status.phase or ""),
            intern(status.reason or ""),
            _short(status.message),
            _conditions(status.conditions),
            _containers(status.init_container_statuses),
            _containers(status.container_statuses),
        )

    return slim


def salvaged_pod(kept: Kept = ALL_LABELS) -> Callable[[Unreadable, bytes], Pod | None]:
    """A reader of pods of which only the metadata can be decoded: it is not known what they do.

    Their names are taken and their jobs wait for them, as for pods on a node that cannot be reached.
    """

    def salvage(found: Unreadable, data: bytes) -> Pod | None:
        try:
            known = _meta(_read_meta(_needed(data)), kept)
        except (ValueError, RecursionError):
            return None
        return Pod(*known, "", "Unknown", UNREADABLE, found.problem, (), (), ())

    return salvage


def _needed(data: bytes) -> bytes:
    """The JSON of the metadata that tells whose pod it is and of which try. Other members may be what cannot be decoded."""
    found = members_of("metadata", data)
    return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), value) for name, value in found if name in _NEEDED)


_NEEDED = frozenset(("namespace", "name", "uid", "resourceVersion", "labels", "annotations", "ownerReferences", "deletionTimestamp"))


def slim_service(kept: Kept = ALL_LABELS) -> Callable[[WireService], Service]:
    """Return a reader of services, which keeps what tells whether a service is still the one that was asked for."""

    def slim(wire: WireService) -> Service:
        spec = wire.spec or _NO_SERVICE_SPEC
        ports = tuple(_port(port.name or "", port.port or 0, port.target_port or 0) for port in spec.ports or () if port)
        return Service(*_meta(wire.metadata or _NO_META, kept), intern(spec.cluster_ip or ""), ports)

    return slim


Metadata = tuple[str, str, str, str, int, Mapping[str, str], Mapping[str, str], str, tuple[str, ...], datetime | None, datetime | None]


def _meta(meta: _WireMeta, kept: Kept) -> Metadata:
    labels, annotations = kept
    return (
        intern(meta.namespace or ""),
        intern(meta.name or ""),
        meta.uid or "",
        meta.resource_version or "",
        meta.generation or 0,
        _labels(meta.labels, labels) if meta.labels else _NOTHING,
        _annotations(meta.annotations, annotations) if annotations and meta.annotations else _NOTHING,
        _controller(meta.owner_references) if meta.owner_references else "",
        tuple(name for name in meta.finalizers[:FINALIZER_LIMIT] if name) if meta.finalizers else (),
        instant(meta.creation_timestamp),
        instant(meta.deletion_timestamp) if meta.deletion_timestamp else None,
    )


def _controller(owners: Sequence[_WireOwner | None]) -> str:
    for owner in owners:
        if owner and owner.controller:
            return intern(owner.uid or "")
    return ""


def _labels(found: Mapping[str, str | None], names: frozenset[str] | None) -> Mapping[str, str]:
    if names is None:
        return {name: intern(value or "") for name, value in found.items()}
    return {name: intern(found[name] or "") for name in names if name in found} or _NOTHING


def _annotations(found: Mapping[str, str | None], names: frozenset[str]) -> Mapping[str, str]:
    # A controller writes short values; users can put 256 KiB in their place.
    return {name: (found[name] or "")[:MESSAGE_LIMIT] for name in names if name in found} or _NOTHING


def _conditions(found: Sequence[_WireCondition | None] | None) -> tuple[Condition, ...]:
    if not found:
        return ()
    return _shared(tuple([_condition(c.type, c.status, c.reason, _short(c.message)) for c in found if c]))


def _containers(found: Sequence[_WireContainer | None] | None) -> tuple[Container, ...]:
    if not found:
        return ()
    return _shared(tuple([_container(c) for c in found if c]))


def _container(wire: _WireContainer) -> Container:
    name, states, restarts = intern(wire.name or ""), wire.state, wire.restart_count or 0
    if states is None:
        return _shared(Container(name, "", "", "", None, restarts, None))
    if states.terminated is not None:
        end = states.terminated
        times = instant(end.finished_at), instant(end.started_at)
        return _shared(Container(name, "terminated", end.reason or "", _short(end.message), end.exit_code, restarts, *times))
    if states.running is not None:
        return _shared(Container(name, "running", "", "", None, restarts, None))
    wait = states.waiting or _NO_STATE
    return _shared(Container(name, "waiting" if states.waiting else "", wait.reason or "", _short(wait.message), None, restarts, None))


def _short(message: str | None) -> str:
    return message[:MESSAGE_LIMIT] if message else ""


@lru_cache(maxsize=8192)
def instant(text: str | None) -> datetime | None:
    """Read a time as the server writes it; anything that is not one reads as absent."""
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def _condition(type: str | None, status: str | None, reason: str | None, message: str) -> Condition:
    return Condition(type or "", status or "", reason or "", message)


@lru_cache(maxsize=1024)
def _port(name: str, port: int, target: int | str) -> Port:
    return Port(name, port, target)


@lru_cache(maxsize=8192)
def _same(value: Any) -> Any:
    return value


def _shared(value: T) -> T:
    """The first of equal values: thousands of pods then hold one and the same."""
    return cast(T, _same(value))
