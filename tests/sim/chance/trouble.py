"""Words of a schedule that mean something to a server, and to a controller that dies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.local.faults import lost_answer
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES, Resource
from sim.jobs import RAW_JOBS

RESOURCES: dict[str, Resource[Any]] = {"pods": RAW_PODS, "services": RAW_SERVICES, "genericjobs": RAW_JOBS, "podgroups": POD_GROUPS}
ERRORS: dict[int, Callable[[bool], ApiError]] = {
    0: lambda wrote: lost_answer() if wrote else ApiError(0, "Unreachable", "the connection was refused"),
    403: lambda wrote: ApiError(403, "Forbidden", "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0"),
    409: lambda wrote: ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version"),
    429: lambda wrote: ApiError(429, "TooManyRequests", "the server has too many requests", retry_after=1.0),
    500: lambda wrote: ApiError(500, "InternalError", "etcdserver: leader changed", unknown=wrote),
    503: lambda wrote: ApiError(503, "ServiceUnavailable", "the server is starting", unknown=wrote),
    504: lambda wrote: ApiError(504, "Timeout", "the server is behind", unknown=wrote),
}


@dataclass(frozen=True)
class Will:
    """What becomes of a controller's writes when it dies, and of its work."""

    fault: str = "crash"
    """What it dies of."""
    arrive: tuple[int, ...] = ()
    """Which of the writes on their way reach the server, by number."""
    late: float = 0.0
    """After so many seconds."""
    down: float = 0.0
    """A successor begins after so many."""
