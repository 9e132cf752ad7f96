"""`genericjob logs -f` while its server is away for a moment."""

from types import SimpleNamespace

import pytest

from genericjob.cli import logs
from genericjob.cli.loglines import Source
from genericjob.cli.logs import _Following
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key

SOURCE = Source("worker-0", Key("n", "train-worker-0"), "u", "main")
GONE, AWAY = ApiError(404, "NotFound", "gone"), ApiError(0, "Unreachable", "cut")


def at(seconds, text):
    return f"2026-01-01T00:00:{seconds:06.3f}000000Z {text}\n".encode()


@pytest.fixture
def read(monkeypatch):
    """`read(answer, ...)`: what is printed of logs, each a list of lines that an error may end; and what was asked for."""
    monkeypatch.setattr(logs, "RETRY", 0.0)

    def reading(*answers, local=False):
        asked, left = [], list(answers)

        def text(path, query, *, whole):
            asked.append(query.get("sinceTime"))
            for each in left.pop(0):
                if isinstance(each, ApiError):
                    raise each
                yield each

        where = SimpleNamespace(api=SimpleNamespace(text=text), local=local)
        following = _Following(where, {}, [], "", -1, None)
        return [each if isinstance(each, str) else each.data.decode().removesuffix("\n") for each in following._read(SOURCE)], asked

    return reading


def test_a_log_goes_on_after_an_outage_without_a_line_twice_or_never(read):
    first = [at(1, "one"), at(2.5, "two"), at(2.5, "three")]
    found, asked = read([*first, AWAY], [AWAY], [*first[1:], at(2.5, "four"), at(3, "five")])
    assert found == ["one", "two", "three", "four", "five"]
    assert asked == [None, "2026-01-01T00:00:02Z", "2026-01-01T00:00:02Z"]


def test_what_is_repeated_may_be_cut_into_other_pieces(read):
    first = [at(2.5, "two"), at(2.5, "three")[:-4]]
    pieces = [at(2.5, "two")[:-2], b"o\n", at(2.5, "three")[:-2], b"e\n", at(2.5, "four")]
    assert "".join(read([*first, AWAY], pieces)[0]) == "twothreefour"


def test_so_does_one_of_which_nothing_has_come_yet(read):
    assert read([AWAY], [at(1, "one")]) == (["one"], [None, None])


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        (([at(1, "one"), GONE],), ["one"]),
        (([at(1, "one"), ApiError(403, "Forbidden", "no")],), ["one", "the log of worker-0 cannot be followed: no"]),
    ],
)
def test_other_errors_end_it(read, answers, found):
    assert read(*answers)[0] == found


def test_a_run_that_is_away_has_ended(read):
    assert read([at(1, "one"), AWAY], local=True)[0] == ["one", "the log of worker-0 cannot be followed: cut"]
