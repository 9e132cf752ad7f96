"""A command in a container, over a WebSocket: what goes in and comes out, on numbered channels.

Two versions of the protocol are spoken. The older one is understood by every server, but cannot say that the input has ended; so the newer
one is asked for when input comes from a file or a pipe, where the end matters. On a terminal Ctrl-D is a character like others.

One thread owns the connection. A TLS connection must not be read by one thread while another one writes: a signal that interrupts the
read at the moment of a write looks like the end of the connection then, and newer versions of Python make the writer wait for the reader.
So the socket does not block, and one loop serves input, output and changes of the terminal's size as each of them becomes ready.
"""

import json
import os
import select
import signal
import socket
import ssl
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
from .text import one_line

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255
PLAIN, WITH_CLOSE = "v4.channel.k8s.io", "v5.channel.k8s.io"
PATIENCE = 30.0
PIECE = 32 * 1024
MAX_UNSENT = 4 * PIECE
"""Bytes: no more input is read while so much of it waits to be sent."""
FRAMES_AT_ONCE = 100
"""However much a command prints, input is looked at after so many frames."""
OPCODES = websocket.ABNF
BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The socket cannot go on at the moment."""


class Session:
    """One command, from its start to its exit code."""

    def __init__(self, access: Access, pod: Key, container: str, command: Sequence[str], *, stdin: bool, terminal: bool) -> None:
        self._stdin, self._terminal = stdin, terminal
        query = [("container", container), ("stdout", "true"), *(("command", word) for word in command)]
        query += [("stdin", "true")] if stdin else []
        query += [("tty", "true")] if terminal else [("stderr", "true")]
        path = RAW_PODS.path(*pod, "exec") + "?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query)
        self._socket = _opened(access, path, [WITH_CLOSE, PLAIN] if stdin and not terminal else [PLAIN])
        self._unsent = bytearray()
        self._channel = CLOSE
        """The channel of the last frame, to which a frame that continues it belongs."""
        self._ending = b""
        """What the server has reported about the end of the command."""

    def run(self) -> int:
        """Let the command run, and return its exit code."""
        try:
            with _raw(self._terminal and self._stdin), self._resizing() as resized:
                self._socket.settimeout(0)
                return _exit_code(self._exchange(resized))
        finally:
            with suppress(websocket.WebSocketException, OSError):
                self._socket.close(timeout=1)

    def _exchange(self, resized: socket.socket | None) -> bytes:
        """Pass on input, output and sizes until the connection ends; return what the server reported about the end."""
        connection, stdin = self._socket.sock, sys.stdin.fileno() if self._stdin else None
        patience: float | None = None
        while True:
            reading = [connection, resized, stdin if len(self._unsent) < MAX_UNSENT else None]
            ready, _, _ = select.select([each for each in reading if each is not None], [connection] if self._unsent else [], [], patience)
            if resized is not None and resized in ready:
                resized.recv(PIECE)
                self._send_size()
            if stdin is not None and stdin in ready and not self._take_input(stdin):
                stdin = None
            self._flush()
            try:
                # TO THE LAST FRAME: select does not see what TLS has received and not yet handed out.
                patience = None if self._receive() else 0
            except websocket.WebSocketConnectionClosedException:
                return self._ending
            except (websocket.WebSocketException, OSError) as error:
                raise CommandError(f"the connection to the container broke: {error}") from error

    def _receive(self) -> bool:
        """Print what has arrived. Returns whether that was all."""
        for _ in range(FRAMES_AT_ONCE):
            try:
                frame = self._socket.recv_frame()
            except BLOCKED:
                return True
            if frame.opcode == OPCODES.OPCODE_CLOSE:
                raise websocket.WebSocketConnectionClosedException
            if frame.opcode == OPCODES.OPCODE_PING:
                self._send_frame(OPCODES.OPCODE_PONG, frame.data)
            elif frame.opcode == OPCODES.OPCODE_CONT:
                self._take_output(frame.data)
            elif frame.opcode in (OPCODES.OPCODE_BINARY, OPCODES.OPCODE_TEXT) and frame.data:
                self._channel = frame.data[0]
                self._take_output(frame.data[1:])
        return False

    def _take_output(self, payload: bytes) -> None:
        if self._channel in (STDOUT, STDERR):
            out = sys.stdout.buffer if self._channel == STDOUT else sys.stderr.buffer
            out.write(payload)
            out.flush()
        elif self._channel == ERROR:
            self._ending += payload

    def _take_input(self, stdin: int) -> bool:
        """Send a piece of the input. Returns whether there may be more."""
        piece = b""
        with suppress(OSError):  # a terminal that is no more is at its end
            piece = os.read(stdin, PIECE)
        if piece:
            self._send(STDIN, piece)
        elif self._socket.getsubprotocol() == WITH_CLOSE:
            self._send(CLOSE, bytes([STDIN]))
        return bool(piece)

    @contextmanager
    def _resizing(self) -> Iterator[socket.socket | None]:
        """Send the size of the terminal; a socket that can be read then says that the size has changed."""
        if not self._terminal:
            yield None
            return
        reading, writing = socket.socketpair()
        writing.setblocking(False)

        def wake(number: int) -> None:
            with suppress(BlockingIOError):  # so full that it can be read
                writing.send(b"\0")

        with reading, writing, Signals((signal.SIGWINCH,), wake):
            self._send_size()  # AFTER THE LINE BEFORE: a change between the two would not be seen
            yield reading

    def _send_size(self) -> None:
        with suppress(OSError):
            size = os.get_terminal_size(sys.stdin.fileno())
            self._send(RESIZE, json.dumps({"Width": size.columns, "Height": size.lines}).encode())

    def _send(self, channel: int, payload: bytes) -> None:
        self._send_frame(OPCODES.OPCODE_BINARY, bytes([channel]) + payload)

    def _send_frame(self, opcode: int, data: bytes) -> None:
        self._unsent += OPCODES.create_frame(data, opcode).format()

    def _flush(self) -> None:
        """Send as much as the connection takes now."""
        try:
            while self._unsent:
                del self._unsent[: self._socket.sock.send(bytes(self._unsent[:PIECE]))]
        except BLOCKED:
            pass
        except OSError:  # the command has ended; what was printed and how it ended can still be read
            self._unsent.clear()


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
        raise CommandError(one_line(told.decode("utf-8", "replace"))) from None
    if status.get("status") == "Success":
        return 0
    causes = (status.get("details") or {}).get("causes") or ()
    code = next((each.get("message", "") for each in causes if each.get("reason") == "ExitCode"), "")
    if code.isdigit():
        return int(code)
    raise CommandError(one_line(status.get("message") or "the command could not be run"))


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
