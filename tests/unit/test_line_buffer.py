"""Lines of a stream: the same wherever it is cut, and with work that is linear in its bytes."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericjob.reconcile import line_buffer
from genericjob.reconcile.codec import codec
from genericjob.reconcile.line_buffer import LineBuffer
from genericjob.reconcile.resources import PODS
from genericjob.reconcile.stream import HttpText, HttpWatch


@settings(max_examples=500, deadline=None)
@given(st.lists(st.text(alphabet="ab\n\r", max_size=8).map(str.encode), max_size=20))
def test_lines_are_the_same_wherever_the_stream_is_cut(pieces):
    buffer = LineBuffer()
    lines, whole = [], b""
    for piece in pieces:
        whole += piece
        lines += buffer.ended_by(piece)
        *ended, rest = whole.split(b"\n")
        assert (lines, buffer.size) == (ended, len(rest))
    assert (buffer.take(), buffer.size) == (rest if pieces else b"", 0)


# ------------------------------------------------------------------------------------------------ the work


class Work:
    """Counts the bytes that are searched, copied or put together."""

    def __init__(self, monkeypatch):
        self.done = 0
        work = self

        class Counted(bytes):
            def split(self, separator):
                work.done += len(self)
                return [Counted(part) for part in bytes.split(self, separator)]

            def __add__(self, other):
                return work.joined(bytes(self) + other)

            def __radd__(self, other):
                return work.joined(other + bytes(self))

        class CountedIO(line_buffer.BytesIO):
            def write(self, data):
                work.done += len(data)
                return super().write(data)

            def getvalue(self):
                work.done += self.tell()
                return super().getvalue()

        self.bytes = Counted
        monkeypatch.setattr(line_buffer, "BytesIO", CountedIO)

    def joined(self, data):
        self.done += len(data)
        return self.bytes(data)


def in_pieces(work, data, size):
    """A connection and an answer that has all come, in pieces of a size."""
    pieces = [work.bytes(data[at : at + size]) for at in range(0, len(data), size)]
    connection = SimpleNamespace(close=lambda: None, interrupt=lambda: None)
    return connection, SimpleNamespace(done=True, read_some=lambda: pieces.pop(0) if pieces else b"")


POD = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7","annotations":{"text":"%s"}}}}\n'


@pytest.mark.parametrize("size", [1, 100, 16_384])
def test_reading_a_watch_takes_work_in_proportion_to_its_bytes_however_long_an_event_is(monkeypatch, size):
    work, data = Work(monkeypatch), POD % (b"\\u003c" * size * 30) + POD % b""
    watch = HttpWatch(*in_pieces(work, data, size), codec(PODS), "5", initial_events=False, silence=1)
    assert [event.object.name for event in watch] == ["a", "a"]
    assert work.done <= 3 * len(data), "each byte is searched, kept and handed on once"


def test_reading_a_log_takes_work_in_proportion_to_its_bytes_however_long_a_line_is(monkeypatch):
    work, data = Work(monkeypatch), b"x" * 200_000 + b"\nshort"
    assert b"".join(HttpText(*in_pieces(work, data, 1000))) == data
    assert work.done <= 3 * len(data)
