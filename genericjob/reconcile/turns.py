"""Keys that are ready, in an order in which no group of them waits for all keys of another.

Keys belong to groups: those of a namespace, for instance. Groups are served in turn, one key each, and the keys of a group in the order in
which they came. So whoever adds a thousand keys at once delays the others of his group, and every other group by one key.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Turns(Generic[K]):
    """Ready keys, each with the moment since when it is. Guarded by the lock of its owner."""

    def __init__(self, group: Callable[[K], Hashable]) -> None:
        self._group = group
        # NOT PLAIN DICTS: taking the first of those costs more each time.
        self._groups: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()
        """The group that is next comes first; none is empty."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: K) -> bool:
        return key in self._groups.get(self._group(key), ())

    def add(self, key: K, since: float) -> None:
        """Add a key that is not there yet, behind all others of its group."""
        self._groups.setdefault(self._group(key), OrderedDict())[key] = since
        self._size += 1

    def put_back(self, key: K, since: float) -> None:
        """Add a key that was taken, before all others of its group."""
        self.add(key, since)
        self._groups[self._group(key)].move_to_end(key, last=False)

    def crowd(self) -> K:
        """Return the key that was added last to the group that has the most."""
        largest = max(self._groups.values(), key=len)
        return next(reversed(largest))

    def remove(self, key: K) -> float:
        """Take a key out of its turn; return since when it was ready."""
        group = self._group(key)
        since = self._groups[group].pop(key)
        self._size -= 1
        if not self._groups[group]:
            del self._groups[group]
        return since

    def next(self, full: Container[Hashable] = ()) -> tuple[K, float] | None:
        """Return the next key of a group that is not `full`, with the moment since when it is ready; None if there is none."""
        for group, keys in self._groups.items():
            if group not in full:
                return next(iter(keys.items()))
        return None

    def take(self, key: K) -> None:
        """Take a key in its turn: its group is the last one now."""
        self.remove(key)
        if (group := self._group(key)) in self._groups:
            self._groups.move_to_end(group)

    def clear(self) -> None:
        """Drop all keys."""
        self._groups.clear()
        self._size = 0
