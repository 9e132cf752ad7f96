"""Processes that outlive the program that started them.

A process is known by its pid AND its start time, because pids are used again: a state file written yesterday must never end somebody else's
process today. Each process also carries its cluster's directory in its environment, so that one which was started in the very moment its
starter was killed, and so never written down, is still found.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

MARK = "GENERICJOB_CLUSTER"
# Settings of the caller's shell that etcd or the Kubernetes programs would take for their own.
FOREIGN = ("ETCD_", "KUBE")
# In the kernel's tables of sockets.
LISTENING = "0A"

# Children of this very program must be waited for, or they stay as zombies until it ends.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


@dataclass(frozen=True)
class Process:
    """One process of this machine, for ever distinct from any later one with the same pid."""

    pid: int
    started: int

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        if child := _children.get(self.pid):
            child.poll()
        return look_up(self.pid) == self


def look_up(pid: int) -> Process | None:
    """The process that has this pid now."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    fields = stat.rpartition(")")[2].split()
    state, started = fields[0], int(fields[19])
    # A ZOMBIE WITH THREADS IS STILL DYING: its first thread is through, the others hold its ports until they are too.
    return None if state in "ZX" and threads <= 1 else Process(pid, started)


def this_process() -> Process:
    """The running program itself."""
    found = look_up(os.getpid())
    assert found is not None
    return found


def start(argv: Sequence[str], *, log: Path, mark: Path) -> Process:
    """Start a program in a session of its own, where no Ctrl-C of our terminal reaches it, its output added to `log`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    env[MARK] = str(mark)
    with log.open("ab") as output:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=mark, start_new_session=True)
    _children[child.pid] = child
    # A child that has already ended is a zombie of ours: its pid cannot have gone to another process.
    return look_up(child.pid) or Process(child.pid, 0)


def marked(mark: Path) -> list[Process]:
    """Every process that was started for `mark`, whether or not anybody wrote it down."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:  # gone meanwhile, or of another user
            continue
        if wanted in environment.split(b"\0") and (process := look_up(int(entry.name))):
            found.append(process)
    return found


def listeners(process: Process) -> set[tuple[IPv4Address | IPv6Address, int]]:
    """The addresses and TCP ports on which a process of ours accepts connections."""
    sockets = set()
    try:
        for handle in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                sockets.add(os.readlink(handle))
        rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]]
    except OSError:  # it ended while we looked
        return set()
    return {_endpoint(row[1]) for row in rows if row[3] == LISTENING and f"socket:[{row[9]}]" in sockets}


def _endpoint(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Read `0100007F:1F90`: the address comes in words of the machine's byte order, which is taken to be little-endian."""
    address, port = text.split(":")
    words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
    return ip_address(b"".join(words)), int(port, 16)


def end(processes: Iterable[Process], *, grace: float) -> None:
    """End processes: ask first, wait `grace` seconds for all of them together, then kill what is left."""
    left = [process for process in processes if process.alive]
    if grace:
        left = _signal(left, signal.SIGTERM, patience=grace)
    _signal(left, signal.SIGKILL, patience=10)


def exit_code(process: Process) -> int | None:
    """How a child of this program ended, if it is one and has."""
    child = _children.get(process.pid)
    return child.poll() if child else None


def _signal(processes: list[Process], which: signal.Signals, *, patience: float) -> list[Process]:
    """Send a signal and wait; the answer is who is still there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process.pid, which)
    deadline = time.monotonic() + patience
    while (left := [process for process in processes if process.alive]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left
