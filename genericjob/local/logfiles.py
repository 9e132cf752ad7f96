"""What programs print, in files: one per pod, attempt and container.

    DIRECTORY/train-worker-0/1/main.log

The first pod of a name is attempt 1, the next one under that name attempt 2. A pod outside of the namespace `default` has the namespace in
front: `team_train-worker-0`. Lines are written as they come, so that `tail -f` shows them.

A thousand ranks print at once and a process may open a thousand files: only those written last are open.
"""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

from genericjob.reconcile.resources import Key

MOST_OPEN = 64


class LogFiles:
    """The log files of a run. May be used by several threads."""

    def __init__(self, directory: Path, *, most_open: int = MOST_OPEN) -> None:
        self.directory = directory
        self._most_open = most_open
        self._lock = threading.Lock()
        self._attempts: dict[Key, list[str]] = {}
        """UIDs of the pods that had a name, in order."""
        self._open: OrderedDict[Path, BinaryIO] = OrderedDict()

    def begin(self, pod: Key, uid: str) -> int:
        """Note that a pod begins; returns the number of the attempt. Whoever prints without having begun begins by it."""
        with self._lock:
            return self._attempt(pod, uid)

    def path_of(self, pod: Key, uid: str, container: str) -> Path:
        """Where a container's lines are; the file exists once there is one."""
        with self._lock:
            return self._path(pod, uid, container)

    def write(self, pod: Key, uid: str, container: str, line: str) -> None:
        """Add a line."""
        with self._lock:
            self._file(self._path(pod, uid, container)).write(line.encode(errors="replace") + b"\n")

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

    def _file(self, path: Path) -> BinaryIO:
        if path in self._open:
            self._open.move_to_end(path)
            return self._open[path]
        if len(self._open) >= self._most_open:
            self._open.popitem(last=False)[1].close()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open[path] = file = path.open("ab", buffering=0)
        return file
