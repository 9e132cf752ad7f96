"""Lists: selectors, order, paging, versions."""

import pytest

from conformance.asking import BAD_REQUEST, EXPIRED, names, refusal, version
from conformance.kinds import NODE, WIDGETS, config_map, pod, widget
from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, EVENTS, PODS, RAW_PODS, Key
from harness.clusters import eventually

OURS = "suite"
"""A label of everything made here, because a real namespace has inhabitants of its own."""


def make(world, name, resource=WIDGETS, build=widget, **labels):
    return world.api.create(resource, build(name, labels={OURS: "x", **labels}), world.namespace).object


def listed(world, resource=WIDGETS, **options):
    return names(world.api.list(resource, world.namespace, **{"labels": OURS, **options}))


def test_a_list_is_in_order_of_names_and_has_a_version(world):
    for name in ("c", "a", "b", "a-1", "a.1", "a1"):
        last = make(world, name)
    page = world.api.list(WIDGETS, world.namespace)
    assert names(page) == ["a", "a-1", "a.1", "a1", "b", "c"]
    assert int(page.resource_version) >= version(last)
    assert page.continue_token == ""


def test_an_empty_list_has_a_version_too(world):
    page = world.api.list(WIDGETS, world.namespace)
    assert list(page.items) == []
    assert int(page.resource_version) > 0


def test_items_know_their_kind_and_can_be_slim(world):
    make(world, "p", RAW_PODS, pod)
    assert [p.name for p in world.api.list(PODS, world.namespace).items] == ["p"]


def test_all_namespaces_are_listed_at_once(world):
    make(world, "here", CONFIG_MAPS, config_map)
    page = world.api.list(CONFIG_MAPS, labels=OURS, fields="metadata.name=here")
    assert world.namespace in [item["metadata"]["namespace"] for item in page.items]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", "abcd"),
        ("tier=web", "ab"),
        ("tier==web", "ab"),
        ("tier!=web", "cd"),
        ("tier", "abc"),
        ("!tier", "d"),
        ("tier in (web,db)", "abc"),
        ("tier in (db)", "c"),
        ("tier notin (web)", "cd"),
        ("tier notin (web, db)", "d"),
        ("tier=web,env=prod", "a"),
        ("tier=web,env!=prod", "b"),
        ("env,tier in (web)", "ab"),
        ("env=", "c"),
        ("tier=none", ""),
        ("n>1", "bc"),
        ("n<2", "a"),
        (" tier = web , env = prod ", "a"),
    ],
)
def test_label_selectors(world, selector, expected):
    make(world, "a", tier="web", env="prod", n="1")
    make(world, "b", tier="web", env="test", n="2")
    make(world, "c", tier="db", env="", n="3")
    make(world, "d")
    found = names(world.api.list(WIDGETS, world.namespace, labels=selector))
    assert "".join(found) == expected


@pytest.mark.parametrize("selector", ["=", "a in", "a in (", "a=b c", "!", "a b", "a in b", "-a=b", "a=b,", "a>x", "(a)", "a=b=c", "a=_"])
def test_malformed_label_selectors_are_refused(world, selector):
    assert refusal(world.api.list, WIDGETS, world.namespace, labels=selector) == BAD_REQUEST


def test_field_selectors_of_every_kind(world):
    for name in "ab":
        make(world, name)
        make(world, name, RAW_PODS, pod)
    assert listed(world, fields="metadata.name=a") == ["a"]
    assert listed(world, fields="metadata.name!=a") == ["b"]
    assert listed(world, fields=f"metadata.namespace={world.namespace},metadata.name==b") == ["b"]
    assert listed(world, RAW_PODS, fields="metadata.name=a") == ["a"]
    assert listed(world, fields="metadata.namespace=elsewhere") == []


def test_field_selectors_of_pods(world):
    for name in "abc":
        make(world, name, RAW_PODS, pod)
    world.bind(Key(world.namespace, "a"))
    world.api.patch(RAW_PODS, Key(world.namespace, "b"), {"status": {"phase": "Failed"}}, subresource="status")
    assert listed(world, RAW_PODS, fields=f"spec.nodeName={NODE}") == ["a"]
    assert listed(world, RAW_PODS, fields="spec.nodeName=") == ["b", "c"]
    assert listed(world, RAW_PODS, fields="status.phase=Failed") == ["b"]
    assert listed(world, RAW_PODS, fields=f"status.phase!=Failed,spec.nodeName!={NODE}") == ["c"]
    assert listed(world, RAW_PODS, fields="spec.schedulerName=nobody") == ["a", "b", "c"]


def test_field_selectors_that_a_definition_offers(world):
    world.api.create(WIDGETS, widget("a", color="green"), world.namespace)
    world.api.create(WIDGETS, widget("b"), world.namespace)
    assert names(world.api.list(WIDGETS, world.namespace, fields="spec.color=green")) == ["a"]
    assert names(world.api.list(WIDGETS, world.namespace, fields="spec.color=red")) == ["b"]


@pytest.mark.parametrize("selector", ["spec.size=1", "metadata.uid=x", "nonsense", "metadata.labels.a=b"])
def test_other_field_selectors_are_refused(world, selector):
    assert refusal(world.api.list, WIDGETS, world.namespace, fields=selector) == BAD_REQUEST


# ------------------------------------------------------------------------------------------------ paging


def test_pages_are_of_one_moment(world):
    for n in range(5):
        make(world, f"w{n}")
    first = world.api.list(WIDGETS, world.namespace, limit=2)
    assert names(first) == ["w0", "w1"]
    assert first.remaining == 3
    make(world, "w2a")
    world.api.delete(WIDGETS, Key(world.namespace, "w4"))
    second = world.api.list(WIDGETS, world.namespace, limit=2, continue_token=first.continue_token)
    assert names(second) == ["w2", "w3"]
    third = world.api.list(WIDGETS, world.namespace, limit=2, continue_token=second.continue_token)
    assert names(third) == ["w4"]
    assert third.continue_token == ""
    assert first.resource_version == second.resource_version == third.resource_version
    assert names(world.api.list(WIDGETS, world.namespace)) == ["w0", "w1", "w2", "w2a", "w3"]


def test_a_token_can_be_used_twice(world):
    for n in range(3):
        make(world, f"w{n}")
    token = world.api.list(WIDGETS, world.namespace, limit=1).continue_token
    for _ in range(2):
        assert names(world.api.list(WIDGETS, world.namespace, limit=5, continue_token=token)) == ["w1", "w2"]


def test_a_token_knows_its_own_version(world):
    for n in range(2):
        make(world, f"w{n}")
    first = world.api.list(WIDGETS, world.namespace, limit=1)
    later = make(world, "w9")
    page = world.api.list(WIDGETS, world.namespace, limit=5, continue_token=first.continue_token, resource_version=str(version(later)))
    assert names(page) == ["w1"]


def test_a_cache_answers_whole(world):
    for n in range(3):
        make(world, f"w{n}")
    assert eventually(lambda: len(world.api.list(WIDGETS, world.namespace, limit=1, resource_version="0").items) == 3)


def test_pages_respect_selectors(world):
    for n in range(6):
        make(world, f"w{n}", even=str(n % 2 == 0))
    found = [names(page) for page in pages(world.api, WIDGETS, world.namespace, labels="even=True", limit=2)]
    assert [name for page in found for name in page] == ["w0", "w2", "w4"]
    assert world.api.list(WIDGETS, world.namespace, labels="even=True", limit=2).remaining is None


def test_a_limit_that_is_not_reached_leaves_no_token(world):
    make(world, "w")
    page = world.api.list(WIDGETS, world.namespace, limit=1)
    assert (page.continue_token, page.remaining) == ("", None)


def test_a_token_ends_with_the_history_it_stands_in(world):
    for n in range(3):
        world.api.create(EVENTS, happening(world, f"e{n}"), world.namespace)
    token = world.api.list(EVENTS, world.namespace, limit=1).continue_token
    for name in ("later", "even-later"):
        world.api.create(EVENTS, happening(world, name), world.namespace)
    world.compact()
    with pytest.raises(ApiError) as caught:
        world.api.list(EVENTS, world.namespace, limit=1, continue_token=token)
    assert (caught.value.code, caught.value.reason) == EXPIRED
    assert caught.value.gone


def happening(world, name):
    return {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Widget", "namespace": world.namespace, "name": "w"},
        "reason": "Testing",
        "type": "Normal",
    }


def test_a_made_up_token_is_refused(world):
    assert refusal(world.api.list, WIDGETS, world.namespace, limit=1, continue_token="made-up") == BAD_REQUEST


# ------------------------------------------------------------------------------------------------ versions


def test_a_list_may_be_taken_from_a_cache_but_not_be_older_than_asked(world):
    made = make(world, "w")
    assert listed(world, resource_version=str(version(made))) == ["w"]
    world.api.list(WIDGETS, world.namespace, resource_version="0")  # any state will do: only that it is allowed


def test_a_version_from_the_future_is_not_waited_for_long(world):
    future = str(int(world.api.list(WIDGETS, world.namespace).resource_version) + 1_000_000)
    with pytest.raises(ApiError) as caught:
        world.api.list(WIDGETS, world.namespace, resource_version=future)
    assert (caught.value.code, caught.value.reason) == (504, "Timeout")
    assert caught.value.retry_after == 1


def test_a_version_that_is_none_is_refused(world):
    assert refusal(world.api.list, WIDGETS, world.namespace, resource_version="abc")[0] in (400, 422)
