"""What programs have printed, read back from its files: the log of a pod's container, as `kubectl logs` asks for it."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key

from . import refusals
from .memory import MemoryApi

CHUNK = 64 * 1024
LOOK_EVERY = 0.1
"""Seconds between two looks for more."""

Find = Callable[[Key, str, str], Path | None]
"""Finds the file of a pod (its key and UID) and container, if there is one yet."""


class Outputs:
    """The logs of all pods."""

    def __init__(self, api: MemoryApi, find: Find) -> None:
        self._api, self._find = api, find

    def read(self, pod: Key, *, container: str = "", previous: bool = False, tail: int | None = None, follow: bool = False) -> "Text":
        """What a container of a pod has printed, and with `follow` what it prints until it ends."""
        found = self._api.get(RAW_PODS, pod)
        name = _container(found, container)
        if previous:  # a rank that runs again is another pod
            raise refusals.bad_request(f'previous terminated container "{name}" in pod "{pod.name}" not found')
        state = _state(found, name)
        if "terminated" not in state and "running" not in state:
            why = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
            raise refusals.bad_request(f'container "{name}" in pod "{pod.name}" is waiting to start: {why}')
        uid = found["metadata"]["uid"]
        return Text(lambda: self._find(pod, uid, name), tail=tail, over=(lambda: self._over(pod, uid, name)) if follow else lambda: True)

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

    def __init__(self, find: Callable[[], Path | None], *, tail: int | None, over: Callable[[], bool]) -> None:
        self._find, self._tail, self._over = find, tail, over
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
            if self._tail is not None:
                yield b"".join(deque(file, maxlen=self._tail))
            while not self._stopped.is_set():
                over = self._over()  # ASKED BEFORE READING: what was printed before the end is then in the file
                if data := file.read(CHUNK):
                    yield data
                elif over or self._stopped.wait(LOOK_EVERY):
                    return


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
