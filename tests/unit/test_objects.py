"""Slim objects: what is kept, what is shared, and that nothing a server adds can break the reading."""

from contextlib import suppress
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import FINALIZER_LIMIT, MESSAGE_LIMIT, Condition, Container, Port, instant
from genericjob.reconcile.resources import CONFIG_MAPS, PODS, SERVICES, partial, pods, services

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-worker-3",
        "namespace": "team",
        "uid": "9d1f",
        "resourceVersion": "1234",
        "generation": 1,
        "creationTimestamp": "2026-11-16T02:45:04Z",
        "deletionTimestamp": "2026-11-16T02:50:00Z",
        "labels": {"genericjob": "train", "genericjob-replica": "train-worker-3"},
        "annotations": {"attempt": "2", "enormous": "x" * 1000},
        "ownerReferences": [{"uid": "other", "controller": False}, {"uid": "job-uid", "controller": True}],
        "finalizers": ["a/b"],
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x"}]},
    "status": {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "m" * 1000,
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "why"}],
        "initContainerStatuses": [{"name": "init", "restartCount": 1, "state": {"running": {"startedAt": "2026-11-16T02:45:04Z"}}}],
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-16T02:46:00Z"}}},
            {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "back-off"}}},
            {"name": "new", "state": {}},
        ],
    },
}
SERVICE = {
    "metadata": {"name": "s"},
    "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80, "targetPort": "web"}, {"port": 1, "targetPort": 2}]},
}


def read(resource, value):
    return codec(resource).one(msgspec.json.encode(value))


def test_a_pod_keeps_what_a_controller_reads():
    pod = read(PODS, POD)
    assert (pod.namespace, pod.name, pod.uid, pod.resource_version) == ("team", "train-worker-3", "9d1f", "1234")
    assert pod.owner_uid == "job-uid"
    assert pod.finalizers == ("a/b",)
    assert pod.created == instant("2026-11-16T02:45:04Z")
    assert pod.deleted == instant("2026-11-16T02:50:00Z")
    assert (pod.node, pod.phase, pod.reason) == ("n1", "Failed", "Evicted")
    assert pod.conditions == (Condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "why"),)
    assert pod.init_containers == (Container("init", "running", "", "", None, 1, None),)
    assert pod.containers == (
        Container("main", "terminated", "OOMKilled", "", 137, 0, instant("2026-11-16T02:46:00Z")),
        Container("side", "waiting", "ImagePullBackOff", "back-off", None, 0, None),
        Container("new", "", "", "", None, 0, None),
    )


def test_messages_are_cut_and_annotations_kept_only_when_asked_for():
    assert len(read(PODS, POD).message) == MESSAGE_LIMIT
    assert read(PODS, POD).annotations == {}
    assert read(pods(annotations=frozenset({"attempt", "absent"})), POD).annotations == {"attempt": "2"}


def test_labels_are_kept_by_name_or_all_of_them():
    some = frozenset({"genericjob", "absent"})
    assert read(pods(labels=some), POD).labels == {"genericjob": "train"}
    assert read(services(labels=some), {"metadata": {"labels": {"genericjob": "train", "x": "y"}}}).labels == {"genericjob": "train"}
    assert read(pods(labels=frozenset()), POD).labels == {}
    assert read(PODS, POD).labels == POD["metadata"]["labels"]
    broken = {"metadata": {**POD["metadata"], "name": "p", "uid": "u", "resourceVersion": "1"}, "status": {"phase": 5}}
    salvaged = read(pods(labels=some), broken)
    assert (salvaged.phase, salvaged.labels) == ("Unknown", {"genericjob": "train"})


def test_values_of_annotations_are_cut():
    pod = {"metadata": {"annotations": {"attempt": "9" * 300}}}
    assert read(pods(annotations=frozenset({"attempt"})), pod).annotations == {"attempt": "9" * MESSAGE_LIMIT}


def test_of_many_finalizers_a_few_are_kept():
    many = [f"example.com/{n}" for n in range(5_000)]
    assert read(PODS, {"metadata": {"finalizers": many}}).finalizers == tuple(many[:FINALIZER_LIMIT])


def test_equal_parts_of_different_pods_are_one_object():
    one, two = read(PODS, POD), read(PODS, {**POD, "metadata": {**POD["metadata"], "name": "train-worker-4"}})
    assert one.containers is two.containers
    assert one.conditions is two.conditions
    assert one.created is two.created
    assert one.labels["genericjob"] is two.labels["genericjob"]
    assert one.labels["genericjob-replica"] is one.name


def test_pods_cannot_be_changed():
    with pytest.raises(AttributeError):
        read(PODS, POD).phase = "Running"


def test_a_service_keeps_its_ports():
    service = read(SERVICES, SERVICE)
    assert service.cluster_ip == "None"
    assert service.ports == (Port("http", 80, "web"), Port("", 1, 2))


def test_any_kind_can_be_read_for_its_metadata_alone():
    thing = read(partial("x.io", "v1", "things", "Thing"), {**POD, "spec": 3, "status": []})
    assert thing.name == "train-worker-3"


@pytest.mark.parametrize("text", [None, "", "yesterday", "2026-13-45T00:00:00Z", "0"])
def test_a_time_that_is_none_reads_as_absent(text):
    assert instant(text) is None


# ------------------------------------------------------------------------------------------------ a newer server

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


NEWS = [None, True, 3, 2.5, "word", [], {}, [{"a": None}], {"deep": {"er": [[]]}}]


def newer(random, value, *, strings=False):
    """The same value as a later server may send it: more fields, unknown words, nulls and gaps where something was."""
    if isinstance(value, dict):
        kept = {key: newer(random, item, strings=key in ("labels", "annotations")) for key, item in value.items() if random.random() > 0.1}
        extra = {} if strings else {f"new{n}": random.choice(NEWS) for n in range(random.randrange(3))}
        return random.choice([{**kept, **extra}, {**kept, **extra}, {**extra, **kept}, None])
    if isinstance(value, list):
        return random.choice([None, [], [None], [newer(random, item) for item in value], [newer(random, item) for item in value]])
    return random.choice([None, value, "Unheard-Of", "é" * 300] if isinstance(value, str) else [None, value])


def seeds(count):
    return [Random(seed) for seed in range(count)]


def test_nothing_a_newer_server_adds_or_leaves_out_breaks_a_pod():
    for random in seeds(5000):
        pod = newer(random, POD) or {}
        line = msgspec.json.encode({"type": "MODIFIED", "object": pod, "news": [1]})
        page = msgspec.json.encode({"items": [pod, pod], "metadata": {"shards": {}}})
        assert read(PODS, pod) == codec(PODS).event(line).object == codec(PODS).page(page).items[1]


def test_nothing_a_newer_server_adds_or_leaves_out_breaks_a_service():
    for random in seeds(1000):
        read(SERVICES, newer(random, SERVICE) or {})


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=60)
    | anything.map(msgspec.json.encode)
    | anything.map(lambda o: msgspec.json.encode({"type": "ADDED", "object": o}))
    | anything.map(lambda o: msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": o}}))
)
def test_garbage_is_an_api_error_and_never_a_crash(data):
    for resource in (PODS, CONFIG_MAPS):
        for decode in (codec(resource).one, codec(resource).page, codec(resource).event):
            with suppress(ApiError):
                decode(data)


def test_deep_nesting_is_an_api_error_and_not_a_stack_overflow():
    deep = b'{"metadata":{"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}}"
    for resource in (PODS, CONFIG_MAPS):
        with pytest.raises(ApiError):
            codec(resource).one(deep)
