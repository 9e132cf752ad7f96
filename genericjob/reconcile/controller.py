"""The loop around a reconcile function: take a key, look at it, do what the result says.

A reconcile gets a key and returns a `Result`; whatever it raises is logged, counted and tried again later, and never ends a worker. A key
that was served rests nine times as long as its worker computed for it. So an object that is large and changes often uses a tenth of one
processor at most, and what happens to it meanwhile is looked at together. After a reconcile that stops in the middle of its writes (`MORE`)
the time in which it waited for the server counts as rest: usually that is enough, and the key continues as soon as it is its turn.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from .errors import ApiError
from .metrics import ControllerMetrics, ReconcileResult
from .primitives import Primitives, Thread
from .queue import Queue
from .resources import Key

log = logging.getLogger(__name__)

REST_PER_WORK = 9.0
LONGEST_ASKED_S = 60.0
"""Seconds that a server may ask for at most: the time may come from an admission webhook, and be years."""
RELIEFS_PER_WORKER = 3
"""Threads that may work in the places of workers whose writes hang."""


@dataclass(frozen=True, slots=True)
class Result:
    """What becomes of a key after a reconcile."""

    outcome: ReconcileResult
    seconds: float = 0.0
    reason: str = ""
    unfinished: bool | None = False
    """Whether writes are left, and others are to get their turn first; None if that was not found out."""

    @staticmethod
    def again_in(seconds: float) -> "Result":
        """Look again after a while."""
        return Result("requeue_after", seconds=seconds)

    @staticmethod
    def wait_for_caches(seconds: float) -> "Result":
        """Nothing was looked at, because the caches do not show our own writes yet: look when they do, after a while at the latest."""
        return Result("requeue_after", seconds=seconds, unfinished=None)

    @staticmethod
    def give_up(reason: str) -> "Result":
        """Trying again would change nothing: wait until something changes. Counted as a failure."""
        return Result("terminal", reason=reason)


DONE = Result("success")
"""Nothing is left to do until something changes."""
AGAIN = Result("requeue", unfinished=None)
"""Look again soon, and later each time."""
MORE = Result("requeue_after", seconds=1.0, unfinished=True)
"""There are more writes to send: go on when the caches show those that were sent and it is this key's turn, usually without a rest."""
_FAILED = Result("error", unfinished=None)


class Controller:
    """Workers that serve one queue."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[Key], Result],
        *,
        queue: Queue[Key],
        workers: int,
        primitives: Primitives,
        metrics: ControllerMetrics,
        processor_time: Callable[[], float] = time.thread_time,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """`begin` is called when the work begins: who waited for it did not need the queue."""
        self.name = name
        self._reconcile = reconcile
        self._queue, self._workers = queue, workers
        self._primitives, self._metrics, self._processor_time = primitives, metrics, processor_time
        self._begin = begin
        self._threads: list[Thread] = []

    def start(self) -> None:
        """Begin to work."""
        self._begin()
        self._threads = [self._primitives.start(f"{self.name}-{n}", self._work) for n in range(1, self._workers + 1)]
        self._send_for_relief()

    def stop(self, timeout: float, *, drain: bool = True) -> bool:
        """Take no more keys and finish what is ready (without `drain`: at work), so long at most; whether all workers have ended."""
        deadline = self._primitives.monotonic() + timeout
        self._queue.shut_down(drain=drain)
        ended = [thread.join(max(0.0, deadline - self._primitives.monotonic())) for thread in self._threads]
        if not all(ended):
            self._queue.shut_down(drain=False)
        return all(ended)

    def alive(self) -> bool:
        """Whether every worker that was started is there."""
        return all(thread.alive() for thread in self._threads)

    # -------------------------------------------------------------------------------------------- a worker

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            self._serve(key)

    def _send_for_relief(self) -> None:
        number = len(self._threads) - self._workers + 1
        if number <= RELIEFS_PER_WORKER * self._workers:
            self._threads.append(self._primitives.start(f"{self.name}-relief-{number}", self._relieve))

    def _relieve(self) -> None:
        """Work while workers wait for the server; with the first key another relief is sent for, so that one is always there to wait."""
        first = True
        while (key := self._queue.relieve()) is not None:
            if first:
                self._send_for_relief()
                first = False
            self._serve(key)

    def _serve(self, key: Key) -> None:
        started, processor = self._primitives.monotonic(), self._processor_time()
        self._metrics.active.inc()
        try:
            result = self._attempt(key)
        except BaseException:
            result = _FAILED
            raise
        finally:
            self._metrics.active.dec()
            duration, computed = self._primitives.monotonic() - started, self._processor_time() - processor
            rested = duration - computed if result.unfinished else 0.0
            self._queue.done(key, rest=max(0.0, REST_PER_WORK * computed - rested), unfinished=result.unfinished)
        self._metrics.finished(result.outcome, duration)

    def _attempt(self, key: Key) -> Result:
        try:
            return self._settle(key, self._reconcile(key))
        except ApiError as error:
            # Of a server that is away the caches tell, once, not every job.
            usual = error.conflict or error.throttled or error.unreachable
            about = {"job": str(key), "reason": error.reason}
            log.log(logging.DEBUG if usual else logging.INFO, "%s %s: %s; will try again", self.name, key, error, extra=about)
            self._queue.retry(key, at_least=min(error.retry_after or 0.0, LONGEST_ASKED_S))
        except Exception:
            log.exception("%s %s: unexpected; will try again", self.name, key, extra={"job": str(key)})
            self._metrics.panicked()
            self._queue.retry(key)
        return _FAILED

    def _settle(self, key: Key, result: Result) -> Result:
        """Put the key back if it must be looked at again: WHILE IT IS AT WORK, so that it keeps its priority."""
        if result.outcome == "requeue":
            self._queue.retry(key)
            return result
        self._queue.forget(key)
        if result.outcome == "requeue_after":
            self._queue.again(key, result.seconds)
        elif result.outcome == "terminal":
            log.warning("%s %s: gave up: %s", self.name, key, result.reason, extra={"job": str(key)})
        return result
