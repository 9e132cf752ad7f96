"""A pod as a group of programs: what of it runs, and what comes next.

Init containers run one after another, then all containers together. The outcome is decided when an init container fails or all containers
have ended; what still runs then, or when the pod is deleted, gets SIGTERM and, once its grace is over, SIGKILL.

In-place restarts (restartPolicy Always, OnFailure) are not imitated: every container runs once.
"""

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from genericjob.reconcile.objects import NEVER_STARTS
from genericjob.reconcile.primitives import Primitives

from .cgroups import Cgroups
from .containers import CANNOT_START, launch
from .gpus import Gpus
from .messages import Messages
from .processes import Process, Processes
from .reports import Ended, Running, Seen, State, Waiting
from .scratch import Scratch
from .sources import CannotStartError, NotYetError, Surroundings
from .volumes import Volumes

RETRY = 2.0
"""Seconds until a container that could not start yet is tried again."""


class Group:
    """The programs of one pod. One thread at a time steps it; only the ends of programs are told by another."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        around: Surroundings,
        *,
        processes: Processes,
        primitives: Primitives,
        scratch: Scratch,
        gpus: Gpus,
        cgroups: Cgroups | None,
        told: Callable[[str, bytes], None],
        notice: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        """Make a group of which nothing runs yet.

        `told` hears (container, output) and, at the end of the output, (container, b""); `notice` hears what is different here;
        `changed` is called when a program has ended and the group wants to be stepped.
        """
        self._around, self._processes, self._primitives = around, processes, primitives
        self._gpus, self._cgroups = gpus, cgroups
        self._told, self._changed = told, changed
        self._volumes = Volumes(spec, around, scratch, notice)
        self._messages = Messages(str(around.metadata.get("uid")), scratch)
        self._init = _named(spec.get("initContainers"))
        self._containers = _named(spec.get("containers"))
        self._sidecars = frozenset(name for name, each in self._init.items() if each.get("restartPolicy") == "Always")
        self._states: dict[str, State] = {name: Waiting() for name in (*self._init, *self._containers)}
        self._running: dict[str, Process] = {}
        self._began = primitives.now()
        self._lock = threading.Lock()
        self._ends: dict[str, tuple[int, datetime]] = {}
        """Told by another thread, and not yet taken note of."""
        self._stop_since: float | None = None
        self._told_to_end: set[str] = set()

    @property
    def over(self) -> bool:
        """Whether nothing of it runs, and nothing will."""
        return not self._running and (self._stop_since is not None or self.seen(over=False).decided)

    def seen(self, *, over: bool | None = None) -> Seen:
        """What there is to report."""
        return Seen(
            ip=self._around.ip,
            began=self._began,
            init={name: self._states[name] for name in self._init},
            sidecars=self._sidecars,
            containers={name: self._states[name] for name in self._containers},
            images={name: str(each.get("image") or "") for name, each in (*self._init.items(), *self._containers.items())},
            over=self.over if over is None else over,
        )

    def step(self, *, stop: bool, grace: float) -> float | None:
        """Start what may start and end what must; returns seconds until the next look, None when only news can bring anything."""
        self._take_note()
        if not stop and self._stop_since is None:
            self._start_next()
        if stop or self.seen(over=False).decided:
            return self._wind_down(grace)
        return RETRY if any(isinstance(state, Waiting) and state.message for state in self._states.values()) else None

    # -------------------------------------------------------------------------------------------- beginning

    def _start_next(self) -> None:
        for name, container in self._init.items():
            if isinstance(self._states[name], Waiting):
                self._start(name, container)
            state = self._states[name]
            if name in self._sidecars and not isinstance(state, Waiting):
                continue
            if not isinstance(state, Ended) or state.exit_code:
                return
        for name, container in self._containers.items():
            if isinstance(self._states[name], Waiting):
                self._start(name, container)

    def _start(self, name: str, container: Mapping[str, Any]) -> None:
        now = self._primitives.now()
        try:
            self._volumes.prepare()
            own = self._volumes.variables(container) | self._messages.variables(name) | self._gpus.take(self._owner(name), container)
            program = launch(container, self._around, own)
            if program.directory:
                program = replace(program, directory=self._volumes.directory(container, program.directory))
            if self._cgroups and (group := self._cgroups.make(self._owner(name), container)):
                program = replace(program, group=(f"{group}/cgroup.procs", f"{self._cgroups.home}/cgroup.procs"))
            told = self._messages.overheard(container, partial(self._told, name))
            process = self._processes.start(program, told=told, ended=partial(self._note_end, name))
        except NotYetError as error:
            self._states[name] = Waiting(error.reason, str(error))
        except CannotStartError as error:
            reason = "StartError" if error.may_pass else NEVER_STARTS
            self._states[name] = Ended(CANNOT_START, now, reason=reason, message=str(error))
        except OSError as error:
            self._states[name] = Ended(CANNOT_START, now, reason="StartError", message=f"files of the pod cannot be made: {error}")
        else:
            self._states[name] = Running(now)
            self._running[name] = process
        if name not in self._running:
            self._give_back(name)

    def _owner(self, container: str) -> str:
        """Whose a container's GPUs and its control group are."""
        return f"{self._around.metadata.get('uid')}.{container}"

    def _give_back(self, container: str) -> bool:
        """Let others have what a container had that does not run; returns whether it was killed because its memory was used up."""
        owner = self._owner(container)
        self._gpus.give_back(owner)
        return self._cgroups.remove(owner) if self._cgroups else False

    # -------------------------------------------------------------------------------------------- ending

    def _wind_down(self, grace: float) -> float | None:
        now = self._primitives.monotonic()
        if self._stop_since is None:
            self._stop_since = now
        if not self._running:
            self._volumes.remove()
            return None
        for name, process in self._running.items():
            if name not in self._told_to_end:
                self._told_to_end.add(name)
                process.signal(signal.SIGTERM)
        left = self._stop_since + grace - now
        if left > 0:
            return left
        for process in self._running.values():
            process.signal(signal.SIGKILL)
        return None

    def _note_end(self, name: str, code: int) -> None:
        now = self._primitives.now()
        with self._lock:
            self._ends[name] = code, now
        self._changed()

    def _take_note(self) -> None:
        with self._lock:
            ends, self._ends = self._ends, {}
        for name, (code, now) in ends.items():
            del self._running[name]
            reason = "OOMKilled" if self._give_back(name) else ""
            state = self._states[name]
            since = state.since if isinstance(state, Running) else None
            self._states[name] = Ended(code, now, since=since, reason=reason if code else "", message=self._messages.take(name, code))


def _named(containers: Any) -> dict[str, Mapping[str, Any]]:
    return {str(each.get("name")): each for each in containers or () if isinstance(each, Mapping)}
