"""Ends of pods that are gone."""

import pytest
from msgspec import structs

from genericjob.api.status import GenericJobStatus, Task
from genericjob.jobs.departures import Accounts, Departures
from genericjob.reconcile.objects import Condition
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


def test_of_too_many_pods_those_of_the_job_that_lost_none_for_the_longest_time_are_forgotten(caplog):
    departures = Departures(most=5)
    for owner, rank in (("old", 0), ("new", 0), ("old", 1), ("new", 1), ("newer", 0)):
        departures.note(a_pod(f"{owner}-{rank}", "Succeeded", owner=owner), None)
    departures.note(a_pod("new-2", "Succeeded", owner="new"), None)
    assert names(departures, "old") == []
    assert names(departures, "new") == ["new-0", "new-1", "new-2"]
    assert names(departures, "newer") == ["newer-0"]
    assert departures.size == 4
    assert "2 deleted pods of the job with UID old are forgotten" in caplog.text


def test_the_size_is_that_of_all_that_is_kept(departures):
    for owner in ("one", "two"):
        for rank in range(3):
            departures.note(a_pod(f"{owner}-{rank}", "Succeeded", owner=owner), None)
    departures.settle("one", frozenset(["uid-of-one-0", "uid-of-two-0", "nobody"]))
    assert (departures.size, len(departures)) == (5, 2)
    departures.forget("two")
    departures.forget("two")
    departures.settle("one", frozenset(["uid-of-one-1", "uid-of-one-2"]))
    departures.settle("one", frozenset(["uid-of-one-1"]))
    assert (departures.size, len(departures)) == (0, 0)


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
