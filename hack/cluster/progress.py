"""A long step that says how far it is: one line that changes on a terminal, one line now and then in a log."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from cluster.lock import uninterrupted

LOG_EVERY = 10.0
DRAW_EVERY = 0.2


class Progress:
    """Says what is going on, with the time since it began."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        """Write to `stream`, standard error if none is given."""
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self._last = self._begin
        self._every = DRAW_EVERY if self._stream.isatty() else LOG_EVERY
        self._open = False

    def show(self, text: str) -> None:
        """The state of things, unless one was shown a moment ago."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        if self._stream.isatty():
            self._write(f"\r{self._stamped(text)}\x1b[K")
            self._open = True
        else:
            self._write(f"{self._stamped(text)}\n")

    def say(self, text: str) -> None:
        """A line that stays."""
        self.close()
        self._write(f"{self._stamped(text)}\n")
        self._last = time.monotonic()

    def close(self) -> None:
        """End the changing line, so that what others print begins on a new one."""
        if self._open:
            self._write("\n")
            self._open = False

    def _stamped(self, text: str) -> str:
        elapsed = int(time.monotonic() - self._begin)
        return f"[{elapsed // 60}:{elapsed % 60:02}] {text}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def run_watched(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, stdout: Path, on_line: Callable[[str], None], on_pause: Callable[[], None]
) -> int:
    """Run a program, pass on each line of its standard error, and return its exit code; if we are interrupted, so is all that it started.

    It leads a process group of its own: Ctrl-C reaches us alone, and we end the group, the compilers included, before we go.
    """
    with stdout.open("wb") as output:
        child = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, start_new_session=True
        )
    try:
        assert child.stderr is not None
        _read_lines(child.stderr, on_line, on_pause)
        return child.wait()
    except BaseException:
        with uninterrupted():
            _end_group(child)
        raise
    finally:
        if child.stderr:
            child.stderr.close()


def _read_lines(pipe: IO[bytes], on_line: Callable[[str], None], on_pause: Callable[[], None]) -> None:
    rest = b""
    while True:
        on_pause()
        if not select.select([pipe], [], [], 1.0)[0]:
            continue
        chunk = os.read(pipe.fileno(), 65536)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            on_line(line.decode(errors="replace"))


def _end_group(leader: "subprocess.Popen[bytes]") -> None:
    for which in (signal.SIGTERM, signal.SIGKILL):
        # The leader has not been waited for, so its id, which is the group's, cannot have gone to anybody else.
        with suppress(ProcessLookupError):
            os.killpg(leader.pid, which)
        with suppress(subprocess.TimeoutExpired):
            leader.wait(timeout=10)
            return
