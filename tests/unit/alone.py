"""Primitives for a single thread, on a clock that the test moves: who would wait says so instead."""

import pytest


class WouldWaitError(Exception):
    """A queue that has nothing to hand out."""


class Alone:
    """Primitives for a single thread, on a clock that the test moves. It also plays the only condition there is."""

    def __init__(self):
        self.time = 0.0

    def monotonic(self):
        return self.time

    def condition(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def wait(self, timeout=None):
        raise WouldWaitError(timeout)

    def notify(self, n=1):
        raise AssertionError("nobody waits")

    def notify_all(self):
        pass


def waits(queue):
    with pytest.raises(WouldWaitError) as caught:
        queue.get()
    return caught.value.args[0]
