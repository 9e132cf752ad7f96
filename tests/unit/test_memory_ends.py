"""The API in memory: how objects end, and that nothing anybody sends brings it down."""

from contextlib import suppress
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from genericjob.local import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RAW_PODS,
    RAW_SERVICES,
    SECRETS,
    SERVICE_ACCOUNTS,
    Key,
)
from unit.builders import THINGS, a_definition, a_map, a_pod, a_thing, in_default, refusal

# ------------------------------------------------------------------------------------------------ the ends of things


def test_an_update_that_lets_go_answers_with_the_old_version(api):
    api.create(CONFIG_MAPS, a_map(finalizers=["a.b/c"]), "default")
    marked = api.delete(CONFIG_MAPS, in_default("c"))
    watch = api.watch(CONFIG_MAPS, resource_version=marked["metadata"]["resourceVersion"])
    last = api.patch(CONFIG_MAPS, in_default("c"), {"metadata": {"finalizers": None, "labels": {"last": "words"}}})
    assert last["metadata"]["labels"] == {"last": "words"}
    assert last["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    (event,) = watch.ready()
    assert (event.type, event.object["metadata"]["finalizers"]) == ("DELETED", ["a.b/c"])
    assert int(event.resource_version) > int(last["metadata"]["resourceVersion"])


def test_grace_counts_from_the_first_request(api, clock):
    api.create(PODS, a_pod(), "default")
    api.bind(in_default("p"), "n1")
    api.delete(PODS, in_default("p"), grace=60)
    clock.forward(10)
    shorter = api.delete(PODS, in_default("p"), grace=20)
    assert shorter.deleted == datetime(2026, 1, 1, 0, 0, 20, tzinfo=UTC)
    clock.forward(20)
    late = api.delete(RAW_PODS, in_default("p"), grace=5)
    assert late["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    assert late["metadata"]["deletionGracePeriodSeconds"] == 1
    api.delete(PODS, in_default("p"), grace=0)
    assert refusal(api.get, PODS, in_default("p")).not_found


def owned(name, *owners, block=False):
    references = [
        {
            "apiVersion": "v1",
            "kind": one["kind"],
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for one in owners
    ]
    return a_map(name, ownerReferences=references)


def names(api, namespace="default"):
    return [item["metadata"]["name"] for item in api.list(CONFIG_MAPS, namespace).items]


def test_the_collector_works_when_asked(clock):
    api = MemoryApi(now=clock, collect="when asked")
    top = api.create(CONFIG_MAPS, a_map("top"), "default").object
    middle = api.create(CONFIG_MAPS, owned("middle", top), "default").object
    api.create(CONFIG_MAPS, owned("leaf", middle), "default")
    api.delete(CONFIG_MAPS, in_default("top"))
    assert names(api) == ["leaf", "middle"]
    api.collect()
    assert names(api) == []


def test_foreground_waits_for_those_that_block(api):
    top = api.create(CONFIG_MAPS, a_map("top"), "default").object
    api.create(CONFIG_MAPS, owned("held", top, block=True) | {}, "default")
    api.patch(CONFIG_MAPS, in_default("held"), {"metadata": {"finalizers": ["a.b/c"]}})
    api.create(CONFIG_MAPS, owned("free", top), "default")
    api.delete(CONFIG_MAPS, in_default("top"), propagation="Foreground")
    assert names(api) == ["held", "top"]
    api.patch(CONFIG_MAPS, in_default("held"), {"metadata": {"finalizers": None}})
    assert names(api) == []


def test_owners_in_a_circle_do_not_wait_for_ever(api):
    one = api.create(CONFIG_MAPS, a_map("one"), "default").object
    two = api.create(CONFIG_MAPS, owned("two", one, block=True), "default").object
    api.patch(CONFIG_MAPS, in_default("one"), {"metadata": owned("one", two, block=True)["metadata"]})
    api.delete(CONFIG_MAPS, in_default("one"), propagation="Foreground")
    assert names(api) == []


def test_orphans_stay_without_their_owner(api):
    top = api.create(CONFIG_MAPS, a_map("top"), "default").object
    other = api.create(CONFIG_MAPS, a_map("other"), "default").object
    api.create(CONFIG_MAPS, owned("child", top, other), "default")
    api.delete(CONFIG_MAPS, in_default("top"), propagation="Orphan")
    left = api.get(CONFIG_MAPS, in_default("child"))["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in left] == ["other"]


def test_an_owner_elsewhere_or_of_an_unknown_kind(api):
    there = api.create(CONFIG_MAPS, a_map("there"), "kube-system").object
    api.create(CONFIG_MAPS, owned("astray", there), "default")
    stranger = {"kind": "Stranger", "metadata": {"name": "x", "uid": "y"}}
    api.create(CONFIG_MAPS, owned("patient", stranger), "default")
    assert names(api) == ["patient"]


def test_a_namespace_goes_when_it_is_empty(api):
    api.create(NAMESPACES, {"metadata": {"name": "team"}})
    api.create(CONFIG_MAPS, a_map("a"), "team")
    api.create(PODS, a_pod(), "team")
    api.bind(Key("team", "p"), "n1")
    api.delete(NAMESPACES, Key("", "team"))
    assert names(api, "team") == []
    assert api.get(NAMESPACES, Key("", "team"))["status"]["phase"] == "Terminating"
    assert refusal(api.create, CONFIG_MAPS, a_map("b"), "team").code == 403
    api.delete(PODS, Key("team", "p"), grace=0)
    assert refusal(api.get, NAMESPACES, Key("", "team")).not_found
    assert refusal(api.create, CONFIG_MAPS, a_map("b"), "team").not_found


# ------------------------------------------------------------------------------------------------ anything at all

VALID = {
    PODS: {
        **a_pod("a", labels={"x": "y"}, finalizers=["x.y/z"]),
        "spec": {
            "nodeName": "n1",
            "restartPolicy": "Never",
            "activeDeadlineSeconds": 9,
            "tolerations": [{"key": "k"}],
            "initContainers": [{"name": "i", "image": "x"}],
            "containers": [
                {"name": "c", "image": "x:1", "resources": {"limits": {"cpu": "1"}, "requests": {}}, "ports": [{"containerPort": 80}]}
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}],
        },
    },
    RAW_SERVICES: {"metadata": {"name": "a"}, "spec": {"ports": [{"name": "p", "port": 80, "targetPort": "x"}], "selector": {"a": "b"}}},
    CONFIG_MAPS: a_map("a", annotations={"a": "b"}, ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]),
    SECRETS: {"metadata": {"name": "a"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}, "type": "Opaque"},
    SERVICE_ACCOUNTS: {"metadata": {"name": "a"}, "imagePullSecrets": [{"name": "s"}]},
    EVENTS: {"metadata": {"name": "a"}, "involvedObject": {"namespace": "default", "name": "x"}, "source": {"component": "c"}, "count": 1},
    LEASES: {"metadata": {"name": "a"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 1, "leaseTransitions": 0}},
    NODES: {
        "metadata": {"name": "a"},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready"}]},
    },
    NAMESPACES: {"metadata": {"name": "a"}, "spec": {"finalizers": ["kubernetes"]}},
    CUSTOM_RESOURCE_DEFINITIONS: a_definition({"type": "object", "properties": {"spec": {"type": "object", "required": ["x"]}}}),
    THINGS: a_thing("a", {"any": {"thing": [1]}}),
}
oddities = st.sampled_from([None, True, 0, -1, 2**70, 1.5, "", "a", "x.y/z", [], [None], [1], [{}], {}, {"a": 1}, {"a": None}])


def paths(value, path=()):
    yield path
    for name, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(child, (*path, name))


def changed(value, path, odd):
    if not path:
        return odd
    if isinstance(value, dict):
        return {**value, path[0]: changed(value[path[0]], path[1:], odd)}
    return [changed(child, path[1:], odd) if index == path[0] else child for index, child in enumerate(value)]


@st.composite
def almost_valid(draw):
    """An object with a few odd values in it."""
    resource = draw(st.sampled_from(list(VALID)))
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **VALID[resource]}
    for _ in range(draw(st.integers(0, 2))):
        if isinstance(body, dict):
            body = changed(body, draw(st.sampled_from(sorted(paths(body), key=str))), draw(oddities))
    return resource, body


@settings(max_examples=400)
@given(almost_valid(), st.sampled_from(["", "status"]), st.booleans())
def test_whatever_is_sent_is_stored_or_refused(drawn, subresource, first):
    """Nothing that a client sends raises anything but an ApiError, and what is stored can be read."""
    api = MemoryApi()
    resource, body = drawn
    schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    if resource is not CUSTOM_RESOURCE_DEFINITIONS:
        api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition(schema))
    name = "things.example.dev" if resource is CUSTOM_RESOURCE_DEFINITIONS else "a"
    key = in_default(name) if resource.namespaced else Key("", name)
    if first:
        api.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **VALID[resource]}, key.namespace)
    for call in (
        lambda: api.create(resource, body, key.namespace),
        lambda: api.patch(resource, key, body, subresource=subresource),
        lambda: api.patch(resource, key, [{"op": "add", "path": f"/{field}", "value": value} for field, value in body.items()]),
        lambda: api.replace(resource, key, body),
        lambda: api.replace_status(resource, key, body),
        lambda: api.bind(key, "n1"),
        lambda: api.get(resource, key),
        lambda: api.delete(resource, key),
    ):
        with suppress(ApiError, AttributeError if not isinstance(body, dict) else ApiError):
            call()
        assert api.list(resource if resource is not THINGS else CONFIG_MAPS).resource_version == api.resource_version


def test_a_misspelt_field_of_a_container_is_told(api):
    pod = a_pod()
    pod["spec"]["containers"][0]["comand"] = ["x"]
    assert list(api.create(PODS, pod, "default", field_validation="Warn").warnings) == ['unknown field "spec.containers[0].comand"']
    assert refusal(api.create, PODS, {**pod, "metadata": {"name": "q"}}, "default", field_validation="Strict").code == 400
