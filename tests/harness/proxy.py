"""A TCP proxy on loopback that can turn bad: between a client and a server it delays nothing, until a test says otherwise."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Forwards bytes both ways; TLS passes through untouched."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._answering = threading.Event()
        self._answering.set()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def black_hole(self) -> None:
        """Keep connections open and let nothing through, as a network does that lost its way."""
        self._flowing.clear()

    def drop_answers(self) -> None:
        """Let requests through and keep the answers: writes happen, and nobody hears of it."""
        self._answering.clear()

    def heal(self) -> None:
        """Let everything through again."""
        self._flowing.set()
        self._answering.set()

    def cut(self) -> None:
        """Break every connection now; new ones are welcome."""
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target), 5)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        with self._lock:
            self._sockets |= {near, far}
        threading.Thread(target=self._pump, args=(near, far, self._flowing), daemon=True).start()
        self._pump(far, near, self._answering)

    def _pump(self, source: socket.socket, sink: socket.socket, gate: threading.Event) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                # A closed gate holds what arrives; the other side sees a connection that is open and silent.
                self._flowing.wait()
                gate.wait()
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._sockets -= {source, sink}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.heal()
        self.cut()
