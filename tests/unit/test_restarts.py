"""Ends of pods: what they mean, what they cost, and when a rank runs again."""

from datetime import timedelta

import pytest
from msgspec import structs

from genericjob.api.names import Rank
from genericjob.api.spec import ReplicaSpec
from genericjob.jobs.decide import Try
from genericjob.jobs.ledger import back_off
from genericjob.jobs.restarts import judge
from genericjob.jobs.status import how_it_failed
from genericjob.reconcile.objects import NEVER_STARTS, Condition, Container
from unit.jobs import NOW, a_job, a_pod, debugged, later, planned, pods, settled

DISRUPTED = (Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", ""),)
CODES = {"neverRestart": [2], "notCharged": [143, 137]}


def policy(policy="OnFailure", limit=None, **more):
    return {"restartPolicy": {"policy": policy, **({} if limit is None else {"limit": limit}), **more}}


def replicas(**restart_policy):
    return ReplicaSpec.model_validate({"type": "worker", **policy(**restart_policy)})


# ------------------------------------------------------------------------------------------------ judging


@pytest.mark.parametrize(
    ("restart_policy", "phase", "charges", "judgement"),
    [
        ({"policy": "Never"}, "Failed", 0, "failed"),
        ({"policy": "Never", "limit": 3}, "Failed", 0, "failed"),
        ({"policy": "Never"}, "Succeeded", 0, "succeeded"),
        ({"policy": "OnFailure"}, "Failed", 0, "failed"),
        ({"policy": "OnFailure", "limit": 2}, "Failed", 0, "charged"),
        ({"policy": "OnFailure", "limit": 2}, "Failed", 1, "charged"),
        ({"policy": "OnFailure", "limit": 2}, "Failed", 2, "failed"),
        ({"policy": "OnFailure", "limit": 2}, "Failed", 3, "failed"),
        ({"policy": "OnFailure", "limit": 2}, "Succeeded", 0, "succeeded"),
        ({"policy": "Always", "limit": 0}, "Succeeded", 0, "succeeded"),
        ({"policy": "Always", "limit": 1}, "Succeeded", 0, "charged"),
        ({"policy": "Always", "limit": 1}, "Succeeded", 1, "succeeded"),
        ({"policy": "Always", "limit": 1}, "Failed", 1, "failed"),
        ({"policy": "Always"}, "Succeeded", 1_000_000, "charged"),
        ({"policy": "Always"}, "Failed", 1_000_000, "charged"),
    ],
)
def test_the_policy_judges_an_end(restart_policy, phase, charges, judgement):
    assert judge(a_pod("x", phase), replicas(**restart_policy), charges) == judgement


@pytest.mark.parametrize("name", ["Never", "OnFailure", "Always"])
def test_who_was_in_the_way_runs_again_under_every_policy_and_is_not_charged(name):
    assert judge(a_pod("x", "Failed", conditions=DISRUPTED), replicas(policy=name), 0) == "uncharged"


def test_who_was_evicted_without_being_in_the_way_has_failed():
    assert judge(a_pod("x", "Failed", reason="Evicted"), replicas(policy="OnFailure", limit=1), 0) == "charged"


@pytest.mark.parametrize(
    ("code", "name", "judgement"),
    [
        (2, "Always", "failed"),
        (2, "OnFailure", "failed"),
        (143, "Never", "uncharged"),
        (137, "OnFailure", "uncharged"),
        (1, "Never", "failed"),
    ],
)
def test_exit_codes_can_be_judged_differently(code, name, judgement):
    assert judge(a_pod("x", "Failed", exit_code=code), replicas(policy=name, exitCodes=CODES), 0) == judgement


@pytest.mark.parametrize("name", ["Never", "OnFailure", "Always"])
def test_a_program_that_a_machine_can_never_start_is_not_started_again(name):
    missing = (Container("main", "terminated", NEVER_STARTS, "there is no program", 128, 0, None),)
    assert judge(a_pod("x", "Failed", containers=missing), replicas(policy=name, exitCodes={"notCharged": [128]}), 0) == "failed"


def test_of_several_containers_one_is_enough_to_never_restart_and_all_are_needed_not_to_be_charged():
    def ended(*codes):
        containers = tuple(Container(str(code), "terminated", "", "", code, 0, None) for code in codes)
        return judge(a_pod("x", "Failed", containers=containers), replicas(policy="OnFailure", limit=1, exitCodes=CODES), 0)

    assert ended(143, 2) == "failed"
    assert ended(143, 0, 137) == "uncharged"
    assert ended(143, 1) == "charged"


def ended(phase, *, main, sidecar):
    """A pod with a native sidecar, which is an init container to the server."""
    of = {name: Container(name, "terminated", "", "", code, 0, None) for name, code in (("main", main), ("sidecar", sidecar))}
    return a_pod("x", phase, containers=(of["main"],), init_containers=(of["sidecar"],))


def test_what_a_sidecar_answers_to_its_end_says_nothing():
    judged = replicas(policy="OnFailure", limit=1, exitCodes=CODES)
    assert judge(ended("Failed", main=143, sidecar=2), judged, 0) == "uncharged"
    assert judge(ended("Failed", main=1, sidecar=2), judged, 0) == "charged"
    assert how_it_failed(ended("Failed", main=1, sidecar=143)) == "Pod[x] exited with error code 1"
    assert how_it_failed(ended("Succeeded", main=0, sidecar=143)) == "Pod[x] exited with code 0"


def test_an_init_container_that_failed_is_judged_like_the_program_that_never_began():
    judged = replicas(policy="OnFailure", limit=1, exitCodes=CODES)
    assert judge(ended("Failed", main=None, sidecar=2), judged, 0) == "failed"
    assert how_it_failed(ended("Failed", main=None, sidecar=2)) == "Pod[x] exited with error code 2"


def test_how_a_debugged_pod_ends_says_nothing():
    for phase in ("Succeeded", "Failed"):
        assert judge(debugged(a_pod("x", phase)), replicas(), 0) == "uncharged"


def test_what_succeeded_before_somebody_debugs_stays_a_success_and_what_failed_is_looked_into():
    assert judge(a_pod("x", "Succeeded"), replicas(), 0, debugged=True) == "succeeded"
    assert judge(a_pod("x", "Failed"), replicas(), 0, debugged=True) == "uncharged"


# ------------------------------------------------------------------------------------------------ a rank runs again


def a_worker(limit=2, **more):
    return a_job().type("worker", 2, **policy("OnFailure", limit, **more))


def test_the_charge_is_stored_before_the_old_pod_goes():
    failed = a_pod("train-worker-1", "Failed", exit_code=3, node="n7", message="x" * 1000)
    plan = planned(a_worker(), pods(worker=["Running", failed]))
    assert plan.must_remember
    assert plan.deletes == (failed,)
    assert plan.pods == ()
    (task,) = plan.status.tasks
    assert (task.charged_restarts, task.restart_count, task.failed_ranks) == ({"1": "1"}, 1, "")
    (failure,) = task.failures
    assert (failure.rank, failure.exit_code, failure.node, failure.uid) == (1, 3, "n7", failed.uid)
    assert len(failure.message.encode()) <= 256
    assert task.failed_exit_codes == {"3": 1}
    assert [news.message for news in plan.news] == ["Pod[train-worker-1] exited with error code 3 on node n7; restart 1 of 2"]


def test_the_name_is_free_only_when_the_old_pod_is_gone_and_then_the_next_attempt_begins():
    job = settled(a_worker(), pods(worker=["Running", "Failed"]))
    going = a_pod("train-worker-1", "Failed", deleted=True)
    assert planned(job, pods(worker=["Running", going])).pods == ()
    assert planned(job, pods(worker=["Running"])).pods == (Try(Rank("worker", 1), attempt=1, charged=1),)


def test_a_pod_of_an_earlier_attempt_goes_whatever_it_does():
    job = settled(a_worker(), pods(worker=["Running", "Failed"]))
    for phase in ("Failed", "Succeeded", "Running"):
        old = a_pod("train-worker-1", phase)
        plan = planned(job, pods(worker=["Running", old]))
        assert plan.deletes == (old,)
        assert not plan.must_remember
        assert plan.status.tasks[0].charged_restarts == {"1": "1"}


def test_the_limit_is_the_ranks_own():
    job = a_worker(limit=1)
    job = settled(job, pods(worker=["Failed", "Running"]))
    second = a_pod("train-worker-0", "Failed", attempt=1)
    plan = planned(job, pods(worker=[second, "Running"]))
    (task,) = plan.status.tasks
    assert (task.failed_ranks, task.charged_restarts) == ("0", {"1": "0"})
    assert plan.status.phase == "Failed"


def test_what_was_lost_is_started_again_uncharged():
    job = settled(a_worker(limit=0), pods(worker=["Running", "Running"]))
    gone = a_pod("train-worker-1", "Running", deleted=True)
    plan = planned(job, pods(worker=["Running"]), departed=[gone])
    assert plan.must_remember
    assert plan.pods == (Try(Rank("worker", 1), attempt=1, charged=0),)
    (task,) = plan.status.tasks
    assert (task.uncharged_restarts, task.charged_restarts, task.restart_count) == ({"1": "1"}, {}, 0)


def test_a_loss_that_is_accounted_for_is_no_news():
    job = settled(a_worker(), pods(worker=["Running"]), departed=[a_pod("train-worker-1", "Running")])
    plan = planned(
        job, pods(worker=["Running", a_pod("train-worker-1", attempt=1, charged=0)]), departed=[a_pod("train-worker-1", "Running")]
    )
    assert not plan.must_remember
    assert plan.deletes == plan.pods == ()


def test_a_loss_whose_rank_runs_already_is_none():
    plan = planned(a_worker(), pods(worker=["Running", "Running"]), departed=[a_pod("train-worker-1", "Running", uid="before")])
    assert not plan.must_remember
    assert plan.status.tasks[0].uncharged_restarts == {}


def test_what_pods_know_of_restarts_survives_a_status_that_was_wiped():
    running = a_pod("train-worker-1", "Running", attempt=3, charged=2)
    (task,) = planned(a_worker(), pods(worker=["Running", running])).status.tasks
    assert (task.charged_restarts, task.uncharged_restarts) == ({"2": "1"}, {"1": "1"})
    plan = planned(a_worker(limit=2), pods(worker=["Running", a_pod("train-worker-1", "Failed", attempt=3, charged=2)]))
    assert plan.status.tasks[0].failed_ranks == "1"


@pytest.mark.parametrize("text", ["", "x", "-1", "٣", "9" * 40])
def test_annotations_that_somebody_spoilt_read_as_the_first_attempt(text):
    pod = a_pod("train-worker-0", "Running")
    spoilt = structs.replace(pod, annotations=dict.fromkeys(pod.annotations, text))
    assert planned(a_job().type("worker", 1), [spoilt]).deletes == ()


# ------------------------------------------------------------------------------------------------ back-off


@pytest.mark.parametrize(("in_a_row", "seconds"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (10, 256), (11, 300), (12, 300)])
def test_the_first_restart_comes_at_once_and_each_later_one_waits_twice_as_long(in_a_row, seconds):
    assert back_off(in_a_row) == timedelta(seconds=seconds)


def failed_again(job, attempt, now, **fields):
    failed = a_pod("train-worker-0", "Failed", attempt=attempt, created=now - timedelta(seconds=5), **fields)
    return settled(job, pods(worker=[failed, "Running"]), now=now)


def test_a_rank_waits_from_the_end_of_its_last_try_and_the_time_is_stored():
    job = failed_again(a_worker(limit=9), 0, NOW)
    job = failed_again(job, 1, later(10))
    plan = planned(job, pods(worker=[None, "Running"]), now=later(10.5))
    assert plan.pods == ()
    assert plan.look_again == later(11)
    assert planned(job, pods(worker=[None, "Running"]), now=later(11)).pods == (Try(Rank("worker", 0), 2, 2),)


def in_a_row(job):
    return job.build().status.tasks[0].restarts_in_a_row


def test_who_ran_for_ten_minutes_begins_anew():
    job = failed_again(failed_again(a_worker(limit=9), 0, NOW), 1, later(10))
    ran = Container("main", "terminated", "", "", 1, 0, later(620), later(20))
    job = failed_again(job, 2, later(620), containers=(ran,))
    assert in_a_row(job) == {"1": "0"}
    assert planned(job, pods(worker=[None, "Running"]), now=later(620)).pods == (Try(Rank("worker", 0), 3, 3),)


def test_how_long_that_was_is_told_by_one_clock():
    ran = Container("main", "terminated", "", "", 1, 0, later(-3600), later(-3601))  # the node's is an hour behind
    job = failed_again(failed_again(a_worker(limit=9), 0, NOW, containers=(ran,)), 1, later(10), containers=(ran,))
    assert in_a_row(job) == {"2": "0"}


def test_where_the_node_says_nothing_the_time_between_two_ends_counts():
    job = failed_again(failed_again(a_worker(limit=9), 0, NOW), 1, later(599))
    assert in_a_row(job) == {"2": "0"}
    assert in_a_row(failed_again(job, 2, later(1200))) == {"1": "0"}  # one second of it was its back-off


# ------------------------------------------------------------------------------------------------ all together


def by_name(found):
    return found.name


def a_gang(limit=1, **more):
    return a_job().type("ps", 1).type("worker", 2, **policy("OnFailure", limit, scope="Job", **more))


def test_with_scope_job_all_replicas_go_and_none_comes_before_all_are_gone():
    job = settled(a_gang(), pods(ps=["Running"], worker=["Succeeded", "Running"]))
    there = pods(ps=["Running"], worker=["Succeeded", "Failed"])
    plan = planned(job, there)
    assert plan.must_remember
    assert sorted(plan.deletes, key=by_name) == there
    status = plan.status
    assert (status.epoch, status.job_restarts, status.restarts, status.phase) == (1, 1, 1, "Pending")
    assert [(task.succeeded_ranks, task.failed_ranks, task.charged_restarts) for task in status.tasks] == [("", "", {})] * 2
    assert [news.reason for news in plan.news] == ["RestartingJob"]
    job = job.status(status)
    assert planned(job, [a_pod("train-ps-0", deleted=True)]).pods == ()
    assert len(planned(job).pods) == 3


def test_the_limit_of_scope_job_is_the_jobs():
    job = settled(a_gang(limit=1), pods(ps=["Running"], worker=["Failed", "Running"]))
    again = [a_pod("train-ps-0", epoch=1), a_pod("train-worker-0", epoch=1), a_pod("train-worker-1", "Failed", epoch=1)]
    plan = planned(job, again)
    assert (plan.status.phase, plan.status.job_restarts, plan.status.tasks[1].failed_ranks) == ("Failed", 1, "1")


def test_a_job_that_was_started_again_waits_longer_each_time():
    job = settled(a_gang(limit=9), pods(ps=["Running"], worker=["Failed", "Running"]))
    second = [a_pod("train-worker-0", "Failed", epoch=1)]
    job = settled(job, second, now=later(60))
    assert job.build().status.epoch == 2
    plan = planned(job, now=later(60))
    assert (plan.pods, plan.look_again) == ((), later(61))
    assert len(planned(job, now=later(61)).pods) == 3


def test_who_was_in_the_way_takes_the_others_along_and_nobody_is_charged():
    plan = planned(a_gang(limit=0), pods(ps=["Running"], worker=["Running", a_pod("train-worker-1", "Failed", conditions=DISRUPTED)]))
    assert (plan.status.epoch, plan.status.job_restarts) == (1, 0)
    assert len(plan.deletes) == 3


def test_so_does_who_vanished_while_no_controller_looked():
    job = settled(a_gang(limit=0), pods(ps=["Running"], worker=["Running", "Running"]))
    plan = planned(job, pods(ps=["Running"], worker=["Running", None]))
    assert (plan.status.epoch, plan.pods) == (1, ())
    assert [news.message for news in plan.news] == ["Pod[train-worker-1] was deleted; restart of the whole job, not charged"]
    assert len(planned(settled(a_gang(limit=0), pods(ps=["Running"], worker=["Running", None])), pods(ps=["Running"])).pods) == 2


def test_nor_does_he_go_unnoticed_because_another_one_ended_meanwhile():
    job = settled(a_gang(limit=0), pods(ps=["Running"], worker=["Running", "Running"]))
    plan = planned(job, pods(ps=["Running"], worker=["Succeeded", None]))
    assert (plan.status.epoch, plan.status.job_restarts, plan.pods) == (1, 0, ())


def test_who_waits_to_be_started_again_alone_was_not_lost():
    alone = a_job().type("worker", 2, **policy("OnFailure", 5))
    status = settled(settled(alone, pods(worker=["Running", "Running"])), pods(worker=["Running", "Failed"])).build().status
    together = a_job().type("worker", 2, **policy("OnFailure", 5, scope="Job")).status(status)
    plan = planned(together, pods(worker=["Running", None]))
    assert (plan.status.epoch, plan.pods) == (0, (Try(Rank("worker", 1), 1, 1),))


def test_who_is_debugged_runs_again_alone():
    job = a_gang(limit=0).having(runMode={"debug": {"enabled": True}})
    plan = planned(job, pods(ps=["Running"], worker=["Running", debugged(a_pod("train-worker-1", "Succeeded"))]))
    assert (plan.status.epoch, [pod.name for pod in plan.deletes]) == (0, ["train-worker-1"])


def test_success_comes_before_a_restart_of_the_whole_job():
    job = a_gang(limit=5).success({"worker": [0]})
    plan = planned(job, pods(ps=["Running"], worker=["Succeeded", "Failed"]))
    assert plan.status.phase == "Succeeded"
    assert plan.status.epoch == 0


# ------------------------------------------------------------------------------------------------ many


def test_many_restarts_are_told_in_sum():
    plan = planned(a_job().type("worker", 50, **policy("OnFailure", 1)), pods(worker=["Failed"] * 50))
    assert len(plan.news) == 11
    assert plan.news[-1].message == "40 more replicas are started again"


def test_a_job_that_ends_keeps_the_pod_of_a_rank_that_would_have_run_again():
    job = a_worker(limit=5).success({"worker": [0]})
    job = settled(job, pods(worker=["Succeeded", "Failed"]))
    plan = planned(job, pods(worker=["Succeeded", "Failed"]))
    assert plan.deletes == ()
    assert plan.status.tasks[0].failed_ranks == "1"
    assert plan.status.tasks[0].charged_restarts == {}


def test_what_a_pod_of_an_earlier_epoch_knows_of_restarts_is_not_believed():
    old = a_pod("train-worker-1", "Running", attempt=3, epoch=0, deleted=True)
    plan = planned(a_worker(), [a_pod("train-worker-0", epoch=1), old])
    assert plan.status.tasks[0].charged_restarts == {}


def test_charges_of_others_count_although_the_whole_job_is_started_again():
    job = a_job().type("ps", 1, **policy("OnFailure", 2)).type("worker", 1, **policy("OnFailure", 2, scope="Job"))
    plan = planned(job, pods(ps=["Failed"], worker=["Failed"]))
    assert (plan.status.epoch, plan.status.job_restarts) == (1, 1)
    assert [task.charged_restarts for task in plan.status.tasks] == [{"1": "0"}, {}]
