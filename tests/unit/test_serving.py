"""The pages, over real sockets on loopback."""

import errno
import http.client
import os
import socket
import threading

import pytest

from genericjob.reconcile import serving
from genericjob.reconcile.health import Health
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.serving import Address, Page, Server, pages, parse_address

LOOPBACK = Address("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("", 8080)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::]:0", ("::", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("0", None),
    ],
)
def test_addresses_are_read_as_people_write_them(text, found):
    assert parse_address(text) == found


@pytest.mark.parametrize("text", ["", "8080", "127.0.0.1", "127.0.0.1:", "host:http", ":65536", ":-1", "::1:8080", ":٣"])
def test_what_is_no_address_is_refused_with_the_ways_to_write_one(text):
    with pytest.raises(ValueError, match=r"is no address to listen on: write HOST:PORT, :PORT for every interface, or 0 for none"):
        parse_address(text)


def test_an_address_is_written_as_it_is_read():
    for text in ("127.0.0.1:80", ":80", "[::1]:80"):
        assert str(parse_address(text)) == text


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setattr(serving, "POLL", 0.01)
    servers = []

    def start(found, address=LOOPBACK, **options):
        server = Server(address, found, **options)
        thread = threading.Thread(target=server.serve, daemon=True)
        servers.append((server, thread))
        thread.start()
        return server

    yield start
    for server, thread in servers:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


def ask(server, path, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.address.port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


def test_probes_and_metrics_have_their_pages(serve):
    health, metrics = Health(), Metrics()
    problems = {"live": "", "ready": "not filled yet: pods"}
    health.live("threads", lambda: problems["live"])
    health.ready("caches", lambda: problems["ready"])
    metrics.controller("genericjob", 4)
    server = serve(pages(health, metrics))

    answer, body = ask(server, "/healthz")
    assert (answer.status, body) == (200, b"[+]threads ok\nhealthz check passed\n")
    answer, body = ask(server, "/readyz?verbose")
    assert (answer.status, body) == (503, b"[-]caches failed: not filled yet: pods\nreadyz check failed\n")
    problems.update(live="informer pods keeps dying", ready="")
    assert ask(server, "/healthz")[0].status == 503
    assert ask(server, "/readyz")[0].status == 200

    answer, body = ask(server, "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert b'controller_runtime_max_concurrent_reconciles{controller="genericjob"} 4.0' in body
    assert b"process_cpu_seconds_total" in body


def test_a_head_is_the_answer_without_its_body(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"four")})
    answer, body = ask(server, "/page", "HEAD")
    assert (answer.status, answer.headers["Content-Length"], body) == (200, "4", b"")


def test_an_unknown_page_is_not_found_and_the_known_ones_are_named(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"")})
    for path in ("/", "/pag", "/page/", "/../page"):
        answer, body = ask(server, path)
        assert (answer.status, body) == (404, b"there is no such page; there are: /page\n")


def test_a_page_that_cannot_be_made_is_an_error_of_its_own(serve, caplog):
    server = serve({"/page": lambda: Page(1 // 0, "", b""), "/other": lambda: Page(200, "text/plain", b"fine")})
    assert ask(server, "/page")[0].status == 500
    assert "ZeroDivisionError" in caplog.text
    assert ask(server, "/other")[0].status == 200


def test_only_reading_is_possible(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"")})
    assert ask(server, "/page", "POST")[0].status == 501


def test_slow_clients_block_nobody(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")})
    idle = [socket.create_connection(("127.0.0.1", server.address.port)) for _ in range(10)]
    for each in idle:
        each.sendall(b"GET /page HT")
    assert ask(server, "/page")[1] == b"fine"
    assert all(thread.daemon for thread in threading.enumerate() if "process_request" in thread.name)  # not even our end
    for each in idle:
        each.sendall(b"TP/1.0\r\n\r\n")
        assert each.recv(100).startswith(b"HTTP/1.0 200")
        each.close()


def test_one_who_takes_too_long_is_hung_up_on(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")}, longest=0.0)
    with socket.create_connection(("127.0.0.1", server.address.port), 10) as slow:
        slow.sendall(b"GET /page HT")
        assert slow.recv(100) == b""


def test_of_too_many_clients_the_oldest_has_to_go(serve, monkeypatch):
    monkeypatch.setattr(serving, "CONNECTIONS", 3)
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")})
    oldest, *others = (socket.create_connection(("127.0.0.1", server.address.port), 10) for _ in range(3))
    assert ask(server, "/page")[1] == b"fine"
    assert oldest.recv(100) == b""
    others[-1].sendall(b"GET /page HTTP/1.0\r\n\r\n")
    assert others[-1].recv(100).startswith(b"HTTP/1.0 200")
    for each in (oldest, *others):
        each.close()


def test_a_client_that_vanishes_is_nobody_s_problem(serve, capsys):
    server = serve({"/page": lambda: Page(200, "text/plain", b"x" * 10_000_000)})
    with socket.create_connection(("127.0.0.1", server.address.port), 10) as gone:
        gone.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        gone.recv(10)
    assert ask(server, "/none")[0].status == 404
    assert capsys.readouterr().err == ""


def test_an_address_that_is_taken_is_told_in_one_sentence(serve):
    server = serve({})
    with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{server.address.port}: another program listens there already"):
        Server(server.address, {})
    everywhere = Server(Address("", 0), {})
    with pytest.raises(OSError, match=rf"cannot listen on :{everywhere.address.port}: another program listens there already"):
        Server(everywhere.address, {})
    everywhere.stop()


def test_an_address_that_is_not_ours_is_told_in_one_sentence():
    with pytest.raises(OSError, match=r"cannot listen on 192.0.2.1:8080: this machine has no such address$"):
        Server(Address("192.0.2.1", 8080), {})
    with pytest.raises(OSError, match=r"cannot listen on no.such.host.invalid:8080: "):
        Server(Address("no.such.host.invalid", 8080), {})


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EACCES, "this user may not, which is usual for ports below 1024"),
        (errno.ENOBUFS, os.strerror(errno.ENOBUFS)),
    ],
    ids=["EACCES", "ENOBUFS"],
)
def test_what_python_calls_an_address_is_nobody_s_concern(monkeypatch, number, words):
    def refuse(address, **options):
        raise OSError(number, f"{os.strerror(number)} (while attempting to bind on address {address!r})")

    monkeypatch.setattr(socket, "create_server", refuse)
    for host, shown in (("127.0.0.1", "127.0.0.1:80"), ("", ":80")):
        with pytest.raises(OSError, match="cannot listen on") as caught:
            Server(Address(host, 80), {})
        assert (caught.value.errno, caught.value.strerror) == (number, f"cannot listen on {shown}: {words}")


@pytest.fixture
def six():
    """A socket on ::1, where there is such a thing."""
    try:
        listening = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with listening:
        yield listening


def test_addresses_of_ipv6_are_served(serve, six):
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")}, Address("::1", 0))
    with socket.create_connection(("::1", server.address.port), 10) as client:
        client.sendall(b"GET /page HTTP/1.0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.0 200")


def test_every_interface_means_both_families_or_none(six):
    with pytest.raises(OSError, match="another program listens there already"):
        Server(Address("", six.getsockname()[1]), {})


def test_every_interface_includes_loopback(serve):
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")}, Address("", 0))
    assert ask(server, "/page")[1] == b"fine"
    assert server.name == f"serving :{server.address.port}"


def test_a_machine_without_ipv6_is_served_all_the_same(serve, monkeypatch):
    real = socket.create_server

    def without(address, *, family=socket.AF_INET, **options):
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", without)
    server = serve({"/page": lambda: Page(200, "text/plain", b"fine")}, Address("", 0))
    assert ask(server, "/page")[1] == b"fine"


def test_a_server_that_never_served_can_be_stopped():
    server = Server(LOOPBACK, {})
    server.stop()
    Server(server.address, {}).stop()
