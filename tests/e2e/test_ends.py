"""How jobs end, and what is left of them: clean-up, deadlines, lives after the end, and what kubectl shows."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from e2e.jobs import a_job, counts, replicas, restarts, uid
from e2e.record import deleted_uid
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.controllers import USER

DECIDED_BY_0 = {"successRules": [{"worker": [0]}]}


def moment(status, name):
    return datetime.fromisoformat(status[name])


def won(team, name="train", **spec):
    """A job of three that has succeeded: rank 0 ended well, rank 1 badly, and rank 2 runs."""
    job, pods = team.start(a_job(name, replicas(3), **DECIDED_BY_0, **spec))
    job.finish(1, 5)
    job.finish(0)
    job.becomes("Succeeded")
    return job, pods


# ------------------------------------------------------------------------------------------------ clean-up

LEFT = {"None": [0, 1, 2], "Unfinished": [0, 1], "All": []}


@pytest.mark.parametrize("policy", LEFT)
def test_what_is_left_is_what_the_policy_says_and_outcomes_are_stored_before(team, record, policy):
    job, pods = won(team, cleanUpPolicy=policy)
    eventually(lambda: list(job.pods) == [f"train-worker-{rank}" for rank in LEFT[policy]])
    deletes = record(job).deletes()
    assert sorted(map(deleted_uid, deletes)) == sorted(uid(pod) for rank, pod in enumerate(pods) if rank not in LEFT[policy])
    for delete in deletes:
        known = record(job).known_at(delete)
        (task,) = known["tasks"]
        assert (known["phase"], task["succeededRanks"], task["failedRanks"]) == ("Succeeded", "0", "1")

    phases = ["Succeeded", "Failed", "Running"]
    expected = [phase if rank in LEFT[policy] else "Deleted" for rank, phase in enumerate(phases)]
    eventually(lambda: [each["phase"] for each in job.task()["replicas"]] == expected)
    assert [each["uid"] for each in job.task()["replicas"]] == [uid(pod) for pod in pods]
    assert [each["containers"][0]["exitCode"] for each in job.task()["replicas"][:2]] == [0, 5]
    team.controller_is_up_to_date()
    assert len(record(job).creates()) == 3
    if policy == "None":
        ((_, message),) = job.told("LeftRunning")
        assert "1" in message


def test_the_policy_can_be_changed_after_the_end(team):
    job, _ = won(team)
    job.has_pods(3)
    job.edit(cleanUpPolicy="Unfinished")
    eventually(lambda: list(job.pods) == ["train-worker-0", "train-worker-1"])
    job.edit(cleanUpPolicy="All")
    eventually(lambda: not job.pods)
    eventually(lambda: job.aggregate == counts(deleted=3))
    assert (job.task()["succeededRanks"], job.task()["failedRanks"]) == ("0", "1")


@pytest.mark.parametrize("policy", LEFT)
def test_a_pod_that_comes_when_its_job_has_ended_goes(team, policy):
    job, pods = won(team, cleanUpPolicy=policy)
    if policy == "None":
        team.server.delete(RAW_PODS, job.pod(2), grace=0)
    eventually(lambda: job.task()["replicas"][2]["phase"] == "Deleted")
    late = {key: pods[2]["metadata"][key] for key in ("name", "labels", "annotations", "ownerReferences")}
    made = team.server.create(RAW_PODS, {"metadata": late, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}, team.namespace)
    eventually(lambda: uid(made.object) not in {uid(pod) for pod in job.pods.values()})
    assert job.phase == "Succeeded"


# ------------------------------------------------------------------------------------------------ deadlines


def test_a_job_that_takes_too_long_fails_and_what_still_runs_is_ended(team, record):
    job, _ = team.start(a_job("train", replicas(3), activeDeadlineSeconds=3600, cleanUpPolicy="None"))
    job.finish(0)
    eventually(lambda: job.task().get("succeededRanks") == "0")
    job.edit(activeDeadlineSeconds=3)
    status = job.becomes("Failed")
    assert job.conditions["Failed"][:2] == ("True", "DeadlineExceeded")
    assert moment(status, "completionTime") - moment(status, "startTime") >= timedelta(seconds=3)
    eventually(lambda: list(job.pods) == ["train-worker-0"])  # its logs can be read, whatever the policy
    for delete in record(job).deletes():
        assert record(job).known_at(delete)["phase"] == "Failed"
    assert job.task()["succeededRanks"] == "0"
    assert job.told("DeadlineExceeded")


def test_a_pause_does_not_count(team):
    job = team.submit(a_job("train", suspend=True, activeDeadlineSeconds=3))
    job.becomes("Paused")
    time.sleep(4)
    team.controller_is_up_to_date()
    assert job.phase == "Paused"
    job.edit(suspend=False)
    status = job.becomes("Failed")
    assert job.conditions["Failed"][1] == "DeadlineExceeded"
    assert status["pausedSeconds"] >= 3
    active = moment(status, "completionTime") - moment(status, "startTime") - timedelta(seconds=status["pausedSeconds"])
    assert active >= timedelta(seconds=3)


# ------------------------------------------------------------------------------------------------ time to live


@pytest.mark.usefixtures("collector")
def test_a_job_is_gone_some_time_after_its_end_and_its_pods_with_it(team, record):
    job, _ = won(team, ttlSecondsAfterFinished=3600)
    job.edit(ttlSecondsAfterFinished=1)
    eventually(lambda: not job.exists and not job.pods)
    (delete,) = record(job).deletes("genericjobs")
    assert delete.succeeded
    last = record(job).statuses()[-1]
    assert delete.sent["propagationPolicy"] == "Background"
    assert delete.sent["preconditions"]["uid"] == job.uid
    assert int(delete.sent["preconditions"]["resourceVersion"]) >= last.version
    completed = moment(last.stored["status"], "completionTime")
    assert delete.received >= completed + timedelta(seconds=1)


@pytest.mark.usefixtures("collector")
def test_a_life_can_be_made_longer_or_shorter_after_the_end(team, record):
    longer, _ = won(team, "longer", ttlSecondsAfterFinished=8)
    longer.edit(ttlSecondsAfterFinished=None)
    shorter, _ = won(team, "shorter", ttlSecondsAfterFinished=3600)
    shorter.edit(ttlSecondsAfterFinished=8)  # later than the first would have gone
    eventually(lambda: not shorter.exists)
    assert longer.exists
    assert not record(longer).deletes("genericjobs")


def test_a_job_that_has_not_ended_does_not_expire(team, audit):
    job, _ = team.start(a_job("train", replicas(2), ttlSecondsAfterFinished=0))
    begin = audit.here
    job.finish(0)
    team.controller_is_up_to_date()
    assert not audit.requests(since=begin, user=USER, verbs={"delete"}, resource="genericjobs", namespace=team.namespace)
    job.finish(1)
    eventually(lambda: not job.exists)


# ------------------------------------------------------------------------------------------------ what kubectl shows


def test_kubectl_does_not_wait_in_vain_for_a_job_that_failed(team, kubectl):
    job, (pod, _) = team.start(a_job("train", replicas(2) | restarts("OnFailure", 1)))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(kubectl, "wait", "--for=condition=Failed", "gj/train", "--timeout=50s")
        job.fails_again(pod, 3)
        job.finish(0, 4, message="no checkpoint")
        assert waiting.result() == "genericjob.batch.tensorstack.dev/train condition met\n"
    head, row = kubectl("get", "gj", "train").splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert row.split()[:-1] == ["train", "Failed", "1/2", "1"]
    job.told("Failed")
    shown = kubectl("describe", "gj", "train")
    for text in ("Failed Ranks:  0", "Exit Code:", "no checkpoint", "Restarting", "restart 1 of 1", "The job is failed"):
        assert text in shown, text
