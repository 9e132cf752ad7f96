"""Addresses of a host, within a time limit.

`getaddrinfo` takes no timeout and can block for half a minute. It runs in a thread of its own, which all who ask for the same host share:
a resolver that hangs costs one thread, however often a connection is tried meanwhile.
"""

import socket
import threading
from concurrent.futures import Future
from typing import Any

Address = tuple[socket.AddressFamily, socket.SocketKind, int, Any]
"""Family, kind, protocol and socket address."""

_lock = threading.Lock()
_pending: dict[tuple[str, int], "Future[list[Address]]"] = {}
"""Lookups under way."""


def addresses(host: str, port: int, *, within: float) -> list[Address]:
    """Return the addresses of a host in the order in which to try them; raise TimeoutError if that takes longer than `within` seconds."""
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)  # an address needs no resolver, and so no thread
    except socket.gaierror:
        return _shared(host, port).result(within)


def _shared(host: str, port: int) -> "Future[list[Address]]":
    with _lock:
        found = _pending.get((host, port))
        if found is None:
            found = Future()
            try:
                threading.Thread(target=_resolve, args=(host, port, found), name="resolver", daemon=True).start()
            except RuntimeError as error:
                raise OSError(f"{host} cannot be resolved: {error}") from error
            _pending[host, port] = found  # before the thread can forget it: that takes the lock
        return found


def _resolve(host: str, port: int, answer: "Future[list[Address]]") -> None:
    try:
        found = _look_up(host, port)
    except Exception as error:
        _forget(host, port)
        answer.set_exception(error)
    else:
        _forget(host, port)
        answer.set_result(found)


def _forget(host: str, port: int) -> None:
    with _lock:
        del _pending[host, port]


def _look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, kind, protocol, address) for family, kind, protocol, _, address in found]
