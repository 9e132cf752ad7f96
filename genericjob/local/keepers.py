"""Who keeps the programs of a run: a warden where there can be one, else the runner itself.

A warden (Linux) leaves nothing behind: no daemon of a container that has ended, and nothing at all when the runner is killed. Without one
programs are children of the runner, and what ends with a program is its process group: a daemon that has left the group goes on, and so
does everything when the runner is killed with SIGKILL.
"""

import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from marshal import dumps
from typing import Protocol

from . import warden
from .containers import Launch
from .obstacles import obstacle
from .sources import CannotStartError

KILLED = 128 + signal.SIGKILL
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
"""Errors of a machine that is short of something for a moment."""


class WardenGoneError(Exception):
    """The warden is gone, and all programs with it."""

    def __init__(self, news: int) -> None:
        super().__init__("the warden is gone")
        self.news = news


class Keeper(Protocol):
    """Starts programs, signals them, and knows who has ended. Programs have numbers, which are not used again."""

    news: int | None
    """A file that can be read when a program has ended; None: ask every now and then."""

    def start(self, number: int, launch: Launch, output: int) -> int:
        """Start a program that prints into a file; returns its process."""
        ...

    def signal(self, number: int, signal: int) -> None:
        """Signal a program and its group; to one that has ended nothing is sent."""
        ...

    def ends(self) -> Iterator[tuple[int, int]]:
        """Those who have ended, with their exit codes, 128 + n for signal n. What is left of them has ended too."""
        ...

    def end_all(self) -> None:
        """Kill everything; the ends are still told. Nothing can be started any more."""
        ...

    def close(self) -> None:
        """Everything has ended, or nobody waits for it any longer."""
        ...


def keeper() -> Keeper:
    """The best keeper that this system has."""
    return UnderWarden() if sys.executable and os.path.exists(warden.CHILDREN) else OwnChildren()


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


# ------------------------------------------------------------------------------------------------ a warden


class UnderWarden:
    """Programs are children of a warden; see `warden.py`."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(8)
        self._requests, asked = socket.socketpair()
        self._news, told = socket.socketpair()
        self.news: int | None = self._news.fileno()
        self._lock = threading.Lock()
        self._received = b""
        with asked, told:
            numbers = asked.fileno(), told.fileno()
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter, and a file of ours
                [sys.executable, "-I", "-S", "-B", warden.__file__, *map(str, numbers), self._run],
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._news.setblocking(False)

    @property
    def pid(self) -> int:
        """The process that stands behind the warden, and is its parent."""
        return self._process.pid

    def start(self, number: int, launch: Launch, output: int) -> int:
        """Have the warden start a program."""
        mark = f"{launch.env.get(warden.MARK, '')} {self._run}.{number}".strip()
        argv, env = _bytes(launch)
        env[warden.MARK.encode()] = mark.encode()
        request = dumps((warden.START, number, argv, env, os.fsencode(launch.directory) if launch.directory else None, launch.group))
        try:
            with self._lock:
                self._send(request, output)
                pid, error = self._answer()
        except (OSError, EOFError):
            raise CannotStartError("the warden of this run is gone") from None
        if pid > 0:
            return pid
        if pid == warden.NO_GROUP:
            why = f"the control group with its limits cannot be entered: {os.strerror(error)}"
            raise CannotStartError(f"{launch.argv[0]!r} cannot be started: {why}", may_pass=True)
        raise _cannot_start(launch, OSError(error, os.strerror(error)), directory=pid == warden.NO_DIRECTORY)

    def signal(self, number: int, signal: int) -> None:
        """Have the warden signal a group."""
        with self._lock, suppress(OSError):  # without a warden there is nobody to signal
            self._send(dumps((warden.SIGNAL, number, int(signal))))

    def _send(self, request: bytes, *files: int) -> None:
        frame = warden.LENGTH.pack(len(request)) + request
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", files))] if files else []
        sent = self._requests.sendmsg([frame], rights)
        self._requests.sendall(frame[sent:])

    def _answer(self) -> tuple[int, int]:
        answer = b""
        while len(answer) < warden.ANSWER.size:
            data = self._requests.recv(warden.ANSWER.size - len(answer))
            if not data:
                raise EOFError
            answer += data
        pid, error = warden.ANSWER.unpack(answer)
        return pid, error

    def ends(self) -> Iterator[tuple[int, int]]:
        """What the warden has told."""
        with suppress(BlockingIOError):
            while True:
                data = self._news.recv(warden.CHUNK)
                if not data:
                    raise WardenGoneError(self._news.fileno())
                self._received += data
                whole = len(self._received) // warden.END.size * warden.END.size
                ends, self._received = self._received[:whole], self._received[whole:]
                for number, status in warden.END.iter_unpack(ends):
                    yield number, _exit_code(status)

    def end_all(self) -> None:
        """Take leave of the warden."""
        with suppress(OSError):
            self._requests.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up."""
        self._requests.close()
        self._news.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)


# ------------------------------------------------------------------------------------------------ children of our own


class OwnChildren:
    """Programs are children of this process, each with a group of its own."""

    news: int | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, launch: Launch, output: int) -> int:
        """Start a program."""
        argv, env = _bytes(launch)
        try:
            started = subprocess.Popen(  # noqa: S603 - to run users' programs is what this is for
                argv,
                env=env,
                cwd=launch.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise _cannot_start(launch, error, directory=error.filename == launch.directory) from None
        with self._lock:
            self._running[number] = started
        return started.pid

    def signal(self, number: int, signal: int) -> None:
        """Signal a group."""
        with self._lock:
            # A REAPED PROCESS GIVES ITS NUMBER BACK: the group of that number might be a stranger's by now.
            if number in self._running:
                _kill_group(self._running[number].pid, signal)

    def ends(self) -> Iterator[tuple[int, int]]:
        """Look who has ended."""
        for number, process in list(self._running.items()):
            with self._lock:
                if not _has_ended(process):
                    continue
                _kill_group(process.pid, signal.SIGKILL)
                code = process.wait()
                del self._running[number]
            yield number, code if code >= 0 else 128 - code

    def end_all(self) -> None:
        """Kill all groups."""
        for number in list(self._running):
            self.signal(number, signal.SIGKILL)

    def close(self) -> None:
        """Nothing is held."""


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended; where the system can say so without giving its number back, that stays taken."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def _kill_group(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


# ------------------------------------------------------------------------------------------------ what both do


_encoded = partial(str.encode, encoding=sys.getfilesystemencoding(), errors=sys.getfilesystemencodeerrors())


def _bytes(launch: Launch) -> tuple[list[bytes], dict[bytes, bytes]]:
    """Arguments and environment as the kernel takes them."""
    try:
        argv = [_encoded(word) for word in launch.argv]
        env = {_encoded(name): _encoded(value) for name, value in launch.env.items()}
    except UnicodeEncodeError as error:
        raise CannotStartError(f"{launch.argv[0]!r} cannot be started: {error}") from None
    if b"\0" in b"".join((*argv, *env, *env.values())):
        raise CannotStartError(f"{launch.argv[0]!r} cannot be started: there is a zero byte in its arguments or variables")
    if any(not name or b"=" in name for name in env):
        raise CannotStartError(f"{launch.argv[0]!r} cannot be started: a variable has no name, or one with a `=`")
    return argv, env


def _cannot_start(launch: Launch, error: OSError, *, directory: bool) -> CannotStartError:
    if directory and isinstance(error, FileNotFoundError):
        return CannotStartError(f"workingDir {launch.directory} does not exist on this machine{where(launch.directory)}")
    program, path = launch.argv[0], "" if directory else _found(launch)
    if isinstance(error, FileNotFoundError) and not path:
        told = where(os.path.join(launch.directory or "", program)) if "/" in program else _searched(launch)
        return CannotStartError(f"there is no program {program!r} on this machine{told}")
    what = f"workingDir {launch.directory} cannot be entered" if directory else f"{program!r} cannot be started"
    why = obstacle(path, launch.directory or "", error.errno or 0) if path else ""
    return CannotStartError(": ".join(filter(None, (what, error.strerror or str(error), why))), may_pass=error.errno in SHORTAGES)


def _found(launch: Launch) -> str:
    """The file of a program; nothing if there is none."""
    argv, env = _bytes(launch)
    path = next((os.path.join(launch.directory or "", os.fsdecode(path)) for path in warden.places(argv[0], env)), "")
    return path if os.path.exists(path) else ""


def _searched(launch: Launch) -> str:
    """Where a program was looked for that has no path."""
    path = launch.env.get("PATH", os.defpath)
    return f": it is in no directory of {'$PATH' if path == os.environ.get('PATH') else f'the PATH that it gets, {path!r}'}"


def where(path: str | None, better: str = "DIR") -> str:
    """Return where a relative path was looked for, and how to look elsewhere, in a `better` directory if one is known."""
    return f" (relative to {os.getcwd()}; --chdir {better} changes that)" if path and not os.path.isabs(path) else ""
