"""One deadline per request: whatever takes long, nothing is sent after it, and no send grants the server more than what is left."""

import re
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from genericjob.reconcile import connection
from genericjob.reconcile.access import Credentials
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.lease import Timings
from genericjob.reconcile.primitives import monotonic
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from genericjob.reconcile.timeouts import CREATE_S
from harness.scripted import ScriptedServer, answer, hang_up

A = Key("ns", "a")
BODY = {"metadata": {"name": "a"}}
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}}
WRITES = {
    "create": lambda api: api.create(CONFIG_MAPS, BODY, "ns"),
    "replace": lambda api: api.replace(CONFIG_MAPS, A, BODY),
    "status": lambda api: api.replace_status(CONFIG_MAPS, A, BODY),
    "patch": lambda api: api.patch(CONFIG_MAPS, A, {}),
    "delete": lambda api: api.delete(CONFIG_MAPS, A),
}
LIMIT = 0.5
"""Seconds that a write has in these tests. What hangs is let go only after it has been given up."""


def fail(call, *args):
    with pytest.raises(ApiError) as caught:
        call(*args)
    return caught.value


def at(server, **changes):
    """Credentials for a server that is reached in another way."""
    return Credentials(lambda: replace(server.credentials().current, **changes))


def told(server):
    """How many milliseconds the server was granted by each write."""
    return [int(re.search(r"[?&]timeout=(\d+)ms ", head)[1]) for head in server.heads()]


class Clock:
    """The clock of connections, and ahead of it when the test says so."""

    def __init__(self):
        self.ahead = 0.0

    def __call__(self):
        return monotonic() + self.ahead

    def sleep(self, seconds):
        self.ahead += seconds


@pytest.mark.parametrize(("limit", "most"), [(30.0, 29_750), (4.0, 3_750), (LIMIT, 375)])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_server_ends_a_write_before_the_client_gives_it_up(write, limit, most):
    """So its 504 is heard, and reported to the user, where admission takes too long."""
    with ScriptedServer(answer(201, STORED)) as server:
        write(HttpApi(server.credentials(), timeouts=Timeouts(write=limit)))
        assert told(server)[0] <= most


# ------------------------------------------------------------------------------------------------ before the first send


@pytest.fixture
def resolver(monkeypatch):
    """A resolver that knows names when the test lets it; `asked` counts the lookups."""
    real, known = socket.getaddrinfo, threading.Event()
    known.asked = 0

    def look_up(host, port, *args, flags=0, **more):
        if host != "server.test" or flags & socket.AI_NUMERICHOST:
            return real(host, port, *args, flags=flags, **more)
        known.asked += 1
        assert known.wait(30)
        return real("127.0.0.1", port, *args, flags=flags, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    yield known
    known.set()


def test_nothing_is_sent_when_the_resolver_took_all_of_the_time(resolver):
    with ScriptedServer(answer(201, STORED)) as server:
        error = fail(WRITES["create"], HttpApi(at(server, host="server.test"), timeouts=Timeouts(write=LIMIT)))
        resolver.set()
    assert (error.unreachable, error.unknown) == (True, False)
    assert server.requests == []


def test_a_resolver_that_hangs_is_asked_once_however_many_wait_for_it(resolver):
    with ScriptedServer(answer(201, STORED)) as server:
        credentials = at(server, host="server.test")
        for _ in range(3):
            fail(WRITES["create"], HttpApi(credentials, timeouts=Timeouts(write=0.2)))
        assert resolver.asked == 1
        resolver.set()
        assert WRITES["create"](HttpApi(credentials)).object == STORED


def test_a_name_that_is_not_known_is_told_at_once_and_asked_for_again(monkeypatch):
    def unknown(host, port, *args, **more):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with ScriptedServer(answer(201, STORED)) as server:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        error = fail(WRITES["create"], HttpApi(at(server, host="server.test")))
        assert "Name or service not known" in error.message
        monkeypatch.undo()
        assert WRITES["create"](HttpApi(at(server, host="localhost"))).object == STORED


@contextmanager
def listener_that_takes_nobody():
    """Its queue is full: who connects gets no answer."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            early = stack.enter_context(socket.socket())
            early.setblocking(False)
            with suppress(BlockingIOError):
                early.connect(listener.getsockname())
        yield listener.getsockname()


def test_a_connection_that_does_not_come_about_has_the_time_of_its_request():
    with listener_that_takes_nobody() as (_, port), ScriptedServer() as server:
        error = fail(WRITES["delete"], HttpApi(at(server, port=port), timeouts=Timeouts(write=LIMIT)))
    assert (error.unreachable, error.unknown) == (True, False)


def test_an_address_that_does_not_answer_leaves_time_for_the_next(monkeypatch):
    with listener_that_takes_nobody() as dead, ScriptedServer(answer(201, STORED)) as server:
        both = [(socket.AF_INET, socket.SOCK_STREAM, 0, address) for address in (dead, ("127.0.0.1", server.port))]
        monkeypatch.setattr(connection, "addresses", lambda host, port, within: both)
        assert WRITES["create"](HttpApi(server.credentials(), timeouts=Timeouts(write=2.0))).object == STORED
    assert told(server)[0] < 1500


def test_a_handshake_that_does_not_end_has_the_time_of_its_request():
    with ScriptedServer() as server:
        over = threading.Timer(10, server.close_idle)  # long after the request has been given up
        over.daemon = True
        over.start()
        error = fail(WRITES["status"], HttpApi(at(server, tls=ssl.create_default_context()), timeouts=Timeouts(write=LIMIT)))
        over.cancel()
    assert (error.unreachable, error.unknown) == (True, False)
    assert error.message.endswith("no answer")


# ------------------------------------------------------------------------------------------------ at each send


@pytest.mark.parametrize("write", WRITES)
def test_every_write_says_how_long_the_server_may_take(write):
    with ScriptedServer(answer(200, STORED)) as server:
        WRITES[write](HttpApi(server.credentials()))
    assert 0 < told(server)[0] <= 4000


@pytest.mark.parametrize("write", WRITES)
def test_creates_alone_may_take_longer(write):
    with ScriptedServer(answer(200, STORED)) as server:
        WRITES[write](HttpApi(server.credentials(), timeouts=Timeouts(create=CREATE_S)))
    assert (told(server)[0] > 4000) == (write == "create")


def test_a_write_that_is_sent_again_after_a_429_has_only_what_is_left_of_its_time():
    clock = Clock()
    with ScriptedServer(answer(429, Retry_After="3"), answer(200, STORED)) as server:
        WRITES["delete"](HttpApi(server.credentials(), clock=clock, sleep=clock.sleep))
    first, second = told(server)
    assert second <= first - 3000


def test_a_429_is_not_waited_for_when_nothing_would_be_left_to_send_it_again():
    clock = Clock()
    with ScriptedServer(answer(429, Retry_After="4")) as server:
        error = fail(WRITES["delete"], HttpApi(server.credentials(), clock=clock, sleep=clock.sleep))
    assert (error.throttled, clock.ahead) == (True, 0.0)


def test_a_wait_that_took_longer_than_it_should_ends_the_request():
    """A machine that was suspended, or is busy."""
    clock = Clock()
    with ScriptedServer(answer(429, Retry_After="1")) as server:
        error = fail(WRITES["delete"], HttpApi(server.credentials(), clock=clock, sleep=lambda _: clock.sleep(3.95)))
    assert (error.unreachable, error.unknown) == (True, False)
    assert len(server.requests) == 1


def test_new_credentials_bring_no_new_time():
    clock = Clock()

    def refused(peer):
        clock.sleep(2.5)
        return answer(401)(peer)

    with ScriptedServer(refused, answer(200, STORED)) as server:
        WRITES["delete"](HttpApi(server.credentials("old", "new"), clock=clock))
    first, second = told(server)
    assert second <= first - 2500


def test_a_connection_that_took_long_leaves_the_server_less():
    clock = Clock()

    def slowly(access, timeout):
        clock.sleep(3.0)
        return connection.Connection(access, timeout)

    with ScriptedServer(answer(200, STORED)) as server:
        WRITES["delete"](HttpApi(server.credentials(), clock=clock, connect=slowly))
    assert told(server)[0] <= 1000


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_sent_on_a_connection_that_came_too_late(write):
    clock = Clock()

    def slowly(access, timeout):
        clock.sleep(timeout + 1)  # as a thread does that gets no processor
        return connection.Connection(access, timeout)

    with ScriptedServer(answer(200, STORED)) as server:
        error = fail(WRITES[write], HttpApi(server.credentials(), clock=clock, connect=slowly))
    assert (error.unreachable, error.unknown) == (True, False)
    assert server.requests == []


# ------------------------------------------------------------------------------------------------ the fence


@pytest.mark.parametrize("write", WRITES)
def test_no_write_is_sent_when_the_fence_shut_while_the_connection_was_made(write):
    leads = [True]

    def slowly(access, timeout):
        leads[0] = False
        return connection.Connection(access, timeout)

    with ScriptedServer(answer(200, STORED)) as server:
        api = HttpApi(server.credentials(), may_write=lambda: leads[0], connect=slowly)
        error = fail(WRITES[write], api)
    assert (error.reason, error.unknown) == ("NotLeading", False)
    assert server.requests == []


def test_no_write_is_sent_again_when_the_fence_shut_during_the_wait():
    leads = [True]
    with ScriptedServer(answer(429, Retry_After="1"), answer(200, STORED)) as server:
        api = HttpApi(server.credentials(), may_write=lambda: leads[0], sleep=lambda _: leads.__setitem__(0, False))
        error = fail(WRITES["create"], api)
    assert error.reason == "NotLeading"
    assert len(server.requests) == 1


def test_reads_need_no_permission():
    with ScriptedServer(answer(200, STORED)) as server:
        assert HttpApi(server.credentials(), may_write=lambda: False).get(CONFIG_MAPS, A) == STORED


def test_status_writes_and_deletes_end_before_a_successor_can_begin():
    timings = Timings()
    assert Timeouts().write < timings.lease - timings.renew


# ------------------------------------------------------------------------------------------------ what is given up


def ended_by_a_reset(server, give_up):
    """Whether the connection on which a request was given up is reset, so that nothing of it is sent any more."""
    ends = []

    def wait_for_the_end(peer):
        try:
            ends.append(peer.recv(1))
        except ConnectionResetError:
            ends.append("reset")
        gone.set()
        return False

    gone = threading.Event()
    server._script.append(wait_for_the_end)
    give_up()
    assert gone.wait(30)
    return ends == ["reset"]


def test_a_write_that_is_given_up_is_taken_back():
    with ScriptedServer() as server:
        assert ended_by_a_reset(server, lambda: fail(WRITES["delete"], HttpApi(server.credentials(), timeouts=Timeouts(write=0.2))))


def test_an_idle_connection_is_closed_politely():
    ended = []

    def until_the_end(peer):
        answer(200, STORED)(peer)
        ended.append(peer.recv(1))
        gone.set()
        return False

    gone = threading.Event()
    with ScriptedServer(until_the_end) as server:
        api = HttpApi(server.credentials())
        WRITES["create"](api)
        api.close()
        assert gone.wait(30)
    assert ended == [b""]


def test_a_write_that_a_server_does_not_read_has_not_happened():
    with socket.create_server(("127.0.0.1", 0)) as listener, ScriptedServer() as server:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        api = HttpApi(at(server, port=listener.getsockname()[1]), timeouts=Timeouts(write=LIMIT))
        error = fail(api.create, CONFIG_MAPS, b"x" * 32 * 2**20, "ns")
    assert (error.unreachable, error.unknown) == (True, False)


class Sipping:
    """A socket that takes a byte at a time, each well within any limit: TLS grants the whole time anew to every 16 KB."""

    def __init__(self):
        self.taken = 0

    def settimeout(self, seconds):
        pass

    def send(self, data):
        time.sleep(0.001)
        self.taken += 1
        return 1


def test_a_server_that_takes_a_request_in_small_parts_gains_no_time():
    slow, whole = connection.Connection.__new__(connection.Connection), 5000
    slow._socket = Sipping()
    with pytest.raises(connection.NotSentError):
        slow.send(b"x" * whole, "POST", monotonic() + 0.2)
    assert 0 < slow._socket.taken < whole


def test_a_create_without_an_answer_is_unknown():
    with ScriptedServer(hang_up) as server:
        assert fail(WRITES["create"], HttpApi(server.credentials(), timeouts=Timeouts(create=CREATE_S))).unknown
