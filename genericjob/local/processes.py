"""Programs of this machine: started, listened to, ended.

Every program leads a session and process group of its own, so that Ctrl-C at the terminal does not reach it and a signal to it reaches its
children as well. One thread reads what all of them print and sees them end; whoever started a program hears of both from that thread.

The end of a program is the end of its group, as the end of a container's first process is the end of the container. A child that has left
the group (a daemon) is not found.
"""

import logging
import os
import selectors
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import IO

from genericjob.reconcile.primitives import Primitives

from .containers import CannotStartError, Launch

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
LONGEST_LINE = 64 * 1024
"""Bytes of a line; a longer one is told in pieces."""
LAST_WORDS = 16
"""Chunks that are still read of a program that has ended: somebody else may hold its output open, and go on for ever."""
LOOK_EVERY = 0.02
"""Seconds between looks at programs whose end cannot be waited for (no pidfd)."""


class Lines:
    """Bytes as they come, told in lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that these bytes complete."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield _text(line)
        if len(self._rest) >= LONGEST_LINE:
            yield from self.end()

    def end(self) -> Iterator[str]:
        """What is left."""
        rest, self._rest = self._rest, b""
        if rest:
            yield _text(rest)


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode(errors="replace")


class Process:
    """A program and the group that it leads. Made by `Processes.start`."""

    def __init__(self, launch: Launch, *, told: Callable[[str], None], ended: Callable[[int], None]) -> None:
        self._popen = _started(launch)
        self.pid = self._popen.pid
        self._told, self._ended = told, ended
        self.output: IO[bytes] = self._popen.stdout  # type: ignore[assignment] # there is a pipe
        os.set_blocking(self.output.fileno(), False)
        self._lines = Lines()
        self._lock = threading.Lock()
        self._reaped = False

    def signal(self, number: int) -> None:
        """Send a signal to the group; to one that has ended nothing is sent."""
        with self._lock:
            # A REAPED PROCESS GIVES ITS NUMBER BACK: the group of that number might be a stranger's by now.
            if not self._reaped:
                self._send(number)

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    # -------------------------------------------------------------------------------------------- for the listening thread

    def listen(self) -> bool:
        """Pass on what was printed since; whether there may be more one day."""
        try:
            data = os.read(self.output.fileno(), CHUNK)
        except BlockingIOError:
            return True
        for line in self._lines.feed(data) if data else self._lines.end():
            self._told(line)
        return bool(data)

    def has_ended(self) -> bool:
        """Whether the program has ended; its number stays taken."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def bury(self) -> None:
        """End what is left of the group, pass on its last words and then its exit code."""
        with self._lock:
            self._send(signal.SIGKILL)
            code = self._popen.wait()
            self._reaped = True
        try:
            self._hear_last_words()
        finally:
            self._ended(code if code >= 0 else 128 - code)

    def _hear_last_words(self) -> None:
        if self.output.closed:
            return
        with self.output:
            for _ in range(LAST_WORDS):
                try:
                    data = os.read(self.output.fileno(), CHUNK)
                except BlockingIOError:
                    break
                for line in self._lines.feed(data):
                    self._told(line)
                if not data:
                    break
            for line in self._lines.end():
                self._told(line)


def _started(launch: Launch) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - to run users' programs is what this is for
            launch.argv,
            env=launch.env,
            cwd=launch.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if launch.directory is not None and error.filename == launch.directory:
            raise CannotStartError(f"workingDir {launch.directory} does not exist on this machine") from None
        raise CannotStartError(f"there is no program {launch.argv[0]!r} on this machine") from None
    except OSError as error:
        raise CannotStartError(f"{error.filename or launch.argv[0]!r} cannot be started: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in an argument, a "=" in the name of a variable
        raise CannotStartError(f"{launch.argv[0]!r} cannot be started: {error}") from None


class Processes:
    """All programs of a run."""

    def __init__(self, *, primitives: Primitives) -> None:
        self._selector = selectors.DefaultSelector()
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        self._selector.register(self._ear, selectors.EVENT_READ, self._greet)
        self._lock = threading.Lock()
        self._new: deque[Process] = deque()
        self._running: set[Process] = set()
        self._unwatched: set[Process] = set()
        """Those whose end has to be looked for."""
        self._closing = self._closed = False
        self._thread = primitives.start("processes", self._listen)

    def start(self, launch: Launch, *, told: Callable[[str], None], ended: Callable[[int], None]) -> Process:
        """Start a program; `told` hears its lines, `ended` its exit code (128 + n for signal n), both on another thread."""
        with self._lock:
            if self._closing:
                raise CannotStartError("the run is over")
            # UNDER THE LOCK: a program that starts while everything ends must be among those that are ended.
            process = Process(launch, told=told, ended=ended)
            self._running.add(process)
            self._new.append(process)
        self._wake()
        return process

    def close(self, timeout: float = 10.0) -> bool:
        """Kill everything and wait until it is gone; whether it is."""
        with self._lock:
            self._closing = True
            for process in self._running:
                process.signal(signal.SIGKILL)
        if not self._closed:
            self._wake()
            self._closed = self._thread.join(timeout)
            if self._closed:
                for end in (self._ear, self._mouth):
                    os.close(end)
        return self._closed

    def _wake(self) -> None:
        os.write(self._mouth, b".")

    # -------------------------------------------------------------------------------------------- the listening thread

    def _listen(self) -> None:
        with self._selector:
            while not (self._closing and not self._running):
                for key, _ in self._selector.select(LOOK_EVERY if self._unwatched else None):
                    self._guarded(key.data)
                for process in [each for each in self._unwatched if each.has_ended()]:
                    self._guarded(partial(self._bury, process))

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.exception("the output or the end of a program could not be passed on")

    def _greet(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ear, CHUNK)
        while self._new:
            process = self._new.popleft()
            self._selector.register(process.output, selectors.EVENT_READ, partial(self._hear, process))
            try:
                end = os.pidfd_open(process.pid)
            except (AttributeError, OSError):
                self._unwatched.add(process)
            else:
                self._selector.register(end, selectors.EVENT_READ, partial(self._bury, process, end))

    def _hear(self, process: Process) -> None:
        if not process.output.closed and not process.listen():
            self._hang_up(process)
            process.output.close()

    def _bury(self, process: Process, end: int | None = None) -> None:
        if end is not None:
            self._selector.unregister(end)
            os.close(end)
        self._unwatched.discard(process)
        self._hang_up(process)
        with self._lock:
            self._running.discard(process)
        process.bury()

    def _hang_up(self, process: Process) -> None:
        # A CLOSED FILE'S NUMBER MAY BELONG TO ANOTHER PROGRAM'S OUTPUT BY NOW.
        if not process.output.closed:
            self._selector.unregister(process.output)
