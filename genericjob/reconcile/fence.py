"""No write after leadership has ended.

A leader that could not renew its lease in time must take it for lost, although nobody told it so: a successor may be at work already. The
fence stands between everything that writes and the server, and is asked before each single request, and by `exchange.py` once more directly
before each send.

What was let through may still be under way when the fence shuts. A status write or a delete ends by its own timeout, which is shorter than
the time that a successor waits. A create may take longer: it is harmless when it is late, and nobody waits for it.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from .api import Api
from .errors import NO_ANSWER, ApiError
from .passing import WRITES, Call, Passing
from .primitives import Flag, Primitives

T = TypeVar("T")

NOT_LEADING = "NotLeading"


def not_leading(what: str) -> ApiError:
    """Return the error of a write that was not sent. NOT UNKNOWN: nothing was sent, so nothing has happened."""
    return ApiError(NO_ANSWER, NOT_LEADING, f"{what} not sent: this process does not lead (any more)")


class Fence:
    """Says whether writes may be sent, and knows those under way that a successor must not meet."""

    def __init__(self, allowed: Callable[[], bool], primitives: Primitives) -> None:
        self._allowed = allowed
        self._lock = threading.Lock()
        self._shut = False
        self._under_way = 0
        self._quiet = Flag(primitives)

    def is_open(self) -> bool:
        """Return whether a write may be sent now."""
        return not self._shut and self._allowed()

    def begin(self) -> bool:
        """Count a write that must not be late; returns whether it may be sent."""
        with self._lock:
            if self._shut:
                return False
            self._under_way += 1
        if self._allowed():
            return True
        self.end()
        return False

    def end(self) -> None:
        """A write that was counted has been answered, or has been given up."""
        with self._lock:
            self._under_way -= 1
            quiet = self._shut and not self._under_way
        if quiet:
            self._quiet.set()

    def shut(self, timeout: float) -> bool:
        """Let no further write pass; returns whether those that must not be late ended within `timeout` seconds."""
        with self._lock:
            self._shut = True
            quiet = not self._under_way
        return quiet or self._quiet.wait(timeout)


class Fenced(Passing):
    """An API whose writes need permission. Reads always pass."""

    def __init__(self, api: Api, fence: Fence) -> None:
        super().__init__(api)
        self._fence = fence

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Ask before each write."""
        if call.verb not in WRITES:
            return do()
        if call.verb == "create":  # HARMLESS WHEN LATE (contract, clause 10): what exists already is not touched
            if not self._fence.is_open():
                raise _refused(call)
            return do()
        if not self._fence.begin():
            raise _refused(call)
        try:
            return do()
        finally:
            self._fence.end()


def _refused(call: Call) -> ApiError:
    return not_leading(f"{call.verb} of {call.resource.full_name}")
