"""The judge itself: each clause notices what breaks it."""

import pytest

from genericjob.api.status import Aggregate, Condition, GenericJobStatus, Task
from genericjob.jobs.resource import JOBS, status_body
from genericjob.reconcile.passing import Call
from genericjob.reconcile.resources import RAW_PODS, Key
from sim.crashes import FEW, MOST, subsets
from sim.jobs import NAMESPACE, Cluster
from sim.node import FOREVER, PODS
from sim.scenarios import TRAIN, ranks
from sim.scheduler import START

WHO = "controller"
POD = Key(NAMESPACE, "train-worker-0")
RUNNING = GenericJobStatus("Running", aggregate=Aggregate(running=2), tasks=(Task("worker"),))


@pytest.fixture
def cluster():
    """A job of two ranks that runs, and no controller any more."""
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        api = cluster.controller()
        cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
        cluster.reach_running()
        api.crash()
        yield cluster


def looks(cluster, new, old=RUNNING):
    """Show the judge a status that is about to follow another."""
    cluster.api.patch(JOBS, TRAIN, {"status": None}, subresource="status")
    cluster.api.replace_status(JOBS, TRAIN, status_body(cluster.api.get(JOBS, TRAIN), old))
    call = Call("replace_status", JOBS, TRAIN, status_body(cluster.api.get(JOBS, TRAIN), new))
    cluster.contract.look_at(call, WHO)
    return call


def said(phase="Running", tasks=RUNNING.tasks, counts=RUNNING.aggregate, **fields):
    return GenericJobStatus(phase, tasks=tasks, aggregate=counts, **fields)


def task(**fields):
    return (Task("worker", **fields),)


@pytest.mark.parametrize(
    ("old", "new", "clause"),
    [
        (said(tasks=task(succeeded_ranks="0")), said(), "3: a stored outcome stays"),
        (said(tasks=task(failed_ranks="1")), said(tasks=task(succeeded_ranks="1")), "3: a stored outcome stays"),
        (said(), said(tasks=task(succeeded_ranks="0")), "3: train-worker-0 has not succeeded"),
        (said(), said(tasks=task(charged_restarts={"1": "0"})), "4: train-worker-0 is charged for nothing"),
        (said(tasks=task(charged_restarts={"1": "0"})), said(tasks=task(charged_restarts={"2": "0"})), "4: .* 2 restarts of 1"),
        (said(tasks=task(charged_restarts={"1": "0"})), said(tasks=task(uncharged_restarts={"1": "0"})), "4: .* was charged with 1"),
        (said(tasks=task(uncharged_restarts={"1": "0"})), said(), "4: .* had 1 tries, now 0"),
        (said(job_restarts=1), said(), "4: job_restarts never falls"),
        (said(epoch=2), said(epoch=1), "4: epoch never falls"),
        (said("Failed"), said("Running"), "5: a terminal phase is final"),
        (said("Pausing", pause_time=START), said("Paused", pause_time=START), "5: the job is said to be paused, and .* are still there"),
        (said(), said(counts=Aggregate(running=3)), "6: counts sum to the total"),
        (
            said(conditions=(Condition("Running", "True", "Running", "", START),)),
            said(conditions=(Condition("Running", "True", "Running", "", START.replace(hour=1)),)),
            "6: times change with the status only",
        ),
    ],
)
def test_a_status_that_breaks_a_promise_is_noticed(cluster, old, new, clause):
    with pytest.raises(AssertionError, match=clause):
        looks(cluster, new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (said(), said()),
        (said(tasks=task(succeeded_ranks="0")), said(tasks=task(succeeded_ranks="0"))),
        (said(tasks=task(succeeded_ranks="0")), said(epoch=1)),
        (said(tasks=task(failed_ranks="0"), pause_time=START), said()),
        (said(tasks=task(succeeded_ranks="5", charged_restarts={"1": "5"})), said()),
        (said(), said(tasks=task(uncharged_restarts={"1": "0"}))),
    ],
)
def test_a_status_that_breaks_none_passes(cluster, old, new):
    looks(cluster, new, old)


def test_an_end_that_deserves_it_is_charged_and_only_once(cluster):
    cluster.node.kill(POD.name)
    cluster.stepped.run()
    looks(cluster, said(tasks=task(charged_restarts={"1": "0"})))
    looks(cluster, said(tasks=task(failed_ranks="0")))
    with pytest.raises(AssertionError, match="4: train-worker-1 is charged for nothing"):
        looks(cluster, said(tasks=task(charged_restarts={"1": "0-1"})))


@pytest.mark.parametrize("status", [said("Succeeded"), said("Pausing", pause_time=START)])
def test_a_create_after_the_end_and_in_a_pause_is_noticed(cluster, status):
    pod = cluster.api.get(RAW_PODS, POD)
    create = Call("create", RAW_PODS, POD, pod)
    cluster.contract.look_at(create, WHO)
    call = looks(cluster, status)
    cluster.api.replace_status(JOBS, TRAIN, call.body)
    cluster.contract.stored(call, WHO)
    with pytest.raises(AssertionError, match=r"5: .* is created"):
        cluster.contract.look_at(create, WHO)
    cluster.contract.look_at(create, "another, who does not know it")


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"metadata": {"ownerReferences": [{"controller": False, "uid": "x"}]}}, "2: everything carries a controller reference"),
        ({"metadata": {"labels": {}}}, "2: everything carries our label"),
        ({"metadata": {"annotations": {"batch.tensorstack.dev/epoch": "1"}}}, "an epoch is stored before"),
        ({"metadata": {"annotations": {"batch.tensorstack.dev/attempt": "1"}}}, "4: a restart is stored before"),
    ],
)
def test_a_pod_that_is_created_without_what_it_needs_is_noticed(cluster, change, clause):
    pod = cluster.api.get(RAW_PODS, POD)
    for field, value in change["metadata"].items():
        pod["metadata"][field] = {**pod["metadata"][field], **value} if field == "annotations" else value
    if "labels" in change["metadata"]:
        pod["metadata"]["labels"] = {"tensorstack.dev/component": ""}
    with pytest.raises(AssertionError, match=clause):
        cluster.contract.look_at(Call("create", RAW_PODS, POD, pod), WHO)


def deletes(cluster, **conditions):
    pod = cluster.api.get(PODS, POD)
    given = {"uid": pod.uid, "resource_version": pod.resource_version, "grace": None} | conditions
    cluster.contract.look_at(Call("delete", PODS, POD, given), WHO)


def test_a_delete_that_is_careless_is_noticed(cluster):
    for conditions, clause in (({"uid": ""}, "2: "), ({"resource_version": ""}, "2: "), ({"grace": 0}, "1: "), ({}, "of use")):
        with pytest.raises(AssertionError, match=clause):
            deletes(cluster, **conditions)
    deletes(cluster, uid="another's")


def test_a_delete_before_the_commit_is_noticed(cluster):
    cluster.node.kill(POD.name)
    cluster.stepped.run()
    with pytest.raises(AssertionError, match=r"3: .* ended, that is not stored"):
        deletes(cluster)
    for status in (said(epoch=1), said("Failed"), said(tasks=task(failed_ranks="0")), said(tasks=task(charged_restarts={"1": "0"}))):
        cluster.api.patch(JOBS, TRAIN, {"status": None}, subresource="status")
        cluster.api.replace_status(JOBS, TRAIN, status_body(cluster.api.get(JOBS, TRAIN), status))
        deletes(cluster)


def test_subsets_are_all_of_few_and_some_of_many():
    assert [len(list(subsets(of))) for of in range(FEW + 1)] == [2**of - 1 for of in range(FEW + 1)]
    if FEW < MOST:
        assert len(list(subsets(MOST))) == 2 * MOST + 1
    assert list(subsets(2)) == [(0,), (1,), (0, 1)]
