"""What is heard of a run that fails, and of code that cannot work."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sim
from sim.processes import NotReachedError, SimulationError

IMPOSSIBLE = (NameError, TypeError, AttributeError)
SIMULATION = Path(sim.__file__).parent
MACHINERY = frozenset(SIMULATION / name for name in ("scheduler.py", "processes.py", "world.py", "jobs.py"))


class ClumsyError(Exception):
    """A mutant that is no controller: it would be noticed by whoever starts it."""


def words(error: Exception) -> str:
    """What a check says; of one without words, its own line."""
    first, *others = str(error).splitlines() or [""]
    if first.endswith("it ends differently:"):
        return f"it ends differently: {others[0].strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _asks(Path(frame.filename))]
    line = (frames[-1].line if frames else None) or first
    if isinstance(error, NotReachedError):
        return f"never: {line}"
    if isinstance(error, SimulationError) or not isinstance(error, AssertionError):
        return f"{type(error).__name__}: {first}"
    return line if not first or first.startswith("assert ") else first


def _asks(file: Path) -> bool:
    return file.is_relative_to(SIMULATION) and file not in MACHINERY


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], IMPOSSIBLE):
            self.heard.append(record.exc_info[1])


@contextmanager
def listening() -> Iterator[None]:
    """A controller survives whatever a reconcile raises. So it has to be heard."""
    log, ear = logging.getLogger("genericjob"), _Ear()
    log.addHandler(ear)
    try:
        yield
    finally:
        log.removeHandler(ear)
        if ear.heard:
            raise ClumsyError(f"it cannot work at all: {ear.heard[0]!r}")


@contextmanager
def silence() -> Iterator[None]:
    """Nobody else hears anything."""
    log, nobody = logging.getLogger("genericjob"), logging.NullHandler()
    propagated, log.propagate = log.propagate, False
    log.addHandler(nobody)
    try:
        yield
    finally:
        log.removeHandler(nobody)
        log.propagate = propagated
