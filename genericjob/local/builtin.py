"""The built-in kinds, as far as their rules are seen through the port.

Of their fields an outline is known (`shapes.py`): below it an unknown field is kept, and a wrong value not refused.
"""

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from genericjob.reconcile.errors import Cause

from . import names, pods, shapes
from .drafts import Draft, same
from .kinds import NAMED, Kind, keep_spec, keep_status
from .refusals import denied, missing, wrong
from .selectors import Field

NAMESPACE_FINALIZER = "kubernetes"
EVENT_LIFETIME = timedelta(hours=1)
"""The default of kube-apiserver's --event-ttl."""
_DATA_LIMIT = 1024 * 1024
_NAME = {"metadata.name": NAMED["metadata.name"]}


def _paths(*paths: str) -> dict[str, Field]:
    return {path: Field((path,)) for path in paths}


# ------------------------------------------------------------------------------------------------ services


def _fill_service(service: Draft) -> None:
    spec = service.section("spec")
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.setdefault("port", 0))


def _service_creator(next_address: Callable[[], str]) -> Callable[[Draft], None]:
    def create(service: Draft) -> None:
        spec = service.section("spec")
        if spec["type"] != "ExternalName":
            address = spec.get("clusterIP") or next_address()
            spec["clusterIP"] = address
            spec.setdefault("clusterIPs", [address])
            spec.setdefault("ipFamilies", ["IPv4"])
            spec.setdefault("ipFamilyPolicy", "SingleStack")
        _create_bare_service(service)

    return create


def _create_bare_service(service: Draft) -> None:
    """The back door of the real server, too: a service that comes by its status gets no address."""
    service.rest["status"] = {"loadBalancer": {}}


def _update_service(new: Draft, old: Draft) -> None:
    new.keep("status", old)
    spec, before = new.section("spec"), old.peek("spec")
    if spec["type"] != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field) and field in before:
                spec[field] = before[field]


def _check_service(new: Draft, old: Draft | None) -> Iterable[Cause]:
    spec = new.peek("spec")
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield missing("spec.ports")
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        yield missing("spec.clusterIPs")
    yield from _check_ports(spec.get("ports") or ())
    before = old.peek("spec") if old else spec
    if spec.get("type") == before.get("type") and spec.get("clusterIP") != before.get("clusterIP"):
        yield wrong("spec.clusterIPs[0]", [spec.get("clusterIP")], "may not change once set")


def _check_ports(ports: Sequence[dict[str, Any]]) -> Iterator[Cause]:
    seen: set[Any] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name") or ""
        if not name and len(ports) > 1:
            yield missing(f"{path}.name")
        elif name and (why := names.dns_label(name)):
            yield wrong(f"{path}.name", name, why)
        for field, what in (("name", name), ("", (port.get("protocol"), port.get("port")))):
            if what and what in seen:
                yield Cause(f"{path}.{field}".rstrip("."), f"Duplicate value: {what}", "FieldValueDuplicate")
            seen.add(what)
        if not 1 <= (port.get("port") or 0) <= 65535:
            yield wrong(f"{path}.port", port.get("port"), "must be between 1 and 65535, inclusive")


def _check_service_status(new: Draft, old: Draft) -> Iterable[Cause]:
    balancer = new.peek("status").get("loadBalancer") or {}
    if balancer.get("ingress") and old.peek("spec").get("type") != "LoadBalancer":
        yield denied("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")


# ------------------------------------------------------------------------------------------------ the others


def _create_namespace(namespace: Draft) -> None:
    namespace.rest["status"] = {"phase": "Active"}
    finalizers = namespace.section("spec").setdefault("finalizers", [])
    if NAMESPACE_FINALIZER not in finalizers:
        finalizers.append(NAMESPACE_FINALIZER)
    namespace.meta.labels = {**namespace.meta.labels, "kubernetes.io/metadata.name": namespace.meta.name}


def _update_namespace(new: Draft, old: Draft) -> None:
    new.keep("status", old)
    new.keep("spec", old)
    new.meta.labels = {**new.meta.labels, "kubernetes.io/metadata.name": new.meta.name}


def _fill_secret(secret: Draft) -> None:
    secret.rest.setdefault("type", "Opaque")
    plain = secret.rest.pop("stringData", None)
    if isinstance(plain, dict):
        secret.section("data").update({name: base64.b64encode(str(text).encode()).decode() for name, text in plain.items()})


def _check_lease(new: Draft, old: Draft | None) -> Iterable[Cause]:
    spec = new.peek("spec")
    if spec.get("leaseDurationSeconds", 1) <= 0:
        yield wrong("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        yield wrong("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")


def _fill_event(event: Draft) -> None:
    """These fields of an event are written even when nothing is known."""
    rest = event.rest
    rest.setdefault("involvedObject", {})
    rest.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
        rest.setdefault(field, None)
    for field in ("reportingComponent", "reportingInstance"):
        rest.setdefault(field, "")


def _check_event(new: Draft, old: Draft | None) -> Iterable[Cause]:
    about, namespace = new.rest["involvedObject"].get("namespace") or "", new.meta.namespace
    if about != namespace and (about or namespace != "default"):
        yield wrong("involvedObject.namespace", about, "does not match event.namespace")


def _check_frozen(new: Draft, old: Draft | None) -> Iterable[Cause]:
    """ConfigMaps and secrets have a limit, and may declare themselves immutable."""
    data = new.peek("data")
    if len(data) > 0 and sum(len(str(value)) for value in data.values()) > _DATA_LIMIT:
        yield Cause("[]", f"Too long: may not be more than {_DATA_LIMIT} bytes", "FieldValueTooLong")
    if old is None or not old.rest.get("immutable"):
        return
    for field in ("immutable", "data", "binaryData"):
        if not same(new.rest.get(field), old.rest.get(field)):
            yield denied(field, "field is immutable when `immutable` is set")


_POD_FIELDS = _paths(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
) | {
    "spec.host": Field(("spec.nodeName",)),
    "spec.hostNetwork": Field(("spec.hostNetwork",), "false"),
    "status.podIPs": Field(()),
}

_EVENT_FIELDS = _paths(
    *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")),
    "reason",
    "reportingComponent",
    "type",
) | {"source": Field(("source.component", "reportingComponent"))}


def kinds(next_address: Callable[[], str]) -> Iterator[Kind]:
    """All of them; `next_address` gives services their addresses."""
    core: dict[str, Any] = {"group": "", "version": "v1"}
    yield Kind(
        **core,
        plural="pods",
        shape=shapes.POD,
        kind="Pod",
        status=True,
        returns_deleted=True,
        fields=NAMED | _POD_FIELDS,
        fill=pods.fill,
        creating=pods.create,
        updating=pods.update,
        updating_status=pods.update_status,
        check=pods.check,
        check_status=pods.check_status,
        grace=pods.grace,
    )
    yield Kind(
        **core,
        plural="services",
        shape=shapes.SERVICE,
        kind="Service",
        status=True,
        create_on_update=True,
        returns_deleted=True,
        name=names.label_1035,
        fields=NAMED | _paths("spec.clusterIP", "spec.type"),
        fill=_fill_service,
        creating=_service_creator(next_address),
        creating_by_status=_create_bare_service,
        updating=_update_service,
        check=_check_service,
        check_status=_check_service_status,
    )
    yield Kind(**core, plural="configmaps", kind="ConfigMap", shape=shapes.CONFIG_MAP, check=_check_frozen)
    yield Kind(
        **core, plural="secrets", kind="Secret", shape=shapes.SECRET, fields=NAMED | _paths("type"), fill=_fill_secret, check=_check_frozen
    )
    yield Kind(**core, plural="serviceaccounts", kind="ServiceAccount", shape=shapes.SERVICE_ACCOUNT, returns_deleted=True)
    yield Kind(
        **core,
        plural="events",
        shape=shapes.EVENT,
        kind="Event",
        create_on_update=True,
        propagates=False,
        lifetime=EVENT_LIFETIME,
        name=names.path_segment,
        fields=NAMED | _EVENT_FIELDS,
        fill=_fill_event,
        check=_check_event,
    )
    yield Kind(
        **core,
        plural="nodes",
        shape=shapes.NODE,
        kind="Node",
        namespaced=False,
        status=True,
        fields=_NAME | {"spec.unschedulable": Field(("spec.unschedulable",), "false")},
        updating=keep_status,
    )
    yield Kind(
        **core,
        plural="namespaces",
        shape=shapes.NAMESPACE,
        kind="Namespace",
        namespaced=False,
        status=True,
        returns_deleted=True,
        name=names.label,
        fields=_NAME | _paths("status.phase"),
        creating=_create_namespace,
        updating=_update_namespace,
        updating_status=keep_spec,
    )
    yield Kind(
        group="coordination.k8s.io",
        version="v1",
        plural="leases",
        kind="Lease",
        shape=shapes.LEASE,
        check=_check_lease,
        unconditional_update=False,
        create_on_update=True,
    )
