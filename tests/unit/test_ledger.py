"""Restarts, as the status remembers them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.status import Task
from genericjob.jobs.ledger import EMPTY, MOST_IN_A_ROW, Entries, Ledger
from unit.jobs import NOW, later

RESTARTS = st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans(), st.integers(0, 10_000)), max_size=60)


def a_ledger(restarts):
    entries = Entries(EMPTY)
    for rank, charged, forgiven, seconds in restarts:
        entries.restart(rank, later(seconds), charged=charged, forgiven=forgiven)
    return entries.ledger()


@given(RESTARTS)
def test_what_is_written_is_read_again(restarts):
    ledger = a_ledger(restarts)
    assert Ledger.of(Task("worker", **ledger.written()), 41) == ledger


@given(RESTARTS, st.integers(0, 40), st.booleans())
def test_counts_never_fall_and_one_restart_is_one_attempt(restarts, rank, charged):
    before = a_ledger(restarts)
    entries = Entries(before)
    entries.restart(rank, NOW, charged=charged, forgiven=False)
    after = entries.ledger()
    assert after.attempt(rank) == before.attempt(rank) + 1
    assert after.total == before.total + charged
    assert all(after.attempt(other) == before.attempt(other) for other in range(41) if other != rank)


def test_ranks_that_are_no_more_are_left_out():
    ledger = a_ledger([(rank, True, False, 0) for rank in range(5)])
    assert Ledger.of(Task("worker", **ledger.written()), 2).charged == {0: 1, 1: 1}


@pytest.mark.parametrize("field", ["charged_restarts", "uncharged_restarts", "restarts_in_a_row"])
@pytest.mark.parametrize("count", ["", "-1", "+1", " 1", "1_0", "1.5", "²", "\u0661", "one", "1234567890", "9" * 5_000])
def test_a_number_that_nobody_can_have_written_is_refused(field, count):
    with pytest.raises(ValueError, match="not a number of restarts"):
        Ledger.of(Task("worker", **({"charged_restarts": {"1": "0"}} | {field: {count: "0"}})), 1)


def test_a_large_number_is_none():
    assert Ledger.of(Task("worker", charged_restarts={"999999999": "0"}), 1).attempt(0) == 999_999_999


@pytest.mark.parametrize("moment", ["", "soon", "2026-01-01T12:00:00", "2026-01-01", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_cannot_be_reckoned_with_is_refused(moment):
    with pytest.raises(ValueError, match=r"Invalid isoformat|not the time of a restart"):
        Ledger.of(Task("worker", charged_restarts={"1": "0"}, last_restarts={moment: "0"}), 1)


def test_restarts_in_a_row_are_counted_until_the_wait_is_at_its_longest():
    ledger = a_ledger([(0, True, False, 0)] * 5_000)
    assert ledger.in_a_row == {0: MOST_IN_A_ROW}
    assert ledger.charged == {0: 5_000}
    assert ledger.not_before(0) == later(300)


def test_what_ten_thousand_ranks_have_in_common_is_written_once():
    ledger = a_ledger([(rank, True, False, 0) for rank in range(10_000)])
    assert ledger.written()["charged_restarts"] == {"1": "0-9999"}
    assert len(msgspec.json.encode(ledger.written())) < 300


def test_at_the_very_worst_it_takes_two_thirds_of_a_megabyte():
    numbers = {rank: rank + 1 for rank in range(10_000)}
    moments = {rank: later(rank) for rank in numbers}
    ledger = Ledger(numbers, dict(numbers), dict.fromkeys(numbers, 1) | {rank: rank % 12 for rank in numbers}, moments)
    assert len(msgspec.json.encode(ledger.written())) < 700_000
