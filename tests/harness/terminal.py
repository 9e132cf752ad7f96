"""A terminal, as far as programs of this project use one: text, line ends, colours, going up, clearing what is below.

`Terminal` is fed with what a program printed and knows what a person would see. `on_terminal` runs a program on a pseudo-terminal.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

PATIENCE = 60.0
_ORDER = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Terminal:
    """Rows and columns, and what has scrolled out of sight. What it is told to do and cannot is an error."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.scrolled: list[str] = []
        self._lines = [""]
        self._row = self._column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _ORDER.match(text, at)
                if found is None:
                    assert len(text) - at < 16, f"an order that nobody knows: {text[at : at + 16]!r}"
                    self._rest = text[at:]
                    return
                self._obey(found[1], found[2])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    @property
    def seen(self) -> list[str]:
        """Lines on the screen, from the top."""
        return [line.rstrip() for line in self._lines]

    @property
    def all(self) -> list[str]:
        """Lines that have ever been left on the screen, and those that are there."""
        return [line.rstrip() for line in self.scrolled] + self.seen

    def _obey(self, number: str, order: str) -> None:
        match order:
            case "m" | "h" | "l":
                pass
            case "A":
                assert int(number or 1) <= self._row, "the cursor would leave the screen"
                self._row -= int(number or 1)
            case "J":
                assert number in ("", "0")
                del self._lines[self._row + 1 :]
                self._lines[self._row] = self._lines[self._row][: self._column]
            case _:
                raise AssertionError(f"an order that nobody knows: {order}")

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self._column = 0
            case "\n":
                self._down()
            case _:
                assert character.isprintable() or character == "\t", f"what is {character!r}?"
                if self._column == self.columns:
                    self._column = 0
                    self._down()
                line = self._lines[self._row].ljust(self._column)
                self._lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
                self._column += 1

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append("")
        if self._row == self.rows:
            self.scrolled.append(self._lines.pop(0))
            self._row -= 1


class OnTerminal:
    """A program that runs on a pseudo-terminal."""

    def __init__(self, program: "subprocess.Popen[bytes]", master: int, columns: int, rows: int) -> None:
        self.program, self._master = program, master
        self.screen = Terminal(columns, rows)
        self.raw = ""
        self._decoder = getincrementaldecoder("utf-8")()

    def until(self, reached: Callable[[Terminal], bool]) -> bool:
        """Read until something is seen, or to the end."""
        deadline = time.monotonic() + PATIENCE
        while not reached(self.screen):
            assert time.monotonic() < deadline, "\n".join(["this was not seen in time, but:", *self.screen.seen])
            if not self._read():
                return False
        return True

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        self.until(lambda screen: False)
        return self.program.wait(PATIENCE)

    def resize(self, columns: int, rows: int) -> None:
        """Somebody pulls at the window. What a real one does to its lines then is not imitated."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def _read(self) -> bool:
        if not select.select([self._master], [], [], 1.0)[0]:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # nobody has it open any more
            data = b""
        if not data:
            return False
        text = self._decoder.decode(data)
        self.raw += text
        self.screen.feed(text)
        return True


@contextmanager
def on_terminal(argv: Sequence[str], *, columns: int = 80, rows: int = 24, env: Mapping[str, str] | None = None) -> Iterator[OnTerminal]:
    """Run a program on a terminal of that size; it is ended with the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    program = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm-256color", **(env or {})},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
    )
    os.close(slave)
    try:
        yield OnTerminal(program, master, columns, rows)
    finally:
        if program.poll() is None:
            program.kill()
        program.wait()
        os.close(master)
