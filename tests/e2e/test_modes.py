"""Ways to run other than at once: pause and resume, suspend, debug, and jobs that others run."""

import pytest

from e2e.jobs import a_job, counts, marks, replicas, restarts, uid
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually

SERVICE = {"ports": [{"name": "http", "port": 80}]}
PROBE = {"exec": {"command": ["true"]}}


def paused(*resume, enabled=True):
    return {"pause": {"enabled": enabled, "resumeSpecs": [*resume]}}


def debugged(*specs):
    return {"debug": {"enabled": True, "replicaSpecs": [*specs]}}


def prepared(number=1, **container):
    """Replicas with an init container."""
    found = replicas(number, command=["train"], args=["--from", "scratch"], **container)
    found["template"]["spec"]["initContainers"] = [{"name": "fetch", "image": "app:1"}]
    return found


def words(pod):
    """What the first container of a pod is to do."""
    first = pod["spec"]["containers"][0]
    return first.get("command"), first.get("args"), [each["name"] for each in pod["spec"].get("initContainers", ())]


def uids(pods):
    return {uid(pod) for pod in pods}


# ------------------------------------------------------------------------------------------------ pause and resume


def test_a_pause_takes_all_pods_and_resuming_brings_all_back_with_other_words(team, record):
    again = {"type": "worker", "args": ["--from", "checkpoint-$(rank)"], "skipInitContainer": True}
    body = a_job("train", prepared(2) | restarts("OnFailure", 1), runMode=paused(again, enabled=False), service=SERVICE)
    job, old = team.start(body)
    assert words(old[0]) == (["train"], ["--from", "scratch"], ["fetch"])
    job.finish(1)  # it has to run again with the others
    eventually(lambda: job.task().get("succeededRanks") == "1")

    job.pause()
    status = job.becomes("Paused")
    assert not job.pods
    assert (status["epoch"], status.get("resumes", 0)) == (1, 0)
    assert {type for type, (holds, _, _) in job.conditions.items() if holds == "True"} == {"Initialized", "Paused"}
    eventually(lambda: job.aggregate == counts(deleted=2))
    assert len(job.services) == 2
    for delete in record(job).deletes():
        assert record(job).known_at(delete)["epoch"] == 1
    assert job.told("Paused")

    job.resume()
    status = job.becomes("Resuming")
    new = job.has_pods(2)
    assert [words(pod) for pod in new.values()] == [(["train"], ["--from", f"checkpoint-{rank}"], []) for rank in (0, 1)]
    assert {marks(pod)["epoch"] for pod in new.values()} == {"1"}
    job.run(0, 1)
    status = job.becomes("Running")
    assert (status["resumes"], job.task().get("succeededRanks"), status["restarts"]) == (1, None, 0)
    assert job.conditions["Paused"][0] == "False"

    restarted = job.fails_again(new["train-worker-0"])
    assert words(restarted) == (["train"], ["--from", "checkpoint-0"], [])  # for good, not for one pod
    job.finish(0)
    job.finish(1)
    job.becomes("Succeeded")


def test_who_changes_his_mind_while_pods_still_go_waits_for_their_end(team, record):
    job, old = team.start(a_job("train", replicas(2)))
    for pod in old:
        job.node.hold(uid(pod))
    job.pause()
    job.becomes("Pausing")
    eventually(lambda: job.status["terminating"] == 2 and job.conditions["Paused"][1:] == ("Pausing", "2 pods are still terminating."))
    assert all("deletionTimestamp" in pod["metadata"] for pod in job.pods.values())
    job.resume()
    job.becomes("Resuming")
    job.node.let_go(uid(old[0]), exit_code=0)  # no success: it was told to go
    eventually(lambda: list(job.pods) == ["train-worker-1"])
    team.controller_is_up_to_date()
    assert len(record(job).creates()) == 2

    job.node.let_go(uid(old[1]))
    new = [job.run_again(pod) for pod in old]
    assert {marks(pod)["epoch"] for pod in new} == {"1"}
    status = job.becomes("Running")
    assert (status["resumes"], status["restarts"], job.task().get("succeededRanks")) == (1, 0, None)


def test_who_changes_his_mind_while_pods_come_again_is_paused_again(team):
    job, _ = team.start(a_job("train", replicas(2)))
    for times in (1, 2):
        job.pause()
        job.becomes("Paused")
        assert not job.pods
        job.resume()
        job.becomes("Resuming")
        pods = job.has_pods(2)
        assert {marks(pod)["epoch"] for pod in pods.values()} == {str(times)}
    job.pause()
    job.becomes("Paused")
    assert not job.pods
    status = job.status
    assert (status["epoch"], status["resumes"]) == (3, 2)


def test_a_job_that_is_created_paused_begins_when_it_is_resumed(team, record):
    job = team.submit(a_job("train", prepared(2), runMode=paused({"type": "worker", "command": ["resume"]})))
    status = job.becomes("Paused")
    team.controller_is_up_to_date()
    assert not record(job).creates()
    assert status["aggregate"] == counts(deleted=2)
    job.resume()
    pods = job.has_pods(2)
    assert {str(words(pod)) for pod in pods.values()} == {str((["resume"], ["--from", "scratch"], ["fetch"]))}
    job.run(0, 1)
    job.becomes("Running")


def test_a_job_that_a_queue_admits_starts_with_its_own_command_and_resumes_when_it_was_taken_back(team):
    again = {"type": "worker", "command": ["resume"], "skipInitContainer": True}
    job = team.submit(a_job("train", prepared(1), suspend=True, runMode=paused(again, enabled=False)))
    assert job.becomes("Paused")["pausedBeforeStart"]
    job.edit(suspend=False)
    (first,) = job.has_pods(1).values()
    assert words(first) == (["train"], ["--from", "scratch"], ["fetch"])
    job.run(0)
    status = job.becomes("Running")
    assert (status.get("resumes", 0), status.get("pausedBeforeStart", False)) == (0, False)
    job.edit(suspend=True)
    job.becomes("Paused")
    job.edit(suspend=False)
    assert words(job.run_again(first)) == (["resume"], ["--from", "scratch"], [])
    assert job.becomes("Running")["resumes"] == 1


def test_both_switches_have_to_be_off(team):
    job, old = team.start(a_job("train", replicas(), suspend=False))
    job.edit(suspend=True)
    job.becomes("Paused")
    job.pause()
    job.edit(suspend=False)
    team.controller_is_up_to_date()
    assert (job.phase, job.pods) == ("Paused", {})
    job.edit(runMode={"pause": None})  # gone is as good as off
    job.run_again(old[0])
    status = job.becomes("Running")
    assert (status["epoch"], status["resumes"]) == (1, 1)


def test_pausing_a_finished_job_does_nothing(team, record):
    job, _ = team.start(a_job("train", replicas(2), successRules=[{"worker": [0]}]))
    job.finish(0)
    before = job.becomes("Succeeded")
    job.pause()
    team.controller_is_up_to_date()
    eventually(lambda: job.status["observedGeneration"] == job.body["metadata"]["generation"])
    assert (job.phase, job.conditions["Paused"][0]) == ("Succeeded", "False")
    assert (job.status["completionTime"], job.status.get("epoch", 0)) == (before["completionTime"], 0)
    assert job.has_pods(2)["train-worker-1"]["status"]["phase"] == "Running"
    assert not record(job).deletes()


# ------------------------------------------------------------------------------------------------ changes while paused


def test_a_paused_job_can_change_its_replicas(team):
    job, old = team.start(a_job("train", replicas(3), replicas(1, "server"), service=SERVICE))
    eventually(lambda: len(job.services) == 4)
    job.pause()
    job.becomes("Paused")
    assert not job.pods
    job.edit(replicaSpecs=[replicas(2), replicas(1, "chief")])
    eventually(lambda: sorted(job.services) == ["train-worker-0", "train-worker-1"])  # names of the new come with their pods
    eventually(lambda: [(task["type"], len(task["replicas"])) for task in job.status["tasks"]] == [("worker", 2), ("chief", 1)])
    assert job.aggregate == counts(deleted=3)

    job.resume()
    pods = job.has_pods(3)
    assert sorted(pods) == sorted(job.services) == ["train-chief-0", "train-worker-0", "train-worker-1"]
    assert uids(pods.values()).isdisjoint(uids(old))
    job.run(0, 1)
    job.run(0, type="chief")
    job.becomes("Running")  # as soon as one of them runs
    eventually(lambda: job.status["ready"] == "3/3")


def test_the_pod_of_a_rank_that_is_no_more_goes_when_it_can(team):
    """Its kubelet takes its time: the rank is taken away while its pod still ends."""
    job, old = team.start(a_job("train", replicas(2)))
    job.node.hold(job.pod(1))
    job.pause()
    job.becomes("Pausing")
    job.edit(replicaSpecs=[replicas(1)])
    eventually(lambda: job.aggregate == counts(deleted=1))
    job.resume()
    team.controller_is_up_to_date()
    job.node.let_go(job.pod(1))
    job.run_again(old[0])
    job.becomes("Running")
    assert list(job.has_pods(1)) == ["train-worker-0"]


# ------------------------------------------------------------------------------------------------ debug


def test_a_debugged_job_has_its_environment_and_not_its_work(team):
    spec = prepared(1, livenessProbe=PROBE, startupProbe=PROBE, readinessProbe=PROBE, env=[{"name": "MODE", "value": "real"}])
    spec["template"]["spec"]["containers"].append({"name": "helper", "image": "app:1", "command": ["help"], "livenessProbe": PROBE})
    job = team.submit(
        a_job(
            "train",
            spec,
            replicas(1, "server", command=["serve"]),
            runMode=debugged({"type": "server", "command": ["sshd", "-D", "$(type)"]}),
        )
    )
    pods = job.has_pods(2)
    worker = pods["train-worker-0"]
    assert words(worker) == (["sleep", "inf"], None, ["fetch"])
    assert words(pods["train-server-0"])[0] == ["sshd", "-D", "server"]
    main, helper = worker["spec"]["containers"]
    assert ("livenessProbe" in main, "startupProbe" in main, "readinessProbe" in main) == (False, False, True)
    assert main["env"] == [{"name": "MODE", "value": "real"}]
    assert (helper["command"], "livenessProbe" in helper) == (["help"], True)
    assert marks(worker)["debug"] == "true"


@pytest.mark.parametrize("code", [0, 1])
def test_how_a_debugged_rank_ends_says_nothing_and_costs_nothing(team, code):
    job, (pod,) = team.start(a_job("train", replicas() | restarts("Never"), runMode=debugged()))
    for _ in range(2):
        pod = job.fails_again(pod, code)
    assert (job.phase, job.status["restarts"]) == ("Running", 0)
    assert marks(pod) == {"epoch": "0", "attempt": "2", "charged-restarts": "0", "debug": "true"}
    assert (job.task().get("succeededRanks"), job.task().get("failedRanks")) == (None, None)


def test_debug_ends_with_the_next_pods(team):
    job, _ = team.start(a_job("train", prepared(), runMode=debugged() | paused({"type": "worker", "command": ["resume"]}, enabled=False)))
    job.edit(runMode={"debug": {"enabled": False}})
    team.controller_is_up_to_date()
    assert words(job.has_pods(1)["train-worker-0"])[0] == ["sleep", "inf"]  # a running pod is left alone
    job.pause()
    job.becomes("Paused")
    assert not job.pods
    job.resume()
    pod = job.has_pods(1)["train-worker-0"]
    assert words(pod) == (["resume"], ["--from", "scratch"], ["fetch"])
    assert "debug" not in marks(pod)
    job.node.run(uid(pod))
    job.finish(0)
    job.becomes("Succeeded")


def test_pause_wins_over_debug_and_debug_over_what_was_said_of_resuming(team, record):
    mode = paused({"type": "worker", "command": ["resume"]}) | debugged({"type": "worker", "skipInitContainer": True})
    job = team.submit(a_job("train", prepared(), runMode=mode))
    job.becomes("Paused")
    team.controller_is_up_to_date()
    assert not record(job).creates()
    job.resume()
    assert words(job.has_pods(1)["train-worker-0"]) == (["sleep", "inf"], None, [])


# ------------------------------------------------------------------------------------------------ others' jobs


def test_a_job_that_another_controller_runs_is_left_alone(team, record):
    job = team.submit(a_job("train", replicas(2), managedBy="kueue.x-k8s.io/multikueue"))
    job.edit(suspend=True)
    team.server.create(
        RAW_PODS, {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}, team.namespace
    )
    team.controller_is_up_to_date()
    assert job.status == {}
    assert not job.events
    assert not record(job).writes()
