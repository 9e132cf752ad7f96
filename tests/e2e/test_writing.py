"""The writer and the recorder on a real server: what it refuses, what it answers twice, and what kubectl shows of it."""

from functools import partial

import msgspec
import pytest

from genericjob.local import FaultyApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.primitives import System
from genericjob.reconcile.recorder import COMBINED, Recorder, Reference
from genericjob.reconcile.resources import EVENTS, PODS, RAW_PODS, SERVICES, Key, raw
from genericjob.reconcile.writer import Create, Delete, Writer
from harness.clusters import PATIENCE, eventually

QUOTAS = raw("", "v1", "resourcequotas", "ResourceQuota")
HOLD = "genericjob.test/hold"


def standing(pod):
    if pod.labels.get("owner") != "us":
        return "foreign"
    return "wait" if pod.deleted else "ours"


def a_pod(name, **meta):
    return {
        "metadata": {"name": name, "labels": {"owner": "us"}} | meta,
        "spec": {"containers": [{"name": "main", "image": "app:1"}], "schedulerName": "nobody"},
    }


def creates(namespace, count, prefix="p"):
    names = [f"{prefix}{n}" for n in range(count)]
    return [Create(PODS, namespace, name, partial(msgspec.json.encode, a_pod(name)), "job", standing) for name in names]


def deletes(done):
    return [Delete(PODS, Key(each.object.namespace, each.object.name), each.object.uid, "job", 0) for each in done]


def fates(done):
    return [each.fate for each in done]


@pytest.fixture
def faulty(server):
    return FaultyApi(server)


@pytest.fixture
def versions():
    """What was written, as a cache is asked about it; it has never seen it."""
    return []


@pytest.fixture
def own_writes(versions):
    return OwnWrites({PODS: lambda namespace, version: versions.append(version) or False})


@pytest.fixture
def writer(faulty, own_writes):
    writer = Writer(faulty, primitives=System(), own_writes=own_writes)
    yield writer
    assert writer.stop(PATIENCE)


def test_pods_come_are_found_again_and_go(server, writer, namespace, own_writes, versions):
    first = writer.apply(creates(namespace, 60))
    assert set(fates(first)) == {"done"}
    assert {pod.uid for pod in server.list(PODS, namespace).items} == {each.object.uid for each in first}
    own_writes.visible("job")
    assert versions == [max((each.object.resource_version for each in first), key=int)]
    again = writer.apply(creates(namespace, 60))
    assert [each.object.uid for each in again] == [each.object.uid for each in first]
    assert set(fates(again)) == {"done"}
    assert set(fates(writer.apply(deletes(first)))) == {"done"}
    assert server.list(PODS, namespace).items == []
    own_writes.visible("job")
    assert int(versions[-1]) > int(versions[0])  # a delete has a version, too
    assert set(fates(writer.apply(deletes(first)))) == {"done"}


def test_lost_answers_are_found_out(server, writer, faulty, namespace):
    faulty.lose("create", times=5)
    faulty.refuse(ApiError(503, "ServiceUnavailable", "later", unknown=True), "create", skip=20)
    done = writer.apply(creates(namespace, 60))
    assert fates(done).count("failed") == 1
    stored = {pod.uid for pod in server.list(PODS, namespace).items}
    assert {each.object.uid for each in done if each.fate == "done"} == stored
    assert 19 <= len(stored) < 60
    faulty.lose("delete", times=2)
    ended = writer.apply(deletes([each for each in done if each.fate == "done"]))
    assert set(fates(ended)) == {"done"}


def test_a_namesake_is_left_alone(server, writer, namespace):
    (made,) = writer.apply(creates(namespace, 1))
    (ended,) = writer.apply([Delete(PODS, Key(namespace, "p0"), "00000000-0000-0000-0000-000000000000", "job")])
    assert ended.fate == "done"
    assert server.get(PODS, Key(namespace, "p0")) == made.object


def test_a_name_that_is_taken_is_waited_for_or_left_alone(server, writer, namespace):
    server.create(PODS, a_pod("p0", labels={}), namespace)
    server.create(PODS, a_pod("p1", finalizers=[HOLD]), namespace)
    server.delete(PODS, Key(namespace, "p1"))
    done = writer.apply(creates(namespace, 3))
    assert fates(done) == ["foreign", "waiting", "skipped"]
    server.patch(RAW_PODS, Key(namespace, "p1"), {"metadata": {"finalizers": None}})
    eventually(lambda: fates(writer.apply(creates(namespace, 3))) == ["foreign", "done", "done"])


def test_a_quota_costs_one_request_and_then_none_beyond_it(server, writer, faulty, namespace):
    server.create(QUOTAS, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}, namespace)
    eventually(lambda: server.get(QUOTAS, Key(namespace, "few"))["status"].get("used"))
    requests = faulty.delay(0, "create", times=1000)
    done = writer.apply(creates(namespace, 50))
    assert fates(done) == ["refused"] + ["skipped"] * 49
    assert "exceeded quota" in done[0].error.message
    assert requests.times == 999
    server.patch(QUOTAS, Key(namespace, "few"), {"spec": {"hard": {"pods": "10"}}})
    eventually(lambda: server.get(QUOTAS, Key(namespace, "few"))["status"]["hard"] == {"pods": "10"})
    done = writer.apply(creates(namespace, 50))
    assert 1 <= fates(done).count("done") <= 10
    assert 1 <= sum(each.fate in ("refused", "failed") for each in done) <= 8
    assert fates(done).count("skipped") >= 50 - 10 - 8


def test_a_misspelled_field_is_remarked_upon(writer, namespace):
    body = a_pod("p")
    body["spec"]["containers"][0]["comand"] = ["sleep"]
    (done,) = writer.apply([Create(PODS, namespace, "p", partial(msgspec.json.encode, body), "job", standing)])
    assert done.fate == "done"
    assert any("comand" in warning for warning in done.warnings)


def test_a_service_goes_by_its_uid(server, writer, namespace):
    body = {"metadata": {"name": "s", "labels": {"owner": "us"}}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}}
    (made,) = writer.apply([Create(SERVICES, namespace, "s", partial(msgspec.json.encode, body), "job", standing)])
    assert made.fate == "done"
    (ended,) = writer.apply([Delete(SERVICES, Key(namespace, "s"), made.object.uid, "job")])
    assert ended.fate == "done"
    assert server.list(SERVICES, namespace).items == []


def test_the_fence_closes_in_the_middle_of_a_batch(server, own_writes, namespace):
    questions = iter([True] * 20)
    api = Fenced(server, Fence(lambda: next(questions, False), System()))
    writer = Writer(api, primitives=System(), own_writes=own_writes)
    done = writer.apply(creates(namespace, 60))
    assert writer.stop()
    assert fates(done).count("done") == len(server.list(PODS, namespace).items) == 20


# ------------------------------------------------------------------------------------------------ events


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def recorder(server, metrics):
    recorder = Recorder(server, primitives=System(), metrics=metrics)
    recorder.start()
    yield recorder
    recorder.stop(PATIENCE)


@pytest.fixture
def pod(server, namespace):
    pod = server.create(PODS, a_pod("p"), namespace).object
    return Reference("v1", "Pod", namespace, "p", pod.uid)


def test_kubectl_shows_events_with_their_count(recorder, plane, pod):
    for _ in range(3):
        recorder.event(pod, "Warning", "Waiting", "for a node that never comes")
    recorder.event(pod, "Normal", "Patience", "it may take a while")
    assert recorder.stop(PATIENCE)
    columns = "--output=custom-columns=COUNT:.count,TYPE:.type,REASON:.reason,FROM:.source.component,MESSAGE:.message"
    lines = plane.kubectl("get", "events", f"--namespace={pod.namespace}", "--no-headers", columns).splitlines()
    ours = sorted(line.split(maxsplit=4) for line in lines if " genericjob " in line)
    assert ours == [
        ["1", "Normal", "Patience", "genericjob", "it may take a while"],
        ["3", "Warning", "Waiting", "genericjob", "for a node that never comes"],
    ]
    described = plane.kubectl("describe", "pod", "p", f"--namespace={pod.namespace}")
    assert "(x3 over" in described
    assert "it may take a while" in described


def test_similar_events_are_combined_and_long_ones_cut(server, recorder, metrics, pod):
    for rank in range(14):
        recorder.event(pod, "Warning", "FailedCreate", f"rank {rank} " + "x" * 2000)
    assert recorder.stop(PATIENCE)
    assert metrics.registry.get_sample_value("genericjob_events_total", {"fate": "sent"}) == 14
    found = [event for event in server.list(EVENTS, pod.namespace).items if event["reason"] == "FailedCreate"]
    assert len(found) == 11
    (combined,) = [event for event in found if event["message"].startswith(COMBINED)]
    assert combined["count"] == 4
    assert combined["message"].startswith(f"{COMBINED}rank 13 ")


def test_an_event_about_a_namespace_that_is_gone_is_counted_as_failed(recorder, metrics):
    recorder.event(Reference("v1", "Pod", "no-such-namespace", "p", "u"), "Normal", "Lost", "nobody will know")
    assert recorder.stop(PATIENCE)
    assert metrics.registry.get_sample_value("genericjob_events_total", {"fate": "failed"}) == 1
