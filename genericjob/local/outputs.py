"""What programs have printed, read back from its files: the log of a pod's container, as `kubectl logs` asks for it.

A rank that runs again is another pod of the same name: what kubectl calls the previous container is here the one of the pod before.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key

from . import refusals
from .arrivals import Arrivals, stamp
from .logfiles import attempt_before
from .memory import MemoryApi

CHUNK = 64 * 1024
LOOK_EVERY = 0.1
"""Seconds between two looks for more."""

Find = Callable[[Key, str, str], Path | None]
"""Finds the file of a pod (its key and UID) and container, if there is one yet."""


@dataclass(frozen=True)
class Wanted:
    """What of a log is asked for, as the kubelet understands it: the last lines first, and of these the ones that are young enough."""

    tail: int | None = None
    since: int | None = None
    """Nanoseconds: lines that came before are left out."""
    stamped: bool = False
    """Each line with its time before it."""


class Outputs:
    """The logs of all pods."""

    def __init__(self, api: MemoryApi, find: Find) -> None:
        self._api, self._find = api, find

    def read(self, pod: Key, wanted: Wanted, *, container: str = "", previous: bool = False, follow: bool = False) -> "Text":
        """What a container of a pod has printed, and with `follow` what it prints until it ends."""
        found = self._api.get(RAW_PODS, pod)
        name, uid = _container(found, container), found["metadata"]["uid"]
        if previous:
            return self._read_before(pod, uid, name, wanted)
        state = _state(found, name)
        if "terminated" not in state and "running" not in state:
            why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
            raise refusals.bad_request(f'container "{name}" in pod "{pod.name}" is waiting to start: {why}')
        return Text(lambda: self._find(pod, uid, name), wanted, over=(lambda: self._over(pod, uid, name)) if follow else lambda: True)

    def _read_before(self, pod: Key, uid: str, container: str, wanted: Wanted) -> "Text":
        now = self._find(pod, uid, container)
        before = attempt_before(now) if now else None
        if before is None:
            raise refusals.bad_request(f'previous terminated container "{container}" in pod "{pod.name}" not found')
        return Text(lambda: before, wanted, over=lambda: True)

    def _over(self, pod: Key, uid: str, container: str) -> bool:
        try:
            found = self._api.get(RAW_PODS, pod)
        except ApiError as error:
            if error.not_found:
                return True
            raise
        return found["metadata"]["uid"] != uid or "terminated" in _state(found, container)


class Text:
    """A log as it grows."""

    def __init__(self, find: Callable[[], Path | None], wanted: Wanted, *, over: Callable[[], bool]) -> None:
        self._find, self._wanted, self._over = find, wanted, over
        self._stopped = threading.Event()
        self._pieces = self._read()

    def stop(self) -> None:
        """End it, from any thread."""
        self._stopped.set()

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def __next__(self) -> bytes:
        return next(self._pieces)

    def _read(self) -> Iterator[bytes]:
        over = self._over()
        while (path := self._find()) is None or not path.exists():
            if over or self._stopped.wait(LOOK_EVERY):
                return
            over = self._over()
        with path.open("rb") as file:
            if self._wanted.tail is not None:
                last = sum(map(len, deque(file, maxlen=self._wanted.tail)))
                file.seek(-last, 1)
            if self._wanted.stamped or self._wanted.since is not None:
                yield from self._judged(path, file)
            else:
                yield from self._grown(file)

    def _grown(self, file: BinaryIO) -> Iterator[bytes]:
        """What there is from here on, and what comes."""
        while True:
            over = self._stopped.is_set() or self._over()  # ASKED BEFORE READING: what was printed before the end is then in the file
            if data := file.read(CHUNK):
                yield data
            elif over:
                return
            else:
                self._stopped.wait(LOOK_EVERY)

    def _judged(self, path: Path, file: BinaryIO) -> Iterator[bytes]:
        """The same with the time of each line before it, or without lines that are too old. A line is sent as far as it has come."""
        arrivals, begin, head = Arrivals(path), file.tell(), b""
        wanted, within = True, False
        try:
            for data in self._grown(file):
                piece = []
                for line in _lines(data):
                    if not within:
                        wanted, head = self._head(arrivals.of(begin))
                    if wanted:
                        piece.append(line if within else head + line)
                    begin += len(line)
                    within = not line.endswith(b"\n")
                yield b"".join(piece)
        finally:
            arrivals.close()

    def _head(self, time: int) -> tuple[bool, bytes]:
        """Whether a line that came at this time is wanted, and what stands before it."""
        wanted = self._wanted.since is None or time >= self._wanted.since
        return wanted, stamp(time) if self._wanted.stamped else b""


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines with their newlines; only the last one may be without."""
    *whole, rest = data.split(b"\n")
    yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _container(pod: Any, wanted: str) -> str:
    spec = pod["spec"]
    names = [str(one.get("name")) for one in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    if wanted and wanted not in names:
        raise refusals.bad_request(f"container {wanted} is not valid for pod {pod['metadata']['name']}")
    if not wanted and len(spec.get("containers") or ()) != 1:
        text = f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: [{' '.join(names)}]"
        raise refusals.bad_request(text)
    return wanted or names[0]


def _state(pod: Any, container: str) -> dict[str, Any]:
    status = pod.get("status") or {}
    told = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    return next((one.get("state") or {} for one in told if one.get("name") == container), {})
