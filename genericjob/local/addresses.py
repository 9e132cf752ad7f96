"""Addresses on loopback: every name in a run has one of its own.

On a cluster a pod's name resolves because a Service stands behind it. Here nothing resolves names, but all of 127.0.0.0/8 is this machine,
so a name becomes an address. The ranks of a manifest have theirs in the order of types and ranks, whoever asks first: the same manifest
gives the same last two numbers in every run. Any other name gets the next one when it is first asked for.

A run takes one of the 254 networks 127.R.0.0/16 for itself, and so two runs at once never meet. The kernel keeps the claim, as a bound
socket, and drops it whatever way the run ends.
"""

import socket
import threading
from collections.abc import Iterable

from genericjob.reconcile.resources import Key

CLAIM_PORT = 47127
"""UDP port whose binding on the last address of a network means: taken."""
LAST_OCTETS = 250
ROOM = 250 * LAST_OCTETS
"""Names in one run."""


class Addresses:
    """The addresses of one run."""

    def __init__(self, network: int | None = None) -> None:
        """Claim a network; a given one is used without asking."""
        self._claim: socket.socket | None = None
        if network is None:
            network, self._claim = claim(range(1, 255))
        self._network = network
        self._lock = threading.Lock()
        self._known: dict[Key, str] = {}

    def reserve(self, names: Iterable[Key]) -> None:
        """Give names their addresses, in this order."""
        for name in names:
            self.of(name)

    def of(self, name: Key) -> str:
        """The address behind a name: the same one for as long as the run lasts."""
        with self._lock:
            if name not in self._known:
                self._known[name] = self._next()
            return self._known[name]

    def close(self) -> None:
        """Let others have the network."""
        if self._claim is not None:
            self._claim.close()

    def _next(self) -> str:
        count = len(self._known)
        if count >= ROOM:
            raise OverflowError(f"a run has room for {ROOM} names")
        third, fourth = divmod(count, LAST_OCTETS)
        return f"127.{self._network}.{third}.{fourth + 1}"


def claim(networks: Iterable[int]) -> tuple[int, socket.socket]:
    """The first network that nobody has, and the socket that keeps it."""
    for network in networks:
        keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            keeper.bind((f"127.{network}.255.254", CLAIM_PORT))
        except OSError:
            keeper.close()
        else:
            return network, keeper
    raise OSError("no network of 127.0.0.0/8 is free on this machine: are there more than 250 runs, or is loopback down?")
