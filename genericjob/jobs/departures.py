"""Ends that were seen and whose pods have been deleted since.

The final object of a pod counts as seen even if a single moment lies between its end and its removal: otherwise a rank that has done its
work would run again. Kept until the outcome is stored in status.
"""

from threading import Lock

from genericjob.reconcile.objects import Pod

from .observe import outcome


class Departures:
    """What cannot be read from the cache any more, by the UID of the job."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_owner: dict[str, dict[str, Pod]] = {}

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed; to be called for every change, in order."""
        if old is None or not old.owner_uid or outcome(old) is None or (new is not None and new.uid == old.uid and new.deleted is None):
            return
        with self._lock:
            self._by_owner.setdefault(old.owner_uid, {})[old.name] = old

    def __len__(self) -> int:
        """How many jobs have such pods."""
        return len(self._by_owner)

    def of(self, owner_uid: str) -> tuple[Pod, ...]:
        """Pods of a job that have ended and gone."""
        found = self._by_owner.get(owner_uid)
        if not found:
            return ()
        with self._lock:
            return tuple(found.values())

    def settle(self, owner_uid: str, names: frozenset[str]) -> None:
        """The outcomes of these are stored."""
        with self._lock:
            left = {name: pod for name, pod in self._by_owner.get(owner_uid, {}).items() if name not in names}
            if left:
                self._by_owner[owner_uid] = left
            else:
                self._by_owner.pop(owner_uid, None)

    def forget(self, owner_uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._by_owner.pop(owner_uid, None)
