"""Where a container's values come from: fields of its pod, resources, ConfigMaps and Secrets."""

import base64
import binascii
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal, Protocol

from .amounts import amount

Kind = Literal["ConfigMap", "Secret"]


@dataclass(frozen=True)
class Surroundings:
    """What a container may be told about its pod, its machine and the objects beside it."""

    metadata: Mapping[str, Any]
    ip: str
    node: str
    machine: Mapping[str, str]
    """Environment of this machine."""
    read: Callable[[Kind, str], Mapping[str, Any] | None]
    """Finds an object of the pod's namespace by name."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of the pod."""


class CannotStartError(Exception):
    """This container will never start here, unless the reason `may_pass`: the machine was short of something."""

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class NotYetError(Exception):
    """This container waits for something that may still come."""

    def __init__(self, message: str, *, reason: str = "CreateContainerConfigError") -> None:
        super().__init__(message)
        self.reason = reason


class Reference(Protocol):
    """What names an object."""

    @property
    def name(self) -> str:
        """Which one."""
        ...

    @property
    def optional(self) -> bool | None:
        """Whether it may be missing."""
        ...


# ------------------------------------------------------------------------------------------------ fields of the pod

_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def pod_field(path: str, around: Surroundings) -> str:
    """The value of a field, as a variable has it."""
    if found := _ENTRY.fullmatch(path):
        return _text((around.metadata.get(found[1]) or {}).get(found[2]))
    known = {
        "metadata.name": around.metadata.get("name"),
        "metadata.namespace": around.metadata.get("namespace"),
        "metadata.uid": around.metadata.get("uid"),
        "spec.nodeName": around.node,
        "spec.serviceAccountName": around.spec.get("serviceAccountName") or "default",
        "status.podIP": around.ip,
        "status.podIPs": around.ip,
        "status.hostIP": "127.0.0.1",
        "status.hostIPs": "127.0.0.1",
    }
    if path not in known:
        raise CannotStartError(f"a variable takes its value from the pod's field {path!r}: not known here")
    return _text(known[path])


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------------------------------------ resources


def resource_field(container: str, resource: str, divisor: object, around: Surroundings) -> str:
    """A limit or request as it is written; where none is, a limit is what the machine has."""
    kind, _, name = resource.partition(".")
    if kind not in ("limits", "requests") or not name:
        raise CannotStartError(f"a variable takes its value from the resource {resource!r}: not known here")
    spec = next((each for each in _containers(around.spec) if each.get("name") == container), None)
    if spec is None:
        raise CannotStartError(f"a variable takes its value from a resource of the container {container!r}, which the pod does not have")
    found = _written(spec.get("resources") or {}, kind, name)
    if found is None:
        found = _machines(name) if kind == "limits" else Decimal(0)
    return str(math.ceil(found / (quantity(divisor or 0) or 1)))


def _written(resources: Mapping[str, Any], kind: str, name: str) -> Decimal | None:
    for place in (kind, "limits"):  # a request that is not written is as large as the limit
        if name in (resources.get(place) or {}):
            return quantity(resources[place][name])
    return None


def _containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in ("initContainers", "containers"):
        yield from (each for each in spec.get(group) or () if isinstance(each, Mapping))


def quantity(written: object) -> Decimal:
    """An amount as manifests write it: `500m`, `2Gi`, `1e3`, `4`."""
    found = amount(written)
    if found is not None:
        return found
    raise CannotStartError(f"{written!r} is not an amount")


def _machines(name: str) -> Decimal:
    if name == "cpu":
        return Decimal(os.cpu_count() or 1)
    if name == "memory":
        return Decimal(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    return Decimal(0)


# ------------------------------------------------------------------------------------------------ ConfigMaps and Secrets


def entries(kind: Kind, reference: Reference, around: Surroundings, *, binary: bool = False) -> Mapping[str, bytes] | None:
    """What an object holds, by key; None when it is missing and may be. Binary data are for files, not for variables."""
    found = around.read(kind, reference.name)
    if found is None:
        if reference.optional:
            return None
        raise NotYetError(f"{kind} {reference.name!r} not found")
    data = found.get("data") or {}
    if kind == "Secret":
        return {name: _decoded(value) for name, value in data.items()}
    plain = {name: str(value).encode(errors="replace") for name, value in data.items()}
    return plain | ({name: _decoded(value) for name, value in (found.get("binaryData") or {}).items()} if binary else {})


def missing_key(kind: Kind, reference: Reference, key: str) -> NotYetError:
    """Why a container waits although its object is there."""
    return NotYetError(f"{kind} {reference.name} has no key {key!r}")


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error:
        return b""
