"""Runs in which a step says who leads: a controller, and after it its successor or a standby that takes over at once."""

from sim.chance.hostile import Mortal
from sim.chance.playing import Run
from sim.chance.schedules import Schedule
from sim.chance.trouble import Will


class AppointedRun(Run):
    """One run of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule)
        self._standby: Mortal | None = None
        self._leader = self._begin()

    @property
    def leader(self) -> Mortal:
        """Whoever leads, or did so last."""
        return self._leader

    @property
    def other(self) -> Mortal | None:
        """The standby."""
        return self._standby

    def led(self) -> bool:
        """Whether somebody leads."""
        return not self._leader.crashed

    def standby(self) -> None:
        """Another controller stands by, with full caches."""
        if self._standby is None:
            self._standby = self._begin(leads=False)

    def switch(self, arrive: tuple[int, ...] = (), late: float = 0.0, writes: int = 0) -> None:
        """The leader is cut off, now or at one of its next writes, and another takes over at once; what the first had sent may arrive."""
        self._condemn(Will("leader switch", arrive, late), writes, "before")

    def _begin(self, *, leads: bool = True) -> Mortal:
        found = self.cluster.begin(leads=leads)
        self._enrol(found)
        return found

    def _succeed(self) -> None:
        if not self._leader.crashed:
            return
        if self._standby is not None:
            self._leader, self._standby = self._standby, None
            self._leader.lead()
        else:
            self._leader = self._begin()
