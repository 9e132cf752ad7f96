"""Pods that were seen and are gone, or on their way.

The final object of a pod counts as seen even if a single moment lies between its end and its removal: otherwise a rank that has done its
work would run again. And a pod that vanished before it ended is no failure, but its rank must not be started again and again without a
pause. Kept until the stored status accounts for it, and bounded: a job that cannot be reconciled stores nothing.

The bound is one for all jobs, and users decide how many pods are deleted. So whoever has the most of them pays: of all namespaces the
heaviest one loses the pods of its heaviest jobs, and what others wait to have stored stays.
"""

import logging
from collections import Counter
from itertools import chain
from threading import Lock

from genericjob.api import ranges
from genericjob.api.names import ATTEMPT_ANNOTATION, EPOCH_ANNOTATION, FINAL_PHASES
from genericjob.api.status import GenericJobStatus, Task
from genericjob.reconcile.objects import Condition, Container, Pod

from .ledger import Ledger
from .observe import FINISHED, number
from .restarts import says_nothing

log = logging.getLogger(__name__)

MOST = 80 * 10**6
"""Bytes of all pods: 50,000 usual ones. A reconcile settles those of its job, so nearly all belong to jobs that cannot be reconciled."""
ROOM = MOST // 16
"""Bytes that are made free when there are too many, so that the search for the heaviest is rare."""
MOST_PER_JOB = ranges.MOST
"""Pods of one job. It cannot have more ranks; other pods that name it as their owner are not worth remembering."""


class Departures:
    """What cannot be read from the cache any more, by the UID of the job."""

    def __init__(self, *, most: int = MOST, room: int = ROOM, most_per_job: int = MOST_PER_JOB) -> None:
        """`most` is the weight of all that is kept, in bytes, and `room` what is made free when that is exceeded."""
        self._lock = Lock()
        self._most, self._room, self._most_per_job = most, room, most_per_job
        self._by_owner: dict[str, _Departed] = {}
        self._weight = 0

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """A pod has changed; to be called for every change, in order."""
        if old is None or not old.owner_uid:
            return
        gone = new is None or new.uid != old.uid
        asked_to_go = new is not None and new.deleted is not None and old.deleted is None
        if not gone and not (asked_to_go and has_ended(old)):
            return
        with self._lock:
            known = self._known(old.owner_uid, old.name)
            if known is None:
                self._add(old)
            elif known.uid != old.uid and (has_ended(old) or not has_ended(known)):
                # ONCE, AS IT WAS WHEN IT ENDED: what its kubelet wrote after that says nothing.
                self._remove(old.owner_uid, old.name)
                self._add(old)

    def _known(self, owner_uid: str, name: str) -> Pod | None:
        found = self._by_owner.get(owner_uid)
        return found.pods.get(name) if found else None

    def _add(self, pod: Pod) -> None:
        found = self._by_owner.get(pod.owner_uid)
        if found is None:
            found = self._by_owner[pod.owner_uid] = _Departed(pod.namespace)
        if len(found.pods) >= self._most_per_job:
            return
        found.pods[pod.name] = pod
        added = weight(pod)
        found.weight += added
        self._weight += added
        if self._weight > self._most:
            while self._weight > self._most - self._room:
                self._make_room()

    def _make_room(self) -> None:
        """Forget pods of the namespace that has the most, those of its heaviest jobs first."""
        weights: Counter[str] = Counter()
        for found in self._by_owner.values():
            weights[found.namespace] += found.weight
        (namespace, _), *_ = weights.most_common(1)
        owners = [(found.weight, uid) for uid, found in self._by_owner.items() if found.namespace == namespace]
        jobs = pods = 0
        for _, uid in sorted(owners, reverse=True):
            if self._weight <= self._most - self._room:
                break
            jobs, pods = jobs + 1, pods + len(self._by_owner[uid].pods)
            self._drop(uid)
        log.warning(
            "%d deleted pods of %d jobs in namespace %s are forgotten although no status accounts for them: their ranks may run again",
            *(pods, jobs, namespace),
        )

    def _remove(self, owner_uid: str, name: str) -> None:
        found = self._by_owner[owner_uid]
        removed = weight(found.pods.pop(name))
        found.weight -= removed
        self._weight -= removed

    def _drop(self, owner_uid: str) -> None:
        if (found := self._by_owner.pop(owner_uid, None)) is not None:
            self._weight -= found.weight

    def __len__(self) -> int:
        """Return the number of jobs that have such pods."""
        return len(self._by_owner)

    @property
    def size(self) -> int:
        """The number of pods of all jobs."""
        with self._lock:
            return sum(len(found.pods) for found in self._by_owner.values())

    @property
    def weight(self) -> int:
        """The bytes that all of them take, as they are weighed."""
        return self._weight

    def of(self, owner_uid: str) -> tuple[Pod, ...]:
        """Pods of a job that are gone, or have ended and are going."""
        found = self._by_owner.get(owner_uid)
        if found is None:
            return ()
        with self._lock:
            return tuple(found.pods.values())

    def get(self, owner_uid: str, name: str) -> Pod | None:
        """Return one of them, as it is remembered."""
        with self._lock:
            return self._known(owner_uid, name)

    def settle(self, owner_uid: str, pods: frozenset[str]) -> None:
        """The status accounts for these, by UID."""
        with self._lock:
            found = self._by_owner.get(owner_uid)
            if found is None:
                return
            for name in [name for name, pod in found.pods.items() if pod.uid in pods]:
                self._remove(owner_uid, name)
            if not found.pods:
                self._drop(owner_uid)

    def forget(self, owner_uid: str) -> None:
        """The job is gone."""
        with self._lock:
            self._drop(owner_uid)


class _Departed:
    """Pods of one job, by name."""

    __slots__ = ("namespace", "pods", "weight")

    def __init__(self, namespace: str) -> None:
        self.namespace, self.pods, self.weight = namespace, dict[str, Pod](), 0


PER_POD, PER_PART, PER_TEXT, PER_CHARACTER = 1_000, 100, 80, 4
"""Bytes in memory. A part is a container or a condition; those that many pods have in common take less."""


def weight(pod: Pod) -> int:
    """Return the bytes that a pod takes; users decide how many containers it has and what these say at their end."""
    parts: chain[Condition | Container] = chain(pod.conditions, pod.containers, pod.init_containers)
    texts = [len(part.message) for part in parts]
    return PER_POD + PER_PART * len(texts) + sum(PER_TEXT + PER_CHARACTER * length for length in texts if length)


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
