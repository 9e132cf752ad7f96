"""Creates that the server refused: when to try again.

A quota or a wrong template refuses every try alike. So a job whose create was refused waits, 1 s at first and up to 5 minutes, whatever
else happens to it meanwhile; a changed spec is tried at once. Kept in memory only: after a restart one more try is made, and refused
again.
"""

import math
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

FIRST, LONGEST = 1.0, 300.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    generation: int
    count: int
    until: float


class Refusals:
    """How long jobs have to wait before their next create."""

    def __init__(self, remembered: int = 100_000) -> None:
        self._lock = Lock()
        self._by_uid: LRUCache[str, _Refusal] = LRUCache(remembered)

    def wait(self, uid: str, generation: int, now: float) -> float:
        """Seconds until the next try; 0 means now, infinity means never."""
        with self._lock:
            found = self._by_uid.get(uid)
        return max(0.0, found.until - now) if found and found.generation == generation else 0.0

    def note(self, uid: str, generation: int, now: float, *, longest: float | None = None) -> float:
        """A create was refused; seconds to wait, and no more than `longest`."""
        with self._lock:
            found = self._by_uid.get(uid)
            count = found.count + 1 if found and found.generation == generation else 0
            wait = min(longest or LONGEST, FIRST * 2.0 ** min(count, 30))
            self._by_uid[uid] = _Refusal(generation, count, now + wait)
        return wait

    def give_up(self, uid: str, generation: int) -> None:
        """No create can succeed any more."""
        with self._lock:
            self._by_uid[uid] = _Refusal(generation, 0, math.inf)

    def forget(self, uid: str) -> None:
        """All is well again, or the job is gone."""
        with self._lock:
            self._by_uid.pop(uid, None)
