"""The HTTP port against a server that misbehaves to order."""

import gzip
import re
import socket
import threading
from types import SimpleNamespace

import pytest

from genericjob.reconcile.connection import Connection
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Throttling, Timeouts
from genericjob.reconcile.resources import CONFIG_MAPS, PODS, Key, raw
from harness.scripted import ScriptedServer, all_at_once, answer, break_off, drip, hang_up, say_nothing, stream, stream_and_say_nothing

A = Key("ns", "a")
BODY = {"metadata": {"name": "a"}}
STORED = {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "7"}}


def fail(call, *args, **kwargs):
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value


def added(name, version):
    return b'{"type":"ADDED","object":{"metadata":{"name":"%s","resourceVersion":"%d"}}}\n' % (name.encode(), version)


# ------------------------------------------------------------------------------------------------ did it happen?


def test_a_write_that_was_sent_and_not_answered_is_unknown_and_never_sent_again():
    with ScriptedServer(hang_up) as server:
        error = fail(HttpApi(server.credentials()).create, CONFIG_MAPS, BODY, "ns")
    assert error.unknown
    assert error.unreachable
    assert len(server.requests) == 1


def test_a_write_on_a_warm_connection_is_not_sent_again_either():
    with ScriptedServer(answer(201, STORED), hang_up) as server:
        api = HttpApi(server.credentials())
        api.create(CONFIG_MAPS, BODY, "ns")
        error = fail(api.create, CONFIG_MAPS, BODY, "ns")
    assert error.unknown
    assert len(server.requests) == 2


def test_a_write_without_answer_in_time_is_unknown():
    with ScriptedServer(say_nothing) as server:
        error = fail(HttpApi(server.credentials(), timeouts=Timeouts(write=0.2)).replace, CONFIG_MAPS, A, BODY)
    assert error.unknown
    assert "not in time" in error.message


def test_a_5xx_to_a_write_is_unknown_and_to_a_read_is_not():
    with ScriptedServer(answer(500), answer(500)) as server:
        api = HttpApi(server.credentials())
        assert fail(api.create, CONFIG_MAPS, BODY, "ns").unknown
        assert not fail(api.get, CONFIG_MAPS, A).unknown


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_every_5xx_to_a_write_is_unknown(code):
    with ScriptedServer(answer(code)) as server:
        assert fail(HttpApi(server.credentials()).delete, CONFIG_MAPS, A).unknown


def test_a_write_whose_answer_breaks_off_is_unknown():
    with ScriptedServer(break_off) as server:
        assert fail(HttpApi(server.credentials()).create, CONFIG_MAPS, BODY, "ns").unknown


def test_a_server_that_sends_a_byte_now_and_then_gains_no_time():
    with ScriptedServer(drip) as server:
        error = fail(HttpApi(server.credentials(), timeouts=Timeouts(write=0.3)).create, CONFIG_MAPS, BODY, "ns")
    assert error.unknown


class Broken:
    """A socket that takes nothing more."""

    def settimeout(self, seconds):
        pass

    def setsockopt(self, *option):
        pass

    def send(self, data):
        raise BrokenPipeError("Broken pipe")

    def close(self):
        pass


def test_what_could_not_be_sent_on_a_warm_connection_is_sent_on_a_new_one(monkeypatch):
    with ScriptedServer(answer(201, STORED), answer(201, STORED)) as server:
        api = HttpApi(server.credentials())
        api.create(CONFIG_MAPS, BODY, "ns")
        monkeypatch.setattr(api._exchange._pool._idle[-1], "_socket", Broken())
        monkeypatch.setattr(Connection, "has_data", lambda self: False)
        assert api.create(CONFIG_MAPS, BODY, "ns").object == STORED
    assert len(server.requests) == 2


def test_what_could_not_be_sent_on_a_new_connection_did_not_happen(monkeypatch):
    with ScriptedServer() as server:
        monkeypatch.setattr("genericjob.reconcile.connection._open", lambda *_: Broken())
        monkeypatch.setattr("select.poll", lambda: SimpleNamespace(register=lambda *_: None))
        error = fail(HttpApi(server.credentials()).create, CONFIG_MAPS, BODY, "ns")
    assert error.unreachable
    assert not error.unknown


def test_a_read_that_breaks_on_a_new_connection_is_not_repeated():
    with ScriptedServer(hang_up) as server:
        fail(HttpApi(server.credentials()).get, CONFIG_MAPS, A)
    assert len(server.requests) == 1


def test_nothing_listens_so_nothing_happened():
    with ScriptedServer() as server:
        credentials = server.credentials()
    error = fail(HttpApi(credentials).create, CONFIG_MAPS, BODY, "ns")
    assert error.unreachable
    assert not error.unknown
    assert "refused" in error.message
    assert "the test" in error.message  # where the address came from


def test_a_read_is_repeated_when_a_warm_connection_breaks():
    with ScriptedServer(answer(200, STORED), hang_up, answer(200, STORED)) as server:
        api = HttpApi(server.credentials())
        api.get(CONFIG_MAPS, A)
        assert api.get(CONFIG_MAPS, A) == STORED
        assert server.connections == 2


def test_a_connection_that_the_server_closed_while_idle_is_not_used_for_a_write():
    with ScriptedServer(answer(201, STORED), answer(201, STORED)) as server:
        api = HttpApi(server.credentials())
        api.create(CONFIG_MAPS, BODY, "ns")
        server.close_idle()
        assert api.create(CONFIG_MAPS, BODY, "ns").object == STORED
        assert server.connections == 2


def test_one_connection_serves_many_requests():
    with ScriptedServer(*[answer(200, STORED)] * 5) as server:
        api = HttpApi(server.credentials())
        for _ in range(5):
            api.get(CONFIG_MAPS, A)
        assert server.connections == 1


def test_a_connection_that_the_server_wants_closed_is_not_kept():
    with ScriptedServer(answer(200, STORED, Connection="close"), answer(200, STORED)) as server:
        api = HttpApi(server.credentials())
        api.get(CONFIG_MAPS, A)
        api.get(CONFIG_MAPS, A)
        assert server.connections == 2


def test_an_unreadable_answer_to_a_write_that_was_stored_is_unknown():
    with ScriptedServer(answer(201, b"<html>")) as server:
        assert fail(HttpApi(server.credentials()).create, CONFIG_MAPS, BODY, "ns").unknown


# ------------------------------------------------------------------------------------------------ 401 and 429


def test_a_401_is_retried_once_with_new_credentials():
    with ScriptedServer(answer(401), answer(200, STORED)) as server:
        assert HttpApi(server.credentials("old", "new")).get(CONFIG_MAPS, A) == STORED
    assert b"Bearer old" in server.requests[0]
    assert b"Bearer new" in server.requests[1]


def test_a_401_with_the_same_credentials_is_told_and_not_repeated():
    with ScriptedServer(answer(401, {"message": "Unauthorized"})) as server:
        error = fail(HttpApi(server.credentials("same")).get, CONFIG_MAPS, A)
    assert error.unauthorized
    assert "token in the test" in error.message
    assert len(server.requests) == 1


def test_new_credentials_that_are_refused_too_do_not_loop():
    with ScriptedServer(*[answer(401)] * 5) as server:
        fail(HttpApi(server.credentials("a", "b", "c", "d")).get, CONFIG_MAPS, A)
    assert len(server.requests) == 2


def test_a_429_is_waited_for_as_long_as_the_server_asks():
    slept = []
    with ScriptedServer(answer(429, Retry_After="3"), answer(429), answer(429, Retry_After="999"), answer(201, STORED)) as server:
        HttpApi(server.credentials(), sleep=slept.append).get(CONFIG_MAPS, A)
    assert slept == [3, 1, 10]


def test_a_429_that_asks_for_more_time_than_a_write_has_is_told_at_once():
    slept = []
    with ScriptedServer(answer(429, Retry_After="30")) as server:
        error = fail(HttpApi(server.credentials(), sleep=slept.append).create, CONFIG_MAPS, BODY, "ns")
    assert (error.throttled, error.retry_after, slept) == (True, 30, [])


def test_the_time_to_wait_may_stand_in_the_body():
    with ScriptedServer(answer(429, {"message": "busy", "details": {"retryAfterSeconds": 2}})) as server:
        assert fail(HttpApi(server.credentials(), throttling=Throttling(tries=0)).get, CONFIG_MAPS, A).retry_after == 2


def test_a_429_without_end_is_told_in_the_end():
    slept = []
    with ScriptedServer(*[answer(429, Retry_After="1")] * 3) as server:
        error = fail(HttpApi(server.credentials(), throttling=Throttling(tries=2), sleep=slept.append).create, CONFIG_MAPS, BODY, "ns")
    assert error.throttled
    assert not error.unknown
    assert error.retry_after == 1
    assert len(slept) == 2


# ------------------------------------------------------------------------------------------------ what is on the wire


def test_names_cannot_reach_other_paths():
    with ScriptedServer(answer(200, STORED)) as server:
        HttpApi(server.credentials()).get(CONFIG_MAPS, Key("ns", "../../secrets/x?y#z"))
    assert server.heads() == ["GET /api/v1/namespaces/ns/configmaps/..%2F..%2Fsecrets%2Fx%3Fy%23z HTTP/1.1"]


def test_a_request_for_one_object_needs_a_name():
    with ScriptedServer() as server, pytest.raises(ValueError, match="name"):
        HttpApi(server.credentials()).delete(CONFIG_MAPS, Key("ns", ""))  # an empty name would delete the collection
    assert server.requests == []


def test_the_server_is_told_who_asks_and_how_long_it_may_take():
    with ScriptedServer(answer(201, STORED)) as server:
        HttpApi(server.credentials()).create(CONFIG_MAPS, BODY, "ns", field_validation="Warn")
    (head,) = server.heads()
    told = re.fullmatch(r"POST /api/v1/namespaces/ns/configmaps\?fieldValidation=Warn&timeout=(\d+)ms HTTP/1.1", head)
    assert told, head
    assert 0 < int(told[1]) <= 4000
    assert b"User-Agent: genericjob/" in server.requests[0]


def test_warnings_come_back_with_a_create():
    with ScriptedServer(answer(201, STORED, Warning='299 - "unknown field \\"spec.x\\""')) as server:
        assert HttpApi(server.credentials()).create(CONFIG_MAPS, BODY, "ns").warnings == ['unknown field "spec.x"']


def test_a_list_may_come_compressed():
    data = gzip.compress(b'{"metadata":{"resourceVersion":"9","continue":"t","remainingItemCount":4},"items":[{"metadata":{"name":"a"}}]}')
    with ScriptedServer(answer(200, data, Content_Encoding="gzip")) as server:
        page = HttpApi(server.credentials()).list(PODS, "ns", labels="a=b,c!=d", limit=1)
    assert ([p.name for p in page.items], page.resource_version, page.continue_token, page.remaining) == (["a"], "9", "t", 4)
    assert server.heads() == ["GET /api/v1/namespaces/ns/pods?labelSelector=a%3Db%2Cc%21%3Dd&limit=1 HTTP/1.1"]
    assert b"Accept-Encoding: gzip" in server.requests[0]


@pytest.mark.parametrize("script", [answer(200, b"<html>"), answer(302, b"")], ids=["html", "redirect"])
@pytest.mark.parametrize("verb", ["get", "list", "create", "replace", "patch", "delete", "watch"])
def test_what_is_no_api_server_is_an_error_for_every_verb(verb, script):
    with ScriptedServer(script) as server:
        api = HttpApi(server.credentials(), timeouts=Timeouts(silence=30))
        calls = {
            "get": lambda: api.get(CONFIG_MAPS, A),
            "list": lambda: api.list(CONFIG_MAPS),
            "create": lambda: api.create(CONFIG_MAPS, BODY, "ns"),
            "replace": lambda: api.replace(CONFIG_MAPS, A, BODY),
            "patch": lambda: api.patch(CONFIG_MAPS, A, {}),
            "delete": lambda: api.delete(CONFIG_MAPS, A),
            "watch": lambda: list(api.watch(CONFIG_MAPS)),
        }
        fail(calls[verb])


def test_a_list_that_only_claims_to_be_compressed_is_an_error_and_not_a_crash():
    with ScriptedServer(answer(200, b"{}", Content_Encoding="gzip")) as server:
        assert fail(HttpApi(server.credentials()).list, PODS).unreachable


def test_delete_sends_its_conditions():
    with ScriptedServer(answer(200, {"kind": "Status"})) as server:
        gone = HttpApi(server.credentials()).delete(PODS, A, uid="u", resource_version="5", grace=0, propagation="Background")
    assert gone is None
    body = server.requests[0].partition(b"\r\n\r\n")[2]
    assert body == b'{"preconditions":{"uid":"u","resourceVersion":"5"},"gracePeriodSeconds":0,"propagationPolicy":"Background"}'


@pytest.mark.parametrize("body", [b"plain text\n", b"<html>", b"[]", b"\xff", b'{"message": 3, "details": {"causes": [1, {}]}}'])
def test_any_body_of_a_refusal_is_understood(body):
    with ScriptedServer(answer(503, body)) as server:
        error = fail(HttpApi(server.credentials()).get, PODS, A)
    assert (error.code, error.reason) == (503, "ServiceUnavailable")
    assert error.message


GENERIC_JOBS = raw("batch.tensorstack.dev", "v1beta1", "genericjobs", "GenericJob")
NO_SUCH_PAGE = answer(404, b"404 page not found\n", Content_Type="text/plain; charset=utf-8")


@pytest.mark.parametrize("verb", ["list", "list in a namespace", "watch", "get", "create", "status"])
def test_a_kind_without_its_definition_is_named_and_what_to_do_about_it(verb):
    with ScriptedServer(NO_SUCH_PAGE) as server:
        api = HttpApi(server.credentials())
        calls = {
            "list": lambda: api.list(GENERIC_JOBS),
            "list in a namespace": lambda: api.list(GENERIC_JOBS, "ns", limit=500),
            "watch": lambda: api.watch(GENERIC_JOBS),
            "get": lambda: api.get(GENERIC_JOBS, A),
            "create": lambda: api.create(GENERIC_JOBS, BODY, "ns"),
            "status": lambda: api.replace_status(GENERIC_JOBS, A, BODY),
        }
        error, url = fail(calls[verb]), server.credentials().current.url
    assert (error.code, error.not_found) == (404, True)
    assert error.message == (
        "the server knows no genericjobs.batch.tensorstack.dev: is its CustomResourceDefinition installed? "
        f"({url} answered 404 for version v1beta1)"
    )


@pytest.mark.parametrize(
    ("resource", "script"),
    [
        (CONFIG_MAPS, NO_SUCH_PAGE),  # every API server knows these
        (GENERIC_JOBS, answer(404, b"<html>404 Not Found</html>")),
        (GENERIC_JOBS, answer(503, b"404 page not found")),
    ],
    ids=["core", "html", "503"],
)
def test_what_is_no_api_server_is_not_taken_for_one_without_the_kind(resource, script):
    with ScriptedServer(script) as server:
        error = fail(HttpApi(server.credentials()).list, resource)
    assert "not as a Kubernetes API server does" in error.message


STATUS = {"kind": "Status", "message": 'genericjobs "a" not found', "reason": "NotFound", "code": 404}


@pytest.mark.parametrize(
    ("body", "absent"),
    [
        (STATUS, True),
        (b"404 page not found\n", True),
        (b"", False),
        (b"<html>404 Not Found</html>", False),
        (b"default backend - 404", False),
        ({"message": "no Route matched with those values"}, False),
        ({"message": "Not Found", "reason": "NotFound"}, False),
        (STATUS | {"reason": ""}, False),  # of a webhook that refuses with this code
        (STATUS | {"reason": "Odd"}, False),
    ],
    ids=str,
)
def test_an_object_is_absent_only_where_an_api_server_says_so(body, absent):
    with ScriptedServer(*[answer(404, body)] * 2) as server:
        api = HttpApi(server.credentials())
        errors = [fail(api.get, GENERIC_JOBS, A), fail(api.delete, GENERIC_JOBS, A)]
    assert [(error.code, error.not_found) for error in errors] == [(404, absent)] * 2
    of_an_api_server = absent or (isinstance(body, dict) and "kind" in body)
    assert [error.unknown for error in errors] == [False, not of_an_api_server]


def test_a_group_without_its_definition_is_named():
    with ScriptedServer(NO_SUCH_PAGE) as server:
        error = fail(HttpApi(server.credentials()).request, "GET", "/apis/batch.tensorstack.dev/v1beta1")
    assert error.not_found
    assert "the server knows no batch.tensorstack.dev: is its CustomResourceDefinition installed?" in error.message


def test_an_object_that_is_not_there_is_told_in_the_server_s_own_words():
    with ScriptedServer(answer(404, {"kind": "Status", "message": 'genericjobs "a" not found', "reason": "NotFound"})) as server:
        assert fail(HttpApi(server.credentials()).get, GENERIC_JOBS, A).message == 'genericjobs "a" not found'


# ------------------------------------------------------------------------------------------------ watch


def names(watch):
    return [event.object.name for event in watch]


def test_events_may_be_cut_anywhere():
    whole = added("a", 1) + added("b", 2) + added("c", 3)
    with ScriptedServer(stream(*[whole[i : i + 7] for i in range(0, len(whole), 7)])) as server:
        watch = HttpApi(server.credentials()).watch(PODS, resource_version="0")
        assert names(watch) == ["a", "b", "c"]
    assert b"Accept-Encoding: identity" in server.requests[0]


def test_a_watch_that_began_at_a_version_says_how_far_it_has_come():
    with ScriptedServer(stream(added("a", 8))) as server:
        watch = HttpApi(server.credentials()).watch(PODS, resource_version="5")
        assert watch.resource_version == "5"
        assert names(watch) == ["a"]
        assert watch.resource_version == "8"


def test_initial_events_come_in_no_order_and_move_nothing():
    bookmark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
    with ScriptedServer(stream(added("a", 8), added("b", 2), bookmark)) as server:
        watch = iter(stream_ := HttpApi(server.credentials()).watch(PODS, initial_events=True))
        next(watch), next(watch)
        assert stream_.resource_version == ""
        assert next(watch).initial_events_end
        assert stream_.resource_version == "9"
    assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in server.heads()[0]


@pytest.mark.parametrize(
    "script",
    [
        answer(410, {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}),
        stream(b'{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}\n'),
    ],
    ids=["as status", "as event"],
)
def test_gone_is_gone_in_both_forms(script):
    with ScriptedServer(script) as server:
        error = fail(lambda: list(HttpApi(server.credentials()).watch(PODS, resource_version="1")))
    assert error.gone
    assert error.reason == "Expired"


def test_a_cut_stream_is_an_error_and_its_events_count():
    seen = []
    with ScriptedServer(stream(added("a", 1), end=False)) as server:
        watch = HttpApi(server.credentials()).watch(PODS, resource_version="0")
        error = fail(lambda: seen.extend(watch_all(watch, seen)))
    assert error.unreachable
    assert seen == ["a"]


def watch_all(watch, seen):
    for event in watch:
        seen.append(event.object.name)
    return ()


def test_a_silent_stream_is_taken_for_dead():
    with ScriptedServer(stream_and_say_nothing(added("a", 1))) as server:
        watch = HttpApi(server.credentials(), timeouts=Timeouts(silence=0.2)).watch(PODS)
        error = fail(lambda: list(watch))
    assert error.reason == "Silent"


def test_a_stream_that_is_complete_ends_although_the_connection_stays_open():
    with ScriptedServer(all_at_once(added("a", 1))) as server:
        assert names(HttpApi(server.credentials()).watch(PODS, resource_version="0")) == ["a"]


def test_an_event_without_its_end_is_an_error():
    with ScriptedServer(stream(added("a", 1), added("b", 2)[:-5])) as server:
        assert fail(lambda: list(HttpApi(server.credentials()).watch(PODS, resource_version="0"))).unreachable


def test_an_event_without_an_end_fills_no_memory(monkeypatch):
    monkeypatch.setattr("genericjob.reconcile.stream.LARGEST_OBJECT_BYTES", 300_000)
    large, seen = added("x" * 299_000, 2), []
    with ScriptedServer(stream(added("a", 1), large, b"{" * 301_000)) as server:
        watch = HttpApi(server.credentials()).watch(PODS, resource_version="0")
        error = fail(lambda: seen.extend(watch_all(watch, seen)))
    assert (error.reason, error.message) == ("Unreadable", "the server sent an event of more than 300,000 bytes")
    assert [len(name) for name in seen] == [1, 299_000]


def test_a_connection_ends_with_its_stream():
    gone = threading.Event()

    def until_the_client_leaves(peer):
        peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        if peer.recv(1) == b"":
            gone.set()
        return False

    with ScriptedServer(until_the_client_leaves) as server:
        watch = HttpApi(server.credentials()).watch(PODS)
        assert list(watch) == []
        assert gone.wait(10)


def test_peers_that_vanish_are_noticed_and_requests_are_not_held_back():
    with ScriptedServer() as server:
        connection = Connection(server.credentials().current, 5)
        assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        connection.close()


def test_nothing_is_told_after_closing():
    with ScriptedServer(stream(added("a", 1) + added("b", 2))) as server:
        watch = HttpApi(server.credentials()).watch(PODS, resource_version="0")
        events = iter(watch)
        next(events)
        watch.close()
        assert list(events) == []


def test_closing_from_another_thread_ends_a_waiting_reader_quietly():
    with ScriptedServer(stream_and_say_nothing(added("a", 1))) as server:
        watch = HttpApi(server.credentials()).watch(PODS)
        events = iter(watch)
        next(events)
        threading.Timer(0.05, watch.close).start()
        assert list(events) == []


def test_a_watch_event_of_a_type_unknown_today_is_an_error_and_not_a_crash():
    with ScriptedServer(stream(b'{"type":"NEWS","object":{}}\n')) as server:
        assert fail(lambda: list(HttpApi(server.credentials()).watch(PODS))).reason == "Unreadable"
