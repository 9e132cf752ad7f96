"""GPUs of this machine, each for one container at a time.

A container that asks for `nvidia.com/gpu` finds its own GPUs in CUDA_VISIBLE_DEVICES, as on a cluster it would see no others. Where the
machine has none nothing is set, and the program runs without. A container that sets the variable itself has it its own way.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from .amounts import amount
from .sources import NotYetError

RESOURCE = "nvidia.com/gpu"
VARIABLE = "CUDA_VISIBLE_DEVICES"
LIST = ("nvidia-smi", "-L")
PATIENCE = 30.0
"""Seconds that the driver may take to answer."""


def gpus_of_this_machine(environment: Mapping[str, str] = os.environ, command: tuple[str, ...] = LIST) -> tuple[str, ...]:
    """Return the GPUs that programs of this shell may use, as CUDA_VISIBLE_DEVICES names them."""
    if (given := environment.get(VARIABLE)) is not None:
        return tuple(dict.fromkeys(name for each in given.split(",") if (name := each.strip()) and name != "-1"))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, env=dict(environment))  # noqa: S603 - the driver's own program
    except (OSError, subprocess.TimeoutExpired):
        return ()
    words = (line.split() for line in done.stdout.splitlines() if not done.returncode)
    return tuple(each[1].removesuffix(":") for each in words if len(each) > 1 and each[0] == "GPU")


def asked(container: Mapping[str, Any]) -> int:
    """Return how many GPUs a container is to be given."""
    if any(each.get("name") == VARIABLE for each in container.get("env") or ()):
        return 0
    resources = container.get("resources") or {}
    written = next((found[RESOURCE] for kind in ("limits", "requests") if RESOURCE in (found := resources.get(kind) or {})), 0)
    return int(amount(written) or 0)


def asked_by_pod(spec: Mapping[str, Any]) -> int:
    """Return how many GPUs a pod needs at once: its containers together, or the init container that needs most."""
    together = sum(asked(each) for each in spec.get("containers") or ())
    return max([together, *(asked(each) for each in spec.get("initContainers") or ())])


class Gpus:
    """Who has which GPU. May be used by several threads."""

    def __init__(self, find: Callable[[], tuple[str, ...]] = gpus_of_this_machine) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._owners: dict[str, str] = {}

    @cached_property
    def all(self) -> tuple[str, ...]:
        """The GPUs of this machine; asked for once, since that takes a while."""
        return self._find()

    def take(self, owner: str, container: Mapping[str, Any]) -> dict[str, str]:
        """Return the variable that tells a container which GPUs are its own; raises NotYetError while too few are free."""
        count = asked(container)
        if not count:
            return {}
        with self._lock:
            if not self.all:
                return {}
            free = [gpu for gpu in self.all if gpu not in self._owners]
            if len(free) < count:
                raise NotYetError(
                    f"waits for {count} of the {len(self.all)} GPUs of this machine: {len(free)} are free", reason="Unschedulable"
                )
            own = free[:count]
            self._owners |= dict.fromkeys(own, owner)
        return {VARIABLE: ",".join(own)}

    def give_back(self, owner: str) -> None:
        """Let others have what this one had."""
        with self._lock:
            self._owners = {gpu: each for gpu, each in self._owners.items() if each != owner}
