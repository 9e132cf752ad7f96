"""Status that may wait: one cosmetic update per job and second.

While a thousand pods start, a job's counts change a thousand times, and each status write costs the server more than a pod. Counts that
only people read are therefore written at most once per interval; who comes too early is told how long to wait, and what has changed until
then is written together. Updates that must not be forgotten (commits) never ask here, but they are writes too and say so: the next cosmetic
one then waits its turn.
"""

from threading import Lock

from .primitives import Primitives


class Coalescer:
    """When each job's status may be written again. Safe to share between threads."""

    def __init__(self, *, primitives: Primitives, interval: float = 1.0) -> None:
        self._primitives = primitives
        self._interval = interval
        self._lock = Lock()
        self._written: dict[str, float] = {}
        """When the last write was, oldest first. It holds what was written within one interval: older ones say nothing any more."""

    def due(self, uid: str) -> float:
        """Seconds until a cosmetic update may be written; 0 means now."""
        written = self._written.get(uid)
        return 0.0 if written is None else max(0.0, written + self._interval - self._primitives.monotonic())

    def wrote(self, uid: str) -> None:
        """The status was written just now, for whatever reason."""
        now = self._primitives.monotonic()
        with self._lock:
            self._written.pop(uid, None)  # to the end
            self._written[uid] = now
            while self._written and self._written[oldest := next(iter(self._written))] + self._interval <= now:
                del self._written[oldest]

    def forget(self, uid: str) -> None:
        """This job is gone."""
        with self._lock:
            self._written.pop(uid, None)

    def __len__(self) -> int:
        return len(self._written)
