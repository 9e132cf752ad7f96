"""Processes that do nothing but keep the processors busy."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# It asks after its parent, so that it ends even if that is killed.
LOOP = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy(count: int) -> Iterator[list[int]]:
    """Keep `count` processes busy within the block; yields their ids."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            argv = [sys.executable, "-c", LOOP, str(os.getpid())]
            started.append(subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True))
        yield [process.pid for process in started]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
