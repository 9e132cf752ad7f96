"""Threads that must not end: what escapes from one is logged and counted, and the thread's work begins again."""

import logging
from collections.abc import Callable

from .metrics import Metrics
from .primitives import Backoff, Flag, Primitives, Thread

log = logging.getLogger(__name__)

FIRST, LIMIT = 1.0, 10.0
"""Seconds before the work begins again; short enough for a thread that keeps dying to do so several times a minute."""


class Supervisor:
    """Keeps threads running until it is stopped. Work that returns by itself is done."""

    def __init__(self, *, primitives: Primitives, metrics: Metrics) -> None:
        self._primitives, self._metrics = primitives, metrics
        self._stopped = Flag(primitives)

    def start(self, name: str, work: Callable[[], None]) -> Thread:
        """Do some work in a thread of its own, again and again if it fails."""
        self._metrics.thread(name)
        return self._primitives.start(name, lambda: self._keep(name, work))

    def stop(self) -> None:
        """Begin nothing again. The work itself has to be ended by other means."""
        self._stopped.set()

    def _keep(self, name: str, work: Callable[[], None]) -> None:
        backoff = Backoff(self._primitives, first=FIRST, limit=LIMIT)
        while not self._stopped:
            try:
                work()
            except Exception:
                log.exception("thread %s died, it begins again", name)
                self._metrics.thread_died(name)
            else:
                return
            self._stopped.wait(backoff.next())
