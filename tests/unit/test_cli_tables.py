"""Ages, tables and colours, as kubectl's users know them."""

import io
from datetime import UTC, datetime, timedelta

import pytest

from genericjob.cli.tables import Table, age, colourful, duration, moment
from genericjob.cli.text import one_line, painted

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 20 * MINUTE, "3h20m"),
        (8 * HOUR + 20 * MINUTE, "8h"),
        (2 * DAY, "2d"),
        (5 * DAY + 3 * HOUR, "5d3h"),
        (8 * DAY + 3 * HOUR, "8d"),
        (2 * YEAR + 3 * DAY, "2y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_durations_are_written_as_kubectl_writes_them(seconds, text):
    assert duration(seconds) == text


def test_an_age_is_the_time_between_two_moments_or_unknown():
    then = datetime(2026, 1, 1, tzinfo=UTC)
    assert age(then, then + timedelta(seconds=7)) == "7s"
    assert age(None) == "<unknown>"


@pytest.mark.parametrize("text", ["", "soon", None, 3, "2026-13-01T00:00:00Z"])
def test_what_is_no_moment_is_none(text):
    assert moment(text) is None


def test_moments_have_a_zone_and_any_number_of_digits():
    assert moment("2026-01-01T00:00:00.123456789Z") == datetime(2026, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)


def test_columns_are_as_wide_as_they_must_be_and_nothing_is_shown_as_such():
    table = Table("NAME", "PHASE", "WHY")
    table.add("a", "Running", "")
    table.add("longer", "Failed", "out of luck")
    assert list(table.lines()) == [
        "NAME     PHASE     WHY",
        "a        Running   <none>",
        "longer   Failed    out of luck",
    ]


def test_colours_do_not_change_the_columns():
    table = Table("NAME", "PHASE", "AGE")
    table.add("a", "Failed", "1s")
    table.add("b", "Succeeded", "1s")
    plain, coloured = list(table.lines()), list(table.lines(colours=True))
    assert "\x1b[31mFailed\x1b[0m" in coloured[1]
    assert [line.replace("\x1b[31m", "").replace("\x1b[32m", "").replace("\x1b[0m", "") for line in coloured] == plain


def test_a_table_that_goes_on_has_its_titles_once_and_never_narrower_columns():
    table = Table("NAME", "AGE")
    table.add("long-name", "1s")
    assert list(table.fresh_lines()) == ["NAME        AGE", "long-name   1s"]
    table.add("a", "2s")
    assert list(table.fresh_lines()) == ["a           2s"]
    assert list(table.fresh_lines()) == []


def test_text_of_others_stays_on_its_line_and_gives_no_orders_to_the_terminal():
    assert one_line("two\nlines\tand \x1b[31mred\x7f") == "two lines and ^[[31mred?"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_that_want_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colourful(Terminal())
    assert not colourful(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colourful(Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not colourful(Terminal())
    assert painted("text", "red", colours=False) == "text"
