"""The end of objects: conditions, grace, finalizers, and what happens to those they own.

Late in the alphabet on purpose: a real garbage collector needs half a minute to hear of a new kind.
"""

import pytest

from conformance.asking import CONFLICT, INVALID, NOT_FOUND, refusal, uid, version
from conformance.kinds import GADGETS, WIDGETS, config_map, gadget, owner, pod, service, widget
from genericjob.reconcile.resources import CONFIG_MAPS, NAMESPACES, PODS, RAW_PODS, RAW_SERVICES, Key
from harness.clusters import eventually

NOBODY = "11111111-1111-1111-1111-111111111111"


def make(world, resource, body):
    return world.api.create(resource, body, world.namespace).object


def key(world, name):
    return Key(world.namespace, name)


def exists(world, resource, name):
    return name in [item["metadata"]["name"] for item in world.api.list(resource, world.namespace).items]


# ------------------------------------------------------------------------------------------------ conditions


def test_a_deleted_object_is_gone(world):
    for resource, body in ((CONFIG_MAPS, config_map("a")), (WIDGETS, widget("a")), (RAW_PODS, pod("a")), (RAW_SERVICES, service("a"))):
        make(world, resource, body)
        world.api.delete(resource, key(world, "a"))
        assert refusal(world.api.get, resource, key(world, "a")) == NOT_FOUND
        assert refusal(world.api.delete, resource, key(world, "a")) == NOT_FOUND


def test_some_kinds_tell_their_last_state_and_some_only_that_it_is_done(world):
    made = make(world, RAW_PODS, pod("p"))
    last = world.api.delete(RAW_PODS, key(world, "p"))
    assert uid(last) == uid(made)
    make(world, CONFIG_MAPS, config_map("c"))
    assert world.api.delete(CONFIG_MAPS, key(world, "c")) is None
    make(world, WIDGETS, widget("w"))
    assert world.api.delete(WIDGETS, key(world, "w")) is None
    make(world, RAW_SERVICES, service("s"))
    assert uid(world.api.delete(RAW_SERVICES, key(world, "s")))


def test_a_delete_may_insist_on_a_uid(world):
    made = make(world, RAW_PODS, pod("p"))
    assert refusal(world.api.delete, RAW_PODS, key(world, "p"), uid=NOBODY) == CONFLICT
    world.api.delete(RAW_PODS, key(world, "p"), uid=uid(made))


def test_a_delete_may_insist_on_a_version(world):
    made = make(world, WIDGETS, widget("w"))
    made["spec"]["size"] = 5
    changed = world.api.replace(WIDGETS, key(world, "w"), made)
    assert refusal(world.api.delete, WIDGETS, key(world, "w"), resource_version=str(version(changed) - 1)) == CONFLICT
    world.api.delete(WIDGETS, key(world, "w"), resource_version=str(version(changed)))


def test_a_successor_of_the_same_name_is_another_object(world):
    first = make(world, CONFIG_MAPS, config_map("c"))
    world.api.delete(CONFIG_MAPS, key(world, "c"))
    second = make(world, CONFIG_MAPS, config_map("c"))
    assert uid(second) != uid(first)
    assert version(second) > version(first) + 1  # the deletion had a version, too
    assert refusal(world.api.delete, CONFIG_MAPS, key(world, "c"), uid=uid(first)) == CONFLICT


# ------------------------------------------------------------------------------------------------ grace


def running(world, name="p", **options):
    make(world, RAW_PODS, pod(name, **options))
    world.bind(key(world, name))
    return world.api.patch(RAW_PODS, key(world, name), {"status": {"phase": "Running"}}, subresource="status")


def test_a_pod_on_a_node_ends_gracefully(world):
    made = running(world)
    told = world.api.delete(RAW_PODS, key(world, "p"))
    assert told["metadata"]["deletionGracePeriodSeconds"] == 30
    assert told["metadata"]["deletionTimestamp"]
    assert version(told) > version(made)
    assert told["metadata"]["generation"] == made["metadata"]["generation"] + 1
    assert world.api.get(PODS, key(world, "p")).deleted is not None
    last = world.api.delete(RAW_PODS, key(world, "p"), grace=0, uid=uid(made))
    assert version(last) > version(told)
    assert refusal(world.api.get, RAW_PODS, key(world, "p")) == NOT_FOUND


def test_the_pods_own_grace_period_counts(world):
    running(world, grace=7)
    assert world.api.delete(RAW_PODS, key(world, "p"))["metadata"]["deletionGracePeriodSeconds"] == 7


def test_the_callers_grace_period_counts_more(world):
    running(world)
    assert world.api.delete(RAW_PODS, key(world, "p"), grace=3)["metadata"]["deletionGracePeriodSeconds"] == 3


def test_grace_can_be_shortened_but_not_lengthened(world):
    running(world)
    first = world.api.delete(RAW_PODS, key(world, "p"), grace=10)
    again = world.api.delete(RAW_PODS, key(world, "p"), grace=20)
    assert again["metadata"]["deletionGracePeriodSeconds"] == 10
    assert version(again) == version(first)
    shorter = world.api.delete(RAW_PODS, key(world, "p"), grace=2)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 2
    assert version(shorter) > version(first)


def test_a_pod_on_no_node_goes_at_once(world):
    make(world, RAW_PODS, pod("p"))
    world.api.delete(RAW_PODS, key(world, "p"))
    assert refusal(world.api.get, RAW_PODS, key(world, "p")) == NOT_FOUND


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_pod_goes_at_once(world, phase):
    running(world)
    world.api.patch(RAW_PODS, key(world, "p"), {"status": {"phase": phase}}, subresource="status")
    world.api.delete(RAW_PODS, key(world, "p"))
    assert refusal(world.api.get, RAW_PODS, key(world, "p")) == NOT_FOUND


def test_other_kinds_know_no_grace(world):
    make(world, WIDGETS, widget("w"))
    world.api.delete(WIDGETS, key(world, "w"), grace=60)
    assert refusal(world.api.get, WIDGETS, key(world, "w")) == NOT_FOUND


def test_a_terminating_pod_keeps_its_name(world):
    running(world)
    world.api.delete(RAW_PODS, key(world, "p"))
    assert refusal(make, world, RAW_PODS, pod("p")) == (409, "AlreadyExists")


# ------------------------------------------------------------------------------------------------ finalizers


@pytest.mark.parametrize(
    ("resource", "body"), [(CONFIG_MAPS, config_map), (WIDGETS, widget), (RAW_PODS, pod)], ids=["ConfigMap", "Widget", "Pod"]
)
def test_a_finalizer_holds_an_object_until_it_is_removed(world, resource, body):
    made = make(world, resource, body("a", finalizers=["test.dev/hold"]))
    told = world.api.delete(resource, key(world, "a"))
    assert told["metadata"]["deletionTimestamp"]
    assert uid(world.api.get(resource, key(world, "a"))) == uid(made)
    again = world.api.delete(resource, key(world, "a"))
    assert version(again) == version(told)
    last = world.api.patch(resource, key(world, "a"), {"metadata": {"finalizers": None}})
    assert uid(last) == uid(made)
    assert refusal(world.api.get, resource, key(world, "a")) == NOT_FOUND


def test_generation_grows_with_the_wish_to_delete(world):
    make(world, WIDGETS, widget("w", finalizers=["test.dev/hold"]))
    assert world.api.delete(WIDGETS, key(world, "w"))["metadata"]["generation"] == 2
    world.api.patch(WIDGETS, key(world, "w"), {"metadata": {"finalizers": None}})


def test_no_finalizer_can_be_added_to_a_dying_object(world):
    make(world, WIDGETS, widget("w", finalizers=["test.dev/hold"]))
    world.api.delete(WIDGETS, key(world, "w"))
    assert refusal(world.api.patch, WIDGETS, key(world, "w"), {"metadata": {"finalizers": ["test.dev/hold", "test.dev/more"]}}) == INVALID
    world.api.patch(WIDGETS, key(world, "w"), {"metadata": {"finalizers": None}})


def test_a_dying_object_can_still_be_changed_but_not_revived(world):
    make(world, WIDGETS, widget("w", finalizers=["test.dev/hold"]))
    dying = world.api.delete(WIDGETS, key(world, "w"))
    changed = world.api.patch(WIDGETS, key(world, "w"), {"spec": {"size": 9}, "metadata": {"deletionTimestamp": None}})
    assert changed["spec"]["size"] == 9
    assert changed["metadata"]["deletionTimestamp"] == dying["metadata"]["deletionTimestamp"]
    world.api.patch(WIDGETS, key(world, "w"), {"metadata": {"finalizers": None}})


# ------------------------------------------------------------------------------------------------ owners


def family(world, *, block=False):
    """An owner and two that belong to it, of different kinds."""
    parent = make(world, WIDGETS, widget("parent"))
    make(world, CONFIG_MAPS, config_map("child", owners=[owner(parent, block=block)]))
    make(world, GADGETS, gadget("child", owners=[owner(parent, block=block)]))
    return parent


def test_in_background_the_owner_goes_first_and_the_rest_follows(world):
    family(world)
    world.api.delete(WIDGETS, key(world, "parent"), propagation="Background")
    assert refusal(world.api.get, WIDGETS, key(world, "parent")) == NOT_FOUND
    world.gone(CONFIG_MAPS, key(world, "child"))
    world.gone(GADGETS, key(world, "child"))


def test_background_is_what_happens_when_nothing_is_said(world):
    family(world)
    world.api.delete(WIDGETS, key(world, "parent"))
    world.gone(CONFIG_MAPS, key(world, "child"))


def test_in_foreground_the_owner_waits_for_those_that_block_it(world):
    parent = make(world, WIDGETS, widget("parent"))
    make(world, CONFIG_MAPS, config_map("slow", owners=[owner(parent, block=True)], finalizers=["test.dev/hold"]))
    told = world.api.delete(WIDGETS, key(world, "parent"), propagation="Foreground")
    assert told["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: "deletionTimestamp" in world.api.get(CONFIG_MAPS, key(world, "slow"))["metadata"])
    assert exists(world, WIDGETS, "parent")
    world.api.patch(CONFIG_MAPS, key(world, "slow"), {"metadata": {"finalizers": None}})
    world.gone(WIDGETS, key(world, "parent"))


def test_in_foreground_nobody_waits_for_those_that_do_not_block(world):
    parent = make(world, WIDGETS, widget("parent"))
    make(world, CONFIG_MAPS, config_map("slow", owners=[owner(parent)], finalizers=["test.dev/hold"]))
    world.api.delete(WIDGETS, key(world, "parent"), propagation="Foreground")
    world.gone(WIDGETS, key(world, "parent"))
    eventually(lambda: "deletionTimestamp" in world.api.get(CONFIG_MAPS, key(world, "slow"))["metadata"])
    world.api.patch(CONFIG_MAPS, key(world, "slow"), {"metadata": {"finalizers": None}})


def test_orphans_stay_and_forget_their_owner(world):
    family(world)
    world.api.delete(WIDGETS, key(world, "parent"), propagation="Orphan")
    world.gone(WIDGETS, key(world, "parent"))
    eventually(lambda: "ownerReferences" not in world.api.get(CONFIG_MAPS, key(world, "child"))["metadata"])
    assert exists(world, GADGETS, "child")


def test_one_of_two_owners_is_enough(world):
    one, two = make(world, WIDGETS, widget("one")), make(world, WIDGETS, widget("two"))
    make(world, CONFIG_MAPS, config_map("child", owners=[owner(one), owner(two)]))
    world.api.delete(WIDGETS, key(world, "one"))
    assert eventually(lambda: [each["name"] for each in references(world, "child")] == ["two"])
    world.api.delete(WIDGETS, key(world, "two"))
    world.gone(CONFIG_MAPS, key(world, "child"))


def references(world, name):
    return world.api.get(CONFIG_MAPS, key(world, name))["metadata"].get("ownerReferences", [])


def test_grandchildren_go_as_well(world):
    parent = make(world, WIDGETS, widget("parent"))
    child = make(world, WIDGETS, widget("child", owners=[owner(parent)]))
    make(world, CONFIG_MAPS, config_map("grandchild", owners=[owner(child)]))
    world.api.delete(WIDGETS, key(world, "parent"))
    world.gone(CONFIG_MAPS, key(world, "grandchild"))


def test_in_foreground_grandchildren_go_before_children(world):
    parent = make(world, WIDGETS, widget("parent"))
    child = make(world, WIDGETS, widget("child", owners=[owner(parent, block=True)]))
    make(world, CONFIG_MAPS, config_map("grandchild", owners=[owner(child, block=True)], finalizers=["test.dev/hold"]))
    world.api.delete(WIDGETS, key(world, "parent"), propagation="Foreground")
    eventually(lambda: "deletionTimestamp" in world.api.get(CONFIG_MAPS, key(world, "grandchild"))["metadata"])
    assert exists(world, WIDGETS, "child")
    assert exists(world, WIDGETS, "parent")
    world.api.patch(CONFIG_MAPS, key(world, "grandchild"), {"metadata": {"finalizers": None}})
    world.gone(WIDGETS, key(world, "parent"))


def test_an_owner_of_the_same_name_and_another_uid_is_no_owner(world):
    parent = make(world, WIDGETS, widget("parent"))
    impostor = owner(parent) | {"uid": NOBODY}
    make(world, CONFIG_MAPS, config_map("child", owners=[impostor]))
    world.gone(CONFIG_MAPS, key(world, "child"))
    assert exists(world, WIDGETS, "parent")


def test_an_owned_pod_on_a_node_ends_gracefully_too(world):
    parent = make(world, WIDGETS, widget("parent"))
    running(world, owners=[owner(parent, controller=True)])
    world.api.delete(WIDGETS, key(world, "parent"))
    eventually(lambda: world.api.get(PODS, key(world, "p")).deleted)
    world.api.delete(RAW_PODS, key(world, "p"), grace=0)


def test_only_one_owner_can_be_the_controller(world):
    one, two = make(world, WIDGETS, widget("one")), make(world, WIDGETS, widget("two"))
    both = [owner(one, controller=True), owner(two, controller=True)]
    assert refusal(make, world, CONFIG_MAPS, config_map("child", owners=both)) == INVALID


# ------------------------------------------------------------------------------------------------ namespaces


def test_a_dying_namespace_takes_its_objects_along_and_accepts_no_more(world):
    name = world.api.create(NAMESPACES, {"metadata": {"generateName": "test-"}}).object["metadata"]["name"]
    world.api.create(CONFIG_MAPS, config_map("held", finalizers=["test.dev/hold"]), name)
    world.api.create(WIDGETS, widget("w"), name)
    world.api.delete(NAMESPACES, Key("", name))
    eventually(lambda: refusal(world.api.create, CONFIG_MAPS, config_map("late"), name) == (403, "Forbidden"))
    world.gone(WIDGETS, Key(name, "w"))
    eventually(lambda: "deletionTimestamp" in world.api.get(CONFIG_MAPS, Key(name, "held"))["metadata"])
    world.api.patch(CONFIG_MAPS, Key(name, "held"), {"metadata": {"finalizers": None}})
    world.gone(NAMESPACES, Key("", name))
