"""Ends of pods that are gone."""

import pytest
from msgspec import structs

from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs.departures import Accounts, Departures, weight
from genericjob.reconcile.objects import Condition, Container
from unit.jobs import NOW, UID, a_pod


def going(pod):
    return structs.replace(pod, deleted=NOW)


@pytest.fixture
def departures():
    return Departures()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_end_that_was_seen_is_remembered_when_the_pod_goes(departures, phase):
    pod = a_pod("train-worker-0", phase)
    departures.note(pod, None)
    assert departures.of(UID) == (pod,)


def test_an_end_is_remembered_as_soon_as_deletion_is_asked_for(departures):
    pod = a_pod("train-worker-0", "Succeeded")
    departures.note(pod, going(pod))
    departures.note(going(pod), None)
    assert departures.of(UID) == (pod,)


def test_a_pod_that_was_replaced_under_its_name_has_departed(departures):
    pod = a_pod("train-worker-0", "Failed")
    departures.note(pod, a_pod("train-worker-0", "Pending", uid="another"))
    assert departures.of(UID) == (pod,)


def test_a_pod_that_ends_after_it_was_asked_to_go_has_departed_without_an_end(departures):
    pod = a_pod("train-worker-0", "Running")
    departures.note(pod, going(pod))
    departures.note(going(pod), going(a_pod("train-worker-0", "Failed")))
    assert departures.of(UID) == ()
    departures.note(going(a_pod("train-worker-0", "Failed")), None)
    assert [pod.deleted for pod in departures.of(UID)] == [NOW]


def test_pods_that_stay_and_pods_of_nobody_are_not_kept(departures):
    pod = a_pod("train-worker-0", "Succeeded")
    departures.note(None, pod)
    departures.note(pod, pod)
    departures.note(a_pod("stranger", "Succeeded", owner=""), None)
    assert departures.of(UID) == departures.of("") == ()


def test_what_is_stored_is_forgotten(departures):
    for rank in (0, 1):
        departures.note(a_pod(f"train-worker-{rank}", "Succeeded"), None)
    departures.settle(UID, frozenset(["uid-of-train-worker-0"]))
    assert [pod.name for pod in departures.of(UID)] == ["train-worker-1"]
    departures.forget(UID)
    assert departures.of(UID) == ()


# ------------------------------------------------------------------------------------------------ bounds


def names(departures, owner=UID):
    return sorted(pod.name for pod in departures.of(owner))


def test_one_job_has_no_more_than_it_can_have_ranks():
    departures = Departures(most_per_job=3)
    for rank in range(5):
        departures.note(a_pod(f"train-worker-{rank}", "Succeeded"), None)
    assert names(departures) == ["train-worker-0", "train-worker-1", "train-worker-2"]
    again = a_pod("train-worker-2", "Succeeded", uid="another")
    departures.note(again, None)
    assert departures.get(UID, "train-worker-2") == again  # one that takes the place of another needs no room
    assert departures.size == 3


def bounded(pods, *, room=0):
    """Room for so many plain pods."""
    each = weight(a_pod("x", "Succeeded"))
    return Departures(most=pods * each, room=room * each)


def ended(job, ranks, *, namespace="team", **fields):
    return [a_pod(f"{job}-{rank}", "Succeeded", owner=job, namespace=namespace, **fields) for rank in ranks]


def noted(departures, pods):
    for pod in pods:
        departures.note(pod, None)


def test_a_job_that_churns_pods_costs_no_other_job_its_ends(caplog):
    departures = bounded(5)
    noted(departures, ended("victim", range(2)))
    for turn in range(10):
        noted(departures, ended("churns", range(4 * turn, 4 * turn + 4)))
    assert names(departures, "victim") == ["victim-0", "victim-1"]
    assert departures.size <= 5
    assert "4 deleted pods of 1 jobs in namespace team are forgotten" in caplog.text


def test_the_pod_that_was_added_last_is_forgotten_with_its_job_if_that_has_the_most():
    departures = bounded(5)
    noted(departures, ended("small", range(2)) + ended("large", range(4)))
    assert (names(departures, "small"), names(departures, "large")) == (["small-0", "small-1"], [])


def test_many_jobs_of_one_namespace_cost_no_other_namespace_its_ends():
    departures = bounded(10)
    noted(departures, ended("victim", range(4), namespace="victims"))
    for job in range(30):
        noted(departures, ended(f"job-{job}", range(1), namespace="crowd"))
    assert len(names(departures, "victim")) == 4
    assert departures.size == 10


def test_the_heaviest_jobs_of_the_namespace_are_forgotten_first():
    departures = bounded(9)
    for job, ranks in (("one", 1), ("three", 3), ("two", 2), ("four", 4)):
        noted(departures, ended(job, range(ranks)))
    assert [len(names(departures, job)) for job in ("one", "two", "three", "four")] == [1, 2, 3, 0]


def test_pods_are_forgotten_until_there_is_room_again():
    departures = bounded(9, room=5)
    for job, ranks in (("one", 1), ("three", 3), ("two", 2), ("four", 4)):
        noted(departures, ended(job, range(ranks)))
    assert [len(names(departures, job)) for job in ("one", "two", "three", "four")] == [1, 2, 0, 0]


def test_a_pod_with_many_containers_or_long_messages_counts_as_several():
    container = Container("main", "terminated", "Error", "x" * 256, 1, 0, None)
    departures = bounded(20)
    noted(departures, ended("victim", range(5)))
    noted(departures, ended("heavy", range(3), containers=(container,) * 10))
    assert len(names(departures, "victim")) == 5
    assert len(names(departures, "heavy")) < 3


def test_the_size_is_that_of_all_that_is_kept(departures):
    for owner in ("one", "two"):
        for rank in range(3):
            departures.note(a_pod(f"{owner}-{rank}", "Succeeded", owner=owner), None)
    departures.settle("one", frozenset(["uid-of-one-0", "uid-of-two-0", "nobody"]))
    assert (departures.size, len(departures)) == (5, 2)
    assert departures.weight == 5 * weight(a_pod("one-1", "Succeeded"))
    departures.forget("two")
    departures.forget("two")
    departures.settle("one", frozenset(["uid-of-one-1", "uid-of-one-2"]))
    departures.settle("one", frozenset(["uid-of-one-1"]))
    assert (departures.size, len(departures), departures.weight) == (0, 0, 0)


def test_a_pod_that_takes_the_place_of_another_has_its_weight(departures):
    departures.note(a_pod("train-worker-0", "Running"), None)
    heavy = a_pod("train-worker-0", "Succeeded", uid="another", conditions=DISRUPTED * 10)
    departures.note(heavy, None)
    assert departures.of(UID) == (heavy,)
    assert departures.weight == weight(heavy)


# ------------------------------------------------------------------------------------------------ what a status accounts for

DISRUPTED = (Condition("DisruptionTarget", "True", "", ""),)


def status(phase="Running", **fields):
    task = Task("worker", **{name: fields.pop(name) for name in list(fields) if name in Task.__struct_fields__})
    return GenericJobStatus(phase=phase, tasks=(task,), **fields)


@pytest.mark.parametrize(
    ("stored", "pod", "covered"),
    [
        (GenericJobStatus(), a_pod("train-worker-0", "Succeeded"), False),
        (status(), a_pod("train-worker-0", "Succeeded"), False),
        (status(succeeded_ranks="0-3"), a_pod("train-worker-3", "Succeeded"), True),
        (status(succeeded_ranks="0-3"), a_pod("train-worker-4", "Succeeded"), False),
        (status(failed_ranks="1"), a_pod("train-worker-1", "Failed"), True),
        (status(failed_ranks="1"), a_pod("train-ps-1", "Failed"), False),
        (status(failed_ranks="1"), a_pod("train-worker", "Failed"), False),
        (status(failed_ranks="1"), a_pod("train-worker-x", "Failed"), False),
        # restarts
        (status(charged_restarts={"1": "1"}), a_pod("train-worker-1", "Failed"), True),
        (status(uncharged_restarts={"1": "1"}), a_pod("train-worker-1", "Running"), True),
        (status(charged_restarts={"1": "1"}), a_pod("train-worker-1", "Failed", attempt=1), False),
        (status(charged_restarts={"1": "1"}), a_pod("train-worker-1", "Failed", attempt=2), False),
        # epochs
        (status(epoch=1), a_pod("train-worker-0", "Failed"), True),
        (status(epoch=1), a_pod("train-worker-0", "Failed", epoch=1), False),
        (status(epoch=1, succeeded_ranks="0"), a_pod("train-worker-0", "Failed", epoch=2), False),
        # a pause shows the outcomes of the epoch before it
        (status("Paused", epoch=1, pause_time=NOW, succeeded_ranks="0"), a_pod("train-worker-0", "Succeeded", epoch=1), False),
        (status("Paused", epoch=1, pause_time=NOW, succeeded_ranks="0"), a_pod("train-worker-0", "Succeeded"), True),
        # after the end only what a program came to matters
        (status("Succeeded"), a_pod("train-worker-0", "Running"), True),
        (status("Failed"), going(a_pod("train-worker-0", "Failed")), True),
        (status("Succeeded"), a_pod("train-worker-0", "Failed"), False),
        (status("Succeeded"), a_pod("train-worker-0", "Failed", conditions=DISRUPTED), True),
        (status("Running"), a_pod("train-worker-0", "Running"), False),
    ],
)
def test_a_status_accounts_for_outcomes_later_attempts_and_earlier_epochs(stored, pod, covered):
    assert Accounts("train", stored).cover(pod) is covered
