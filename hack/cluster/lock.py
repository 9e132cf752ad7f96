"""Two small shields: one against other programs, one against signals.

Directories are locked themselves (flock works on them), so no lock file is ever left behind and a program that is killed holds nothing.
"""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TRY_EVERY_S = 0.1
"""Seconds between two tries to take a lock that another program holds."""


@contextmanager
def locked(directory: Path, *, waiting: str = "") -> Iterator[None]:
    """Hold `directory` for this program alone, printing `waiting` if another one holds it now."""
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _take(handle):
            if waiting:
                print(waiting, file=sys.stderr, flush=True)
            # NO CALL THAT BLOCKS: Ctrl-C that arrives just before it would be noticed only when it returns.
            while not _take(handle):
                time.sleep(TRY_EVERY_S)
        yield
    finally:
        os.close(handle)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C and friends wait until the block is through: a clean-up that is interrupted is none. The block must be bounded in time."""
    held = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
