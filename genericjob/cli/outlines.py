"""What the API in memory has against objects of built-in kinds: all of it.

It knows their outlines (`local/shapes.py`). As a real server it stops at the first value of a wrong type; so that is taken out here, and it
is asked again.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genericjob.local import shapes
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, RAW_SERVICES, SECRETS, Resource

from .wording import Finding, told, unknown, wrong_type

MOST = 20
"""Wrong types in one object that are told."""
TYPES = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
SHAPES: Mapping[Resource[Any], shapes.Shape] = {
    RAW_PODS: shapes.POD,
    RAW_SERVICES: shapes.SERVICE,
    CONFIG_MAPS: shapes.CONFIG_MAP,
    SECRETS: shapes.SECRET,
}

Objects = dict[str, Any]


def complaints(api: MemoryApi, resource: Resource[Any], body: Objects, namespace: str) -> Iterator[Finding]:
    """What is wrong with an object, which is changed on the way."""
    wrong = [*untyped(body["metadata"])]
    yield from wrong
    for _ in range(MOST):
        try:
            made = api.create(resource, body, namespace)
        except ApiError as error:
            if error.causes:
                yield from (
                    Finding(cause.field, told(cause))
                    for cause in error.causes
                    if not cause.field.startswith(tuple(one.field for one in wrong))
                )
                fields = {name: part for name, part in copy.deepcopy(body).items() if name != "metadata"}
                yield from (_unknown(path, SHAPES[resource]) for path in SHAPES[resource].fit(fields))
                return
            path = _place(body, error.message)
            if not path:
                yield Finding("", error.message)
                return
            wrong.append(Finding(path, _taken_out(body, path, SHAPES[resource])))
            yield wrong[-1]
        else:
            yield from (_remark(warning, SHAPES[resource]) for warning in made.warnings)
            return


def untyped(metadata: Objects) -> Iterator[Finding]:
    """Labels and annotations that are no texts: they are taken out."""
    for section in ("labels", "annotations"):
        entries = metadata.get(section)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            yield Finding(f"metadata.{section}", wrong_type(entries, ["object"]))
            del metadata[section]
            continue
        for name, value in entries.items():
            if not isinstance(value, str | None):
                yield Finding(f"metadata.{section}.{name}", wrong_type(value, ["string"]))
        metadata[section] = {name: value for name, value in entries.items() if isinstance(value, str | None)}


def _remark(warning: str, shape: shapes.Shape) -> Finding:
    found = re.fullmatch(r'unknown field "(.*)"', warning)
    if found is None:
        return Finding("", warning, "warning")
    return _unknown(found[1], shape)


def _unknown(path: str, shape: shapes.Shape) -> Finding:
    before, _, name = path.rpartition(".")
    return Finding(path, unknown(name, _fields(before, shape)), "warning")


def _place(body: Objects, message: str) -> str:
    """Which value a message is about: the shortest beginning that leads to one, since names of entries may have colons in them."""
    text = re.sub(r".*? as a \w+: ", "", message, count=1)
    ends = [found.start() for found in re.finditer(": ", text)]
    return next((text[:end] for end in ends if _steps(body, text[:end])), "")


def _taken_out(body: Objects, path: str, shape: shapes.Shape) -> str:
    """Remove a value, and say what was wrong with it."""
    steps = _steps(body, path)
    wanted = _wanted(steps, shape)
    holder: Any = body
    for step in steps[:-1]:
        holder = holder[step]
    value = holder[steps[-1]]
    holder[steps[-1]] = _NOTHING.get(wanted[0]) if isinstance(steps[-1], int) else None  # the others keep their numbers
    return wrong_type(value, wanted)


def _steps(value: Any, path: str) -> list[str | int]:
    """The names and numbers that lead to a value, or none; of names that fit the longest, since those of maps have dots in them."""
    steps: list[str | int] = []
    while path:
        if isinstance(value, list):
            number, _, path = path.removeprefix("[").partition("]")
            if not number.isdecimal() or int(number) >= len(value):
                return []
            steps.append(int(number))
        else:
            name = max((name for name in value if _leads(name, path)), key=len, default="") if isinstance(value, dict) else ""
            if not name:
                return []
            path = path[len(name) :] if path.startswith(name) else path[len(name) + 2 :]
            steps.append(name)
        value, path = value[steps[-1]], path.removeprefix(".")
    return steps


def _leads(name: str, path: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}[", f"[{name}]"))


_NOTHING: Mapping[str, Any] = {"object": {}, "string": ""}


def _wanted(steps: Sequence[str | int], shape: shapes.Shape) -> list[str]:
    """The types that an outline has for a place."""
    first, part = steps[0], None
    section = shape.sections.get(str(first))
    if section is None:
        section, steps = shapes.Section(shape.parts), ("", *steps)
    for step in steps[1:]:
        if isinstance(step, int):
            continue
        if section is None or section.texts or section.amounts:
            return ["amount"] if section and section.amounts else ["string"]
        part = section.parts[step]
        section = part.inside
    if isinstance(steps[-1], int):
        return ["string"] if part and part.words else ["object"]
    return _named(part.type) if part else ["object"]


def _named(type: Any) -> list[str]:
    if type is shapes.AMOUNT:
        return ["amount"]
    return [TYPES[one] for one in (type if isinstance(type, tuple) else (type,))]


def _fields(path: str, shape: shapes.Shape) -> Mapping[str, shapes.Part]:
    """The fields that may be at a place."""
    first, *steps = [step for step in re.findall(r"[^.\[\]]+", path) if not step.isdigit()] or [""]
    parts = shape.sections[first].parts if first in shape.sections else shape.parts
    for step in steps:
        inside = parts[step].inside if step in parts else None
        parts = inside.parts if inside else {}
    return parts
