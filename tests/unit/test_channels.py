"""Commands in containers, without one."""

import os
import signal
import threading

from genericjob.cli.channels import Session
from harness.clusters import eventually


class Senders(list):
    """A connection that remembers who sends."""

    def send_binary(self, data):
        self.append(threading.current_thread())


def test_who_reads_what_a_command_prints_does_not_wait_to_tell_a_new_size(monkeypatch):
    """Or nobody would read while what was typed before waits for the command, and the command for its reader."""
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((80, 24)))
    session, senders = object.__new__(Session), Senders()
    session._terminal, session._socket = True, senders
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115 - it has a number, and is not read
    with session._resizing():
        os.kill(os.getpid(), signal.SIGWINCH)
        eventually(lambda: len(senders) == 2)
    assert senders[0] is threading.main_thread()
    assert senders[1] is not threading.main_thread()
