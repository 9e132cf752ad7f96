"""A cache that is bounded by weight: by the bytes that its entries take, not by their number.

Users decide how large an object is: one job has a single rank, another ten thousand of them and a mebibyte of rules. A bound on the number
of entries says nothing about memory then. Here the least recently used entries are dropped until the rest fits. An entry that is too heavy
by itself is not kept at all, and has to be computed each time.
"""

from collections import OrderedDict
from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Weighed(Generic[K, V]):
    """Recently used values, up to a total weight. Safe to share between threads."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        """Values with their weights; the least recently used one comes first."""
        self._weight = 0

    def get(self, key: K) -> V | None:
        """Return a value that is still kept."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Keep a value in place of an earlier one, and drop others until the sum of all weights fits."""
        with self._lock:
            self._drop(key)
            if weight > self._most:
                return
            self._entries[key] = value, weight
            self._weight += weight
            while self._weight > self._most:
                self._weight -= self._entries.popitem(last=False)[1][1]

    def forget(self, key: K) -> None:
        """Drop a value."""
        with self._lock:
            self._drop(key)

    @property
    def weight(self) -> int:
        """The sum of all weights."""
        return self._weight

    def __len__(self) -> int:
        return len(self._entries)

    def _drop(self, key: K) -> None:
        if (found := self._entries.pop(key, None)) is not None:
            self._weight -= found[1]


PER_BYTE, PER_LIST, PER_OBJECT, PER_FIELD, PER_ITEM = 4, 64, 200, 96, 40
"""Bytes in memory. A single character beyond the basic plane makes every character of its text take four bytes."""


def decoded_weight(text: bytes) -> int:
    """Return the bytes that a JSON text takes at most once it is decoded; within a factor of ten for what people write.

    Counted, not measured: a walk through the decoded values would cost as much as decoding them.
    """
    count = text.count
    structure = PER_LIST * count(b"[") + PER_OBJECT * count(b"{") + PER_FIELD * count(b":") + PER_ITEM * count(b",")
    return PER_BYTE * len(text) + structure


HEAVY = 2**20
"""Bytes from which on values are decoded one at a time."""
_one_heavy = Lock()


def one_at_a_time(weight: int) -> AbstractContextManager[object]:
    """Return what to hold while something of this weight is decoded and used: of heavy values one at a time is in the process.

    IT IS HELD OVER COMPUTING ONLY, never over a request or any other wait. So threads lose nothing by it, since one of them computes at a
    time anyway, and what is light waits for nobody.
    """
    return _one_heavy if weight > HEAVY else nullcontext()
