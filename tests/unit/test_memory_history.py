"""What the API in memory keeps of the past: bounded in bytes as well as in number, however long a run lasts."""

import tracemalloc
from datetime import timedelta
from threading import Condition

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api import crd
from genericjob.local import MemoryApi
from genericjob.local.builtin import EVENT_LIFETIME
from genericjob.local.drafts import Draft, Meta
from genericjob.local.kinds import Kind
from genericjob.local.store import Store
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, Key
from harness.definitions import GENERIC_JOBS

MEGABYTE = 1_000_000
JOB = {
    "apiVersion": GENERIC_JOBS.api_version,
    "kind": GENERIC_JOBS.kind,
    "metadata": {"name": "train"},
    "spec": {"replicaSpecs": [{"type": "worker", "template": {}}]},
}
KEY = Key("default", "train")
THEN = "2026-01-01T00:00:00Z"


def write_status(api, number, size=200_000):
    condition = {"type": "Running", "status": "True", "reason": str(number), "message": "x" * size, "lastTransitionTime": THEN}
    api.patch(GENERIC_JOBS, KEY, {"status": {"conditions": [condition]}}, subresource="status")


@pytest.fixture
def jobs():
    api = MemoryApi(history_bytes=MEGABYTE)
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    api.create(GENERIC_JOBS, JOB, "default")
    return api


# ------------------------------------------------------------------------------------------------ bytes


def test_large_statuses_take_a_bounded_amount_of_memory(jobs):
    tracemalloc.start()
    try:
        write_status(jobs, 0)
        tracemalloc.reset_peak()
        for number in range(150):  # 30 MB
            write_status(jobs, number)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * MEGABYTE, "twice the limit, and what one write needs"


def test_a_watch_that_was_left_behind_by_bytes_is_closed_and_its_version_is_gone(jobs):
    version = jobs.resource_version
    slow = jobs.watch(GENERIC_JOBS, "default", resource_version=version)
    for number in range(20):
        write_status(jobs, number)
    assert list(slow.ready()) == []
    with pytest.raises(ApiError) as caught:
        list(jobs.watch(GENERIC_JOBS, "default", resource_version=version))
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    with pytest.raises(ApiError) as caught:
        jobs.list(GENERIC_JOBS, limit=1, resource_version=version)
    assert caught.value.gone


def test_a_watch_that_keeps_up_sees_every_large_change(jobs):
    watch = jobs.watch(GENERIC_JOBS, "default", resource_version=jobs.resource_version)
    seen = []
    for number in range(30):
        write_status(jobs, number)
        seen += [event.object["status"]["conditions"][0]["reason"] for event in watch.ready()]
    assert seen == list(map(str, range(30)))


def test_the_limit_of_one_kind_is_its_own(jobs):
    version = jobs.resource_version
    watch = jobs.watch(CONFIG_MAPS, "default", resource_version=version)
    jobs.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
    for number in range(20):
        write_status(jobs, number)
    assert [event.object["metadata"]["name"] for event in watch.ready()] == ["a"]


KIND = Kind(group="", version="v1", plural="things", kind="Thing")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300)), max_size=60), st.integers(1, 20), st.integers(1, 2_000))
def test_the_log_has_the_newest_changes_within_both_limits(writes, history, size):
    store = Store(history=history, history_bytes=size, condition=Condition)
    store.add([KIND], "v1")
    table = store.tables[KIND.place]
    for name, length in writes:
        changed = store.put(table, Key("n", name), Draft(Meta(name=name, namespace="n", uid=name), {"data": "x" * length}))
        assert table.log_bytes == sum(len(change.now.data) for change in table.log)
        assert table.log[-1].now is changed
        assert len(table.log) < 2 * history or history == 1
        assert table.log_bytes < 2 * size + len(changed.data)
    versions = [change.version for change in table.log]
    assert versions == list(range(table.log_begins + 1, store.version + 1))


# ------------------------------------------------------------------------------------------------ events


def an_event(name):
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal", "count": 1}


def names(api):
    return [each["metadata"]["name"] for each in api.list(EVENTS, "default").items]


def test_an_event_expires_an_hour_after_it_was_last_written(api, clock):
    api.create(EVENTS, an_event("first"), "default")
    api.create(EVENTS, an_event("second"), "default")
    clock.moment += EVENT_LIFETIME - timedelta(seconds=1)
    api.patch(EVENTS, Key("default", "first"), {"count": 2})
    assert names(api) == ["first", "second"]
    clock.moment += timedelta(seconds=1)
    assert names(api) == ["first"]
    with pytest.raises(ApiError, match="not found"):
        api.get(EVENTS, Key("default", "second"))
    clock.moment += EVENT_LIFETIME
    assert names(api) == []


def test_the_end_of_an_event_is_seen_by_watches(api, clock):
    api.create(EVENTS, an_event("old"), "default")
    watch = api.watch(EVENTS, "default", resource_version=api.resource_version, timeout=7_200)
    clock.moment += EVENT_LIFETIME
    api.create(EVENTS, an_event("new"), "default")
    told = [(event.type, event.object["metadata"]["name"]) for event in watch.ready() if event.object]
    assert told == [("DELETED", "old"), ("ADDED", "new")]


def test_an_event_that_was_deleted_and_made_again_has_a_new_hour(api, clock):
    api.create(EVENTS, an_event("e"), "default")
    clock.moment += EVENT_LIFETIME / 2
    api.delete(EVENTS, Key("default", "e"))
    api.create(EVENTS, an_event("e"), "default")
    clock.moment += EVENT_LIFETIME / 2
    assert names(api) == ["e"]


def test_other_kinds_do_not_expire(api, clock):
    api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
    clock.moment += 100 * EVENT_LIFETIME
    assert [each["metadata"]["name"] for each in api.list(CONFIG_MAPS, "default").items] == ["a"]
