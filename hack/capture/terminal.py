"""A command on a terminal of its own."""

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress

ROWS = 50


def sent(command: Sequence[str], *, columns: int, environment: Mapping[str, str]) -> tuple[str, int]:
    """All that the terminal was sent, and the exit code of the command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment), start_new_session=True) as process:
        os.close(theirs)
        text = _read(ours)
        os.close(ours)
    return text, process.returncode


def _read(terminal: int) -> str:
    decoder, parts = codecs.getincrementaldecoder("utf-8")("replace"), []
    with suppress(OSError):  # how Linux says that nobody has the other end any more
        while data := os.read(terminal, 65536):
            parts.append(decoder.decode(data))
    return "".join(parts)
