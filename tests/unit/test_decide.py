"""Given these pods, this plan."""

import pytest
from msgspec import structs

from genericjob.api.names import Rank
from genericjob.jobs.decide import Try, remarks
from genericjob.reconcile.objects import Condition
from unit.jobs import a_job, a_pod, later, planned, pods, settled


def ranks(type, *numbers):
    return tuple(Rank(type, number) for number in numbers)


def tries(type, *numbers):
    return tuple(Try(rank) for rank in ranks(type, *numbers))


def test_a_new_job_gets_a_pod_for_each_rank_and_nothing_has_to_be_stored_first():
    plan = planned(a_job().type("master", 1).type("worker", 2))
    assert plan.pods == tries("master", 0) + tries("worker", 0, 1)
    assert plan.services == plan.deletes == plan.news == ()
    assert not plan.must_remember


def test_with_a_service_each_rank_gets_one():
    job = a_job().type("worker", 3).having(service={"ports": [{"port": 80}]})
    plan = planned(job, pods(worker=["Running"] * 3), services={"train-worker-1"})
    assert plan.services == ranks("worker", 0, 2)
    assert plan.pods == ()


def test_a_service_without_ports_is_none():
    assert planned(a_job().type("worker", 1).having(service={})).services == ()


def test_only_missing_pods_are_created():
    plan = planned(a_job().type("worker", 3), pods(worker=["Running", None, "Pending"]))
    assert plan.pods == tries("worker", 1)


def test_a_pod_that_is_going_is_waited_for():
    plan = planned(a_job().type("worker", 2), pods(worker=["Running", a_pod("train-worker-1", deleted=True)]))
    assert plan.pods == ()


def test_a_job_that_ends_is_stored_before_anything_else():
    plan = planned(a_job().type("worker", 2).success({"worker": [0]}), pods(worker=["Succeeded", "Running"]))
    assert plan.must_remember
    assert plan.status.phase == "Succeeded"
    assert plan.pods == plan.deletes == ()
    assert [(news.type, news.reason) for news in plan.news] == [("Normal", "Succeeded"), ("Normal", "LeftRunning")]


def test_a_job_that_ends_creates_nothing_more():
    plan = planned(a_job().type("worker", 3).failure({"worker": [1]}), pods(worker=[None, "Failed", "Running"]))
    assert (plan.status.phase, plan.pods) == ("Failed", ())
    assert (plan.news[0].type, plan.news[0].message) == ("Warning", 'The job is failed with rule: {"worker":[1]}')


def test_a_terminal_phase_is_final():
    job = settled(a_job().type("worker", 1), pods(worker=["Failed"]))
    plan = planned(job, pods(worker=["Succeeded"]), now=later(60))
    assert plan.status.phase == "Failed"
    assert plan.status.completion_time == job.build().status.completion_time
    assert plan.news == ()


def test_after_the_end_nothing_is_created_for_a_pod_that_vanished():
    job = settled(a_job().type("worker", 2), pods(worker=["Failed", "Running"]))
    assert planned(job).pods == ()


def test_a_pod_that_appears_after_the_end_is_deleted():
    job = settled(a_job().type("worker", 3).failure({"worker": [0]}), pods(worker=["Failed", "Running", None]))
    late = a_pod("train-worker-2", "Pending")
    assert planned(job, [*pods(worker=["Failed", "Running"]), late]).deletes == (late,)
    assert planned(job, pods(worker=["Failed", "Running"])).deletes == ()


def test_so_is_one_of_a_rank_that_had_one_at_the_end_and_lost_it_since():
    job = settled(a_job().type("worker", 2).failure({"worker": [0]}), pods(worker=["Failed", "Running"]))
    job = settled(job, pods(worker=["Failed", None]))
    again = a_pod("train-worker-1", "Pending", uid="another")
    assert planned(job, pods(worker=["Failed", again])).deletes == (again,)


def test_a_late_pod_that_is_already_going_is_left_to_go():
    job = settled(a_job().type("worker", 2).failure({"worker": [0]}), pods(worker=["Failed", None]))
    assert planned(job, [*pods(worker=["Failed"]), a_pod("train-worker-1", deleted=True)]).deletes == ()


def test_a_rank_that_has_ended_and_runs_once_more_is_stopped_when_its_end_is_stored():
    job = settled(a_job().type("worker", 2), pods(worker=["Succeeded", "Running"]))
    again = a_pod("train-worker-0", "Pending", uid="another")
    plan = planned(job, pods(worker=[again, "Running"]))
    assert plan.deletes == (again,)
    assert plan.must_confirm
    assert plan.status.phase == "Running"


def test_so_is_one_of_a_job_that_has_ended():
    job = settled(a_job().type("worker", 1), pods(worker=["Succeeded"]))
    again = a_pod("train-worker-0", "Running", uid="another")
    assert planned(job, [again]).deletes == (again,)
    assert planned(job, pods(worker=["Succeeded"])).deletes == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_stored_outcome_is_never_run_again(phase):
    job = a_job().type("worker", 2).success({"worker": [1]}).failure({"worker": [1]})
    job = settled(job, pods(worker=[phase, "Running"]))
    plan = planned(job, pods(worker=[None, "Running"]))
    assert plan.pods == ()
    assert plan.status.tasks[0].replicas[0].phase == "Deleted"


def test_an_outcome_that_was_seen_counts_although_its_pod_is_gone_and_is_stored_at_once():
    job = a_job().type("worker", 2)
    plan = planned(job, pods(worker=[None, "Running"]), departed=[a_pod("train-worker-0", "Succeeded")])
    assert plan.pods == ()
    assert plan.must_remember
    assert plan.status.tasks[0].succeeded_ranks == "0"


def test_a_pod_that_was_asked_to_go_before_it_ended_has_no_outcome():
    plan = planned(a_job().type("worker", 1), [a_pod("train-worker-0", "Failed", deleted=True)])
    assert plan.status.phase == "Pending"
    assert plan.status.tasks[0].failed_ranks == ""
    assert not plan.must_remember


def in_the_way(name):
    return structs.replace(a_pod(name, "Failed"), conditions=(Condition("DisruptionTarget", "True", "DeletionByPodGC", ""),))


def test_a_pod_that_was_in_the_way_has_not_failed_and_its_rank_runs_again():
    job, pod = settled(a_job().type("worker", 2), pods(worker=["Running", "Running"])), in_the_way("train-worker-1")
    plan = planned(job, pods(worker=["Running", pod]))
    assert plan.status.phase == "Running"
    assert plan.status.tasks[0].failed_ranks == ""
    assert plan.deletes == (pod,)
    assert planned(job, pods(worker=["Running"])).pods == tries("worker", 1)


def test_a_disruption_that_is_over_is_none():
    pod = structs.replace(a_pod("train-worker-0", "Failed"), conditions=(Condition("DisruptionTarget", "False", "", ""),))
    assert planned(a_job().type("worker", 1), [pod]).status.phase == "Failed"


def test_an_unfinished_pod_that_vanished_is_created_again():
    job = settled(a_job().type("worker", 2), pods(worker=["Running", "Running"]))
    assert planned(job, pods(worker=["Running"])).pods == tries("worker", 1)


def test_why_a_job_failed_before_it_began_is_said():
    plan = planned(a_job().type("worker", 1).success({"worker": [4]}))
    assert [news.reason for news in plan.news] == ["NoSuccessRuleReachable"]


def test_a_rule_that_never_fires_is_said():
    told = remarks(a_job().type("worker", 1).success({"worker": [0]}, {"worker": [4]}).build())
    assert [news.reason for news in told] == ["RuleNeverFires"]


def test_a_second_look_without_a_change_changes_nothing():
    found = pods(worker=["Running", "Failed", None, "Pending"])
    job = a_job().type("worker", 4).success({"worker": [0]})
    job = settled(job, found)
    assert planned(job, found, now=later(100)).status == job.build().status


def test_a_service_that_is_gone_is_made_again_only_if_the_job_can_still_be_written():
    job = a_job().type("worker", 2).having(service={"ports": [{"port": 80}]})
    there = pods(worker=["Running", "Running"])
    assert not planned(job, there).must_confirm
    job = settled(job, there, services=["train-worker-0", "train-worker-1"])
    plan = planned(job, there, services=["train-worker-0"])
    assert plan.must_confirm
    assert plan.services == ranks("worker", 1)


def test_services_of_ranks_that_are_no_more_go_even_after_the_end():
    job = a_job().type("worker", 1).having(service={"ports": [{"port": 80}]})
    job = settled(job, pods(worker=["Succeeded"]), services=["train-worker-0", "train-worker-1"])
    plan = planned(job, pods(worker=["Succeeded"]), services=["train-worker-0", "train-worker-1"])
    assert [found.name for found in plan.deletes] == ["train-worker-1"]


def test_types_that_modes_speak_of_and_nobody_has_are_said():
    mode = {"debug": {"replicaSpecs": [{"type": "worker"}, {"type": "ps"}]}, "pause": {"resumeSpecs": [{"type": "wroker"}]}}
    told = remarks(a_job().type("worker", 1).having(runMode=mode).build())
    assert [(news.reason, news.message) for news in told] == [
        ("UnknownType", "runMode.debug.replicaSpecs[1]: there is no replica of type 'ps'"),
        ("UnknownType", "runMode.pause.resumeSpecs[0]: there is no replica of type 'wroker'"),
    ]
