"""One controller process, from its start to its end.

    serve pages, fill caches  ──▶  be elected  ──▶  catch up  ──▶  work  ──▶  stop
    (also while waiting to lead)                   with the server

Caches are warm before the election, so that a successor begins at once. A new leader first lets its caches catch up with everything its
predecessor wrote. When asked to stop it takes in nothing more, finishes what it has begun, and only then gives the lease away. Creates that
slow admission holds up delay this by `Limits.drain` at most: they are harmless when they are late. A
leader that LOSES the lease drains nothing: somebody else may be at work already, and the way out is the shortest one.

What a process is made of is given to it; `parts.py` says what it knows of each.
"""

import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from .errors import ApiError
from .health import DEAF, SILENT, Deaths, Health, standing_still, stuck
from .metrics import Metrics
from .parts import Controller, Elector, Fence, Informer, Recorder, Server, Writer
from .primitives import Primitives, Thread
from .signals import Signals
from .supervision import Supervisor

log = logging.getLogger(__name__)

M_ARENA_MAX = -8
"""The number of malloc's parameter, as in glibc's malloc.h."""
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Limits:
    """How long to wait, in seconds."""

    sync: float = 120.0
    """For a cache that is being filled: since the last page that arrived, however long the list is."""
    catch_up: float = 5.0
    """For one try; there is always another."""
    drain: float = 10.0
    """A pod needs more time than this and three times `flush` to terminate (`terminationGracePeriodSeconds`)."""
    flush: float = 5.0
    """For each of: the recorder, the fence, the elector. More than the timeout of a status write or a delete."""


class Process:
    """Runs once. `run` in the main thread, `stop` from any."""

    def __init__(
        self,
        *,
        informers: Mapping[str, Informer],
        controllers: Sequence[Controller],
        primitives: Primitives,
        metrics: Metrics,
        health: Health,
        writer: Writer | None = None,
        recorder: Recorder | None = None,
        fence: Fence | None = None,
        elector: Elector | None = None,
        servers: Sequence[Server] = (),
        limits: Limits = Limits(),  # noqa: B008 - frozen
        when_filled: Callable[[], None] = lambda: None,
    ) -> None:
        """Without an elector it leads at once. `when_filled` is called when all caches are: in a real process `settle_interpreter`."""
        self._informers, self._controllers, self._servers = informers, controllers, servers
        self._writer, self._recorder, self._fence, self._elector = writer, recorder, fence, elector
        self._primitives, self._metrics, self._limits, self._when_filled = primitives, metrics, limits, when_filled
        self._supervisor = Supervisor(primitives=primitives, metrics=metrics)
        self._changed = primitives.condition()
        """Guards and announces what follows."""
        self._stopping = False
        self._leading = elector is None
        self._loss = ""
        self._resigning = False
        self._working = False
        self._election: Thread | None = None
        self._introduce(health)

    def _introduce(self, health: Health) -> None:
        deaths = Deaths(self._primitives)
        self._metrics.on_thread_death(deaths.note)
        health.live("threads", deaths.complaint)
        health.live("workers", self._dead_workers)
        health.live("reconciles", stuck(self._metrics.longest_silence))
        if self._elector:
            health.live("leadership", self._elector.complaint)
            health.ready("lease", self._elector.refusal)
        health.ready("caches", lambda: f"not filled yet: {', '.join(missing)}" if (missing := self._unfilled()) else "")
        health.ready("watches", standing_still(self._silences, SILENT))
        health.live("watches", standing_still(self._unexplained_silences, DEAF))
        health.ready("process", lambda: "it is stopping" if self._stopping else "")

    def run(self) -> int:
        """Do everything, and return the exit code."""
        try:
            return self._run()
        except Exception:
            log.exception("the controller ended unexpectedly")
            return 1

    def stop(self) -> None:
        """Ask for a good end: `run` finishes what was begun and returns."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _run(self) -> int:
        self._open()
        for phase in (self._fill_caches, self._be_elected, self._catch_up, self._work):
            if problem := phase() or self._loss:
                # AT ONCE: what is half done is left to the successor, and every write of ours is refused by now.
                log.error("%s", problem)
                return 1
            if self._stopping:
                break
        return self._close()

    # -------------------------------------------------------------------------------------------- phases: what went wrong, or nothing

    def _open(self) -> None:
        for server in self._servers:
            self._supervisor.start(server.name, server.serve)
        if self._recorder:
            self._recorder.start()
        for informer in self._informers.values():
            informer.start()

    def _fill_caches(self) -> str:
        for informer in self._informers.values():
            while not self._ended() and not informer.wait_synced(1.0):
                if silent := [name for name in self._unfilled() if self._informers[name].silence() >= self._limits.sync]:
                    return (
                        f"the caches of {', '.join(silent)} could not be filled, nothing has arrived for {self._limits.sync:g} s: "
                        "is the server there, and may this process list and watch them?"
                    )
        if not self._stopping:
            self._when_filled()
        return ""

    def _be_elected(self) -> str:
        if self._elector:
            self._election = self._primitives.start("elector", self._elect)
        self._wait(lambda: self._leading or self._ended())
        return ""

    def _catch_up(self) -> str:
        behind = set(self._informers)

        def follow(name: str, informer: Informer) -> None:
            self._reach_the_server(name, informer)
            with self._changed:
                behind.discard(name)
                self._changed.notify_all()

        # AT THE SAME TIME: a quiet watch needs a second or two to say how far it is.
        for name, informer in self._informers.items():
            self._primitives.start(f"catching up on {name}", partial(follow, name, informer))
        self._wait(lambda: not behind or self._ended())
        return ""

    def _work(self) -> str:
        self._working = True
        for controller in self._controllers:
            controller.start()
        log.info("at work")
        self._wait(self._ended)
        return ""

    # -------------------------------------------------------------------------------------------- the end

    def _close(self) -> int:
        """IN THIS ORDER: no intake, no further writes, no work, no more to tell, nothing under way, and only then no lease."""
        log.info("stopping: finishing what was begun")
        for name, informer in self._informers.items():
            _attempt(f"stopping the cache of {name}", informer.stop)
        if self._writer:
            # BEFORE THE WORKERS: one of them may have ten thousand pods to create. The successor does what is left.
            _attempt("stopping the writer", partial(self._writer.stop, 0.0))
        quiet = self._drained()
        if self._loss:
            log.error("%s", self._loss)
            return 1
        if self._recorder:
            _ended_well("the recorder", self._recorder, self._limits.flush)
        if self._fence:
            # WHATEVER STILL RUNS cannot write any more, and of what is under way only a create can be late.
            quiet = self._fence.shut(self._limits.flush)
        self._resign(release=quiet and not self._loss)
        self._supervisor.stop()
        for server in self._servers:
            _attempt(f"stopping {server.name}", server.stop)
        log.info("stopped")
        return 0 if quiet and not self._loss else 1

    def _drained(self) -> bool:
        """Let all workers finish at the same time; whether they did."""
        ended: list[bool] = []

        def drain(controller: Controller) -> None:
            ended.append(_ended_well(f"work on {controller.name}", controller, self._limits.drain))
            with self._changed:
                self._changed.notify_all()

        controllers = self._controllers if self._working else ()
        for controller in controllers:
            self._primitives.start(f"draining {controller.name}", partial(drain, controller))
        self._wait(lambda: len(ended) == len(controllers) or bool(self._loss), self._limits.drain + 1)
        return len(ended) == len(controllers) and all(ended)

    def _resign(self, *, release: bool) -> None:
        if not self._elector:
            return
        self._resigning = True
        self._elector.stop()
        if self._election:
            self._election.join(self._limits.flush)
        if release:
            _attempt("releasing the lease", self._elector.release)
        else:
            log.warning("the lease is not released, because something is still under way: a successor waits for its end")

    # -------------------------------------------------------------------------------------------- inside

    def _elect(self) -> None:
        """The elector's thread. ITS END IS OUR END, whatever the reason, unless we asked for it."""
        assert self._elector is not None  # noqa: S101 - for the type checker
        try:
            self._elector.run(self._led)
        except Exception:
            log.exception("the elector died")
            self._metrics.thread_died("elector")
        with self._changed:
            if not self._resigning:
                self._loss = "leader election lost"
            self._changed.notify_all()

    def _led(self) -> None:
        with self._changed:
            self._leading = True
            self._changed.notify_all()

    def _reach_the_server(self, name: str, informer: Informer) -> None:
        """Wait until a cache has everything that the server had when this process was elected.

        The target is asked for once: everything that the predecessor wrote is older than the election. The version of the server moves
        with every write in the cluster, so a cache that is slower to list than one try lasts would never reach a new target per try.
        Only a target that a later list has shown to be lost is replaced: the server's store was restored from a backup.
        """
        target: Mapping[str, str] | None = None
        while not self._ended():
            try:
                if target is None or not informer.reachable(target):
                    target = informer.target()
                if informer.reach(target, self._limits.catch_up):
                    return
                log.warning("the cache of %s has not caught up with the server yet", name)
            except ApiError as error:
                log.warning("the cache of %s cannot catch up with the server: %s", name, error)
            except Exception:  # A LEADER THAT NEVER BEGINS looks as healthy as one that works
                log.exception("the cache of %s cannot catch up with the server", name)
            self._wait(self._ended, 1.0)

    def _unfilled(self) -> Sequence[str]:
        return [name for name, informer in self._informers.items() if not informer.synced]

    def _silences(self) -> Mapping[str, float]:
        return {name: informer.silence() for name, informer in self._informers.items() if informer.synced}

    def _unexplained_silences(self) -> Mapping[str, float]:
        """Without those of a server that is away: a restart would not bring it back."""
        return {name: informer.unexplained_silence() for name, informer in self._informers.items() if informer.synced}

    def _dead_workers(self) -> str:
        dead = [controller.name for controller in self._controllers if self._working and not self._stopping and not controller.alive()]
        return f"threads of {', '.join(dead)} have died" if dead else ""

    def _ended(self) -> bool:
        return self._stopping or bool(self._loss)

    def _wait(self, happened: Callable[[], bool], longest: float | None = None) -> None:
        deadline = None if longest is None else self._primitives.monotonic() + longest
        with self._changed:
            while not happened():
                left = None if deadline is None else deadline - self._primitives.monotonic()
                if left is not None and left <= 0:
                    return
                self._changed.wait(left)


def _attempt(what: str, do: Callable[[], object]) -> None:
    """One thing that cannot be ended well must not keep the others from it."""
    try:
        do()
    except Exception:
        log.exception("%s failed", what)


def _ended_well(what: str, part: Writer | Controller, limit: float) -> bool:
    try:
        if part.stop(limit):
            return True
        log.warning("%s did not end within %g s", what, limit)
    except Exception:
        log.exception("%s did not end well", what)
    return False


def settle_interpreter() -> None:
    """Prepare for a long quiet life, once the caches are full.

    What they hold stays: the garbage collector need not walk through a hundred thousand pods again and again, a pause of many milliseconds
    each time. And threads that wait for others (a lease to renew, above all) get their turn after 1 ms instead of 5; while the caches were
    being filled, fewer turns were better.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.001)


def share_malloc_arenas() -> None:
    """Let all threads allocate from two arenas. Before threads are started.

    glibc gives each thread an arena of its own, and keeps there what was freed: the most that one thread ever took, times all threads.
    """
    with suppress(AttributeError, OSError):  # another C library has other ways
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


def install_signals(process: Process, *, leave: Callable[[int], object] = os._exit) -> Signals:
    """Let SIGTERM and Ctrl-C stop the process well, and a second one end it at once. For the main thread, even while that hangs."""
    asked = 0

    def heard(number: int) -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            log.warning("asked again to stop: ending at once")
            leave(1)
            return
        log.info("asked to stop by %s", signal.Signals(number).name)
        process.stop()

    return Signals(STOP_SIGNALS, heard)
