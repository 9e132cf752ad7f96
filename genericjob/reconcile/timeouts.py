"""How long requests may take.

Each request has one deadline. Everything that it does counts: resolving the name, connecting, the TLS handshake, waiting after a 429,
sending, and reading the answer. At every send the server is told what is left, so that it commits nothing after the deadline either.
"""

from dataclasses import dataclass

from .primitives import monotonic

CREATE_S = 30.0
"""The controller's limit for creates. Admission webhooks may take 10 s each, and a late create is harmless (contract, clause 10)."""
LEAST_S = 0.1
"""With less time left than this a request is not sent: nobody would wait for its answer."""

ANSWER_S = 0.25
"""Time that the server is not granted, so that its own word about a time-out arrives before the request is given up."""

WATCH_END_S = 3.0
"""Time after the end of a watch that it asked for itself: a server that has not ended it by then does not answer any more."""


@dataclass(frozen=True)
class Timeouts:
    """Limits in seconds; nothing here ever waits for ever."""

    connect: float = 5.0
    """For everything until a connection can be used: name, address, proxy, handshake."""
    read: float = 60.0
    write: float = 4.0
    """Less than a lease's duration minus its renew deadline (15 - 10 s): no write outlives its leader. The server is told, too."""
    create: float | None = None
    """For creates, where they may take longer than other writes."""
    silence: float = 70.0
    """A watch without event or bookmark for so long is dead; bookmarks come once a minute."""


@dataclass(frozen=True)
class Throttling:
    """How a 429 is met: wait as asked, so often, and never longer than this at a time."""

    tries: int = 3
    longest: float = 10.0
    unasked: float = 1.0
    """Seconds to wait when the server names none."""


def granted(left: float) -> float:
    """Return the seconds that the server may take for a write that is sent with so many seconds left."""
    return left - min(ANSWER_S, left / 4)


def remaining(deadline: float) -> float:
    """Return the seconds until a moment of monotonic time; raise TimeoutError if it has passed."""
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left
