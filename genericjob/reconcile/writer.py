"""Many writes at a time, but not too many, and not for long if the server says no.

A reconcile hands over its writes and waits for their fates. Its own thread sends them, one after the other, and helpers join in:

    slow start    one write is under way at first, and each success allows one more: 1, 2, 4, 8. A job that is refused costs one request.
    stop          after a refusal or a failure, or when nobody wants it any more, nothing more of the same call is sent; what is under
                  way ends, the rest is skipped.
    a limit       helpers add writes only while fewer than `threads` are under way in the whole process: that many connections reach
                  the server's full rate, more of them only wait longer.
    turns         helpers serve the calls in turn, so ten thousand ranks of one job leave room for the four of another.
    no hostages   a caller needs nobody: when all helpers hang in writes of one job, every other job still has its own thread and goes on.

A helper that ends a write begins the next one in the same breath; threads are woken only when there is more to do than there are hands.
Nobody holds the lock over a request, and nobody polls.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence

from .api import Api
from .own_writes import OwnWrites
from .primitives import Flag, Primitives
from .writes import Create, Delete, Done, Fate, Sender, Standing, Write

__all__ = ["Create", "Delete", "Done", "Fate", "Standing", "Write", "Writer"]

log = logging.getLogger(__name__)

STOPS: frozenset[Fate] = frozenset(("refused", "failed", "waiting"))
"""A name that somebody else has says nothing about other names. These do: of the server, or of a whole set of pods on its way out."""


def _stops(done: Done) -> bool:
    """Whether the rest is not worth trying. That one object may not be deleted says as little of others as a name that is taken."""
    return done.fate in STOPS and not (done.fate == "refused" and isinstance(done.write, Delete))


class _Call:
    """The writes of one caller. Guarded by the writer's lock."""

    __slots__ = ("done", "ended", "next", "stopped", "under_way", "wanted", "window", "writes")

    def __init__(self, writes: Sequence[Write], ended: Flag, wanted: Callable[[], bool]) -> None:
        self.writes = writes
        self.wanted = wanted
        self.done: list[Done | None] = [None] * len(writes)
        self.next = 0
        self.under_way = 0
        self.window = 1
        self.stopped = False
        self.ended = ended

    @property
    def has_room(self) -> bool:
        """Whether one more of it may be sent now."""
        return self.under_way < self.window and self.next < len(self.writes) and not self.stopped

    @property
    def over(self) -> bool:
        """Whether nothing of it is under way and nothing more will be."""
        return self.under_way == 0 and (self.stopped or self.next == len(self.writes))

    def fates(self) -> list[Done]:
        """What became of each write, in their order."""
        return [done or Done(write, "skipped") for write, done in zip(self.writes, self.done, strict=True)]


class Writer:
    """Applies plans. Share one between all workers: its limit is that of the process."""

    def __init__(self, api: Api, *, threads: int = 8, primitives: Primitives, own_writes: OwnWrites) -> None:
        self._send = Sender(api, own_writes).send
        self._threads = threads
        self._primitives = primitives
        self._changed = primitives.condition()
        self._calls: deque[_Call] = deque()
        """Calls that helpers may serve; the next in turn comes first."""
        self._under_way = 0
        self._idle = 0
        self._wakes = 0
        """Helpers that were called and have not come yet."""
        self._may_start = True
        self._stopped = False

    def apply(self, writes: Sequence[Write], *, wanted: Callable[[], bool] = lambda: True) -> list[Done]:
        """Send these and return what became of each, in their order. Blocks until none of them is under way.

        `wanted` is asked after each; once it says no the rest is skipped. It must not block.
        """
        if not writes:
            return []
        call = _Call(writes, Flag(self._primitives), wanted)
        try:
            self._serve(call)
        except BaseException:
            call.stopped = True  # nobody is left to hear of the rest
            raise
        return call.fates()

    def stop(self, timeout: float | None = 0.0) -> bool:
        """Send nothing more, end the helpers, and wait so long for what is under way; whether none is left."""
        deadline = None if timeout is None else self._primitives.monotonic() + timeout
        with self._changed:
            self._stopped = True
            for call in self._calls:
                call.stopped = True
            self._changed.notify_all()
            while self._under_way:
                left = None if deadline is None else deadline - self._primitives.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
            return True

    # -------------------------------------------------------------------------------------------- the caller's thread

    def _serve(self, call: _Call) -> None:
        writes, send, shared = call.writes, self._send, len(call.writes) > 1
        with self._changed:
            call.stopped = self._stopped
            self._may_start = True
            index = self._take(call)
            if shared:
                self._calls.append(call)
        while index is not None:
            done = send(writes[index])
            with self._changed:
                self._finish(call, index, done)
                index = self._take(call)
                new = self._wake()
            if new:
                self._start_helper()
        with self._changed:
            if shared:
                self._calls.remove(call)
            over = call.over
        if not over:
            call.ended.wait()

    # -------------------------------------------------------------------------------------------- helpers

    def _help(self) -> None:
        while (turn := self._wait_for_turn()) is not None:
            while turn is not None:
                turn = self._take_turn(*turn)

    def _take_turn(self, call: _Call, index: int) -> tuple[_Call, int] | None:
        """Send a write; the next one to send, if there is one. Not part of `_help`: who waits must not keep the last call in memory."""
        done = self._send(call.writes[index])
        with self._changed:
            over = self._finish(call, index, done)
            turn = self._next_turn()
            new = self._wake()
        if over:
            call.ended.set()
        if new:
            self._start_helper()
        return turn

    def _wait_for_turn(self) -> tuple[_Call, int] | None:
        """Wait to be called, and for something to do; None when the writer stops."""
        turn = None
        with self._changed:
            while turn is None:
                while not self._wakes and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    break
                self._wakes -= 1
                turn = self._next_turn()
        return turn

    def _start_helper(self) -> None:
        try:
            self._primitives.start("writer", self._help)
        except RuntimeError as error:  # the system has no more threads; callers can do without
            log.warning("writes go on with fewer threads: %s", error)
            with self._changed:
                self._wakes -= 1
                self._may_start = False

    # -------------------------------------------------------------------------------------------- with the lock held

    def _take(self, call: _Call) -> int | None:
        """The next write of a call, which is under way from now on."""
        if not call.has_room:
            return None
        index = call.next
        call.next = index + 1
        call.under_way += 1
        self._under_way += 1
        return index

    def _finish(self, call: _Call, index: int, done: Done) -> bool:
        """A write has ended; whether it was the last of its call."""
        call.done[index] = done
        call.under_way -= 1
        self._under_way -= 1
        if done.fate == "done":
            call.window += 1
        if _stops(done) or not call.wanted():
            call.stopped = True
        if self._stopped:
            self._changed.notify_all()  # somebody waits for the last one
        return call.over

    def _next_turn(self) -> tuple[_Call, int] | None:
        """What a helper does next; without anything to do it counts as idle."""
        if self._under_way < self._threads:
            for _ in range(len(self._calls)):
                call = self._calls[0]
                self._calls.rotate(-1)
                index = self._take(call)
                if index is not None:
                    return call, index
        self._idle += 1
        return None

    def _wake(self) -> bool:
        """Call one more helper if there is work for it; whether a new one has to be started.

        There are never more of them than needed: while a call has room its caller is under way as well, and a helper is started only when
        all others are under way or called.
        """
        if self._under_way + self._wakes >= self._threads or not (self._idle or self._may_start):
            return False
        for call in self._calls:
            if call.has_room:
                break
        else:
            return False
        self._wakes += 1
        if self._idle:
            self._idle -= 1
            self._changed.notify()
            return False
        return True
