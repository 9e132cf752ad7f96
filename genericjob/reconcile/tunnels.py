"""A connection to a server through a proxy: CONNECT for proxies that speak HTTP, RFC 1928 and 1929 for SOCKS5.

Both end with a socket on which the server itself is talked to. The proxy resolves the server's name, as with kubectl.
"""

import base64
import ipaddress
import socket

from .proxies import Proxy
from .reply import BrokenReplyError, Reply
from .timeouts import remaining

_VERSION, _NO_LOGIN, _PASSWORD, _CONNECT = 5, 0, 2, 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_REFUSALS = {
    1: "general failure",
    2: "not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "time to live expired",
    7: "command not supported",
    8: "address type not supported",
}
_LONGEST = 255
"""Bytes of a name, a user or a password in SOCKS5."""


def open_tunnel(plain: socket.socket, proxy: Proxy, host: str, port: int, deadline: float) -> None:
    """Make a connection to a proxy one to a server, before a moment of monotonic time."""
    plain.settimeout(remaining(deadline))
    if proxy.scheme == "http":
        _connect(plain, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", deadline)
    else:
        _socks(plain, proxy, host, port, deadline)


def _connect(plain: socket.socket, proxy: Proxy, authority: str, deadline: float) -> None:
    secret = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
    login = f"Proxy-Authorization: Basic {secret}\r\n" if proxy.user or proxy.password else ""
    plain.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{login}\r\n".encode("latin-1"))
    try:
        reply = Reply(plain, "HEAD", deadline)  # what follows the head of this answer is the tunnel, not a body
    except BrokenReplyError as error:
        raise OSError(f"it gave no answer: {error}") from error
    if reply.status != 200:
        raise OSError(f"it refused with {reply.status}")


def _socks(plain: socket.socket, proxy: Proxy, host: str, port: int, deadline: float) -> None:
    ways = [_NO_LOGIN, _PASSWORD] if proxy.user else [_NO_LOGIN]
    plain.sendall(bytes([_VERSION, len(ways), *ways]))
    version, way = _exactly(plain, 2, deadline)
    if version != _VERSION or way not in ways:
        raise OSError("it wants a login that the configuration does not have" if version == _VERSION else "it does not speak SOCKS5")
    if way == _PASSWORD:
        plain.sendall(b"\x01" + _counted(proxy.user) + _counted(proxy.password))
        if _exactly(plain, 2, deadline)[1]:
            raise OSError("it does not accept the user and the password")
    plain.sendall(bytes([_VERSION, _CONNECT, 0]) + _target(host) + port.to_bytes(2))
    _, code, _, kind = _exactly(plain, 4, deadline)
    if code:
        raise OSError(f"it refused: {_REFUSALS.get(code, f'code {code}')}")
    size = {_IPV4: 4, _IPV6: 16}.get(kind) or _exactly(plain, 1, deadline)[0]
    _exactly(plain, size + 2, deadline)  # the address and port that the proxy uses


def _target(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bytes([_NAME]) + _counted(host)
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed


def _counted(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST:
        raise OSError(f"a name, user or password of more than {_LONGEST} bytes cannot be sent to it")
    return bytes([len(data)]) + data


def _exactly(plain: socket.socket, size: int, deadline: float) -> bytes:
    """Read so many bytes, and none of what follows."""
    data = b""
    while len(data) < size:
        plain.settimeout(remaining(deadline))
        if not (more := plain.recv(size - len(data))):
            raise OSError("it closed the connection")
        data += more
    return data
