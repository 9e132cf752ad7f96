"""Commands in containers, over real connections with and without TLS, to a server that runs them as processes of this machine."""

import os
import pty
import signal
import socket
import ssl
import sys
import threading
import time
from contextlib import suppress
from urllib.parse import unquote

import pytest

from genericjob.cli.channels import PLAIN, WITH_CLOSE, Session
from genericjob.cli.failures import CommandError
from genericjob.reconcile.access import Access
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key
from harness.kubelet.door import run
from harness.kubelet.websockets import BINARY, PING, STDOUT, Channels, accept

pytestmark = pytest.mark.processes


def tls(side):
    """Encryption without certificates: whom one talks to is not what these tests ask."""
    context = ssl.SSLContext(side)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return context


class Container:
    """One that runs each command as a process of this machine, and speaks the newest version it is asked for."""

    def __init__(self, *, refuse=b"", encrypted=False, answer=None):
        self.asked = []
        self._refuse, self._encrypted, self._answer = refuse, encrypted, answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        peer, _ = self._listener.accept()
        if self._encrypted:
            peer = tls(ssl.PROTOCOL_TLS_SERVER).wrap_socket(peer, server_side=True)
        with suppress(OSError), peer, peer.makefile("rb") as source, peer.makefile("wb") as sink:
            head = b"".join(iter(source.readline, b"\r\n")).decode()
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])}
            self.asked = headers["sec-websocket-protocol"].split(",")
            if self._refuse:
                sink.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(self._refuse), self._refuse))
                return
            key = accept(headers["sec-websocket-key"])
            sink.write(
                f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {key}\r\nSec-WebSocket-Protocol: {self.asked[0]}\r\n\r\n".encode()
            )
            sink.flush()
            channels = Channels(source, sink)
            query = head.split()[1].partition("?")[2].split("&")
            words = [unquote(each.removeprefix("command=")) for each in query if each.startswith("command=")]
            if self._answer:
                self._answer(channels, source)
                return
            channels.tell(run(channels, words, "pod", terminal="tty=true" in query, stdin="stdin=true" in query))

    def close(self):
        self._listener.close()
        self._thread.join(5.0)


@pytest.fixture
def session(monkeypatch, tmp_path):
    """`session(words)`: run a command in a container, and return its exit code."""
    containers = []

    def made(*words, stdin=None, terminal=None, **options):
        container = Container(**options)
        containers.append(container)
        if stdin is not None:
            (tmp_path / "in").write_bytes(stdin)
            monkeypatch.setattr(sys, "stdin", open(tmp_path / "in"))  # noqa: SIM115 - closed with the test
        if terminal is not None:
            monkeypatch.setattr(sys, "stdin", open(terminal, closefd=False))  # noqa: SIM115 - closed with the test
        encrypted = tls(ssl.PROTOCOL_TLS_CLIENT) if options.get("encrypted") else None
        access = Access("127.0.0.1", container.port, tls=encrypted, source="test")
        taken = {"stdin": stdin is not None or terminal is not None, "terminal": terminal is not None}
        return Session(access, Key("n", "p"), "c", words, **taken).run(), container

    yield made
    for each in containers:
        each.close()


@pytest.mark.parametrize("encrypted", [False, True])
def test_much_input_and_output_at_once_do_not_wait_for_each_other(session, capfdbinary, encrypted):
    text = b"some input\n" * 500_000
    code, container = session("cat", stdin=text, encrypted=encrypted)
    assert (code, container.asked) == (0, [WITH_CLOSE, PLAIN])
    assert capfdbinary.readouterr().out == text


def test_without_input_the_version_that_all_servers_speak_is_enough(session, capfd):
    code, container = session("false")
    assert (code, container.asked) == (1, [PLAIN])


def test_a_user_without_the_right_sees_the_words_of_the_server(session):
    refusal = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"pods p is forbidden"}'
    with pytest.raises(ApiError, match="pods p is forbidden") as raised:
        session("true", refuse=refusal)
    assert raised.value.code == 403


def test_frames_may_be_continued_and_pings_are_answered(session, capfdbinary):
    answers = []

    def odd(channels, source):
        channels._sink.write(bytes([BINARY, 3, STDOUT]) + b"ab")  # not the last one of its message
        channels._write(0, b"cd")
        channels._write(PING, b"there?")
        answers.append(channels._frame())
        channels.tell({"status": "Success"})

    code, _ = session("true", answer=odd)
    assert (code, capfdbinary.readouterr().out, answers) == (0, b"abcd", [(10, b"there?")])


def test_a_connection_that_ends_before_the_command_is_reported(session):
    with pytest.raises(CommandError, match="ended before the command did"):
        session("true", answer=lambda channels, source: None)


# ------------------------------------------------------------------------------------------------ on a terminal


@pytest.fixture
def terminal(monkeypatch):
    """A terminal that is 80 columns wide, and a way to change its size without a word."""
    near, far = pty.openpty()
    size = [80, 24]
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size(size))
    yield near, far, size
    os.close(near)
    os.close(far)


def size_is(wanted):
    """Shell text that waits until its terminal has a size."""
    return f"while [ \"$(stty size)\" != '{wanted}' ]; do sleep 0.02; done; "


@pytest.mark.parametrize("encrypted", [False, True])
def test_new_sizes_arrive_however_many_signals_interrupt_the_session(session, terminal, capfdbinary, encrypted):
    """Signals that come while nothing is printed interrupt a read at the moment when a size is written."""
    _, far, size = terminal

    def change():
        for _ in range(500):
            os.kill(os.getpid(), signal.SIGWINCH)
            time.sleep(0.001)  # or several would be one
        size[:] = 120, 40
        os.kill(os.getpid(), signal.SIGWINCH)

    threading.Timer(0.2, change).start()
    code, _ = session("sh", "-c", f"{size_is('24 80')}{size_is('40 120')}exit 7", terminal=far, encrypted=encrypted)
    assert code == 7


def test_a_size_that_changes_while_the_first_is_sent_is_sent_too(session, terminal, monkeypatch, capfdbinary):
    def changing(number):
        if len(asked) == 0:
            os.kill(os.getpid(), signal.SIGWINCH)
        asked.append(number)
        return os.terminal_size((80, 24) if len(asked) == 1 else (120, 40))

    asked = []
    monkeypatch.setattr(os, "get_terminal_size", changing)
    assert session("sh", "-c", f"{size_is('40 120')}exit 7", terminal=terminal[1])[0] == 7


def test_keys_are_passed_on_and_a_signal_that_arrives_unnoticed_is_noticed(session, terminal, capfdbinary):
    """One that arrives in another thread does not end the main thread's sleep; nor does one that comes just before that sleep."""
    near, far, size = terminal

    def change():
        size[:] = 120, 40
        signal.pthread_kill(threading.get_ident(), signal.SIGWINCH)
        os.write(near, b"word\n")

    threading.Timer(0.2, change).start()
    code, _ = session("sh", "-c", f"{size_is('40 120')}read word; echo $word | tr a-z A-Z; exit 7", terminal=far)
    assert code == 7
    assert b"WORD" in capfdbinary.readouterr().out
