"""Ranks that end and are started again: who decides it, what it costs, and what is remembered of it."""

from datetime import datetime, timedelta

import pytest

from e2e.jobs import a_job, counts, marks, replicas, restarts, uid
from e2e.record import deleted_uid
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.kubelet import disruptions

# ------------------------------------------------------------------------------------------------ OnFailure


def test_a_rank_that_fails_is_started_again_and_charged(team, kubectl):
    job, (first, other) = team.start(a_job("train", replicas(2) | restarts("OnFailure", 2)))
    assert marks(first) == {"epoch": "0", "attempt": "0", "charged-restarts": "0"}
    job.finish(0, 3, message="out of luck")

    second = job.successor(first)
    assert marks(second) == {"epoch": "0", "attempt": "1", "charged-restarts": "1"}
    task = eventually(lambda: found if (found := job.task())["restartCount"] else None)
    assert (task["restartCount"], task["chargedRestarts"]) == (1, {"1": "0"})
    (failure,) = task["failures"]
    assert failure.pop("time") >= job.status["startTime"]
    assert failure == {
        "rank": 0,
        "uid": uid(first),
        "exitCode": 3,
        "reason": "Error",
        "node": team.node.name,
        "message": "out of luck",
    }
    ((times, message),) = job.told("Restarting")
    assert times == 1
    assert message == f"Pod[train-worker-0] exited with error code 3 on node {team.node.name}; restart 1 of 2"
    assert job.phase == "Running"
    assert job.conditions["ReplicaFailure"] == ("True", "ErrorInPod", "Pod[train-worker-0] exited with error code 3")

    job.node.run(uid(second))
    eventually(lambda: job.conditions["ReplicaFailure"][0] == "False")
    assert uid(job.pods["train-worker-1"]) == uid(other)  # nobody touched it
    assert kubectl("get", "gj", "train").splitlines()[1].split()[1:4] == ["Running", "2/2", "1"]
    job.finish(0)
    job.finish(1)
    assert job.becomes("Succeeded")["restarts"] == 1


def test_the_charge_is_stored_before_the_pod_is_deleted_and_the_name_is_waited_for(team, record):
    job, (first,) = team.start(a_job("train", replicas() | restarts("OnFailure", 1)))
    job.cling(0)
    job.finish(0, 1)
    eventually(lambda: "deletionTimestamp" in job.pods["train-worker-0"]["metadata"])
    team.controller_is_up_to_date()
    (delete,) = record(job).deletes()
    assert deleted_uid(delete) == uid(first)
    (task,) = record(job).known_at(delete)["tasks"]
    assert task["chargedRestarts"] == {"1": "0"}
    assert task["failures"][0]["uid"] == uid(first)
    assert len(record(job).creates()) == 1  # the first one's own

    job.release(0)
    job.run_again(first)
    assert [each.code for each in record(job).creates()] == [201, 201]


def test_a_rank_that_used_its_restarts_up_has_failed(team, record):
    job, (pod,) = team.start(a_job("train", replicas() | restarts("OnFailure", 3)))
    for code in (1, 2, 3):
        pod = job.fails_again(pod, code)
    assert marks(pod) == {"epoch": "0", "attempt": "3", "charged-restarts": "3"}
    job.finish(0, 4)

    job.becomes("Failed")
    task = job.task()
    assert (task["restartCount"], task["failedRanks"], task["chargedRestarts"]) == (3, "0", {"3": "0"})
    assert [each["exitCode"] for each in task["failures"]] == [4]  # the last of each rank
    assert job.conditions["ReplicaFailure"][:2] == ("True", "ErrorInPod")
    assert uid(job.has_pods(1)["train-worker-0"]) == uid(pod)  # its logs can be read
    assert len(record(job).creates()) == 4


def test_restarts_in_a_row_wait_longer_and_longer_from_the_time_that_is_stored(team, record):
    job, (pod,) = team.start(a_job("train", replicas() | restarts("OnFailure", 3)))
    for _ in range(3):
        pod = job.fails_again(pod)
    _, _, *later = record(job).creates()
    for create, seconds in zip(later, (1, 2), strict=True):
        (task,) = record(job).known_at(create)["tasks"]
        ((stored, ranks),) = task["lastRestarts"].items()
        assert ranks == "0"
        assert create.received >= datetime.fromisoformat(stored) + timedelta(seconds=seconds)
    assert job.task()["restartsInARow"] == {"3": "0"}


@pytest.mark.parametrize("policy", [{}, restarts("Never"), restarts("OnFailure"), restarts("OnFailure", 0)], ids=str)
def test_who_allows_no_restarts_has_none(team, policy, record):
    job, _ = team.start(a_job("train", replicas() | policy))
    job.finish(0, 1)
    job.becomes("Failed")
    assert (job.task()["restartCount"], job.task()["failedRanks"]) == (0, "0")
    assert list(job.pods) == ["train-worker-0"]
    assert len(record(job).creates()) == 1


def test_the_kernel_is_named_where_it_killed_for_memory(team):
    job, (pod,) = team.start(a_job("train", replicas() | restarts("OnFailure", 1)))
    job.node.kill_for_memory(job.pod(0))
    job.run_again(pod)
    ((_, message),) = job.told("Restarting")
    assert message == f"Pod[train-worker-0] exited with error code 137 (OOMKilled) on node {team.node.name}; restart 1 of 1"
    assert job.task()["failures"][0]["reason"] == "OOMKilled"


# ------------------------------------------------------------------------------------------------ Always


@pytest.mark.parametrize(("last", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_with_a_limit_the_last_end_decides(team, last, phase):
    job, (pod,) = team.start(a_job("train", replicas() | restarts("Always", 1)))
    pod = job.fails_again(pod, 0)
    assert job.phase == "Running"
    job.finish(0, last)
    job.becomes(phase)
    assert job.task()["restartCount"] == 1


def test_without_a_limit_a_rank_never_ends_and_the_others_decide(team):
    job, (server, _) = team.start(a_job("train", replicas(1, "server") | restarts("Always"), replicas()))
    for code in (0, 1, 0):
        server = job.fails_again(server, code)
    assert job.phase == "Running"
    assert job.task("server")["restartCount"] == 3
    job.finish(0)
    job.becomes("Succeeded")


# ------------------------------------------------------------------------------------------------ scope Job


def test_all_ranks_are_started_again_together_and_never_beside_the_old_ones(team, record):
    job, old = team.start(a_job("train", replicas(3) | restarts("OnFailure", 1, scope="Job")))
    job.finish(2)  # it has to run again with the others
    eventually(lambda: job.task().get("succeededRanks") == "2")
    job.node.hold(job.pod(0))
    job.finish(1, 7)
    eventually(lambda: list(job.pods) == ["train-worker-0"])
    team.controller_is_up_to_date()
    assert len(record(job).creates()) == 3
    for delete in record(job).deletes():
        known = record(job).known_at(delete)
        assert (known["epoch"], known["jobRestarts"]) == (1, 1)
    job.node.let_go(job.pod(0), exit_code=0)  # who is told to go and goes well has not succeeded

    new = [job.run_again(pod) for pod in old]
    assert [marks(pod)["epoch"] for pod in new] == ["1", "1", "1"]
    status = job.becomes("Running")
    assert (status["epoch"], status["jobRestarts"], job.task().get("succeededRanks")) == (1, 1, None)
    ((_, message),) = job.told("RestartingJob")
    assert "Pod[train-worker-1] exited with error code 7" in message

    job.finish(0, 1)
    status = job.becomes("Failed")
    assert (status["jobRestarts"], job.task()["failedRanks"]) == (1, "0")
    assert [uid(pod) for pod in job.has_pods(3).values()] == [uid(pod) for pod in new]


# ------------------------------------------------------------------------------------------------ exit codes and causes


def test_an_exit_code_can_be_one_after_which_nothing_helps(team):
    job, (_, helped) = team.start(a_job("train", replicas(2) | restarts("OnFailure", 9, exitCodes={"neverRestart": [42]})))
    job.fails_again(helped, 41)
    job.finish(0, 42)
    job.becomes("Failed")
    assert (job.task()["failedRanks"], job.task()["restartCount"]) == ("0", 1)


def test_an_exit_code_can_be_one_that_costs_nothing(team):
    job, (first,) = team.start(a_job("train", replicas() | restarts("Never", exitCodes={"notCharged": [75]})))
    second = job.fails_again(first, 75)
    assert marks(second) == {"epoch": "0", "attempt": "1", "charged-restarts": "0"}
    assert (job.task()["restartCount"], job.task()["unchargedRestarts"]) == (0, {"1": "0"})
    job.finish(0, 1)
    job.becomes("Failed")


CAUSES = {
    "evicted through the API": lambda job: disruptions.evict(job.server, job.pod(0)),
    "preempted": lambda job: disruptions.preempt(job.server, job.pod(0)),
    "evicted by its node": lambda job: job.node.evict(job.pod(0)),
    "deleted by a user": lambda job: job.server.delete(RAW_PODS, job.pod(0)),
    "deleted by force": lambda job: job.server.delete(RAW_PODS, job.pod(0), grace=0),
}


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES.keys())
def test_what_is_not_its_fault_costs_a_rank_nothing(team, cause):
    job, (first, _) = team.start(a_job("train", replicas(2) | restarts("Never")))
    cause(job)
    second = job.run_again(first)
    assert marks(second) == {"epoch": "0", "attempt": "1", "charged-restarts": "0"}
    eventually(lambda: job.aggregate == counts(running=2))
    assert job.task()["restartCount"] == job.status["restarts"] == 0
    assert job.task()["unchargedRestarts"] == {"1": "0"}
    job.finish(0)
    job.finish(1)
    job.becomes("Succeeded")


def test_who_outgrew_his_own_limits_is_charged(team):
    job, (first,) = team.start(a_job("train", replicas() | restarts("OnFailure", 1)))
    job.node.evict(job.pod(0), "Usage of EmptyDir volume exceeds the limit", disruption=False)
    second = job.run_again(first)
    assert marks(second)["charged-restarts"] == "1"
    (failure,) = job.task()["failures"]
    assert (failure["reason"], failure["message"]) == ("Evicted", "Usage of EmptyDir volume exceeds the limit")
