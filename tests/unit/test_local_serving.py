"""The API in memory over HTTP: who may ask, what clients like kubectl ask for, and what is refused in one sentence.

That the verbs themselves behave as those of a real server is told by the conformance tests, which run over HTTP, too.
"""

import http.client
import json
import os
import threading
import time

import pytest

from genericjob.api import crd
from genericjob.jobs.resource import JOBS
from genericjob.local import MemoryApi
from genericjob.local.arrivals import SECOND, beside, record
from genericjob.local.outputs import Outputs, Wanted
from genericjob.local.serving import ApiServer
from genericjob.reconcile import warning_header
from genericjob.reconcile.access import Access, Credentials
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, RAW_PODS, Key

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
JOB = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "GenericJob",
    "metadata": {"name": "j"},
    "spec": {"replicaSpecs": [{"type": "w", "template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}]},
}
JOBS_PATH = "/apis/batch.tensorstack.dev/v1beta1/namespaces/default/genericjobs"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}


@pytest.fixture
def memory():
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    return api


@pytest.fixture
def server(memory, tmp_path):
    serving = ApiServer(memory, find_log=lambda pod, uid, container: tmp_path / f"{pod.name}-{container}.log")
    serving.start()
    yield serving
    serving.stop()


@pytest.fixture
def api(server):
    access = Access(server.host, server.port, authorization=f"Bearer {server.token}")
    client = HttpApi(Credentials(lambda: access))
    yield client
    client.close()


@pytest.fixture
def ask(server):
    """One request on a connection of its own: status, and what was answered."""

    def request(method, path, body=None, *, token=True, accept="application/json", content="application/json", headers=()):
        connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        known = {"Authorization": f"Bearer {server.token}"} if token is True else {"Authorization": token} if token else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body)
        connection.request(method, path, data, {"Accept": accept, "Content-Type": content, **known, **dict(headers)})
        answer = connection.getresponse()
        request.headers = answer.headers
        text = answer.read()
        connection.close()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text.decode()

    return request


# ------------------------------------------------------------------------------------------------ who may ask


def test_it_listens_on_loopback_only(server):
    assert server.host == "127.0.0.1"


@pytest.mark.parametrize("token", [None, "Bearer wrong", "Bearer ", "Basic eDp5", "Bearer \xe9"])
def test_without_the_token_nobody_gets_anything(ask, token):
    for path in ("/version", "/api/v1/secrets", "/wrong/version", "/"):
        status, body = ask("GET", path, token=token)
        assert (status, body["reason"]) == (401, "Unauthorized")


def test_the_token_may_be_in_the_address_as_kubectl_needs_it(ask, server):
    assert ask("GET", f"/{server.token}/version", token=None)[0] == 200
    assert ask("GET", f"/{server.token}/version")[0] == 200
    assert ask("GET", f"/{server.token}", token=None)[0] == 404


def test_bodies_have_a_limit_and_a_length(ask):
    status, body = ask("POST", JOBS_PATH, b"x", headers={"Content-Length": str(1 << 30)}.items())
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
    status, body = ask("POST", JOBS_PATH, b"", headers={"Transfer-Encoding": "chunked"}.items())
    assert status == 411


# ------------------------------------------------------------------------------------------------ what there is


def test_clients_find_out_what_there_is(ask):
    assert ask("GET", "/readyz") == (200, "ok")
    assert ask("GET", "/version")[1]["gitVersion"].startswith("v1.34.0")
    assert ask("GET", "/api")[1]["versions"] == ["v1"]
    groups = [group["name"] for group in ask("GET", "/apis")[1]["groups"]]
    assert {"batch.tensorstack.dev", "apiextensions.k8s.io"} <= set(groups)
    assert ask("GET", "/apis/batch.tensorstack.dev")[1]["preferredVersion"]["version"] == "v1beta1"
    found = {one["name"]: one for one in ask("GET", "/apis/batch.tensorstack.dev/v1beta1")[1]["resources"]}
    assert (found["genericjobs"]["shortNames"], found["genericjobs"]["categories"]) == (["gj"], ["all"])
    assert "genericjobs/status" in found
    assert "pods/log" in [one["name"] for one in ask("GET", "/api/v1")[1]["resources"]]


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/apis/nobody", "/apis/batch.tensorstack.dev/v9", "/api/v1/nothing", "/api/v1/pods/p", "/api/v1/namespaces/a/nodes"],
)
def test_what_is_not_there_is_not_found(ask, path):
    status, body = ask("GET", path)
    assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")


def test_kubectl_is_told_that_fields_are_looked_at_here(ask):
    paths = ask("GET", "/openapi/v3")[1]["paths"]
    place = paths["apis/batch.tensorstack.dev/v1beta1"]["serverRelativeURL"]
    _, found = ask("GET", place)[1]["paths"].values()
    assert found["patch"]["x-kubernetes-group-version-kind"]["kind"] == "GenericJob"
    assert [one["name"] for one in found["patch"]["parameters"]] == ["fieldValidation"]
    assert ask("GET", paths["api/v1"]["serverRelativeURL"])[0] == 200
    assert ask("GET", "/openapi/v3/apis/nobody/v1")[0] == 404


def test_the_user_may_everything_that_is_possible(ask):
    for wanted, allowed in (({}, True), ({"resource": "pods"}, True), ({"resource": "pods", "subresource": "exec"}, False)):
        review = {"spec": {"resourceAttributes": wanted}}
        status, body = ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert (status, body["status"]["allowed"]) == (201, allowed)
    assert ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})[1]["status"]["userInfo"]["username"] == "you"


# ------------------------------------------------------------------------------------------------ tables


def test_kubectl_get_shows_the_columns_of_the_definition(ask, memory):
    memory.create(JOBS, JOB, "default")
    memory.patch(JOBS, Key("default", "j"), {"status": {"phase": "Running", "ready": "1/1", "restarts": 2}}, subresource="status")
    for path in (JOBS_PATH, f"{JOBS_PATH}/j"):
        table = ask("GET", path, accept=TABLE)[1]
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Phase", "Ready", "Restarts", "Age"]
        assert table["rows"][0]["cells"] == ["j", "Running", "1/1", 2, table["rows"][0]["cells"][4]]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_kubectl_get_shows_pods_as_always(ask, memory):
    memory.create(RAW_PODS, POD, "default")
    state = {"terminated": {"exitCode": 3, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": [{"name": "main", "ready": False, "restartCount": 0, "state": state}]}
    memory.patch(RAW_PODS, Key("default", "p"), {"status": status}, subresource="status")
    row = ask("GET", "/api/v1/pods", accept=TABLE)[1]["rows"][0]["cells"]
    assert row[:4] == ["p", "0/1", "Error", "0"]
    assert ask("GET", "/api/v1/configmaps", accept=TABLE)[1]["columnDefinitions"][1]["name"] == "Age"


def test_a_watch_can_be_one_of_tables(server, memory):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.request("GET", f"/{server.token}{JOBS_PATH}?watch=1", headers={"Accept": TABLE})
    stream = connection.getresponse()
    memory.create(JOBS, JOB, "default")
    event = json.loads(stream.readline())
    assert (event["type"], event["object"]["kind"], event["object"]["rows"][0]["cells"][0]) == ("ADDED", "Table", "j")
    connection.close()


# ------------------------------------------------------------------------------------------------ writes


def test_strategic_patches_that_merge_plainly_are_taken_and_others_refused(ask, memory):
    memory.create(RAW_PODS, POD, "default")
    path, content = "/api/v1/namespaces/default/pods/p", "application/strategic-merge-patch+json"
    assert ask("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content=content)[1]["metadata"]["labels"] == {"a": "b"}
    for patch in ({"metadata": {"finalizers": ["a.b/c"]}}, {"metadata": {"$patch": "replace"}}):
        assert ask("PATCH", path, patch, content=content)[0] == 415
    status, body = ask("PATCH", path, b"a: b", content="application/apply-patch+yaml")
    assert (status, "no server-side apply" in body["message"]) == (415, True)
    assert ask("PATCH", path, {}, content="application/json-patch+json")[0] == 400
    assert ask("PUT", path, b"k8s", content="application/vnd.kubernetes.protobuf")[0] == 415


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "words"),
    [
        ("POST", JOBS_PATH + "?dryRun=All", JOB, 400, "knows no dry runs"),
        ("DELETE", f"{JOBS_PATH}/j", {"dryRun": ["All"]}, 400, "knows no dry runs"),
        ("DELETE", JOBS_PATH, None, 405, "all genericjobs at once"),
        ("POST", JOBS_PATH, b"\x00", 400, "unrecognized"),
        ("DELETE", f"{JOBS_PATH}/j", b"[1", 400, "cannot be read"),
        ("GET", JOBS_PATH + "?limit=many", None, 400, "is no number"),
        ("POST", "/version", {}, 405, "can only be read"),
        ("POST", "/api/v1/namespaces/default/pods/absent/exec", None, 404, "not found"),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction", None, 404, "pods/eviction"),
    ],
)
def test_what_is_not_known_here_is_refused_in_one_sentence(ask, memory, method, path, body, code, words):
    memory.create(JOBS, JOB, "default")
    status, answer = ask(method, path, body)
    assert (status, answer["kind"]) == (code, "Status")
    assert words in answer["message"]


def test_refusals_name_the_field_as_those_of_a_real_server(api):
    with pytest.raises(ApiError) as caught:
        api.create(JOBS, {**JOB, "spec": {"replicaSpecs": [{"type": "w", "replicas": -1, "template": {}}]}}, "default")
    assert (caught.value.code, caught.value.causes[0].field) == (422, "spec.replicaSpecs[0].replicas")


def test_remarks_come_as_warnings(api):
    made = api.create(JOBS, {**JOB, "spec": {**JOB["spec"], 'no"thing': 1}}, "default")
    assert made.warnings == ['unknown field "spec.no"thing"']


@pytest.mark.parametrize("field", ["备注", "é", "x\r\nSet-Cookie: a=b", "\x1b]52;c;eA==\x07", "\u202e", "\x7f", "\x80", "\x9b2J"])
def test_what_was_stored_is_answered_whatever_the_warning_says(api, ask, field):
    made = api.create(JOBS, {**JOB, "spec": {**JOB["spec"], field: 1}}, "default")
    assert api.get(JOBS, Key("default", "j")).uid == made.object.uid
    controls = any(ord(each) < 32 or 127 <= ord(each) < 0xA0 for each in field)
    assert list(made.warnings) == ([] if controls else [f'unknown field "spec.{field}"'])
    body = {**JOB, "metadata": {"name": "k"}, "spec": {**JOB["spec"], field: 1}}
    assert ask("POST", JOBS_PATH, body)[0] == 201
    assert "Set-Cookie" not in ask.headers


def test_thousands_of_unknown_fields_do_not_lose_the_answer(api):
    many = {f"备注{number}": number for number in range(3_000)}
    made = api.create(JOBS, {**JOB, "spec": {**JOB["spec"], **many}}, "default")
    assert 'unknown field "spec.备注0"' in made.warnings
    assert sum(map(len, made.warnings)) <= warning_header.MAX_TOTAL_CHARS + warning_header.MAX_CUT_CHARS


@pytest.mark.parametrize("error", [ValueError("no words"), OSError(5, "disk"), UnicodeError("odd")])
def test_what_fails_after_an_object_was_stored_is_answered_with_a_status(ask, memory, monkeypatch, error):
    def fail(texts):
        if texts:
            raise error
        return []

    monkeypatch.setattr(warning_header, "written", fail)
    status, body = ask("POST", JOBS_PATH, {**JOB, "spec": {**JOB["spec"], "odd": 1}})
    assert (status, body["kind"], body["reason"]) == (500, "Status", "InternalError")
    assert memory.get(JOBS, Key("default", "j")).name == "j"


def test_exec_says_that_it_is_not_possible(ask, memory):
    memory.create(RAW_PODS, POD, "default")
    status, body = ask("POST", "/api/v1/namespaces/default/pods/p/exec?command=ls")
    assert (status, body["message"].startswith("exec is not possible in a local run")) == (501, True)


# ------------------------------------------------------------------------------------------------ logs


@pytest.fixture
def printing(memory, tmp_path):
    """A pod that has begun, and its log."""
    memory.create(RAW_PODS, POD, "default")
    report(memory, {"running": {}})
    log = tmp_path / "p-main.log"
    log.write_text("one\ntwo\n")
    return log


def report(memory, state):
    status = {"containerStatuses": [{"name": "main", "state": state}]}
    memory.patch(RAW_PODS, Key("default", "p"), {"status": status}, subresource="status")


LOG = "/api/v1/namespaces/default/pods/p/log"


def test_a_log_is_what_the_program_has_printed(ask, printing):
    assert ask("GET", LOG) == (200, "one\ntwo\n")
    assert ask("GET", f"{LOG}?container=main&tailLines=1") == (200, "two\n")
    assert ask("GET", f"{LOG}?tailLines=0") == (200, "")
    printing.unlink()
    assert ask("GET", LOG) == (200, "")


def test_a_log_is_followed_until_the_program_ends(ask, printing, memory):
    answers = []
    follower = threading.Thread(target=lambda: answers.append(ask("GET", f"{LOG}?follow=true")))
    follower.start()
    with printing.open("a") as file:
        file.write("three\n")
    report(memory, {"terminated": {"exitCode": 0}})
    follower.join(30)
    assert answers == [(200, "one\ntwo\nthree\n")]


def test_lines_have_the_times_at_which_they_came(ask, printing):
    beside(printing).write_bytes(record(0, 1794830400_000000000) + record(4, 1794830401_500000000))
    first, second = "2026-11-16T12:00:00.000000000Z one\n", "2026-11-16T12:00:01.500000000Z two\n"
    assert ask("GET", f"{LOG}?timestamps=true") == (200, first + second)
    assert ask("GET", f"{LOG}?timestamps=true&tailLines=1") == (200, second)
    assert ask("GET", f"{LOG}?sinceTime=2026-11-16T12:00:01Z") == (200, "two\n")
    assert ask("GET", f"{LOG}?sinceTime=2026-11-16T13:00:00%2B01:00") == (200, "one\ntwo\n")
    assert ask("GET", f"{LOG}?sinceTime=2026-11-16T12:00:02Z&tailLines=5") == (200, "")


def test_lines_of_the_last_seconds(ask, printing):
    now = time.time_ns()
    beside(printing).write_bytes(record(0, now - 7200 * SECOND) + record(4, now))
    assert ask("GET", f"{LOG}?sinceSeconds=3600") == (200, "two\n")
    assert ask("GET", f"{LOG}?sinceSeconds=10000") == (200, "one\ntwo\n")


def test_a_log_whose_times_are_lost_is_as_old_as_its_file(ask, printing):
    os.utime(printing, ns=(0, 1794830400_000000000))
    assert ask("GET", f"{LOG}?timestamps=true&tailLines=1") == (200, "2026-11-16T12:00:00.000000000Z two\n")


def test_a_log_is_followed_with_its_times(ask, printing, memory):
    beside(printing).write_bytes(record(0, 1794830400_000000000))
    answers = []
    follower = threading.Thread(target=lambda: answers.append(ask("GET", f"{LOG}?follow=true&timestamps=true")))
    follower.start()
    with beside(printing).open("ab") as times, printing.open("a") as file:
        times.write(record(8, 1794830401_000000000))
        times.flush()
        file.write("three")
    report(memory, {"terminated": {"exitCode": 0}})
    follower.join(30)
    stamps = [f"2026-11-16T12:00:0{second}.000000000Z " for second in (0, 0, 1)]
    assert answers == [(200, f"{stamps[0]}one\n{stamps[1]}two\n{stamps[2]}three")]


def test_a_line_that_is_followed_is_sent_as_far_as_it_has_come(memory, printing):
    """With times, too: a progress bar may never end its line."""
    beside(printing).write_bytes(record(0, 1794830400_000000000) + record(8, 1794830401_000000000))
    printing.write_bytes(b"one\n\r 10%")
    text = Outputs(memory, lambda pod, uid, container: printing).read(Key("default", "p"), Wanted(stamped=True), follow=True)
    stamp = b"2026-11-16T12:00:00.000000000Z "
    assert next(text) == stamp + b"one\n" + stamp + b"\r 10%"
    with printing.open("ab") as file:
        file.write(b"\r 20%\n")
    assert next(text) == b"\r 20%\n"
    text.stop()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?sinceTime=yesterday", "sinceTime: 'yesterday' is no time"),
        ("?sinceTime=2026-11-16T12:00:02Z&sinceSeconds=1", "at most one of"),
        ("?previous=true", 'previous terminated container "main" in pod "p" not found'),
        ("?container=other", "container other is not valid for pod p"),
        ("?tailLines=x", "is no number"),
    ],
)
def test_logs_that_there_are_not(ask, printing, query, words):
    status, body = ask("GET", LOG + query)
    assert (status, words in body["message"]) == (400, True)


def test_a_container_that_waits_has_no_log(ask, memory):
    memory.create(RAW_PODS, POD, "default")
    assert 'container "main" in pod "p" is waiting to start: ContainerCreating' in ask("GET", LOG)[1]["message"]


def test_of_several_containers_one_must_be_named(ask, memory):
    memory.create(RAW_PODS, {**POD, "spec": {"containers": [{"name": name, "image": "x"} for name in "ab"]}}, "default")
    assert "choose one of: [a b]" in ask("GET", LOG)[1]["message"]


# ------------------------------------------------------------------------------------------------ the end


def test_streams_tell_everything_and_then_end_with_the_server(server, api, memory):
    told, ended = [], threading.Event()

    def read(stream):
        told.extend(event.object["metadata"]["name"] for event in stream if event.object)
        ended.set()

    start = api.list(CONFIG_MAPS).resource_version
    stream = api.watch(CONFIG_MAPS, resource_version=start)
    reader = threading.Thread(target=read, args=[stream])
    reader.start()
    for number in range(50):
        memory.create(CONFIG_MAPS, {"metadata": {"name": f"c-{number}"}}, "default")
    server.stop()
    assert ended.wait(30)
    reader.join(30)
    assert told == [f"c-{number}" for number in range(50)]
    with pytest.raises(ApiError) as caught:
        api.list(CONFIG_MAPS)
    assert caught.value.unreachable
