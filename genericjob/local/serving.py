"""A run that can be talked to: its API over HTTP, for our own commands and for kubectl.

On loopback only, and only for whoever knows the token: in a header, or as the first part of the address, because kubectl sends no header
over plain HTTP. A thread per connection; bodies, connections and idle times have limits.
"""

import hmac
import logging
import secrets
import socket
import threading
import time
from contextlib import suppress
from http.client import responses
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import parse_qsl

from genericjob.reconcile import warning_header
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.primitives import Primitives, System

from . import refusals
from .answers import Answers
from .bodies import REQUEST_LIMIT
from .memory import MemoryApi
from .outputs import Find, Outputs
from .requests import JSON, Answer, Request, refusal

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
CONNECTIONS = 256
"""Open at the same time; one more is hung up on."""
IDLE = 90.0
"""Seconds that a connection may be silent between requests, or not take what it asked for."""
LAST_WORDS = 1.0
"""Seconds in which streams may say the rest of what they have to."""
PAUSE = 0.1
"""Seconds until connections are taken again after one could not be."""


class ApiServer:
    """Listens from the moment it is made, answers between `start` and `stop`."""

    def __init__(self, api: MemoryApi, *, find_log: Find = lambda pod, uid, container: None, primitives: Primitives | None = None) -> None:
        self.token = secrets.token_urlsafe(24)
        self._listener = _Listener(Answers(api, Outputs(api, find_log)), self.token)
        self._primitives = primitives or System()
        self.host, self.port = HOST, int(self._listener.server_address[1])

    def start(self) -> None:
        """Answer."""
        self._primitives.start("serving", self._listener.accept)

    def stop(self) -> None:
        """Answer nobody any more; whoever listens to a stream hears its end."""
        self._listener.hang_up()


class _Listener(ThreadingMixIn, TCPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, answers: Answers, token: str) -> None:
        super().__init__((HOST, 0), _Handler)
        self.answers = answers
        self._token = token.encode()
        self._lock = threading.Condition()
        self._open: set[socket.socket] = set()
        self._streams: set[Answer] = set()
        self.over = False
        """Whether nobody is answered any more."""

    def knows(self, token: str) -> bool:
        """Whether somebody may ask. IN CONSTANT TIME: how long a refusal takes must not tell how much was right."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def accept(self) -> None:
        """Take connections until `hang_up`. NOT THE BASE CLASS'S LOOP, which looks for its end several times a second."""
        while True:
            try:
                request, address = self.socket.accept()
            except OSError:
                if self.over:
                    return
                time.sleep(PAUSE)  # no more files, say: others will give theirs back
            else:
                self.process_request(request, address)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._open) >= CONNECTIONS
            if not full:
                self._open.add(request)
        if full:
            super().shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def streaming(self, answer: Answer, *, begins: bool) -> None:
        """Remember a stream, so that it can be ended."""
        with self._lock:
            (self._streams.add if begins else self._streams.discard)(answer)
            self._lock.notify_all()
            over = self.over
        if over and begins:
            answer.stop()

    def hang_up(self) -> None:
        """Take nobody any more, and end all streams, which their readers take for the end that it is."""
        with self._lock:
            self.over = True
            streams, open = list(self._streams), list(self._open)
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        for answer in streams:
            answer.stop()
        for request in open:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RD)  # nothing more is asked; what is being said may end
        with self._lock:
            self._lock.wait_for(lambda: not self._streams, LAST_WORDS)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a request from %s ended early", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Listener
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "genericjob", ""
    timeout = IDLE
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        if self.server.over:  # A SOCKET THAT IS SHUT still hands out what comes after
            self.close_connection = True
            return
        answer, head = self._answered()
        if answer.stream is None:
            self.wfile.write(head + answer.body)
        else:
            self._stream(answer, head)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - as the base class looks for them

    def _answered(self) -> tuple[Answer, bytes]:
        """Return the answer and its head. Nothing is sent before both are there: what was stored is always answered."""
        try:
            request = self._read()
        except ApiError as error:
            self.close_connection = True  # what was not read may still be on its way
            return self._with_head(refusal(error))
        try:
            return self._with_head(self.server.answers.to(request))
        except Exception:
            log.exception("%s %s could not be answered", self.command, self.path.partition("?")[0].rpartition("/")[2])
            return self._with_head(refusal(refusals.unexpected("the run could not answer: its log says why", wrote=True)))

    def _with_head(self, answer: Answer) -> tuple[Answer, bytes]:
        return answer, _head(answer, close=self.close_connection)

    # -------------------------------------------------------------------------------------------- in

    def _read(self) -> Request:
        path, _, query = self.path.partition("?")
        if not self._is_let_in(path):
            raise ApiError(401, "Unauthorized", "Unauthorized")
        first, _, rest = path[1:].partition("/")
        return Request(
            self.command,
            f"/{rest}" if self.server.knows(first) else path,
            dict(parse_qsl(query, keep_blank_values=True)),
            self._body(),
            self.headers.get("Content-Type", JSON),
            self.headers.get("Accept", JSON),
        )

    def _is_let_in(self, path: str) -> bool:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        by_header = scheme.lower() == "bearer" and self.server.knows(token.strip())
        return self.server.knows(path[1:].partition("/")[0]) or by_header

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding"):
            raise ApiError(411, "LengthRequired", "a body without Content-Length is not read")
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()):
            raise refusals.bad_request("Content-Length is no number")
        if int(text) > REQUEST_LIMIT:
            raise refusals.too_large(REQUEST_LIMIT)
        return self.rfile.read(int(text))

    # -------------------------------------------------------------------------------------------- out

    def _stream(self, answer: Answer, head: bytes) -> None:
        self.wfile.write(head)
        self.server.streaming(answer, begins=True)
        try:
            for piece in answer.stream or ():
                if piece:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        finally:
            self.server.streaming(answer, begins=False)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s answered", self.client_address[0])


def _head(answer: Answer, *, close: bool) -> bytes:
    """Return all that is sent before the body."""
    phrase = responses.get(answer.status, "Unknown")
    lines = [f"HTTP/1.1 {answer.status} {phrase}", f"Content-Type: {answer.content}", "Cache-Control: no-store"]
    lines += [f"Warning: {value}" for value in warning_header.written(answer.warnings)]
    lines.append("Transfer-Encoding: chunked" if answer.stream is not None else f"Content-Length: {len(answer.body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join((*lines, "", "")).encode("latin-1")
