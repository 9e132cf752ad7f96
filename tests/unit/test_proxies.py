"""Which proxy is used, and how it is asked. `tests/e2e/test_identity.py` compares the rules with kubectl's."""

import base64
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.reconcile import proxies
from genericjob.reconcile.access import Access, Credentials
from genericjob.reconcile.connection import Connection
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.proxies import Proxy, bypassed, redacted
from genericjob.reconcile.tunnels import open_tunnel
from harness.recording import Record, proxying
from harness.scripted import ScriptedServer, answer


@pytest.mark.parametrize(
    ("entries", "host", "expected"),
    [
        ("", "10.0.0.1", False),
        ("", "localhost", True),
        ("", "127.0.0.1", True),
        ("", "127.8.8.8", True),
        ("", "::1", True),
        ("", "::ffff:127.0.0.1", True),
        ("*", "x.test", True),
        ("a,*", "10.0.0.1", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.9.9.9/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "fd00::1", False),
        ("fd00::/8", "fd00::1", True),
        ("fd00::/8", "10.0.0.1", False),
        ("10.0.0.0/255.0.0.0", "10.1.2.3", False),
        ("10.0.0.0/", "10.0.0.0", False),
        ("10.0.0.0/8:443", "10.1.2.3", False),
        ("10.0.0.0/8", "ten.test", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1:443", "10.0.0.1", True),
        ("10.0.0.1:80", "10.0.0.1", False),
        ("10.0.0.1", "10.0.0.10", False),
        ("fd00::1", "fd00::1", True),
        ("[fd00::1]:443", "fd00::1", True),
        ("[fd00::1]:80", "fd00::1", False),
        ("[fd00::1]", "fd00::1", False),
        ("fd00:0::1", "fd00::1", True),
        ("x.test", "x.test", True),
        ("X.Test", "x.test", True),
        ("x.test", "a.x.test", True),
        ("x.test", "ax.test", False),
        (".x.test", "a.x.test", True),
        (".x.test", "x.test", False),
        ("*.x.test", "a.x.test", True),
        ("*.x.test", "x.test", False),
        ("*x.test", "ax.test", False),
        ("x.test:443", "a.x.test", True),
        ("x.test:", "x.test", True),
        ("x.test:80", "x.test", False),
        ("x.test:https", "x.test", False),
        (":443", "x.test", False),
        (" a , x.test ,", "x.test", True),
        ("a x.test", "x.test", False),
        ("müller.test", "xn--mller-kva.test", True),
        (".", "x.test", False),
    ],
)
def test_exceptions_are_read_as_go_reads_them(entries, host, expected):
    assert bypassed(host, 443, entries) is expected


@given(st.text(), st.text(), st.integers(0, 65535))
def test_any_exceptions_are_read(entries, host, port):
    assert bypassed(host, port, entries) in (True, False)


def choose(server="https://x.test", *, proxy_url="", **environment):
    url = urlsplit(server)
    return proxies.choose(url, url.port or 443, proxy_url=proxy_url, environment=environment, source="kubeconfig c")


def test_the_cluster_decides_alone():
    assert str(choose(proxy_url="http://p:1", NO_PROXY="*", HTTPS_PROXY="http://q")) == "http://p:1"
    assert str(choose("https://localhost", proxy_url="socks5://[::1]")) == "socks5://[::1]:1080"


def test_variables_in_capitals_win_and_all_proxy_is_not_read():
    assert str(choose(HTTPS_PROXY="p:1", https_proxy="q:1")) == "http://p:1"
    assert str(choose(HTTPS_PROXY="", https_proxy="q")) == "http://q:80"
    assert choose(ALL_PROXY="p", all_proxy="p", HTTP_PROXY="p") is None
    assert choose(HTTPS_PROXY="p", NO_PROXY="", no_proxy="x.test") is None
    assert str(choose(HTTPS_PROXY="p", NO_PROXY="y.test", no_proxy="x.test")) == "http://p:80"


def test_a_login_is_decoded():
    found = choose(proxy_url="http://user%40corp:p%40%2F%3A%C3%BC@p:1")
    assert (found.user, found.password) == ("user@corp", "p@/:ü")


BAD = [
    "https://al:s3cret@p:1",
    "ftp://al:s3cret@p:1",
    "http://al:s3cret@p:port",
    "http://al:s3cret@p:99999",
    "http://al:s3cret@",
    "http://al:s3cret@[::1",
    "http://al:s3cret@a b",
    "http://al:s3/cret@p:1",
    "al:s3cret@p:1",
    "HTTPS://al:s3cret@p:1",
    "://al:s3cret@p",
    "http:al:s3cret@p",
    "http://p:1:s3cret@",
    "socks4://p?s3cret",
]


@pytest.mark.parametrize("address", BAD)
def test_addresses_that_cannot_be_used_are_refused_without_their_secrets(address):
    for variables in ({"proxy_url": address}, {"HTTPS_PROXY": address if "://" in address else f"ftp://{address}"}):
        with pytest.raises(ApiError, match="the proxy") as caught:
            choose(**variables)
        assert "s3cret" not in repr(caught.value)
        assert caught.value.message.isprintable()


def test_the_scheme_of_variables_is_guessed_and_a_login_never_printed():
    found = choose(HTTPS_PROXY="al:s3cret@p:1")
    assert (found.user, found.password) == ("al", "s3cret")
    assert "s3cret" not in f"{found} {found!r}"


def test_the_message_names_the_setting_and_the_proxy():
    with pytest.raises(ApiError) as caught:
        choose(HTTPS_PROXY="https://al:s3cret@proxy.corp:3129")
    assert caught.value.message == (
        "the proxy 'https://***@proxy.corp:3129' (HTTPS_PROXY) cannot be used: only http:// and socks5:// addresses are supported"
    )


@given(st.text(alphabet="ab:/@?#[]%.", max_size=30))
def test_what_stands_before_an_at_sign_is_never_shown(text):
    assert "S3" not in redacted(f"http://{text}S3@{text.replace('@', '')}")
    assert "S3" not in redacted(f"{text}S3@p")


# ------------------------------------------------------------------------------------------------ tunnels


@pytest.mark.parametrize("socks", [False, True], ids=["http", "socks"])
@pytest.mark.parametrize("login", [("", ""), ("al@ice", "p:ä")], ids=["nobody", "alice"])
def test_a_request_goes_through_a_proxy(socks, login):
    record = Record()
    with free_port() as port, proxying(port, record, socks=socks), ScriptedServer(answer(200, {"gitVersion": "v1"})) as server:
        proxy = Proxy("socks5" if socks else "http", "127.0.0.1", port, *login)
        access = Access("a.test", server.port, proxy=proxy)  # a name that only the proxy can resolve
        api = HttpApi(Credentials(lambda: access))
        assert api.request("GET", "/version").status == 200
        api.close()
    assert [*record.passages.values()] == [f"{'socks' if socks else 'http'}{' al@ice:p:ä' if login[0] else ''}"]


@contextmanager
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    yield port


def refused(*says, scheme="socks5", user="", host="a.test"):
    """What is said about a proxy that answers so, one piece for each that it is sent."""
    near, far = socket.socketpair()

    def proxy():
        for piece in says:
            far.recv(1000)
            far.sendall(piece)
        far.close()

    threading.Thread(target=proxy, daemon=True).start()
    with near, pytest.raises(OSError) as caught:  # noqa: PT011 - its words are what the test is about
        open_tunnel(near, Proxy(scheme, "p", 1, user, "s3cret"), host, 443, time.monotonic() + 5)
    assert "s3cret" not in str(caught.value)
    return str(caught.value)


def test_proxies_that_refuse_are_understood():
    assert "does not accept the user" in refused(b"\x05\x02", b"\x01\x01", user="al")
    assert "wants a login" in refused(b"\x05\xff")
    assert "wants a login" in refused(b"\x05\x02")
    assert "does not speak SOCKS5" in refused(b"HT")
    assert "connection refused" in refused(b"\x05\x00", b"\x05\x05\x00\x01")
    assert "code 99" in refused(b"\x05\x00", b"\x05\x63\x00\x01")
    assert "closed the connection" in refused(b"\x05")
    assert "more than 255 bytes" in refused(b"\x05\x00", host="a" * 256)
    assert "refused with 407" in refused(b"HTTP/1.1 407 No\r\n\r\n", scheme="http", user="al")
    assert "no answer" in refused(b"HTTP/1.1 2", scheme="http")


def test_a_proxy_that_says_nothing_is_not_waited_for_longer_than_wanted():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = Proxy("http", "127.0.0.1", silent.getsockname()[1], "al", "s3cret")
        with pytest.raises(ApiError, match=r"through the proxy http://127\.0\.0\.1:\d+: no answer") as caught:
            Connection(Access("a.test", 1, proxy=proxy, source="x"), 0.1)
    assert base64.b64encode(b"al:s3cret").decode() not in repr(caught.value)
    assert "s3cret" not in repr(caught.value)
