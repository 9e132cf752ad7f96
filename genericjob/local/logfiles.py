"""What programs print, in files: one per pod, attempt and container.

    DIRECTORY/train-worker-0/1/main.log

The first pod of a name is attempt 1, the next one under that name attempt 2. A pod outside of the namespace `default` has the namespace in
front: `team_train-worker-0`. A file holds the exact bytes that were printed, whatever they are, and holds them as they come, so that
`tail -f` shows them.

Beside each is a hidden file with the times of its lines (`arrivals.py`).

A thousand ranks print at once and a process may open a thousand files: only those written last are open.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from genericjob.reconcile.resources import Key

from .arrivals import beside, record

MOST_OPEN, FILES_OF_A_LOG = 128, 2
TOGETHER = 1_000_000
"""Nanoseconds in which lines of one log share a time."""

_Whose = tuple[Key, str, str]
"""A pod, its UID and the container."""


def attempt_before(log: Path) -> Path | None:
    """Where the same container of the pod before this one has its lines; None for the first."""
    attempt = log.parent.name
    if not attempt.isdigit() or int(attempt) < 2:
        return None
    return log.parents[1] / str(int(attempt) - 1) / log.name


class LogFiles:
    """The log files of a run. May be used by several threads."""

    def __init__(self, directory: Path, *, most_open: int = MOST_OPEN, clock: Callable[[], int] = time.time_ns) -> None:
        self.directory = directory
        self._most_open, self._clock = most_open, clock
        self._lock = threading.Lock()
        self._attempts: dict[Key, list[str]] = {}
        """UIDs of the pods that had a name, in order."""
        self._open: OrderedDict[_Whose, _Log] = OrderedDict()
        self._last: _Log | None = None
        """The one that was written last."""

    def begin(self, pod: Key, uid: str) -> int:
        """Note that a pod begins; returns the number of the attempt. Whoever prints without having begun begins by it."""
        with self._lock:
            return self._attempt(pod, uid)

    def path_of(self, pod: Key, uid: str, container: str) -> Path:
        """Where a container's lines are; the file exists once there is one."""
        with self._lock:
            return self._path(pod, uid, container)

    def write(self, pod: Key, uid: str, container: str, data: bytes) -> None:
        """Add what was printed."""
        with self._lock:
            log, now = self._log((pod, uid, container)), self._clock()
            # IN THE ORDER OF ALL LOGS: a line that comes after one of another log has a time of its own.
            log.write(data, now, together=log is self._last)
            self._last = log

    def close(self) -> None:
        """Close what is open; the files stay."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def _attempt(self, pod: Key, uid: str) -> int:
        uids = self._attempts.setdefault(pod, [])
        if uid not in uids:
            uids.append(uid)
        return uids.index(uid) + 1

    def _path(self, pod: Key, uid: str, container: str) -> Path:
        name = pod.name if pod.namespace == "default" else f"{pod.namespace}_{pod.name}"
        return self.directory / name / str(self._attempt(pod, uid)) / f"{container}.log"

    def _log(self, whose: _Whose) -> "_Log":
        if whose in self._open:
            self._open.move_to_end(whose)
            return self._open[whose]
        while self._open and FILES_OF_A_LOG * (len(self._open) + 1) > self._most_open:
            self._open.popitem(last=False)[1].close()
        path = self._path(*whose)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open[whose] = log = _Log(path)
        return log


class _Log:
    """A log that is open, and the times beside it."""

    def __init__(self, path: Path) -> None:
        self._output: BinaryIO = path.open("ab", buffering=0)
        try:
            self._times: BinaryIO = beside(path).open("ab", buffering=0)
        except OSError:
            self._output.close()
            raise
        self._end = self._output.tell()
        self._noted = 0

    def write(self, data: bytes, now: int, *, together: bool) -> None:
        """Add output. ITS TIME FIRST: whoever can read a line can read when it came."""
        if not together or not 0 <= now - self._noted < TOGETHER:
            self._times.write(record(self._end, now))
            self._noted = now
        while data:  # a disk that is nearly full takes a part
            written = self._output.write(data)
            self._end += written
            data = data[written:]

    def close(self) -> None:
        """Close both."""
        self._output.close()
        self._times.close()
