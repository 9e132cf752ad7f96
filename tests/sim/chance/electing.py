"""Runs in which nobody says who leads: controllers are whole processes, and hold an election.

    Process ── its fence ── the line ── streams ── faults ── server
       └───── its elector ─── the line ──────────── faults ── lease

Everything is real, but for the threads and the clock. A leader may be killed, asked to stop, cut off from the server, or stand still as a
whole and go on while somebody else leads. A process that ends is started again, as a Deployment would. The lease lies on a server of its
own, so that a cluster at rest is one on which nothing changes.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

from genericjob.local.faults import FaultyApi, lost_answer
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.fence import Fenced
from genericjob.reconcile.health import Health
from genericjob.reconcile.http import Timeouts
from genericjob.reconcile.lease import Elector, Timings
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.passing import WRITES, Call, Passing
from genericjob.reconcile.process import Process
from genericjob.reconcile.resources import LEASES, Key
from sim import processes
from sim.chance.hostile import Mortal, Streams
from sim.chance.playing import Run
from sim.chance.schedules import Schedule
from sim.chance.trouble import ERRORS, Will
from sim.world import SteppedApi

T = TypeVar("T")

LEASE = Key("default", "genericjob-controller")
CANDIDATES = 2
STEPS = frozenset(("cut_off", "freeze", "terminate", "refuse_lease"))
"""That only these runs have."""
RESTART = 1.0
"""Seconds until a process that has ended is started again."""


class Line:
    """What connects a process to its servers. While it is cut, requests find no way, and are given up after a while."""

    def __init__(self, process: processes.Process, arrives: Callable[[float, Call, Callable[[], Any]], None]) -> None:
        self._process, self._arrives = process, arrives
        self._until = 0.0
        self._will = Will()
        self._after: int | None = None
        """How many writes get through before it is cut."""
        self._seconds = 0.0
        self._sent = 0

    def cut(self, seconds: float, will: Will, writes: int) -> None:
        """Cut it, now or at one of the next writes, for so long. Of the writes that are on their way some may arrive all the same."""
        self._seconds, self._will, self._after, self._sent = seconds, will, writes, 0
        if not writes:
            self._cut()

    def heal(self) -> None:
        """Nothing is in the way any more."""
        self._until, self._after = 0.0, None

    def carry(self, call: Call, do: Callable[[], T], patience: float) -> T:
        """Let a call through, or not."""
        if call.verb in WRITES and self._after:
            self._after -= 1
            if not self._after:
                self._cut()
        if self._process.crashed or self._process.monotonic() >= self._until:  # what is left of a dead one was beyond the cut
            return do()
        if call.verb in WRITES:
            if self._sent in self._will.arrive:
                self._arrives(self._will.late / (self._sent + 1), call, do)
            self._sent += 1
        self._process.sleep(patience)
        raise lost_answer() if call.verb in WRITES else ApiError(NO_ANSWER, "Unreachable", "no answer in time")

    def _cut(self) -> None:
        self._process.stepped.note(f"{self._process.name} is cut off")
        self._until = self._process.monotonic() + self._seconds


class Through(Passing):
    """A server at the other end of a line."""

    def __init__(self, api: Api, line: Line, patience: float) -> None:
        super().__init__(api)
        self._line, self._patience = line, patience

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass."""
        return self._line.carry(call, do, self._patience)


class Candidate(Mortal):
    """The API as one of several processes sees it."""

    line: Line
    elector: Elector
    whole: Process
    holder: Callable[[], str]
    """Whom the lease names."""
    frozen: Callable[[], None]
    """Called when it stands still."""
    _freeze_at, _slept = 0, False

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass. WHO SENDS A WRITE HOLDS THE LEASE: asked of the server, which this process has no part in."""
        if call.verb in WRITES and (holder := self.holder()) != self.name:
            self._process.stepped.fail(AssertionError(f"10: {self.name} sends a {call.verb}, and {holder or 'nobody'} holds the lease"))
        return super().through(call, do)

    @property
    def name(self) -> str:
        """By which the lease knows it."""
        return self._process.name

    def freeze(self) -> None:
        """Stand still."""
        self._slept = True
        self._process.stepped.freeze(self._process)
        self.frozen()

    def freeze_at(self, write: int) -> None:
        """Stand still just before the write of this number takes effect."""
        self._freeze_at = write

    def thaw(self) -> None:
        """Go on."""
        self._freeze_at = 0
        self._process.stepped.thaw(self._process)

    def terminate(self) -> None:
        """As SIGTERM does: a thread reads it."""
        self._process.start("signals", self.whole.stop)

    def _crash_if(self, write: int, when: Literal["before", "after"]) -> None:
        if (write, when) == (self._freeze_at, "before"):
            self.freeze()
            self._process.pause()
        super()._crash_if(write, when)

    def _judge(self, call: Call) -> None:
        """WHAT TAKES EFFECT does so while the lease names its sender. One that slept meanwhile comes late, and nobody could know of it."""
        if call.verb not in WRITES or (holder := self.holder()) == self.name:
            super()._judge(call)
        else:
            assert self._slept, f"10: a {call.verb} of {self.name} takes effect, and {holder or 'nobody'} holds the lease"
            self.contract.expect(call)


class _Witnessed(Elector):
    """An elector whose success is known to the contract."""

    led: Callable[[], None]

    def run(self, started: Callable[[], None]) -> None:
        """Take part."""

        def begin() -> None:
            self.led()
            started()

        super().run(begin)


class ElectedRun(Run):
    """One run of a schedule."""

    RECOVERY = 60.0

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self._begin()

    # -------------------------------------------------------------------------------------------- what happens to processes

    def standby(self) -> None:
        """There is always one."""

    def switch(self, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off for long enough."""
        self.cut_off(25.0, arrive, late, writes)

    def cut_off(self, seconds: float, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off from the server, now or at one of its next writes; what it had sent may arrive."""
        self._hit("cut off")
        self.leader.line.cut(seconds, Will(arrive, late), writes)
        for plural in ("pods", "services", "genericjobs"):
            self.leader.streams.hold(plural, seconds)

    def freeze(self, seconds: float, writes: int = 0) -> None:
        """The leader stands still for a while, whatever it was doing, now or at one of its next writes."""
        leader = self.leader

        def frozen() -> None:
            self._hit("stands still")
            self.cluster.agenda.after(seconds, leader.thaw)

        leader.frozen = frozen
        if writes:
            leader.freeze_at(leader.writes + writes)
        else:
            leader.freeze()

    def terminate(self) -> None:
        """The leader is asked to stop."""
        if not self.leader.crashed:
            self._hit("asked to stop")
            self.leader.terminate()

    def refuse_lease(self, code: int, times: int = 1, delay: float = 0.0) -> None:
        """Some requests about the lease are answered with an error, at once or after a while."""
        self._hit("lease refused")
        self._faults.refuse(ERRORS[code](True), times=times, delay=delay)

    # -------------------------------------------------------------------------------------------- who leads

    @property
    def leader(self) -> Candidate:
        """Whoever may write; if nobody may, the one that is there for longest."""
        alive = [found for found in self.controllers if not found.crashed]
        return next((found for found in alive if found.elector.may_write()), alive[0] if alive else self.controllers[-1])

    @leader.setter
    def leader(self, found: Mortal) -> None:
        """Nobody decides that here."""

    @property
    def _standby(self) -> Candidate | None:
        return next((found for found in self.controllers if not found.crashed and found is not self.leader), None)

    @_standby.setter
    def _standby(self, found: Mortal | None) -> None:
        pass

    def led(self) -> bool:
        """Whether there is a controller that leads."""
        return self.leader.elector.may_write()

    # -------------------------------------------------------------------------------------------- inside

    @cached_property
    def _leases(self) -> MemoryApi:
        return MemoryApi(now=self.stepped.now, new_uid=self.stepped.new_uid, condition=self.stepped.bell)

    @cached_property
    def _faults(self) -> FaultyApi:
        return FaultyApi(self._leases, sleep=self.stepped.process("faults").sleep)

    def _begin(self, *, leads: bool = True) -> Candidate:
        cluster, metrics, timings = self.cluster, Metrics(), Timings()
        process, streams = self.stepped.process("controller"), Streams(cluster.faults, self.stepped)
        line = Line(process, self._later)
        api = Candidate(Through(streams, line, Timeouts().write), process)
        api.streams, api.contract, api.line, api.holder = streams, cluster.contract, line, self._holder
        own = SteppedApi(Through(self._faults, line, timings.request), process)
        api.elector = elector = _Witnessed(own, LEASE, process.name, primitives=process, metrics=metrics, timings=timings)
        elector.led = partial(cluster.contract.takes_over, process.name)
        api.assembly = made = cluster.assembly(api, Fenced(api, elector.may_write), process, metrics)
        api.whole = Process(
            informers={"genericjobs": made.jobs, "pods": made.pods, "services": made.services},
            controllers=[made.controller],
            writer=made.writer,
            recorder=made.recorder,
            elector=elector,
            primitives=process,
            metrics=metrics,
            health=Health(),
        )
        self._enrolled(api)
        process.start("main", partial(self._live, api))
        return api

    def _live(self, api: Candidate) -> None:
        """From the beginning of a process to its end."""
        lost = api.whole.run()
        self._will, self._fault = Will(down=RESTART), "lease lost" if lost else "hand-over"
        api.crash()

    def _succeed(self) -> None:
        if sum(not found.crashed for found in self.controllers) < CANDIDATES:
            self._begin()

    def _mend(self) -> None:
        super()._mend()
        self._faults.heal()
        for found in self.controllers:
            found.thaw()
            found.line.heal()

    def _later(self, seconds: float, call: Call, do: Callable[[], Any]) -> None:
        self.cluster.agenda.after(seconds, partial(self._arrives, (call, do)))

    def _holder(self) -> str:
        try:
            spec = self._leases.get(LEASES, LEASE).get("spec") or {}
        except ApiError:
            return ""
        return spec.get("holderIdentity") or ""
