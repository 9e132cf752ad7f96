"""One processor for a simulation: of its threads only one runs at a time, and to wake one on another processor costs more than its turn."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def keep_to(number: int) -> None:
    """Have this thread, and whatever it starts, use one processor only; numbers go around."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


@contextmanager
def one_core(number: int) -> Iterator[None]:
    """The same for a while."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    keep_to(number)
    try:
        yield
    finally:
        if before is not None:
            os.sched_setaffinity(0, before)
