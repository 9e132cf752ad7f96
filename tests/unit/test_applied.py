"""The note of what was applied."""

import pytest

from genericjob.cli.applied import LAST_APPLIED, LONGEST, last_applied, remembering

BODY = {"kind": "ConfigMap", "metadata": {"name": "c", "annotations": {"a": "b"}}, "data": {"key": "value"}}


def test_what_was_applied_is_known_again():
    assert remembering(BODY)["metadata"]["annotations"]["a"] == "b"
    assert last_applied(remembering(BODY)) == BODY


@pytest.mark.parametrize(
    "body",
    [
        BODY | {"data": {"key": "x" * LONGEST}},
        BODY | {"data": {"key": "\N{SNOWMAN}" * (LONGEST // 3)}},
        BODY | {"metadata": {"name": "c", "annotations": {"a": "b" * (LONGEST - 100)}}},
        BODY | {"metadata": {"name": "c", "annotations": {"a": "b" * (LONGEST // 2)}}},
    ],
    ids=["long", "of characters with several bytes", "beside a long one", "of a long one and beside it"],
)
def test_where_there_is_no_room_for_a_note_there_is_none(body):
    assert remembering(body) == body
    assert last_applied(body) == {}


@pytest.mark.parametrize("note", ["", "{", "[]", "5"])
def test_a_note_that_is_none_says_nothing(note):
    assert last_applied({"metadata": {"annotations": {LAST_APPLIED: note}}}) == {}
