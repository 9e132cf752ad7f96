"""Signals as calls on a thread: none is missed, whatever the main thread does."""

import os
import signal
import threading
from queue import SimpleQueue

import pytest

from genericjob.reconcile.signals import Signals
from harness.clusters import eventually

pytestmark = pytest.mark.processes


def arrive_unnoticed(number):
    """Have a signal arrive in this thread, which is not the main one.

    The interpreter notes it, and nothing interrupts the system call that the main thread sleeps in: the same happens to a signal
    that arrives in the main thread just before that call.
    """
    assert threading.current_thread() is not threading.main_thread()
    signal.pthread_kill(threading.get_ident(), number)


def test_a_signal_that_does_not_wake_the_main_thread_is_heard():
    heard = SimpleQueue()
    with Signals((signal.SIGUSR1,), heard.put):
        threading.Timer(0.1, arrive_unnoticed, (signal.SIGUSR1,)).start()
        assert heard.get(timeout=30) == signal.SIGUSR1


def test_all_signals_are_heard_in_their_order():
    heard = []
    with Signals((signal.SIGUSR1, signal.SIGUSR2), heard.append):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            os.kill(os.getpid(), number)
    assert heard == [signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1]  # when it is closed, all have been passed on


def test_signals_are_heard_while_the_main_thread_holds_the_lock_that_is_needed():
    locked, heard = threading.Lock(), []

    def hear(number):
        with locked:
            heard.append(number)

    with Signals((signal.SIGUSR1,), hear):
        with locked:
            os.kill(os.getpid(), signal.SIGUSR1)
        eventually(lambda: heard == [signal.SIGUSR1])


def test_other_signals_keep_their_handlers_and_are_not_heard():
    own, heard = [], []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: own.append(number))
    try:
        with Signals((signal.SIGUSR1,), heard.append):
            os.kill(os.getpid(), signal.SIGUSR2)
        assert (own, heard) == ([signal.SIGUSR2], [])
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_in_the_end_everything_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    with Signals((signal.SIGINT,), lambda number: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.set_wakeup_fd(-1) == -1
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_handler_that_was_set_meanwhile_stays():
    before = signal.getsignal(signal.SIGUSR1)
    try:
        with Signals((signal.SIGUSR1,), lambda number: None):
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_an_inner_one_passes_on_what_is_not_its_own():
    outer, inner = [], []
    with Signals((signal.SIGUSR1,), outer.append):
        with Signals((signal.SIGUSR2,), inner.append):
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                os.kill(os.getpid(), number)
            eventually(lambda: (outer, inner) == ([signal.SIGUSR1], [signal.SIGUSR2]))
        os.kill(os.getpid(), signal.SIGUSR1)
        eventually(lambda: outer == [signal.SIGUSR1] * 2)
