"""Structural schemas of custom resources: what to drop, and what to fill in.

The same three steps as on the real server, in its order: unknown fields are pruned (a warning or, if asked, a refusal tells of them), then
nulls that a field may not hold are dropped and defaults filled in, then the result is checked (`checks.py`).

NOT EVALUATED: CEL (`x-kubernetes-validations`), most of `format`, and the logical junctors `allOf`, `oneOf` and `not`. Built-in kinds
have no schema here at all.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from .drafts import KNOWN_METADATA, as_meta

_TYPE_META = ("apiVersion", "kind", "metadata")


class Schema:
    """One node of a structural schema."""

    def __init__(self, source: Mapping[str, Any]) -> None:
        self.source = source
        self.type: str = source.get("type") or ""
        self.nullable = bool(source.get("nullable"))
        self.has_default = source.get("default") is not None
        self.int_or_string = bool(source.get("x-kubernetes-int-or-string"))
        self.preserve = bool(source.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(source.get("x-kubernetes-embedded-resource"))
        self.list_type: str = source.get("x-kubernetes-list-type") or "atomic"
        self.map_keys: tuple[str, ...] = tuple(source.get("x-kubernetes-list-map-keys") or ())
        self.required: tuple[str, ...] = tuple(source.get("required") or ())
        self.pattern = _pattern(source["pattern"]) if source.get("pattern") else None
        self.properties = {name: Schema(child) for name, child in (source.get("properties") or {}).items()}
        self.any_of = () if self.int_or_string else tuple(Schema(choice) for choice in source.get("anyOf") or ())
        self.items = Schema(source["items"]) if isinstance(source.get("items"), Mapping) else None
        extra = source.get("additionalProperties")
        self.additional = Schema(extra if isinstance(extra, Mapping) else {}) if extra not in (None, False) else None
        self.open_map = extra is True or extra == {}

    def default(self) -> Any:
        """A copy of the default value."""
        return msgspec.json.decode(self._default)

    @cached_property
    def _default(self) -> bytes:
        return msgspec.json.encode(self.source.get("default"))

    def child(self, name: str) -> "Schema | None":
        """The schema of a field."""
        return self.properties.get(name) or self.additional

    @cached_property
    def fills(self) -> bool:
        """Whether anything below has a default, or a null could be dropped: otherwise nothing needs to be walked."""
        return bool(self.properties or self.additional or self.items)

    @cached_property
    def has_resources(self) -> bool:
        """Whether there may be resources below: in most schemas there are none to be looked for."""
        return any(child.embedded or child.has_resources for child in self._children())

    @cached_property
    def has_unique(self) -> bool:
        """Whether this, or something below, is a list whose elements may not occur twice."""
        return self.list_type in ("map", "set") or any(child.has_unique for child in self._children())

    def _children(self) -> Iterator["Schema"]:
        yield from self.properties.values()
        yield from (child for child in (self.items, self.additional) if child is not None)


# ------------------------------------------------------------------------------------------------ prune


def prune(value: Any, schema: Schema | None) -> list[str]:
    """Drop the fields of a resource that its schema does not know; returns their paths."""
    found: list[str] = []
    _prune(value, schema, "", found, top=True)
    found.sort()
    return found


def _prune(value: Any, schema: Schema | None, path: str, found: list[str], *, top: bool = False) -> None:
    if isinstance(value, dict):
        _prune_fields(value, schema, path, found, top=top)
    elif isinstance(value, list):
        items = schema.items if schema else None
        for index, child in enumerate(value):
            if items is None and schema is not None and schema.preserve:
                continue
            _prune(child, items, f"{path}[{index}]", found)


def _prune_fields(value: dict[str, Any], schema: Schema | None, path: str, found: list[str], *, top: bool) -> None:
    if schema is None:
        found.extend(join(path, name) for name in value)
        value.clear()
        return
    resource = top or schema.embedded
    for name in list(value):
        if resource and name in _TYPE_META:
            continue
        child = schema.properties.get(name)
        if child is None and schema.additional is not None:
            if schema.open_map:
                continue
            child = schema.additional
        if child is not None:
            _prune(value[name], child, join(path, name), found)
        elif not schema.preserve:
            found.append(join(path, name))
            del value[name]


def embedded(value: Any, schema: Schema | None, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The resources inside a resource, with their paths: their metadata is typed as that of any other."""
    if schema is None or not schema.has_resources:
        return
    if isinstance(value, dict):
        for name, child in value.items():
            below = schema.child(name)
            if below is None:
                continue
            if below.embedded and isinstance(child, dict):
                yield join(path, name), child
            yield from embedded(child, below, join(path, name))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from embedded(child, schema.items, f"{path}[{index}]")


def coerce_embedded(value: Any, schema: Schema | None) -> list[str]:
    """Type the metadata of embedded resources: unknown fields are dropped and returned, wrong types raise a ValidationError."""
    unknown: list[str] = []
    for path, resource in embedded(value, schema):
        for name in ("apiVersion", "kind"):
            if not isinstance(resource.get(name, ""), str):
                raise msgspec.ValidationError(f"{path}.{name} must be a string")
        if "metadata" in resource:
            found = resource["metadata"] or {}
            typed = as_meta(found)
            unknown.extend(f"{path}.metadata.{name}" for name in found if name not in KNOWN_METADATA)
            resource["metadata"] = msgspec.to_builtins(typed)
    return unknown


def join(path: str, name: str) -> str:
    """The path of a field."""
    return f"{path}.{name}" if path else name


# ------------------------------------------------------------------------------------------------ fill in


def fill(value: Any, schema: Schema | None) -> None:
    """Drop nulls that may not be, and fill in defaults, all the way down."""
    if schema is None:
        return
    if isinstance(value, dict):
        _drop_nulls(value, schema)
        for name, child in schema.properties.items():
            if child.has_default and (name not in value or (value[name] is None and not child.nullable)):
                value[name] = child.default()
        for name, child_value in value.items():
            below = schema.child(name)
            if below is not None and below.fills:
                fill(child_value, below)
    elif isinstance(value, list) and schema.items is not None:
        for index, child_value in enumerate(value):
            if child_value is None and not schema.items.nullable and schema.items.has_default:
                value[index] = schema.items.default()
            fill(value[index], schema.items)


def _drop_nulls(value: dict[str, Any], schema: Schema) -> None:
    for name in [name for name, child in value.items() if child is None]:
        below = schema.child(name)
        if below is not None and not below.nullable and not below.has_default:
            del value[name]


def _pattern(text: str) -> re.Pattern[str]:
    """A pattern as the server reads it: `$` at its end is the end of the text, and no line break before it is forgiven."""
    return re.compile(text[:-1] + r"\Z" if text.endswith("$") and not text.endswith(r"\$") else text)
