"""What servers remark about requests that they accept."""

import unicodedata

import pytest

from conformance.kinds import WIDGETS, widget
from genericjob.reconcile import warning_header
from genericjob.reconcile.resources import Key


@pytest.mark.parametrize(
    "field", ["备注", "é", 'quo"ted', "back\\slash", "\u202e", "a, b", "line\r\nSet-Cookie: a=b", "\x1b]52;c;eA==\x07", "\x7f", "\x9b2J"]
)
def test_warnings_are_utf_8_without_control_characters(world, field):
    made = world.api.create(WIDGETS, widget("a", **{field: 1}), world.namespace, field_validation="Warn")
    assert world.api.get(WIDGETS, Key(world.namespace, "a"))["metadata"]["uid"] == made.object["metadata"]["uid"]
    controls = any(unicodedata.category(each) == "Cc" for each in field)
    assert list(made.warnings) == ([] if controls else [f'unknown field "spec.{field}"'])


def test_too_many_warnings_are_cut(world):
    many = {f"{letter}{'x' * 300}": 1 for letter in "abcdefghijklmnopqrstuvwxyz"}
    made = world.api.create(WIDGETS, widget("a", **many), world.namespace, field_validation="Warn")
    assert sorted({len(text) for text in made.warnings}) == [warning_header.MAX_CUT_CHARS]
    assert len(made.warnings) == warning_header.MAX_TOTAL_CHARS // warning_header.MAX_CUT_CHARS
