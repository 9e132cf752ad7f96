"""Init containers are part of their pod: what holds one up holds up the pod, and how one ends is how the pod ended."""

import pytest

from genericjob.jobs.restarts import exit_codes
from genericjob.jobs.status import condition
from genericjob.jobs.tasks import failed_container
from genericjob.reconcile.objects import Container
from unit.jobs import a_job, a_pod, planned

WAITS = Container("main", "waiting", "PodInitializing", "", None, 0, None)


def ended(code):
    """A pod whose init container failed, so that no other ever began."""
    init = Container("fetch", "terminated", "Error", "no such host", code, 0, None)
    return a_pod("train-worker-0", "Failed", init_containers=(init,), containers=(WAITS,))


def test_its_exit_code_is_one_of_the_pods():
    assert exit_codes(ended(7)) == {7}


def test_it_is_the_container_that_failed():
    assert failed_container(ended(7)).name == "fetch"
    status = planned(a_job().type("worker", 1), [ended(7)]).status
    (failure,) = status.tasks[0].failures
    assert (failure.exit_code, failure.reason, failure.message) == (7, "Error", "no such host")
    assert status.tasks[0].failed_exit_codes == {"7": 1}
    assert condition(status, "ReplicaFailure").message == "Pod[train-worker-0] exited with error code 7"


@pytest.mark.parametrize(("codes", "charged"), [({}, True), ({"notCharged": [7]}, False)])
def test_whether_its_end_is_charged_is_told_by_its_exit_code(codes, charged):
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 1, "exitCodes": codes})
    (task,) = planned(job, [ended(7)]).status.tasks
    assert task.restart_count == charged
    assert bool(task.uncharged_restarts) is not charged


def test_an_exit_code_after_which_nobody_is_started_again_counts_here_too():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 1, "exitCodes": {"neverRestart": [7]}})
    assert planned(job, [ended(7)]).status.phase == "Failed"


def test_what_it_waits_for_is_told():
    init = Container("fetch", "waiting", "InvalidImageName", "no such thing", None, 0, None)
    pod = a_pod("train-worker-0", "Pending", init_containers=(init,), containers=(WAITS,))
    found = condition(planned(a_job().type("worker", 1), [pod]).status, "Running")
    assert (found.reason, found.message) == (
        "InvalidImageName",
        "Pod[train-worker-0] waits: InvalidImageName of container fetch: no such thing",
    )
