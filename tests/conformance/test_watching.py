"""Watches: what is told, in which order, from where, and how a stream ends."""

import threading

import pytest

from conformance.asking import BAD_REQUEST, refusal, version
from conformance.kinds import NODE, WIDGETS, config_map, pod, widget
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, EVENTS, PODS, RAW_PODS, Key
from harness.clusters import eventually


@pytest.fixture
def now(world):
    return world.api.list(WIDGETS, world.namespace).resource_version


def make(world, name, **options):
    return world.api.create(WIDGETS, widget(name, **options), world.namespace).object


def key(world, name):
    return Key(world.namespace, name)


def test_a_life_is_told_in_order(world, now):
    with world.watch(WIDGETS, resource_version=now) as watcher:
        made = make(world, "a", finalizers=["test.dev/hold"])
        world.api.patch(WIDGETS, key(world, "a"), {"spec": {"size": 2}})
        world.api.patch(WIDGETS, key(world, "a"), {"status": {"count": 2}}, subresource="status")
        dying = world.api.delete(WIDGETS, key(world, "a"))
        world.api.patch(WIDGETS, key(world, "a"), {"metadata": {"finalizers": None}})
        assert watcher.take(5) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    versions = [version(thing) for thing in watcher.objects()]
    assert versions[0] == version(made)
    assert versions[3] == version(dying)
    assert versions == sorted(set(versions))
    assert [int(e.resource_version) for e in watcher.events if e.type != "BOOKMARK"] == versions
    assert watcher.objects()[4]["metadata"]["deletionTimestamp"]


def test_the_last_state_of_a_deleted_object_has_a_version_of_its_own(world, now):
    with world.watch(RAW_PODS, resource_version=now) as watcher:
        made = world.api.create(RAW_PODS, pod("p"), world.namespace).object
        last = world.api.delete(RAW_PODS, key(world, "p"))
        # Even a pod that goes at once is first told to be terminating.
        assert watcher.take(3) == [("ADDED", "p"), ("MODIFIED", "p"), ("DELETED", "p")]
    assert version(watcher.objects()[2]) == version(last) > version(watcher.objects()[1]) > version(made)
    assert watcher.objects()[1]["metadata"]["deletionGracePeriodSeconds"] == 0


def test_a_write_that_changes_nothing_is_not_told(world, now):
    with world.watch(WIDGETS, resource_version=now) as watcher:
        made = make(world, "a")
        world.api.replace(WIDGETS, key(world, "a"), made)
        world.api.patch(WIDGETS, key(world, "a"), {"spec": {"size": 1}})
        make(world, "b")
        assert watcher.take(2) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_begins_exactly_where_it_is_told_to(world):
    one, two = make(world, "a"), make(world, "b")
    make(world, "c")
    with world.watch(WIDGETS, resource_version=str(version(one))) as watcher:
        assert watcher.take(2) == [("ADDED", "b"), ("ADDED", "c")]
    with world.watch(WIDGETS, resource_version=str(version(two))) as watcher:
        assert watcher.take(1) == [("ADDED", "c")]


def test_a_watch_can_be_resumed_without_loss_or_repetition(world, now):
    with world.watch(WIDGETS, resource_version=now) as watcher:
        make(world, "a")
        watcher.take(1)
    make(world, "b")
    with world.watch(WIDGETS, resource_version=watcher.watch.resource_version) as resumed:
        make(world, "c")
        assert resumed.take(2) == [("ADDED", "b"), ("ADDED", "c")]


@pytest.mark.parametrize("start", ["", "0"])
def test_a_watch_from_nowhere_begins_with_what_is_there(world, start):
    made = make(world, "a")
    world.api.patch(WIDGETS, key(world, "a"), {"spec": {"size": 2}})
    eventually(lambda: version(world.api.list(WIDGETS, world.namespace, resource_version="0").items[0]) > version(made))
    with world.watch(WIDGETS, resource_version=start) as watcher:
        assert watcher.take(1) == [("ADDED", "a")]
        assert watcher.objects()[0]["spec"]["size"] == 2
        make(world, "b")
        assert watcher.take(2) == [("ADDED", "a"), ("ADDED", "b")]


def test_a_watch_of_everything_sees_every_namespace(world):
    start = world.api.list(CONFIG_MAPS).resource_version
    with world.api.watch(CONFIG_MAPS, resource_version=start, labels="watched=yes", timeout=30) as stream:
        world.api.create(CONFIG_MAPS, config_map("a", labels={"watched": "yes"}), world.namespace)
        assert next(iter(stream)).object["metadata"]["namespace"] == world.namespace


def test_slim_objects_are_watched_as_well(world):
    start = world.api.list(PODS, world.namespace).resource_version
    made = world.api.create(PODS, pod("p"), world.namespace).object
    with world.api.watch(PODS, world.namespace, resource_version=start, timeout=30) as stream:
        event = next(iter(stream))
    assert (event.type, event.object, event.resource_version) == ("ADDED", made, made.resource_version)


# ------------------------------------------------------------------------------------------------ selectors


def test_what_no_longer_matches_is_told_as_deleted_and_what_now_does_as_added(world, now):
    with world.watch(WIDGETS, resource_version=now, labels="in=yes") as watcher:
        make(world, "a", labels={"in": "yes"})
        make(world, "b")
        world.api.patch(WIDGETS, key(world, "a"), {"spec": {"size": 2}})
        out = world.api.patch(WIDGETS, key(world, "a"), {"metadata": {"labels": {"in": "no"}}})
        world.api.patch(WIDGETS, key(world, "a"), {"spec": {"size": 3}})
        world.api.patch(WIDGETS, key(world, "b"), {"metadata": {"labels": {"in": "yes"}}})
        world.api.delete(WIDGETS, key(world, "a"))
        world.api.delete(WIDGETS, key(world, "b"))
        assert watcher.take(5) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "b"), ("DELETED", "b")]
    left = watcher.objects()[2]
    assert version(left) == version(out)
    assert left["metadata"]["labels"] == {"in": "yes"}  # the last state that matched, at the version that ended it


def test_a_watch_can_select_by_field(world):
    start = world.api.list(RAW_PODS, world.namespace).resource_version
    with world.watch(RAW_PODS, resource_version=start, fields=f"spec.nodeName={NODE}") as watcher:
        for name in "ab":
            world.api.create(RAW_PODS, pod(name), world.namespace)
        world.bind(key(world, "b"))
        world.api.delete(RAW_PODS, key(world, "b"), grace=0)
        assert watcher.take(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]


def test_malformed_selectors_are_refused_at_the_door(world):
    assert refusal(world.api.watch, WIDGETS, world.namespace, labels="a in") == BAD_REQUEST
    assert refusal(world.api.watch, WIDGETS, world.namespace, fields="spec.size=1") == BAD_REQUEST


# ------------------------------------------------------------------------------------------------ bookmarks and watch-lists


def test_a_watch_that_ends_says_how_far_it_came(world, now):
    watcher = world.watch(WIDGETS, resource_version=now, timeout=world.seconds(6))
    elsewhere = world.api.create(WIDGETS, {**widget(), "metadata": {"generateName": "elsewhere-"}}, "kube-system").object
    assert watcher.end() is None
    world.api.delete(WIDGETS, Key("kube-system", elsewhere["metadata"]["name"]))
    bookmarks = [event for event in watcher.events if event.type == "BOOKMARK"]
    assert bookmarks
    assert all(event.object is None for event in bookmarks)
    assert int(watcher.watch.resource_version) >= version(elsewhere)  # told, although nothing happened here
    assert watcher.watch.resource_version == bookmarks[-1].resource_version


def test_bookmarks_can_be_declined(world, now):
    watcher = world.watch(WIDGETS, resource_version=now, timeout=world.seconds(2), bookmarks=False)
    assert watcher.end() is None
    assert watcher.events == []


def test_a_watch_list_is_the_present_state_and_then_the_future(world):
    for name in "ab":
        last = make(world, name)
    with world.watch(WIDGETS, initial_events=True) as watcher:
        eventually(lambda: [e for e in watcher.events if e.initial_events_end])
        assert sorted(watcher.seen()) == [("ADDED", "a"), ("ADDED", "b")]
        end = watcher.events[-1]
        assert end.type == "BOOKMARK"
        assert int(end.resource_version) >= version(last)
        make(world, "c")
        assert watcher.take(3)[2] == ("ADDED", "c")


def test_an_empty_watch_list_ends_at_once(world):
    with world.watch(WIDGETS, initial_events=True) as watcher:
        eventually(lambda: watcher.events)
        assert watcher.events[0].initial_events_end


# ------------------------------------------------------------------------------------------------ history and ends


def broken(world, resource, **options):
    """The error of a watch, whether it is refused at the door or by its first event."""
    try:
        return world.watch(resource, **options).end()
    except ApiError as error:
        return error


def test_a_version_that_history_has_forgotten_is_gone(world):
    """Events are the kind that a real server watches in its store directly: there a compaction is felt at once."""
    body = {"involvedObject": {"kind": "Widget", "namespace": world.namespace, "name": "w"}, "reason": "Testing", "type": "Normal"}
    old = world.api.create(EVENTS, {"metadata": {"name": "e1"}, **body}, world.namespace).object
    for name in ("e2", "e3"):
        newer = world.api.create(EVENTS, {"metadata": {"name": name}, **body}, world.namespace).object
    world.compact()
    error = broken(world, EVENTS, resource_version=str(version(old)))
    assert (error.code, error.reason, error.gone) == (410, "Expired", True)
    with world.watch(EVENTS, resource_version=str(version(newer) - 1)) as watcher:  # what was not forgotten is still told
        assert watcher.take(1) == [("ADDED", "e3")]


def test_a_version_before_all_history_is_gone(world):
    make(world, "a")
    world.compact()
    assert broken(world, WIDGETS, resource_version="1").gone


def test_a_version_from_the_future_is_silence(world, now):
    watcher = world.watch(WIDGETS, resource_version=str(int(now) + 1_000_000), timeout=world.seconds(2), bookmarks=False)
    make(world, "a")
    assert watcher.end() is None
    assert watcher.events == []


def test_a_watch_ends_quietly_at_its_time(world, now):
    watcher = world.watch(WIDGETS, resource_version=now, timeout=world.seconds(1))
    assert watcher.end() is None


def test_a_watch_can_be_closed_by_another_thread(world, now):
    stream = world.api.watch(WIDGETS, world.namespace, resource_version=now)
    make(world, "a")
    events = iter(stream)
    assert next(events).type == "ADDED"
    threading.Timer(0.1, stream.close).start()
    assert [event for event in events if event.type != "BOOKMARK"] == []


def test_many_watch_the_same_and_see_the_same(world, now):
    watchers = [world.watch(WIDGETS, resource_version=now) for _ in range(3)]
    for n in range(20):
        make(world, f"w{n:02}")
    seen = [watcher.take(20) for watcher in watchers]
    assert seen[0] == seen[1] == seen[2] == [("ADDED", f"w{n:02}") for n in range(20)]
    for watcher in watchers:
        watcher.close()
