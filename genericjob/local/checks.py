"""What a structural schema has against a value.

On an update only what changed is checked, so that a tightened schema does not lock old objects: fields correspond by name, elements of a
map list by their keys.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from genericjob.reconcile.errors import Cause

from .drafts import as_meta, canonical, same
from .names import problems as metadata_problems
from .refusals import missing, wrong
from .schema import Schema, embedded, join

_UNCHANGED = object()


def problems(value: Any, schema: Schema, path: str = "", old: Any = _UNCHANGED) -> Iterator[Cause]:
    """What a schema has against a value. With `old`, what has not changed is not looked at."""
    if old is not _UNCHANGED and same(value, old):
        return
    if value is None and schema.nullable:
        return
    if why := _wrong_type(value, schema):
        yield Cause(path, f'Invalid value: "{type_of(value)}": {path} in body must be of type {why}', "FieldValueTypeInvalid")
        return
    yield from _choices(value, schema, path)
    yield from _enumeration(value, schema, path)
    if isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, bool):
        return
    elif isinstance(value, int | float):
        yield from _range(value, schema, path)
    elif isinstance(value, list):
        yield from _elements(value, schema, path, old)
    elif isinstance(value, dict):
        yield from _fields(value, schema, path, old)


def type_of(value: Any) -> str:
    """The JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _wrong_type(value: Any, schema: Schema) -> str:
    found = type_of(value)
    if schema.int_or_string:
        return "" if found in ("integer", "string") else "integer,string"
    if not schema.type or found == schema.type or (schema.type == "number" and found == "integer"):
        return ""
    return schema.type


def _choices(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    """Conditions of which one is enough. Without one, what is wrong is told of the last: the server tells it of the one that fits best."""
    found: list[Cause] = []
    for choice in schema.any_of:
        found = [*problems(value, choice, path)]
        if not found:
            return
    if found:
        yield Cause("<nil>", f'Invalid value: "": "{path}" must validate at least one schema (anyOf)', "FieldValueInvalid")
        yield from found


def _enumeration(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    allowed = schema.source.get("enum")
    if allowed and not any(same(value, choice) for choice in allowed):
        told = ", ".join(canonical(choice).decode() for choice in allowed)
        yield Cause(path, f"Unsupported value: {canonical(value).decode()}: supported values: {told}", "FieldValueNotSupported")


def _text(value: str, schema: Schema, path: str) -> Iterator[Cause]:
    source = schema.source
    valid = _FORMATS.get(source.get("format") or "")
    if valid is not None and not valid(value):
        yield Cause(path, f'Invalid value: "{value}": {path} in body must be of type {source["format"]}', "FieldValueTypeInvalid")
    if (longest := source.get("maxLength")) is not None and len(value) > longest:
        yield Cause(path, f"Too long: may not be more than {longest} bytes", "FieldValueTooLong")
    if (shortest := source.get("minLength")) is not None and len(value) < shortest:
        yield wrong(path, value, f"{path} in body should be at least {shortest} chars long")
    if schema.pattern is not None and not schema.pattern.search(value):
        yield wrong(path, value, f"{path} in body should match '{source['pattern']}'")


_TIME = re.compile(r"(?i)([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")


def _is_moment(text: str) -> bool:
    """Return whether the server takes this for a time; it takes offsets of 25 hours, and the year 0."""
    day, _, time = text.lower().partition("t")
    return _is_date(day) and _TIME.fullmatch(time) is not None


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text.replace("0000-", "2000-", 1) if text.startswith("0000-") else text)  # Python begins with the year 1
    except ValueError:
        return False
    return len(text) == 10


_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date-time": _is_moment,
    "date": _is_date,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}


def _range(value: float, schema: Schema, path: str) -> Iterator[Cause]:
    source = schema.source
    least, most, step = source.get("minimum"), source.get("maximum"), source.get("multipleOf")
    if least is not None and (value < least or (value == least and source.get("exclusiveMinimum"))):
        yield wrong(path, value, f"{path} in body should be greater than {'' if source.get('exclusiveMinimum') else 'or equal to '}{least}")
    if most is not None and (value > most or (value == most and source.get("exclusiveMaximum"))):
        yield wrong(path, value, f"{path} in body should be less than {'' if source.get('exclusiveMaximum') else 'or equal to '}{most}")
    if step and value % step:
        yield wrong(path, value, f"{path} in body should be a multiple of {step}")


def _elements(value: list[Any], schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    source = schema.source
    if (most := source.get("maxItems")) is not None and len(value) > most:
        yield Cause(path, f"Too many: {len(value)}: must have at most {most} items", "FieldValueTooMany")
    if (least := source.get("minItems")) is not None and len(value) < least:
        yield wrong(path, len(value), f"{path} in body should have at least {least} items")
    if source.get("uniqueItems") and len({canonical(item) for item in value}) < len(value):
        yield wrong(path, value, f"{path} in body shouldn't contain duplicates")
    if schema.items is not None:
        before = _correlated(old, schema)
        for index, item in enumerate(value):
            yield from problems(item, schema.items, f"{path}[{index}]", before.get(_identity(item, schema), _UNCHANGED))


def _fields(value: dict[str, Any], schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    source = schema.source
    for name in schema.required:
        if name not in value:
            yield missing(join(path, name))
    if schema.embedded:
        for name in ("apiVersion", "kind"):
            if not value.get(name):
                yield missing(join(path, name))
    if (most := source.get("maxProperties")) is not None and len(value) > most:
        yield Cause(path, f"Too many: {len(value)}: must have at most {most} items", "FieldValueTooMany")
    if (least := source.get("minProperties")) is not None and len(value) < least:
        yield wrong(path, len(value), f"{path} in body should have at least {least} properties")
    for name, child in value.items():
        below = schema.child(name)
        if below is not None:
            before = old.get(name, _UNCHANGED) if isinstance(old, dict) else _UNCHANGED
            yield from problems(child, below, join(path, name), before)


def _identity(item: Any, schema: Schema) -> bytes:
    """What tells an element of a map or set from its neighbours."""
    if schema.list_type == "map" and isinstance(item, dict):
        return canonical({key: item.get(key) for key in schema.map_keys if key in item})
    return canonical(item)


def _correlated(old: Any, schema: Schema) -> dict[bytes, Any]:
    if schema.list_type != "map" or not isinstance(old, list):
        return {}
    return {_identity(item, schema): item for item in old}


def repeated(value: Any, schema: Schema | None, path: str = "") -> Iterator[Cause]:
    """Elements that occur twice where a list is a map or a set."""
    if schema is None or not schema.has_unique:
        return
    if isinstance(value, dict):
        for name, child in value.items():
            yield from repeated(child, schema.child(name), join(path, name))
    elif isinstance(value, list):
        if schema.list_type in ("map", "set"):
            yield from _doubles(value, schema, path)
        for index, child in enumerate(value):
            yield from repeated(child, schema.items, f"{path}[{index}]")


def _doubles(value: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        identity = _identity(item, schema)
        if identity in seen:
            yield Cause(f"{path}[{index}]", f"Duplicate value: {identity.decode()}", "FieldValueDuplicate")
        seen.add(identity)


def embedded_problems(value: Any, schema: Schema) -> Iterator[Cause]:
    """What is wrong with the labels and annotations of embedded resources. Their names may be anything."""
    for path, resource in embedded(value, schema):
        meta = as_meta(resource.get("metadata") or {})
        meta.name = meta.name or "unnamed"
        for cause in metadata_problems(meta, lambda name: "", namespaced=False):
            yield Cause(f"{path}.{cause.field}", cause.message, cause.reason)
