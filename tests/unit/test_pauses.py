"""Pause and resume, and what becomes of pods, outcomes and times."""

import pytest
from msgspec import structs

from genericjob.api.names import Rank
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.decide import Try
from genericjob.jobs.status import troubled
from unit.jobs import a_job, a_pod, later, planned, pods, settled

ON, OFF = {"runMode": {"pause": {"enabled": True}}}, {"runMode": {"pause": {"enabled": False}}}


def a_worker():
    return a_job().type("worker", 2)


def running():
    return settled(a_worker(), pods(worker=["Running", "Running"]))


def pausing():
    return settled(running().having(**ON), pods(worker=["Running", "Running"]), now=later(10))


@pytest.mark.parametrize("switch", [ON, {"suspend": True}, {"suspend": True, **ON}])
def test_the_write_that_begins_a_pause_ends_the_epoch_and_then_the_pods_go(switch):
    there = pods(worker=["Running", "Running"])
    plan = planned(running().having(**switch), there, now=later(10))
    assert plan.must_remember
    assert plan.deletes == tuple(there)
    assert plan.pods == ()
    assert (plan.status.epoch, plan.status.pause_time, plan.status.phase) == (1, later(10), "Pausing")
    assert [news.reason for news in plan.news] == ["Paused"]


def test_a_pause_begins_once():
    plan = planned(pausing(), pods(worker=["Running", "Running"]), now=later(11))
    assert (plan.status.epoch, plan.must_remember, len(plan.deletes), plan.news) == (1, False, 2, ())


def paused(status):
    """What the status says of a pause: phase, condition with reason and message, and pods that are still there."""
    found = next(each for each in status.conditions if each.type == "Paused")
    return status.phase, found.status, found.reason, found.message, status.terminating


def test_a_job_is_paused_when_all_pods_are_gone():
    status = planned(pausing(), [], now=later(11)).status
    assert paused(status) == ("Paused", "True", "Paused", "The job is paused.", 0)
    assert (status.aggregate.deleted, status.aggregate.creating) == (2, 0)


def test_a_job_whose_pods_are_still_terminating_is_not_paused_yet():
    terminating = [a_pod(f"train-worker-{rank}", deleted=True) for rank in (0, 1)]
    status = planned(pausing(), terminating, now=later(1)).status
    assert paused(status) == ("Pausing", "False", "Pausing", "2 pods are still terminating.", 2)
    assert paused(planned(pausing(), terminating[:1], now=later(1)).status)[3:] == ("1 pod is still terminating.", 1)
    assert paused(planned(pausing(), [terminating[0], a_pod("train-worker-1")], now=later(11)).status)[0] == "Pausing"


def test_a_status_that_an_earlier_version_has_stored_is_corrected():
    """There a job was said to be paused as soon as all of its pods were asked to end."""
    terminating = [a_pod(f"train-worker-{rank}", deleted=True) for rank in (0, 1)]
    stored = structs.replace(planned(pausing(), terminating, now=later(1)).status, phase="Paused", terminating=0)
    job = pausing().status(stored)
    plan = planned(job, terminating, now=later(2))
    assert paused(plan.status) == ("Pausing", "False", "Pausing", "2 pods are still terminating.", 2)
    assert (plan.status.epoch, plan.deletes, plan.news) == (stored.epoch, (), ())
    assert planned(job.having(**OFF), terminating, now=later(2)).status.phase == "Resuming"


def test_a_pod_that_arrives_late_makes_a_paused_job_wait_again():
    job = settled(pausing(), [], now=later(11))
    status = planned(job, [a_pod("train-worker-0")], now=later(12)).status
    assert (status.phase, status.terminating) == ("Pausing", 1)


def test_who_resumes_a_job_before_it_is_paused_sees_it_resuming():
    job = pausing().having(runMode={"pause": {"enabled": False}})
    status = planned(job, [a_pod("train-worker-0", deleted=True)], now=later(12)).status
    assert (status.phase, status.terminating) == ("Resuming", 0)


@pytest.mark.parametrize("phase", ["Pausing", "Running"])
def test_a_gang_that_goes_into_a_pause_one_by_one_is_not_started_again(phase):
    """Earlier versions stored Running until a pause had emptied the job."""
    together = {"restartPolicy": {"policy": "OnFailure", "limit": 1, "scope": "Job"}}
    job = settled(a_job().type("worker", 2, **together), pods(worker=["Running", "Running"]))
    stored = planned(job.having(**ON), pods(worker=["Running", "Running"])).status
    plan = planned(job.status(structs.replace(stored, phase=phase)), [a_pod("train-worker-1", deleted=True)])
    assert (plan.status.epoch, plan.status.last_job_restart, plan.must_remember) == (1, None, False)


def test_a_job_that_is_created_paused_has_no_pods():
    plan = planned(a_worker().having(suspend=True))
    assert (plan.status.phase, plan.pods, plan.services) == ("Paused", (), ())


def test_a_program_that_ends_well_because_it_was_stopped_has_not_succeeded():
    stopped = [a_pod(f"train-worker-{rank}", "Succeeded", deleted=True) for rank in (0, 1)]
    plan = planned(pausing(), stopped, now=later(11))
    assert (plan.status.phase, plan.status.tasks[0].succeeded_ranks) == ("Pausing", "")


def test_a_job_that_was_won_before_its_pause_stays_won():
    plan = planned(running().having(**ON), pods(worker=["Succeeded", "Succeeded"]))
    assert plan.status.phase == "Succeeded"


def test_to_pause_a_finished_job_does_nothing():
    job = settled(a_worker(), pods(worker=["Succeeded", "Succeeded"])).having(**ON)
    plan = planned(job, pods(worker=["Succeeded", "Succeeded"]))
    assert (plan.status.phase, plan.deletes, plan.must_remember) == ("Succeeded", (), False)


def test_a_resumed_job_creates_every_rank_again_even_those_that_had_ended():
    job = settled(a_worker(), pods(worker=["Succeeded", "Running"]))
    job = settled(job.having(**ON), pods(worker=["Succeeded", "Running"]), now=later(10))
    assert job.build().status.tasks[0].succeeded_ranks == "0"
    plan = planned(job.having(**OFF), now=later(70))
    assert plan.must_remember
    assert plan.pods == (Try(Rank("worker", 0)), Try(Rank("worker", 1)))
    status = plan.status
    assert (status.phase, status.epoch, status.resumes, status.pause_time, status.paused_seconds) == ("Resuming", 1, 1, None, 60)
    assert status.tasks[0].succeeded_ranks == ""


def test_who_changes_his_mind_half_way_waits_until_all_old_pods_are_gone():
    job = pausing().having(**OFF)
    there = [a_pod("train-worker-0", deleted=True), a_pod("train-worker-1")]
    plan = planned(job, there, now=later(12))
    assert plan.must_remember
    assert plan.deletes == (there[1],)
    assert plan.pods == ()
    job = job.status(plan.status)
    assert planned(job, there[:1], now=later(13)).pods == ()
    assert len(planned(job, now=later(14)).pods) == 2


def test_and_who_changes_it_back_begins_another_epoch():
    job = settled(pausing().having(**OFF), now=later(12))
    there = [a_pod("train-worker-0", epoch=1)]
    plan = planned(job.having(**ON), there, now=later(13))
    assert (plan.status.epoch, plan.status.resumes, plan.deletes) == (2, 1, (there[0],))


def test_a_job_resumes_until_it_runs():
    job = settled(pausing().having(**OFF), now=later(12))
    status = planned(job, [a_pod("train-worker-0", epoch=1)], now=later(13)).status
    assert status.phase == "Resuming"
    assert planned(job, [a_pod("train-worker-0", epoch=1), a_pod("train-worker-1", "Pending", epoch=1)]).status.phase == "Running"


def test_charges_outlive_a_pause():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(job, pods(worker=["Failed"]))
    job = settled(job.having(**ON), now=later(5))
    plan = planned(job.having(**OFF), now=later(6))
    assert plan.status.tasks[0].charged_restarts == {"1": "0"}
    assert plan.pods == (Try(Rank("worker", 0), 1, 1),)


def test_ranks_that_were_taken_away_in_a_pause_lose_pods_services_and_what_is_known_of_them():
    job = a_job().type("worker", 3, restartPolicy={"policy": "OnFailure", "limit": 3}).having(service={"ports": [{"port": 80}]})
    services = [f"train-worker-{rank}" for rank in range(3)]
    job = settled(job, pods(worker=["Succeeded", "Running", "Failed"]), services=services)
    job = settled(job.having(suspend=True), services=services)
    status = job.build().status
    smaller = a_job().type("worker", 1).having(service={"ports": [{"port": 80}]}, suspend=True).status(status)
    left = a_pod("train-worker-2")
    plan = planned(smaller, [left], services=services)
    assert [found.name for found in plan.deletes] == ["train-worker-2", "train-worker-1", "train-worker-2"]
    (task,) = plan.status.tasks
    assert (task.succeeded_ranks, task.charged_restarts, task.failures, sum_of(plan)) == ("0", {}, (), 1)


def sum_of(plan):
    counts = plan.status.aggregate
    return sum(getattr(counts, name) for name in counts.__struct_fields__)


def test_pods_say_so_if_the_status_has_forgotten_the_epoch():
    plan = planned(a_worker(), [a_pod("train-worker-0", epoch=4), a_pod("train-worker-1", epoch=3)])
    assert plan.status.epoch == 4
    assert [pod.name for pod in plan.deletes] == ["train-worker-1"]
    assert plan.pods == ()


def test_nothing_changes_while_a_job_is_paused():
    job = settled(pausing(), now=later(11))
    plan = planned(job, now=later(1000))
    assert plan.status == job.build().status
    assert (plan.look_again, plan.deletes, plan.pods) == (None, (), ())


def test_a_job_whose_rules_were_changed_so_that_nothing_can_be_met_fails_before_it_creates_a_pod():
    job = settled(pausing(), now=later(11))
    plan = planned(job.having(**OFF, successRules=[{"worker": [7]}]), now=later(12))
    assert (plan.status.phase, plan.pods) == ("Failed", ())


# ------------------------------------------------------------------------------------------------ the first start

QUEUED = {"suspend": True}
ADMITTED = {"suspend": False}


def started(plan):
    """Whether the job starts, when a pause is over, as if for the first time."""
    assert plan.status.pause_time is None
    return plan.status.resumes == 0


def queued(**spec):
    """A job that a queueing system has created."""
    return settled(a_worker().having(**QUEUED, **spec))


def test_a_job_that_is_created_suspended_starts_for_the_first_time_when_it_is_admitted():
    job = queued()
    assert job.build().status.paused_before_start
    plan = planned(job.having(**ADMITTED), now=later(70))
    assert started(plan)
    assert not plan.status.paused_before_start
    assert (plan.status.phase, plan.status.paused_seconds, len(plan.pods)) == ("Resuming", 70, 2)
    assert [news.message for news in plan.news] == ["The job starts: its pods are created."]


def test_a_job_that_is_created_with_a_pause_resumes():
    job = settled(a_worker().having(**ON))
    assert not job.build().status.paused_before_start
    assert not started(planned(job.having(**OFF), now=later(70)))


def test_a_job_that_is_created_with_a_pause_refused_and_corrected_resumes():
    refused = troubled(GenericJobStatus(), "InvalidSpec", "no", later(0), stored=GenericJobStatus())
    job = a_worker().having(**ON).status(structs.replace(refused, observed_generation=1)).generation(2)
    assert not started(planned(settled(job).having(**OFF), now=later(70)))


def test_a_job_that_is_created_with_both_switches_resumes():
    job = settled(a_worker().having(**ON, **QUEUED))
    assert not started(planned(job.having(**OFF, **ADMITTED), now=later(70)))


def test_a_pause_that_a_user_adds_to_a_queued_job_changes_nothing():
    job = settled(queued().having(**ON), now=later(5))
    assert started(planned(job.having(**OFF, **ADMITTED), now=later(70)))


def test_a_job_that_is_paused_before_it_has_a_pod_starts_for_the_first_time():
    job = settled(a_worker())  # nothing could be created yet
    assert started(planned(settled(job.having(**ON), now=later(5)).having(**OFF), now=later(6)))


def test_a_job_that_is_taken_back_before_it_has_a_pod_starts_for_the_first_time():
    job = settled(queued().having(**ADMITTED), now=later(5))
    job = settled(job.having(**QUEUED), now=later(6))
    assert started(planned(job.having(**ADMITTED), now=later(7)))


@pytest.mark.parametrize(
    "found", [pods(worker=["Pending", None]), pods(worker=["Running", "Running"]), [a_pod("train-worker-0", deleted=True)]], ids=len
)
def test_a_pause_that_ends_pods_is_followed_by_a_resume(found):
    job = settled(a_worker())
    job = settled(job.having(**QUEUED), found, now=later(5))
    assert not started(planned(job.having(**ADMITTED), now=later(70)))


def test_a_pod_that_comes_late_in_a_pause_makes_it_one_that_ended_pods():
    late = [a_pod("train-worker-0")]
    plan = planned(queued(), late, now=later(5))
    assert plan.must_remember
    assert (plan.status.paused_before_start, plan.deletes) == (False, tuple(late))


def test_a_pause_between_two_starts_is_followed_by_a_resume_although_no_pod_is_there():
    job = a_job().type("worker", 1, restartPolicy={"policy": "OnFailure", "limit": 3})
    job = settled(settled(job, pods(worker=["Failed"])), now=later(1))
    job = settled(job.having(**QUEUED), now=later(2))
    assert not started(planned(job.having(**ADMITTED), now=later(70)))


def test_a_pause_of_a_job_whose_pods_others_have_deleted_is_followed_by_a_resume():
    job = settled(running(), pods(worker=["Running", "Running"]))
    assert not started(planned(settled(job.having(**QUEUED), now=later(5)).having(**ADMITTED), now=later(70)))


def test_a_pause_between_two_starts_of_the_whole_job_is_followed_by_a_resume():
    job = a_job().type("worker", 2, restartPolicy={"policy": "OnFailure", "limit": 1, "scope": "Job"})
    job = settled(job, pods(worker=["Failed", None]))  # the second pod was never created: the job was not initialized
    assert job.build().status.last_job_restart is not None
    job = settled(job.having(**QUEUED), now=later(5))
    assert not started(planned(job.having(**ADMITTED), now=later(70)))


def test_a_pause_that_an_earlier_version_stored_is_followed_by_a_resume():
    status = structs.replace(queued().build().status, paused_before_start=False)
    assert not started(planned(a_worker().having(**ADMITTED).status(status), now=later(70)))
