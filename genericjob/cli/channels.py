"""A command in a container, over a WebSocket: what goes in and comes out, on numbered channels.

Two versions of the protocol are spoken. The older one is understood by every server, but cannot say that the input has ended; so the newer
one is asked for when input comes from a file or a pipe, where the end matters. On a terminal Ctrl-D is a character like others.
"""

import json
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any
from urllib.parse import quote

import websocket

from genericjob.reconcile.access import Access, unauthorized_hint
from genericjob.reconcile.connection import Connection
from genericjob.reconcile.errors import NO_ANSWER, ApiError, from_status
from genericjob.reconcile.http import USER_AGENT
from genericjob.reconcile.resources import RAW_PODS, Key
from genericjob.reconcile.signals import Signals

from .failures import CommandError

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
PLAIN, WITH_CLOSE = "v4.channel.k8s.io", "v5.channel.k8s.io"
PATIENCE = 30.0
PIECE = 32 * 1024


class Session:
    """One command, from its start to its exit code."""

    def __init__(self, access: Access, pod: Key, container: str, command: Sequence[str], *, stdin: bool, terminal: bool) -> None:
        self._stdin, self._terminal = stdin, terminal
        query = [("container", container), ("stdout", "true"), *(("command", word) for word in command)]
        query += [("stdin", "true")] if stdin else []
        query += [("tty", "true")] if terminal else [("stderr", "true")]
        path = RAW_PODS.path(*pod, "exec") + "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
        self._socket = _opened(access, path, [WITH_CLOSE, PLAIN] if stdin and not terminal else [PLAIN])

    def run(self) -> int:
        """Let it run; returns its exit code."""
        try:
            with _raw(self._terminal and self._stdin), self._resizing():
                if self._stdin:
                    Thread(target=self._send_input, name="input", daemon=True).start()
                return _exit_code(self._receive())
        finally:
            with suppress(websocket.WebSocketException, OSError):
                self._socket.close(timeout=1)

    def _receive(self) -> bytes:
        """Print what comes until the server says how it ended."""
        told = b""
        while True:
            try:
                kind, data = self._socket.recv_data()
            except websocket.WebSocketConnectionClosedException:
                return told
            except (websocket.WebSocketException, OSError) as error:
                raise CommandError(f"the connection to the container broke: {error}") from error
            if kind == websocket.ABNF.OPCODE_CLOSE:
                return told
            channel, payload = (data[0], data[1:]) if data else (CLOSE, b"")
            if channel in (STDOUT, STDERR):
                out = sys.stdout.buffer if channel == STDOUT else sys.stderr.buffer
                out.write(payload)
                out.flush()
            elif channel == ERROR:
                told += payload

    def _send_input(self) -> None:
        with suppress(websocket.WebSocketException, OSError):  # the command has ended, and the other thread knows
            while piece := os.read(sys.stdin.fileno(), PIECE):
                self._send(STDIN, piece)
            if self._socket.getsubprotocol() == WITH_CLOSE:
                self._send(CLOSE, bytes([STDIN]))

    @contextmanager
    def _resizing(self) -> Iterator[None]:
        """Send the size of the terminal, now and whenever it changes.

        Changes are sent by the thread of signals: the main thread reads what the command prints, and a sender may have to wait
        until that is read.
        """
        if not self._terminal:
            yield
            return
        with Signals((signal.SIGWINCH,), lambda number: self._send_size()):
            self._send_size()  # AFTER THE FIRST LINE: a change between the two would not be heard of
            yield

    def _send_size(self) -> None:
        with suppress(websocket.WebSocketException, OSError):
            size = os.get_terminal_size(sys.stdin.fileno())
            self._send(RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())

    def _send(self, channel: int, payload: bytes) -> None:
        self._socket.send_binary(bytes([channel]) + payload)


def _opened(access: Access, path: str, protocols: Sequence[str]) -> Any:
    connection = Connection(access, PATIENCE)
    plain = connection.detach()
    plain.settimeout(PATIENCE)
    headers = [f"User-Agent: {USER_AGENT}", *(f"{name}: {value}" for name, value in access.headers)]
    opened = websocket.WebSocket(enable_multithread=True)
    try:
        opened.connect(  # type: ignore[no-untyped-call]
            f"ws://{access.authority}{access.prefix}{path}",
            socket=plain,  # with TLS, proxy and all; the scheme does not matter any more
            header=headers,
            subprotocols=[*protocols],
            suppress_origin=True,
            redirect_limit=0,
        )
    except websocket.WebSocketBadStatusException as error:
        connection.close()
        raise _refused(error, access) from None
    except (websocket.WebSocketException, OSError) as error:
        connection.close()
        raise ApiError(NO_ANSWER, "Unreachable", f"no connection to the container by way of {access.url}: {error}") from error
    opened.settimeout(None)
    return opened


def _refused(error: websocket.WebSocketBadStatusException, access: Access) -> ApiError:
    try:
        status = json.loads(error.resp_body or b"")
    except ValueError:
        words = " ".join((error.resp_body or b"").decode("utf-8", "replace").split())[:300]
        status = {"message": words or f"{access.url} answered {error.status_code}"}
    told = from_status(error.status_code, status, wrote=False)
    if told.unauthorized:
        return ApiError(told.code, told.reason, f"{unauthorized_hint(access)} ({access.url} says: {told.message})")
    return told


def _exit_code(told: bytes) -> int:
    """What the server says of the end: 0, the command's own code, or why there is none."""
    if not told:
        raise CommandError("the connection to the container ended before the command did")
    try:
        status = json.loads(told)
    except ValueError:
        raise CommandError(told.decode("utf-8", "replace").strip()) from None
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((each.get("message", "") for each in causes if each.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    raise CommandError(status.get("message") or "the command could not be run")


@contextmanager
def _raw(wanted: bool) -> Iterator[None]:
    """The terminal hands on every key, until the end."""
    if not wanted:
        yield
        return
    here = sys.stdin.fileno()
    before = termios.tcgetattr(here)
    try:
        tty.setraw(here, termios.TCSADRAIN)  # NOT THE DEFAULT, which throws away what was typed meanwhile
        yield
    finally:
        termios.tcsetattr(here, termios.TCSADRAIN, before)
