"""Jobs that wait: a condition names the first rank that does, and what it waits for, until it does not any more."""

import pytest

from e2e.jobs import FINALIZER, a_job, replicas, restarts, uid
from e2e.standing_in import OURS
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.kubelet import Machine

NORMAL = "All pods are running normally."


def says(job, status, reason, *words):
    """Wait until the condition Running is so, with all these words in its message."""

    def said():
        *found, message = job.conditions["Running"]
        return found == [status, reason] and all(word in message for word in words)

    eventually(lambda: job.conditions)
    eventually(said)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ImagePullBackOff", "container main"),  # what else is said of it changes with every try
        ("InvalidImageName", 'Failed to apply default image tag "app::1"'),
        ("CreateContainerConfigError", 'configmap "settings" not found'),
    ],
)
def test_a_container_that_cannot_be_made(team, reason, message):
    job = team.submit(a_job("train", replicas(3)))
    job.has_pods(3)
    job.node.stick(job.pod(1), reason, message)
    says(job, "False", reason, "Pod[train-worker-1]", reason, message)
    job.run(0, 2)
    says(job, "True", "Running", "Pod[train-worker-1]", reason)  # the job runs, one of it does not
    job.run(1)
    says(job, "True", "Running", NORMAL)


def test_a_pod_for_which_there_is_no_node(team, nodes):
    spec = replicas(2)
    spec["template"]["spec"] |= {"nodeSelector": {"pool": team.namespace}, "tolerations": [{"operator": "Exists"}]}
    job = team.submit(a_job("train", spec))
    says(job, "False", "Unschedulable", "Pod[train-worker-0]", "nodes are available")
    pool = nodes.add(machine=Machine(labels={"pool": team.namespace}, taints=(OURS,)), automatic=True)
    says(job, "True", "Running", NORMAL)
    assert {pod["spec"]["nodeName"] for pod in job.pods.values()} == {pool.name}


def test_a_name_that_is_still_taken_by_a_pod_with_a_finalizer(team):
    job, (first, _) = team.start(a_job("train", replicas(2) | restarts("OnFailure", 1)))
    job.cling(0)
    job.finish(0, 1)
    says(job, "True", "Running", "Pod[train-worker-0]", "is still there", FINALIZER)
    job.release(0)
    job.run_again(first)
    says(job, "True", "Running", NORMAL)


def test_a_node_that_does_not_answer(team):
    spec = replicas(2)
    spec["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    job, (first, _) = team.start(a_job("train", spec))
    job.node.hold(job.pod(0))
    team.server.delete(RAW_PODS, job.pod(0))
    says(job, "True", "Running", f"Pod[train-worker-0] on node {job.node.name}", "is still there")
    assert uid(job.pods["train-worker-0"]) == uid(first)  # NEVER BY FORCE: two instances of a rank are worse than a delay
    job.node.let_go(uid(first))
    job.run_again(first)
    says(job, "True", "Running", NORMAL)
