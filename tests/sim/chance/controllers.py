"""The controllers of a run: they die, have clocks that are wrong, and leave writes behind that arrive when nobody expects them.

Who leads is said by a step (`appointing.py`) or by an election (`electing.py`).
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from typing import Literal

from genericjob.reconcile.passing import Call
from sim.chance.coverage import mode_of
from sim.chance.hostile import Hostile, Mortal, Write
from sim.chance.trouble import Will
from sim.jobs import RAW_JOBS


class Controllers(ABC):
    """Controllers on a cluster, one of which leads."""

    RECOVERY = 35.0
    """Seconds after which whoever is dead has a successor, and what was late has arrived."""

    def __init__(self, cluster: Hostile, latency: float) -> None:
        self.cluster = cluster
        self.api, self.node, self.stepped = cluster.api, cluster.node, cluster.stepped
        self.calm = False
        self.hits: Counter[tuple[str, str]] = Counter()
        """How often which fault met a job in which mode."""
        self.crashes = 0
        self.controllers: list[Mortal] = []
        self._latency, self._admission, self._reading = latency, 0.0, 0.0
        self._jumps = [0.0]

    @property
    def writes(self) -> int:
        """How many writes all controllers have sent."""
        return sum(found.writes for found in self.controllers)

    # -------------------------------------------------------------------------------------------- who leads

    @property
    @abstractmethod
    def leader(self) -> Mortal:
        """Whoever leads, or did so last."""

    @property
    @abstractmethod
    def other(self) -> Mortal | None:
        """Another one that is there, if there is."""

    @abstractmethod
    def led(self) -> bool:
        """Whether somebody leads."""

    @abstractmethod
    def _succeed(self) -> None:
        """Time for a successor of one that is dead."""

    # -------------------------------------------------------------------------------------------- what happens to them

    def crash(
        self,
        writes: int = 0,
        when: Literal["before", "after"] = "before",
        arrive: tuple[int, ...] = (),
        late: float = 0.0,
        down: float = 0.0,
    ) -> None:
        """The controller dies, now or at one of its next writes; its successor begins after a while."""
        self._condemn(Will("crash", arrive, late, down), writes, when)

    def jump(self, seconds: float) -> None:
        """The controller's clock goes wrong."""
        self._hit("clock forward" if seconds > 0 else "clock back")
        self.leader.jump(seconds)
        self._jumps.append(seconds)
        self.cluster.oracle.skew = max(self._jumps) - min(self._jumps)

    # -------------------------------------------------------------------------------------------- inside

    def _enrol(self, found: Mortal) -> None:
        found.latency, found.admission, found.reading = self._latency, self._admission, self._reading
        found.bequeath = self._bequeath
        self.controllers.append(found)

    def _condemn(self, will: Will, writes: int, when: Literal["before", "after"]) -> None:
        leader = self.leader
        if not leader.crashed:
            leader.will = will
            if writes:
                leader.crash_at(leader.writes + writes, when)
            else:
                leader.crash()

    def _bequeath(self, dead: Mortal, writes: list[Write]) -> None:
        """A controller dies. NO SCHEDULING POINT in here: its other threads would go on."""
        self._hit(dead.will.fault)
        self.crashes += 1
        for number, write in enumerate(writes):
            if number in dead.will.arrive:
                late = min(dead.will.late / (number + 1), self._latest(dead, write[0]))
                self.cluster.agenda.after(late, partial(self._arrives, dead, write))
        self.cluster.agenda.after(dead.will.down, self._succeed)

    def _latest(self, dead: Mortal, call: Call) -> float:
        """Seconds within which a write of a dead controller arrives, or not at all."""
        return math.inf

    def _arrives(self, sender: Mortal, write: Write) -> None:
        """A write arrives that its sender has given up, or whose sender is dead."""
        self._hit("late write")
        self.cluster.deliver(write)

    def _mend(self) -> None:
        """All that live go on living."""
        for controller in self.controllers:
            controller.spare()
            controller.streams.heal()
            controller.jump(0.0)

    def _hit(self, fault: str, about: str = "") -> None:
        if not self.calm:
            jobs = [job for job in self.api.list(RAW_JOBS).items if not about or about.startswith(job["metadata"]["name"])]
            self.hits[mode_of(jobs[0]) if jobs else "none", fault] += 1
