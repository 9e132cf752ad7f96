"""What must be true when nobody has anything left to do: whatever happened before, and whoever died on the way."""

from typing import Any

import msgspec

from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES, MANAGER
from genericjob.api.spec import GenericJobSpec, parse
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.jobs.resource import JOBS, StoredJob, read_status
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES, SERVICES
from sim.contract import ENDED, attempt, attempts, ended, epoch, rank_of
from sim.node import PODS


def at_rest(api: MemoryApi) -> None:
    """Look at everything there is."""
    jobs = {job.uid: job for job in api.list(JOBS).items}
    for resource in (RAW_PODS, RAW_SERVICES):
        for found in api.list(resource).items:
            for owner in found["metadata"].get("ownerReferences", ()):
                assert owner["uid"] in jobs, f"{found['metadata']['name']} outlived its job"
    groups = _groups(api)
    for job in jobs.values():
        spec = parse(msgspec.json.decode(job.spec))
        if spec.managed_by in (None, MANAGER):
            pods = [pod for pod in api.list(PODS).items if pod.owner_uid == job.uid]
            services = {service.name for service in api.list(SERVICES).items if service.owner_uid == job.uid}
            _pods(job, spec, read_status(job), pods)
            _services(job, spec, services)
            for group in groups.get(job.uid, ()) if pods else ():  # NOT WITHOUT PODS: it is put right before the next one is created
                assert group["spec"]["minMember"] == spec.total, "the group waits for as many as the job has"


def _pods(job: StoredJob, spec: GenericJobSpec, status: GenericJobStatus, pods: list[Pod]) -> None:
    tries, ranks = attempts(status), {(part.type, rank) for part in spec.replica_specs for rank in range(part.replicas)}
    for pod in pods:
        rank = rank_of(job, pod.name)
        assert pod.deleted is None, f"{pod.name} is still on its way out"
        assert rank in ranks, f"{pod.name} is of a rank that is no more"
        assert epoch(pod) == status.epoch, f"{pod.name} is of epoch {epoch(pod)}, the job of {status.epoch}"
        assert attempt(pod) == tries.get(rank, 0), f"{pod.name} is try {attempt(pod)}, and {tries.get(rank, 0)} is stored"
    if status.pause_time is not None:
        assert not pods, f"5: the job is paused, and has {[pod.name for pod in pods]}"
        assert status.phase == "Paused", f"the job is paused, and says {status.phase}"
    if status.phase in FINAL_PHASES:
        _after_the_end(job, spec, status, pods)
    _counts(status, pods)


def _after_the_end(job: StoredJob, spec: GenericJobSpec, status: GenericJobStatus, pods: list[Pod]) -> None:
    absent = {(task.type, rank) for task in status.tasks for rank in ranges.parse(task.absent_ranks)}
    reasons = {condition.reason for condition in status.conditions if condition.type == "Failed"}
    for pod in pods:
        assert rank_of(job, pod.name) not in absent, f"5: {pod.name} came after the end, and stayed"
        assert spec.clean_up_policy != "All", f"{pod.name} was to be cleaned up"
        if spec.clean_up_policy == "Unfinished" or "DeadlineExceeded" in reasons:
            assert pod.phase in ENDED, f"{pod.name} is unfinished, and was to be cleaned up"


def _counts(status: GenericJobStatus, pods: list[Pod]) -> None:
    """What the status says is what there is."""
    if status.aggregate is None:
        return
    for phase in ("pending", "running"):
        there = sum(pod.phase == phase.capitalize() for pod in pods)
        assert getattr(status.aggregate, phase) == there, f"6: {phase} {getattr(status.aggregate, phase)}, and there are {there}"
    outcomes = sum(len(ended(task)) for task in status.tasks)
    if status.phase in (*FINAL_PHASES, "Paused"):
        assert status.aggregate.creating == 0, "6: nobody is being created"
    else:
        counted = status.aggregate.creating + len([pod for pod in pods if pod.phase not in ENDED]) + outcomes
        assert counted == sum(msgspec.structs.astuple(status.aggregate)), "6: every rank has ended, has a pod, or waits for one"


def _groups(api: MemoryApi) -> dict[str, list[dict[str, Any]]]:
    """PodGroups by the UID of their job; none where there is no such kind."""
    try:
        found = api.list(POD_GROUPS).items
    except ApiError:
        return {}
    return {owner["uid"]: [group] for group in found for owner in group["metadata"].get("ownerReferences", ())}


def _services(job: StoredJob, spec: GenericJobSpec, found: set[str]) -> None:
    wanted = {f"{job.name}-{part.type}-{rank}" for part in spec.replica_specs for rank in range(part.replicas)} if spec.service else set()
    assert found <= wanted, f"services {sorted(found - wanted)} are of nobody any more"
