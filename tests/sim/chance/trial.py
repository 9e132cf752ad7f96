"""One schedule, played to its end and judged."""

import hashlib
import logging
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sim.chance.appointing import AppointedRun
from sim.chance.electing import ElectedRun
from sim.chance.playing import Run
from sim.chance.schedules import Schedule
from sim.chance.settled import settle
from sim.processes import SimulationError


@dataclass(frozen=True)
class Trial:
    """What came of a schedule."""

    schedule: Schedule
    failure: str = ""
    """What was wrong first; empty if nothing was."""
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often which fault met a job in which mode."""
    steps: int = 0
    writes: int = 0
    statuses: int = 0
    crashes: int = 0
    seconds: float = 0.0
    """Virtual ones."""
    trace: tuple[str, ...] = ()

    @property
    def check(self) -> str:
        """Which check failed: the failure without names and numbers."""
        return re.sub(r"uid-\d+|\d+(\.\d+)?|[\w-]+-(worker|ps)-\d+", "…", self.failure.split("\n")[0])[:120]

    @property
    def digest(self) -> str:
        """The same for the same run."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def play(schedule: Schedule, *, traced: bool = False, script: Callable[[Run], None] | None = None) -> Trial:
    """Play a schedule, its steps or a script in place of them, and judge it."""
    failure = ""
    with _listening() as heard:
        run: Run = ElectedRun(schedule) if schedule.elected else AppointedRun(schedule)
        try:
            (script or _steps)(run)
            run.heal()
            settle(run)
        except SimulationError as error:
            failure = f"{type(error).__name__}: {error}" + (f" ({error.__cause__!r})" if error.__cause__ else "")
        except AssertionError as error:
            failure = str(error) or f"assertion: {traceback.extract_tb(error.__traceback__)[-1].line}"
        finally:
            run.cluster.close()
        failure = "".join(heard[:1]) or failure  # what a controller survived is the cause of what came after
    stepped = run.stepped
    return Trial(
        schedule,
        failure,
        run.hits,
        stepped.steps,
        run.writes,
        run.cluster.oracle.judged,
        run.crashes,
        stepped.monotonic(),
        tuple(stepped.trace) if traced else (),
    )


def _steps(run: Run) -> None:
    for step in run.schedule.steps:
        getattr(run, step.do)(**step.arguments)


class _Ear(logging.Handler):
    """Hears of errors that a controller survived. That a lease is lost is none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take note."""
        error = record.exc_info[1] if record.exc_info else None
        if error or not record.getMessage().startswith("leader election lost"):
            self.heard.append(f"thread: {record.getMessage()}: {error!r}")


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Silence, but for errors. They are heard and not printed."""
    log, ear = logging.getLogger("genericjob"), _Ear()
    before = log.level, log.propagate
    log.addHandler(ear)
    log.setLevel(logging.ERROR)
    log.propagate = False
    try:
        yield ear.heard
    finally:
        log.removeHandler(ear)
        log.setLevel(before[0])
        log.propagate = before[1]
