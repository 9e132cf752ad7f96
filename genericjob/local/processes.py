"""Programs of this machine: started, listened to, ended.

Every program leads a session and process group of its own, so that Ctrl-C at the terminal does not reach it and a signal to it reaches its
children as well. One thread reads what all of them print and hears of their ends; whoever started a program hears of both
from that thread. Output is passed on as bytes, unchanged.

The end of a program is the end of everything that it started, as the end of a container's first process is the end of the container; see
`keepers.py` for who sees to that.
"""

import logging
import os
import resource
import selectors
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from genericjob.reconcile.primitives import Primitives

from .containers import Launch
from .keepers import KILLED, Keeper, WardenGoneError, keeper
from .sources import CannotStartError

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
LAST_WORDS = 16
"""Chunks that are still read of a program that has ended: somebody else may hold its output open, and go on for ever."""
LOOK_EVERY = 0.02
"""Seconds between looks at programs whose end nobody tells."""
FILES = 65_536
"""Open files that are asked for: every program that runs needs one."""


class Process:
    """A program, and what it started. Made by `Processes.start`."""

    def __init__(self, number: int, keeper: Keeper, *, told: Callable[[bytes], None], ended: Callable[[int], None]) -> None:
        self.number, self.pid = number, 0
        self._keeper, self._told, self._ended = keeper, told, ended
        self.output, self._writing = os.pipe()
        os.set_blocking(self.output, False)
        self.listening = True

    def begin(self, launch: Launch) -> None:
        """Start the program."""
        try:
            self.pid = self._keeper.start(self.number, launch, self._writing)
        except BaseException:
            self.hang_up()
            raise
        finally:
            os.close(self._writing)

    def signal(self, number: int) -> None:
        """Send a signal to the group; to one that has ended nothing is sent."""
        self._keeper.signal(self.number, number)

    # -------------------------------------------------------------------------------------------- for the listening thread

    def listen(self) -> bool:
        """Pass on what was printed since, and b"" at the end of all output; returns whether there may be more one day."""
        try:
            data = os.read(self.output, CHUNK)
        except BlockingIOError:
            return True
        self._told(data)
        return bool(data)

    def hang_up(self) -> None:
        """Read nothing more."""
        self.listening = False
        os.close(self.output)

    def bury(self, code: int) -> None:
        """Pass on the last words and then the exit code."""
        try:
            if self.listening:
                self._hear_last_words()
        finally:
            self._ended(code)

    def _hear_last_words(self) -> None:
        try:
            for _ in range(LAST_WORDS):
                data = os.read(self.output, CHUNK)
                if not data:
                    break
                self._told(data)
        except BlockingIOError:
            pass
        finally:
            self.hang_up()
        self._told(b"")


class Processes:
    """All programs of a run."""

    def __init__(self, *, primitives: Primitives) -> None:
        self._keeper = keeper()
        _ask_for_files()  # AFTER THE KEEPER: its programs find the limit as it was
        self._selector = selectors.DefaultSelector()
        self._ear, self._mouth = os.pipe()
        os.set_blocking(self._ear, False)
        self._selector.register(self._ear, selectors.EVENT_READ, self._greet)
        self._news = self._keeper.news
        if self._news is not None:
            self._selector.register(self._news, selectors.EVENT_READ, self._bury_all)
        self._lock = threading.Lock()
        self._count = 0
        self._new: deque[Process] = deque()
        self._running: dict[int, Process] = {}
        self._closing = self._closed = False
        self._thread = primitives.start("processes", self._listen)

    def start(self, launch: Launch, *, told: Callable[[bytes], None], ended: Callable[[int], None]) -> Process:
        """Start a program; `told` hears its output and b"" at the end, `ended` its exit code (128 + n for signal n), on another thread."""
        with self._lock:
            if self._closing:
                raise CannotStartError("the run is over")
            try:
                process = Process(self._count, self._keeper, told=told, ended=ended)
            except OSError as error:
                raise CannotStartError(f"{launch.argv[0]!r} cannot be started: {error.strerror}", may_pass=True) from None
            self._count += 1
            # BEFORE IT STARTS: its end may be told at once. UNDER THE LOCK: it must be among those that are ended when everything is.
            self._running[process.number] = process
            try:
                process.begin(launch)
            except BaseException:
                del self._running[process.number]
                raise
            self._new.append(process)
        self._wake()
        return process

    def close(self, timeout: float = 10.0) -> bool:
        """Kill everything and wait until it is gone; whether it is."""
        with self._lock:
            self._closing = True
            self._keeper.end_all()
        if not self._closed:
            self._wake()
            self._closed = self._thread.join(timeout)
            if self._closed:
                self._keeper.close()
                for end in (self._ear, self._mouth):
                    os.close(end)
        return self._closed

    def _wake(self) -> None:
        os.write(self._mouth, b".")

    # -------------------------------------------------------------------------------------------- the listening thread

    def _listen(self) -> None:
        with self._selector:
            while not (self._closing and not self._running):
                for key, _ in self._selector.select(LOOK_EVERY if self._news is None and self._running else None):
                    self._guarded(key.data)
                if self._news is None:
                    self._guarded(self._bury_all)

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
            if process.number in self._running:
                self._selector.register(process.output, selectors.EVENT_READ, partial(self._hear, process))

    def _hear(self, process: Process) -> None:
        if process.listening and not process.listen():
            self._selector.unregister(process.output)
            process.hang_up()

    def _bury_all(self) -> None:
        try:
            for number, code in self._keeper.ends():
                self._guarded(partial(self._bury, number, code))
        except WardenGoneError as gone:
            self._selector.unregister(gone.news)
            self._give_up()

    def _bury(self, number: int, code: int) -> None:
        # NO LOCK: whoever starts a program holds it and waits for the keeper, who may wait for us.
        process = self._running.pop(number)
        if process.listening:
            with suppress(KeyError):  # not greeted yet
                self._selector.unregister(process.output)
        process.bury(code)

    def _give_up(self) -> None:
        with self._lock:
            left = list(self._running)
        if not self._closing:
            log.error("the warden of this run was killed: its programs, %d at this moment, were killed with it", len(left))
        for number in left:
            self._guarded(partial(self._bury, number, KILLED))


def _ask_for_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
