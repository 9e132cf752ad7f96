"""As much of the WebSocket protocol (RFC 6455) as a server of channels needs: short frames, binary, from a client that masks them."""

import base64
import fcntl
import json
import os
import struct
import termios
import threading
from contextlib import suppress
from hashlib import sha1
from io import BufferedIOBase
from typing import Any

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE, PING, PONG = 2, 8, 9, 10
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
END = 255
"""Says that there is no more input; only since version 5."""
PIECE = 32 * 1024


def accept(key: str) -> str:
    """The answer to a client's key."""
    return base64.b64encode(sha1(f"{key}{GUID}".encode()).digest()).decode()


class Channels:
    """Numbered channels over one connection."""

    def __init__(self, source: BufferedIOBase, sink: BufferedIOBase) -> None:
        self._source, self._sink = source, sink
        self._lock = threading.Lock()

    def pump(self, file: int, channel: int) -> None:
        """Send all that can be read from a file; a terminal whose program has ended is at its end."""
        with suppress(OSError):
            while piece := os.read(file, PIECE):
                self.send(channel, piece)

    def feed(self, into: int, terminal: int) -> None:
        """Hand on what the client sends, until it goes."""
        with suppress(OSError, EOFError, ValueError):  # the last: the connection was closed here, in the middle of a read
            while True:
                kind, data = self._frame()
                if kind == CLOSE:
                    return
                if kind == BINARY and data and data[0] == STDIN and into >= 0:
                    os.write(into, data[1:])
                elif kind == BINARY and data and data[0] == RESIZE and terminal >= 0:
                    size = json.loads(data[1:])
                    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
                elif kind == BINARY and data and data[0] == END and into >= 0:
                    os.close(into)
                    into = -1
                elif kind == PING:
                    self._write(PONG, data)

    def send(self, channel: int, payload: bytes) -> None:
        """Something on a channel."""
        self._write(BINARY, bytes([channel]) + payload)

    def tell(self, status: dict[str, Any]) -> None:
        """How it ended, and goodbye."""
        self.send(ERROR, json.dumps({"metadata": {}, **status}).encode())
        self._write(CLOSE, struct.pack("!H", 1000))

    def _write(self, kind: int, data: bytes) -> None:
        length = bytes([len(data)]) if len(data) < 126 else bytes([126]) + struct.pack("!H", len(data))
        with self._lock:
            self._sink.write(bytes([0x80 | kind]) + length + data)
            self._sink.flush()

    def _frame(self) -> tuple[int, bytes]:
        first, second = self._exactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._exactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._exactly(8))
        mask = self._exactly(4) if second & 0x80 else bytes(4)
        data = self._exactly(length)
        return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))

    def _exactly(self, number: int) -> bytes:
        data = self._source.read(number)
        if len(data) < number:
            raise EOFError
        return data
