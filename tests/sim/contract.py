"""The contract, checked at every write of a controller. The numbers are those of its clauses in `docs/contract.md`.

The judge knows what the server has at that moment and what nodes have reported: how pods really ended, and whether somebody had asked them
to go before that. Controllers have no part in that knowledge.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from genericjob.api import ranges
from genericjob.api.names import (
    ATTEMPT_ANNOTATION,
    COMPONENT,
    COMPONENT_LABEL,
    CONDITION_TYPES,
    DEBUG_ANNOTATION,
    EPOCH_ANNOTATION,
    FINAL_PHASES,
    Reason,
)
from genericjob.api.spec import GenericJobSpec, RestartPolicy, parse
from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.jobs.resource import JOBS, StoredJob, read_status
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import SERVICES, Key
from sim.node import PODS
from sim.world import OWNED

ENDED = ("Succeeded", "Failed")


class Try(NamedTuple):
    """One try of a rank: what a pod is made for."""

    owner: str
    name: str
    epoch: int
    attempt: int


class Contract:
    """Looks at every write before it takes effect, with what the server knows at that moment."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api
        self.one_leads = True
        """Whether there is one controller at a time. One that does not know what another has done may do too much, but never harm."""
        self._ends: dict[Try, list[Pod]] = {}
        """Pods that ended while nobody had asked them to."""
        self._said: dict[tuple[str, str], GenericJobStatus] = {}
        """The last status that a controller stored, by its name and the job's UID."""
        self._deleted: set[tuple[str, str]] = set()
        """Jobs that a controller has deleted, by its name and their UIDs."""

    # -------------------------------------------------------------------------------------------- nodes

    def begins(self, pod: Pod) -> None:
        """A pod is about to run."""
        job = self._job(pod.owner_uid)
        if job is None:
            return
        status = read_status(job)
        for task in status.tasks:
            names = {f"{job.name}-{task.type}-{rank}" for rank in ended(task)}
            assert pod.name not in names or epoch(pod) < status.epoch or not self.one_leads, f"3: {pod.name} has ended before"

    def ended(self, pod: Pod) -> None:
        """A pod may have ended; its node has said so. If somebody had asked it to that means nothing."""
        if pod.deleted is None and pod.phase in ENDED:
            self._ends.setdefault(Try(pod.owner_uid, pod.name, epoch(pod), attempt(pod)), []).append(pod)

    # -------------------------------------------------------------------------------------------- a controller's writes

    def look_at(self, call: Call, who: str) -> None:
        """A controller's write is about to take effect."""
        body = msgspec.json.decode(call.body) if isinstance(call.body, bytes) else call.body
        if call.verb == "create" and call.resource.plural in OWNED:
            self._creates(body, call.resource.plural, who)
        elif call.verb == "replace_status":
            self._stores(call.key, msgspec.to_builtins(body))
        elif call.verb == "delete":
            self._deletes(call, body)
            assert (who, body["uid"]) not in self._deleted, f"7: {call.key} is deleted again"

    def stored(self, call: Call, who: str) -> None:
        """A controller knows that its status was stored."""
        body = msgspec.json.decode(call.body)
        self._said[who, body["metadata"]["uid"]] = _written(body["status"])

    def deleted(self, call: Call, who: str) -> None:
        """A controller knows that it has deleted a job."""
        self._deleted.add((who, call.body["uid"]))

    def takes_over(self, who: str) -> None:
        """A controller begins to lead: what is stored by now it must find out before it acts."""
        self._said |= {(who, job.uid): read_status(job) for job in self._api.list(JOBS).items}

    def unknown(self, call: Call, who: str) -> None:
        """A controller knows that its status was not stored, or does not know whether it was: it has to look."""
        self._said.pop((who, msgspec.json.decode(call.body)["metadata"]["uid"]), None)

    def _creates(self, body: dict[str, Any], plural: str, who: str) -> None:
        meta = body["metadata"]
        (owner,) = meta["ownerReferences"]
        assert owner["controller"] is True, "2: everything carries a controller reference"
        assert owner["uid"], "2: the reference names the UID"
        assert meta["labels"][COMPONENT_LABEL] == COMPONENT, "2: everything carries our label"
        if plural != "pods":
            return
        job = self._job(owner["uid"])
        if job is not None:
            status, rank = read_status(job), rank_of(job, meta["name"])
            known, said = attempts(status).get(rank, 0), self._said.get((who, owner["uid"]), GenericJobStatus())
            assert said.phase not in FINAL_PHASES, f"5: {meta['name']} is created after the end"
            paused = said.pause_time is not None and said.pause_time == status.pause_time
            assert not paused, f"5: {meta['name']} is created while the job is paused"
            assert int(meta["annotations"][EPOCH_ANNOTATION]) <= status.epoch, "an epoch is stored before its pods are created"
            stored = int(meta["annotations"][ATTEMPT_ANNOTATION]) <= known
            assert stored or self._is_late(meta), "4: a restart is stored before its pod is created"
            self._together(job, meta)
            if self.one_leads:
                self._not_alone(job, status, rank, meta)

    def _together(self, job: StoredJob, meta: dict[str, Any]) -> None:
        """None of an epoch comes before all of the one before are gone, and none before its group."""
        if self.one_leads:
            begun = int(meta["annotations"][EPOCH_ANNOTATION])
            pods = [pod for pod in self._api.list(PODS).items if pod.owner_uid == job.uid and not self._came_late(pod)]
            old = [pod.name for pod in pods if epoch(pod) < begun and not self._is_blind_to(pod)]
            assert not old, f"5: {meta['name']} is of epoch {begun}, and {old} are still there"
        spec = parse(msgspec.json.decode(job.spec))
        if spec.scheduler and spec.scheduler.t9k_scheduler and job.deleted is None:  # or the collector has taken the group
            assert self._found(POD_GROUPS, Key(job.namespace, job.name)), f"{meta['name']} comes before its group"

    def _is_late(self, meta: dict[str, Any]) -> bool:
        """Whether a write that makes a pod was not expected any more: even its rank may be gone."""
        return False

    def _is_blind_to(self, pod: Pod) -> bool:
        """Whether controllers could not read whose pod it is. One that begins then cannot know of it."""
        return False

    def _came_late(self, pod: Pod) -> bool:
        """Whether a pod was made by a write that arrived late: nobody could know of it."""
        return False

    def _not_alone(self, job: StoredJob, status: GenericJobStatus, rank: tuple[str, int], meta: dict[str, Any]) -> None:
        """Who is missing from a gang that ran has taken all others along; unless it was debugged, or was no gang when it went."""
        spec = parse(msgspec.json.decode(job.spec))
        replicas = spec.replicas(rank[0])
        gang = replicas is not None and replicas.restart_policy.scope == "Job" and not spec.debugged
        assert not (gang and status.phase == "Running" and not attempts(status).get(rank)), f"{meta['name']} is started again alone"

    def _deletes(self, call: Call, preconditions: Mapping[str, Any]) -> None:
        assert preconditions["uid"], f"2: {call.key} is deleted whoever it is"
        assert preconditions["resource_version"], f"2: {call.key} is deleted whatever has become of it"
        assert preconditions["grace"] is None, f"1: {call.key} is deleted by force"
        assert call.resource.plural in ("pods", "services", "genericjobs"), f"{call.resource.plural} are never deleted"
        resource = {"pods": PODS, "services": SERVICES, "genericjobs": JOBS}[call.resource.plural]
        found = self._found(resource, call.key)
        if found is None or (found.uid, found.resource_version) != (preconditions["uid"], preconditions["resource_version"]):
            return  # it will be refused
        if resource is JOBS:
            self._expires(found)
        elif resource is SERVICES:
            assert self._job(found.owner_uid) is not None, f"2: {call.key} is nobody's"
        else:
            self._removes(call.key, found.uid)

    def _removes(self, key: Key, uid: str) -> None:
        """COMMIT BEFORE DELETE: how a pod ended is stored, or does not matter any more, before the pod goes."""
        pod = self._found(PODS, key)
        if pod is None or pod.uid != uid:
            return
        job = self._job(pod.owner_uid)
        assert job is not None, f"2: {key} is nobody's"
        status, rank = read_status(job), rank_of(job, pod.name)
        settled = (
            epoch(pod) < status.epoch
            or status.phase in FINAL_PHASES
            or attempt(pod) < attempts(status).get(rank, 0)
            or any(rank in _ranks(task) for task in status.tasks)
        )
        assert settled or pod.phase not in ENDED or pod.deleted is not None, f"3: {key} ended, that is not stored, and it is deleted"
        if self.one_leads:
            assert settled or pod.deleted is not None, f"{key} runs, is of use, and is deleted"

    def _expires(self, job: StoredJob) -> None:
        assert read_status(job).phase in FINAL_PHASES, f"5: {job.name} is deleted before its end"
        assert parse(msgspec.json.decode(job.spec)).ttl_seconds_after_finished is not None, f"{job.name} was to be kept"

    # -------------------------------------------------------------------------------------------- a status

    def _stores(self, key: Key, body: dict[str, Any]) -> None:
        new = _written(body["status"])
        job = self._found(JOBS, key)
        if job is None or job.resource_version != body["metadata"]["resourceVersion"]:
            return  # it will be refused
        before = _of_others(msgspec.json.decode(job.status or b"{}"))
        assert _of_others(body["status"]) == before, "6: conditions of other writers stay as they are"
        old = read_status(job)
        times = {condition.type: condition for condition in old.conditions}
        for condition in new.conditions:
            known = times.get(condition.type)
            if known and known.status == condition.status:
                assert condition.last_transition_time == known.last_transition_time, "6: times change with the status only"
        if old.phase in FINAL_PHASES:
            assert new.phase == old.phase, "5: a terminal phase is final"
        for field in ("epoch", "resumes", "job_restarts", "paused_seconds"):
            assert getattr(new, field) >= getattr(old, field), f"4: {field} never falls"
        if new.aggregate is None or _refuses(old, new):  # of a spec that cannot be read nothing is counted, and nothing changes
            return
        spec = parse(msgspec.json.decode(job.spec))
        assert sum(msgspec.structs.astuple(new.aggregate)) == spec.total, "6: counts sum to the total"
        if new.phase == "Paused" and self.one_leads:
            pods = [pod for pod in self._api.list(PODS).items if pod.owner_uid == job.uid]
            left = [pod.name for pod in pods if not (self._came_late(pod) or self._is_blind_to(pod))]
            assert not left, f"5: the job is said to be paused, and {left} are still there"
        self._keeps_outcomes(spec, old, new)
        self._charges(job, spec, old, new)
        self._finds_outcomes(job, old, new)

    def _keeps_outcomes(self, spec: GenericJobSpec, old: GenericJobStatus, new: GenericJobStatus) -> None:
        if new.epoch > old.epoch or (old.pause_time is not None and new.pause_time is None):
            return
        now = {task.type: task for task in new.tasks}
        for task in old.tasks:
            replicas = spec.replicas(task.type)
            there = frozenset(range(replicas.replicas if replicas else 0))
            kept = now.get(task.type, Task(task.type))
            assert ranges.parse(task.succeeded_ranks) & there <= ranges.parse(kept.succeeded_ranks), "3: a stored outcome stays"
            assert ranges.parse(task.failed_ranks) & there <= ranges.parse(kept.failed_ranks), "3: a stored outcome stays"

    def _finds_outcomes(self, job: StoredJob, old: GenericJobStatus, new: GenericJobStatus) -> None:
        """A new outcome is that of a pod of this try, which ended so before anybody asked it to go."""
        before, tries = {task.type: task for task in old.tasks}, attempts(old)
        for task in new.tasks:
            known = before.get(task.type, Task(task.type))
            for phase, text, was in (
                ("Succeeded", task.succeeded_ranks, known.succeeded_ranks),
                ("Failed", task.failed_ranks, known.failed_ranks),
            ):
                for number in ranges.parse(text) - ranges.parse(was):
                    name = f"{job.name}-{task.type}-{number}"
                    found = self._ends.get(Try(job.uid, name, old.epoch, tries.get((task.type, number), 0)), [])
                    assert any(pod.phase == phase for pod in found), f"3: {name} has not {phase.lower()}"

    def _charges(self, job: StoredJob, spec: GenericJobSpec, old: GenericJobStatus, new: GenericJobStatus) -> None:
        """A restart is charged for an end that deserves it, one at a time, and never beyond the limit."""
        were, are, tried, tries = charges(old), charges(new), attempts(old), attempts(new)
        for part in spec.replica_specs:
            for number in range(part.replicas):
                rank, policy = (part.type, number), part.restart_policy
                name = f"{job.name}-{part.type}-{number}"
                was, now = were.get(rank, 0), are.get(rank, 0)
                assert 0 <= tries.get(rank, 0) - tried.get(rank, 0) <= 1, (
                    f"4: {name} had {tried.get(rank, 0)} tries, now {tries.get(rank, 0)}"
                )
                assert 0 <= now - was <= 1, f"4: {name} was charged with {was} restarts, now with {now}"
                if now > was:
                    assert policy.most is None or now <= policy.most, f"4: {name} is charged with {now} restarts of {policy.most}"
                    ends = self._ends.get(Try(job.uid, name, old.epoch, tried.get(rank, 0)), [])
                    assert any(_deserves(pod, policy) for pod in ends), f"4: {name} is charged for nothing"
        if new.job_restarts > old.job_restarts:
            limits = [part.restart_policy.most for part in spec.replica_specs if part.restart_policy.scope == "Job"]
            assert new.job_restarts == old.job_restarts + 1, "4: one restart of the job at a time"
            assert new.epoch > old.epoch, "4: a restart of the whole job begins an epoch"
            assert new.job_restarts <= max(limit or 0 for limit in limits), f"4: the job is charged with {new.job_restarts} restarts"

    # -------------------------------------------------------------------------------------------- looking things up

    def _job(self, uid: str) -> StoredJob | None:
        return next((job for job in self._api.list(JOBS).items if job.uid == uid), None)

    def _found(self, resource: Any, key: Key) -> Any:
        try:
            return self._api.get(resource, key)
        except ApiError:
            return None


def _refuses(old: GenericJobStatus, new: GenericJobStatus) -> bool:
    """Whether a status says that the spec cannot be read, and is otherwise the one before."""
    refused = any((found.type, found.reason) == ("Initialized", Reason.INVALID_SPEC) for found in new.conditions)
    same = msgspec.structs.replace(new, conditions=old.conditions, observed_generation=old.observed_generation) == old
    return refused and same


def _written(status: dict[str, Any]) -> GenericJobStatus:
    """What a controller writes of its own."""
    others = _of_others(status)
    own = [found for found in status.get("conditions", ()) if found not in others]
    return msgspec.convert({**status, "conditions": own}, GenericJobStatus)


def _of_others(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Conditions of other writers, as they are."""
    return [found for found in status.get("conditions", ()) if found["type"] not in (*CONDITION_TYPES, "Initializing")]


def _deserves(pod: Pod, policy: RestartPolicy) -> bool:
    """Whether the end of a pod is charged when its rank is started again."""
    if pod.annotations.get(DEBUG_ANNOTATION) == "true":
        return False
    if pod.phase == "Succeeded":
        return policy.policy == "Always"
    codes = {found.exit_code for found in pod.containers if found.exit_code}
    return not disrupted(pod) and not (codes and codes <= set(policy.exit_codes.not_charged))


def disrupted(pod: Pod) -> bool:
    """Whether it was taken away for the sake of others."""
    return any(found.type == "DisruptionTarget" and found.status == "True" for found in pod.conditions)


def epoch(pod: Pod) -> int:
    """Which run of its job a pod belongs to."""
    return int(pod.annotations.get(EPOCH_ANNOTATION, "0"))


def attempt(pod: Pod) -> int:
    """Which try of its rank a pod is."""
    return int(pod.annotations.get(ATTEMPT_ANNOTATION, "0"))


def rank_of(job: StoredJob, name: str) -> tuple[str, int]:
    """Type and number of the rank whose pod has this name."""
    type, _, number = name.removeprefix(f"{job.name}-").rpartition("-")
    return type, int(number)


def ended(task: Task) -> frozenset[int]:
    """Ranks with an outcome."""
    return ranges.parse(task.succeeded_ranks) | ranges.parse(task.failed_ranks)


def charges(status: GenericJobStatus) -> dict[tuple[str, int], int]:
    """How many restarts each rank was charged with."""
    return {rank: count for task in status.tasks for rank, count in _by_rank(task, task.charged_restarts)}


def attempts(status: GenericJobStatus) -> dict[tuple[str, int], int]:
    """How often each rank was started again, for whatever reason."""
    found = charges(status)
    for task in status.tasks:
        for rank, count in _by_rank(task, task.uncharged_restarts):
            found[rank] = found.get(rank, 0) + count
    return found


def _by_rank(task: Task, counts: Mapping[str, str]) -> Iterator[tuple[tuple[str, int], int]]:
    return (((task.type, rank), int(count)) for count, text in counts.items() for rank in ranges.parse(text))


def _ranks(task: Task) -> Iterator[tuple[str, int]]:
    return ((task.type, rank) for rank in ended(task))
