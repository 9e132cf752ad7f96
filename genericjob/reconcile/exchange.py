"""One request, from its first send to an answer, within one deadline.

A request is retried here only if it certainly had no effect:

- it could not be sent on a connection which had been idle;
- it was a read, and its connection broke;
- it was refused with 401, and there are new credentials;
- it was refused with 429; the retry is sent after the time that the server asked for, if the deadline allows that.

Every other error is raised as `ApiError`, and the caller decides.

The deadline and the fence are checked directly before each send, and a write carries in `timeout=` what is left of its time. Retries share
the deadline of the first send.
"""

import platform
import sys
import time
from collections.abc import Callable

import msgspec

from genericjob import __version__

from .access import Access, Credentials, unauthorized_hint
from .answers import Answer, TooHeavyError, read
from .connection import Connection, NotAnsweredError, NotSentError, Pool
from .errors import NO_ANSWER, ApiError
from .fence import not_leading
from .primitives import monotonic
from .reply import Reply
from .timeouts import LEAST_S, Throttling, Timeouts, granted

USER_AGENT = f"genericjob/{__version__} (python/{platform.python_version()}; {sys.platform})"

JSON = "application/json"

Observe = Callable[[str, int, str, float], None]
"""Is told of every request: method, code of the answer (0 for none), host and port of the server, seconds until the answer began."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """What to send, wherever and whenever it is sent."""

    method: str
    target: str
    """Path and query, without `timeout=`."""
    body: bytes = b""
    content: str = JSON
    gzip: bool = False
    most: int = 0
    """Bytes of the answer, decompressed, beyond which it is given up (TooHeavyError); 0 is no limit."""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, so that it may be repeated and needs no permission."""
        return self.method == "GET"


class Exchange:
    """Sends requests over a pool of connections."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        throttling: Throttling = Throttling(),  # noqa: B008 - frozen
        may_write: Callable[[], bool] = lambda: True,
        observe: Observe | None = None,
        clock: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = time.sleep,
        connect: Callable[[Access, float], Connection] = Connection,
    ) -> None:
        """`may_write` is the fence. A simulation brings its own clock and connections."""
        self._credentials, self._timeouts, self._throttling = credentials, timeouts, throttling
        self._may_write, self._observe = may_write, observe
        self._clock, self._sleep, self._connect = clock, sleep, connect
        self._pool = Pool(connect)

    def whole(self, request: Request, seconds: float) -> Answer:
        """Send a request and return its whole answer, both within so many seconds. Anything from 300 on is raised."""
        connection, reply = self.begun(request, seconds)
        try:
            answer = read(connection, reply, request.most)
        except NotAnsweredError as error:
            connection.abort()
            raise _lost(request, connection.access, error) from error
        except TooHeavyError:
            connection.abort()
            raise
        self._keep(connection, reply)
        return answer

    def begun(self, request: Request, seconds: float, *, stream: bool = False) -> tuple[Connection, Reply]:
        """Send a request until its answer begins; a stream gets a connection of its own. Anything from 300 on is raised."""
        # ONE DEADLINE FOR ALL OF IT, waiting included (contract, clause 10).
        deadline = self._clock() + seconds
        throttled = 0
        renewed = False
        while True:
            access = self._credentials.current
            connection, reply = self._observed(access, request, deadline, stream=stream)
            if reply.status < 300:
                return connection, reply
            error = self._refusal(connection, reply, request)
            if error.unauthorized and not renewed and self._credentials.replace(access):
                renewed = True
                continue
            wait = self._throttling.unasked if error.retry_after is None else min(error.retry_after, self._throttling.longest)
            if error.throttled and throttled < self._throttling.tries and self._clock() + wait + LEAST_S < deadline:
                throttled += 1
                self._sleep(wait)
                continue
            if error.unauthorized:
                error = ApiError(error.code, error.reason, f"{unauthorized_hint(access)} ({access.url} says: {error.message})")
            raise error

    def close(self) -> None:
        """Close idle connections."""
        self._pool.close()

    # -------------------------------------------------------------------------------------------- one send

    def _observed(self, access: Access, request: Request, deadline: float, *, stream: bool) -> tuple[Connection, Reply]:
        if self._observe is None:
            return self._once(access, request, deadline, stream=stream)
        begin, code = self._clock(), NO_ANSWER
        try:
            connection, reply = self._once(access, request, deadline, stream=stream)
            code = reply.status
        finally:
            self._observe(request.method, code, access.authority, self._clock() - begin)
        return connection, reply

    def _once(self, access: Access, request: Request, deadline: float, *, stream: bool) -> tuple[Connection, Reply]:
        while True:
            patience = min(self._timeouts.connect, self._left(access, deadline))
            connection = self._connect(access, patience) if stream else self._pool.take(access, patience)
            reused = connection.requests > 0
            try:
                return connection, connection.send(self._encoded(access, request, deadline), request.method, deadline)
            except NotSentError as error:
                connection.abort()
                if not reused:
                    raise ApiError(NO_ANSWER, "Unreachable", f"the connection to {access.url} broke: {error}") from error
            except NotAnsweredError as error:
                connection.abort()
                if not (reused and request.reads):
                    raise _lost(request, access, error) from error
            except ApiError:
                connection.close()
                raise

    def _encoded(self, access: Access, request: Request, deadline: float) -> bytes:
        """Return the request as it is to be sent now; raise if it must not be sent any more."""
        left, target = self._left(access, deadline), request.target
        if not request.reads:
            if not self._may_write():
                raise not_leading(f"{request.method} {target}")
            target = f"{target}{'&' if '?' in target else '?'}timeout={int(granted(left) * 1000)}ms"
        return _head(access, request, target) + request.body

    def _left(self, access: Access, deadline: float) -> float:
        left = deadline - self._clock()
        if left < LEAST_S:
            raise ApiError(NO_ANSWER, "Unreachable", f"no connection to {access.url} in time: nothing was sent")
        return left

    def _refusal(self, connection: Connection, reply: Reply, request: Request) -> ApiError:
        try:
            answer = read(connection, reply)
        except NotAnsweredError:
            connection.close()
            answer = Answer(reply.status, reply.headers, b"")
        else:
            self._keep(connection, reply)
        return answer.refusal(request.method, connection.access.url, request.target)

    def _keep(self, connection: Connection, reply: Reply) -> None:
        if reply.will_close:
            connection.close()
        else:
            self._pool.give_back(connection)


def _head(access: Access, request: Request, target: str) -> bytes:
    length = len(request.body)
    carries = length or request.method in ("POST", "PUT", "PATCH")
    payload = f"Content-Type: {request.content}\r\nContent-Length: {length}\r\n" if carries else ""
    head = (
        f"{request.method} {access.prefix}{target} HTTP/1.1\r\nHost: {access.authority}\r\nUser-Agent: {USER_AGENT}\r\n"
        f"Accept: {JSON}\r\nAccept-Encoding: {'gzip' if request.gzip else 'identity'}\r\n{payload}"
    )
    return b"%b%b\r\n" % (head.encode("latin-1"), access.head)


def _lost(request: Request, access: Access, error: NotAnsweredError) -> ApiError:
    outcome = "" if request.reads else "; whether it happened is unknown"
    return ApiError(NO_ANSWER, "Unanswered", f"the server {access.url} gave no whole answer: {error}{outcome}", unknown=not request.reads)
