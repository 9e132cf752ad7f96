"""What a server has against a value, in words for the person who wrote it.

A server says `Invalid value: "string": spec.suspend in body must be of type boolean`. Whoever reads that has the field before their eyes,
and wants to know what stands there, what should, and what they may have meant.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

from genericjob.api.rank_items import ALL, ANY, RANKS_PATTERN
from genericjob.api.spec import BESIDE_OTHERS, LABEL, LABEL_VALUE, PORT_NAME, QUALIFIED_NAME
from genericjob.local.checks import type_of
from genericjob.local.schema import Schema
from genericjob.reconcile.errors import Cause

LONGEST = 60
"""Characters of a value that is shown."""
ABSENT = object()
"""In the place of a value that is not there."""

Severity = Literal["error", "warning"]


class Finding(NamedTuple):
    """Something to be said of a field."""

    field: str
    message: str
    severity: Severity = "error"


_WANTED = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object with fields",
    "amount": "an amount such as 2, 500m or 8Gi",
}
_PATTERNS = {
    f"^{LABEL}$": "it may have a-z, 0-9 and -, and begins and ends with a letter or a digit",
    f"^({LABEL})?$": "it may have a-z, 0-9 and -, and begins and ends with a letter or a digit",
    f"^{LABEL_VALUE}$": "it may have letters, digits, -, _ and ., begins and ends with a letter or a digit, and has 63 characters at most",
    f"^{QUALIFIED_NAME}$": "it is a name as http, or one with a domain before it as example.com/name",
    f"^({PORT_NAME})?$": "the name of a port has a-z, 0-9 and single dashes, and at least one letter; a number is written without quotes",
    RANKS_PATTERN: "a rank is a whole number from 0 on, a range such as 0-99 (no spaces, no leading zeros, 9999 at most), all, or any",
    BESIDE_OTHERS: f"{ALL} and {ANY} stand alone in their list",
}
_PATTERN = re.compile(r"should match '(.*)'$")


def told(cause: Cause, value: Any = ABSENT, schema: Schema | None = None, *, keys: Iterable[str] = ()) -> str:
    """A complaint about a field, by its value and its schema; without them in the server's words. `keys` are those of the list it is in."""
    if cause.reason == "FieldValueRequired":
        return _detail(cause.message) or "is missing"
    if cause.reason == "FieldValueDuplicate":
        return _doubled(value, keys)
    if cause.reason == "FieldValueNotFound":
        return f"there is no volume called {_detail(cause.message)}"
    if schema is None and (found := re.fullmatch(r"Unsupported value: (.*): supported values: (.*)", cause.message)):
        choices = json.loads(f"[{found[2]}]")
        return f"{found[1]} is not one of {', '.join(choices)}{meant(found[1], choices)}"
    if schema is not None and value is not ABSENT:
        if cause.reason == "FieldValueTypeInvalid" and not isinstance(schema.source.get("format"), str):
            return wrong_type(value, [schema.type] if schema.type else ["integer", "string"]) + _inside(value, schema)
        if complaint := next(_limits(value, schema, cause), ""):
            return complaint
    return _in_their_words(cause.message)


def wrong_type(value: Any, wanted: list[str]) -> str:
    """A value that is of another type, and what may have been meant."""
    names = " or ".join(_WANTED[type] for type in wanted)
    found = type_of(value)
    hint = ""
    if isinstance(value, str) and _unquoted(value) in wanted:
        hint = ": leave the quotes out"
    elif found in ("integer", "number", "boolean") and wanted == ["string"]:
        hint = ": put it in quotes"
    what = {"string": "text", "array": "a list", "object": "an object", "null": "nothing"}.get(found, _WANTED.get(found, found))
    return f"{what} stands here, not {names}{hint}" if found in ("array", "object", "null") else f"{shown(value)} is not {names}{hint}"


def _inside(value: Any, schema: Schema) -> str:
    """A value that belongs to a field one level down."""
    for name, below in schema.properties.items():
        if isinstance(value, str) and value in (below.source.get("enum") or ()):
            return f"; did you mean {name}: {value} below it?"
    return ""


def _unquoted(text: str) -> str:
    """The type that a text would have without its quotes."""
    try:
        return type_of(json.loads(text))
    except (ValueError, RecursionError):
        return ""


def _limits(value: Any, schema: Schema, cause: Cause) -> Iterator[str]:
    """What a schema has against a value of the right type: the one of its limits that the cause is about."""
    source = schema.source
    match cause.reason:
        case "FieldValueNotSupported":
            choices = [str(one) for one in source.get("enum") or ()]
            yield f"{shown(value)} is not one of {', '.join(choices)}{meant(str(value), choices)}"
        case "FieldValueTooLong" if isinstance(value, str):
            yield f"has {len(value)} characters, {source['maxLength']} is the most"
        case "FieldValueTooMany" if isinstance(value, list | dict):
            yield f"has {len(value)} entries, {source['maxItems' if isinstance(value, list) else 'maxProperties']} is the most"
        case "FieldValueInvalid" if isinstance(value, str):
            yield from _text(value, source, cause)
        case "FieldValueInvalid" if isinstance(value, int | float):
            if value < source.get("minimum", value):
                yield f"{value} is too small, {source['minimum']} is the least"
            if value > source.get("maximum", value):
                yield f"{value} is too large, {source['maximum']} is the most"
        case "FieldValueInvalid" if value == []:
            yield "is empty"


def _text(value: str, source: Mapping[str, Any], cause: Cause) -> Iterator[str]:
    if len(value) < source.get("minLength", 0):
        yield "is empty" if not value else f"has {len(value)} characters, {source['minLength']} is the least"
    if "pattern" in source:
        found = _PATTERN.search(cause.message)
        pattern = found[1] if found else source["pattern"]
        hint = meant(value, (ALL, ANY)) if pattern == RANKS_PATTERN else ""
        yield f"{shown(value)} is not allowed: {_PATTERNS.get(pattern, 'it has to match ' + pattern)}{hint}"


def _doubled(value: Any, keys: Iterable[str]) -> str:
    """An element of a list that another one has the keys of."""
    same = [f"{key} {shown(value[key])}" for key in keys if isinstance(value, dict) and key in value]
    if same:
        return f"an element before it has the same {' and '.join(same)}"
    return f"{shown(value)} is there twice" if value is not ABSENT else "is there twice"


def unknown(name: str, siblings: Iterable[str], elsewhere: str = "") -> str:
    """A field that nobody knows."""
    hint = meant(name, siblings) or (f": {name} belongs to {elsewhere}" if elsewhere else "")
    return f"there is no such field{hint}"


def meant(word: str, known: Iterable[str]) -> str:
    """What may have been meant, as the end of a sentence."""
    by_case = {one.casefold(): one for one in known}
    found = get_close_matches(word.casefold(), by_case, n=1, cutoff=0.75)
    return f"; did you mean {by_case[found[0]]}?" if found else ""


def shown(value: Any) -> str:
    """A value as JSON, on one line and not too long of it."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _detail(message: str) -> str:
    return message.partition(": ")[2]


def _in_their_words(message: str) -> str:
    """Without what only the server's own programmers need."""
    for prefix in ("Invalid value: ", "Forbidden: ", "'': "):
        message = message.removeprefix(prefix)
    return message
