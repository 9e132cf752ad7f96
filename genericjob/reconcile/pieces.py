"""JSON cut into pieces, at any depth.

Decoders recurse and fail at the interpreter's limit, about a thousand levels; an API server stores
ten thousand. This scanner does not recurse. It finds where the direct members of an object and the
elements of an array begin and end, and returns their bytes undecoded. It is meant for what a decoder
has refused and is several times slower; shallow parts are skipped by one regular expression at once.

It expects JSON and checks no more than it needs: ValueError means that brackets or quotes do not match.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


def _shallow(levels: int) -> bytes:
    """A pattern for a run of JSON, with commas and colons, whose brackets are nested at most `levels` deep."""
    if not levels:
        return rb'(?:[^"\[\]{}]++|' + _STRING + rb")*+"
    inside = _shallow(levels - 1)
    return rb'(?:[^"\[\]{}]++|' + _STRING + rb"|\[" + inside + rb"\]|\{" + inside + rb"\})*+"


_STEP = re.compile(_shallow(5) + rb"(?:([\[{]++)|([\]}]++)|)", re.DOTALL)
"""A shallow run and the brackets behind it; none, where the JSON is broken, because `finditer` would search on. More than five levels
would make the pattern large. It looks as far ahead in vain where values are deeper, a constant factor."""
DEEPEST = 20_000
"""Levels beyond which there is no JSON of an API server: it takes 10,000."""
_BRACKETS_AND_STRINGS = re.compile(rb"[\[{]++|[\]}]++|" + _STRING, re.DOTALL)
_SCALAR = re.compile(rb'(?:[^"\[\]{},]++|' + _STRING + rb")*+", re.DOTALL)
_KEY = re.compile(rb"\s*+(" + _STRING + rb")\s*+:", re.DOTALL)
_SPACE = re.compile(rb"\s*+")

_OPENING = frozenset(b"[{")
_COMMA = ord(",")


def members(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names of an object's members with the bytes of their values, reading no further than asked."""
    position = _inside(data, b"{")
    while key := _KEY.match(data, position):
        end = _end_of_value(data, key.end())
        yield key[1][1:-1].decode("utf-8", "replace"), data[key.end() : end].strip()
        if data[end] != _COMMA:
            return
        position = end + 1
    end = _skip(_SPACE, data, position)
    if data[end : end + 1] != b"}":
        raise ValueError("an object of the JSON has no end")


def members_of(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the members of an object that is itself a member. Neither its end nor what follows is looked for."""
    position, wanted = _inside(data, b"{"), b'"%b"' % name.encode()
    while key := _KEY.match(data, position):
        if key[1] == wanted:
            yield from members(data[key.end() :])
            return
        end = _end_of_value(data, key.end())
        if data[end] != _COMMA:
            return
        position = end + 1


def elements(data: bytes) -> Iterator[bytes]:
    """Yield the bytes of each element of an array."""
    position = _inside(data, b"[")
    while True:
        end = _end_of_value(data, position)
        if element := data[position:end].strip():
            yield element
        if data[end] != _COMMA:
            return
        position = end + 1


def deeper_than(limit: int, data: bytes) -> bool:
    """Whether brackets are nested deeper than a limit."""
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    depth = 0
    for found in _BRACKETS_AND_STRINGS.finditer(data):
        sign = data[found.start()]
        if sign in _OPENING:
            depth += found.end() - found.start()
            if depth > limit:
                return True
        elif sign in b"]}":
            depth -= found.end() - found.start()
    return False


def decodable(data: bytes) -> dict[str, Any]:
    """The members of an object that can be decoded, each by itself; those that cannot are left out."""
    found: dict[str, Any] = {}
    with suppress(ValueError):
        for name, value in members(data):
            with suppress(ValueError, RecursionError):
                found[name] = msgspec.json.decode(value)
    return found


def _inside(data: bytes, bracket: bytes) -> int:
    start = _skip(_SPACE, data, 0)
    if data[start : start + 1] != bracket:
        raise ValueError(f"the JSON does not begin with {bracket.decode()}")
    return start + 1


def _end_of_value(data: bytes, position: int) -> int:
    """The position of the comma or bracket behind a value."""
    while True:
        position = _skip(_SCALAR, data, position)
        sign = _sign(data, position)
        if sign in _OPENING:
            position = _behind_bracket(data, position + 1)
        else:
            return position


def _behind_bracket(data: bytes, position: int) -> int:
    """The position behind the bracket that closes the one before `position`."""
    depth = 1
    for step in _STEP.finditer(data, position):
        position = step.end()
        if step.lastindex == 1:
            depth += position - step.start(1)
            if depth > DEEPEST:
                raise ValueError(f"the JSON is nested deeper than {DEEPEST} levels")
        elif step.lastindex == 2:
            closed = position - step.start(2)
            if closed >= depth:
                return position - closed + depth
            depth -= closed
        else:
            break
    raise ValueError("the JSON ends too early")


def _sign(data: bytes, position: int) -> int:
    if position >= len(data) or data[position] not in b"[]{},":
        raise ValueError("the JSON ends too early")
    return data[position]


def _skip(pattern: re.Pattern[bytes], data: bytes, position: int) -> int:
    """The position behind what the pattern matches there."""
    found = pattern.match(data, position)
    return found.end() if found else position
