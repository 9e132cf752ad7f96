"""Those steps of a run that are about controllers: they die, stand by, take over, and have clocks that are wrong."""

from collections import Counter
from functools import partial
from typing import Literal

from sim.chance.coverage import mode_of
from sim.chance.hostile import Hostile, Mortal, Write
from sim.chance.trouble import Will
from sim.jobs import RAW_JOBS


class Leading:
    """Controllers on a cluster, one of which leads."""

    RECOVERY = 10.0
    """Seconds after which whoever is dead has a successor, and what was late has arrived."""

    def __init__(self, cluster: Hostile, latency: float) -> None:
        self.cluster = cluster
        self.api, self.node, self.stepped = cluster.api, cluster.node, cluster.stepped
        self.calm = False
        self.hits: Counter[tuple[str, str]] = Counter()
        """How often which fault met a job in which mode."""
        self.crashes = 0
        self.controllers: list[Mortal] = []
        self._will, self._fault = Will(), "crash"
        self._standby: Mortal | None = None
        self._latency, self._reading = latency, 0.0
        self._jumps = [0.0]
        self.leader = self._begin()

    @property
    def writes(self) -> int:
        """How many writes all controllers have sent."""
        return sum(found.writes for found in self.controllers)

    def crash(
        self,
        writes: int = 0,
        when: Literal["before", "after"] = "before",
        arrive: tuple[int, ...] = (),
        late: float = 0.0,
        down: float = 0.0,
    ) -> None:
        """The controller dies, now or at one of its next writes; its successor begins after a while."""
        self._will, self._fault = Will(arrive, late, down), "crash"
        if writes:
            self.leader.crash_at(self.leader.writes + writes, when)
        elif not self.leader.crashed:
            self.leader.crash()

    def standby(self) -> None:
        """Another controller stands by, with full caches."""
        if self._standby is None:
            self._standby = self._begin(leads=False)

    def switch(self, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off, now or at one of its next writes, and another takes over at once; what the first had sent may arrive."""
        if not self.leader.crashed:
            self._will, self._fault = Will(arrive, late), "leader switch"
            if writes:
                self.leader.crash_at(self.leader.writes + writes, "before")
            else:
                self.leader.crash()

    def jump(self, seconds: float) -> None:
        """The controller's clock goes wrong."""
        self._hit("clock forward" if seconds > 0 else "clock back")
        self.leader.jump(seconds)
        self._jumps.append(seconds)
        self.cluster.oracle.skew = max(self._jumps) - min(self._jumps)

    def led(self) -> bool:
        """Whether there is a controller."""
        return not self.leader.crashed

    def _begin(self, *, leads: bool = True) -> Mortal:
        return self._enrolled(self.cluster.begin(leads=leads))

    def _enrolled(self, found: Mortal) -> Mortal:
        found.latency, found.reading, found.bequeath = self._latency, self._reading, self._bequeath
        self.controllers.append(found)
        return found

    def _mend(self) -> None:
        """All that live go on living."""
        for controller in self.controllers:
            controller.spare()
            controller.streams.heal()
            controller.jump(0.0)

    def _bequeath(self, dead: Mortal, writes: list[Write]) -> None:
        """A controller dies. NO SCHEDULING POINT in here: its other threads would go on."""
        self._hit(self._fault)
        self.crashes += 1
        will, self._will = self._will, Will()
        for number, write in enumerate(writes):
            if number in will.arrive:
                self.cluster.agenda.after(will.late / (number + 1), partial(self._arrives, write))
        self.cluster.agenda.after(will.down, self._succeed)

    def _arrives(self, write: Write) -> None:
        self._hit("late write")
        self.cluster.deliver(write)

    def _succeed(self) -> None:
        if not self.leader.crashed:
            return
        if self._standby is not None:
            self.leader, self._standby = self._standby, None
            self.leader.lead()
        else:
            self.leader = self._begin()

    # -------------------------------------------------------------------------------------------- inside

    def _hit(self, fault: str, about: str = "") -> None:
        if not self.calm:
            jobs = [job for job in self.api.list(RAW_JOBS).items if not about or about.startswith(job["metadata"]["name"])]
            self.hits[mode_of(jobs[0]) if jobs else "none", fault] += 1
