"""Creating and replacing: names, versions, status isolation, generation, schema."""

import msgspec
import pytest

from conformance.asking import BAD_REQUEST, CONFLICT, EXISTS, INVALID, NOT_FOUND, refusal, uid, version
from conformance.kinds import GADGETS, GROUP, WIDGETS, config_map, gadget, pod, service, widget
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, LEASES, NODES, PODS, RAW_PODS, RAW_SERVICES, SERVICES, Key, raw


def make(world, resource, body):
    return world.api.create(resource, body, world.namespace).object


def key(world, name):
    return Key(world.namespace, name)


# ------------------------------------------------------------------------------------------------ create


def test_a_created_object_has_identity_and_can_be_read_back(world):
    made = make(world, CONFIG_MAPS, config_map("a", x=1))
    assert made["data"] == {"x": "1"}
    assert made["metadata"]["uid"]
    assert version(made) > 0
    assert made["metadata"]["creationTimestamp"].endswith("Z")
    assert made["metadata"]["namespace"] == world.namespace
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    again = world.api.get(CONFIG_MAPS, key(world, "a"))
    assert uid(again) == uid(made)
    assert version(again) == version(made)


def test_kind_and_version_may_be_left_out_of_built_in_kinds(world):
    made = world.api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, world.namespace).object
    assert made["metadata"]["name"] == "a"


def test_a_name_can_be_generated(world):
    body = config_map()
    body["metadata"] = {"generateName": "gen-"}
    one, two = make(world, CONFIG_MAPS, body), make(world, CONFIG_MAPS, body)
    assert one["metadata"]["name"].startswith("gen-")
    assert len(one["metadata"]["name"]) == len("gen-") + 5
    assert one["metadata"]["name"] != two["metadata"]["name"]
    assert one["metadata"]["generateName"] == "gen-"


def test_bodies_may_be_ready_bytes_and_slim_objects_come_back(world):
    body = msgspec.json.encode(pod("p", labels={"a": "b"}))
    made = world.api.create(PODS, body, world.namespace).object
    assert (made.name, made.namespace, made.labels, made.phase, made.node) == ("p", world.namespace, {"a": "b"}, "Pending", "")
    assert world.api.get(PODS, key(world, "p")) == made
    served = world.api.create(SERVICES, service("s"), world.namespace).object
    assert (served.cluster_ip, [(p.name, p.port) for p in served.ports]) == ("None", [("a", 80)])


def test_the_same_name_twice_already_exists(world):
    make(world, CONFIG_MAPS, config_map("a"))
    with pytest.raises(ApiError) as caught:
        make(world, CONFIG_MAPS, config_map("a"))
    assert (caught.value.code, caught.value.reason) == EXISTS
    assert caught.value.already_exists
    assert not caught.value.conflict


def test_the_same_name_of_another_kind_or_namespace_is_another_object(world):
    make(world, WIDGETS, widget("a"))
    make(world, GADGETS, gadget("a"))
    make(world, CONFIG_MAPS, config_map("a"))
    world.api.create(CONFIG_MAPS, {"metadata": {"generateName": "a-"}}, "kube-system")


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a b", "a/b", "é", "a" * 254, "a..b"])
def test_names_are_dns_subdomains(world, name):
    assert refusal(make, world, CONFIG_MAPS, config_map(name)) == INVALID
    assert refusal(make, world, WIDGETS, widget(name)) == INVALID


@pytest.mark.parametrize("name", ["a.b", "1a", "a" * 64, "A"])
def test_service_names_are_dns_labels_that_begin_with_a_letter(world, name):
    assert refusal(make, world, RAW_SERVICES, service(name)) == INVALID


@pytest.mark.parametrize("labels", [{"a b": "x"}, {"a": "b c"}, {"a": "x" * 64}, {"": "x"}, {"/a": "x"}])
def test_labels_have_a_syntax(world, labels):
    assert refusal(make, world, CONFIG_MAPS, config_map("a", labels=labels)) == INVALID
    assert refusal(make, world, WIDGETS, widget("a", labels=labels)) == INVALID


def test_a_name_is_needed(world):
    assert refusal(make, world, CONFIG_MAPS, {"metadata": {}}) == INVALID
    assert refusal(make, world, WIDGETS, {**widget(), "metadata": {}}) == INVALID


def test_a_version_cannot_be_chosen(world):
    body = config_map("a")
    body["metadata"]["resourceVersion"] = "5"
    assert refusal(make, world, CONFIG_MAPS, body)[0] in (400, 500)


def test_identity_is_the_servers_to_give(world):
    body = config_map("a")
    body["metadata"] |= {
        "uid": "mine",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 77,
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    made = make(world, CONFIG_MAPS, body)
    assert uid(made) != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in made["metadata"]


def test_body_and_path_must_agree(world):
    elsewhere = config_map("a")
    elsewhere["metadata"]["namespace"] = "kube-system"
    assert refusal(make, world, CONFIG_MAPS, elsewhere) == BAD_REQUEST
    assert refusal(make, world, CONFIG_MAPS, {**config_map("a"), "kind": "Secret"}) == BAD_REQUEST
    assert refusal(make, world, WIDGETS, {**widget("a"), "kind": "Gadget"}) == INVALID
    assert refusal(make, world, WIDGETS, {**widget("a"), "apiVersion": f"{GROUP}/v9"}) == BAD_REQUEST


def test_a_body_that_is_not_json_is_refused(world):
    assert refusal(world.api.create, CONFIG_MAPS, b"{", world.namespace) == BAD_REQUEST
    assert refusal(world.api.create, WIDGETS, b"{", world.namespace) == BAD_REQUEST


def test_a_namespace_must_exist(world):
    assert refusal(world.api.create, CONFIG_MAPS, config_map("a"), "no-such-namespace") == NOT_FOUND
    assert refusal(world.api.create, WIDGETS, widget("a"), "no-such-namespace") == NOT_FOUND


def test_an_unknown_kind_is_not_found(world):
    no_version = raw(GROUP, "v9", WIDGETS.plural, "Widget")
    no_plural = raw(GROUP, "v1", "nothings", "Nothing")
    for nothing in (raw("nowhere.dev", "v1", "nothings", "Nothing"), no_version, no_plural, raw("", "v1", "nothings", "Nothing")):
        assert refusal(world.api.get, nothing, key(world, "a")) == NOT_FOUND
        assert refusal(world.api.list, nothing) == NOT_FOUND
        assert refusal(world.api.create, nothing, {"metadata": {"name": "a"}}, world.namespace) == NOT_FOUND
        assert refusal(world.api.delete, nothing, key(world, "a")) == NOT_FOUND


def test_what_is_not_there_is_not_found(world):
    assert refusal(world.api.get, CONFIG_MAPS, key(world, "a")) == NOT_FOUND
    assert refusal(world.api.get, WIDGETS, key(world, "a")) == NOT_FOUND
    assert refusal(world.api.replace, CONFIG_MAPS, key(world, "a"), config_map("a")) == NOT_FOUND
    assert refusal(world.api.delete, WIDGETS, key(world, "a")) == NOT_FOUND
    assert refusal(world.api.patch, WIDGETS, key(world, "a"), {"spec": {}}) == NOT_FOUND
    assert refusal(world.api.replace_status, RAW_PODS, key(world, "a"), pod("a")) == NOT_FOUND


def test_some_kinds_are_in_no_namespace(world):
    made = world.api.create(NODES, {"metadata": {"generateName": "conformance-"}}).object
    name = made["metadata"]["name"]
    assert "namespace" not in made["metadata"]
    assert uid(world.api.get(NODES, Key("", name))) == uid(made)
    world.api.delete(NODES, Key("", name))


# ------------------------------------------------------------------------------------------------ replace


def test_every_change_has_a_higher_version(world):
    made = make(world, CONFIG_MAPS, config_map("a", x=1))
    changed = world.api.replace(CONFIG_MAPS, key(world, "a"), config_map("a", x=2))
    assert version(changed) > version(made)
    assert uid(changed) == uid(made)
    assert changed["data"] == {"x": "2"}


def test_a_replacement_that_changes_nothing_is_no_change(world):
    made = make(world, CONFIG_MAPS, config_map("a", x=1))
    assert version(world.api.replace(CONFIG_MAPS, key(world, "a"), made)) == version(made)
    drawn = make(world, WIDGETS, widget("a", size=3))
    assert version(world.api.replace(WIDGETS, key(world, "a"), drawn)) == version(drawn)


def test_a_stale_version_conflicts(world):
    old = make(world, WIDGETS, widget("a", size=1))
    world.api.replace(WIDGETS, key(world, "a"), {**old, "spec": {"size": 2}})
    with pytest.raises(ApiError) as caught:
        world.api.replace(WIDGETS, key(world, "a"), {**old, "spec": {"size": 3}})
    assert caught.value.conflict
    assert not caught.value.unknown
    assert world.api.get(WIDGETS, key(world, "a"))["spec"]["size"] == 2


def test_without_a_version_built_in_kinds_are_replaced_and_own_kinds_are_not(world):
    make(world, CONFIG_MAPS, config_map("a"))
    world.api.replace(CONFIG_MAPS, key(world, "a"), config_map("a", x=1))
    make(world, WIDGETS, widget("a"))
    assert refusal(world.api.replace, WIDGETS, key(world, "a"), widget("a", size=2)) == INVALID


def test_another_uid_is_another_object(world):
    made = make(world, CONFIG_MAPS, config_map("a"))
    made["metadata"]["uid"] = "11111111-1111-1111-1111-111111111111"
    assert refusal(world.api.replace, CONFIG_MAPS, key(world, "a"), made) == CONFLICT


def test_the_name_in_the_body_must_be_the_one_in_the_path(world):
    make(world, CONFIG_MAPS, config_map("a"))
    assert refusal(world.api.replace, CONFIG_MAPS, key(world, "a"), config_map("b")) == BAD_REQUEST


def test_replacing_keeps_what_belongs_to_the_server(world):
    made = make(world, WIDGETS, widget("a", labels={"x": "y"}))
    body = widget("a", size=2)
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    changed = world.api.replace(WIDGETS, key(world, "a"), body)
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert uid(changed) == uid(made)
    assert "labels" not in changed["metadata"]  # but labels are the user's, and a replacement replaces them


def test_a_lease_may_be_created_by_replacing(world):
    body = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    assert world.api.replace(LEASES, key(world, "l"), body)["spec"]["holderIdentity"] == "me"


def test_most_of_a_pods_spec_cannot_change(world):
    made = make(world, RAW_PODS, pod("p"))
    made["spec"]["containers"][0]["command"] = ["x"]
    assert refusal(world.api.replace, RAW_PODS, key(world, "p"), made) == INVALID
    again = world.api.get(RAW_PODS, key(world, "p"))
    again["spec"]["containers"][0]["image"] = "other"
    assert world.api.replace(RAW_PODS, key(world, "p"), again)["spec"]["containers"][0]["image"] == "other"


# ------------------------------------------------------------------------------------------------ status


def test_create_and_replace_ignore_the_status(world):
    made = make(world, WIDGETS, widget("a", status={"phase": "Done"}))
    assert "status" not in made
    made["status"] = {"phase": "Done"}
    assert "status" not in world.api.replace(WIDGETS, key(world, "a"), made)


def test_a_status_write_changes_nothing_but_the_status(world):
    made = make(world, WIDGETS, widget("a", size=3, labels={"x": "y"}))
    made["spec"]["size"] = 50
    made["metadata"]["labels"] = {"other": "z"}
    made["status"] = {"count": 4}
    told = world.api.replace_status(WIDGETS, key(world, "a"), made)
    assert told["spec"]["size"] == 3
    assert told["metadata"]["labels"] == {"x": "y"}
    assert told["status"] == {"count": 4, "phase": "Pending"}
    assert told["metadata"]["generation"] == 1
    assert world.api.get(WIDGETS, key(world, "a"))["status"] == {"count": 4, "phase": "Pending"}


def test_a_stale_status_write_conflicts_and_an_equal_one_is_no_change(world):
    made = make(world, WIDGETS, widget("a"))
    told = world.api.replace_status(WIDGETS, key(world, "a"), {**made, "status": {"count": 1}})
    assert refusal(world.api.replace_status, WIDGETS, key(world, "a"), {**made, "status": {"count": 2}}) == CONFLICT
    assert version(world.api.replace_status(WIDGETS, key(world, "a"), told)) == version(told)


def test_a_status_write_must_fit_the_schema(world):
    made = make(world, WIDGETS, widget("a"))
    assert refusal(world.api.replace_status, WIDGETS, key(world, "a"), {**made, "status": {"count": "many"}}) == INVALID


def test_a_kind_without_status_subresource_keeps_its_status_like_any_field(world):
    made = make(world, GADGETS, gadget("a", status={"phase": "Done"}))
    assert made["status"] == {"phase": "Done"}
    assert refusal(world.api.replace_status, GADGETS, key(world, "a"), made)[0] == 404


def test_a_pods_status_is_written_apart(world):
    made = make(world, RAW_PODS, {**pod("p"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    made["status"]["phase"] = "Running"
    made["metadata"]["labels"] = {"new": "label"}
    made["spec"]["containers"][0]["image"] = "other"
    told = world.api.replace_status(RAW_PODS, key(world, "p"), made)
    assert told["status"]["phase"] == "Running"
    assert told["spec"]["containers"][0]["image"] == "none"
    assert told["metadata"]["labels"] == {"new": "label"}  # pods, unlike others, take metadata along


# ------------------------------------------------------------------------------------------------ generation


def test_generation_counts_changes_of_the_spec_alone(world):
    made = make(world, WIDGETS, widget("a", size=1))
    assert made["metadata"]["generation"] == 1
    made["metadata"]["labels"] = {"x": "y"}
    labelled = world.api.replace(WIDGETS, key(world, "a"), made)
    assert labelled["metadata"]["generation"] == 1
    labelled["spec"]["size"] = 2
    changed = world.api.replace(WIDGETS, key(world, "a"), labelled)
    assert changed["metadata"]["generation"] == 2
    changed["metadata"]["generation"] = 99
    changed["spec"]["size"] = 3
    assert world.api.replace(WIDGETS, key(world, "a"), changed)["metadata"]["generation"] == 3


def test_without_a_status_subresource_a_status_change_counts_too(world):
    made = make(world, GADGETS, gadget("a", x=1))
    made["status"] = {"n": 1}
    assert world.api.replace(GADGETS, key(world, "a"), made)["metadata"]["generation"] == 2


# ------------------------------------------------------------------------------------------------ schema

TIMES = (
    "2026-01-01T00:00:00Z",
    "2026-01-01t00:00:00z",
    "2026-01-01T00:00:00.1234567890123Z",
    "2026-01-01T00:00:00,5Z",
    "2026-01-01T00:00:00+25:00",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
)
"""Some of them no library reads."""
NO_TIMES = (
    "2026-01-01",
    "2026-02-29T00:00:00Z",
    "2026-01-01 00:00:00Z",
    "2026-01-01T00:00:00",
    "2026-01-01T24:00:00Z",
    "2026-01-01T23:59:60Z",
    "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00+08",
)


def test_defaults_are_filled_in_everywhere(world):
    made = make(world, WIDGETS, widget("a", parts=[{"name": "p"}, {"name": "q", "count": 5}]))
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "nested": {"deep": "down"},
        "parts": [{"name": "p", "count": 2}, {"name": "q", "count": 5}],
    }


def test_a_null_where_none_may_be_is_replaced_by_the_default(world):
    made = make(world, WIDGETS, widget("a", size=None, nothing=None))
    assert made["spec"]["size"] == 1
    assert made["spec"]["nothing"] is None


def test_unknown_fields_are_pruned_but_not_where_the_schema_is_open(world):
    body = widget("a", unknown=1, open={"any": {"thing": [1]}}, nested={"deeper": 1}, words={"a": "b"})
    made = make(world, WIDGETS, {**body, "extra": 1})
    assert "extra" not in made
    assert "unknown" not in made["spec"]
    assert made["spec"]["open"] == {"any": {"thing": [1]}}
    assert made["spec"]["nested"] == {"deep": "down"}
    assert made["spec"]["words"] == {"a": "b"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"size": "big"}, "spec.size"),
        ({"size": 1.5}, "spec.size"),
        ({"size": 101}, "spec.size"),
        ({"size": -1}, "spec.size"),
        ({"color": "pink"}, "spec.color"),
        ({"label": "toolong"}, "spec.label"),
        ({"label": "A"}, "spec.label"),
        ({"either": []}, "spec.either"),
        ({"open": 3}, "spec.open"),
        *(({"when": when}, "spec.when") for when in NO_TIMES),
        ({"day": "2026-02-29"}, "spec.day"),
        ({"numbers": [1, 2, 3, 4]}, "spec.numbers"),
        ({"numbers": [1, "2"]}, "spec.numbers[1]"),
        ({"words": {"a": 1}}, "spec.words.a"),
        ({"nested": "deep"}, "spec.nested"),
        ({"parts": [{}]}, "spec.parts[0].name"),
        ({"parts": [{"name": "p"}, {"name": "p"}]}, "spec.parts[1]"),
        ({"parts": [{"name": "p", "on": "yes"}]}, "spec.parts[0].on"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_the_schema_is_refused_by_field(world, spec, field):
    with pytest.raises(ApiError) as caught:
        make(world, WIDGETS, widget("a", **spec))
    assert (caught.value.code, caught.value.reason) == INVALID
    assert caught.value.refused
    assert field in [cause.field for cause in caught.value.causes]


@pytest.mark.parametrize("when", TIMES)
def test_times_may_be_odd(world, when):
    assert make(world, WIDGETS, widget("a", when=when))["spec"]["when"] == when


def test_the_first_year_of_all_has_a_leap_day(world):
    assert make(world, WIDGETS, widget("a", day="0000-02-29"))["spec"]["day"] == "0000-02-29"


def test_what_is_required_must_be_there(world):
    body = widget("a")
    del body["spec"]
    assert refusal(make, world, WIDGETS, body) == INVALID


def test_integers_and_strings_both_fit_where_either_may_be(world):
    assert make(world, WIDGETS, widget("a", either=3))["spec"]["either"] == 3
    assert make(world, WIDGETS, widget("b", either="3"))["spec"]["either"] == "3"


def test_unknown_fields_are_warned_about_or_refused_on_demand(world):
    quiet = world.api.create(WIDGETS, widget("a", comand=1), world.namespace, field_validation="Ignore")
    assert list(quiet.warnings) == []
    told = world.api.create(WIDGETS, widget("b", comand=1, nested={"x": 1}), world.namespace, field_validation="Warn")
    assert sorted(told.warnings) == ['unknown field "spec.comand"', 'unknown field "spec.nested.x"']
    assert refusal(world.api.create, WIDGETS, widget("c", comand=1), world.namespace, field_validation="Strict") == BAD_REQUEST
    world.api.create(WIDGETS, widget("d", size=1), world.namespace, field_validation="Strict")
    assert refusal(world.api.create, WIDGETS, widget("e"), world.namespace, field_validation="Sometimes") == INVALID


def test_a_body_that_is_no_json_value_is_refused_before_it_is_sent(world):
    assert refusal(world.api.create, CONFIG_MAPS, {"metadata": {"name": object()}}, world.namespace) == BAD_REQUEST


def test_a_request_for_one_object_needs_its_name(world):
    for call in (world.api.get, world.api.delete):
        with pytest.raises(ValueError, match="name"):
            call(CONFIG_MAPS, Key(world.namespace, ""))


def test_there_are_no_other_subresources(world):
    make(world, WIDGETS, widget("a"))
    assert refusal(world.api.patch, WIDGETS, key(world, "a"), {}, subresource="bogus")[0] == 404
