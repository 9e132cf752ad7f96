"""Pods that were seen and are gone, or on their way.

The final object of a pod counts as seen even if a single moment lies between its end and its removal: otherwise a rank that has done its
work would run again. And a pod that vanished before it ended is no failure, but its rank must not be started again and again without a
pause. Kept until the status accounts for it.
"""

from threading import Lock

from genericjob.reconcile.objects import Pod

from .observe import FINISHED


class Departures:
    """What cannot be read from the cache any more, by the UID of the job."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_owner: dict[str, dict[str, Pod]] = {}

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed; to be called for every change, in order."""
        if old is None or not old.owner_uid:
            return
        gone = new is None or new.uid != old.uid
        asked_to_go = new is not None and new.deleted is not None and old.deleted is None
        if not gone and not (asked_to_go and _ended(old)):
            return
        with self._lock:
            pods = self._by_owner.setdefault(old.owner_uid, {})
            known = pods.get(old.name)
            if known is None or (known.uid != old.uid and (_ended(old) or not _ended(known))):
                pods[old.name] = old  # ONCE, AS IT WAS WHEN IT ENDED: what its kubelet wrote after that says nothing

    def __len__(self) -> int:
        """How many jobs have such pods."""
        return len(self._by_owner)

    def of(self, owner_uid: str) -> tuple[Pod, ...]:
        """Pods of a job that are gone, or have ended and are going."""
        found = self._by_owner.get(owner_uid)
        if not found:
            return ()
        with self._lock:
            return tuple(found.values())

    def settle(self, owner_uid: str, pods: frozenset[str]) -> None:
        """The status accounts for these, by UID."""
        with self._lock:
            left = {name: pod for name, pod in self._by_owner.get(owner_uid, {}).items() if pod.uid not in pods}
            if left:
                self._by_owner[owner_uid] = left
            else:
                self._by_owner.pop(owner_uid, None)

    def forget(self, owner_uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._by_owner.pop(owner_uid, None)


def _ended(pod: Pod) -> bool:
    return pod.phase in FINISHED and pod.deleted is None
