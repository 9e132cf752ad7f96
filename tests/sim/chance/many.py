"""Many schedules, on several processors. IN A MODULE OF ITS OWN: processes that are started afresh do not find what is in `__main__`."""

import gc
import signal
import time
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

from sim.chance.making import schedule
from sim.chance.report import counted
from sim.chance.trial import Trial, play

CHUNK = 20
"""Schedules that are handed out at a time."""
CHUNKS = 100
"""A process that has played so many is replaced."""


def played(seeds: range, processes: int) -> Iterator[dict[str, Any]]:
    """In the order of the seeds, so that a state is a number."""
    with get_context("spawn").Pool(processes, _prepare, maxtasksperchild=CHUNKS) as pool:
        yield from pool.imap(_play, seeds, chunksize=CHUNK)


def _prepare() -> None:
    """What is there already stays, and what comes is looked through only now and then. Whoever interrupts means the first process."""
    gc.freeze()
    gc.set_threshold(200_000, 5, 5)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _play(seed: int) -> dict[str, Any]:
    begun = time.process_time()
    return counted(tried(seed), time.process_time() - begun)


def tried(seed: int) -> Trial:
    """One schedule, played whatever happens: where the simulation itself fails, that is what failed."""
    try:
        return play(schedule(seed))
    except Exception as error:
        return Trial(schedule(seed), f"simulation: {error!r}")
