"""Who leads: one Lease object, held by one process at a time.

The holder writes a new time into the Lease every two seconds. Its right to write ends 10 s after the last renewal that succeeded, counted
from before it was sent; nobody else may take a record that changed less than 15 s ago, counted from when they saw it change. The 5 s
between are for a status write or a delete that is under way. The clock also counts while the machine is suspended: a holder that wakes up
after a minute may not write.

A leader that ends well empties the record, and those who wait also watch the Lease: a successor begins at once. One that loses the lease
has to end its process, for somebody else may be at work already.
"""

import logging
import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .api import Api, Watch
from .errors import ApiError
from .http import Timeouts
from .lease_claim import Claim, Record
from .metrics import Metrics
from .primitives import Backoff, Flag, Primitives, Thread
from .resources import LEASES, Key

log = logging.getLogger(__name__)

JITTER = 1.2
"""Those who wait look every `retry` to 2.2 x `retry` seconds: standbys that started together do not ask together."""
NEVER = float("-inf")
FORBIDDEN, LONG_FORBIDDEN_S = 403, 60.0
"""Refusals for so long are a missing permission, and not a role that is being replaced."""


@dataclass(frozen=True)
class Timings:
    """Seconds. Each must leave room for the next: lease > renew > 1.2 x retry."""

    lease: float = 15.0
    """A record that stands still for so long may be taken by another."""
    renew: float = 10.0
    """So long after its last renewal the holder may write."""
    retry: float = 2.0
    """Between renewals, and between looks of those who wait."""

    def __post_init__(self) -> None:
        if not self.lease > self.renew > JITTER * self.retry > 0:
            raise ValueError(
                f"a lease of {self.lease:g} s, to be renewed within {self.renew:g} s, tried every {self.retry:g} s, cannot be held"
            )

    @property
    def request(self) -> float:
        """The limit of one request: A HUNG ONE MUST NOT EAT THE DEADLINE, there has to be time for two more."""
        return max(1.0, self.renew / 3)

    def timeouts(self) -> Timeouts:
        """Limits of the port that the elector has for itself."""
        return Timeouts(connect=self.request, read=self.request, write=self.request)


def new_identity(primitives: Primitives) -> str:
    """A name that no other process has, and that tells people where to look."""
    return f"{socket.gethostname()}_{primitives.new_id()}"


class Elector:
    """Takes part in one election. `run` belongs in a thread of its own, the rest may be called from any.

    `api` has to be one of its own, with the limits of `Timings.timeouts`: no other request may stand in the way of a renewal.
    """

    def __init__(
        self,
        api: Api,
        key: Key,
        identity: str,
        *,
        primitives: Primitives,
        metrics: Metrics,
        timings: Timings = Timings(),  # noqa: B008 - frozen
    ) -> None:
        self._api, self._key, self._identity, self._timings = api, key, identity, timings
        self._primitives, self._metrics = primitives, metrics
        self._claim = Claim(api, key, identity, lease=timings.lease, primitives=primitives)
        self.lost = Flag(primitives)
        """Set once, and for good."""
        self._changed = primitives.condition()
        """Guards and announces what follows."""
        self._until = NEVER
        """The end of our right to write, in monotonic time."""
        self._lost_at = math.inf
        self._stopped = False
        self._following = False
        self._look = False
        """Whether there is a reason to look before time."""
        self._watch: Watch[dict[str, Any]] | None = None
        self._renewals: Thread | None = None
        self._problem = ""
        self._forbidden_since: float | None = None
        """Since when each attempt is refused for want of a permission."""
        metrics.leading(key.name, False)

    @property
    def leading(self) -> bool:
        """Whether this process was elected, and has neither lost nor released the lease."""
        return self._until != NEVER

    def may_write(self) -> bool:
        """Whether nobody else can be leading at this moment; to be asked before each write."""
        return self._primitives.monotonic() < self._until

    def complaint(self) -> str:
        """What a liveness probe has to know: a leader whose time is over and whose process goes on all the same; else empty."""
        over = self._primitives.monotonic() - min(self._lost_at, self._until if self.leading else math.inf)
        if over <= self._timings.lease - self._timings.renew:
            return ""
        return f"the lease {self._key} ended {over:.0f} s ago, and this process goes on"

    def refusal(self) -> str:
        """What a readiness probe has to know: this process lacks the permission to ever hold the lease; else empty."""
        since = self._forbidden_since
        seconds = 0.0 if since is None else self._primitives.monotonic() - since
        if seconds < LONG_FORBIDDEN_S:
            return ""
        return f"the lease {self._key} has been refused for {seconds:.0f} s: {self._problem}; allow get, watch, create and update of it"

    def run(self, started: Callable[[], None]) -> None:
        """Wait to be elected, call `started` (which must not block), and hold the lease until it is lost or `stop` is called."""
        if self._acquire():
            log.info("this process leads: %s holds the lease %s", self._identity, self._key)
            self._metrics.leading(self._key.name, True)
            started()
            self._hold()

    def stop(self) -> None:
        """Make `run` return. The lease stays ours until its time is over, or until `release`."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._unfollow()

    def release(self) -> None:
        """Let a successor begin at once; ONLY AFTER ALL WORK HAS STOPPED. Does nothing if the lease is not ours."""
        self._claim.close()
        with self._changed:
            self._stopped, self._until = True, NEVER
            self._changed.notify_all()
        self._metrics.leading(self._key.name, False)
        if self._renewals is not None:
            self._renewals.join(self._timings.request)
        if self._lost_at != math.inf:
            return
        try:
            if self._claim.give_away():
                log.info("released the lease %s", self._key)
        except ApiError as error:
            log.warning("the lease %s could not be released, a successor has to wait for its end: %s", self._key, error)

    # -------------------------------------------------------------------------------------------- waiting for it

    def _acquire(self) -> bool:
        """Look until the lease is ours."""
        try:
            while not self._stopped:
                self._look = False
                if self._attempt():
                    return True
                pause = self._timings.retry * (1 + JITTER * self._primitives.random())
                if self._claim.alive:
                    pause = max(0.001, min(pause, self._claim.ends - self._primitives.monotonic()))
                self._follow()
                self._wait(pause, lambda: self._stopped or self._look)
            return False
        finally:
            self._unfollow()

    def _follow(self) -> None:
        """Watch the Lease in a thread: a release is a reason to look at once. Without the watch all goes on, only later."""
        with self._changed:
            if self._following or self._stopped:
                return
            self._following = True
        self._primitives.start("lease watch", self._read_watches)

    def _read_watches(self) -> None:
        backoff = Backoff(self._primitives, first=1.0, limit=30.0)
        while self._following:
            try:
                self._read_watch()
            except ApiError as error:
                log.debug("the watch of the lease %s ended: %s", self._key, error)
            except Exception:
                log.exception("the watch of the lease %s failed unexpectedly", self._key)
            self._wait(backoff.next(), lambda: not self._following)

    def _read_watch(self) -> None:
        # From "": begins with the present state, so that what happened between two watches is not missed.
        with self._api.watch(LEASES, self._key.namespace, fields=f"metadata.name={self._key.name}", timeout=300.0) as watch:
            self._watch = watch
            for event in watch if self._following else ():
                if event.object is not None and not Record(event.object).holder:
                    with self._changed:
                        self._look = True
                        self._changed.notify_all()

    def _unfollow(self) -> None:
        with self._changed:
            self._following = False
            self._changed.notify_all()
        if watch := self._watch:
            watch.close()

    # -------------------------------------------------------------------------------------------- holding it

    def _hold(self) -> None:
        """Watch the deadline, while a thread renews: no request, however long it hangs, can keep us from noticing."""
        self._renewals = self._primitives.start("lease renewals", self._renew)
        with self._changed:
            while not self._stopped and (left := self._until - self._primitives.monotonic()) > 0:
                self._changed.wait(left)
            late = not self._stopped and self.leading
        if late:
            self._lose(f"it could not be renewed for {self._timings.renew:g} s")

    def _renew(self) -> None:
        pause = self._timings.retry
        while not self._wait(pause, lambda: self._stopped or not self.leading):
            begin = self._primitives.monotonic()
            held = self._attempt()
            if held is False:
                self._lose(f"{self._claim.holder or 'somebody else'} holds it now")
            # After a request that hung there is less time to wait for the next.
            spent = 0.0 if held else self._primitives.monotonic() - begin
            pause = max(self._timings.retry / 10, self._timings.retry - spent)

    def _lose(self, why: str) -> None:
        with self._changed:
            if not self.leading:
                return
            self._until, self._lost_at = NEVER, self._primitives.monotonic()
            self._changed.notify_all()
        log.error("leader election lost: the lease %s of %s: %s", self._key, self._identity, why)
        self._metrics.leading(self._key.name, False)
        self.lost.set()

    # -------------------------------------------------------------------------------------------- both

    def _attempt(self) -> bool | None:
        """Try once: whether the lease is ours, None if nobody can tell. Never raises, whatever is in the way."""
        try:
            begin = self._claim.attempt(leading=self.leading)
        except ApiError as error:
            self._note(error)
            return None
        except Exception:
            log.exception("an attempt at the lease %s failed unexpectedly", self._key)
            return None
        self._problem, self._forbidden_since = "", None
        if begin is None:
            return False
        with self._changed:
            if not self._stopped and self._lost_at == math.inf:
                self._until = begin + self._timings.renew
                self._changed.notify_all()
            return self.leading

    def _note(self, error: ApiError) -> None:
        if error.code != FORBIDDEN:
            self._forbidden_since = None
        elif self._forbidden_since is None:
            self._forbidden_since = self._primitives.monotonic()
        if error.conflict or error.already_exists:
            log.debug("somebody else was faster with the lease %s", self._key)
            return
        # Once per problem: a server that is away for an hour is one line, not a thousand.
        level = logging.DEBUG if error.message == self._problem else logging.WARNING
        log.log(level, "the lease %s can be neither taken nor renewed: %s", self._key, error.message)
        self._problem = error.message

    def _wait(self, seconds: float, happened: Callable[[], bool]) -> bool:
        """Wait until something happens, so long at most; whether it has."""
        deadline = self._primitives.monotonic() + seconds
        with self._changed:
            while not happened() and (left := deadline - self._primitives.monotonic()) > 0:
                self._changed.wait(left)
            return happened()
