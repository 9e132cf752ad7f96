"""Signals as calls on a thread of their own.

Python runs the handler of a signal in the main thread, between two of its instructions. Two traps lie there:

- A signal that arrives after the last instruction and before the main thread sleeps in a system call does not end that sleep:
  the handler runs when something else does, which may be never.
- The handler runs in the middle of whatever the main thread does, which may hold the very lock that the handler takes.

So the handlers here do nothing. The interpreter writes the number of a signal into a socket at the moment when the signal
arrives, in whichever thread that is, and a thread reads it from there.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any

from .primitives import System

PATIENCE_S = 1.0
"""How long `close` waits for a call of `heard` that has begun."""


class Signals:
    """Calls `heard` with the number of each of these signals, from now until `close`.

    For the main thread. They may be nested: an inner one passes on the signals that are not its own.
    """

    def __init__(self, numbers: Iterable[int], heard: Callable[[int], None]) -> None:
        self._heard = heard
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        # THE SOCKET FIRST: a signal that comes between the two has its old meaning, and none is lost.
        self._socket_before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        self._before: dict[int, Any] = {number: signal.signal(number, _do_nothing) for number in numbers}
        self._thread = System().start("signals", self._read)

    def __enter__(self) -> "Signals":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the signals their former handlers, unless others have been set since.

        What came before is still passed on, unless `heard` takes too long.
        """
        for number, handler in self._before.items():
            if signal.getsignal(number) is _do_nothing:
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._socket_before)
        self._writing.close()
        self._thread.join(PATIENCE_S)

    def _read(self) -> None:
        with self._reading:
            while arrived := self._reading.recv(64):
                for number in arrived:
                    if number in self._before:
                        self._heard(number)
                    else:
                        self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        """Let an outer one hear of its signal."""
        if self._socket_before >= 0:
            with suppress(OSError):  # full of signals, or closed
                os.write(self._socket_before, bytes([number]))


def _do_nothing(*_: object) -> None:
    pass
