"""Read your writes."""

import threading

import pytest

from genericjob.reconcile.own_writes import FIRST_SWEEP, OwnWrites
from genericjob.reconcile.resources import PODS, RAW_PODS, SECRETS, SERVICES


class Cache:
    """How far a cache has come, by namespace."""

    def __init__(self):
        self.versions = {}

    def reached(self, namespace, version):
        return int(self.versions.get(namespace, 0)) >= int(version)


@pytest.fixture
def pods():
    return Cache()


@pytest.fixture
def services():
    return Cache()


@pytest.fixture
def writes(pods, services):
    return OwnWrites({PODS: pods.reached, SERVICES: services.reached})


def test_what_was_never_written_is_visible(writes):
    assert writes.visible("job")


def test_a_write_is_visible_once_the_cache_has_come_so_far(writes, pods):
    writes.record("job", PODS, "team", "12")
    assert not writes.visible("job")
    pods.versions["team"] = "11"
    assert not writes.visible("job")
    pods.versions["team"] = "12"
    assert writes.visible("job")


def test_the_highest_version_counts_not_the_last_answer(writes, pods):
    for version in ("9", "101", "100"):
        writes.record("job", PODS, "team", version)
    pods.versions["team"] = "100"
    assert not writes.visible("job")
    pods.versions["team"] = "101"
    assert writes.visible("job")


def test_every_resource_and_namespace_has_to_be_visible(writes, pods, services):
    writes.record("job", PODS, "team", "5")
    writes.record("job", PODS, "other", "6")
    writes.record("job", SERVICES, "team", "7")
    pods.versions = {"team": "5", "other": "6"}
    assert not writes.visible("job")
    services.versions["team"] = "7"
    pods.versions = {}  # what was seen once is not asked about again
    assert writes.visible("job")


def test_owners_do_not_wait_for_each_other(writes):
    writes.record("one", PODS, "team", "5")
    assert writes.visible("other")
    assert not writes.visible("one")


def test_a_forgotten_owner_waits_for_nothing(writes):
    writes.record("job", PODS, "team", "5")
    writes.forget("job")
    writes.forget("job")
    assert writes.visible("job")
    assert len(writes) == 0


def test_what_is_visible_takes_no_memory(writes, pods):
    writes.record("job", PODS, "team", "5")
    pods.versions["team"] = "5"
    writes.visible("job")
    assert len(writes) == 0


def test_a_kind_that_nobody_caches_is_not_waited_for(writes):
    writes.record("job", SECRETS, "team", "5")
    assert writes.visible("job")
    assert len(writes) == 0


def test_a_write_without_a_version_is_not_waited_for(writes):
    writes.record("job", PODS, "team", "")
    assert writes.visible("job")
    assert len(writes) == 0


def test_two_ways_to_read_a_kind_are_one_kind(writes):
    writes.record("job", RAW_PODS, "team", "5")
    assert not writes.visible("job")


def test_a_write_during_the_question_is_not_lost(pods):
    def reached(namespace, version):
        if version == "5":
            writes.record("job", PODS, "team", "6")
        return version == "5"

    writes = OwnWrites({PODS: reached})
    writes.record("job", PODS, "team", "5")
    assert writes.visible("job")  # as of the moment of asking
    assert not writes.visible("job")


def test_owners_that_nobody_asks_about_are_forgotten_in_time(writes, pods):
    pods.versions["team"] = str(FIRST_SWEEP)
    for n in range(1, 3 * FIRST_SWEEP):
        writes.record(f"job-{n}", PODS, "team", str(n))
    assert len(writes) <= 2 * FIRST_SWEEP
    assert all(not writes.visible(f"job-{n}") for n in range(FIRST_SWEEP + 1, 3 * FIRST_SWEEP))  # and no other
    pods.versions["team"] = str(100 * FIRST_SWEEP)
    for n in range(1, 20 * FIRST_SWEEP):
        writes.record(f"later-{n}", PODS, "team", str(n))
    assert len(writes) <= 4 * FIRST_SWEEP + 1


def test_threads_may_share_it(writes, pods):
    def write(owner):
        for n in range(1, 500):
            writes.record(owner, PODS, "team", str(n))
            writes.visible(owner)

    threads = [threading.Thread(target=write, args=(f"job-{n % 2}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pods.versions["team"] = "498"
    assert not writes.visible("job-0")
    pods.versions["team"] = "499"
    assert writes.visible("job-0")
    assert writes.visible("job-1")
    assert len(writes) == 0
