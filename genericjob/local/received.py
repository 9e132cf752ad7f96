"""JSON of requests, read as the real server reads it.

What is not text becomes text: bytes that are no UTF-8, and halves of surrogate pairs, become U+FFFD each. Whole numbers
beyond 64 bits become floating-point numbers, and numbers beyond those are refused. Nesting has a limit: 10,000 levels
there, `MAX_DEPTH` here, because Python's own readers and writers recurse.
"""

import codecs
import re
from decimal import Decimal
from typing import Any

import msgspec

from genericjob.reconcile.pieces import deeper_than

from .drafts import decode

MAX_DEPTH = 500

_SURROGATES = re.compile(rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_LARGEST_PLAIN = 1e21
"""From here on the server writes numbers with an exponent."""


def _every_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 - for the type checker
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error("genericjob.every-byte", _every_byte)


def read(data: bytes) -> Any:
    """Read a body; raises msgspec.MsgspecError or ValueError if it is none."""
    if deeper_than(MAX_DEPTH, data):
        raise ValueError(f"it is nested too deeply, {MAX_DEPTH} levels are the most here")
    found = decode(as_text(data))
    return _shrunk(found) if _LONG_NUMBER.search(data) else found


def as_text(data: bytes) -> bytes:
    """The same JSON, with U+FFFD in place of everything that is not text."""
    if not data.isascii():
        data = data.decode("utf-8", "genericjob.every-byte").encode()
    return _SURROGATES.sub(lambda found: rb"\ufffd" if found[1] else found[0], data) if b"\\u" in data else data


def _shrunk(value: Any) -> Any:
    """The same with every number as the server keeps it."""
    if isinstance(value, dict):
        return {name: _shrunk(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_shrunk(child) for child in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _approximately(value)
    return value


def _approximately(value: int) -> int | float:
    try:
        near = float(value)
    except OverflowError:
        raise msgspec.ValidationError("a number is out of range") from None
    return near if abs(near) >= _LARGEST_PLAIN else int(Decimal(repr(near)))
