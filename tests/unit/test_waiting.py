"""What a job waits for, in words that name the rank."""

import pytest
from msgspec import structs

from genericjob.jobs.status import condition
from genericjob.reconcile.objects import Condition, Container
from unit.jobs import a_job, a_pod, later, planned, pods, settled


def held_up(rank, reason, message=""):
    container = Container("main", "waiting", reason, message, None, 0, None)
    return a_pod(f"train-worker-{rank}", "Pending", containers=(container,))


def running(plan):
    found = condition(plan.status, "Running")
    return found.status, found.reason, found.message


@pytest.mark.parametrize("reason", ["ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError"])
def test_a_container_that_cannot_start_is_named_with_its_reason(reason):
    plan = planned(a_job().type("worker", 2), pods(worker=["Pending", held_up(1, reason, "no such thing")]))
    assert running(plan) == ("False", reason, f"Pod[train-worker-1] waits: {reason} of container main: no such thing")


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "PodInitializing"])
def test_what_every_pod_waits_for_is_not_worth_a_word(reason):
    plan = planned(a_job().type("worker", 1), [held_up(0, reason)])
    assert running(plan) == ("False", "Pending", "The job waits for its replicas to run.")


def test_reasons_that_take_turns_are_told_as_one():
    job, told = a_job().type("worker", 1), []
    for reason, message in [
        ("ErrImagePull", "rpc error"),
        ("ImagePullBackOff", "Back-off pulling image"),
        ("ErrImagePull", "no such host"),
    ]:
        told.append(settled(job, [held_up(0, reason, message)]).build().status)
    assert told[0] == told[1] == told[2]
    assert condition(told[0], "Running").message == "Pod[train-worker-0] waits: ImagePullBackOff of container main"
    assert told[0].tasks[0].replicas[0].containers[0].reason == "ImagePullBackOff"


def test_a_pod_that_fits_nowhere_is_named():
    condition = Condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")
    pod = a_pod("train-worker-0", "Pending", conditions=(condition,))
    plan = planned(a_job().type("worker", 2), pods(worker=[pod, structs.replace(pod, name="train-worker-1")]))
    assert running(plan) == ("False", "Unschedulable", "Pod[train-worker-0] waits: Unschedulable: 0/3 nodes are available (and 1 more)")


def test_a_job_that_runs_says_so_and_names_who_does_not():
    job = settled(a_job().type("worker", 2), pods(worker=["Running", "Running"]))
    plan = planned(job, pods(worker=["Running", held_up(1, "ImagePullBackOff")]))
    assert running(plan) == ("True", "Running", "Pod[train-worker-1] waits: ImagePullBackOff of container main")
    assert running(planned(job, pods(worker=["Running", "Running"])))[2] == "All pods are running normally."


def test_a_pod_that_does_not_go_is_named_with_its_node():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 1})
    job = settled(job, pods(worker=["Failed"]))
    going = a_pod("train-worker-0", "Running", deleted=True, node="n7", finalizers=("example.com/hold",))
    plan = planned(job, [going], now=later(1))
    assert plan.look_again == later(5)
    told = running(planned(job, [going], now=later(5.01)))
    assert told[:2] == ("False", "StuckTerminating")
    assert "Pod[train-worker-0] on node n7 was to be gone by 2026-01-01T12:00:00Z" in told[2]
    assert "example.com/hold" in told[2]


def test_so_is_one_that_keeps_a_pause_from_ending():
    job = settled(a_job().type("worker", 1), pods(worker=["Running"])).having(suspend=True)
    job = settled(job, pods(worker=["Running"]))
    plan = planned(job, [a_pod("train-worker-0", deleted=True)], now=later(60))
    assert plan.status.phase == "Pausing"
    assert "Pod[train-worker-0]" in running(plan)[2]
    assert "Pod[train-worker-0]" in next(each.message for each in plan.status.conditions if each.type == "Paused")


def test_a_pod_of_an_earlier_run_is_waited_for_without_looking_every_moment():
    job = settled(a_job().type("worker", 1), pods(worker=["Running"]))
    plan = planned(job, [a_pod("train-worker-0", deleted=True)], now=later(600))
    assert plan.look_again is None
