"""What people read about a job."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.names import CONDITION_TYPES
from genericjob.api.status import Aggregate, Condition, GenericJobStatus
from genericjob.jobs.ledger import MOST_IN_A_ROW
from genericjob.jobs.observe import RanksOfType
from genericjob.jobs.status import condition, shortened, troubled
from genericjob.jobs.tasks import LISTED
from genericjob.reconcile.objects import Condition as PodCondition
from unit.jobs import NOW, a_job, a_pod, later, planned, pods, settled


def status(job, found=(), **more):
    return planned(job, found, **more).status


def told(found, type):
    one = condition(found, type)
    return one.status, one.reason, one.message


def test_a_new_job_is_pending_and_waits_for_its_pods():
    found = status(a_job().type("worker", 4))
    assert found.phase == "Pending"
    assert found.ready == "0/4"
    assert found.aggregate == Aggregate(creating=4)
    assert told(found, "Initialized") == ("False", "Creating", "4 of 4 pods are still to be created.")
    assert (found.start_time, found.completion_time, found.observed_generation) == (NOW, None, 1)


def test_all_six_conditions_are_always_there():
    assert tuple(found.type for found in status(a_job().type("worker", 1)).conditions) == CONDITION_TYPES


def test_a_condition_that_an_earlier_version_knew_is_dropped():
    known = (Condition("Initializing", "True", "Initializing", "Pods are being created.", NOW), Condition("Paused", "False", "x", "", NOW))
    found = status(a_job().type("worker", 1).status(GenericJobStatus(conditions=known)), now=later(60))
    assert tuple(one.type for one in found.conditions) == CONDITION_TYPES
    assert condition(found, "Paused").last_transition_time == NOW


def test_a_job_runs_once_every_rank_has_a_pod_and_one_of_them_runs():
    job = a_job().type("worker", 2)
    assert status(job, pods(worker=["Pending", "Pending"])).phase == "Pending"
    assert status(job, pods(worker=["Running", None])).phase == "Pending"
    found = status(job, pods(worker=["Running", "Pending"]))
    assert found.phase == "Running"
    assert told(found, "Initialized") == ("True", "Initialized", "The job has been initialized successfully.")
    assert told(found, "Running") == ("True", "Running", "All pods are running normally.")
    assert told(found, "ReplicaFailure") == ("False", "NoFailure", "All pods are running normally.")


def test_a_running_job_stays_so_when_a_rank_is_created_again():
    job = settled(a_job().type("worker", 2), pods(worker=["Running", "Running"]))
    found = status(job, pods(worker=["Running", None]))
    assert found.phase == "Running"
    assert told(found, "Initialized")[0] == "True"


def test_a_job_of_which_nothing_is_heard_is_unknown():
    job = settled(a_job().type("worker", 2), pods(worker=["Running", "Running"]))
    assert status(job, pods(worker=["Unknown", "Unknown"])).phase == "Unknown"
    assert status(job, pods(worker=["Unknown", "Running"])).phase == "Running"
    job = settled(job, pods(worker=["Unknown", "Unknown"]))
    assert status(job, pods(worker=["Running", "Running"])).phase == "Running"
    assert status(job, pods(worker=["Running", None])).phase == "Running"  # the other one is made anew, and the job ran before
    assert status(job, pods(worker=["Pending", None])).phase == "Pending"


def test_success_is_told_in_every_condition():
    found = status(a_job().type("worker", 1), pods(worker=["Succeeded"]))
    end = ("Succeeded", "The job has finished successfully.")
    assert told(found, "Completed") == ("True", *end)
    assert told(found, "Failed") == ("False", *end)
    assert told(found, "Running") == ("False", *end)
    assert found.completion_time == NOW
    assert found.ready == "1/1"


def test_a_failed_job_is_not_completed():
    found = status(
        a_job().type("worker", 2).failure({"worker": [1]}), pods(worker=["Running", a_pod("train-worker-1", "Failed", exit_code=3)])
    )
    end = ("Failed", 'The job is failed with rule: {"worker":[1]}')
    assert told(found, "Completed") == ("False", *end)
    assert told(found, "Failed") == ("True", *end)
    assert told(found, "ReplicaFailure") == ("True", "ErrorInPod", "Pod[train-worker-1] exited with error code 3")


def test_a_pod_that_failed_without_an_exit_code_tells_its_reason():
    evicted = a_pod("train-worker-0", "Failed", exit_code=0, reason="Evicted")
    assert told(status(a_job().type("worker", 1), [evicted]), "ReplicaFailure")[2] == "Pod[train-worker-0] failed: Evicted"


def test_what_is_known_of_a_pod_stays_when_it_is_gone():
    job = a_job().type("worker", 2).success({"worker": [1]}).failure({"worker": [1]})
    job = settled(job, pods(worker=[a_pod("train-worker-0", "Failed", exit_code=7, uid="abc"), "Running"]))
    gone = status(job, pods(worker=[None, "Running"])).tasks[0].replicas[0]
    assert (gone.phase, gone.uid, gone.containers[0].exit_code) == ("Deleted", "abc", 7)


def test_after_the_end_a_pod_that_goes_was_deleted_and_nobody_creates_one():
    job = settled(a_job().type("worker", 3).success({"worker": [0]}), pods(worker=["Succeeded", a_pod("train-worker-1", uid="abc"), None]))
    found = status(job, pods(worker=["Succeeded", None, None]))
    assert found.aggregate == Aggregate(succeeded=1, deleted=2)
    assert [(one.phase, one.uid) for one in found.tasks[0].replicas[1:]] == [("Deleted", "abc"), ("Deleted", "")]
    assert found.tasks[0].absent_ranks == "1-2"


def test_a_pod_that_comes_after_the_end_makes_no_job_initialized():
    job = settled(a_job().type("worker", 2).success({"worker": [0]}), pods(worker=["Succeeded", None]))
    assert told(job.build().status, "Initialized")[0] == "False"
    assert told(status(job, pods(worker=["Succeeded", "Pending"])), "Initialized")[0] == "False"


def test_of_a_pod_that_was_deleted_while_it_ran_nothing_untrue_is_said():
    job = settled(a_job().type("worker", 2).success({"worker": [0]}), pods(worker=["Succeeded", "Running"]))
    assert status(job, pods(worker=["Succeeded", None])).tasks[0].replicas[1].containers == ()


def test_conditions_change_their_time_only_with_their_status():
    job = settled(a_job().type("worker", 2), pods(worker=["Running", None]))
    found = status(job, pods(worker=["Running", "Running"]), now=later(60))
    times = {one.type: one.last_transition_time for one in found.conditions}
    assert times["Initialized"] == times["Running"] == later(60)
    assert times["ReplicaFailure"] == times["Completed"] == NOW


def test_times_are_written_in_whole_seconds():
    found = status(a_job().type("worker", 1), now=NOW.replace(microsecond=123456))
    assert found.start_time == NOW
    assert b"123456" not in msgspec.json.encode(found)


def test_trouble_stays_until_the_pods_exist_or_the_spec_changes():
    job = a_job().type("worker", 2)
    job.status(troubled(status(job), "FailedCreate", "exceeded quota", NOW, stored=GenericJobStatus()))
    assert told(status(job), "Initialized") == ("False", "FailedCreate", "exceeded quota")
    assert told(status(job.generation(2)), "Initialized")[1] == "Creating"
    assert told(status(job.generation(1), pods(worker=["Pending", "Pending"])), "Initialized")[0] == "True"


def test_a_job_is_initialized_only_once_it_has_its_services():
    job = a_job().type("worker", 2).having(service={"ports": [{"port": 80}]})
    running = pods(worker=["Running", "Running"])
    found = status(job, running, services={"train-worker-0"})
    assert told(found, "Initialized") == ("False", "Creating", "1 of 2 services are still to be created.")
    job.status(troubled(found, "NameConflict", "somebody else's", NOW, stored=found))
    assert told(status(job, running, services={"train-worker-0"}), "Initialized") == ("False", "NameConflict", "somebody else's")
    assert told(status(job, running, services={"train-worker-0", "train-worker-1"}), "Initialized")[0] == "True"


def test_trouble_changes_nothing_else():
    before = status(a_job().type("worker", 2))
    after = troubled(before, "FailedCreate", "no", later(5), stored=before)
    assert {one.type for one in after.conditions} == set(CONDITION_TYPES)
    assert [one for one in after.conditions if one.type != "Initialized"] == [one for one in before.conditions if one.type != "Initialized"]


def test_trouble_has_lasted_since_it_was_stored():
    job = settled(a_job().type("worker", 1), pods(worker=["Running"]))
    initialized = job.build().status
    first = troubled(initialized, "FailedCreate", "no", later(5), stored=initialized)
    second = troubled(initialized, "FailedCreate", "still no", later(9), stored=first)
    assert [condition(one, "Initialized").last_transition_time for one in (first, second)] == [later(5), later(5)]


def test_messages_have_an_end():
    found = status(a_job().type("worker", 1))
    told = condition(troubled(found, "FailedCreate", "x" * 2_000_000, NOW, stored=found), "Initialized").message
    assert len(told) == 1024
    assert told.endswith("…")


def test_nobody_runs_normally_before_anybody_runs():
    assert told(status(a_job().type("worker", 1), pods(worker=["Pending"])), "ReplicaFailure")[2] == "No replica has failed."


def test_a_job_that_ends_before_it_began_says_so():
    found = status(a_job().type("worker", 2).success({"nobody": [0]}))
    assert told(found, "Initialized") == (
        "False",
        "NoSuccessRuleReachable",
        "The job ended before all of its replicas were created.",
    )


def test_many_containers_count_as_many_replicas():
    template = {"spec": {"containers": [{"name": f"c{n}"} for n in range(16)]}}
    found = status(a_job().type("worker", LISTED // 10, template=template), pods(worker=["Running"] * (LISTED // 10)))
    assert found.tasks[0].replicas == ()


def test_of_many_replicas_only_those_that_failed_are_listed():
    count = LISTED + 1
    found = status(a_job().type("worker", count).success({"worker": [0]}), pods(worker=["Running"] * (count - 1) + ["Failed"]))
    assert [replica.name for replica in found.tasks[0].replicas] == [f"train-worker-{count - 1}"]
    assert found.aggregate == Aggregate(running=count - 1, failed=1)


def test_ten_thousand_failing_ranks_fit_into_an_object():
    found = status(a_job().type("worker", 10_000).success({"worker": [0]}), pods(worker=["Running"] + ["Failed"] * 9_999))
    assert found.tasks[0].failed_ranks == "1-9999"
    assert len(msgspec.json.encode(found)) < 100_000


def test_so_do_those_of_a_hundred_types():
    job, failed = a_job(), []
    for number in range(100):
        job.type(f"type-{number}", 100)
        failed += [a_pod(f"train-type-{number}-{rank}", "Failed") for rank in range(100)]
    found = status(job.failure({"type-0": [0]}), failed)
    assert sum(len(task.replicas) for task in found.tasks) == 100
    assert sum(task.unlisted for task in found.tasks) == 9_900
    assert len(msgspec.json.encode(found)) < 100_000


def test_a_list_says_how_many_are_not_in_it():
    assert status(a_job().type("worker", 3), pods(worker=["Running"] * 3)).tasks[0].unlisted == 0
    assert status(a_job().type("worker", 2_000), pods(worker=["Failed"] * 1 + ["Running"] * 1_999)).tasks[0].unlisted == 1_999


def test_a_status_in_brief_has_all_that_decisions_need():
    job = a_job().type("worker", 3, restartPolicy={"policy": "OnFailure", "limit": 9})
    long = status(job, pods(worker=["Running", "Failed", None]))
    short = shortened(long)
    (task,) = short.tasks
    assert (task.replicas, task.status, task.failures, task.unlisted) == ((), (), (), 3)
    assert planned(job.status(short), pods(worker=["Running"])).pods == planned(job.status(long), pods(worker=["Running"])).pods


def test_a_status_survives_the_server():
    found = status(a_job().type("worker", 3), pods(worker=["Running", "Failed", None]))
    assert msgspec.json.decode(msgspec.json.encode(found), type=GenericJobStatus) == found


PHASES = st.sampled_from([None, "", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Odd"])


@given(st.lists(PHASES, max_size=6), st.lists(PHASES, max_size=3), st.lists(st.booleans(), min_size=9, max_size=9))
def test_counts_always_sum_to_the_total(workers, servers, deleted):
    job = a_job().type("worker", len(workers)).type("server", len(servers))
    found = [
        a_pod(f"train-{type}-{rank}", phase, deleted=deleted[rank])
        for type, phases in (("worker", workers), ("server", servers))
        for rank, phase in enumerate(phases)
        if phase is not None
    ]
    counted = msgspec.structs.astuple(status(job, found).aggregate)
    assert sum(counted) == len(workers) + len(servers)
    assert sum(msgspec.structs.astuple(status(settled(job, found)).aggregate)) == len(workers) + len(servers)


@pytest.mark.parametrize("text", ["", "-"])
def test_a_reason_that_others_wrote_can_be_read(text):
    data = b'{"conditions":[{"type":"Running","status":"True","reason":"%s","message":"","lastTransitionTime":"2021-01-18T02:36:09Z"}]}'
    assert msgspec.json.decode(data % text.encode(), type=GenericJobStatus).conditions[0].reason == text


# ------------------------------------------------------------------------------------------------ restarts


def test_a_failure_is_shown_until_the_replacement_runs():
    job = a_job().type("worker", 2, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(job, pods(worker=["Running", "Running"]))
    job = settled(job, pods(worker=["Running", a_pod("train-worker-1", "Failed", exit_code=7)]))
    assert told(job.build().status, "ReplicaFailure") == ("True", "ErrorInPod", "Pod[train-worker-1] exited with error code 7")
    job = settled(job, pods(worker=["Running", a_pod("train-worker-1", "Pending", attempt=1)]))
    assert told(job.build().status, "ReplicaFailure") == ("True", "ErrorInPod", "Pod[train-worker-1] exited with error code 7")
    assert job.build().status.phase == "Running"
    found = status(job, pods(worker=["Running", a_pod("train-worker-1", attempt=1)]))
    assert told(found, "ReplicaFailure") == ("False", "NoFailure", "All pods are running normally.")
    assert (found.restarts, found.tasks[0].restart_count) == (1, 1)


def test_a_rank_that_waits_for_its_restart_is_being_created():
    job = a_job().type("worker", 2, restartPolicy={"policy": "OnFailure", "limit": 3})
    found = status(job, pods(worker=["Running", "Failed"]))
    assert found.aggregate == Aggregate(running=1, creating=1)


def test_small_jobs_list_their_replicas_under_the_old_name_too():
    (task,) = status(a_job().type("worker", 100), pods(worker=["Running"] * 100)).tasks
    assert task.status == task.replicas != ()
    (task,) = status(a_job().type("worker", 101), pods(worker=["Running"] * 101)).tasks
    assert task.status == ()


def test_of_ten_thousand_ranks_that_failed_differently_the_status_stays_small():
    job = a_job().type("worker", 10_000, restartPolicy={"policy": "OnFailure", "limit": 9})
    failed = [
        a_pod(f"train-worker-{rank}", "Failed", exit_code=rank % 255 + 1, message="ä" * 5_000, node="n" * 250) for rank in range(10_000)
    ]
    found = status(job, failed)
    (task,) = found.tasks
    assert len(task.failures) == 100
    assert all(len(failure.message.encode()) <= 256 for failure in task.failures)
    assert sum(task.failed_exit_codes.values()) == 10_000
    assert len(task.failed_exit_codes) <= 65
    assert len(msgspec.json.encode(found)) < 100_000


def test_details_of_failures_are_for_a_hundred_ranks_of_all_types_together():
    job = (
        a_job()
        .type("a", 80, restartPolicy={"policy": "OnFailure", "limit": 9})
        .type("b", 80, restartPolicy={"policy": "OnFailure", "limit": 9})
    )
    found = settled(job, pods(a=["Failed"] * 80, b=["Failed"] * 80)).build().status
    assert [len(task.failures) for task in found.tasks] == [80, 20]


def test_a_rank_that_ended_well_although_it_was_to_make_room_has_succeeded():
    ended = a_pod("train-worker-0", "Succeeded", conditions=(PodCondition("DisruptionTarget", "True", "", ""),))
    found = status(a_job().type("worker", 1), [ended])
    assert (found.phase, found.tasks[0].succeeded_ranks, found.tasks[0].uncharged_restarts) == ("Succeeded", "0", {})


def test_restarts_of_the_whole_job_in_a_row_are_counted_until_the_wait_is_at_its_longest():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 99, "scope": "Job"})
    for epoch in range(30):
        settled(job, [a_pod("train-worker-0", "Failed", epoch=epoch)], now=later(epoch))
    found = job.build().status
    assert (found.job_restarts, found.job_restarts_in_a_row) == (30, MOST_IN_A_ROW)


def test_which_ranks_have_not_ended_is_worked_out_a_few_times_and_not_for_each_rank(monkeypatch):
    asked = []
    work_out = RanksOfType.open.fget
    monkeypatch.setattr(RanksOfType, "open", property(lambda part: asked.append(part) or work_out(part)))
    job = a_job().type("worker", 1_000).having(activeDeadlineSeconds=10)
    settled(job)
    settled(job, now=later(20))
    found = status(job, now=later(30))
    assert found.tasks[0].absent_ranks == "0-999"
    assert len(asked) < 30


def test_a_failure_of_before_a_pause_is_history():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(job, pods(worker=["Failed"]))
    job = settled(job, [a_pod("train-worker-0", attempt=1)])
    job = settled(job.having(suspend=True), [a_pod("train-worker-0", attempt=1)])
    job = settled(job.having(suspend=False), now=later(60))
    assert told(job.build().status, "ReplicaFailure")[0] == "False"


def test_a_pod_that_was_deleted_has_not_failed():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(job, pods(worker=["Failed"]))
    running = a_pod("train-worker-0", attempt=1)
    job = settled(job, [running])
    assert told(status(job, departed=[running]), "ReplicaFailure")[0] == "False"


def test_who_failed_for_good_is_named_before_who_runs_again():
    job = a_job().type("a", 1, restartPolicy={"policy": "OnFailure", "limit": 3}).type("b", 1).failure({"b": [0]})
    job = settled(job, pods(a=["Failed"], b=["Running"]))
    found = status(job, pods(b=[a_pod("train-b-0", "Failed", exit_code=9)]))
    assert told(found, "ReplicaFailure")[2] == "Pod[train-b-0] exited with error code 9"


def test_why_a_whole_job_is_started_again_is_told_until_it_runs_whoever_waits():
    job = a_job().type("worker", 2, restartPolicy={"policy": "OnFailure", "limit": 3, "scope": "Job"})
    stuck = a_pod("train-worker-0", "Running", deleted=True)
    job = settled(job, [stuck, a_pod("train-worker-1", "Failed")], now=later(60))
    reason, message = told(job.build().status, "Running")[1:]
    assert reason == "RestartingJob"
    assert "Pod[train-worker-1] exited" in message
    assert "Pod[train-worker-0]" in message
    assert told(status(job, now=later(61)), "Running")[1:] == (
        "RestartingJob",
        "All replicas are started again: Pod[train-worker-1] exited with error code 1",
    )


def test_who_waits_for_its_next_try_is_named_with_the_time():
    job = a_job().type("worker", 2, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(job, pods(worker=["Running", "Running"]))
    job = settled(job, pods(worker=["Running", "Failed"]))
    job = settled(job, pods(worker=["Running", a_pod("train-worker-1", "Failed", attempt=1)]), now=later(10))
    assert told(status(job, pods(worker=["Running"]), now=later(10)), "Running") == (
        "True",
        "Running",
        "The job goes on although replicas have failed; Pod[train-worker-1] is started again at 12:00:11Z.",
    )
