"""A server that answers exactly what a test tells it to, byte by byte: for what a real API server does too rarely to wait for."""

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Self

import msgspec

from genericjob.reconcile.access import Access, Credentials

Step = Callable[[socket.socket], bool]
"""What to do with one request; False closes the connection afterwards."""


def answer(status: int, body: object = None, **headers: str) -> Step:
    """Answer with JSON."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body if body is not None else {})
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]

    def step(peer: socket.socket) -> bool:
        peer.sendall("\r\n".join([*lines, "", ""]).encode() + data)
        return True

    return step


def stream(*chunks: bytes, end: bool = True) -> Step:
    """Answer with a chunked body; without `end` the connection breaks instead of finishing."""

    def step(peer: socket.socket) -> bool:
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk in chunks:
            peer.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if end:
            peer.sendall(b"0\r\n\r\n")
        return False

    return step


def hang_up(peer: socket.socket) -> bool:
    """Read the request and close: nobody knows whether it happened."""
    return False


def break_off(peer: socket.socket) -> bool:
    """Begin an answer and hang up in the middle."""
    peer.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
    return False


def drip(peer: socket.socket) -> bool:
    """Answer one byte at a time, always in time for the next read and never in time for the whole."""
    with suppress(OSError):
        for byte in b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}":
            peer.sendall(bytes([byte]))
            time.sleep(0.05)
    return False


def all_at_once(*chunks: bytes) -> Step:
    """Answer with a chunked body in one packet, its end included, and leave the connection open."""

    def step(peer: socket.socket) -> bool:
        body = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")
        return True

    return step


def say_nothing(peer: socket.socket) -> bool:
    """Take the request and never answer."""
    with suppress(OSError):
        peer.recv(1)  # returns when the client gives up
    return False


def stream_and_say_nothing(*chunks: bytes) -> Step:
    """Begin a stream and fall silent."""
    begin = stream(*chunks, end=False)

    def step(peer: socket.socket) -> bool:
        begin(peer)
        return say_nothing(peer)

    return step


class ScriptedServer:
    """Plain HTTP on loopback; each request takes the next step of the script."""

    def __init__(self, *script: Step) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._script = list(script)
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def credentials(self, *tokens: str) -> Credentials:
        """Credentials for this server; each time they are read, the next token is found (the last for ever)."""
        left: list[str] = list(tokens or ("",))

        def load() -> Access:
            token = left.pop(0) if len(left) > 1 else left[0]
            return Access("127.0.0.1", self.port, authorization=f"Bearer {token}" if token else "", source="the test")

        return Credentials(load)

    def heads(self) -> Sequence[str]:
        """The request lines seen, in order."""
        return [request.split(b"\r\n", 1)[0].decode() for request in self.requests]

    def close_idle(self) -> None:
        """Close every connection from this side."""
        with self._lock:
            peers, self._peers = self._peers, []
        for peer in peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self.connections += 1
                with self._lock:
                    self._peers.append(peer)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError), peer:
            while request := _read_request(peer):
                with self._lock:
                    self.requests.append(request)
                    step = self._script.pop(0) if self._script else answer(500, {"message": "the script is over"})
                if not step(peer):
                    return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread; a mere close would let it take one more
        self._listener.close()
        self.close_idle()


def _read_request(peer: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := peer.recv(65536)):
            return b""
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        if not (more := peer.recv(65536)):
            return b""
        body += more
    return head + b"\r\n\r\n" + body
