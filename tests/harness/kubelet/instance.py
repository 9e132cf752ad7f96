"""One pod on one node: what runs, what was asked of it, and the steps that a kubelet takes on its own.

The process table is the list of `Life`s: an instance lives from the moment a container begins until the last one has ended, whatever the
server says or has forgotten meanwhile. A process begins before the server is told so, and has ended before the server is told that.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from genericjob.reconcile.resources import Key

from .status import TERMINAL, Eviction, Facts, PodSpec, Running, Terminated, Waiting, give_up, now, phase_of, read_spec


@dataclass(frozen=True)
class Shutdown:
    """How a pod takes the news that it was deleted."""

    after: float | None = 0.0
    """Seconds until its processes have ended; None is until the test lets go, be it for ever."""
    exit_code: int = 143
    """What they end with: 143 died of SIGTERM, 137 of SIGKILL, 0 had a handler (and the pod then is Succeeded)."""


@dataclass(eq=False)
class Life:
    """A running instance in the process table, with what tells whose it is."""

    key: Key
    uid: str
    node: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner_uid: str
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    def overlaps(self, other: "Life") -> bool:
        """Whether both ran at the same time."""
        return self.began < (other.ended or float("inf")) and other.began < (self.ended or float("inf"))


class Instance:
    """A pod that the node has taken over. Its fields belong to whoever holds `changed`."""

    def __init__(self, pod: Mapping[str, Any], *, ip: str, node: str, born: Callable[[Life], None]) -> None:
        meta = pod["metadata"]
        self.spec: PodSpec = read_spec(pod)
        self.facts = Facts({each.name: Waiting() for each in self.spec.all}, ip=ip, began=now())
        for condition in pod.get("status", {}).get("conditions", ()):
            self.facts.transitions[condition["type"]] = (condition["status"], condition["lastTransitionTime"])
        self.changed = threading.Condition()
        self.generation: int = meta.get("generation", 1)
        self.phase_on_server = ""
        self.version_on_server = 0
        """The newest resourceVersion that is known to hold our status."""
        self.gone = False
        """The server has no such pod any more."""
        self.touched = False
        """Somebody has decided what becomes of it: automatic mode keeps out."""
        self.shutdown: Shutdown | None = None
        self.stop_at: float | None = None
        """When its processes end, on the monotonic clock; set once it is deleted, unless it is held."""
        self.stopping = False
        self.removed = False
        """The server was told to forget the pod."""
        self.wanted, self.written = 1, 0
        self.error: Exception | None = None
        self._printed: dict[str, list[tuple[str, str]]] = {}
        self._born = born
        self._life: Life | None = None
        owners = (owner["uid"] for owner in meta.get("ownerReferences", ()) if owner.get("controller"))
        self._draft = Life(self.spec.key, self.spec.uid, node, meta.get("labels", {}), meta.get("annotations", {}), next(owners, ""))

    def printed(self, container: str) -> list[tuple[str, str]]:
        """What a container has printed, line by line, with the times."""
        return self._printed.setdefault(container, [])

    @property
    def alive(self) -> bool:
        """Whether something of it runs."""
        return self._life is not None and self._life.ended is None

    @property
    def over(self) -> bool:
        """Whether nothing of it will ever run again."""
        return self.facts.over

    # -------------------------------------------------------------------------------------------- what a test decides

    def begin_init(self, name: str) -> None:
        """Start one init container; those before it have succeeded."""
        self._must_not_be_over()
        for each in self.spec.init:
            if each.name == name:
                return self._begin(name)
            self._complete(each.name)
        raise ValueError(f"pod {self.spec.key} has no init container {name!r}")

    def begin(self) -> None:
        """Start everything: init containers have succeeded, containers run."""
        self._must_not_be_over()
        for each in self.spec.init:
            self._complete(each.name)
        for each in self.spec.containers:
            self._begin(each.name)

    def get_ready(self, ready: bool, names: tuple[str, ...]) -> None:
        """Have readiness probes succeed or fail."""
        for name in names or tuple(each.name for each in self.spec.containers):
            state = self._state(name)
            if not isinstance(state, Running):
                raise TypeError(f"container {name!r} of pod {self.spec.key} does not run")
            self.facts.states[name] = replace(state, ready=ready)

    def stick(self, reason: str, message: str, names: tuple[str, ...]) -> None:
        """Have containers wait for something that does not come: the first to start, unless named."""
        self._must_not_be_over()
        first = self.spec.init[:1] or self.spec.containers
        for name in names or tuple(each.name for each in first):
            if not isinstance(self._state(name), Waiting):
                raise TypeError(f"container {name!r} of pod {self.spec.key} has begun: it cannot wait any more")
            self.facts.states[name] = Waiting(reason, message)
        self._open_sandbox()

    def end(self, exit_codes: int | Mapping[str, int], reason: str, message: str) -> None:
        """Have running containers end by themselves; a number is for all that run."""
        running = [name for name, state in self.facts.states.items() if isinstance(state, Running)]
        codes = dict.fromkeys(running, exit_codes) if isinstance(exit_codes, int) else dict(exit_codes)
        if not codes or not set(codes) <= set(running):
            raise ValueError(f"of pod {self.spec.key} run {running or 'no containers'}: {codes or 'none'} cannot end")
        restarted = {"Never": (), "OnFailure": [code for code in codes.values() if code], "Always": [*codes]}[self.spec.restart_policy]
        if restarted and not self.stopping:
            raise ValueError(f"a kubelet would restart containers of pod {self.spec.key} ({self.spec.restart_policy}): not imitated")
        for name, code in codes.items():
            self._end(name, code, reason, message)
        self._count_processes()

    def evict(self, eviction: Eviction) -> None:
        """End all that runs for want of resources."""
        self._must_not_be_over()
        self.facts.eviction = eviction
        self.kill(137)

    def kill(self, exit_code: int) -> None:
        """End all that runs, for good."""
        for name, state in list(self.facts.states.items()):
            if isinstance(state, Running):
                self._end(name, exit_code)
        self._count_processes()
        self._finish()

    # -------------------------------------------------------------------------------------------- what the node does by itself

    def stop(self, default: Shutdown) -> None:
        """Take note that the pod was deleted."""
        if not self.stopping:
            how = self.shutdown or default
            self.shutdown, self.stopping = how, True
            self.stop_at = None if how.after is None else time.monotonic() + how.after

    def step(self, *, automatic: bool) -> bool:
        """Take the next step that needs nobody's decision; False if there is none."""
        if self.over:
            return False
        if self.stopping and self.stop_at is not None and self.stop_at <= time.monotonic():
            self.kill(self.shutdown.exit_code if self.shutdown else 143)
            return True
        ended = self._life is not None and self._life.ended is not None
        if phase_of(self.spec, self.facts) in TERMINAL or (self.stopping and ended):
            self._finish()
            return True
        if automatic and not self.touched and not self.stopping and not self.gone:
            self.touched = True
            self.begin()
            return True
        return False

    # -------------------------------------------------------------------------------------------- inside

    def _must_not_be_over(self) -> None:
        if self.over:
            raise ValueError(f"pod {self.spec.key} ({self.spec.uid}) is over: nothing of it can start")

    def _state(self, name: str) -> Waiting | Running | Terminated:
        if name not in self.facts.states:
            raise ValueError(f"pod {self.spec.key} has no container {name!r}: there are {[*self.facts.states]}")
        return self.facts.states[name]

    def _begin(self, name: str) -> None:
        if isinstance(self.facts.states[name], Waiting):
            self._open_sandbox()
            self.facts.states[name] = Running(now())
            if not self._life:
                self._draft.began = time.monotonic()
                self._life = self._draft
                self._born(self._life)

    def _complete(self, name: str) -> None:
        self._begin(name)
        if isinstance(self.facts.states[name], Running):
            self._end(name, 0)

    def _end(self, name: str, exit_code: int, reason: str = "", message: str = "") -> None:
        state = self.facts.states[name]
        since = state.since if isinstance(state, Running) else ""
        self.facts.states[name] = Terminated(exit_code, reason, message, since, now())

    def _count_processes(self) -> None:
        """Between two init containers nothing runs, yet the instance lives; it ends when its phase does."""
        busy = any(isinstance(state, Running) for state in self.facts.states.values())
        if self._life and self._life.ended is None and not busy and (phase_of(self.spec, self.facts) in TERMINAL or self.stopping):
            self._life.ended = time.monotonic()

    def _open_sandbox(self) -> None:
        self.facts.sandbox = self.facts.networked = True

    def _finish(self) -> None:
        self.facts.sandbox = False
        self.facts.over = True
        if self._life and self._life.ended is None:
            self._life.ended = time.monotonic()
        give_up(self.spec, self.facts)
