"""What a container would run, as a program of this machine.

A kubelet makes a command line, an environment and a directory of a container. So does this file, by the same rules: `$(NAME)` in command,
args and values stands for a variable declared before, an unknown name is left as it is, and `$$` is a plain `$`.

A program finds the environment of whoever started the run below its own: PATH, HOME and a virtual environment are what an image would
have brought along.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from genericjob.reconcile.structs import converter

CANNOT_START = 128
"""Exit code of a container whose program could not be started, as containerd has it."""


@dataclass(frozen=True)
class Launch:
    """A program that is ready to start; without a directory it starts where the run did."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    directory: str | None = None


@dataclass(frozen=True)
class Surroundings:
    """What a container may be told about its pod, its machine and the objects beside it."""

    metadata: Mapping[str, Any]
    ip: str
    node: str
    machine: Mapping[str, str]
    """Environment of this machine."""
    read: Callable[[Literal["ConfigMap", "Secret"], str], Mapping[str, Any] | None]
    """Finds an object of the pod's namespace by name."""


class CannotStartError(Exception):
    """This container will never start here."""


class NotYetError(Exception):
    """This container waits for something that may still come."""


# ------------------------------------------------------------------------------------------------ as manifests write it


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _KeyReference(_Wire):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class _FieldReference(_Wire):
    field_path: str = ""


class _Source(_Wire):
    field_ref: _FieldReference | None = None
    config_map_key_ref: _KeyReference | None = None
    secret_key_ref: _KeyReference | None = None


class _Variable(_Wire):
    name: str
    value: str | None = None
    value_from: _Source | None = None


class _Bundle(_Wire):
    prefix: str | None = None
    config_map_ref: _KeyReference | None = None
    secret_ref: _KeyReference | None = None


class _Container(_Wire):
    name: str
    command: list[str] | None = None
    args: list[str] | None = None
    working_dir: str | None = None
    env: list[_Variable] | None = None
    env_from: list[_Bundle] | None = None


_as_container = converter(_Container)

# ------------------------------------------------------------------------------------------------ the launch


def launch(spec: Mapping[str, Any], around: Surroundings) -> Launch:
    """What to start for a container."""
    try:
        container = _as_container(spec)
    except msgspec.ValidationError as error:
        raise CannotStartError(f"the container cannot be read: {error}") from None
    if not container.command:
        raise CannotStartError(
            "there is no command, and the entrypoint of the image "
            f"{spec.get('image') or ''} is not known here: write the program into `command`"
        )
    declared = _environment(container, around)
    argv = tuple(expand(word, declared) for word in (*container.command, *(container.args or ())))
    return Launch(argv, {**around.machine, "HOSTNAME": _text(around.metadata.get("name")), **declared}, container.working_dir or None)


_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Put variables in, as a kubelet does."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else variables.get(found[1], found[0])

    return _REFERENCE.sub(value, text)


def _environment(container: _Container, around: Surroundings) -> dict[str, str]:
    declared: dict[str, str] = {}
    for bundle in container.env_from or ():
        for name, value in _bundled(bundle, around).items():
            declared[(bundle.prefix or "") + name] = value
    for variable in container.env or ():
        if variable.value_from is not None:
            found = _sourced(variable.value_from, around)
            if found is not None:
                declared[variable.name] = found
        else:
            declared[variable.name] = expand(variable.value or "", declared)
    return declared


# ------------------------------------------------------------------------------------------------ values from elsewhere


def _bundled(bundle: _Bundle, around: Surroundings) -> Mapping[str, str]:
    if bundle.config_map_ref is not None:
        return _data("ConfigMap", bundle.config_map_ref, around) or {}
    if bundle.secret_ref is not None:
        return _data("Secret", bundle.secret_ref, around) or {}
    return {}


def _sourced(source: _Source, around: Surroundings) -> str | None:
    if source.field_ref is not None:
        return _field(source.field_ref.field_path, around)
    if source.config_map_key_ref is not None:
        return _entry("ConfigMap", source.config_map_key_ref, around)
    if source.secret_key_ref is not None:
        return _entry("Secret", source.secret_key_ref, around)
    raise CannotStartError("a variable takes its value from something else than fieldRef, configMapKeyRef or secretKeyRef: not known here")


_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def _field(path: str, around: Surroundings) -> str:
    if found := _ENTRY.fullmatch(path):
        return _text((around.metadata.get(found[1]) or {}).get(found[2]))
    known = {
        "metadata.name": around.metadata.get("name"),
        "metadata.namespace": around.metadata.get("namespace"),
        "metadata.uid": around.metadata.get("uid"),
        "spec.nodeName": around.node,
        "spec.serviceAccountName": "default",
        "status.podIP": around.ip,
        "status.podIPs": around.ip,
        "status.hostIP": "127.0.0.1",
    }
    if path not in known:
        raise CannotStartError(f"a variable takes its value from the pod's field {path!r}: not known here")
    return _text(known[path])


def _entry(kind: Literal["ConfigMap", "Secret"], reference: _KeyReference, around: Surroundings) -> str | None:
    data = _data(kind, reference, around)
    if data is not None and reference.key in data:
        return data[reference.key]
    if data is None or reference.optional:
        return None
    raise NotYetError(f"{kind} {reference.name} has no key {reference.key!r}")


def _data(kind: Literal["ConfigMap", "Secret"], reference: _KeyReference, around: Surroundings) -> Mapping[str, str] | None:
    found = around.read(kind, reference.name)
    if found is None:
        if reference.optional:
            return None
        raise NotYetError(f"{kind} {reference.name!r} not found")
    data = found.get("data") or {}
    return {name: _decoded(value) for name, value in data.items()} if kind == "Secret" else data


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value).decode(errors="replace")
    except binascii.Error:
        return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# ------------------------------------------------------------------------------------------------ what a process is not

_OF_POD = {"containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds", "schedulingGates"}
_OF_CONTAINER = {"name", "command", "args", "env", "envFrom", "workingDir", "ports", "imagePullPolicy"}


def unhonoured(spec: Mapping[str, Any]) -> Iterator[str]:
    """Fields of a pod's spec that mean nothing to a process, misspelled ones too; each once."""
    seen: set[str] = set()
    parts = [(spec, _OF_POD)]
    for group in ("initContainers", "containers"):
        found = spec.get(group)
        parts += [(each, _OF_CONTAINER) for each in found or () if isinstance(each, Mapping)] if isinstance(found, list) else []
    for part, honoured in parts:
        for name, value in part.items():
            if name not in honoured and value not in (None, {}, []) and name not in seen:
                seen.add(name)
                yield name
