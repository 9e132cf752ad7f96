"""What users with enough rights can do to a job behind the controller's back: the last table of `docs/contract.md`, row by row."""

from e2e.jobs import a_job, counts, marks, replicas, restarts, uid
from e2e.standing_in import is_gone
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES
from harness.clusters import eventually
from harness.controllers import USER, account_kubeconfig, controller
from harness.definitions import GENERIC_JOBS

PREFIX = "batch.tensorstack.dev"
SERVICE = {"ports": [{"name": "http", "port": 80}]}
TWICE = restarts("OnFailure", 2)


def annotate(job, rank, **marks):
    """Change our annotations of a pod; None takes one away."""
    annotations = {f"{PREFIX}/{name.replace('_', '-')}": value for name, value in marks.items()}
    job.server.patch(RAW_PODS, job.pod(rank), {"metadata": {"annotations": annotations}})


def set_status(job, status):
    job.server.patch(GENERIC_JOBS, job.key, {"status": status}, subresource="status")


# ------------------------------------------------------------------------------------------------ pods and services


def test_a_pod_without_its_owner_is_nobodys(team):
    job, (pod, _) = team.start(a_job("train", replicas(2)))
    team.server.patch(RAW_PODS, job.pod(0), {"metadata": {"ownerReferences": None}})
    ((_, message),) = job.told("NameConflict")
    assert message == "Pod train-worker-0 exists and does not belong to this job; it was left alone"
    assert uid(team.server.get(RAW_PODS, job.pod(0))) == uid(pod)
    eventually(lambda: job.aggregate == counts(creating=1, running=1))
    team.server.delete(RAW_PODS, job.pod(0))
    job.successor(pod)
    assert job.status["restarts"] == 0


def test_a_pod_without_the_name_of_its_job_is_not_listened_to_but_seen(team):
    job, _ = team.start(a_job("train", replicas(2)))
    team.server.patch(RAW_PODS, job.pod(0), {"metadata": {"labels": {"genericjob": None}}})
    job.finish(0)
    job.finish(1)
    job.becomes("Succeeded")


def test_a_service_that_is_deleted_comes_back(team):
    job, _ = team.start(a_job("train", replicas(2), service=SERVICE))
    old = job.services["train-worker-0"]
    team.server.delete(RAW_SERVICES, job.pod(0))
    eventually(lambda: (new := job.services.get("train-worker-0")) and uid(new) != uid(old))
    assert job.phase == "Running"


# ------------------------------------------------------------------------------------------------ annotations


def test_a_pod_that_speaks_of_a_later_epoch_is_believed_and_the_others_follow_it(team):
    job, (first, second) = team.start(a_job("train", replicas(2)))
    annotate(job, 0, epoch="7")
    new = job.successor(second)
    assert marks(new)["epoch"] == "7"
    assert uid(job.pods["train-worker-0"]) == uid(first)
    eventually(lambda: job.status.get("epoch") == 7)


def test_a_pod_that_speaks_of_more_restarts_is_believed(team):
    job, (pod, _) = team.start(a_job("train", replicas(2) | TWICE))
    annotate(job, 0, attempt="2", charged_restarts="2")
    eventually(lambda: job.task().get("chargedRestarts") == {"2": "0"})
    team.node.finish(uid(pod), 1)
    job.becomes("Failed")


def test_a_pod_that_speaks_of_fewer_restarts_is_one_of_the_past(team):
    job, (pod, _) = team.start(a_job("train", replicas(2) | TWICE))
    second = job.fails_again(pod)
    eventually(lambda: job.task()["replicas"][0]["phase"] == "Running")
    annotate(job, 0, attempt="0")
    third = job.successor(second)
    assert marks(third)["attempt"] == "1"
    assert job.status["restarts"] == 1


def test_a_pod_that_claims_to_be_debugged_has_no_end(team):
    job, (pod,) = team.start(a_job("train"))
    annotate(job, 0, debug="true")
    team.node.finish(uid(pod), 1)
    job.successor(pod)
    assert (job.phase, job.status["restarts"]) == ("Running", 0)


# ------------------------------------------------------------------------------------------------ status


def test_a_status_that_was_removed_is_made_anew_from_the_pods_that_are_there(team):
    job, (pod, _) = team.start(a_job("train", replicas(2) | TWICE))
    second = job.fails_again(pod)
    job.finish(1)
    eventually(lambda: job.task().get("succeededRanks") == "1")
    job.server.patch(GENERIC_JOBS, job.key, {"status": None}, subresource="status")
    eventually(lambda: (job.task().get("succeededRanks"), job.task().get("chargedRestarts")) == ("1", {"1": "0"}))
    assert uid(job.pods["train-worker-0"]) == uid(second)


def test_conditions_of_other_writers_stay_as_they_are(team):
    others = [
        {"type": "QuotaReserved", "lastTransitionTime": "2026-01-01T08:00:00.123456789+08:00", "observedGeneration": 1},
        {"type": "example.com/Odd", "lastTransitionTime": "0000-01-01T00:00:00Z"},  # no time that Python can represent
    ]
    others = [{"status": "True", "reason": "r", "message": "m", **each} for each in others]
    job, _ = team.start(a_job("train", replicas(2), successRules=[{"worker": [0]}], cleanUpPolicy="All"))

    def added():
        body = job.body
        body["status"]["conditions"] = [*body["status"]["conditions"], *others]
        return job.server.replace_status(GENERIC_JOBS, job.key, body)

    eventually(added)  # a conflict with the controller is tried again
    job.pause()
    job.becomes("Paused")
    job.resume()
    job.has_pods(2)
    job.run(0, 1)
    job.finish(0)
    job.becomes("Succeeded")
    eventually(lambda: not job.pods)
    assert job.status["conditions"][6:] == others


def test_who_says_that_a_job_has_ended_has_ended_it(team):
    job, (pod, _) = team.start(a_job("train", replicas(2), cleanUpPolicy="All"))
    set_status(job, {"phase": "Failed"})
    eventually(lambda: is_gone(team.server, job.pod(0)) and is_gone(team.server, job.pod(1)))
    team.controller_is_up_to_date()
    assert job.phase == "Failed"
    assert not job.pods
    set_status(job, {"phase": "Running"})
    assert uid(job.has_pods(2)["train-worker-0"]) != uid(pod)


# ------------------------------------------------------------------------------------------------ controllers


def test_two_controllers_that_both_think_they_lead_are_in_each_others_way_and_no_more(team, cluster, audit, tmp_path):
    config = account_kubeconfig(cluster, team.server, tmp_path / "config")
    with controller(config, tmp_path / "log", "--namespace", team.namespace) as second:
        second.wait_ready()
        begin = audit.here
        ranks = range(8)
        job, pods = team.start(a_job("train", replicas(len(ranks)) | TWICE, cleanUpPolicy="All"))
        for _ in range(2):
            for pod in pods:
                team.node.finish(uid(pod), 1)
            pods = [job.run_again(pod) for pod in pods]
        job.pause()
        job.becomes("Paused")
        eventually(lambda: not job.pods)
        job.resume()
        job.has_pods(len(ranks))
        job.run(*ranks)
        for rank in ranks:
            job.finish(rank)
        status = job.becomes("Succeeded")
        eventually(lambda: not job.pods)
        assert second.terminate() == 0, second.log
    assert (status["restarts"], status["epoch"], status["resumes"]) == (2 * len(ranks), 1, 1)
    creates = audit.requests(since=begin, user=USER, verbs={"create"}, resource="pods", namespace=team.namespace)
    assert len([each for each in creates if each.code == 201]) == 4 * len(ranks)
