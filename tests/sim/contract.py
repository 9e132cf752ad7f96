"""The contract, checked at every write of a controller and at rest. The numbers are those of its clauses in `docs/contract.md`."""

from typing import Any

import msgspec

from genericjob.api import ranges
from genericjob.api.names import COMPONENT, COMPONENT_LABEL, FINAL_PHASES
from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs.resource import JOBS, read_status
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES, Key


class Contract:
    """Looks at every write before it takes effect, with what the server knows at that moment."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api

    def look_at(self, call: Call) -> None:
        """A controller's write is about to take effect."""
        body = msgspec.json.decode(call.body) if isinstance(call.body, bytes) else call.body
        if call.verb == "create" and call.resource.plural in ("pods", "services"):
            self._creates(body)
        elif call.verb == "replace_status":
            self._stores(call.key, msgspec.to_builtins(body))

    def begins(self, pod: Pod) -> None:
        """A pod is about to run."""
        for job in self._api.list(JOBS).items:
            if job.uid != pod.owner_uid:
                continue
            for task in read_status(job).tasks:
                names = {f"{job.name}-{task.type}-{rank}" for rank in _ended(task)}
                assert pod.name not in names, f"3: {pod.name} has ended before, and that is stored"

    def _creates(self, body: dict[str, Any]) -> None:
        meta = body["metadata"]
        (owner,) = meta["ownerReferences"]
        assert owner["controller"] is True, "2: everything carries a controller reference"
        assert meta["labels"][COMPONENT_LABEL] == COMPONENT, "2: everything carries our label"
        assert owner["uid"], "2: the reference names the UID"

    def _stores(self, key: Key, body: dict[str, Any]) -> None:
        new = msgspec.convert(body["status"], GenericJobStatus)
        try:
            stored = self._api.get(JOBS, key)
        except ApiError:
            return
        if stored.resource_version != body["metadata"]["resourceVersion"]:
            return  # it will be refused
        old = read_status(stored)
        if new.aggregate is not None:  # of a spec that cannot be read nothing is counted
            total = sum(part.get("replicas", 1) for part in msgspec.json.decode(stored.spec)["replicaSpecs"])
            assert sum(msgspec.structs.astuple(new.aggregate)) == total, "6: counts sum to the total"
        if old.phase in FINAL_PHASES:
            assert new.phase == old.phase, "5: a terminal phase is final"
        now = {task.type: _ended(task) for task in new.tasks}
        for task in old.tasks:
            assert _ended(task) <= now.get(task.type, frozenset()), "3: a stored outcome stays"
        times = {condition.type: condition for condition in old.conditions}
        for condition in new.conditions:
            known = times.get(condition.type)
            if known and known.status == condition.status:
                assert condition.last_transition_time == known.last_transition_time, "6: times change with the status only"

    def at_rest(self) -> None:
        """Nobody has anything left to do."""
        jobs = {job.uid: job for job in self._api.list(JOBS).items}
        for resource in (RAW_PODS, RAW_SERVICES):
            for found in self._api.list(resource).items:
                for owner in found["metadata"].get("ownerReferences", ()):
                    assert owner["uid"] in jobs, f"{found['metadata']['name']} outlived its job"


def _ended(task: Task) -> frozenset[int]:
    return ranges.parse(task.succeeded_ranks) | ranges.parse(task.failed_ranks)
