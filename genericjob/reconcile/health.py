"""Is this process well, and is it ready? Questions with a name, asked whenever a probe comes.

Liveness asks only for what a restart would mend: threads that keep dying, a worker that does not come back, a leader that should be gone.
AN API SERVER THAT IS AWAY IS NO SUCH THING: restarting every controller of a cluster at that moment would make it worse.
"""

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from .primitives import Primitives

log = logging.getLogger(__name__)

Probe = Literal["healthz", "readyz"]
Check = Callable[[], str]
"""Empty if all is well, else a sentence that says what is not."""

DEATHS, WITHIN = 3, 60.0
"""A thread that dies so often within so many seconds keeps dying."""
SILENT, DEAF = 180.0, 600.0
"""Seconds without a sign of life of the server after which a cache is out of date, and after which a restart may help."""
STUCK = 600.0
"""Seconds without progress after which a reconcile is taken for stuck: each request has a limit, and each write that ends is progress."""


@dataclass(frozen=True)
class Report:
    """The answer to a probe."""

    well: bool
    text: str


class Health:
    """The checks of one process."""

    def __init__(self) -> None:
        self._checks: dict[Probe, dict[str, Check]] = {"healthz": {}, "readyz": {}}

    def live(self, name: str, check: Check) -> None:
        """A restart mends what this one finds."""
        self._checks["healthz"][name] = check

    def ready(self, name: str, check: Check) -> None:
        """Without this the process cannot do its work yet."""
        self._checks["readyz"][name] = check

    def report(self, probe: Probe) -> Report:
        """Ask all checks of a probe; one that raises has found something."""
        found = {name: _asked(name, check) for name, check in list(self._checks[probe].items())}
        lines = [f"[-]{name} failed: {problem}" if problem else f"[+]{name} ok" for name, problem in found.items()]
        well = not any(found.values())
        return Report(well, "\n".join([*lines, f"{probe} check {'passed' if well else 'failed'}", ""]))


def _asked(name: str, check: Check) -> str:
    try:
        return check()
    except Exception as error:
        log.exception("the check %s failed", name)
        return f"the check itself broke: {type(error).__name__}: {error}"


class Deaths:
    """Which threads keep dying: three times within a minute. One such counts until it has lived for a minute."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._lock = threading.Lock()
        self._times: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=DEATHS))
        self._failing: set[str] = set()

    def note(self, name: str) -> None:
        """A thread ended by an exception."""
        now = self._primitives.monotonic()
        with self._lock:
            times = self._times[name]
            times.append(now)
            if len(times) == DEATHS and now - times[0] <= WITHIN:
                self._failing.add(name)

    def complaint(self) -> str:
        """The names of those threads."""
        now = self._primitives.monotonic()
        with self._lock:
            self._failing = {name for name in self._failing if now - self._times[name][-1] <= WITHIN}
            names = sorted(self._failing)
        return f"{', '.join(names)} {'keeps' if len(names) == 1 else 'keep'} dying: the log says why" if names else ""


def standing_still(silences: Callable[[], Mapping[str, float]], limit: float) -> Check:
    """No cache has been without a page of a list, an event and a bookmark for longer than a limit; bookmarks come every minute."""

    def check() -> str:
        found = [f"{cache} has received nothing for {seconds:.0f} s" for cache, seconds in silences().items() if seconds > limit]
        return "; ".join(found)

    return check


def stuck(longest: Callable[[], Mapping[str, float]], limit: float = STUCK) -> Check:
    """No worker of any queue has been without progress for longer than a limit."""

    def check() -> str:
        found = [f"a worker of {queue} has made no progress for {seconds:.0f} s" for queue, seconds in longest().items() if seconds > limit]
        return "; ".join(found)

    return check
