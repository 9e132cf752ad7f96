"""Many schedules, on several processors. IN A MODULE OF ITS OWN: processes that are started afresh do not find what is in `__main__`."""

import gc
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, islice
from multiprocessing import get_context
from typing import Any

from sim.chance.making import schedule
from sim.chance.report import counted
from sim.chance.trial import Trial, play
from sim.cores import keep_to

CHUNK = 20
"""Schedules that are handed out at a time."""
CHUNKS = 100
"""A process that has played so many is replaced."""


def played(seeds: range, processes: int) -> Iterator[dict[str, Any]]:
    """In the order of the seeds, so that a state is a number."""
    chunks = [seeds[first : first + CHUNK] for first in range(0, len(seeds), CHUNK)]
    with ExitStack() as stack:
        # A POOL FOR EACH: whoever takes the place of a process that was replaced has its processor, too.
        pools = [stack.enter_context(get_context("spawn").Pool(1, _prepare, (n,), CHUNKS)) for n in range(processes)]
        parts = [pool.imap(_play, chain.from_iterable(chunks[n::processes]), chunksize=CHUNK) for n, pool in enumerate(pools)]
        for number, chunk in enumerate(chunks):
            yield from islice(parts[number % processes], len(chunk))


def _prepare(number: int) -> None:
    """What is there already stays, and what comes is looked through only now and then. Whoever interrupts means the first process."""
    keep_to(number)
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
