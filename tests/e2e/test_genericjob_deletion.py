"""The deletion of jobs: the garbage collector takes their objects along, and the controller keeps its hands off."""

import pytest

from e2e.jobs import a_job, replicas
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES
from harness.clusters import eventually
from harness.controllers import USER
from harness.definitions import GENERIC_JOBS

SERVICE = {"ports": [{"name": "http", "port": 80}]}

pytestmark = pytest.mark.usefixtures("collector")


@pytest.fixture
def train(team):
    """A job of two workers and their services; rank 0 runs."""
    job = team.submit(a_job("train", replicas(2), service=SERVICE))
    job.has_pods(2)
    job.run(0)
    job.becomes("Running")
    return job


@pytest.fixture
def created(team, audit):
    """What the controller creates from now on, but for events and what `controller_is_up_to_date` needs."""
    begin = audit.here

    def names():
        team.controller_is_up_to_date()
        found = audit.requests(since=begin, user=USER, verbs={"create"}, namespace=team.namespace)
        return [each.name for each in found if each.resource != "events" and not each.name.startswith("fence-")]

    return names


def test_in_the_background(train, kubectl, created):
    kubectl("delete", "gj", "train", "--cascade=background")
    assert not train.exists
    eventually(lambda: not train.pods and not train.services)
    assert created() == []


def test_in_the_foreground(train, kubectl, created):
    train.node.hold(train.pod(0))
    kubectl("delete", "gj", "train", "--cascade=foreground", "--wait=false")
    eventually(lambda: list(train.pods) == ["train-worker-0"] and not train.services)
    assert created() == []
    assert train.exists  # it goes last
    train.node.let_go(train.pod(0))
    eventually(lambda: not train.exists)
    assert not train.pods


def test_orphans_stay_and_nobody_touches_them_again(train, kubectl, team, audit):
    before = train.pods
    kubectl("delete", "gj", "train", "--cascade=orphan")
    pods = [team.server.get(RAW_PODS, train.pod(rank)) for rank in (0, 1)]
    assert [pod["metadata"].get("ownerReferences") for pod in pods] == [None, None]
    assert [pod["metadata"]["uid"] for pod in pods] == [pod["metadata"]["uid"] for pod in before.values()]
    assert "ownerReferences" not in team.server.get(RAW_SERVICES, train.pod(0))["metadata"]

    begin = audit.here
    train.finish(0, 1)
    team.server.delete(RAW_PODS, train.pod(1))
    team.controller_is_up_to_date()
    namesake = team.submit(a_job("train", replicas(2)))
    ((_, message),) = namesake.told("NameConflict")
    assert message == "Pod train-worker-0 exists and does not belong to this job; it was left alone"
    writes = audit.writes(since=begin, user=USER, namespace=team.namespace)
    touched = {
        (each.verb, each.name)
        for each in writes
        if each.name.startswith("train-") and each.resource in ("pods", "services") and each.succeeded
    }
    assert touched <= {("create", "train-worker-1")}  # its name is free
    assert team.server.get(RAW_PODS, train.pod(0))["metadata"]["uid"] == pods[0]["metadata"]["uid"]


def test_nothing_is_created_for_a_job_that_is_being_deleted(team, kubectl, created):
    body = a_job("train", replicas(2), service=SERVICE)
    body["metadata"]["finalizers"] = ["genericjob.test/hold"]
    job = team.submit(body)
    job.has_pods(2)
    created()
    kubectl("delete", "gj", "train", "--wait=false")
    assert "deletionTimestamp" in job.body["metadata"]
    team.server.delete(RAW_PODS, job.pod(0))
    team.server.delete(RAW_SERVICES, job.pod(0))
    eventually(lambda: "train-worker-0" not in job.pods)
    before = created()
    assert sorted(before) == ["train-worker-0", "train-worker-0", "train-worker-1", "train-worker-1"]  # a pod and a service each, at first

    team.server.patch(GENERIC_JOBS, job.key, {"metadata": {"finalizers": None}})
    eventually(lambda: not job.exists and not job.pods and not job.services)


def test_a_job_never_takes_over_the_pods_of_its_predecessor(team, kubectl, audit):
    first = team.submit(a_job("train", replicas(2), service=SERVICE))
    old = first.has_pods(2)
    first.run(0, 1)
    for rank in (0, 1):
        first.node.hold(first.pod(rank))
    begin = audit.here
    kubectl("delete", "gj", "train")
    second = team.submit(a_job("train", replicas(2), service=SERVICE))
    eventually(lambda: second.conditions.get("Initialized", ("", ""))[1] == "PredecessorEnding" and set(first.pods) == set(old))
    assert not second.pods

    for rank in (0, 1):
        first.node.let_go(first.pod(rank))
    new = second.has_pods(2)
    assert {pod["metadata"]["uid"] for pod in new.values()}.isdisjoint(pod["metadata"]["uid"] for pod in old.values())
    eventually(lambda: second.conditions["Initialized"][0] == "True" and len(second.services) == 2)
    second.run(0, 1)
    second.finish(0)
    second.finish(1)
    second.becomes("Succeeded")
    assert not audit.requests(since=begin, user=USER, verbs={"delete", "patch", "update"}, resource="pods", namespace=team.namespace)
