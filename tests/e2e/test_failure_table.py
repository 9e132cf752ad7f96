"""Rows of the table of failure cases that no other file shows: `docs/contract.md` says which test shows which row."""

from datetime import UTC, datetime, timedelta

from e2e.jobs import CONTAINER, a_job, counts, marks, replicas, uid
from e2e.standing_in import target
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.controllers import USER
from harness.definitions import GENERIC_JOBS

MINUTES = 150.0
"""Seconds that the control plane may take to give a node up, and its garbage collector to remove what was there."""


# ------------------------------------------------------------------------------------------------ what is ours and what is not


def test_orphan_adoption(team, audit):
    """A pod with our name and our labels, but nobody's: it stays nobody's."""
    labels = {"genericjob": "train", "genericjob-replica": "train-worker-0", "tensorstack.dev/component": "genericjob"}
    body = {"metadata": {"name": "train-worker-0", "labels": labels}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    orphan = team.server.create(RAW_PODS, body, team.namespace).object
    job = team.submit(a_job("train"))
    ((_, message),) = job.told("NameConflict")
    assert message == "Pod train-worker-0 exists and does not belong to this job; it was left alone"
    team.node.run(uid(orphan))
    team.node.finish(uid(orphan))
    team.controller_is_up_to_date()
    assert job.phase == "Pending"
    assert team.server.get(RAW_PODS, job.pod(0))["metadata"].get("ownerReferences") is None
    team.server.delete(RAW_PODS, job.pod(0))
    job.has_pods(1)


def test_a_pod_of_ours_without_our_label(team, audit):
    """Invisible to our watch and yet in the way: told, and tried ever more rarely."""
    job, (pod,) = team.start(a_job("train"))
    begin = audit.here
    team.server.patch(RAW_PODS, job.pod(0), {"metadata": {"labels": {"tensorstack.dev/component": None}}})

    def tries():
        return [each for each in audit.requests(since=begin, user=USER, resource="pods", namespace=team.namespace) if each.verb == "create"]

    eventually(lambda: any(each.name == "train-worker-0" for each in tries()))
    ((_, message),) = job.told("NameConflict")
    assert "train-worker-0" in message
    eventually(lambda: job.conditions["Initialized"][:2] == ("False", "NameConflict"))
    assert uid(job.pods["train-worker-0"]) == uid(pod)
    assert not audit.requests(since=begin, user=USER, verbs={"delete"}, resource="pods", namespace=team.namespace)
    team.server.patch(RAW_PODS, job.pod(0), {"metadata": {"labels": {"tensorstack.dev/component": "genericjob"}}})
    eventually(lambda: job.conditions["Initialized"][0] == "True" and job.aggregate == counts(running=1))
    assert uid(job.has_pods(1)["train-worker-0"]) == uid(pod)  # it was out of sight, and never gone


# ------------------------------------------------------------------------------------------------ statuses that are not ours


def set_status(job, status):
    job.server.patch(GENERIC_JOBS, job.key, {"status": status}, subresource="status")


def in_an_hour():
    return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_malformed_status(team):
    job, _ = team.start(a_job("train", replicas(2)))
    set_status(job, {"tasks": [{"type": "worker", "restartCount": 0, "failedRanks": "from here to there"}]})
    ((_, message),) = job.told("InvalidSpec")
    assert "not a set of ranks" in message
    other, _ = team.start(a_job("other"))
    other.finish(0)
    other.becomes("Succeeded")
    set_status(job, {"tasks": None})
    job.finish(0)
    job.finish(1)
    job.becomes("Succeeded")


def test_clock_skew_for_the_deadline(team):
    """It began in an hour, says a controller whose clock was wrong: it has been active for no time at all."""
    job, _ = team.start(a_job("train", activeDeadlineSeconds=3600))
    set_status(job, {"startTime": in_an_hour()})
    team.controller_is_up_to_date()
    assert job.phase == "Running"
    job.finish(0)
    job.becomes("Succeeded")


def test_clock_skew_for_the_time_to_live(team):
    """It ends in an hour: the time to live begins now at the earliest, and never in the past."""
    job, _ = team.start(a_job("train", ttlSecondsAfterFinished=3600))
    job.finish(0)
    job.becomes("Succeeded")
    set_status(job, {"completionTime": in_an_hour()})
    team.controller_is_up_to_date()
    assert job.exists
    assert job.phase == "Succeeded"


def test_stale_cache_on_status(team, record):
    """Somebody else writes to the status while the controller does: nothing that it had stored before is lost."""
    job, _ = team.start(a_job("train", replicas(3)))
    for rank in range(3):
        job.finish(rank)
        for number in range(10):
            team.server.patch(GENERIC_JOBS, job.key, {"metadata": {"annotations": {"touched": f"{rank}-{number}"}}})
    job.becomes("Succeeded")
    assert job.task()["succeededRanks"] == "0-2"
    assert {each.code for each in record(job).writes("update", resource="genericjobs/status")} <= {200, 409}


# ------------------------------------------------------------------------------------------------ the end of the calamity


def test_node_deleted(calamity):
    job = calamity.on_deleted
    new = eventually(lambda: job.successor(calamity.deleted_pod), within=MINUTES)
    assert new["metadata"]["uid"] != uid(calamity.deleted_pod)
    assert marks(new) == {"epoch": "0", "attempt": "1", "charged-restarts": "0"}
    job.becomes("Running")
    eventually(lambda: job.aggregate == counts(running=1))
    assert job.status["restarts"] == 0


def test_node_lost_and_its_pod_stuck_terminating(calamity):
    job = calamity.on_lost
    eventually(lambda: "deletionTimestamp" in job.pods["lost-worker-0"]["metadata"], within=MINUTES)
    assert target(job.pods["lost-worker-0"])["reason"] == "DeletionByTaintManager"
    told = f"Pod[lost-worker-0] on node {calamity.lost.name} was to be gone by"
    eventually(lambda: job.conditions["Running"][2].startswith(told))
    assert uid(job.pods["lost-worker-0"]) == uid(calamity.lost_pod)
    calamity.lost.come_back()
    new = job.successor(calamity.lost_pod)
    assert marks(new)["charged-restarts"] == "0"
    eventually(lambda: job.aggregate == counts(running=1))
    assert not [pair for pair in calamity.nodes.overlaps() if pair[0].key == job.pod(0)]
