"""API servers and proxies that record who asks them, and how.

They know just enough for `kubectl get genericjobs` and `genericjob get`: discovery, and a list
without jobs. A proxy resolves no names: whatever it is asked for, it connects to the same port on
loopback.
"""

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from genericjob.api.names import API_VERSION, GROUP, KIND, PLURAL, VERSION

LOOPBACK = "127.0.0.1"
_RESOURCE = {"name": PLURAL, "singularName": KIND.lower(), "namespaced": True, "kind": KIND, "verbs": ["get", "list"]}
_VERSIONS = {"groupVersion": API_VERSION, "version": VERSION}
ANSWERS: dict[str, Any] = {
    "/version": {"gitVersion": "v1.34.0", "major": "1", "minor": "34"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [{"name": GROUP, "versions": [_VERSIONS], "preferredVersion": _VERSIONS}],
    },
    f"/apis/{API_VERSION}": {"kind": "APIResourceList", "groupVersion": API_VERSION, "resources": [_RESOURCE]},
}


@dataclass
class Request:
    """One request, as a server saw it."""

    server: str
    path: str
    authorization: str
    impersonation: list[str]
    """Sorted lines `Name: value`, the names in lower case: neither program promises an order."""
    certificate: str
    """The common name of the client's certificate."""
    proxy: str
    """The proxy by which it came, with the login that the proxy was given."""


class Record:
    """What all servers of a place have seen."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.passages: dict[int, str] = {}
        """How connections came: by the port from which a proxy opened them."""

    def taken(self) -> list[dict[str, Any]]:
        """Return what was seen since the last call, and forget how it came: the next command's connections may get the same ports."""
        seen, self.requests, self.passages = self.requests, [], {}
        return [asdict(request) for request in seen]


@contextmanager
def serving(name: str, port: int, record: Record, tls: ssl.SSLContext | None = None) -> Iterator[None]:
    """Serve the API on a port of all addresses."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urlsplit(self.path).path  # a proxy is sent the whole address
            lines = sorted(f"{key.lower()}: {_text(value)}" for key, value in self.headers.items() if key.lower().startswith("impersonate"))
            passage = record.passages.get(self.client_address[1], "")
            authorization = self.headers.get("Authorization", "")
            record.requests.append(Request(name, path, authorization, lines, _common_name(self.connection), passage))
            found = ANSWERS.get(path)
            if found is None and path.endswith(f"/{PLURAL}"):
                found = {"apiVersion": API_VERSION, "kind": f"{KIND}List", "metadata": {"resourceVersion": "1"}, "items": []}
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no"}
            self._answer(200 if found else 404, found or missing)

        def _answer(self, code: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            plain, address = super().get_request()
            plain.settimeout(30)
            # The handshake is left to the thread of the connection: the first read does it.
            return (tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) if tls else plain), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a client that does not like the certificate

    with Server(("::", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()


def _text(value: str) -> str:
    """Return a header's value as the API server reads it."""
    return value.encode("latin-1").decode("utf-8", "replace")


def _common_name(connection: Any) -> str:
    found: Any = connection.getpeercert() if isinstance(connection, ssl.SSLSocket) else None
    return next((value for pair in (found or {}).get("subject", ()) for key, value in pair if key == "commonName"), "")


@contextmanager
def proxying(port: int, record: Record, *, socks: bool = False) -> Iterator[None]:
    """Forward connections, by HTTP or by SOCKS5."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                threading.Thread(target=serve, args=(near,), daemon=True).start()

    def serve(near: socket.socket) -> None:
        with suppress(OSError, ValueError, IndexError), near:
            near.settimeout(30)
            head, target, login = _asked_by_socks(near) if socks else _asked_by_http(near)
            with socket.create_connection((LOOPBACK, target), 10) as far:
                mine = far.getsockname()[1]
                record.passages[mine] = f"{'socks' if socks else 'http'}{f' {login}' if login else ''}"
                far.sendall(head)
                threading.Thread(target=_pump, args=(far, near), daemon=True).start()
                _pump(near, far)

    with socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _asked_by_http(near: socket.socket) -> tuple[bytes, int, str]:
    """Return what is to be forwarded, the port, and the login."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += _some(near)
    method, target, *_ = head.decode("latin-1").split(" ")
    lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:]]
    secret = next((value.strip() for name, _, value in lines if name.lower() == "proxy-authorization"), "")
    login = base64.b64decode(secret.removeprefix("Basic ")).decode()
    if method == "CONNECT":
        near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        return b"", int(target.rpartition(":")[2]), login
    return head, int(target.split("/")[2].rpartition(":")[2]), login


def _asked_by_socks(near: socket.socket) -> tuple[bytes, int, str]:
    ways = near.recv(2 + 255)[2:]
    login = ""
    if 2 in ways:
        near.sendall(b"\x05\x02")
        said = near.recv(600)
        user = said[2 : 2 + said[1]].decode()
        login = f"{user}:{said[3 + said[1] :].decode()}"
        near.sendall(b"\x01\x00")
    else:
        near.sendall(b"\x05\x00")
    asked = near.recv(600)
    near.sendall(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    return b"", int.from_bytes(asked[-2:]), login


def _some(peer: socket.socket) -> bytes:
    if not (data := peer.recv(65536)):
        raise OSError("the peer is gone")
    return data


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
