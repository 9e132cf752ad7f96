"""Label and field selectors: text in, a question about an object out.

A selector reads just what it asks for from the stored bytes, so selecting costs no parsing of whole objects.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from genericjob.reconcile.structs import decoder

from .names import label_value, qualified
from .refusals import bad_request

Selector = Callable[[bytes], bool]
"""Whether a stored object is meant."""


class Requirement(NamedTuple):
    """One term of a label selector; several must all hold."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Ask labels. What has no such label is "not equal" and "not in"."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case _:
                return _compared(value, self.operator, next(iter(self.values)))


def _compared(value: str | None, operator: str, bound: str) -> bool:
    try:
        return value is not None and (int(value) > int(bound) if operator == ">" else int(value) < int(bound))
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------ label selectors

_TOKEN = re.compile(r"\s*(==|=|!=|!|<|>|,|\(|\)|[^\s=!<>,()]+)")


class _Reader:
    """Reads the tokens of a selector, left to right."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def look(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.look()
        self.at += 1
        return token

    def expect(self, *wanted: str) -> str:
        token = self.take()
        if token not in wanted:
            raise bad_request(f"unable to parse requirement: found '{token}', expected: {', '.join(wanted)}")
        return token


_MARKS = frozenset(("==", "=", "!=", "!", "<", ">", ",", "(", ")", ""))


@lru_cache(maxsize=512)
def requirements(text: str) -> tuple[Requirement, ...]:
    """Read a label selector."""
    reader = _Reader(text)
    if not reader.look():
        return ()
    found = [_requirement(reader)]
    while reader.look():
        reader.expect(",")
        found.append(_requirement(reader))
    return tuple(found)


def _requirement(reader: _Reader) -> Requirement:
    if reader.look() == "!":
        reader.take()
        return Requirement(_key(reader), "!", frozenset())
    key = _key(reader)
    match reader.look():
        case "" | ",":
            return Requirement(key, "exists", frozenset())
        case "=" | "==" | "!=" as operator:
            reader.take()
            return Requirement(key, "notin" if operator == "!=" else "in", frozenset([_value(reader)]))
        case "in" | "notin" as operator:
            reader.take()
            return Requirement(key, operator, _values(reader))
        case "<" | ">" as operator:
            reader.take()
            bound = _value(reader)
            if not re.fullmatch(r"[+-]?\d+", bound):
                raise bad_request(f"unable to parse requirement: for '{operator}' the value must be an integer, not '{bound}'")
            return Requirement(key, operator, frozenset([bound]))
        case other:
            raise bad_request(f"unable to parse requirement: found '{other}', expected: in, notin, =, ==, !=, gt, lt")


def _key(reader: _Reader) -> str:
    key = reader.take()
    if key in _MARKS:
        raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
    if why := qualified(key):
        raise bad_request(f'unable to parse requirement: Invalid value: "{key}": {why}')
    return str(key)


def _value(reader: _Reader) -> str:
    # `a=` asks for the empty value.
    return _checked("" if reader.look() in ("", ",") else _word(reader))


def _values(reader: _Reader) -> frozenset[str]:
    reader.expect("(")
    found: list[str] = []
    if reader.look() == ")":
        reader.take()
        return frozenset([""])
    while True:
        found.append("" if reader.look() in (",", ")") else _word(reader))
        if reader.expect(",", ")") == ")":
            return frozenset(_checked(value) for value in found)


def _word(reader: _Reader) -> str:
    word = reader.take()
    if word in _MARKS:
        raise bad_request(f"unable to parse requirement: found '{word}', expected: identifier")
    return str(word)


def _checked(value: str) -> str:
    if why := label_value(value):
        raise bad_request(f'unable to parse requirement: Invalid value: "{value}": {why}')
    return value


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Meta


_labelled = decoder(_Labelled)


def labels_of(data: bytes) -> Mapping[str, str]:
    """The labels of a stored object."""
    return _labelled.decode(data).metadata.labels or {}


# ------------------------------------------------------------------------------------------------ field selectors


class Term(NamedTuple):
    """One term of a field selector."""

    field: str
    equal: bool
    value: str


_ESCAPED = re.compile(r"([^\\=]|\\[\\,=])*")


@lru_cache(maxsize=512)
def terms(text: str) -> tuple[Term, ...]:
    """Read a field selector."""
    found = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        field, operator, value = _split(part)
        if not _ESCAPED.fullmatch(value):
            raise bad_request("invalid field selector: an unescaped = or an invalid escape sequence in the value")
        found.append(Term(field, operator != "!=", re.sub(r"\\(.)", r"\1", value)))
    return tuple(found)


def _split(part: str) -> tuple[str, str, str]:
    if match := re.match(r"(.*?)(!=|==|=)(.*)", part, re.DOTALL):
        return match[1], match[2], match[3]
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")


class Field(NamedTuple):
    """A selectable field: where its value may stand, and what it counts as when it stands nowhere."""

    paths: tuple[str, ...]
    absent: str = ""

    def reader(self) -> Callable[[bytes], str]:
        """A reader that takes this field, and nothing else, out of stored objects."""
        steps = [tuple(path.split(".")) for path in self.paths]
        shape = decoder(_shape(steps))

        def read(data: bytes) -> str:
            try:
                found = shape.decode(data)
            except msgspec.ValidationError:
                return self.absent
            return next((text for path in steps if (text := text_of(_at(found, path)))), self.absent)

        return read


def _shape(paths: Sequence[tuple[str, ...]]) -> Any:
    """A struct type that has just these fields. Its attributes are called f_name: names of users' fields may be Python's words."""
    children: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        children.setdefault(path[0], []).append(path[1:])
    return msgspec.defstruct(
        "Fields",
        [
            (f"f_{name}", _shape(rests) | None if all(rests) else Any, msgspec.field(default=None, name=name))
            for name, rests in children.items()
        ],
    )


def _at(found: Any, path: Sequence[str]) -> Any:
    for name in path:
        if found is None:
            return None
        found = getattr(found, f"f_{name}")
    return found


def text_of(value: Any) -> str:
    """A field's value as selectors compare it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


# ------------------------------------------------------------------------------------------------ both


def selector(labels: str, fields: str, known: Mapping[str, Field]) -> Selector | None:
    """The question that a list or watch asks of each object, or None for everything."""
    wanted, asked = requirements(labels), terms(fields)
    for term in asked:
        if term.field not in known:
            raise bad_request(f"field label not supported: {term.field}")
    if not wanted and not asked:
        return None
    readers = [(known[term.field].reader(), term) for term in asked]

    def matches(data: bytes) -> bool:
        if wanted:
            found = labels_of(data)
            if not all(requirement.holds(found) for requirement in wanted):
                return False
        return all((read(data) == term.value) is term.equal for read, term in readers)

    return matches
