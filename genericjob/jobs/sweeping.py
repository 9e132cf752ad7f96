"""What a process may forget of deleted pods although it does not reconcile their job.

A reconcile settles the departures of its job. A standby reconciles nothing, and a leader not the jobs
whose spec or status it cannot read, but both see pods being deleted. So they compare what they
remember with the statuses that are stored:

    a status is stored    all departures of that job
    a pod is deleted      that pod: the status that accounts for it may have come before

Either step first changes its own side and then reads the other one, so nothing is missed whichever
informer is ahead. A status is read only if its job has departures, and once per version.
"""

from threading import Lock

from cachetools import LRUCache

from genericjob.api.names import ATTEMPT_ANNOTATION, EPOCH_ANNOTATION, JOB_LABEL
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.resources import Key

from .departures import Accounts, Departures, has_ended
from .observe import number
from .resource import StoredJob, UnreadableStatusError, read_status

REMEMBERED = 16
"""Statuses whose accounts are kept: those of the jobs whose pods are just being deleted."""


class Sweeper:
    """Drops departures that a stored status accounts for."""

    def __init__(self, departures: Departures, *, jobs: Informer[StoredJob], pods: Informer[Pod]) -> None:
        self._departures, self._jobs, self._pods = departures, jobs, pods
        self._lock = Lock()
        self._read: LRUCache[str, tuple[str, Accounts | None]] = LRUCache(REMEMBERED)

    def job(self, stored: StoredJob) -> None:
        """Compare all departures of a job with its status."""
        departed = self._departures.of(stored.uid)
        if departed and (accounts := self._accounts(stored)):
            covered = frozenset(pod.uid for pod in departed if self._is_settled(pod, accounts))
            self._departures.settle(stored.uid, covered)

    def pod(self, gone: Pod) -> None:
        """Compare one departure with the status of its job."""
        stored = self._jobs.get(Key(gone.namespace, gone.labels.get(JOB_LABEL, "")))
        remembered = self._departures.get(gone.owner_uid, gone.name)
        if remembered is None or stored is None or stored.uid != gone.owner_uid:
            return
        if (accounts := self._accounts(stored)) and self._is_settled(remembered, accounts):
            self._departures.settle(stored.uid, frozenset((remembered.uid,)))

    def _is_settled(self, pod: Pod, accounts: Accounts) -> bool:
        there = self._pods.get(Key(pod.namespace, pod.name))
        if there is not None and there.uid == pod.uid:
            return False  # it is on its way, and would be remembered again when it is gone
        if there is not None and not has_ended(pod) and _marks(there) >= _marks(pod):
            return True  # it was replaced by a leader that did not see it go
        return accounts.cover(pod)

    def _accounts(self, stored: StoredJob) -> Accounts | None:
        with self._lock:
            version, accounts = self._read.get(stored.uid, ("", None))
        if version == stored.resource_version:
            return accounts
        try:
            accounts = None if stored.unreadable else Accounts(stored.name, read_status(stored))
        except UnreadableStatusError:
            accounts = None
        with self._lock:
            self._read[stored.uid] = stored.resource_version, accounts
        return accounts


def _marks(pod: Pod) -> tuple[int, int]:
    return number(pod, EPOCH_ANNOTATION), number(pod, ATTEMPT_ANNOTATION)
