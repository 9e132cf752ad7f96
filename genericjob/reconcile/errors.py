"""What can go wrong at the API port, as one exception.

A caller asks an `ApiError` what it means, never which number it carries. The question that matters most for a write is the last one: did it
happen? `unknown` says that nobody can tell (the answer was lost, or the server gave up half-way), so the caller has to look.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

NO_ANSWER = 0
"""The code of an error for which no HTTP answer exists."""


UNREADABLE_OBJECT = "UnreadableObject"
"""The reason of an error about one object that the server has and this program cannot decode."""


NOT_FOUND = "NotFound"
"""The reason by which a server says that an object, or its kind, does not exist."""


class Cause(NamedTuple):
    """One field the server complained about."""

    field: str
    message: str
    reason: str


class ApiError(Exception):
    """A request that the server refused, that never reached it, or whose answer was lost."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        retry_after: float | None = None,
        unknown: bool = False,
        causes: Sequence[Cause] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.unknown = unknown
        """Whether the request may have taken effect. Reads never are: asking again is free."""
        self.causes = tuple(causes)

    def __repr__(self) -> str:
        return f"ApiError({self.code}, {self.reason!r}, {self.message!r}{', unknown' if self.unknown else ''})"

    @property
    def not_found(self) -> bool:
        """The object, or its kind, does not exist. A 404 ALONE DOES NOT SAY THAT: an ingress or a webhook may send one."""
        return self.code == 404 and self.reason == NOT_FOUND

    @property
    def already_exists(self) -> bool:
        """A create met an object of the same name."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Somebody else wrote first, or a precondition (UID, resourceVersion) did not hold."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.code == 410

    @property
    def throttled(self) -> bool:
        """The server is busy and did nothing: come back after `retry_after`."""
        return self.code == 429

    @property
    def unauthorized(self) -> bool:
        """The server does not know who is asking."""
        return self.code == 401

    @property
    def refused(self) -> bool:
        """The server understood and said no; the same request will be refused again."""
        return 400 <= self.code < 500 and self.code not in (401, 404, 408, 409, 410, 429)

    @property
    def too_large(self) -> bool:
        """The object does not fit into the store. Its refusal comes as an error of the server's own, known by its words alone."""
        return self.code == 413 or "request is too large" in self.message

    @property
    def unreachable(self) -> bool:
        """No answer came: the server is away, the network is cut, or it took too long."""
        return self.code == NO_ANSWER and not self.unreadable

    @property
    def silent(self) -> bool:
        """Nothing came on a watch for longer than a server may say nothing: it has been away since the last event."""
        return self.reason == "Silent"

    @property
    def unreadable(self) -> bool:
        """The server sent the object, and it cannot be decoded."""
        return self.reason == UNREADABLE_OBJECT


def from_status(code: int, status: Any, *, wrote: bool, retry_after: float | None = None) -> ApiError:
    """Read the server's `Status` object (or whatever a proxy sent in its place) into an error."""
    fields = status if isinstance(status, dict) else {}
    details = fields.get("details")
    details = details if isinstance(details, dict) else {}
    if retry_after is None and isinstance(details.get("retryAfterSeconds"), int) and details["retryAfterSeconds"] > 0:
        retry_after = float(details["retryAfterSeconds"])
    reason = _text(fields.get("reason")) or _REASONS.get(code, "Unknown")
    message = _text(fields.get("message")) or f"the server answered {code} {reason}"
    return ApiError(
        code,
        reason,
        message,
        retry_after=retry_after,
        # A 5XX NEVER PROVES THAT NOTHING HAPPENED: the store may have committed before the server gave up.
        unknown=wrote and code >= 500,
        causes=tuple(_causes(details.get("causes"))),
    )


def _causes(found: Any) -> Iterator[Cause]:
    for cause in found if isinstance(found, list) else ():
        if isinstance(cause, dict):
            yield Cause(_text(cause.get("field")), _text(cause.get("message")), _text(cause.get("reason")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The server's own words, for answers (of a proxy, say) that come without a `Status`. NotFound has to be said: see `not_found`."""


def unusable(message: str) -> ApiError:
    """Return the error for a configuration with which no request can be sent."""
    return ApiError(NO_ANSWER, "Configuration", message)


def sentence(error: BaseException) -> str:
    """Return an exception as one line."""
    text = " ".join(str(error).split())
    return (text or type(error).__name__)[:300]
