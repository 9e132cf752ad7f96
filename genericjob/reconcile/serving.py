"""Three pages for machines: `/healthz`, `/readyz` and `/metrics`, over plain HTTP.

A thread per connection, so that a slow client delays nobody; a limit to how long each may stay, so that a thousand slow ones are no more
than a nuisance.
"""

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, NamedTuple

from .health import Health, Probe
from .metrics import Metrics

log = logging.getLogger(__name__)

CONNECTIONS = 64
"""Open at the same time; one more, and the oldest has to go."""
LONGEST = 30.0
"""Seconds for a request and its answer."""
POLL = 0.25
"""Seconds until an end is noticed, and somebody who stays too long."""
PLAIN, METRICS = "text/plain; charset=utf-8", "text/plain; version=0.0.4; charset=utf-8"


class Page(NamedTuple):
    """What a path is answered with."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]


class Address(NamedTuple):
    """Where to listen; an empty host means every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address | None:
    """Read `127.0.0.1:8080`, `[::1]:8080` or `:8080`; `0` means not to listen at all."""
    if text == "0":
        return None
    host, colon, port = text.rpartition(":")
    plain = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not colon or (":" in plain and plain == host) or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(f"{text!r} is no address to listen on: write HOST:PORT, :PORT for every interface, or 0 for none")
    return Address(plain, int(port))


def pages(health: Health, metrics: Metrics) -> Pages:
    """The pages of a controller."""

    def probe(name: Probe) -> Page:
        report = health.report(name)
        return Page(200 if report.well else 503, PLAIN, report.text.encode())

    return {
        "/healthz": lambda: probe("healthz"),
        "/readyz": lambda: probe("readyz"),
        "/metrics": lambda: Page(200, METRICS, metrics.page()),
    }


class Server:
    """Listens from the moment it is made, answers while `serve` runs. An address that cannot be had is an `OSError` in one sentence."""

    def __init__(self, address: Address, pages: Pages, *, longest: float = LONGEST) -> None:
        self._listener = _Listener(_listen(address), pages, longest)
        self._served = False
        self.address = Address(address.host, self._listener.server_address[1])
        """Where it listens; port 0 has become the one that the system chose."""

    @property
    def name(self) -> str:
        """For logs and metrics."""
        return f"serving {self.address}"

    def serve(self) -> None:
        """Answer until `stop`."""
        self._served = True
        log.info("pages for probes and metrics are served on %s", self.address)
        self._listener.serve_forever(POLL)

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._served:
            self._listener.shutdown()
        self._listener.server_close()


def _listen(address: Address) -> socket.socket:
    try:
        if address.host:
            family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server(address, family=family)
        try:
            return socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                raise
            return socket.create_server(address)  # a machine without IPv6
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {address}: {_why(error)}") from error


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return error.strerror or "there is no such name"
    if error.errno in _REASONS:
        return _REASONS[error.errno]
    # NOT ITS OWN WORDS: Python adds how it calls the address.
    return os.strerror(error.errno) if error.errno else str(error)


_REASONS = {
    errno.EADDRINUSE: "another program listens there already",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not, which is usual for ports below 1024",
}


class _Listener(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, pages: Pages, longest: float) -> None:
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_address = listening.getsockname()
        self.pages = pages
        self._longest = longest
        self._lock = threading.Lock()
        self._open: dict[Any, float] = {}

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            oldest = next(iter(self._open)) if len(self._open) >= CONNECTIONS else None
            self._open[request] = time.monotonic()
        if oldest is not None:
            self._hang_up(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called every `POLL` seconds: hang up on those who take too long. A LIMIT PER READ IS NONE: a byte now and then passes it."""
        now = time.monotonic()
        with self._lock:
            late = [request for request, since in self._open.items() if now - since > self._longest]
        for request in late:
            self._hang_up(request)

    def _hang_up(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            log.debug("a connection was closed already: %s", error)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request from %s ended early", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    server_version, sys_version = "genericjob", ""

    def do_GET(self) -> None:
        page = self._page()
        self._head(page)
        self.wfile.write(page.body)

    def do_HEAD(self) -> None:
        self._head(self._page())

    def _page(self) -> Page:
        make = self.server.pages.get(self.path.partition("?")[0])
        if make is None:
            known = ", ".join(self.server.pages)
            return Page(404, PLAIN, f"there is no such page; there are: {known}\n".encode())
        try:
            return make()
        except Exception:
            log.exception("the page %s could not be made", self.path)
            return Page(500, PLAIN, b"the page could not be made: the log says why\n")

    def _head(self, page: Page) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(f"%s {format}", self.client_address[0], *args)
