"""The API in memory: what is not asked of a real server, and a few answers that are easy to get wrong."""

import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.api import pages
from genericjob.reconcile.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    PODS,
    RAW_PODS,
    RAW_SERVICES,
    SERVICES,
    Key,
    raw,
)
from unit.builders import THINGS, a_definition, a_map, a_pod, a_thing, in_default, refusal

# ------------------------------------------------------------------------------------------------ identities


def test_clock_and_identities_are_injected(api, clock):
    made = api.create(CONFIG_MAPS, a_map(), "default").object
    assert made["metadata"]["uid"].startswith("uid-")
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert made["metadata"]["resourceVersion"] == api.resource_version


def test_generated_names_repeat_with_their_seed():
    def names():
        api = MemoryApi(seed=7)
        return [api.create(CONFIG_MAPS, {"metadata": {"generateName": "x-"}}, "default").object["metadata"]["name"] for _ in range(3)]

    assert names() == names()
    assert len(set(names())) == 3


def test_nothing_handed_out_or_in_reaches_the_store(api):
    body = a_map(labels={"a": "b"})
    made = api.create(CONFIG_MAPS, body, "default").object
    body["metadata"]["labels"]["a"] = "changed"
    made["data"]["k"] = "changed"
    found = api.get(CONFIG_MAPS, in_default("c"))
    assert found["data"] == {"k": "v"}
    assert found["metadata"]["labels"] == {"a": "b"}


def test_slim_and_raw_readers_see_the_same_object(api):
    api.create(RAW_PODS, a_pod(), "default")
    slim, whole = api.get(PODS, in_default("p")), api.get(RAW_PODS, in_default("p"))
    assert (slim.name, slim.phase, slim.resource_version) == ("p", "Pending", whole["metadata"]["resourceVersion"])


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [
        (b"{nope", 400, "BadRequest"),
        (b"[]", 400, "BadRequest"),
        ({"metadata": {"name": 5}}, 400, "BadRequest"),
        ({"metadata": {"name": "c", "labels": {"a": 5}}}, 400, "BadRequest"),
        ({"metadata": {"name": "c", "creationTimestamp": "now"}}, 400, "BadRequest"),
        ({"metadata": {"name": "c"}, "data": {"k": 5}}, 400, "BadRequest"),
        ({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "c"}}, 400, "BadRequest"),
        ({"metadata": {"name": "c", "namespace": "kube-system"}}, 400, "BadRequest"),
        ({"metadata": {}}, 422, "Invalid"),
        ({"metadata": {"name": "C"}}, 422, "Invalid"),
        ({"metadata": {"name": "c" * 254}}, 422, "Invalid"),
        ({"metadata": {"name": "c", "labels": {"a b": ""}}}, 422, "Invalid"),
        ({"metadata": {"name": "c", "finalizers": ["unqualified"]}}, 422, "Invalid"),
        ({"metadata": {"name": "c", "ownerReferences": [{"kind": "Pod"}]}}, 422, "Invalid"),
        ({"metadata": {"name": "c"}, "data": {"k": "x" * (1024 * 1024 + 1)}}, 422, "Invalid"),
        ({"metadata": {"name": "c", "resourceVersion": "5"}}, 500, "InternalError"),
        (b'{"data":{"k":"' + b"x" * 3_200_000 + b'"}}', 413, "RequestEntityTooLarge"),
    ],
)
def test_a_create_is_refused(api, body, code, reason):
    error = refusal(api.create, CONFIG_MAPS, body, "default")
    assert (error.code, error.reason) == (code, reason)
    assert refusal(api.get, CONFIG_MAPS, in_default("c")).not_found


def test_what_the_server_forgot_to_refuse_properly_may_have_happened(api):
    assert refusal(api.create, CONFIG_MAPS, a_map(resourceVersion="5"), "default").unknown


def test_unknown_kinds_versions_and_subresources_are_not_found(api):
    assert refusal(api.list, THINGS).not_found
    assert refusal(api.list, raw("", "v2", "pods", "Pod")).not_found
    assert refusal(api.replace_status, CONFIG_MAPS, in_default("c"), a_map()).not_found


def test_a_kind_without_rules_can_be_registered(api):
    api.register(THINGS, status=True)
    made = api.create(THINGS, a_thing(spec={"any": [None, 1]}), "default").object
    assert made["spec"] == {"any": [None, 1]}
    changed = api.patch(THINGS, in_default("t"), {"status": {"x": 1}, "spec": {"y": 2}}, subresource="status")
    assert (changed["spec"], changed["status"]) == ({"any": [None, 1]}, {"x": 1})


def test_an_object_that_the_store_cannot_take_is_not_taken(api):
    api.register(THINGS)
    before = api.resource_version
    error = refusal(api.create, THINGS, a_thing(spec={"x": "y" * 1_600_000}), "default")
    assert (error.code, error.unknown, api.resource_version) == (500, True, before)


# ------------------------------------------------------------------------------------------------ pods, services, leases


def test_a_pod_is_bound_once_and_not_by_its_spec(api):
    api.create(PODS, a_pod(), "default")
    assert refusal(api.patch, PODS, in_default("p"), {"spec": {"nodeName": "n1"}}).code == 422
    api.bind(in_default("p"), "n1")
    assert api.get(PODS, in_default("p")).node == "n1"
    assert [(c.type, c.status) for c in api.get(PODS, in_default("p")).conditions] == [("PodScheduled", "True")]
    assert refusal(api.bind, in_default("p"), "n2").conflict


def test_a_container_that_must_not_run_again_does_not(api):
    pod = a_pod()
    pod["spec"]["restartPolicy"] = "Never"
    api.create(PODS, pod, "default")

    def tell(state):
        return api.patch(PODS, in_default("p"), {"status": {"containerStatuses": [{"name": "main", "state": state}]}}, subresource="status")

    tell({"terminated": {"exitCode": 0}})
    assert refusal(tell, {"running": {}}).code == 422


def test_services_get_addresses_unless_they_want_none(api):
    spec = {"ports": [{"port": 80}]}
    one, two = (api.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, "default").object for name in ("a", "b"))
    headless = api.create(SERVICES, {"metadata": {"name": "c"}, "spec": {"clusterIP": "None"}}, "default").object
    assert one.cluster_ip != two.cluster_ip
    assert headless.cluster_ip == "None"
    assert [(port.port, port.target) for port in one.ports] == [(80, 80)]
    replaced = api.replace(SERVICES, in_default("a"), {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 81}]}})
    assert replaced.cluster_ip == one.cluster_ip
    assert refusal(api.patch, RAW_SERVICES, in_default("a"), {"spec": {"clusterIP": "10.0.0.1"}}).code == 422


def test_a_lease_is_made_by_a_replace_and_then_needs_a_version(api):
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    made = api.replace(LEASES, in_default("l"), lease)
    assert refusal(api.replace, LEASES, in_default("l"), lease).code == 422
    lease["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    lease["spec"]["renewTime"] = "2026-01-01T00:00:00.000000Z"
    assert api.replace(LEASES, in_default("l"), lease)["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert refusal(api.patch, LEASES, in_default("l"), {"spec": {"renewTime": "2026-01-01T00:00:00Z"}}).code == 422


# ------------------------------------------------------------------------------------------------ definitions


def test_a_definition_makes_a_kind_and_takes_it_along(api):
    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition())
    api.create(THINGS, a_thing(), "default")
    watch = api.watch(THINGS, resource_version=api.resource_version)
    api.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.example.dev"))
    assert [event.type for event in watch.ready()] == []  # the kind is gone, and its watches with it
    assert refusal(api.list, THINGS).not_found
    assert api.list(CUSTOM_RESOURCE_DEFINITIONS).items == []


def test_a_finalizer_of_an_object_holds_the_definition(api):
    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition())
    api.create(THINGS, a_thing(finalizers=["a.b/c"]), "default")
    assert api.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.example.dev"))["metadata"]["deletionTimestamp"]
    assert refusal(api.create, THINGS, a_thing("other"), "default").code == 405
    api.patch(THINGS, in_default("t"), {"metadata": {"finalizers": None}})
    assert refusal(api.list, THINGS).not_found


def test_new_defaults_are_read_into_old_objects(api):
    def schema(**properties):
        return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}

    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition(schema(a={"type": "string"})))
    made = api.create(THINGS, a_thing(spec={"a": "x"}), "default").object
    found = api.get(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.example.dev"))
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema(b={"type": "integer", "default": 3})
    api.replace(CUSTOM_RESOURCE_DEFINITIONS, Key("", "things.example.dev"), found)
    read = api.get(THINGS, in_default("t"))
    assert read["spec"] == {"b": 3}
    assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_a_kind_can_have_two_versions(api):
    both = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}}}
        for name in ("v1", "v2")
    ]
    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition(versions=both))
    newer = raw("example.dev", "v2", "things", "Thing")
    api.create(newer, a_thing() | {"apiVersion": "example.dev/v2"}, "default")
    assert api.get(THINGS, in_default("t"))["apiVersion"] == "example.dev/v1"
    assert [item["apiVersion"] for item in api.list(newer).items] == ["example.dev/v2"]


@pytest.mark.parametrize(
    ("validation", "warnings"), [(None, ['unknown field "odd"', 'unknown field "spec.odd"']), ("Ignore", []), ("Strict", None)]
)
def test_unknown_fields_are_told_dropped_or_refused(api, validation, warnings):
    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition({"type": "object", "properties": {"spec": {"type": "object"}}}))
    body = a_thing(spec={"odd": 1}) | {"odd": 1}
    if warnings is None:
        assert refusal(api.create, THINGS, body, "default", field_validation=validation).code == 400
    else:
        assert list(api.create(THINGS, body, "default", field_validation=validation).warnings) == warnings


def test_fields_named_twice_are_told(api):
    api.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition())
    body = b'{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{"name":"t","labels":{"a":"b","a":"c"}}}'
    assert list(api.create(THINGS, body, "default").warnings) == ['duplicate field "metadata.labels.a"']


# ------------------------------------------------------------------------------------------------ lists


def test_pages_are_all_of_one_moment(api):
    for name in "abcdef":
        api.create(CONFIG_MAPS, a_map(name), "default")
    seen = []
    for page in pages(api, CONFIG_MAPS, "default", limit=2):
        seen += [item["metadata"]["name"] for item in page.items]
        api.create(CONFIG_MAPS, a_map(f"{page.items[-1]['metadata']['name']}-later"), "default")
        api.delete(CONFIG_MAPS, in_default(page.items[0]["metadata"]["name"]))
    assert seen == list("abcdef")


def test_a_token_can_be_used_twice_until_history_forgets(api):
    for name in "abc":
        api.create(CONFIG_MAPS, a_map(name), "default")
    first = api.list(CONFIG_MAPS, "default", limit=1)
    assert (first.remaining, len(first.items)) == (2, 1)
    for _ in range(2):
        again = api.list(CONFIG_MAPS, "default", limit=5, continue_token=first.continue_token)
        assert [item["metadata"]["name"] for item in again.items] == ["b", "c"]
    api.create(CONFIG_MAPS, a_map("d"), "default")
    api.compact()
    assert refusal(api.list, CONFIG_MAPS, "default", continue_token=first.continue_token).gone
    assert refusal(api.list, CONFIG_MAPS, "default", continue_token="garbage").code == 400


def test_the_future_is_refused_with_advice(api):
    error = refusal(api.list, CONFIG_MAPS, resource_version="999999")
    assert (error.code, error.reason, error.retry_after, error.unknown) == (504, "Timeout", 1.0, False)


def test_a_lagging_cache_answers_lists_of_zero_with_the_past(api):
    api.create(CONFIG_MAPS, a_map("a"), "default")
    api.lag()
    api.create(CONFIG_MAPS, a_map("b"), "default")
    assert len(api.list(CONFIG_MAPS, "default", resource_version="0").items) == 1
    assert len(api.list(CONFIG_MAPS, "default").items) == 2
    api.catch_up()
    assert len(api.list(CONFIG_MAPS, "default", resource_version="0").items) == 2


def test_items_of_built_in_kinds_do_not_say_what_they_are(api):
    api.create(CONFIG_MAPS, a_map(), "default")
    assert "kind" not in api.list(CONFIG_MAPS, "default").items[0]
    assert api.get(CONFIG_MAPS, in_default("c"))["kind"] == "ConfigMap"
