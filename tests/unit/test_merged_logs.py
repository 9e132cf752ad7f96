"""Many logs as one: the order of time, bounded memory and connections, and connections that break."""

import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.cli import merged_logs
from genericjob.cli.loglines import Source
from genericjob.cli.merged_logs import LINE_BYTES, MAX_AHEAD_OF_ONE_BYTES, merged
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.resources import Key
from genericjob.reconcile.stream import LONGEST_LINE

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
CUT = ApiError(NO_ANSWER, "Unreachable", "the answer was cut")
MEGABYTE = 1_000_000


def stamped(seconds, text, hours=0):
    """A line as a node of a time zone writes it."""
    zone = f"{hours:+03}:00" if hours else "Z"
    return f"{BEGIN + timedelta(hours=hours, seconds=seconds):%Y-%m-%dT%H:%M:%S.%f}000{zone} {text}\n".encode()


class Logs:
    """A server of logs: lines by rank, each with its second. `cuts` say after how many lines connections of a rank break."""

    def __init__(self, *logs, cuts=(), hours=0):
        self._hours = hours
        self.logs, self.cuts = logs, {rank: list(found) for rank, found in cuts}
        self.taken = [0] * len(logs)
        self.queries = []
        self.open = self.most_open = 0
        self._lock = threading.Lock()
        self.where = SimpleNamespace(api=self)
        self.sources = [Source(f"worker-{rank}", Key("n", f"p-{rank}"), f"uid-{rank}", "main") for rank in range(len(logs))]

    def text(self, path, query, *, whole=True):
        rank = int(path.split("/")[-2].removeprefix("p-"))
        self.queries.append(query)
        found = self.logs[rank]
        if isinstance(found, ApiError):
            raise found
        return self._lines(rank, found() if callable(found) else found, query)

    def _lines(self, rank, found, query):
        since = datetime.fromisoformat(query["sinceTime"]) if "sinceTime" in query else BEGIN
        cuts = self.cuts.get(rank)
        cut = cuts.pop(0) if cuts else None
        with self._lock:
            self.open += 1
            self.most_open = max(self.open, self.most_open)
        try:
            sent = 0
            for seconds, text in found:
                if BEGIN + timedelta(seconds=seconds) >= since:
                    if sent == cut:
                        raise CUT
                    sent += 1
                    self.taken[rank] += 1
                    yield stamped(seconds, text, self._hours)
        finally:
            with self._lock:
                self.open -= 1

    def merged(self, **options):
        self.errors, self.parts = [], []
        return merged(
            self.where,
            self.sources,
            on_error=lambda source, error: self.errors.append((source.label, error.message)),
            on_part=lambda left, total: self.parts.append((left, total)),
            **options,
        )

    def read(self, **options):
        return [(line.source.label, line.data.decode().removesuffix("\n")) for line in self.merged(**options)]


AHEAD = MAX_AHEAD_OF_ONE_BYTES // (1_000 + LINE_BYTES) + 2
"""Lines of 1,000 characters that may be read before they are wanted."""


def endless(*, wanted):
    """A log that has no end. Whoever reads much more of it than is wanted and may be read ahead fails, before memory is used up."""
    most = wanted + AHEAD + 2_000
    for number in range(most):
        yield number * 0.001, "x" * 1_000
    raise AssertionError(f"{most:,} lines were read of a log of which {wanted:,} were wanted")


# ------------------------------------------------------------------------------------------------ order


def test_lines_come_in_the_order_of_time():
    logs = Logs([(1, "a"), (3, "c"), (3, "d")], [(2, "b"), (4, "e")], [])
    assert [text for _, text in logs.read()] == ["a", "b", "c", "d", "e"]
    assert logs.errors == logs.parts == []
    assert logs.open == 0


def test_a_clock_that_was_put_back_loses_no_line():
    assert [text for _, text in Logs([(5, "a"), (1, "b"), (2, "c")]).read()] == ["a", "b", "c"]


# ------------------------------------------------------------------------------------------------ memory and connections


def test_the_first_line_is_there_before_much_was_read():
    logs = Logs(*[lambda: endless(wanted=10_000 // 8)] * 8)
    first = next(lines := logs.merged())
    assert first.data == b"x" * 1_000 + b"\n"
    assert all(taken <= AHEAD for taken in logs.taken)
    for _ in range(10_000):
        next(lines)
    assert all(taken <= 10_000 // 8 + AHEAD for taken in logs.taken), "what nobody has printed is not read"


def test_a_log_whose_turn_has_not_come_is_not_read():
    later = lambda: ((1_000_000 + at, text) for at, text in endless(wanted=0))  # noqa: E731
    logs = Logs(lambda: endless(wanted=20_000), later)
    lines = logs.merged()
    for _ in range(20_000):
        next(lines)
    assert logs.taken[1] <= AHEAD


def test_large_logs_take_a_bounded_amount_of_memory():
    logs = Logs(*[lambda: ((number * 0.001, "x" * 10_000) for number in range(1_300))] * 8)  # 104 MB
    tracemalloc.start()
    try:
        count = sum(1 for _ in logs.merged())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 8 * 1_300
    assert peak < 10 * MEGABYTE


def test_many_small_logs_are_merged_at_once_over_few_connections():
    logs = Logs(*[[(rank % 7, str(rank)), (100, "end")] for rank in range(1_000)])
    texts = [text for _, text in logs.read()]
    assert texts == [*map(str, sorted(range(1_000), key=lambda rank: (rank % 7, f"worker-{rank}"))), *["end"] * 1_000]
    assert logs.most_open <= merged_logs.READERS
    assert logs.parts == []


def test_more_large_logs_than_connections_come_in_parts(monkeypatch):
    monkeypatch.setattr(merged_logs, "MAX_OPEN", 5)
    monkeypatch.setattr(merged_logs, "MAX_AHEAD_OF_ONE_BYTES", 1_000)
    large = [[(number, f"{rank} {number}") for number in range(20)] for rank in range(12)]
    logs = Logs(*large, [(3, "small")])
    found = logs.read()
    assert sorted(text for _, text in found) == sorted(["small", *(text for log in large for _, text in log)])
    assert logs.parts == [(7, 13), (2, 13)]
    assert logs.most_open <= 5 + merged_logs.READERS
    part = [int(text.partition(" ")[2]) for _, text in found[:101] if text != "small"]
    assert part == sorted(part), "the order of time holds within a part"
    assert logs.open == 0


def test_lines_that_are_too_large_for_the_memory_come_in_parts(monkeypatch):
    monkeypatch.setattr(merged_logs, "MAX_AHEAD_BYTES", 10_000)
    logs = Logs(*[[(rank, "x" * 15_000)] for rank in range(4)])
    assert [label for label, _ in sorted(logs.read())] == [f"worker-{rank}" for rank in range(4)]
    assert logs.parts


def test_a_line_without_an_end_comes_in_pieces():
    from genericjob.reconcile.http import HttpApi
    from harness.scripted import ScriptedServer, stream

    pieces = [b"x" * 60_000] * 20
    with ScriptedServer(stream(*pieces, b"\nnext\n")) as server:
        lines = list(HttpApi(server.credentials()).text("/log"))
    assert b"".join(lines) == b"".join(pieces) + b"\nnext\n"
    assert max(map(len, lines)) < 2 * LONGEST_LINE


# ------------------------------------------------------------------------------------------------ errors


def test_a_log_that_cannot_be_read_is_reported_and_the_others_are_read():
    logs = Logs([(1, "a")], ApiError(403, "Forbidden", "no"), [(2, "b")])
    assert [text for _, text in logs.read()] == ["a", "b"]
    assert logs.errors == [("worker-1", "no")]


def test_a_connection_that_breaks_is_opened_again_where_it_was():
    logs = Logs([(1, "a"), (2, "b"), (2, "c"), (2.5, "d"), (3, "e")], [(1.5, "B")], cuts=[(0, [3, 2])])
    assert logs.read(tail=100) == [("worker-0", "a"), ("worker-1", "B"), *(("worker-0", text) for text in "bcde")]
    assert logs.errors == []
    assert [query.get("sinceTime") for query in logs.queries if "sinceTime" in query] == ["2026-01-01T00:00:02Z"] * 2
    assert not any("sinceTime" in query and "tailLines" in query for query in logs.queries)


def test_a_connection_that_breaks_again_and_again_is_given_up():
    logs = Logs([(1, "a"), (2, "b")], [(3, "c")], cuts=[(0, [1] * 100)])
    assert [text for _, text in logs.read()] == ["a", "c"]
    assert logs.errors == [("worker-0", "the answer was cut")]
    assert len(logs.queries) == 2 + merged_logs.RESUMES


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.text("ab", max_size=3)), max_size=12).map(sorted), max_size=4),
    st.lists(st.integers(1, 12), max_size=3),
    st.sampled_from([0, 8, -5]),
)
def test_whatever_breaks_every_line_comes_once(given_logs, cuts, hours):
    logs = Logs(*given_logs, cuts=[(0, cuts)] if given_logs else (), hours=hours)
    found = logs.read()
    for rank, log in enumerate(given_logs):
        lines = [text for label, text in found if label == f"worker-{rank}"]
        whole = [text for _, text in log]
        assert lines == (whole if not logs.errors else whole[: len(lines)] if rank == 0 else whole)


@pytest.mark.parametrize("code", [400, 404])
def test_an_error_of_the_caller_ends_the_merge(code):
    def fail(source, error):
        raise error

    logs = Logs(ApiError(code, "BadRequest", "no"))
    with pytest.raises(ApiError):
        list(merged(logs.where, logs.sources, on_error=fail, on_part=lambda left, total: None))
