"""`genericjob` as users call it: a process of its own, on a pipe or on a terminal."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.clusters import PATIENCE, eventually

PLAIN = {"TERM": "dumb", "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


@dataclass(frozen=True)
class Ended:
    """What came of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line of its output."""
        return [line.split() for line in self.out.splitlines()]


class Warm:
    """A process that has loaded everything and divides for each command: what makes a command slow is loading it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen([sys.executable, "-c", LOADED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, args: tuple[str, ...], environment: Mapping[str, str], input: str | None) -> Ended:
        """Run a command to its end."""
        files = {name: self._directory / name for name in ("in", "out", "err")}
        files["in"].write_text(input or "")
        order = {"args": args, "environment": environment, "files": {name: str(path) for name, path in files.items()}}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ended(code, files["out"].read_text(), files["err"].read_text())

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


LOADED = """
import json, os, sys, traceback
import kubernetes.client, kubernetes.config.kube_config
from genericjob.cli.app import COMMANDS, loaded
from genericjob.cli.main import main

for command in COMMANDS:
    loaded(command.name)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    for number, (name, way) in enumerate({"in": "rb", "out": "wb", "err": "wb"}.items()):
        with open(order["files"][name], way) as file:
            os.dup2(file.fileno(), number)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["genericjob", *order["args"]]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
"""


class Program:
    """Calls commands with the same environment; with a warm process to divide from, those that end come from there."""

    def __init__(self, *words: str, warm: Warm | None = None, **environment: str) -> None:
        self._words = words or (sys.executable, "-m", "genericjob.cli")
        self._environment = {**os.environ, **PLAIN, **environment}
        self._warm = warm

    def __call__(self, *args: str, input: str | None = None) -> Ended:
        """Run a command to its end."""
        if self._warm:
            return self._warm.run(args, self._environment, input)
        done = subprocess.run(
            [*self._words, *args],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self._environment,
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> "Going":
        """Begin a command that goes on."""
        return Going([*self._words, *args], self._environment)

    def on_a_terminal(self, *args: str, **environment: str) -> "Going":
        """Begin a command on a terminal of 30 lines and 100 columns."""
        return Going(
            [*self._words, *args], {**self._environment, "TERM": "xterm", "COLUMNS": "", "LINES": "", **environment}, terminal=True
        )


class Going:
    """A command that goes on, and what it has printed so far. It ends with the block."""

    def __init__(self, command: list[str], environment: Mapping[str, str], *, terminal: bool = False) -> None:
        self._near = -1
        environment = {name: value for name, value in environment.items() if value}
        if terminal:
            self._near, far = pty.openpty()
            self.resize(30, 100)
            self._process = subprocess.Popen(command, stdin=far, stdout=far, stderr=far, env=environment, start_new_session=True)
            os.close(far)
            source = self._near
        else:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, env=environment)
            assert self._process.stdout is not None
            source = self._process.stdout.fileno()
        self._text = bytearray()
        self._thread = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._thread.start()

    def _read(self, source: int) -> None:
        while True:
            try:
                piece = os.read(source, 65536)
            except OSError:  # a terminal whose program has ended
                return
            if not piece:
                return
            self._text += piece

    @property
    def text(self) -> str:
        """All it has printed."""
        return bytes(self._text).decode("utf-8", "replace")

    def shows(self, text: str) -> None:
        """Wait for a text."""
        eventually(lambda: self.has(text))

    def has(self, text: str) -> bool:
        """Whether it has printed a text; an error that shows what it printed in its place if not."""
        assert text in self.text, f"exit code {self._process.poll()}, printed {self.text!r}"
        return True

    def press(self, text: str) -> None:
        """Press keys."""
        os.write(self._near, text.encode())

    def resize(self, lines: int, columns: int) -> None:
        """Change the size of its terminal."""
        fcntl.ioctl(self._near, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def signal_of_a_new_size(self) -> None:
        """What the kernel sends to a program whose terminal changes; this one has none as its own."""
        self._process.send_signal(signal.SIGWINCH)

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        code = self._process.wait(PATIENCE)
        if self._near < 0:
            self._thread.join(PATIENCE)
        else:
            self._thread.join(1.0)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._thread.join(1.0)
        if self._near >= 0:
            os.close(self._near)
