"""Commands in containers, without one."""

import os
import signal
import threading
from queue import SimpleQueue

import pytest

from genericjob.cli.channels import Session
from harness.clusters import eventually

pytestmark = pytest.mark.processes


class Senders(list):
    """A connection that remembers who sends."""

    def __init__(self):
        self.sizes = SimpleQueue()

    def send_binary(self, data):
        self.append(threading.current_thread())
        self.sizes.put(data)


@pytest.fixture
def session(monkeypatch):
    """A command on a terminal."""
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((80, 24)))
    session = object.__new__(Session)
    session._terminal, session._socket = True, Senders()
    with open(os.devnull) as stdin:  # it has a number, and is not read
        monkeypatch.setattr("sys.stdin", stdin)
        yield session


def test_who_reads_what_a_command_prints_does_not_wait_to_tell_a_new_size(session):
    """Or nobody would read while what was typed before waits for the command, and the command for its reader."""
    senders = session._socket
    with session._resizing():
        os.kill(os.getpid(), signal.SIGWINCH)
        eventually(lambda: len(senders) == 2)
    assert senders[0] is threading.main_thread()
    assert senders[1] is not threading.main_thread()


def test_a_new_size_is_sent_while_the_command_prints_nothing(session):
    """The main thread sleeps then; a signal may arrive just before it does, and one that arrives in another thread is alike."""
    sizes = session._socket.sizes
    with session._resizing():
        sizes.get()
        threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGWINCH)).start()
        assert sizes.get(timeout=30)


def test_a_size_that_changes_while_the_first_is_sent_is_sent_too(session, monkeypatch):
    def change(number):
        if not changed:
            changed.append(number)
            os.kill(os.getpid(), signal.SIGWINCH)
        return os.terminal_size((80, 24))

    changed = []
    monkeypatch.setattr(os, "get_terminal_size", change)
    with session._resizing():
        eventually(lambda: len(session._socket) == 2)
