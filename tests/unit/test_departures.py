"""Ends of pods that are gone."""

import pytest
from msgspec import structs

from genericjob.jobs.departures import Departures
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
