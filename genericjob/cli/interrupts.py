"""Ctrl-C for commands whose main thread reads from a server.

Python raises KeyboardInterrupt between two instructions of the main thread. If Ctrl-C arrives after the last of them and before the
thread sleeps in a system call, nothing ends that sleep, and the user has to press it again. So a thread hears of Ctrl-C as well and
interrupts the main thread until the exception has been raised.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from genericjob.reconcile.signals import Signals

NUDGE = signal.SIGURG
"""Interrupts a system call of the main thread. No terminal sends it, and a process that does not handle it ignores it."""
NUDGE_EVERY_S = 0.05


@contextmanager
def interruptible() -> Iterator[None]:
    """Have every Ctrl-C raise KeyboardInterrupt in the main thread, which calls this, even if that sleeps at that moment."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell has started us in the background, where Ctrl-C means others
        yield
        return
    main, pressed = threading.get_ident(), False

    def interrupt(*_: object) -> None:
        nonlocal pressed
        if pressed:  # ONCE FOR EACH: a nudge that comes late is none
            pressed = False
            raise KeyboardInterrupt

    def heard(number: int) -> None:
        nonlocal pressed
        pressed = True
        while pressed:
            signal.pthread_kill(main, NUDGE)
            time.sleep(NUDGE_EVERY_S)

    before = signal.signal(NUDGE, interrupt)
    try:
        with Signals((signal.SIGINT,), heard):
            yield
    finally:
        signal.signal(NUDGE, before)
