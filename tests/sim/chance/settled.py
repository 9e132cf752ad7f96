"""Where jobs must have come to when all is healed and time has passed."""

from collections.abc import Mapping
from typing import Any

import msgspec

from genericjob.api.names import FINAL_PHASES
from genericjob.api.spec import parse
from genericjob.jobs.resource import JOBS, StoredJob, read_status
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.resources import SERVICES
from sim.chance.playing import LIMIT, Run
from sim.contract import ended
from sim.node import PODS
from sim.rest import at_rest

QUIET, LONG_QUIET = 130.0, 310.0
"""Virtual seconds without any write, after which nothing more is expected: longer than any back-off that a run of so long can lead to."""
LONG = 150.0
ROUNDS = 8
STEPS = 10
"""Of the scheduler, in a second in which nothing happens but the renewal of a lease."""


def settle(run: Run) -> None:
    """Let time pass until nobody writes any more, and look at everything there is."""
    late = run.cluster.oracle.skew  # a clock that is put right makes everything late by as much
    run.stepped.advance(late, limit_steps=LIMIT + round(late * STEPS))
    quiet = LONG_QUIET if run.stepped.monotonic() > LONG else QUIET
    for _ in range(ROUNDS):
        before = run.api.resource_version, run.writes
        run.stepped.advance(quiet, limit_steps=LIMIT)
        if (run.api.resource_version, run.writes) == before:
            break
    else:
        raise AssertionError(f"7: {run.writes - before[1]} writes in the last {quiet:.0f} s, and no end")
    assert run.led(), "there is no controller"
    at_rest(run.api)
    pods = list(run.api.list(PODS).items)
    for job in run.api.list(JOBS).items:
        _keeps_conditions(job, {type: stored for (uid, type), stored in run.others.items() if uid == job.uid})
        services = {found.name for found in run.api.list(SERVICES).items if found.owner_uid == job.uid}
        _belongs(job, [pod for pod in pods if pod.owner_uid == job.uid], services)


def _keeps_conditions(job: StoredJob, stored: Mapping[str, Any]) -> None:
    """Those of other writers are as they were stored last."""
    found = {each["type"]: each for each in msgspec.json.decode(job.status).get("conditions", ())} if stored else {}
    for type, condition in stored.items():
        assert found.get(type) == condition, f"6: the condition {type!r} of another writer is {found.get(type)}, and was {condition}"


def _belongs(job: StoredJob, pods: list[Pod], services: set[str]) -> None:
    """Ended, paused, or running with all its pods."""
    spec, status = parse(msgspec.json.decode(job.spec)), read_status(job)
    assert job.deleted is None, f"rest: {job.name} is still on its way out"
    assert status.observed_generation == job.generation, f"rest: {job.name} was changed, and nobody has looked"
    if status.phase in FINAL_PHASES:
        assert spec.ttl_seconds_after_finished is None, f"rest: {job.name} has expired, and is there"
        return
    assert spec.paused == (status.pause_time is not None), f"rest: {job.name} is {status.phase}, and a pause is wanted: {spec.paused}"
    if spec.paused:
        return
    assert spec.active_deadline_seconds is None, f"rest: the deadline of {job.name} has passed"
    open_ranks = {(part.type, rank) for part in spec.replica_specs for rank in range(part.replicas)}
    open_ranks -= {(task.type, rank) for task in status.tasks for rank in ended(task)}
    running = {pod.name for pod in pods if pod.phase == "Running"}
    missing = sorted(f"{type}-{rank}" for type, rank in open_ranks if f"{job.name}-{type}-{rank}" not in running)
    assert not missing, f"rest: {missing} of {job.name} do not run"
    for part in spec.replica_specs if spec.service else ():
        without = sorted({f"{job.name}-{part.type}-{rank}" for rank in range(part.replicas)} - services)
        assert not without, f"rest: {without} have no service"
    assert status.phase == "Running" or not open_ranks, f"rest: all of {job.name} run, and it is {status.phase}"
