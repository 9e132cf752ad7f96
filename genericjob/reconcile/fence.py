"""No write after leadership has ended.

A leader that could not renew its lease in time must take it for lost, although nobody told it so: a successor may be at work already. The
fence stands between everything that writes and the server, and asks before each single request. A write that was let through and is still
under way ends by its own timeout, which is shorter than the time that a successor waits.
"""

from collections.abc import Callable
from typing import TypeVar

from .api import Api
from .errors import NO_ANSWER, ApiError
from .passing import WRITES, Call, Passing

T = TypeVar("T")

NOT_LEADING = "NotLeading"


class Fenced(Passing):
    """An API whose writes need permission. Reads always pass."""

    def __init__(self, api: Api, allowed: Callable[[], bool]) -> None:
        super().__init__(api)
        self._allowed = allowed

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Ask before each write."""
        if call.verb in WRITES and not self._allowed():
            # NOT UNKNOWN: nothing was sent, so nothing has happened.
            what = f"{call.verb} of {call.resource.full_name}"
            raise ApiError(NO_ANSWER, NOT_LEADING, f"{what} not sent: this process does not lead (any more)")
        return do()
