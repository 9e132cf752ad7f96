"""The door of stand-in nodes: what an API server asks of a kubelet when somebody wants a log, or to run a command.

It is a stand-in and says so: logs are what a test says a container printed, and a command runs as a process of this machine, in the
environment variable POD of which is the name of its pod. It listens on loopback, with the certificate it is given, and lets everybody in.

A client that speaks version 4 of the channel protocol is passed through to the kubelet as it is: that is understood here. For all others
(kubectl among them) the API server speaks SPDY to the kubelet, and that is not.
"""

import fcntl
import os
import ssl
import subprocess
import termios
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from genericjob.reconcile.resources import Key

from .instance import Instance
from .status import Running, Waiting
from .websockets import Channels, accept

PATIENCE = 1.0
"""Seconds after which one who waits for more of a log looks whether the door is being closed."""
PROTOCOL = "v4.channel.k8s.io"

Find = Callable[[Key], Instance | None]


class Door:
    """Serves the logs and the commands of all nodes of a fleet."""

    def __init__(self, certificate: Path, key: Path, find: Find) -> None:
        self.find = find
        self.closing = False
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = _Server(("127.0.0.1", 0), _Handler, bind_and_activate=True)
        self._server.door = self
        # NO HANDSHAKE HERE: one client that is silent would keep all others waiting.
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="kubelets' door", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it is."""
        port: int = self._server.server_address[1]
        return port

    def close(self) -> None:
        """Let nobody in any more, and send everybody home."""
        self.closing = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    door: Door

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever went away is not missed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """A log, or a command by WebSocket."""
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        what, *rest = url.path.strip("/").split("/")
        if len(rest) < 3 or what not in ("containerLogs", "exec"):
            return self._refuse(404, f"the stand-in has no {url.path}")
        key, container = Key(unquote(rest[0]), unquote(rest[1])), unquote(rest[-1])
        instance = self.server.door.find(key)
        if instance is None or container not in instance.facts.states:
            return self._refuse(404, f'pod "{key.name}" does not have a container "{container}" here')
        return self._log(instance, container, query) if what == "containerLogs" else self._exec(instance, container, query)

    def do_POST(self) -> None:
        """SPDY, which is not spoken."""
        self._refuse(501, "the stand-in runs commands by WebSocket only, in version 4 of the protocol")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def _refuse(self, code: int, text: str) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    # -------------------------------------------------------------------------------------------- logs

    def _log(self, instance: Instance, container: str, query: dict[str, list[str]]) -> None:
        name, wanted = instance.spec.key.name, {key: value[0] for key, value in query.items()}
        with instance.changed:
            state, begin = instance.facts.states[container], len(instance.printed(container))
        if wanted.get("previous") == "true":
            self._refuse(400, f'previous terminated container "{container}" in pod "{name}" not found')
            return
        if isinstance(state, Waiting):
            why = state.reason or "ContainerCreating"
            self._refuse(400, f'container "{container}" in pod "{name}" is waiting to start: {why}')
            return
        begin = max(0, begin - int(wanted["tailLines"])) if "tailLines" in wanted else 0
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(OSError):
            self._lines(instance, container, begin, follow=wanted.get("follow") == "true", times=wanted.get("timestamps") == "true")
            self.wfile.write(b"0\r\n\r\n")

    def _lines(self, instance: Instance, container: str, at: int, *, follow: bool, times: bool) -> None:
        while not self.server.door.closing:
            with instance.changed:
                lines = instance.printed(container)[at:]
                more = follow and isinstance(instance.facts.states[container], Running) and not instance.gone
                if more and not lines:
                    instance.changed.wait(PATIENCE)
                    continue
            at += len(lines)
            if data := "".join(f"{time} {text}\n" if times else f"{text}\n" for time, text in lines).encode():
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                self.wfile.flush()
            if not more:
                return

    # -------------------------------------------------------------------------------------------- commands

    def _exec(self, instance: Instance, container: str, query: dict[str, list[str]]) -> None:
        self.close_connection = True
        if not isinstance(instance.facts.states[container], Running):
            return self._refuse(500, f'container "{container}" does not run')
        asked = [each.strip() for each in self.headers.get("Sec-WebSocket-Protocol", "").split(",")]
        if PROTOCOL not in asked:
            return self._refuse(400, f"the stand-in speaks {PROTOCOL}")
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept(self.headers["Sec-WebSocket-Key"]))
        self.send_header("Sec-WebSocket-Protocol", PROTOCOL)
        self.end_headers()
        self.wfile.flush()
        channels = Channels(self.rfile, self.wfile)
        terminal, stdin = "1" in query.get("tty", ()), "1" in query.get("input", ())
        with suppress(OSError, EOFError):
            channels.tell(run(channels, query["command"], instance.spec.key.name, terminal=terminal, stdin=stdin))
        return None


def _take_terminal() -> None:
    """Make the terminal that of the new session, so that a shell can send signals by it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run(channels: Channels, command: list[str], pod: str, *, terminal: bool, stdin: bool) -> dict[str, Any]:
    """Run a command, and say how it ended in the words of a kubelet."""
    environment = os.environ | {"POD": pod}
    near, far = os.openpty() if terminal else (-1, -1)
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command,
            stdin=far if terminal else (pipe if stdin else subprocess.DEVNULL),
            stdout=far if terminal else pipe,
            stderr=far if terminal else pipe,
            env=environment,
            start_new_session=True,
            preexec_fn=_take_terminal if terminal else None,
        )
    except OSError as error:
        return {"status": "Failure", "reason": "InternalError", "message": f"exec failed: {error.strerror}: {command[0]}"}
    finally:
        if terminal:
            os.close(far)
    if terminal:
        outputs = [threading.Thread(target=channels.pump, args=(near, 1))]
    else:
        assert process.stdout is not None
        assert process.stderr is not None
        outputs = [threading.Thread(target=channels.pump, args=(out.fileno(), n)) for n, out in ((1, process.stdout), (2, process.stderr))]
    into = near if terminal else (os.dup(process.stdin.fileno()) if process.stdin else -1)
    if process.stdin:
        process.stdin.close()
    # A DAEMON: it sits in a read until the client has gone.
    threading.Thread(target=channels.feed, args=(into, near), daemon=True).start()
    for thread in outputs:
        thread.start()
    for thread in outputs:
        thread.join()
    code = process.wait()
    code = 128 - code if code < 0 else code
    if not code:
        return {"status": "Success"}
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"command terminated with non-zero exit code: exit status {code}"
    return {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": causes}}
