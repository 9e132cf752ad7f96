"""The warden of a run: a small program that starts the run's programs and leaves none of them behind.

A container ends with its first process, whatever else was started in it. Here nothing but a parent sees to that, so the programs of a run
are children of this one. It adopts orphans (Linux calls that a subreaper), and so a daemon that has left its group and lost its parent
becomes a child of the warden, which finds out by a variable in the daemon's environment whose it is. When the first process of a container
has ended, the rest is killed, child by child: the children of those come to the warden in turn.

When the runner is gone, in whatever way, its socket closes; then the warden kills everything and goes too. When the warden itself is
killed, its parent does the same: the same program, which waits for just that.

ONLY CHILDREN ARE SIGNALLED, AND GROUPS THAT A CHILD LEADS: their numbers belong to them until the warden gives them back.

A daemon that has left its group, lost its parent, and cleared its environment as well is nobody's; it ends with the run.

This file is run as a program of its own, without the package and in a bare interpreter. Two sockets lead to the runner: requests and their
answers on one, ends of programs on the other.
"""

import ctypes
import errno
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

MARK = "GENERICJOB_CONTAINER"
"""Variable that says whose a process is: one word for every run that it is in, since a run may be started in a run."""
CHILDREN = "/proc/thread-self/children"

START, SIGNAL = range(2)
"""Requests: marshalled, a length in front. START comes with the file that takes the output, and is answered."""
LENGTH = struct.Struct("<I")
ANSWER = struct.Struct("<ii")
"""Process and 0, or what there was not (NO_PROGRAM, NO_DIRECTORY, NO_GROUP) and the number of the error."""
NO_PROGRAM, NO_DIRECTORY, NO_GROUP = 0, -1, -2
END = struct.Struct("<Qi")
"""Number of a program and its wait status."""

CHUNK = 256 * 1024
BECOMING = 0.1
"""Seconds that it takes at most to become another program."""
LOOK_AGAIN = 2
"""Milliseconds to the next look at a process that does."""
DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that mean the run. The runner says what is to be done about them."""
RESET = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
PR_SET_CHILD_SUBREAPER = 36


class Program:
    """A program that was started; it leads a session and a group."""

    def __init__(self, number: int, pid: int) -> None:
        self.number, self.pid = number, pid
        self.status = 0


class Warden:
    """Parent of all programs."""

    def __init__(self, requests: socket.socket, news: socket.socket, run: bytes) -> None:
        self._requests, self._news, self._run = requests, news, run
        self._received = b""
        self._outputs: deque[int] = deque()
        """Files that came with requests. A file comes with the first byte of its request."""
        self._programs: dict[int, Program] = {}
        self._leaders: dict[int, Program] = {}
        """By process: those that run, and those that have ended while something of theirs has not."""
        self._ending: set[Program] = set()
        """Their first process has ended."""
        self._owners: dict[int, Program] = {}
        """Whose an orphan is."""
        self._strangers: dict[int, float] = {}
        """Orphans that seem to be nobody's, since when."""
        self._unsure = False
        self._untold = b""
        """Ends that the runner has no time for. THE WARDEN NEVER WAITS FOR THE RUNNER, which may be waiting for the warden."""
        self._leaving = False
        self._home = os.open(".", os.O_PATH)
        self._ear, mouth = os.pipe()
        for end in (self._ear, mouth):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(mouth, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def watch(self) -> None:
        """Do what is asked until the runner is gone, and then until all programs are."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._ear, select.POLLIN)
        self._news.setblocking(False)
        some_left = True
        while some_left or not self._leaving:
            with suppress(KeyError):
                poll.unregister(self._news)
            if self._untold:
                poll.register(self._news, select.POLLOUT)
            for file, _ in poll.poll(LOOK_AGAIN if self._unsure else None):
                if file == self._ear:
                    os.read(self._ear, CHUNK)
                elif file == self._requests.fileno() and not self._serve():
                    poll.unregister(self._requests)
                    self._leave()
            some_left = self._bury()
            self._tell()
        self._news.setblocking(True)
        self._tell()

    # -------------------------------------------------------------------------------------------- requests

    def _serve(self) -> bool:
        """Read what has come and do what it says; whether there can be more."""
        try:
            data, files, _, _ = socket.recv_fds(self._requests, CHUNK, 8, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            return False
        self._received += data
        self._outputs.extend(files)
        for kind, number, *rest in self._whole_requests():
            if kind == START:
                self._answer(*self._start(number, *rest))
            elif number in self._programs and self._programs[number] not in self._ending:
                kill_group(self._programs[number].pid, *rest)
        return bool(data)

    def _whole_requests(self) -> Iterator[Any]:
        while len(self._received) >= LENGTH.size:
            end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            request, self._received = self._received[LENGTH.size : end], self._received[end:]
            yield marshal.loads(request)  # noqa: S302 - from the runner, which runs the same interpreter

    def _start(
        self, number: int, argv: list[bytes], env: dict[bytes, bytes], directory: bytes | None, group: tuple[str, str] | None
    ) -> tuple[int, int]:
        output = self._outputs.popleft()
        try:
            if directory is not None:
                try:
                    os.chdir(directory)
                except OSError as error:
                    return NO_DIRECTORY, error.errno or 0
            try:
                if group is not None:
                    enter(group[0])  # BEFORE IT STARTS: whoever is started in a group is in it from the first moment
            except OSError as error:
                return NO_GROUP, error.errno or 0
            try:
                pid = spawn(argv, env, output)
            except OSError as error:
                return NO_PROGRAM, error.errno or 0
        finally:
            os.close(output)
            if group is not None:
                with suppress(OSError):
                    enter(group[1])
            if directory is not None:
                os.fchdir(self._home)
        self._programs[number] = self._leaders[pid] = Program(number, pid)
        return pid, 0

    def _answer(self, process: int, error: int) -> None:
        with suppress(ConnectionError):
            self._requests.sendall(ANSWER.pack(process, error))

    # -------------------------------------------------------------------------------------------- ends

    def _leave(self) -> None:
        self._leaving = True
        for program in self._programs.values():
            if program not in self._ending:
                kill_group(program.pid, signal.SIGKILL)

    def _bury(self) -> bool:
        """See who has ended, and to it that nothing is left of them; whether there are any children."""
        self._unsure = False
        try:
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                self._reap(found.si_pid)
        except ChildProcessError:
            self._tell_ends(self._ending)
            return False
        if self._ending or self._leaving:
            self._sweep()
        return True

    def _reap(self, pid: int) -> None:
        program = self._leaders.get(pid)
        if program is None or program in self._ending:
            os.waitpid(pid, 0)
            self._owners.pop(pid, None)
            self._strangers.pop(pid, None)
            return
        # BEFORE IT IS REAPED: until then the number of the group is its own.
        kill_group(pid, signal.SIGKILL)
        _, program.status = os.waitpid(pid, 0)
        self._ending.add(program)

    def _sweep(self) -> None:
        """Kill the orphans of those that have ended. Those without any are over."""
        held = set()
        for pid in children():
            program = self._leaders.get(pid)
            if program is not None and program not in self._ending:
                continue
            owner = self._owner(pid)
            if (self._leaving or owner in self._ending) and kill(pid):
                held.add(owner)
            self._unsure |= owner is None and self._is_new(pid)
        if not self._unsure:
            self._tell_ends(self._ending - held)

    def _owner(self, pid: int) -> Program | None:
        if pid not in self._owners:
            marked = (self._programs.get(number) for number in self._marks(pid))
            found = next(filter(None, marked), None) or self._leaders.get(os.getsid(pid))
            if found is None:
                return None
            self._owners[pid] = found
        return self._owners[pid]

    def _is_new(self, pid: int) -> bool:
        """Whether an orphan may turn out to be somebody's. A process that just becomes another program has no environment to look into."""
        now = time.monotonic()
        return now - self._strangers.setdefault(pid, now) < BECOMING

    def _marks(self, pid: int) -> Iterator[int]:
        for word in environment(pid).get(MARK.encode(), b"").split():
            run, _, number = word.partition(b".")
            if run == self._run and number.isdigit():
                yield int(number)

    def _tell_ends(self, over: set[Program]) -> None:
        self._ending = self._ending - over
        for program in over:
            del self._programs[program.number]
            if self._leaders.get(program.pid) is program:
                del self._leaders[program.pid]
            self._untold += END.pack(program.number, program.status)

    def _tell(self) -> None:
        try:
            while self._untold:
                self._untold = self._untold[self._news.send(self._untold) :]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._untold = b""  # nobody is there any more


# ------------------------------------------------------------------------------------------------ the kernel


def spawn(argv: list[bytes], env: Mapping[bytes, bytes], output: int) -> int:
    """Start a program in a session of its own, with nothing to read; returns its process."""
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), *((os.POSIX_SPAWN_DUP2, output, end) for end in (1, 2))]
    problem = OSError(errno.ENOENT, "")
    for path in places(argv[0], env):
        try:
            return os.posix_spawn(path, argv, env, file_actions=actions, setsid=True, setsigmask=(), setsigdef=RESET)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problem = error
    raise problem


def enter(members: str) -> None:
    """Move this process into a control group, by the file of its members."""
    with open(members, "r+b", buffering=0) as file:
        file.write(b"0")


def places(program: bytes, env: Mapping[bytes, bytes]) -> Iterator[bytes]:
    """Where a program may be, by the PATH that it will see."""
    if b"/" in program:
        yield program
        return
    for directory in env.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        path = os.path.join(directory, program)
        if os.path.exists(path):
            yield path


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def children() -> list[int]:
    """All children, those that wait to be reaped too."""
    with open(CHILDREN, "rb") as file:
        return [int(pid) for pid in file.read().split()]


def environment(pid: int) -> dict[bytes, bytes]:
    """The variables that a process began with, as far as it shows them."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = (variable.partition(b"=") for variable in file.read().split(b"\0"))
            return {name: value for name, _, value in pairs}
    except OSError:
        return {}


def kill(pid: int) -> bool:
    """Kill a child; whether we may."""
    try:
        os.kill(pid, signal.SIGKILL)
    except PermissionError:
        return False
    return True


def kill_group(pid: int, number: int) -> None:
    """Signal the group that a child leads."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def stand_behind(warden: int) -> None:
    """Wait for the warden's end and kill everything that it leaves."""
    while os.waitpid(-1, 0)[0] != warden:
        pass
    with suppress(ChildProcessError):
        while True:
            for pid in children():
                kill(pid)
            os.waitpid(-1, 0)


def main() -> None:
    """Keep the programs of a run; the arguments are the sockets' numbers and the word that marks the run."""
    requests, news = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    adopt_orphans()
    if warden := os.fork():
        requests.close()  # AND NOT THE NEWS: their end says that everything is gone
        stand_behind(warden)
        return
    adopt_orphans()
    Warden(requests, news, os.fsencode(sys.argv[3])).watch()


if __name__ == "__main__":
    main()
