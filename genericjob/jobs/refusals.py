"""Writes that the server refused: when to try again, and what to say meanwhile.

A quota or a wrong template refuses every try alike. So a job whose create was refused waits, 1 s at first and up to 5 minutes, whatever
else happens to it meanwhile; a changed spec is tried at once. The same for a pod that may not be deleted. Kept in memory only: after a
restart one more try is made, and refused again.
"""

import math
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

FIRST, LONGEST = 1.0, 300.0
MAX_MESSAGE_CHARS = 2_048
"""A server that refuses a large object may name thousands of its fields."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    generation: int
    count: int
    until: float
    trouble: tuple[str, str] | None = None


class Refusals:
    """How long jobs, or pods, have to wait before the next try."""

    def __init__(self, remembered: int = 100_000) -> None:
        self._lock = Lock()
        self._by_uid: LRUCache[str, _Refusal] = LRUCache(remembered)

    def wait(self, uid: str, generation: int, now: float) -> float:
        """Seconds until the next try; 0 means now, infinity means never."""
        with self._lock:
            found = self._by_uid.get(uid)
        return max(0.0, found.until - now) if found and found.generation == generation else 0.0

    def trouble(self, uid: str, generation: int) -> tuple[str, str] | None:
        """Reason and message of what is waited for, if it is worth showing."""
        with self._lock:
            found = self._by_uid.get(uid)
        return found.trouble if found and found.generation == generation else None

    def note(
        self, uid: str, generation: int, now: float, *, longest: float = LONGEST, trouble: tuple[str, str] | None = None, shown: float = 0.0
    ) -> float:
        """A write was refused; seconds to wait, `longest` at most. The trouble is worth showing once the wait is as long as `shown`."""
        with self._lock:
            found = self._by_uid.get(uid)
            count = found.count + 1 if found and found.generation == generation else 0
            wait = min(longest, FIRST * 2.0 ** min(count, 30))
            kept = (trouble[0], trouble[1][:MAX_MESSAGE_CHARS]) if trouble and wait >= shown else None
            self._by_uid[uid] = _Refusal(generation, count, now + wait, kept)
        return wait

    def give_up(self, uid: str, generation: int) -> None:
        """No create can succeed any more."""
        with self._lock:
            self._by_uid[uid] = _Refusal(generation, 0, math.inf)

    def forget(self, uid: str) -> None:
        """All is well again, or the job is gone."""
        with self._lock:
            self._by_uid.pop(uid, None)
