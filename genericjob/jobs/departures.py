"""Pods that were seen and are gone, or on their way.

The final object of a pod counts as seen even if a single moment lies between its end and its removal: otherwise a rank that has done its
work would run again. And a pod that vanished before it ended is no failure, but its rank must not be started again and again without a
pause. Kept until the stored status accounts for it, and bounded: a job that cannot be reconciled stores nothing.
"""

import logging
from collections import OrderedDict
from threading import Lock

from genericjob.api import ranges
from genericjob.api.names import ATTEMPT_ANNOTATION, EPOCH_ANNOTATION, FINAL_PHASES
from genericjob.api.status import GenericJobStatus, Task
from genericjob.reconcile.objects import Pod

from .ledger import Ledger
from .observe import FINISHED, number
from .restarts import says_nothing

log = logging.getLogger(__name__)

MOST = 50_000
"""Pods of all jobs, about 35 MB. A reconcile settles those of its job, so the oldest belong to jobs that
cannot be reconciled."""
MOST_PER_JOB = ranges.MOST
"""Pods of one job. It cannot have more ranks; other pods that name it as their owner are not worth remembering."""


class Departures:
    """What cannot be read from the cache any more, by the UID of the job."""

    def __init__(self, *, most: int = MOST, most_per_job: int = MOST_PER_JOB) -> None:
        self._lock = Lock()
        self._most, self._most_per_job = most, most_per_job
        self._by_owner: OrderedDict[str, dict[str, Pod]] = OrderedDict()
        """Pods by name, and their jobs in the order in which pods were last added."""
        self._size = 0

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed; to be called for every change, in order."""
        if old is None or not old.owner_uid:
            return
        gone = new is None or new.uid != old.uid
        asked_to_go = new is not None and new.deleted is not None and old.deleted is None
        if not gone and not (asked_to_go and has_ended(old)):
            return
        with self._lock:
            known = self._by_owner.get(old.owner_uid, {}).get(old.name)
            if known is None:
                self._add(old)
            elif known.uid != old.uid and (has_ended(old) or not has_ended(known)):
                # ONCE, AS IT WAS WHEN IT ENDED: what its kubelet wrote after that says nothing.
                self._by_owner[old.owner_uid][old.name] = old

    def _add(self, pod: Pod) -> None:
        pods = self._by_owner.setdefault(pod.owner_uid, {})
        if len(pods) >= self._most_per_job:
            return
        pods[pod.name] = pod
        self._by_owner.move_to_end(pod.owner_uid)
        self._size += 1
        while self._size > self._most:
            uid, dropped = self._by_owner.popitem(last=False)
            self._size -= len(dropped)
            log.warning("%d deleted pods of the job with UID %s are forgotten although no status accounts for them", len(dropped), uid)

    def __len__(self) -> int:
        """Return the number of jobs that have such pods."""
        return len(self._by_owner)

    @property
    def size(self) -> int:
        """The number of pods of all jobs."""
        return self._size

    def of(self, owner_uid: str) -> tuple[Pod, ...]:
        """Pods of a job that are gone, or have ended and are going."""
        found = self._by_owner.get(owner_uid)
        if not found:
            return ()
        with self._lock:
            return tuple(found.values())

    def get(self, owner_uid: str, name: str) -> Pod | None:
        """Return one of them, as it is remembered."""
        with self._lock:
            return self._by_owner.get(owner_uid, {}).get(name)

    def settle(self, owner_uid: str, pods: frozenset[str]) -> None:
        """The status accounts for these, by UID."""
        with self._lock:
            found = self._by_owner.get(owner_uid, {})
            for name in [name for name, pod in found.items() if pod.uid in pods]:
                del found[name]
                self._size -= 1
            if not found:
                self._by_owner.pop(owner_uid, None)

    def forget(self, owner_uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._size -= len(self._by_owner.pop(owner_uid, ()))


class Accounts:
    """What a stored status says about pods of its job that are gone.

    Statuses only add to what they account for, so a status that is not the newest may be asked as well.
    """

    def __init__(self, job: str, status: GenericJobStatus) -> None:
        self._epoch, self._ended = status.epoch, status.phase in FINAL_PHASES
        # THE OUTCOMES THAT A PAUSE STILL SHOWS are those of the epoch before it.
        self._tasks = {f"{job}-{task.type}": _Account(task) for task in status.tasks} if status.pause_time is None else {}

    def cover(self, pod: Pod) -> bool:
        """Return whether nothing about the pod is still to be stored."""
        epoch = number(pod, EPOCH_ANNOTATION)
        if epoch != self._epoch:
            return epoch < self._epoch
        if self._ended and (not has_ended(pod) or says_nothing(pod)):
            return True
        stem, _, rank = pod.name.rpartition("-")
        account = self._tasks.get(stem)
        return account is not None and rank.isdecimal() and account.covers(int(rank), number(pod, ATTEMPT_ANNOTATION))


class _Account:
    """The same for one type."""

    def __init__(self, task: Task) -> None:
        self._outcomes = ranges.parse(task.succeeded_ranks), ranges.parse(task.failed_ranks)
        self._ledger = Ledger.of(task, ranges.MOST)

    def covers(self, rank: int, attempt: int) -> bool:
        """Return whether the rank has an outcome, or a later attempt."""
        return any(rank in ranks for ranks in self._outcomes) or attempt < self._ledger.attempt(rank)


def has_ended(pod: Pod) -> bool:
    """Return whether a pod ended before it was asked to go."""
    return pod.phase in FINISHED and pod.deleted is None
