"""Keep-alive connections to the API server.

One request at a time per connection, the whole request in one send. The distinction that everything above rests on is made here: a request
that was not sent completely has certainly not happened, one that was sent and not answered may have.

A request that is given up is taken back as far as possible. Without that the operating system would go on sending it, for minutes and even
after the process has exited, and a server behind a broken network would receive a write whose time was over long ago. So a connection
with a request under way is reset, not closed.
"""

import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from .access import Access
from .errors import NO_ANSWER, ApiError
from .primitives import monotonic
from .reply import BrokenReplyError, Reply
from .resolving import addresses
from .timeouts import remaining
from .tunnels import open_tunnel

KEEP_ALIVE_IDLE, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_PROBES = 30, 15, 3
"""A peer that vanished without a word is noticed after about 75 s, even while nobody reads."""

IDLE_CONNECTIONS = 16
"""How many connections wait for their next request; more are closed when they come back."""

RESET, FINISH = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
"""What becomes of unsent data when a connection ends (SO_LINGER): it is discarded, or sent nevertheless."""


class NotSentError(Exception):
    """The request did not leave this machine completely: nothing happened on the server."""


class NotAnsweredError(Exception):
    """The request was sent and no whole answer came: it may have happened."""


class Connection:
    """One connection, opened when made."""

    def __init__(self, access: Access, timeout: float) -> None:
        """`timeout` is the limit for everything until requests can be sent: resolving the name, connecting, the proxy, the handshake."""
        self.access = access
        self.requests = 0
        peer = (access.proxy.host, access.proxy.port) if access.proxy else (access.host, access.port)
        try:
            self._socket = _open(access, peer, monotonic() + timeout)
        except OSError as error:
            raise _unreachable(access, error) from error
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def send(self, request: bytes, method: str, deadline: float) -> Reply:
        """Send a request and read the head of its answer, both before a moment of monotonic time."""
        try:
            self._send(request, deadline)
        except OSError as error:
            raise NotSentError(str(error)) from error
        self.requests += 1
        try:
            return Reply(self._socket, method, deadline)
        except (OSError, BrokenReplyError) as error:
            raise NotAnsweredError(_why(error)) from error

    def _send(self, request: bytes, deadline: float) -> None:
        """Send all of it. NOT BY `sendall`: over TLS it grants the whole time again to every 16 KB."""
        sent = 0
        while sent < len(request):
            self._socket.settimeout(remaining(deadline))
            sent += self._socket.send(memoryview(request)[sent:] if sent else request)

    def read(self, reply: Reply) -> bytes:
        """Read the whole body of an answer."""
        try:
            return reply.read()
        except (OSError, BrokenReplyError) as error:
            raise NotAnsweredError(_why(error)) from error

    def parts(self, reply: Reply) -> Iterator[bytes]:
        """Read the whole body of an answer, as it comes."""
        try:
            yield from reply.parts()
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
        """Return the socket itself, for what goes on in another protocol. Whoever takes it closes it."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, FINISH)
        return self._socket

    def close(self) -> None:
        """Close it, whatever its state."""
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, FINISH)
        self.abort()

    def abort(self) -> None:
        """Close it, and discard what has not been sent yet of a request that is given up."""
        with suppress(OSError):
            self._socket.close()


class Pool:
    """Idle connections, the warmest first. As many exist as there are requests at the same time."""

    def __init__(self, connect: Callable[[Access, float], Connection] = Connection) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque(maxlen=IDLE_CONNECTIONS)

    def take(self, access: Access, timeout: float) -> Connection:
        """A connection that was alive a moment ago, or a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect(access, timeout)
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


def _open(access: Access, peer: tuple[str, int], deadline: float) -> socket.socket:
    plain = _connected(peer, deadline)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)  # ALSO FOR THE END OF THE PROCESS, which closes nothing
        _keep_alive(plain)
        if access.proxy:
            open_tunnel(plain, access.proxy, access.host, access.port, deadline)
        if access.tls is None:
            return plain
        plain.settimeout(remaining(deadline))  # for the handshake as a whole
        return access.tls.wrap_socket(plain, server_hostname=access.server_name or access.host)
    except BaseException:
        plain.close()
        raise


def _connected(peer: tuple[str, int], deadline: float) -> socket.socket:
    """Connect to the first address that answers. Each gets a share of the time, so that a dead one leaves some for the next."""
    found = addresses(*peer, within=remaining(deadline))
    problem = OSError(f"{peer[0]} has no address")
    for tried, (family, kind, protocol, address) in enumerate(found):
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(remaining(deadline) / (len(found) - tried))
            plain.connect(address)
        except OSError as error:
            plain.close()
            problem = error
        else:
            return plain
    raise problem


def _keep_alive(plain: socket.socket) -> None:
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEP_ALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEP_ALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
    ):
        if hasattr(socket, option):  # macOS spells the first one differently and does without
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _unreachable(access: Access, error: OSError) -> ApiError:
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of the server {access.url} is not trusted: {error.verify_message}"
        return ApiError(NO_ANSWER, "Certificate", text)
    if isinstance(error, ssl.SSLError):
        return ApiError(NO_ANSWER, "Unreachable", f"no TLS connection to the server {access.url}: {error.reason or error}")
    why = "no answer" if isinstance(error, TimeoutError) else (error.strerror or str(error))
    through = f" through the proxy {access.proxy}" if access.proxy else ""
    return ApiError(NO_ANSWER, "Unreachable", f"cannot reach the server {access.url} named in {access.source}{through}: {why}")


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "not in time"
    return " ".join(str(error).split()) or type(error).__name__
