"""Clauses 3, 4 and 5: what a stored status promises, and what is done after it.

A status is compared with the one that was stored before it, whoever stored that: what users with enough rights change is theirs to answer
for. A delete is compared with the status that was stored at that moment: commit before delete.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES, Rank
from genericjob.api.spec import GenericJobSpec, parse
from genericjob.api.status import GenericJobStatus, Task

from .entries import Entry, Thing
from .pods import Life, Pods
from .violations import Findings

_status = msgspec.json.Decoder(GenericJobStatus)


@dataclass
class Stored:
    """A job, as it is stored."""

    name: str
    spec: GenericJobSpec
    status: GenericJobStatus
    entry: Entry
    """Who wrote the status last."""

    def rank(self, pod: str) -> Rank:
        """Of a pod's name."""
        type, _, number = pod.removeprefix(f"{self.name}-").rpartition("-")
        return Rank(type, int(number) if number.isdigit() else -1)


class Jobs:
    """Every job, as far as the history was told."""

    def __init__(self, user: str, findings: Findings, pods: Pods) -> None:
        self._user, self._findings, self._pods = user, findings, pods
        self._jobs: dict[str, Stored] = {}
        self._past: dict[str, list[Stored]] = {}
        self._said: dict[tuple[str, str], tuple[GenericJobStatus, Entry]] = {}
        """The last status that a process stored of a job."""

    def tell(self, entry: Entry, thing: Thing) -> None:
        """The next write of a job."""
        uid, before = thing.metadata.uid, self._jobs.get(thing.metadata.uid)
        status = _status.decode(thing.status) if thing.status else GenericJobStatus()
        now = Stored(thing.metadata.name, _spec(bytes(thing.spec)), status, entry)
        if entry.user.username == self._user and entry.subresource == "status":
            if before is not None:
                self._follows(before, now)
                self._deserved(uid, before, now)
            self._said[entry.who, uid] = status, entry
        elif before is not None and before.status == status:
            now.entry = before.entry
        self._jobs[uid] = now
        self._past.setdefault(uid, []).append(now)

    def created(self, life: Life, entry: Entry) -> None:
        """A controller has made a pod. CLAUSES 3 AND 5: not of a rank that has ended, nor of a job that has ended or is paused."""
        job, name = self._jobs.get(life.owner), life.meta.name
        if job is None:
            return
        ended = {rank for task in job.status.tasks for rank in outcomes(task)}
        again = life.epoch == job.status.epoch and job.rank(name) in ended
        self._findings.unless(not again, 3, f"{name} runs again in epoch {life.epoch}, and its outcome is stored", job.entry, entry)
        if old := self._pods.left_over(life):
            what = f"{name} is of epoch {life.epoch}, and {old.meta.name} of epoch {old.epoch} is still there"
            self._findings.unless(False, 5, what, old.began, old.condemned, entry)
        said, when = self._said.get((entry.who, life.owner), (None, None))
        if said is None or when is None or entry.received < when.answered:
            return
        self._findings.unless(said.phase not in FINAL_PHASES, 5, f"{name} is created after the end of its job", when, entry)
        paused = said.pause_time is not None and said.pause_time == job.status.pause_time
        self._findings.unless(not paused, 5, f"{name} is created, and its job is paused", when, entry)

    def deleted(self, life: Life, entry: Entry) -> None:
        """A controller has deleted a pod. CLAUSE 4: how it ended is stored by now, or does not matter any more.

        By the time at which the delete came, not by its version: a server deletes in several steps, and others write in between.
        """
        job = next((each for each in reversed(self._past.get(life.owner, [])) if each.entry.answered <= entry.received), None)
        if job is None or (life.condemned is not None and life.condemned.received < entry.received):
            return
        status, rank = job.status, job.rank(life.meta.name)
        settled = (
            life.epoch < status.epoch
            or status.phase in FINAL_PHASES
            or life.attempt < attempts(status).get(rank, 0)
            or any(rank in outcomes(task) for task in status.tasks)
        )
        if life.ended is not None:
            what = f"{life.meta.name} ended, that is not stored, and it is deleted"
        else:
            what = f"{life.meta.name} has not ended, is of the present, and is deleted"
        self._findings.unless(settled, 4, what, life.began, life.ended, job.entry, entry)

    # -------------------------------------------------------------------------------------------- one status after the other

    def _follows(self, old: Stored, new: Stored) -> None:
        final = old.status.phase not in FINAL_PHASES or new.status.phase == old.status.phase
        what = f"{old.name} was {old.status.phase}, and becomes {new.status.phase}"
        self._findings.unless(final, 5, what, old.entry, new.entry)
        for field in ("epoch", "resumes", "job_restarts"):
            was, now = getattr(old.status, field), getattr(new.status, field)
            self._findings.unless(now >= was, 4, f"{old.name}: {field} falls from {was} to {now}", old.entry, new.entry)
        self._keeps_outcomes(old, new)
        self._charges(old, new)

    def _deserved(self, uid: str, old: Stored, new: Stored) -> None:
        """CLAUSE 4: what is charged for is the end of a pod of that try, of its own doing and before anybody asked it to go."""
        were, are, tried = charges(old.status), charges(new.status), attempts(old.status)
        blamed = [life for life in self._pods.of.get(uid, ()) if life.epoch == old.status.epoch and life.is_to_blame]
        by_try = {(old.rank(life.meta.name), life.attempt) for life in blamed}
        for rank in (rank for rank, count in are.items() if count > were.get(rank, 0)):
            what = f"{old.name}-{rank.type}-{rank.number} is charged for nothing"
            self._findings.unless((rank, tried.get(rank, 0)) in by_try, 4, what, old.entry, new.entry)
        if new.status.job_restarts > old.status.job_restarts:
            self._findings.unless(blamed, 4, f"{old.name} is charged with a restart of all for nothing", old.entry, new.entry)

    def _keeps_outcomes(self, old: Stored, new: Stored) -> None:
        resumed = old.status.pause_time is not None and new.status.pause_time is None
        if new.status.epoch > old.status.epoch or resumed:
            return
        there = {Rank(part.type, number) for part in new.spec.replica_specs for number in range(part.replicas)}
        for text in ("succeeded_ranks", "failed_ranks"):
            were, are = ({rank for task in job.status.tasks for rank in _ranks(task, getattr(task, text))} for job in (old, new))
            lost = (were & there) - are
            self._findings.unless(not lost, 3, f"{old.name}: {text} of {_some(lost)} are forgotten", old.entry, new.entry)

    def _charges(self, old: Stored, new: Stored) -> None:
        were, are, limits = charges(old.status), charges(new.status), {}
        for part in new.spec.replica_specs:
            limits[part.type] = part.restart_policy.most
            for number in range(part.replicas):
                rank = Rank(part.type, number)
                was, now = were.get(rank, 0), are.get(rank, 0)
                name = f"{old.name}-{part.type}-{number}"
                self._findings.unless(now >= was, 4, f"{name} was charged with {was} restarts, now with {now}", old.entry, new.entry)
                if now > was:
                    most = limits[part.type]
                    within = most is None or now <= most
                    self._findings.unless(within, 4, f"{name} is charged with {now} restarts of {most}", old.entry, new.entry)
        if new.status.job_restarts > old.status.job_restarts:
            most = max((part.restart_policy.most or 0 for part in new.spec.replica_specs if part.restart_policy.scope == "Job"), default=0)
            within = new.status.job_restarts <= most
            what = f"{old.name} is charged with {new.status.job_restarts} restarts of all, of {most}"
            self._findings.unless(within, 4, what, old.entry, new.entry)


# ------------------------------------------------------------------------------------------------ reading a status


def outcomes(task: Task) -> frozenset[Rank]:
    """Ranks that have ended."""
    return _ranks(task, task.succeeded_ranks) | _ranks(task, task.failed_ranks)


def charges(status: GenericJobStatus) -> dict[Rank, int]:
    """How many restarts each rank was charged with."""
    return dict(pair for task in status.tasks for pair in _by_rank(task, task.charged_restarts))


def attempts(status: GenericJobStatus) -> dict[Rank, int]:
    """How often each rank was started again, for whatever reason."""
    found = charges(status)
    for task in status.tasks:
        for rank, count in _by_rank(task, task.uncharged_restarts):
            found[rank] = found.get(rank, 0) + count
    return found


def _ranks(task: Task, text: str) -> frozenset[Rank]:
    return frozenset(Rank(task.type, number) for number in ranges.parse(text))


def _by_rank(task: Task, counts: Mapping[str, str]) -> Iterator[tuple[Rank, int]]:
    return ((rank, int(count)) for count, text in counts.items() for rank in _ranks(task, text))


def _some(found: set[Rank]) -> str:
    return ", ".join(f"{type}-{number}" for type, number in sorted(found)[:5])


@lru_cache(maxsize=256)
def _spec(text: bytes) -> GenericJobSpec:
    return parse(msgspec.json.decode(text))
