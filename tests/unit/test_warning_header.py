"""Warning headers: every text comes back as it was, no text becomes another header, and the head of an answer stays small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.reconcile import warning_header
from genericjob.reconcile.reply import HEAD_LIMIT


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ('299 - "plain"', ["plain"]),
        ('299 - "unknown field \\"spec.x\\""', ['unknown field "spec.x"']),
        ('299 - "a \\\\\\" b"', ['a \\" b']),
        ('299 - "one", 299 - "two"\n199 proxy:80 "three" "Sat, 25 Aug 2012 23:34:45 GMT"', ["one", "two", "three"]),
        ('299 - "a, b"', ["a, b"]),
        ('299 - ""', [""]),
        ("299 - unquoted", []),
        ('299 - "fine", something else', ["fine"]),
        ('299 - "no end', []),
        ("", []),
    ],
)
def test_a_header_is_read_as_kubectl_reads_it(value, texts):
    assert warning_header.read(value) == texts


def test_the_text_is_utf_8_and_what_is_not_is_replaced():
    assert warning_header.read('299 - "unknown field \\"spec.备注\\""'.encode().decode("latin-1")) == ['unknown field "spec.备注"']
    assert warning_header.read('299 - "caf\xe9"') == ["caf\ufffd"]


@given(st.lists(st.text(), max_size=5))
def test_what_is_written_is_one_line_and_is_read_as_it_was(texts):
    values = warning_header.written(texts)
    assert all(not set(map(chr, (*range(32), 127))) & set(value) for value in values)
    kept = [text for text in dict.fromkeys(texts) if text and text.isprintable()]
    read = [text for value in values for text in warning_header.read(value)]
    assert [text for text in read if text.isprintable()] == kept
    assert read == [text for value in [", ".join(values)] for text in warning_header.read(value)]


def test_a_text_with_control_characters_is_left_out():
    assert warning_header.written(["x\r\nSet-Cookie: a=b", "\x1b]52;c;eA==\x07", "\x9b2J", "fine"]) == ['299 - "fine"']


def test_many_texts_are_cut_and_the_head_stays_small():
    values = warning_header.written(f"{number} {'备' * 1_000}" for number in range(10_000))
    assert sum(len(value) + len("Warning: \r\n") for value in values) < HEAD_LIMIT / 2
    first = warning_header.read(values[0])[0]
    assert first == f"0 {'备' * (warning_header.MAX_CUT_CHARS - 2)}"
    assert warning_header.written(["x" * 4_000]) == [f'299 - "{"x" * 4_000}"']
