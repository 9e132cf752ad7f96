"""Merge patches and JSON patches."""

import pytest

from conformance.asking import BAD_REQUEST, CONFLICT, INVALID, refusal, version
from conformance.kinds import GADGETS, WIDGETS, config_map, gadget, pod, widget
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, Key


@pytest.fixture
def made(world):
    return world.api.create(
        WIDGETS, widget("a", size=2, numbers=[1, 2], words={"x": "1", "y": "2"}, labels={"l": "1"}), world.namespace
    ).object


@pytest.fixture
def key(world):
    return Key(world.namespace, "a")


def test_a_merge_patch_sets_removes_and_leaves_alone(world, made, key):
    changed = world.api.patch(WIDGETS, key, {"spec": {"words": {"x": None, "z": "3"}, "numbers": [9]}, "metadata": {"labels": {"m": "2"}}})
    assert changed["spec"]["words"] == {"y": "2", "z": "3"}
    assert changed["spec"]["numbers"] == [9]
    assert changed["spec"]["size"] == 2
    assert changed["metadata"]["labels"] == {"l": "1", "m": "2"}
    assert version(changed) > version(made)
    assert changed["metadata"]["generation"] == 2


def test_a_merge_patch_may_come_as_bytes(world, made, key):
    assert world.api.patch(WIDGETS, key, b'{"spec":{"size":7}}')["spec"]["size"] == 7


def test_a_merge_patch_removes_a_field_and_its_default_comes_back(world, made, key):
    assert world.api.patch(WIDGETS, key, {"spec": {"size": None}})["spec"]["size"] == 1


def test_a_patch_that_changes_nothing_is_no_change(world, made, key):
    assert version(world.api.patch(WIDGETS, key, {"spec": {"size": 2}})) == version(made)
    assert version(world.api.patch(WIDGETS, key, {})) == version(made)


def test_a_version_in_a_patch_is_a_condition(world, made, key):
    world.api.patch(WIDGETS, key, {"metadata": {"resourceVersion": str(version(made))}, "spec": {"size": 3}})
    assert refusal(world.api.patch, WIDGETS, key, {"metadata": {"resourceVersion": str(version(made))}, "spec": {"size": 4}}) == CONFLICT


def test_a_patch_cannot_give_another_uid(world, made, key):
    other = {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}, "spec": {"size": 4}}
    assert refusal(world.api.patch, WIDGETS, key, other)[0] in (409, 422)
    world.api.create(CONFIG_MAPS, config_map("a"), world.namespace)
    assert refusal(world.api.patch, CONFIG_MAPS, key, {"metadata": other["metadata"]})[0] in (409, 422)


def test_a_patch_cannot_break_the_schema_or_rename(world, made, key):
    assert refusal(world.api.patch, WIDGETS, key, {"spec": {"size": 1000}}) == INVALID
    assert refusal(world.api.patch, WIDGETS, key, {"spec": None}) == INVALID
    assert refusal(world.api.patch, WIDGETS, key, {"metadata": {"name": "b"}}) == BAD_REQUEST


def test_generation_is_not_the_patchers_to_give(world, made, key):
    assert world.api.patch(WIDGETS, key, {"metadata": {"generation": 77}, "spec": {"size": 3}})["metadata"]["generation"] == 2


def test_status_and_the_rest_are_patched_apart(world, made, key):
    assert "status" not in world.api.patch(WIDGETS, key, {"status": {"count": 1}})
    told = world.api.patch(WIDGETS, key, {"status": {"count": 1}, "spec": {"size": 9}}, subresource="status")
    assert told["status"] == {"count": 1, "phase": "Pending"}
    assert told["spec"]["size"] == 2


def test_a_kind_without_status_subresource_has_none_to_patch(world, key):
    world.api.create(GADGETS, gadget("a"), world.namespace)
    assert refusal(world.api.patch, GADGETS, key, {"status": {"n": 1}}, subresource="status")[0] == 404
    assert world.api.patch(GADGETS, key, {"status": {"n": 1}})["status"] == {"n": 1}


def test_a_pods_status_can_be_patched(world, key):
    world.api.create(RAW_PODS, pod("a"), world.namespace)
    told = world.api.patch(RAW_PODS, key, {"status": {"phase": "Failed", "reason": "Evicted"}}, subresource="status")
    assert (told["status"]["phase"], told["status"]["reason"]) == ("Failed", "Evicted")


def test_a_json_patch_does_its_operations_in_order(world, made, key):
    operations = [
        {"op": "test", "path": "/spec/size", "value": 2},
        {"op": "replace", "path": "/spec/size", "value": 5},
        {"op": "add", "path": "/spec/numbers/-", "value": 3},
        {"op": "remove", "path": "/spec/numbers/0"},
        {"op": "move", "from": "/spec/words/x", "path": "/spec/words/moved"},
        {"op": "copy", "from": "/spec/words/y", "path": "/spec/words/copied"},
        {"op": "add", "path": "/metadata/labels/example.com~1slash", "value": "v"},
    ]
    changed = world.api.patch(WIDGETS, key, operations)
    assert changed["spec"]["size"] == 5
    assert changed["spec"]["numbers"] == [2, 3]
    assert changed["spec"]["words"] == {"y": "2", "moved": "1", "copied": "2"}
    assert changed["metadata"]["labels"] == {"l": "1", "example.com/slash": "v"}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/size", "value": 99},
        {"op": "remove", "path": "/spec/absent"},
        {"op": "add", "path": "/spec/absent/deeper", "value": 1},
        {"op": "add", "path": "/spec/numbers/7", "value": 1},
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
def test_a_json_patch_that_does_not_apply_changes_nothing(world, made, key, operation):
    operations = [{"op": "replace", "path": "/spec/size", "value": 3}, operation]
    assert refusal(world.api.patch, WIDGETS, key, operations) == INVALID
    assert world.api.get(WIDGETS, key)["spec"]["size"] == 2


def test_replacing_what_is_absent_adds_it(world, made, key):
    """Not what RFC 6902 says, but what servers do."""
    assert world.api.patch(WIDGETS, key, [{"op": "replace", "path": "/spec/words/new", "value": "n"}])["spec"]["words"]["new"] == "n"


def test_a_json_patch_with_an_unknown_operation_is_refused(world, made, key):
    assert refusal(world.api.patch, WIDGETS, key, [{"op": "guess", "path": "/spec/size"}])[0] in (400, 422)


def test_nothing_but_an_object_can_come_out_of_a_patch(world, made, key):
    assert refusal(world.api.patch, WIDGETS, key, b"3")[0] in (400, 422)
    assert refusal(world.api.patch, WIDGETS, key, b"{")[0] in (400, 422)


def test_built_in_kinds_are_patched_the_same_way(world, key):
    world.api.create(CONFIG_MAPS, config_map("a", x=1, y=2), world.namespace)
    assert world.api.patch(CONFIG_MAPS, key, {"data": {"x": None, "z": "3"}})["data"] == {"y": "2", "z": "3"}
    assert world.api.patch(CONFIG_MAPS, key, [{"op": "remove", "path": "/data/y"}])["data"] == {"z": "3"}
