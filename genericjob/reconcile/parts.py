"""What a process is made of, as far as it has to know: how each part is started and ended, and what can be asked of it meanwhile."""

from collections.abc import Callable, Mapping
from typing import Protocol


class Informer(Protocol):
    """A cache."""

    @property
    def synced(self) -> bool:
        """Whether it has been filled once."""
        ...

    def start(self) -> None:
        """Begin to fill."""
        ...

    def silence(self) -> float:
        """Seconds since the last sign of life of the server."""
        ...

    def unexplained_silence(self) -> float:
        """Return the same where the server can be reached at the moment, or 0.0 if that is nowhere."""
        ...

    def wait_synced(self, timeout: float, /) -> bool:
        """Wait until it has been filled, so long at most."""
        ...

    def target(self) -> Mapping[str, str]:
        """Ask the server for its newest version, by namespace. Raises ApiError."""
        ...

    def reach(self, target: Mapping[str, str], timeout: float, /) -> bool:
        """Return whether the cache has reached the target within `timeout` seconds."""
        ...

    def reachable(self, target: Mapping[str, str], /) -> bool:
        """Return whether the server still has the target; one that was restored from a backup may be older."""
        ...

    def stop(self) -> object:
        """Take in nothing more."""
        ...


class Controller(Protocol):
    """Workers of one queue."""

    @property
    def name(self) -> str:
        """Of what it works on."""
        ...

    def start(self) -> None:
        """Begin to work."""
        ...

    def alive(self) -> bool:
        """Whether none of its threads has died."""
        ...

    def stop(self, timeout: float, /) -> bool:
        """Finish what was begun, so long at most; whether all is done."""
        ...


class Writer(Protocol):
    """Sends writes."""

    def stop(self, timeout: float, /) -> bool:
        """End, so long at most; whether it has."""
        ...


class Recorder(Writer, Protocol):
    """Sends events about objects."""

    def start(self) -> None:
        """Begin."""
        ...


class Fence(Protocol):
    """Stands before everything that writes."""

    def shut(self, timeout: float, /) -> bool:
        """Let nothing more pass; returns whether no write that a successor must not meet is left after `timeout` seconds."""
        ...


class Elector(Protocol):
    """Takes part in an election."""

    def run(self, started: Callable[[], None], /) -> None:
        """Return when the lease is lost, or after `stop`."""
        ...

    def stop(self) -> None:
        """Make `run` return."""
        ...

    def release(self) -> None:
        """Let a successor begin."""
        ...

    def complaint(self) -> str:
        """What a liveness probe has to know."""
        ...

    def refusal(self) -> str:
        """What a readiness probe has to know."""
        ...


class Server(Protocol):
    """Answers requests."""

    @property
    def name(self) -> str:
        """Of its thread."""
        ...

    def serve(self) -> None:
        """Run until `stop`."""
        ...

    def stop(self) -> None:
        """Make `serve` return."""
        ...
