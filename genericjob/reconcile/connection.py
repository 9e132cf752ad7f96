"""Keep-alive connections to the API server.

One request at a time per connection, the whole request in one send. The distinction that everything above rests on is made here: a request
that was not sent completely has certainly not happened, one that was sent and not answered may have.
"""

import select
import socket
import ssl
import time
from collections import deque
from contextlib import suppress
from urllib.parse import SplitResult

from .access import Access, proxy_authorization
from .errors import NO_ANSWER, ApiError
from .reply import BrokenReplyError, Reply

KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES = 30, 15, 3
"""A peer that vanished without a word is noticed after about 75 s, even while nobody reads."""

IDLE_CONNECTIONS = 16
"""How many connections wait for their next request; more are closed when they come back."""


class NotSentError(Exception):
    """The request did not leave this machine completely: nothing happened on the server."""


class NotAnsweredError(Exception):
    """The request was sent and no whole answer came: it may have happened."""


class Connection:
    """One connection, opened when made."""

    def __init__(self, access: Access, timeout: float) -> None:
        self.access = access
        self.requests = 0
        peer = (access.proxy.hostname or "", access.proxy.port or 80) if access.proxy else (access.host, access.port)
        try:
            self._socket = _open(access, peer, timeout)
        except OSError as error:
            raise _unreachable(access, error) from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def send(self, request: bytes, method: str, deadline: float) -> Reply:
        """Send a request, read the head of its answer, both before a moment of monotonic time."""
        try:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._socket.sendall(request)
        except OSError as error:
            raise NotSentError(str(error)) from error
        self.requests += 1
        try:
            return Reply(self._socket, method, deadline)
        except (OSError, BrokenReplyError) as error:
            raise NotAnsweredError(_why(error)) from error

    def read(self, reply: Reply) -> bytes:
        """Read the whole body of an answer."""
        try:
            return reply.read()
        except (OSError, BrokenReplyError) as error:
            raise NotAnsweredError(_why(error)) from error

    def limit_silence(self, reply: Reply, seconds: float | None) -> None:
        """From now on the answer may last for ever, but a read that gets nothing for so long fails; None is no limit."""
        reply.deadline = None
        self._socket.settimeout(seconds)

    def has_data(self, within: float = 0.0) -> bool:
        """Whether there is something to read, now or within some seconds. On an idle connection that can only be goodbye."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return True
        return bool(self._poll.poll(within * 1000))

    def interrupt(self) -> None:
        """Wake a thread that reads from this connection. Not `SSLSocket.shutdown`: that would pull the TLS state from under it."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def detach(self) -> socket.socket:
        """The socket itself, for what goes on in another protocol. Whoever takes it closes it."""
        return self._socket

    def close(self) -> None:
        """Close it, whatever its state."""
        with suppress(OSError):
            self._socket.close()


class Pool:
    """Idle connections, the warmest first. As many exist as there are requests at the same time."""

    def __init__(self) -> None:
        self._idle: deque[Connection] = deque(maxlen=IDLE_CONNECTIONS)

    def take(self, access: Access, timeout: float) -> Connection:
        """A connection that was alive a moment ago, or a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return Connection(access, timeout)
            if connection.access.tls is access.tls and not connection.has_data():
                return connection
            connection.close()

    def give_back(self, connection: Connection) -> None:
        """Keep a connection whose answer was read to the end."""
        if len(self._idle) < IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close what is idle."""
        while self._idle:
            self._idle.pop().close()


def _open(access: Access, peer: tuple[str, int], timeout: float) -> socket.socket:
    plain = socket.create_connection(peer, timeout)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(plain)
        if access.proxy:
            _tunnel(plain, access, access.proxy, timeout)
        if access.tls is None:
            return plain
        return access.tls.wrap_socket(plain, server_hostname=access.server_name or access.host)
    except BaseException:
        plain.close()
        raise


def _keep_alive(plain: socket.socket) -> None:
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEP_ALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEP_ALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
    ):
        if hasattr(socket, option):  # macOS spells the first one differently and does without
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _tunnel(plain: socket.socket, access: Access, proxy: SplitResult, timeout: float) -> None:
    secret = proxy_authorization(proxy)
    login = f"Proxy-Authorization: {secret}\r\n" if secret else ""
    plain.sendall(f"CONNECT {access.authority} HTTP/1.1\r\nHost: {access.authority}\r\n{login}\r\n".encode("latin-1"))
    try:
        reply = Reply(plain, "HEAD", time.monotonic() + timeout)  # what follows the head of this answer is the tunnel, not a body
    except BrokenReplyError as error:
        raise OSError(f"the proxy {proxy.hostname} gave no answer: {error}") from error
    if reply.status != 200:
        raise OSError(f"the proxy {proxy.hostname} refused with {reply.status}")


def _unreachable(access: Access, error: OSError) -> ApiError:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of the server {access.url} is not trusted: {error.verify_message}"
        return ApiError(NO_ANSWER, "Certificate", text)
    if isinstance(error, ssl.SSLError):
        return ApiError(NO_ANSWER, "Unreachable", f"no TLS connection to the server {access.url}: {error.reason or error}")
    why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
    through = f" through the proxy {access.proxy.hostname}:{access.proxy.port or 80}" if access.proxy else ""
    return ApiError(NO_ANSWER, "Unreachable", f"cannot reach the server {access.url} named in {access.source}{through}: {why}")


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "not in time"
    return " ".join(str(error).split()) or type(error).__name__
