"""Names of things on the server: where a kind lives, and what its objects are read into."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from .objects import (
    Kept,
    Object,
    Pod,
    Service,
    Unreadable,
    WireObject,
    WirePod,
    WireService,
    salvaged_pod,
    slim_object,
    slim_pod,
    slim_service,
)

T = TypeVar("T")


class Key(NamedTuple):
    """Which object of a kind; the namespace is empty for kinds that have none."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, eq=False)  # one is itself only: it is looked up on every request
class Resource(Generic[T]):
    """A kind on the server, and the form its objects take here: JSON is read into `wire`, and `slim` makes the object of that."""

    group: str
    version: str
    plural: str
    kind: str
    wire: Any
    slim: Callable[[Any], T]
    namespaced: bool = True
    salvage: Callable[[Unreadable, bytes], T | None] | None = None
    """Makes an object of one that cannot be decoded but whose identity is known, so that controllers can act on what is known."""

    @property
    def api_version(self) -> str:
        """As manifests write it: `v1`, `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """As messages write it: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The server's path of the collection, the object or its subresource."""
        parts = [f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"]
        if namespace and self.namespaced:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        if name:
            # A NAME IS USER INPUT: "..", "/" or "?" in it must not reach another object.
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


_PLAIN = re.compile(r"[\w.~-]*", re.ASCII)


def _quoted(text: str) -> str:
    """Return a part of a path. Nearly all names need no quoting, and to find that out by `quote` costs four times as much."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


def raw(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[dict[str, Any]]:
    """A kind whose objects are read whole, as dicts."""
    return Resource(group, version, plural, kind, dict[str, Any], _as_it_is, namespaced)


def partial(group: str, version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Object]:
    """A kind of which only the metadata is read."""
    return Resource(group, version, plural, kind, WireObject, slim_object, namespaced)


def pods(*, labels: frozenset[str] | None = None, annotations: frozenset[str] = frozenset()) -> Resource[Pod]:
    """Slim pods that remember these labels (None: all of them) and annotations."""
    kept = Kept(labels, annotations)
    return Resource("", "v1", "pods", "Pod", WirePod, slim_pod(kept), salvage=salvaged_pod(kept))


def services(*, labels: frozenset[str] | None = None) -> Resource[Service]:
    """Slim services that remember these labels (None: all of them)."""
    return Resource("", "v1", "services", "Service", WireService, slim_service(Kept(labels)))


def _as_it_is(value: dict[str, Any]) -> dict[str, Any]:
    return value


PODS = pods()
SERVICES = services()

RAW_PODS = raw("", "v1", "pods", "Pod")
RAW_SERVICES = raw("", "v1", "services", "Service")
CONFIG_MAPS = raw("", "v1", "configmaps", "ConfigMap")
SECRETS = raw("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = raw("", "v1", "serviceaccounts", "ServiceAccount")
EVENTS = raw("", "v1", "events", "Event")
LEASES = raw("coordination.k8s.io", "v1", "leases", "Lease")
NODES = raw("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = raw("", "v1", "namespaces", "Namespace", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = raw("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
