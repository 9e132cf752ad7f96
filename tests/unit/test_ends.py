"""What comes with the end of a job and after it: deadline, clean-up, expiry."""

import pytest

from genericjob.jobs.status import condition
from genericjob.reconcile.objects import Condition
from unit.jobs import NOW, a_job, a_pod, debugged, later, planned, pods, settled

FAILED = {"failureRules": [{"worker": [0]}]}


def a_worker(**spec):
    return a_job().type("worker", 4).having(**spec)


def names(found):
    return [pod.name.removeprefix("train-worker-") for pod in found]


# ------------------------------------------------------------------------------------------------ clean-up


@pytest.mark.parametrize(("policy", "gone"), [("None", []), ("Unfinished", ["1", "2", "3"]), ("All", ["0", "1", "2", "3"])])
def test_the_end_is_stored_before_any_pod_goes(policy, gone):
    there = pods(worker=["Failed", "Running", "Pending", "Unknown"])
    job = a_worker(cleanUpPolicy=policy, **FAILED)
    plan = planned(job, there)
    assert plan.must_remember
    assert plan.deletes == ()
    plan = planned(job.status(plan.status), there)
    assert names(plan.deletes) == gone
    assert len(plan.cleaned_up) == len(gone)


def test_a_policy_may_be_changed_after_the_end():
    there = pods(worker=["Failed", "Running", "Running", "Succeeded"])
    job = settled(a_worker(**FAILED), there)
    assert planned(job, there).deletes == ()
    assert names(planned(job.having(cleanUpPolicy="Unfinished"), there).deletes) == ["1", "2"]


def test_an_end_that_was_not_stored_is_stored_before_its_pod_goes():
    job = settled(a_worker(**FAILED), pods(worker=["Failed", "Running", "Running", "Running"]))
    plan = planned(job.having(cleanUpPolicy="All"), pods(worker=["Failed", "Succeeded", "Failed", "Running"]))
    assert plan.must_remember
    (task,) = plan.status.tasks
    assert (task.succeeded_ranks, task.failed_ranks) == ("1", "0,2")


def test_what_is_known_of_pods_that_were_cleaned_up_stays():
    there = pods(worker=["Failed", "Running", "Running", "Running"])
    job = settled(a_worker(cleanUpPolicy="All", **FAILED), there)
    status = planned(job).status
    assert [replica.phase for replica in status.tasks[0].replicas] == ["Deleted"] * 4
    assert status.tasks[0].replicas[0].uid == "uid-of-train-worker-0"
    assert status.tasks[0].replicas[0].containers[0].exit_code == 1
    assert (status.aggregate.deleted, status.phase) == (4, "Failed")


def test_who_is_left_running_is_said():
    plan = planned(a_worker(**FAILED), pods(worker=["Failed", "Running", "Running", "Succeeded"]))
    assert [news.message for news in plan.news if news.reason == "LeftRunning"] == [
        "2 pods still run, because spec.cleanUpPolicy is None",
    ]


# ------------------------------------------------------------------------------------------------ deadline


def test_a_job_that_is_active_for_too_long_fails_and_its_unfinished_pods_go():
    job = settled(a_worker(activeDeadlineSeconds=60), pods(worker=["Running"] * 4))
    plan = planned(job, pods(worker=["Running"] * 4), now=later(59))
    assert (plan.status.phase, plan.look_again) == ("Running", later(60))
    plan = planned(job, pods(worker=["Succeeded", "Running", "Running", "Running"]), now=later(60))
    assert (plan.status.phase, condition(plan.status, "Failed").reason) == ("Failed", "DeadlineExceeded")
    plan = planned(job.status(plan.status), pods(worker=["Succeeded", "Running", "Running", "Running"]), now=later(61))
    assert names(plan.deletes) == ["1", "2", "3"]


def test_rules_come_before_the_deadline():
    job = settled(a_worker(activeDeadlineSeconds=60, successRules=[{"worker": [0]}]), pods(worker=["Running"] * 4))
    assert planned(job, pods(worker=["Succeeded"]), now=later(3600)).status.phase == "Succeeded"


def test_the_time_of_pauses_does_not_count():
    job = settled(a_worker(activeDeadlineSeconds=60), pods(worker=["Running"] * 4))
    job = settled(job.having(suspend=True), now=later(50))
    assert planned(job, now=later(10_000)).status.phase == "Paused"
    assert planned(job, now=later(10_000)).look_again is None
    job = settled(job.having(suspend=False), now=later(1050))
    there = [a_pod(f"train-worker-{rank}", epoch=1) for rank in range(4)]
    assert planned(job, there, now=later(1059)).look_again == later(1060)
    assert planned(job, there, now=later(1060)).status.phase == "Failed"


def test_a_deadline_may_be_changed():
    job = settled(a_worker(activeDeadlineSeconds=60), pods(worker=["Running"] * 4))
    assert planned(job.having(activeDeadlineSeconds=600), pods(worker=["Running"] * 4), now=later(60)).status.phase == "Running"


def test_a_clock_that_was_set_back_ends_nothing():
    job = settled(a_worker(activeDeadlineSeconds=60), pods(worker=["Running"] * 4))
    plan = planned(job, pods(worker=["Running"] * 4), now=later(-3600))
    assert (plan.status.phase, plan.look_again) == ("Running", later(-3600 + 60))


def test_a_debugged_job_has_a_deadline_too():
    job = a_worker(activeDeadlineSeconds=60, runMode={"debug": {"enabled": True}})
    job = settled(job, pods(worker=["Running"] * 4))
    assert planned(job, pods(worker=["Succeeded"] * 4), now=later(1)).status.phase == "Running"
    assert planned(job, pods(worker=["Running"] * 4), now=later(60)).status.phase == "Failed"


# ------------------------------------------------------------------------------------------------ expiry


def test_a_finished_job_expires():
    job = settled(a_worker(ttlSecondsAfterFinished=30, **FAILED), pods(worker=["Failed"]))
    plan = planned(job, now=later(29))
    assert (plan.expired, plan.look_again) == (False, later(30))
    assert planned(job, now=later(30)).expired


def test_other_jobs_do_not():
    assert not planned(a_worker(ttlSecondsAfterFinished=0), pods(worker=["Running"] * 4), now=later(10_000)).expired
    assert not planned(settled(a_worker(**FAILED), pods(worker=["Failed"])), now=later(10_000)).expired
    paused = settled(a_worker(ttlSecondsAfterFinished=0, suspend=True))
    assert not planned(paused, now=later(10_000)).expired


def test_a_job_that_ended_in_the_future_waits():
    job = settled(a_worker(ttlSecondsAfterFinished=30, **FAILED), pods(worker=["Failed"]), now=later(3600))
    assert planned(job, now=NOW).look_again == later(3630)


# ------------------------------------------------------------------------------------------------ debug


def test_rules_are_not_asked_of_a_debugged_job_and_who_ends_comes_back():
    job = a_job().type("worker", 1).having(runMode={"debug": {"enabled": True}})
    job = settled(job, pods(worker=["Running"]))
    ended = debugged(a_pod("train-worker-0", "Succeeded"))
    plan = planned(job, [ended])
    assert plan.must_remember
    assert (plan.status.phase, plan.deletes) == ("Running", (ended,))
    (task,) = plan.status.tasks
    assert (task.succeeded_ranks, task.charged_restarts, task.uncharged_restarts) == ("", {}, {"1": "0"})


def test_pause_wins_over_debug():
    job = a_job().type("worker", 1).having(runMode={"debug": {"enabled": True}, "pause": {"enabled": True}})
    plan = planned(job)
    assert (plan.status.phase, plan.pods) == ("Paused", ())


def test_ends_that_are_not_the_programs_doing_are_no_outcomes_even_when_the_job_ends():
    conditions = (Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", ""),)
    plan = planned(
        a_worker(**FAILED), pods(worker=["Failed", a_pod("train-worker-1", "Failed", conditions=conditions), "Running", "Running"])
    )
    assert (plan.status.phase, plan.status.tasks[0].failed_ranks) == ("Failed", "0")


def test_a_job_that_has_no_status_yet_began_with_its_first_pod():
    job = a_worker(activeDeadlineSeconds=60)
    assert planned(job, pods(worker=["Running"] * 4), now=later(59)).status.start_time == NOW
    assert planned(job, pods(worker=["Running"] * 4), now=later(60)).status.phase == "Failed"


def test_what_succeeded_is_ready_even_when_it_is_gone():
    job = settled(a_worker(cleanUpPolicy="All"), pods(worker=["Succeeded"] * 4))
    assert planned(job).status.ready == "4/4"
