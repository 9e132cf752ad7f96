import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api import ranges


@pytest.mark.parametrize(
    ("ranks", "text"), [((), ""), ((0,), "0"), ((0, 1, 2), "0-2"), ((5, 3, 4, 9), "3-5,9"), ((0, 2, 4), "0,2,4"), (range(10_000), "0-9999")]
)
def test_runs_of_ranks_are_written_short(ranks, text):
    assert ranges.format(ranks) == text
    assert ranges.parse(text) == frozenset(ranks)


@given(st.frozensets(st.integers(0, ranges.MOST - 1)))
def test_what_is_written_can_be_read(ranks):
    assert ranges.parse(ranges.format(ranks)) == ranks


@pytest.mark.parametrize(
    "text",
    ["a", "1-", "-1", "3-1", "3-3", "1,,2", "1,2", "5,1", "0-5,3-9", "007", "10000", "0-10000", "0-99999999999", "\u0661", " 1"],
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="not a set of ranks"):
        ranges.parse(text)
