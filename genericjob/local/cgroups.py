"""Limits of processors and memory, as control groups, where this user may make them.

A limit of address space (RLIMIT_AS) would be wrong: programs map far more than they use, above all those that work on GPUs. What a
container limits is the memory in use by all of its processes, and that is what a control group (version 2) limits. A user may make groups
where the run has a group of its own that was delegated to the user:

    systemd-run --user --scope -p Delegate=yes genericjob run job.yaml

In a group with other processes, such as that of a shell, the kernel allows none; then limits are reported as not honoured.

    OWN                   the group in which the run was started; empty from now on, because only such a group may have groups with limits
    OWN/genericjob        the run, and what keeps its programs
    OWN/<UID>.<name>      the programs of a container
"""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from .amounts import amount

MOUNT = Path("/sys/fs/cgroup")
HONOURED = ("cpu", "memory")
"""Names of limits and of the kernel's controllers: they are the same."""
PERIOD_US = 100_000
LEAST_CPU_US = 1_000
"""The kernel refuses less."""


def limits_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Return what to write into the files of a container's group."""
    found = (container.get("resources") or {}).get("limits") or {}
    cpu, memory = (amount(found[name]) if name in found else None for name in HONOURED)
    files = {}
    if cpu is not None:
        files["cpu.max"] = f"{max(LEAST_CPU_US, math.ceil(cpu * PERIOD_US))} {PERIOD_US}"
    if memory is not None:
        files |= {"memory.max": str(int(memory)), "memory.oom.group": "1"}  # one process without memory ends its container, as on a cluster
    return files


class Cgroups:
    """The groups of a run. Made by `delegated`."""

    def __init__(self, own: Path, home: Path) -> None:
        self._own = own
        self.home = home
        """Where the run itself is."""

    @classmethod
    def delegated(cls, mount: Path = MOUNT, membership: Path = Path("/proc/self/cgroup")) -> Self | None:
        """Move this process into a group of its own, so that others can be made beside it; None where that cannot be."""
        try:
            path = next(line[3:] for line in membership.read_text().splitlines() if line.startswith("0::"))
            own = mount / path.lstrip("/")
            if own == mount or not set(HONOURED) <= set((own / "cgroup.controllers").read_text().split()):
                return None
            if (own / "cgroup.procs").read_text().split() != [str(os.getpid())]:
                return None  # whoever is in there besides is not ours to move
            found = cls(own, own / "genericjob")
            found.home.mkdir()
        except (OSError, StopIteration):
            return None
        try:
            _write(found.home / "cgroup.procs", str(os.getpid()))
            _write(own / "cgroup.subtree_control", " ".join(f"+{name}" for name in HONOURED))
        except OSError:
            found.close()
            return None
        return found

    def make(self, owner: str, container: Mapping[str, Any]) -> str | None:
        """Make the group of a container; None if it has no limits. Raises OSError."""
        files = limits_of(container)
        if not files:
            return None
        group = self._own / owner
        group.mkdir(exist_ok=True)
        for name, value in files.items():
            _write(group / name, value)
        return str(group)

    def remove(self, owner: str) -> bool:
        """Remove the group of a container that has ended; returns whether the kernel has killed it because its memory was used up."""
        killed = False
        with suppress(OSError, ValueError):
            events = dict(line.split() for line in (self._own / owner / "memory.events").read_text().splitlines())
            killed = int(events.get("oom_kill", "0")) > 0
        with suppress(OSError):  # it has none
            (self._own / owner).rmdir()
        return killed

    def close(self) -> None:
        """Go back to where the run was started."""
        with suppress(OSError):
            _write(self._own / "cgroup.subtree_control", " ".join(f"-{name}" for name in HONOURED))
            _write(self._own / "cgroup.procs", str(os.getpid()))
            self.home.rmdir()


def _write(file: Path, value: str) -> None:
    # IN ONE WRITE, and without making a file: the kernel's are there.
    with file.open("r+b", buffering=0) as opened:
        opened.write(value.encode())
