"""Structs that several threads read.

msgspec finds out how to read a struct when it first meets it, and keeps what it has found so far where other threads see it: two that are
first at the same time crash the process. So structs are made known here, by one thread at a time, before anything of their kind is read.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_learning = threading.Lock()


def decoder(wanted: type[T], **options: Any) -> msgspec.json.Decoder[T]:
    """Reads JSON."""
    with _learning:
        return msgspec.json.Decoder(wanted, **options)


def converter(wanted: type[T]) -> Callable[[Any], T]:
    """Reads what was JSON, and has been read into dicts and lists."""
    decoder(wanted)
    return partial(msgspec.convert, type=wanted)
