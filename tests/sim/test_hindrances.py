"""What hinders a job is shown, costs little, and hinders nothing else."""

import pytest

from genericjob.jobs import applying, departures
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.local import store
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, RAW_PODS, RAW_SERVICES, Key
from harness import podgroups
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios import TRAIN, ranks

FORBIDDEN = ApiError(403, "Forbidden", "admission webhook denied the request")
TOO_LARGE = ApiError(500, "InternalError", "etcdserver: request is too large", unknown=True)
BROKEN = ApiError(500, "InternalError", "conversion webhook failed")
ALWAYS = 10**6


def told(cluster, reason):
    return [event for event in cluster.api.list(EVENTS).items if event["reason"] == reason]


def initialized(cluster):
    return next((found for found in cluster.status().conditions if found.type == "Initialized"), None)


def statuses(cluster):
    return sum(": after replace_status" in line for line in cluster.stepped.trace)


def test_a_service_that_is_refused_is_shown_and_costs_no_write_per_second():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]})
        cluster.reach_running()
        cluster.stepped.advance(30)
        cluster.faults.refuse(FORBIDDEN, "create", resource=RAW_SERVICES, times=ALWAYS)
        before = statuses(cluster)
        cluster.api.delete(RAW_SERVICES, Key(NAMESPACE, "train-worker-0"))
        cluster.stepped.advance(600)
        assert statuses(cluster) - before < 20
        assert (initialized(cluster).status, initialized(cluster).reason) == ("False", "FailedCreate")


@pytest.mark.parametrize("seed", range(20))
def test_an_end_counts_whose_pod_goes_while_a_controller_looks(monkeypatch, seed):
    real = departures.Departures.of
    with Cluster(seed, ranks(worker_0=Program(0.5), other=FOREVER)) as cluster:

        def slowly(self, uid):
            found = real(self, uid)
            cluster.stepped.me().process.pause("between two reads")
            return found

        monkeypatch.setattr(departures.Departures, "of", slowly)
        cluster.controller()
        cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
        cluster.stepped.reach(lambda: "Succeeded" in [pod["status"].get("phase") for pod in cluster.api.list(RAW_PODS).items])
        cluster.delete_pod("train-worker-0")
        cluster.stepped.advance(60)
        assert cluster.node.table.runs("train-worker-0") == 1


def test_a_group_that_cannot_be_read_is_shown_and_the_deadline_counts():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())
        cluster.faults.refuse(BROKEN, "get", resource=POD_GROUPS, times=ALWAYS)
        cluster.controller()
        cluster.submit(types={"worker": 2}, scheduler={"t9kScheduler": {}}, activeDeadlineSeconds=60)
        cluster.stepped.advance(30)
        assert (initialized(cluster).reason, initialized(cluster).message) == ("FailedCreate", "conversion webhook failed")
        cluster.stepped.advance(600)
        assert cluster.phase() == "Failed"


def test_deletes_do_not_wait_for_a_group():
    with Cluster(1, ranks(worker_0=(Program(30.0, 1), FOREVER), other=FOREVER)) as cluster:
        cluster.api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())
        cluster.controller()
        cluster.submit(types={"worker": 3}, scheduler={"t9kScheduler": {}}, restart={"policy": "OnFailure", "limit": 3})
        cluster.reach_running()
        cluster.faults.refuse(BROKEN, "get", resource=POD_GROUPS, times=ALWAYS)
        cluster.delete_pod("train-worker-1")
        cluster.stepped.advance(600)
        assert "train-worker-0" not in cluster.pods()


def test_a_deadline_counts_from_the_first_pod(monkeypatch):
    monkeypatch.setattr(applying, "AT_A_TIME", 5)
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller(latency=2.0, writers=1, workers=1)
        cluster.submit(types={"worker": 60}, activeDeadlineSeconds=10)
        cluster.stepped.advance(60)
        assert cluster.phase() == "Failed"


def test_what_is_told_of_a_clean_up_is_true(monkeypatch):
    monkeypatch.setattr(applying, "AT_A_TIME", 10)
    with Cluster(1, ranks(worker_0=Program(3.0), other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 41}, successRules=[{"worker": [0]}], cleanUpPolicy="Unfinished")
        cluster.reach_phase("Succeeded")
        cluster.stepped.advance(60)
        assert sum(int(event["message"].split()[1]) * event["count"] for event in told(cluster, "CleanedUp")) == 40


def test_a_delete_that_was_refused_for_a_while_does_not_spoil_a_job():
    with Cluster(1, ranks(worker_0=Program(3.0), other=FOREVER)) as cluster:
        cluster.faults.refuse(FORBIDDEN, "delete", resource=RAW_PODS, times=2)
        cluster.controller()
        cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}], cleanUpPolicy="All")
        cluster.reach_phase("Succeeded")
        cluster.stepped.advance(600)
        assert cluster.pods() == []
        assert initialized(cluster).status == "True"
        assert told(cluster, "FailedDelete")


def test_a_pod_that_may_not_be_deleted_does_not_keep_others_from_running_again():
    again = (Program(30.0, 1), FOREVER)
    with Cluster(1, ranks(worker_0=again, worker_1=again, other=FOREVER)) as cluster:
        cluster.faults.refuse(FORBIDDEN, "delete", resource=RAW_PODS, key=Key(NAMESPACE, "train-worker-0"), times=ALWAYS)
        cluster.controller()
        cluster.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3}, successRules=[{"worker": [2]}])
        cluster.reach_running()
        cluster.stepped.advance(1800)
        assert cluster.node.table.runs("train-worker-1") == 2
        tries = sum("refused delete pods default/train-worker-0" in line for line in cluster.stepped.trace)
        assert tries < 20


def test_rules_that_are_edited_so_that_they_never_fire_are_told():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}])
        cluster.reach_running()
        cluster.edit(successRules=[{"worker": [0]}, {"worker": [7]}])
        cluster.stepped.advance(60)
        assert [event["count"] for event in told(cluster, "RuleNeverFires")] == [1]


def test_a_spec_and_a_status_that_are_both_wrong_are_told_and_left_alone(caplog):
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        name = "j" * 60
        cluster.submit(name, types={"worker": 1})
        wrong = {"status": {"tasks": [{"type": "worker", "succeededRanks": "0,"}]}}
        cluster.api.patch(RAW_JOBS, Key(NAMESPACE, name), wrong, subresource="status")
        cluster.controller()
        cluster.stepped.advance(600)
        assert cluster.events() == {"InvalidSpec"}
        assert not [record for record in caplog.records if "unexpected" in record.getMessage()]


def test_a_job_that_leaves_no_room_for_its_status_ends_all_the_same(monkeypatch):
    with Cluster(1, ranks(other=Program(5.0, 1))) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 30})
        cluster.reach_running()
        monkeypatch.setattr(store, "OBJECT_LIMIT", 6_000)
        cluster.reach_phase("Failed")
        cluster.stepped.advance(60)
        (task,) = cluster.status().tasks
        assert (task.failed_ranks, task.replicas, task.unlisted) == ("0-29", (), 30)
        assert "does not fit" in told(cluster, "StatusTooLarge")[0]["message"]
        before = statuses(cluster)
        cluster.stepped.advance(600)
        assert statuses(cluster) == before


def test_a_status_for_which_there_is_no_room_at_all_is_told():
    with Cluster(1, ranks(other=Program(5.0, 1))) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 30})
        cluster.reach_running()
        cluster.faults.refuse(TOO_LARGE, "replace_status", times=ALWAYS)
        cluster.stepped.advance(600)
        assert cluster.phase() == "Running"
        assert any("cannot be stored" in event["message"] for event in told(cluster, "StatusTooLarge"))
        assert statuses(cluster) < 60
        cluster.faults.heal()
        cluster.reach_phase("Failed")


def test_so_is_a_status_with_a_time_that_has_no_zone():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.submit(types={"worker": 1})
        task = {"type": "worker", "unchargedRestarts": {"1": "0"}, "lastRestarts": {"2026-01-01": "0"}}
        cluster.api.patch(RAW_JOBS, TRAIN, {"status": {"tasks": [task]}}, subresource="status")
        cluster.controller()
        cluster.stepped.advance(600)
        assert cluster.events() == {"InvalidSpec"}


def test_a_job_that_is_edited_a_hundred_times_a_second_costs_little_and_others_run():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.reach_running()
        cluster.stepped.advance(30)
        before = cluster.written
        for number in range(1_000):
            cluster.edit(ttlSecondsAfterFinished=1_000 + number)
            cluster.stepped.advance(0.01)
            if number == 500:
                cluster.submit("other", types={"worker": 2})
        assert cluster.phase("other") == "Running"
        assert cluster.written - before < 60  # ten seconds: a status a second, conflicts, and the other job
        cluster.stepped.advance(10)
        assert cluster.status().observed_generation == cluster.api.get(RAW_JOBS, TRAIN)["metadata"]["generation"]
