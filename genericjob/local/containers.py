"""What a container would run, as a program of this machine.

A kubelet makes a command line, an environment and a directory of a container. So does this file, by the same rules: `$(NAME)` in command,
args and values stands for a variable declared before, an unknown name is left as it is, and `$$` is a plain `$`.

A program finds the environment of whoever started the run below its own: PATH, HOME and a virtual environment are what an image would
have brought along.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from genericjob.reconcile.structs import converter

from .sources import CannotStartError, Kind, Surroundings, entries, missing_key, pod_field, resource_field
from .volumes import unhonoured_mounts, unhonoured_volumes

CANNOT_START = 128
"""Exit code of a container whose program could not be started, as containerd has it."""


@dataclass(frozen=True)
class Launch:
    """A program that is ready to start; without a directory it starts where the run did."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    directory: str | None = None
    group: tuple[str, str] | None = None
    """Where to enter the control group in which it starts, and that of whoever starts it."""


# ------------------------------------------------------------------------------------------------ as manifests write it


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _KeyReference(_Wire):
    name: str = ""
    key: str = ""
    optional: bool | None = None


class _FieldReference(_Wire):
    field_path: str = ""


class _ResourceReference(_Wire):
    resource: str = ""
    container_name: str | None = None
    divisor: str | int | float | None = None


class _Source(_Wire):
    field_ref: _FieldReference | None = None
    resource_field_ref: _ResourceReference | None = None
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


def launch(spec: Mapping[str, Any], around: Surroundings, own: Mapping[str, str] | None = None) -> Launch:
    """What to start for a container; `own` are variables that only programs on this machine have."""
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
    env = {**around.machine, "HOSTNAME": str(around.metadata.get("name") or ""), **(own or {}), **declared}
    return Launch(argv, env, container.working_dir or None)


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
            found = _sourced(variable.value_from, container.name, around)
            if found is not None:
                declared[variable.name] = found
        else:
            declared[variable.name] = expand(variable.value or "", declared)
    return declared


def _bundled(bundle: _Bundle, around: Surroundings) -> Mapping[str, str]:
    found = None
    if bundle.config_map_ref is not None:
        found = entries("ConfigMap", bundle.config_map_ref, around)
    elif bundle.secret_ref is not None:
        found = entries("Secret", bundle.secret_ref, around)
    return {name: value.decode(errors="replace") for name, value in (found or {}).items()}


def _sourced(source: _Source, container: str, around: Surroundings) -> str | None:
    if source.field_ref is not None:
        return pod_field(source.field_ref.field_path, around)
    if source.resource_field_ref is not None:
        asked = source.resource_field_ref
        return resource_field(asked.container_name or container, asked.resource, asked.divisor, around)
    if source.config_map_key_ref is not None:
        return _entry("ConfigMap", source.config_map_key_ref, around)
    if source.secret_key_ref is not None:
        return _entry("Secret", source.secret_key_ref, around)
    raise CannotStartError("a variable takes its value neither from a field or resource nor from a ConfigMap or Secret: not known here")


def _entry(kind: Kind, reference: _KeyReference, around: Surroundings) -> str | None:
    found = entries(kind, reference, around)
    if found is not None and reference.key in found:
        return found[reference.key].decode(errors="replace")
    if found is None or reference.optional:
        return None
    raise missing_key(kind, reference, reference.key)


# ------------------------------------------------------------------------------------------------ what a process is not

_OF_POD = {"containers", "initContainers", "restartPolicy", "terminationGracePeriodSeconds", "schedulingGates", "volumes"}
_OF_CONTAINER = {
    *("name", "command", "args", "env", "envFrom", "workingDir", "ports", "imagePullPolicy", "restartPolicy"),
    *("volumeMounts", "terminationMessagePath", "terminationMessagePolicy", "resources"),
}
_NOTHING: tuple[object, ...] = (None, {}, [], False, "")


def unhonoured(spec: Mapping[str, Any], *, besides: Collection[str] = ()) -> Iterator[str]:
    """Fields of a pod's spec that mean nothing to a process, misspelled ones too; each once, `besides` those that this machine honours."""
    return iter(dict.fromkeys(name for name in _unhonoured(spec) if name not in besides))


def _unhonoured(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from _others(spec, _OF_POD)
    yield from unhonoured_volumes(spec)
    for group in ("initContainers", "containers"):
        found = spec.get(group)
        for container in found if isinstance(found, list) else ():
            if isinstance(container, Mapping):
                yield from _others(container, _OF_CONTAINER)
                yield from _resources(container.get("resources"))
                yield from unhonoured_mounts(container)


def _resources(found: object) -> Iterator[str]:
    """Resources by their names: what a machine can honour differs from one to the other."""
    for kind, amounts in found.items() if isinstance(found, Mapping) else ():
        yield from (f"resources.{kind}.{name}" for name in amounts) if isinstance(amounts, Mapping) else (f"resources.{kind}",)


def _others(part: Mapping[str, Any], honoured: set[str]) -> Iterator[str]:
    return (name for name, value in part.items() if name not in honoured and value not in _NOTHING)
