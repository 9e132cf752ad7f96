"""An HTTP proxy between a controller and its server that meddles with single requests: the twin of `FaultyApi`, with real connections.

    with Meddler(server, Mischief(seed=7)) as proxy:
        config = server.write(path, user, server=proxy.url, certificate_authority=None, certificate_authority_data=None)
        proxy.faults("team-a").lose("create", resource=RAW_PODS)       # done, and the answer lost: of requests about that namespace
        proxy.lag()                                                    # all watches stand still

Plain HTTP on the side of the controller, TLS on that of the server. What `Mischief` asks for happens to any request, by a seed; rules made
through `faults` come first. Watches are cut and stand still too: what a controller reads then is old, as from a server whose cache lags.
Nothing is ever let through after its sender has given it up.
"""

import http.client
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from types import TracebackType
from typing import IO, Any, NoReturn, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

from genericjob.local.faults import FaultyApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.passing import Call, Verb
from genericjob.reconcile.resources import Key, Resource, raw

from .configurations import Server

PATH = re.compile(
    r"^/(?:api|apis/(?P<group>[^/]+))/(?P<version>v[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)
INFINITY = float("inf")
HOPS = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length"))
TROUBLE = {
    429: ApiError(429, "TooManyRequests", "too many requests, please try again later", retry_after=1.0),
    500: ApiError(500, "InternalError", "an error on the server has prevented the request from succeeding"),
    503: ApiError(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
}


@dataclass(frozen=True)
class Mischief:
    """What happens to requests at random, in parts of 1; seconds are at most."""

    seed: int = 0
    refused: float = 0.0
    """Answered with 429, 500 or 503; the server never hears of them."""
    cut: float = 0.0
    """The connection breaks before the server hears of it."""
    lost: float = 0.0
    """Done, and the connection breaks before the answer."""
    delayed: float = 0.0
    delay: float = 0.5
    hung: float = 0.0
    """Done, and the answer does not come until the sender gives up."""
    swallowed: float = 0.0
    """The same, and the server never hears of it."""
    watches: float = INFINITY
    """Seconds that a watch lives."""
    stale: float = 0.0
    """Of what a watch says: how much is held back for up to `delay`."""


class Request:
    """One request, as it was read."""

    def __init__(self, line: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method, self.target, _ = line.split(" ", 2)
        self.headers, self.body = headers, body
        url = urlsplit(self.target)
        self.call = _call(self.method, url.path, parse_qs(url.query), body)


class Meddler:
    """The proxy. Every connection has a thread, and a connection to the server."""

    def __init__(self, server: Server, mischief: Mischief = Mischief(), *, token: str = "") -> None:  # noqa: B008 - frozen
        """`token` is sent on: nobody sends one to a proxy that speaks plain HTTP."""
        self._port, self._mischief = server.port, mischief
        self._credentials = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cadata=server.authority().decode())
        self._tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._random, self._lock = Random(mischief.seed), threading.Lock()
        self._faults: dict[str, FaultyApi] = {}
        self._watches: set[socket.socket] = set()
        self._peers: set[socket.socket] = set()
        self._moving = threading.Event()
        self._moving.set()
        self.calm = False
        """Whether mischief rests for now."""
        self.done: Counter[str] = Counter()
        """What was done to requests, and how often."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def faults(self, namespace: str) -> FaultyApi:
        """Where rules are made for requests about one namespace."""
        with self._lock:
            return self._faults.setdefault(namespace, FaultyApi(_nobody()))

    def cut_watches(self) -> None:
        """Break every watch."""
        with self._lock:
            watches, self._watches = self._watches, set()
        for each in watches:
            _shut(each)

    def lag(self) -> None:
        """Let watches stand still: what is written is not seen."""
        self._moving.clear()

    def catch_up(self) -> None:
        """Let them go on."""
        self._moving.set()

    # -------------------------------------------------------------------------------------------- connections

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        server = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=90, context=self._tls)
        with self._lock:
            self._peers.add(peer)
        try:
            with suppress(OSError, http.client.HTTPException, _HangUp), peer, peer.makefile("rb") as lines:
                while request := _read(lines, self._credentials):
                    self._answer(peer, server, request)
        finally:
            server.close()
            with self._lock:
                self._peers.discard(peer)
                self._watches.discard(peer)

    def _answer(self, peer: socket.socket, server: http.client.HTTPSConnection, request: Request) -> None:
        call = request.call
        if call is None:
            return self._pass(peer, server, request)
        faults = self._faults.get(call.key.namespace)
        send = partial(self._meddled, peer, server, request, call)
        try:
            answer = faults.through(call, send) if faults and call.verb != "watch" else send()
        except ApiError as error:
            if error.unknown:
                self.done["lost by a rule"] += 1
                raise _HangUp from None
            self.done["refused by a rule"] += error not in TROUBLE.values()
            return _refuse(peer, error)
        answer()
        return None

    def _meddled(self, peer: socket.socket, server: http.client.HTTPSConnection, request: Request, call: Call) -> Callable[[], None]:
        """Do it, with what happens on the way; what is returned sends the answer."""
        what, number = self._fate(call)
        if what:
            self.done[f"refused {number:.0f}" if what == "refused" else what] += 1
        if what == "delayed":
            time.sleep(number)
        elif what == "refused":
            raise TROUBLE[int(number)]
        elif what == "swallowed":
            _wait_for_the_sender(peer)
        elif what == "cut":
            raise _HangUp
        if call.verb == "watch":
            return lambda: self._stream(peer, server, request)
        answer = _forward(server, request)
        if what == "hung":
            _wait_for_the_sender(peer)
        if what == "lost":
            raise _HangUp
        return lambda: peer.sendall(answer)

    def _fate(self, call: Call) -> tuple[str, float]:
        """What happens to a request. A lease hangs or is lost no more often than anything else, and that is not often enough to lose it."""
        odds, writes = self._mischief, call.verb not in ("get", "list", "watch")
        if self.calm:
            return "", 0.0
        with self._lock:
            dice, size, code = self._random.random(), self._random.random(), self._random.choice([*TROUBLE])
        for what, part, number in (
            ("refused", odds.refused, float(code)),
            ("cut", odds.cut, 0.0),
            ("lost", odds.lost if writes else 0.0, 0.0),
            ("hung", odds.hung if writes else 0.0, 0.0),
            ("swallowed", odds.swallowed if writes else 0.0, 0.0),
            ("delayed", odds.delayed, size * odds.delay),
        ):
            if dice < part:
                return what, number
            dice -= part
        return "", 0.0

    def _pass(self, peer: socket.socket, server: http.client.HTTPSConnection, request: Request) -> None:
        peer.sendall(_forward(server, request))

    def _stream(self, peer: socket.socket, server: http.client.HTTPSConnection, request: Request) -> None:
        with self._lock:
            life = self._random.uniform(0.2, 1.0) * self._mischief.watches
            self._watches.add(peer)
        server.request(request.method, request.target, request.body or None, dict(request.headers))
        answer = server.getresponse()
        peer.sendall(_head(answer, "Transfer-Encoding: chunked"))
        timer = threading.Timer(life, self._cut, (peer,))
        timer.daemon = True
        if life < INFINITY:
            timer.start()
        try:
            while data := answer.read1(65536):
                self._hold()
                peer.sendall(b"%x\r\n%s\r\n" % (len(data), data))
            peer.sendall(b"0\r\n\r\n")
        finally:
            timer.cancel()

    def _cut(self, watch: socket.socket) -> None:
        if not self.calm:
            self.done["watch cut"] += 1
            _shut(watch)

    def _hold(self) -> None:
        """Where what a watch says stands still."""
        if not self._moving.is_set():
            self.done["watch stood still"] += 1
            self._moving.wait()
        with self._lock:
            held = not self.calm and self._random.random() < self._mischief.stale
            seconds = self._random.random() * self._mischief.delay
        if held:
            self.done["watch lagged"] += 1
            time.sleep(seconds)

    def close(self) -> None:
        """End every connection."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._moving.set()
        with self._lock:
            peers = list(self._peers)
        for each in peers:
            _shut(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


# ------------------------------------------------------------------------------------------------ HTTP


class _HangUp(Exception):  # noqa: N818 - no error: it is what was wanted
    """End this connection."""


def _wait_for_the_sender(peer: socket.socket) -> NoReturn:
    """Be silent until he gives up."""
    peer.settimeout(30)
    peer.recv(1)
    raise _HangUp


def _read(lines: IO[bytes], credentials: Mapping[str, str]) -> Request | None:
    line = lines.readline().decode("latin-1").strip()
    if not line:
        return None
    headers: dict[str, str] = {}
    while text := lines.readline().decode("latin-1").strip():
        name, _, value = text.partition(":")
        headers[name.strip()] = value.strip()
    length = next((int(value) for name, value in headers.items() if name.lower() == "content-length"), 0)
    kept = {name: value for name, value in headers.items() if name.lower() not in HOPS | {"host"}}
    return Request(line, {**kept, **credentials}, lines.read(length) if length else b"")


def _forward(server: http.client.HTTPSConnection, request: Request) -> bytes:
    """The whole answer."""
    server.request(request.method, request.target, request.body or None, dict(request.headers))
    answer = server.getresponse()
    body = answer.read()
    return _head(answer, f"Content-Length: {len(body)}") + body


def _head(answer: http.client.HTTPResponse, length: str) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {answer.reason}", *(f"{k}: {v}" for k, v in answer.getheaders() if k.lower() not in HOPS), length]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _refuse(peer: socket.socket, error: ApiError) -> None:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": error.code,
        "reason": error.reason,
        "message": error.message,
    }
    body = msgspec.json.encode(status)
    lines = [f"HTTP/1.1 {error.code} {error.reason}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"Retry-After: {error.retry_after:.0f}"] if error.retry_after else []
    peer.sendall("\r\n".join([*lines, "", ""]).encode() + body)


def _call(method: str, path: str, query: Mapping[str, Any], body: bytes) -> Call | None:
    """What a request is about, in the words of the port."""
    found = PATH.match(path)
    if found is None:
        return None
    group, version, namespace, plural, name, sub = found.group("group", "version", "namespace", "plural", "name", "sub")
    verbs: dict[str, Verb] = {
        "POST": "create",
        "PUT": "replace_status" if sub == "status" else "replace",
        "PATCH": "patch",
        "DELETE": "delete",
    }
    reading: Verb = "watch" if "watch" in query else "get" if name else "list"
    about: Resource[Any] = raw(group or "", version, plural, "")
    return Call(verbs.get(method, reading), about, Key(namespace or "", name or ""), body)


def _shut(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def _nobody() -> Any:
    """Rules are asked, and calls are sent elsewhere."""
    return None
