"""Ctrl-C reaches a command whose main thread sleeps."""

import signal
import threading
from queue import SimpleQueue

import pytest

from genericjob.cli import explain
from genericjob.cli.interrupts import NUDGE, interruptible

from .calling import genericjob

pytestmark = pytest.mark.processes


def sleep_until_ctrl_c():
    """Sleep, and have Ctrl-C arrive in another thread; whether something else has to end the sleep.

    Such a signal interrupts no system call of the main thread, like one that arrives just before the call.
    """
    sleep = SimpleQueue()
    threading.Timer(0.1, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)).start()
    waker = threading.Timer(20, lambda: sleep.put("woken"))
    waker.start()
    try:
        sleep.get()
    except KeyboardInterrupt:
        return not waker.is_alive()
    finally:
        waker.cancel()
    return True


def test_ctrl_c_that_does_not_wake_the_main_thread_interrupts_it():
    with interruptible():
        assert not sleep_until_ctrl_c()


def test_commands_are_interruptible(monkeypatch):
    woken = []
    monkeypatch.setattr(explain, "jobs_of", lambda sources, *, pods: woken.append(sleep_until_ctrl_c()) or [])
    genericjob("explain", "job.yaml")
    assert woken == [False]


def test_each_ctrl_c_interrupts_once():
    with interruptible():
        assert [sleep_until_ctrl_c() for _ in range(3)] == [False] * 3
        signal.pthread_kill(threading.get_ident(), NUDGE)  # one that comes late does nothing


def test_a_command_in_the_background_stays_deaf_to_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_in_the_end_signals_mean_what_they_did():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(NUDGE)
    with interruptible():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(NUDGE)) == before
