"""Runs in which nobody says who leads: controllers are whole processes, and hold an election.

    Process ── its fence ── the line ── streams ── faults ── server
       └───── its elector ─── the line ──────────── faults ── lease

Everything is real, but for the threads and the clock. A leader may be killed, asked to stop, cut off from the server, or stand still as a
whole and go on while somebody else leads. A process that ends is started again, as a Deployment would. The lease lies on a server of its
own, so that a cluster at rest is one on which nothing changes. Whose it is, is asked of that server and never of those who take part.

Clause 10 has two halves here. No write is sent by a process that does not hold the lease. And a write that was sent takes effect while its
sender still holds the lease, unless it is a create: those may be as late as their timeout allows, 25 s after an election, and the judges of
the other clauses see whether that does any harm.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

from genericjob.local.faults import FaultyApi, lost_answer
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.health import Health
from genericjob.reconcile.lease import Elector, Timings
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.passing import WRITES, Call, Passing
from genericjob.reconcile.process import Process
from genericjob.reconcile.resources import Key
from genericjob.reconcile.timeouts import CREATE_S, Timeouts
from sim import processes
from sim.chance.hostile import Mortal, Streams, Write
from sim.chance.playing import Run
from sim.chance.schedules import Schedule
from sim.chance.trouble import ERRORS, Will
from sim.scheduler import Stepped
from sim.world import SteppedApi

T = TypeVar("T")

STEPS = frozenset(("cut_off", "freeze", "terminate", "refuse_lease", "lose_lease_answers"))
"""That only these runs have."""
LEASE = Key("default", "genericjob-controller")
CANDIDATES = 2
RESTART = 1.0
"""Seconds until a process that has ended is started again."""
ROUNDED = 1e-6
"""Seconds by which two ways to count the same time may differ."""


def patience(call: Call) -> float:
    """Return the seconds after which a request is given up. The server is told, too: a write that has not arrived by then never does."""
    return CREATE_S if call.verb == "create" else Timeouts().write


class Register(Passing):
    """The server's word on whose the lease is, and the judge of those who take it."""

    def __init__(self, leases: MemoryApi, stepped: Stepped) -> None:
        super().__init__(leases)
        self._stepped = stepped
        self.holder = ""
        self.since = 0.0
        """When the record was written last."""

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass."""
        answer: Any = do()
        if call.verb in WRITES:
            stored = answer.object if call.verb == "create" else answer
            self._written(stored["spec"].get("holderIdentity") or "")
        return answer  # type: ignore[no-any-return]

    def _written(self, holder: str) -> None:
        now = self._stepped.monotonic()
        if self.holder not in ("", holder) and holder and now - self.since < Timings().lease - ROUNDED:
            told = f"10: {holder} takes the lease from {self.holder}, who wrote it {now - self.since:g} s ago"
            self._stepped.fail(AssertionError(told))
        self.holder, self.since = holder, now


class Line:
    """What connects a process to its servers. While it is cut, requests find no way, and are given up after a while."""

    def __init__(self, process: processes.Process, cut: Callable[[float], None]) -> None:
        """`cut` is told when it happens, and for how long."""
        self._process, self._told = process, cut
        self._until = 0.0
        self._seconds, self._after = 0.0, 0

    def cut(self, seconds: float, writes: int) -> None:
        """Cut it for so long, now or at one of the next writes."""
        self._seconds, self._after = seconds, writes
        if not writes:
            self._cut()

    def heal(self) -> None:
        """Nothing is in the way any more."""
        self._until, self._after = 0.0, 0

    def sends(self) -> None:
        """A write begins its way."""
        if self._after:
            self._after -= 1
            if not self._after:
                self._cut()

    @property
    def open(self) -> bool:
        """Whether anything gets through. What is left of a dead process was beyond the cut."""
        return self._process.crashed or self._process.monotonic() >= self._until

    def _cut(self) -> None:
        self._process.stepped.note(f"{self._process.name} is cut off")
        self._until = self._process.monotonic() + self._seconds
        self._told(self._seconds)


class Wire(Passing):
    """A server at the other end of a line. `lost` is told of writes that do not get through."""

    def __init__(
        self,
        api: Api,
        line: Line,
        process: processes.Process,
        patience: Callable[[Call], float],
        lost: Callable[[Callable[[], Any]], None],
    ) -> None:
        super().__init__(api)
        self._line, self._process, self._patience, self._lost = line, process, patience, lost

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass, or not."""
        if self._line.open:
            return do()
        if call.verb in WRITES:
            self._lost(do)
        self._process.sleep(self._patience(call))
        raise lost_answer() if call.verb in WRITES else ApiError(NO_ANSWER, "Unreachable", "no answer in time")


class Candidate(Mortal):
    """The API as one of several processes sees it."""

    line: Line
    elector: Elector
    program: Process
    register: Register
    sleeps: Callable[[], None] = staticmethod(lambda: None)
    """Called when it stands still."""
    cut_will, lost = Will(), 0
    """What becomes of its writes while it is cut off or when it ends by itself, and how many were lost while it was cut off."""

    def __init__(self, api: Api, process: processes.Process) -> None:
        super().__init__(api, process)
        self._sent: dict[processes.SteppedThread, tuple[Call, float]] = {}
        """What threads have sent, and when."""
        self._freeze_at = 0
        self._departures: list[tuple[Call, float]] = []
        """The writes that were on their way when it died, and when they were sent."""
        self._excused: list[Call] = []
        """Writes that were on their way when it stood still: they arrive whenever it goes on."""

    @property
    def name(self) -> str:
        """By which the lease knows it."""
        return self._process.name

    @property
    def holds(self) -> bool:
        """Whether the lease is its own."""
        return self.register.holder == self.name

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass. WHO SENDS A WRITE HOLDS THE LEASE."""
        if call.verb in WRITES:
            if not self.holds:
                self._process.stepped.fail(AssertionError(f"10: {self.name} sends a {call.verb}, and {self._holder} holds the lease"))
            self.line.sends()
        return super().through(call, do)

    def freeze(self) -> None:
        """Stand still."""
        if not self.crashed and not self._process.frozen:
            self._excused += [call for call, _ in self._under_way.values()]
            self._process.stepped.freeze(self._process)
            self.sleeps()

    def freeze_at(self, write: int) -> None:
        """Stand still just before the write of this number takes effect."""
        self._freeze_at = write

    def thaw(self) -> None:
        """Go on."""
        self._process.stepped.thaw(self._process)

    def spare(self) -> None:
        """Nothing is to happen to it after all."""
        super().spare()
        self._freeze_at = 0
        self.line.heal()
        self.thaw()

    def terminate(self) -> None:
        """As SIGTERM does: a thread reads it."""
        self._process.start("signals", self.program.stop)

    def arrives(self, call: Call) -> None:
        """A write takes effect. THE LEASE NAMES ITS SENDER THEN, unless that was asleep meanwhile: it could not know that it was late.

        A create may be late.
        """
        if call.verb != "create" and not self.holds and not any(call is known for known in self._excused):
            raise AssertionError(f"10: a {call.verb} of {self.name} takes effect, and {self._holder} holds the lease")

    @property
    def sending(self) -> tuple[Call, float]:
        """What the present thread has sent, and how many seconds are left until it gives it up."""
        call, at = self._sent[self._process.stepped.me()]
        return call, self._left(call, at)

    def crash(self, commit: Any = None) -> None:
        """Crash the process now."""
        self._departures = list(self._sent.values())
        super().crash(commit)

    def left_of(self, call: Call) -> float:
        """Return the seconds within which a write arrives that was on its way when the process died."""
        return next(self._left(found, at) for found, at in self._departures if found is call)

    def _left(self, call: Call, at: float) -> float:
        return max(0.0, patience(call) - (self._process.monotonic() - at))

    @property
    def _holder(self) -> str:
        return self.register.holder or "nobody"

    def _stepped(self, call: Call, do: Callable[[], Any]) -> Any:
        me = self._process.stepped.me()
        self._sent[me] = call, self._process.monotonic()
        try:
            return super()._stepped(call, do)
        finally:
            del self._sent[me]

    def _crash_if(self, write: int, when: Literal["before", "after"]) -> None:
        if (write, when) == (self._freeze_at, "before"):
            self.freeze()
            self._process.pause()
        super()._crash_if(write, when)

    def _judge(self, call: Call) -> None:
        if call.verb in WRITES and self.line.open:
            self.arrives(call)
        if call.verb in WRITES and not self.holds:
            self.contract.expect(call)
        else:
            super()._judge(call)


class _Witnessed(Elector):
    """An elector whose success is known to others."""

    elected: Callable[[], None]

    def run(self, started: Callable[[], None]) -> None:
        """Take part."""

        def begin() -> None:
            self.elected()
            started()

        super().run(begin)


class ElectedRun(Run):
    """One run of a schedule."""

    RECOVERY = 60.0

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        leases = MemoryApi(now=self.stepped.now, new_uid=self.stepped.new_uid, condition=self.stepped.bell)
        self._register = Register(leases, self.stepped)
        self._faults = FaultyApi(self._register, sleep=self.stepped.process("faults").sleep)
        self._candidates: list[Candidate] = []
        self.elections: list[float] = []
        """When somebody began to lead."""
        self.arrivals: list[tuple[float, Call]] = []
        """Writes that their senders had given up, and when they arrived."""
        for _ in range(CANDIDATES):
            self._begin()

    # -------------------------------------------------------------------------------------------- what happens to processes

    def standby(self) -> None:
        """There is always one."""

    def switch(self, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off for long enough."""
        self.cut_off(25.0, arrive, late, writes)

    def cut_off(self, seconds: float, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off from the server, now or at one of its next writes; what it had sent may arrive."""
        leader = self.leader
        leader.cut_will, leader.lost = Will("cut off", arrive, late), 0
        leader.line.cut(seconds, writes)

    def freeze(self, seconds: float, writes: int = 0) -> None:
        """The leader stands still for a while, whatever it was doing, now or at one of its next writes."""
        leader = self.leader

        def sleeps() -> None:
            self._hit("stands still")
            self.cluster.agenda.after(seconds, leader.thaw)

        leader.sleeps = sleeps
        if writes:
            leader.freeze_at(leader.writes + writes)
        else:
            leader.freeze()

    def terminate(self, arrive: tuple[int, ...] = (), late: float = 0.0) -> None:
        """The leader is asked to stop; creates that it does not wait for may arrive."""
        leader = self.leader
        if not leader.crashed:
            self._hit("asked to stop")
            leader.cut_will = Will("asked to stop", arrive, late)
            leader.terminate()

    def refuse_lease(self, code: int, times: int = 1, delay: float = 0.0) -> None:
        """Some requests about the lease are answered with an error, at once or after a while, and do not happen."""
        self._faults.refuse(ERRORS[code](True), times=times, delay=delay, when=self._noting("lease refused"))

    def lose_lease_answers(self, times: int = 1, delay: float = 0.0) -> None:
        """Some renewals happen, and their answers are lost."""
        self._faults.lose(times=times, delay=delay, when=self._noting("lease answer lost"))

    # -------------------------------------------------------------------------------------------- who leads

    @property
    def leader(self) -> Candidate:
        """Whoever has the lease, or did so last; before there is one, anybody."""
        alive = [found for found in self._candidates if not found.crashed]
        return next((found for found in alive if found.holds), alive[0] if alive else self._candidates[-1])

    @property
    def other(self) -> Candidate | None:
        """One of those who wait."""
        return next((found for found in self._candidates if not found.crashed and found is not self.leader), None)

    def led(self) -> bool:
        """Whether somebody leads."""
        return self.leader.holds and not self.leader.crashed and self.stepped.monotonic() - self._register.since < Timings().renew

    # -------------------------------------------------------------------------------------------- inside

    def _begin(self) -> None:
        cluster, metrics, timings = self.cluster, Metrics(), Timings()
        process, streams = self.stepped.process("controller"), Streams(cluster.faults, self.stepped)
        line = Line(process, lambda seconds: self._cut(api, seconds))
        api = Candidate(Wire(streams, line, process, patience, lambda send: self._lose(api, send)), process)
        api.streams, api.contract, api.line, api.register = streams, cluster.contract, line, self._register
        own = SteppedApi(Wire(self._faults, line, process, lambda call: timings.request, lambda send: None), process)
        api.elector = elector = _Witnessed(own, LEASE, process.name, primitives=process, metrics=metrics, timings=timings)
        elector.elected = partial(self._elected, process.name)
        fence = Fence(elector.may_write, process)
        api.assembly = made = cluster.assembly(api, Fenced(api, fence), process, metrics)
        api.program = Process(
            informers={"genericjobs": made.jobs, "pods": made.pods, "services": made.services},
            controllers=[made.controller],
            writer=made.writer,
            recorder=made.recorder,
            fence=fence,
            elector=elector,
            primitives=process,
            metrics=metrics,
            health=Health(),
        )
        self._enrol(api)
        self._candidates.append(api)
        process.start("main", partial(self._live, api))

    def _live(self, api: Candidate) -> None:
        """From the beginning of a process to its end."""
        code = api.program.run()
        why = "hand-over" if code == 0 else "lease lost" if api.elector.lost else "ended in haste"
        api.will = replace(api.cut_will, fault=why, down=RESTART)
        api.crash()

    def _elected(self, name: str) -> None:
        self.elections.append(self.stepped.monotonic())
        self.cluster.contract.takes_over(name)

    def _latest(self, dead: Mortal, call: Call) -> float:
        assert isinstance(dead, Candidate)
        return dead.left_of(call)

    def _succeed(self) -> None:
        if sum(not found.crashed for found in self._candidates) < CANDIDATES:
            self._begin()

    def _mend(self) -> None:
        super()._mend()
        self._faults.heal()

    def _cut(self, api: Candidate, seconds: float) -> None:
        self._hit("cut off")
        for plural in ("pods", "services", "genericjobs"):
            api.streams.hold(plural, seconds)

    def _lose(self, api: Candidate, send: Callable[[], Any]) -> None:
        """A write finds no way; or was beyond the cut already, and arrives."""
        call, left = api.sending
        if api.lost in api.cut_will.arrive and left > 0:
            self.cluster.agenda.after(min(api.cut_will.late, left), partial(self._arrives, api, (call, send)))
        api.lost += 1

    def _arrives(self, sender: Mortal, write: Write) -> None:
        try:
            sender.arrives(write[0])
        except AssertionError as error:
            self.stepped.fail(error)
        self.arrivals.append((self.stepped.monotonic(), write[0]))
        super()._arrives(sender, write)
