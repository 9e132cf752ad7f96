"""What is wrong with the spec of a new pod: names, references and amounts, in the order in which the real server looks at them.

Values of a wrong type do not come so far (`shapes.py`). Of probes, security contexts, affinities and the rarer volumes nothing is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from genericjob.reconcile.errors import Cause

from . import names
from .amounts import amount
from .refusals import denied, missing, wrong

Object = Mapping[str, Any]

GROUPS = ("containers", "initContainers")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PORT_NAME = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_PLAIN_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def problems(spec: Object) -> Iterator[Cause]:
    """All of it, but for what containers are called."""
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield from _volume(volume, f"spec.volumes[{index}]", volumes)
    for group in GROUPS:
        for index, container in enumerate(spec.get(group) or ()):
            yield from _container(container, f"spec.{group}[{index}]", volumes)
    if spec.get("dnsPolicy", "ClusterFirst") not in _DNS_POLICIES:
        yield unsupported("spec.dnsPolicy", spec["dnsPolicy"], _DNS_POLICIES)


def named_containers(spec: Object) -> Iterator[Cause]:
    """What is wrong with names, images and restarts: asked at every change, too."""
    seen: set[str] = set()
    for group in GROUPS:
        for index, container in enumerate(spec.get(group) or ()):
            path, name, image = f"spec.{group}[{index}]", str(container.get("name") or ""), str(container.get("image") or "")
            if not image:
                yield missing(f"{path}.image")
            elif image != image.strip():
                yield wrong(f"{path}.image", image, "must not have leading or trailing whitespace")
            yield from _named(name, f"{path}.name", names.dns_label, seen)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        yield unsupported("spec.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES)


def unsupported(path: str, value: object, known: Sequence[str]) -> Cause:
    """A value that is none of a few."""
    told = ", ".join(f'"{one}"' for one in sorted(known))
    return Cause(path, f'Unsupported value: "{value}": supported values: {told}', "FieldValueNotSupported")


def _named(name: str, path: str, rule: names.NameRule, seen: set[str]) -> Iterator[Cause]:
    """A name that must be there, and be no other's."""
    if not name:
        yield missing(path)
    elif why := rule(name):
        yield wrong(path, name, why)
    elif name in seen:
        yield Cause(path, f'Duplicate value: "{name}"', "FieldValueDuplicate")
    seen.add(name)


# ------------------------------------------------------------------------------------------------ volumes

_WITHIN: Mapping[str, str] = {"configMap": "name", "secret": "secretName", "hostPath": "path", "persistentVolumeClaim": "claimName"}
"""What a volume is taken from, by its kind."""


def _volume(volume: Object, path: str, seen: set[str]) -> Iterator[Cause]:
    yield from _named(volume.get("name") or "", f"{path}.name", names.dns_label, seen)
    kinds = [kind for kind in volume if kind != "name"]
    for kind in kinds[1:]:
        yield denied(f"{path}.{kind}", "may not specify more than 1 volume type")
    for kind in kinds[:1]:
        field = _WITHIN.get(kind)
        if field and not volume[kind].get(field):
            yield missing(f"{path}.{kind}.{field}")
        for index, item in enumerate(volume[kind].get("items") or () if kind in ("configMap", "secret") else ()):
            for name in ("key", "path"):
                if not item.get(name):
                    yield missing(f"{path}.{kind}.items[{index}].{name}")
            yield from _inside(item.get("path") or "", f"{path}.{kind}.items[{index}].path")


def _mounts(mounts: Sequence[Object], path: str, volumes: set[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        here, name, at = f"{path}[{index}]", mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            yield missing(f"{here}.name")
        elif name not in volumes:
            yield Cause(f"{here}.name", f'Not found: "{name}"', "FieldValueNotFound")
        if not at:
            yield missing(f"{here}.mountPath")
        elif at in seen:
            yield wrong(f"{here}.mountPath", at, "must be unique")
        seen.add(at)
        yield from _inside(mount.get("subPath") or "", f"{path}.subPath")  # THE SERVER ITSELF does not say which


def _inside(place: str, path: str) -> Iterator[Cause]:
    """A path that leads out of where it begins."""
    if place.startswith("/"):
        yield wrong(path, place, "must be a relative path")
    if ".." in place.split("/"):
        yield wrong(path, place, "must not contain '..'")


# ------------------------------------------------------------------------------------------------ containers


def _container(container: Object, path: str, volumes: set[str]) -> Iterator[Cause]:
    yield from _ports(container.get("ports") or (), f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        yield from _variable(variable, f"{path}.env[{index}]")
    for index, bundle in enumerate(container.get("envFrom") or ()):
        yield from _bundle(bundle, f"{path}.envFrom", index)
    yield from _mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        yield unsupported(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), _PULL_POLICIES)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _ports(ports: Sequence[Object], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here, name = f"{path}[{index}]", port.get("name") or ""
        if name and not _PORT_NAME.fullmatch(name):
            why = "must be no more than 15 characters of a-z, 0-9 and single dashes, with at least one letter"
            yield wrong(f"{here}.name", name, why)
        elif name and name in seen:
            yield Cause(f"{here}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        seen.add(name)
        if not port.get("containerPort"):
            yield missing(f"{here}.containerPort")
        for field in ("containerPort", "hostPort"):
            if port.get(field) and not 1 <= port[field] <= 65535:
                yield wrong(f"{here}.{field}", port[field], "must be between 1 and 65535, inclusive")
        if port.get("protocol", "TCP") not in _PROTOCOLS:
            yield unsupported(f"{here}.protocol", port["protocol"], _PROTOCOLS)


def _variable(variable: Object, path: str) -> Iterator[Cause]:
    name = variable.get("name") or ""
    if not name:
        yield missing(f"{path}.name")
    elif "=" in name or not (name.isascii() and name.isprintable()):
        yield wrong(
            f"{path}.name", name, "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield wrong(f"{path}.valueFrom", "", "may not be specified when `value` is not empty")
    if len(source) != 1:
        why = "may not have more than one field specified at a time" if source else "must specify one of: `fieldRef`, `resourceFieldRef`, …"
        yield wrong(f"{path}.valueFrom", "", why)
    for kind, field in (("fieldRef", "fieldPath"), ("resourceFieldRef", "resource"), ("configMapKeyRef", "key"), ("secretKeyRef", "key")):
        if kind in source:
            where, value = f"{path}.valueFrom.{kind}.{field}", str(source[kind].get(field) or "")
            if not value:
                yield missing(where)
            elif field == "key" and not _KEY.fullmatch(value):
                yield wrong(where, value, "a valid key must consist of alphanumeric characters, '-', '_' or '.'")


def _bundle(bundle: Object, path: str, index: int) -> Iterator[Cause]:
    sources = [kind for kind in ("configMapRef", "secretRef") if kind in bundle]
    if len(sources) != 1:
        why = "may not have more than one field specified at a time" if sources else "must specify one of: `configMapRef` or `secretRef`"
        yield wrong(path, "", why)
    for kind in sources:
        if not bundle[kind].get("name"):
            yield missing(f"{path}[{index}].{kind}.name")


# ------------------------------------------------------------------------------------------------ resources


def _resources(resources: Object, path: str) -> Iterator[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for name, written in limits.items():
        yield from _resource(name, written, f"{path}.limits[{name}]")
    for name, written in requests.items():
        if name not in limits:
            yield from _resource(name, written, f"{path}.requests[{name}]")
            if _is_counted(name):
                yield missing(f"{path}.limits", "Limit must be set for non overcommitable resources")
        elif written != limits[name]:  # what is the same has been taken from there
            yield from _resource(name, written, f"{path}.requests[{name}]")
            yield from _request(name, written, limits[name], f"{path}.requests")


def _resource(name: str, written: object, path: str) -> Iterator[Cause]:
    if not _is_of_containers(name):
        yield wrong(path, name, "must be a standard resource for containers, or fully qualified")
    how_much = amount(written) or Decimal(0)
    if how_much < 0:
        yield wrong(path, written, "must be greater than or equal to 0")
    elif _is_counted(name) and how_much % 1:
        yield wrong(path, written, "must be an integer")


def _request(name: str, written: object, limit: object, path: str) -> Iterator[Cause]:
    asked, most = amount(written) or Decimal(0), amount(limit) or Decimal(0)
    if _is_counted(name) and asked != most:
        yield wrong(path, written, f"must be equal to {name} limit of {limit}")
    elif asked > most:
        yield wrong(path, written, f"must be less than or equal to {name} limit of {limit}")


def _is_of_containers(name: str) -> bool:
    if "/" not in name:
        return name in _PLAIN_RESOURCES or name.startswith("hugepages-")
    return not names.qualified(name) and not name.startswith("requests.")


def _is_counted(name: str) -> bool:
    """Whether there is no part of one, and no more of them than there are."""
    return ("/" in name and "kubernetes.io/" not in name) or name.startswith("hugepages-")
