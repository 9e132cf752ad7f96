"""What the server saw of pods, and the contract and the model asked about every write."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from genericjob.api import ranges
from genericjob.api.names import ATTEMPT_ANNOTATION, DEBUG_ANNOTATION, EPOCH_ANNOTATION, FINAL_PHASES, Reason
from genericjob.api.spec import parse
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.resource import JOBS, StoredJob, read_status
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.codec import encode
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import Key
from sim.chance.facts import Change, End, Past, Side, Try
from sim.chance.model import complaints
from sim.contract import ENDED, Contract, attempt, attempts, disrupted, ended, epoch, rank_of
from sim.jobs import NAMESPACE
from sim.node import PODS


class Oracle(Contract):
    """The contract, and beside it the model. Reads the server's own log of pods, with which nobody can interfere."""

    def __init__(self, api: MemoryApi, now: Callable[[], datetime]) -> None:
        super().__init__(api)
        self._now = now
        self.past = Past()
        self.judged = 0
        """How many statuses the model was asked about."""
        self.skew = 0.0
        """Seconds by which clocks of controllers have differed, at most."""
        self._wishes: dict[str, set[str]] = {}
        """Clean-up policies that a job has, or had, by its UID: a controller may not have heard of the last one yet."""
        self._late: set[Try] = set()
        """Tries whose pods may still be made by a write that nobody expects any more."""
        self._hidden: set[str] = set()
        """UIDs of the pods whose owners controllers could not read, at some time."""
        self._begin()

    def _begin(self) -> None:
        here: dict[str, Any] = {"resource_version": self._api.resource_version, "timeout": 10**9, "bookmarks": False}
        self._pods, self._jobs = self._api.watch(PODS, **here), self._api.watch(JOBS, **here)

    def cut(self, *, forget: bool = False) -> None:
        """All watches end, and perhaps the server forgets the past. This one reads it before."""
        self.read()
        self._api.cut_watches()
        if forget:
            self._api.compact()
        self._begin()

    def read(self) -> None:
        """Read the logs to their ends."""
        for event in self._pods.ready():
            if event.object is not None:
                self._note(event.object, gone=event.type == "DELETED")
        for change in self._jobs.ready():
            if change.object is not None:
                policy = msgspec.json.decode(change.object.spec).get("cleanUpPolicy", "None")
                self._wishes.setdefault(change.object.uid, set()).add(policy)

    def hide(self, name: str, *, entirely: bool) -> None:
        """A pod cannot be decoded any more. Who begins to lead then takes one whose owner cannot be read for one that is gone."""
        self.past.unreadable = True
        pod = self._found(PODS, Key(NAMESPACE, name))
        if entirely and pod is not None:
            self._hidden.add(pod.uid)
            self.past.gone.add(Try(pod.owner_uid, pod.name, epoch(pod), attempt(pod)))

    def expect(self, call: Call) -> None:
        """A write arrives that nobody expects any more. Its rank may have ended meanwhile, and now it runs once more."""
        if call.verb == "create" and call.resource.plural == "pods":
            self._late.add(_try(msgspec.json.decode(encode(call.body))["metadata"]))

    def begins(self, pod: Pod) -> None:
        """A pod is about to run."""
        if not self._came_late(pod):
            super().begins(pod)

    def look_at(self, call: Call, who: str) -> None:
        """A controller's write is about to take effect."""
        super().look_at(call, who)
        if call.verb == "replace_status":
            self._judge(call, msgspec.json.decode(call.body))

    def _creates(self, body: dict[str, Any], plural: str, who: str) -> None:
        super()._creates(body, plural, who)
        (owner,) = body["metadata"]["ownerReferences"]
        job = self._job(owner["uid"]) if plural == "pods" else None
        if job is None:
            return
        side, rank = Side(msgspec.json.decode(job.status or b"{}") or {}), rank_of(job, body["metadata"]["name"])
        last, row = side.last(rank), side.in_a_row(rank)
        if last is not None and row > 1 and int(body["metadata"]["annotations"][ATTEMPT_ANNOTATION]) == side.attempt(rank):
            early = (last + timedelta(seconds=min(300.0, 2.0 ** (row - 2))) - self._now()).total_seconds()
            assert early <= self.skew, f"{rank} is started {early} s too early, {row} times in a row by now"

    def _came_late(self, pod: Pod) -> bool:
        return Try(pod.owner_uid, pod.name, epoch(pod), attempt(pod)) in self._late

    def _is_blind_to(self, pod: Pod) -> bool:
        return pod.uid in self._hidden

    def _is_late(self, meta: dict[str, Any]) -> bool:
        return _try(meta) in self._late

    def _not_alone(self, job: StoredJob, status: GenericJobStatus, rank: tuple[str, int], meta: dict[str, Any]) -> None:
        if not self._is_late(meta):
            super()._not_alone(job, status, rank, meta)

    def _removes(self, key: Key, uid: str) -> None:
        super()._removes(key, uid)
        self.read()
        pod = self._found(PODS, key)
        job = self._job(pod.owner_uid)
        if job is not None and pod.deleted is None:
            self._cleans_up(job, pod)

    def _cleans_up(self, job: StoredJob, pod: Pod) -> None:
        """After the end a pod of the present goes if the policy says so, or if it is late: its rank had none, or it runs and had ended.

        One that nobody could read counted as gone, and is as late when it can be read again.
        """
        status, rank = read_status(job), rank_of(job, pod.name)
        if status.phase not in FINAL_PHASES or epoch(pod) < status.epoch or attempt(pod) < attempts(status).get(rank, 0):
            return
        (task,) = (task for task in status.tasks if task.type == rank[0])
        running, wishes = pod.phase not in ENDED, self._wishes[job.uid]
        exceeded = any(each.reason == Reason.DEADLINE_EXCEEDED for each in status.conditions)
        asked = "All" in wishes or (running and ("Unfinished" in wishes or exceeded))
        late = rank[1] in ranges.parse(task.absent_ranks) or (running and rank[1] in ended(task))
        assert asked or late or self._came_late(pod) or self._is_blind_to(pod), f"{pod.name} is cleaned up, and nobody wanted it"

    def _expires(self, job: StoredJob) -> None:
        super()._expires(job)
        ended_at, ttl = read_status(job).completion_time, parse(msgspec.json.decode(job.spec)).ttl_seconds_after_finished
        assert ended_at is not None, f"{job.name} expires without an end"
        early = (ended_at + timedelta(seconds=ttl or 0) - self._now()).total_seconds()
        assert early <= self.skew, f"{job.name} expires {early} s too early"

    def _judge(self, call: Call, body: dict[str, Any]) -> None:
        assert body["metadata"].get("resourceVersion"), "a status is stored over the version that was read"
        job = self._found(JOBS, call.key)
        if job is None or job.resource_version != body["metadata"]["resourceVersion"]:
            return  # it will be refused
        self.read()
        self.judged += 1
        old = msgspec.json.decode(job.status) if job.status else {}
        change = Change(job.uid, job.name, msgspec.json.decode(job.spec), Side(old or {}), Side(body["status"]), self.past)
        for complaint in complaints(change):
            raise AssertionError(f"model: {complaint}")

    def _note(self, pod: Pod, *, gone: bool) -> None:
        found = Try(pod.owner_uid, pod.name, epoch(pod), attempt(pod))
        self.past.owners.add(pod.owner_uid)
        if pod.phase in ENDED and pod.deleted is None:
            codes = frozenset(each.exit_code for each in pod.containers if each.exit_code)  # their programs have no others
            end = End(pod.phase, codes, disrupted(pod), pod.annotations.get(DEBUG_ANNOTATION) == "true")
            ends = self.past.ends.setdefault(found, [])
            if end not in ends:
                ends.append(end)
        if gone or pod.deleted is not None:
            self.past.gone.add(found)


def _try(meta: dict[str, Any]) -> Try:
    """What a pod is made for, by its metadata."""
    notes, (owner,) = meta["annotations"], meta["ownerReferences"]
    return Try(owner["uid"], meta["name"], int(notes[EPOCH_ANNOTATION]), int(notes[ATTEMPT_ANNOTATION]))
