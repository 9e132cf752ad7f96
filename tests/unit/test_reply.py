"""Reading HTTP answers: however they are cut, they read as the standard library reads them."""

import io
import socket
from http.client import HTTPException, HTTPResponse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericjob.reconcile.reply import HEAD_LIMIT, BrokenReplyError, Reply


class Wire:
    """A socket that hands out bytes in pieces of given sizes."""

    def __init__(self, data, sizes=()):
        self.data, self.sizes = data, list(sizes)

    def recv(self, limit):
        size = min(limit, self.sizes.pop(0) if self.sizes else limit)
        piece, self.data = self.data[:size], self.data[size:]
        return piece

    def makefile(self, mode):
        return io.BytesIO(self.data)


def chunked(*parts, trailer=b""):
    return b"".join(b"%x;x=y\r\n%s\r\n" % (len(part), part) for part in parts if part) + b"0\r\n" + trailer + b"\r\n"


def head(status=b"200 OK", *headers):
    return b"\r\n".join([b"HTTP/1.1 " + status, *headers, b"", b""])


def read(data, sizes=(), method="GET"):
    reply = Reply(Wire(data, sizes), method)
    return reply.status, reply.read(), reply.will_close


bodies = st.binary(max_size=200)
answers = st.one_of(
    bodies.map(lambda body: head(b"200 OK", b"Content-Length: %d" % len(body)) + body),
    st.lists(bodies, max_size=6).map(lambda parts: head(b"201 Created", b"Transfer-Encoding: chunked") + chunked(*parts)),
    st.lists(bodies, max_size=3).map(lambda parts: head(b"200 OK", b"transfer-encoding: Chunked") + chunked(*parts, trailer=b"A: b\r\n")),
    bodies.map(lambda body: head(b"500 Oh", b"Connection: close") + body),
    bodies.map(lambda body: head(b"100 Continue") + head(b"404 Not Found", b"Content-Length:%d" % len(body)) + body),
    st.just(head(b"204 No Content")),
)


@settings(max_examples=500, deadline=None)
@given(answers, st.lists(st.integers(1, 40), max_size=60))
def test_an_answer_reads_the_same_however_it_is_cut(data, sizes):
    oracle = HTTPResponse(Wire(data))
    oracle.begin()
    status, body, will_close = read(data, sizes)
    assert (status, body, will_close) == (oracle.status, oracle.read(), oracle.will_close)


@settings(max_examples=500, deadline=None)
@given(
    answers | st.binary(max_size=100) | st.binary(max_size=60).map(lambda tail: head(b"200 OK", b"Transfer-Encoding: chunked") + tail),
    st.data(),
)
def test_an_answer_that_is_cut_off_or_none_is_an_error_and_never_a_hang(data, draw):
    cut = data[: draw.draw(st.integers(0, len(data)))]
    try:
        status, body, _ = read(cut)
    except BrokenReplyError:
        return
    oracle = HTTPResponse(Wire(cut))
    try:
        oracle.begin()
        assert (status, body) == (oracle.status, oracle.read())
    except HTTPException:
        # The standard library asks more of a status line than we do; a body that it misses we must miss, too.
        assert body == b"" or b"HTTP/1." in cut[:8]


def test_a_stream_is_read_as_it_comes():
    reply = Reply(Wire(head(b"200 OK", b"Transfer-Encoding: chunked") + chunked(b"one\n", b"two\n"), [1000]), "GET")
    assert reply.read_some() == b"one\ntwo\n"
    assert reply.read_some() == b""


def test_headers_have_small_names_and_keep_repetitions_apart():
    reply = Reply(Wire(head(b"200 OK", b'Warning: 299 - "a"', b'warning: 299 - "b"', b"Content-Length: 0")), "POST")
    assert reply.headers["warning"] == '299 - "a"\n299 - "b"'


@pytest.mark.parametrize("field", [b"Content-Length: 2", b"content-length:2", b"CONTENT-LENGTH : \t2 \t"])
def test_a_field_is_known_by_its_whole_name_however_it_is_written(field):
    others = [b"X-Content-Length: 9", b"Content-Length-Limit: 9", b"Audit-Id: content-length: 9", b"Date"]
    reply = Reply(Wire(head(b"200 OK", *others, field, *others) + b"ok"), "GET")
    assert (reply.read(), reply.headers) == (b"ok", {"content-length": "2"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 9000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 11 + b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * HEAD_LIMIT + b"\r\n",
        b"x" * (HEAD_LIMIT * 9),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(BrokenReplyError):
        read(data)


def test_some_interim_answers_come_before_the_real_one():
    data = b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + b"HTTP/1.1 102 Processing\r\n\r\n" * 5 + head(b"204 No Content")
    assert read(data) == (204, b"", False)


def test_an_answer_to_head_has_no_body():
    assert read(head(b"200 OK", b"Content-Length: 99"), method="HEAD") == (200, b"", False)


def test_more_than_was_asked_for_ends_the_connection():
    data = head(b"200 OK", b"Content-Length: 2")
    assert read(data + b"ok" + data + b"ok") == (200, b"ok", True)


def test_real_sockets_time_out():
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(0.05)
        with pytest.raises(TimeoutError):
            Reply(near, "GET")
