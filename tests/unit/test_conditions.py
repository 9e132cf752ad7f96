"""Conditions of other writers, in the JSON of a status."""

import msgspec
import pytest

from genericjob.api.names import CONDITION_TYPES
from genericjob.api.status import Condition, GenericJobStatus
from genericjob.cli.jobs import status_of
from genericjob.jobs.conditions import MOST_BYTES, of_others, own
from genericjob.jobs.resource import StoredJob, UnreadableStatusError, read_status, status_body
from unit.jobs import NOW

YEAR_0 = "0000-01-01T00:00:00Z"


def condition(type, **fields):
    return {"type": type, "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"} | fields


def stored(*conditions, **status):
    data = msgspec.json.encode({"phase": "Running", "restarts": 3, "conditions": list(conditions), **status})
    return StoredJob("team", "train", "uid", "7", 1, {}, {}, "", (), NOW, None, b"{}", data)


def kept(job):
    return [msgspec.json.decode(raw) for raw in of_others(job.status)]


def written(job, status):
    return msgspec.json.decode(status_body(job, status))["status"]


OURS = tuple(Condition(type, "True", "r", "m", NOW) for type in CONDITION_TYPES)
TIME = "2026-01-01T08:00:00.123456789+08:00"
FOREIGN = condition("QuotaReserved", observedGeneration=4, unknownField={"deep": [1]}, lastTransitionTime=TIME)
ODD = condition("example.com/Odd", lastTransitionTime=YEAR_0)


def test_conditions_of_others_follow_ours_as_they_are_and_in_their_order():
    job = stored(ODD, condition("Running"), FOREIGN, condition("Initializing"))
    found = written(job, GenericJobStatus(conditions=OURS))["conditions"]
    assert [each["type"] for each in found] == [*CONDITION_TYPES, "example.com/Odd", "QuotaReserved"]
    assert found[-2:] == [ODD, FOREIGN]


def test_decisions_see_ours_only():
    status = read_status(stored(FOREIGN, condition("Running"), condition("Initializing")))
    assert [each.type for each in status.conditions] == ["Running", "Initializing"]  # the old name is seen, so that it is replaced
    assert own(status) is status


@pytest.mark.parametrize("odd", [ODD, condition("X", status=3), {"type": "X"}, condition("X", message=None), {}, "text", None, 7], ids=str)
def test_a_condition_of_others_never_makes_a_status_unreadable(odd):
    status = read_status(stored(condition("Running"), odd, FOREIGN))
    assert [each.type for each in status.conditions] == ["Running"]
    assert (status.phase, status.restarts) == ("Running", 3)


@pytest.mark.parametrize("ours", [condition("Running", lastTransitionTime=YEAR_0), {"type": "Paused"}])
def test_one_of_ours_does(ours):
    with pytest.raises(UnreadableStatusError):
        read_status(stored(ours, FOREIGN))


@pytest.mark.parametrize("odd", [{}, {"type": 7}, {"type": None}, "text", None, 7, []], ids=str)
def test_what_has_no_type_is_not_kept(odd):
    assert kept(stored(odd, FOREIGN)) == [FOREIGN]


def test_one_of_each_type_is_kept():
    assert kept(stored(FOREIGN, {**FOREIGN, "status": "False"})) == [FOREIGN]


def test_hundreds_are_kept_as_far_as_they_fit():
    many = [condition(f"example.com/{number}") for number in range(300)]
    assert kept(stored(*many)) == many
    huge = condition("example.com/Huge", message="x" * MOST_BYTES)
    assert kept(stored(huge, *many)) == many
    large = [condition(f"example.com/{number}", message="x" * 30_000) for number in range(5)]
    assert kept(stored(*large, FOREIGN)) == [*large[:2], FOREIGN]


@pytest.mark.parametrize("status", [b"", b"null", b"{}", b'{"conditions":null}', b'{"conditions":{}}', b"[]", b"{", b"\xff"])
def test_where_there_are_none_nothing_is_added(status):
    assert of_others(status) == []


@pytest.mark.parametrize("odd", [ODD, condition("X", status=3), None], ids=str)
def test_commands_show_a_job_that_has_an_odd_condition_of_others(odd):
    status = {"phase": "Running", "conditions": [condition("Running"), odd, condition("Paused")]}
    assert [each.type for each in status_of({"status": status}).conditions] == ["Running", "Paused"]
    assert status_of({"status": {"phase": "Running", "conditions": [condition("Running", lastTransitionTime=YEAR_0)]}}).phase == "Unknown"


@pytest.mark.parametrize("status", [{"conditions": 3}, {"conditions": {}}, [], 7, "text"], ids=str)
def test_commands_show_a_job_whose_status_is_none(status):
    assert status_of({"status": status or 7}).phase == "Unknown"
