"""The informer, with its own threads, on the API in memory."""

import logging
import queue
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.api import Page
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.reflector import Timings
from genericjob.reconcile.resources import CONFIG_MAPS, NAMESPACES, Key
from unit.walking import MAPS

AWAY = ApiError(NO_ANSWER, "Unreachable", "nobody there")
QUICK = Timings(backoff=0.002, longest_backoff=0.01, shortest_watch=0.0, hurried_watch=0.05)
LONG = 30.0
"""Seconds that something may take that is sure to come."""


@pytest.fixture
def memory():
    memory = MemoryApi()
    for name in ("one", "two", "three"):
        memory.create(NAMESPACES, {"metadata": {"name": name}})
    return memory


@pytest.fixture
def api(memory):
    return FaultyApi(memory)


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def informer(api, metrics):
    """A maker of informers; they end with the test."""
    made = []

    def make(*namespaces, timings=QUICK, **options):
        options.setdefault("indexes", {"color": lambda found: found.labels.get("color", "")})
        options.setdefault("primitives", System())
        one = Informer(api, MAPS, namespaces=namespaces or ("",), metrics=metrics, timings=timings, **options)
        made.append(one)
        return one

    yield make
    for one in made:
        assert one.stop(LONG)


class Told:
    """What a handler hears, and what follows from that."""

    def __init__(self, informer):
        self.changes, self.content, self.nonsense = queue.Queue(), {}, []
        informer.on_change(self.hear)

    def hear(self, change):
        found = change.new or change.old
        key = Key(found.namespace, found.name)
        before = self.content.pop(key, None)
        if (before and before.uid) != (change.old and change.old.uid) or before == change.new:
            self.nonsense.append(change)  # it came twice, or something before it was lost
        if change.new:
            self.content[key] = change.new
        self.changes.put(change)

    def names(self, count):
        found = [self.changes.get(timeout=LONG) for _ in range(count)]
        return [(change.new or change.old).name for change in found]


def put(api, name, namespace="one", **labels):
    return api.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}}, namespace).object["metadata"]


@contextmanager
def beside(do):
    """Do something in another thread; its result is ready after the block."""
    result = []
    thread = threading.Thread(target=lambda: result.append(do()), daemon=True)
    thread.start()
    yield result
    thread.join(LONG)
    assert result


# ------------------------------------------------------------------------------------------------ looking


def test_one_cache_of_several_namespaces(api, informer):
    for namespace in ("one", "two", "three"):
        put(api, "m", namespace, color="red")
    cache = informer("one", "two")
    told = Told(cache)
    cache.start()
    assert cache.wait_synced(LONG)
    put(api, "late", "two", color="red")
    put(api, "unseen", "three", color="red")
    assert sorted(told.names(3)) == ["late", "m", "m"]
    assert cache.get(Key("one", "m")).namespace == "one"
    assert cache.get(Key("three", "m")) is None
    assert [found.name for found in cache.by("color", "red", namespace="one")] == ["m"]
    assert sorted(found.name for found in cache.by("color", "red", namespace="two")) == ["late", "m"]
    assert list(cache.by("color", "red", namespace="three")) == []
    assert sorted((found.namespace, found.name) for found in cache.values()) == [("one", "m"), ("two", "late"), ("two", "m")]


def test_the_whole_cluster_is_one_scope_whatever_else_is_named(api, informer, metrics):
    put(api, "m", "three", color="red")
    cache = informer("one", "")
    cache.start()
    assert cache.wait_synced(LONG)
    assert cache.get(Key("three", "m"))
    assert [found.name for found in cache.by("color", "red", namespace="three")] == ["m"]
    assert metrics.registry.get_sample_value("reflector_list_duration_seconds_count", {"resource": "configmaps"}) == 1


def test_only_what_carries_the_labels_is_seen(api, informer):
    put(api, "ours", color="red")
    put(api, "theirs", color="blue")
    cache = informer(labels="color=red")
    cache.start()
    assert cache.wait_synced(LONG)
    assert [found.name for found in cache.values()] == ["ours"]


def test_how_far_the_cache_has_come(api, informer):
    cache = informer("one", "two")
    assert cache.version("one") == ""
    assert not cache.reached("one", "1")
    assert cache.reached("three", "99999")  # nobody looks there, so nobody shall wait
    assert cache.version("three") == ""
    told = Told(cache)
    cache.start()
    assert cache.wait_synced(LONG)
    version = put(api, "m")["resourceVersion"]
    told.names(1)
    assert cache.reached("one", version)
    assert cache.version("one") == version
    assert not cache.reached("one", str(int(version) + 1))


# ------------------------------------------------------------------------------------------------ the first list


def test_it_is_synced_when_every_handler_has_seen_every_scope(api, informer):
    put(api, "a", "one")
    put(api, "b", "two")
    cache = informer("one", "two")
    go_on, reached = threading.Event(), threading.Event()

    def slow(change):
        if change.new.namespace == "two":
            reached.set()
            go_on.wait(LONG)

    cache.on_change(slow)
    told = Told(cache)
    cache.start()
    assert reached.wait(LONG)
    assert cache.get(Key("two", "b"))  # it is in the store,
    assert not cache.synced  # but not everybody knows
    assert not cache.wait_synced(0.01)
    go_on.set()
    assert cache.wait_synced(LONG)
    assert cache.synced
    assert all(change.initial for change in (told.changes.get_nowait(), told.changes.get_nowait()))


def test_waiting_for_a_server_that_is_away_ends_in_time_or_with_the_informer(api, informer):
    api.refuse(AWAY, "list", times=10**9)
    cache = informer(timings=Timings())
    cache.start()
    assert not cache.wait_synced(0.01)
    with beside(lambda: cache.wait_synced(600)) as result:
        assert cache.stop(LONG)
    assert result == [False]


def test_handlers_come_before_the_start(informer):
    cache = informer()
    cache.start()
    with pytest.raises(RuntimeError, match="before"):
        cache.on_change(print)


def test_a_handler_that_fails_is_logged_and_keeps_nobody_from_hearing(api, informer, caplog):
    def fail(change):
        raise LookupError("no such queue")

    cache = informer()
    cache.on_change(fail)
    told = Told(cache)
    cache.start()
    with caplog.at_level(logging.ERROR):
        put(api, "a")
        put(api, "b")
        assert told.names(2) == ["a", "b"]
    assert "no such queue" in caplog.text


# ------------------------------------------------------------------------------------------------ catching up


def test_catching_up_is_over_when_the_cache_has_everything(api, memory, informer):
    cache = informer("one", "two")
    cache.start()
    assert cache.wait_synced(LONG)
    memory.lag()  # the watches show nothing new
    put(api, "m", "two")
    assert cache.get(Key("two", "m")) is None
    assert cache.reach(cache.target(), LONG)
    assert cache.get(Key("two", "m"))


def test_a_quiet_cache_catches_up_without_a_list(api, informer, metrics):
    cache = informer("one")
    cache.start()
    assert cache.wait_synced(LONG)
    newest = put(api, "m", "two")["resourceVersion"]
    assert cache.reach(cache.target(), LONG)
    assert cache.reached("one", newest)
    assert metrics.registry.get_sample_value("reflector_list_duration_seconds_count", {"resource": "configmaps"}) == 1


def test_what_is_not_reached_in_time_is_not_claimed(api, memory, informer):
    cache = informer("one")
    cache.start()
    assert cache.wait_synced(LONG)
    api.refuse(AWAY, "watch", times=10**9)
    api.refuse(AWAY, "list", times=10**9, skip=1)  # the version is told, and then nothing
    memory.cut_watches()
    put(api, "m")
    assert not cache.reach(cache.target(), 0.05)


def test_a_target_that_the_server_does_not_tell_is_an_error(api, informer):
    cache = informer("one", "two")
    api.refuse(AWAY, "list", skip=1)
    with pytest.raises(ApiError, match="nobody there"):
        cache.target()
    api.list = lambda *args, **options: Page((), "")
    with pytest.raises(ApiError, match="without a version"):
        cache.target()


def test_a_cache_keeps_to_one_target_whatever_is_written_meanwhile_and_lists_once_for_it(api, memory, informer, metrics):
    cache = informer("one", timings=replace(QUICK, hurried_watch=0.01))
    cache.start()
    assert cache.wait_synced(LONG)
    memory.lag()  # a watch cache that tells no progress
    put(api, "elsewhere", "two")
    target = cache.target()
    listing, go_on = threading.Event(), threading.Event()
    list_now = api.list

    def slow(*args, **options):
        found = list_now(*args, **options)  # of the time when it was asked for
        listing.set()
        go_on.wait(LONG)
        return found

    api.list = slow
    assert not cache.reach(target, 0.01)
    assert listing.wait(LONG)
    for number in range(5):
        put(memory, f"later-{number}", "two")
        assert not cache.reach(target, 0.01)
    go_on.set()
    assert cache.reach(target, LONG)
    assert metrics.registry.get_sample_value("reflector_list_duration_seconds_count", {"resource": "configmaps"}) == 2


def test_a_target_that_the_server_has_lost_is_not_reachable_and_the_next_one_is_reached(api, informer):
    cache = informer("one", "two")
    cache.start()
    assert cache.wait_synced(LONG)
    target = {**cache.target(), "two": "999999"}  # as if the server's store had been restored from a backup
    assert cache.reachable(target)
    deadline = System().monotonic() + LONG
    while cache.reachable(target) and System().monotonic() < deadline:
        assert not cache.reach(target, 0.05)
    assert not cache.reachable(target)
    later = cache.target()
    assert cache.reach(later, LONG)
    assert cache.reachable(later)


def test_who_waits_for_a_target_is_released_by_the_end(api, memory, informer):
    cache = informer("one", timings=Timings())
    cache.start()
    assert cache.wait_synced(LONG)
    memory.lag()
    put(api, "m")
    with beside(lambda: cache.reach(cache.target(), 600)) as result:
        assert cache.stop(LONG)
    assert result == [False]


def test_a_thread_that_dies_is_counted_and_goes_on(api, informer, metrics, caplog):
    cache = informer("one")
    told = Told(cache)
    api.refuse(LookupError("a bug"), "list", "watch", times=3)
    with caplog.at_level(logging.ERROR):
        cache.start()
        assert cache.wait_synced(LONG)
        put(api, "a")
        assert told.names(1) == ["a"]
    assert "a bug" in caplog.text
    deaths = {"thread": "informer configmaps in one"}
    assert metrics.registry.get_sample_value("genericjob_thread_deaths_total", deaths) == 3


@pytest.mark.parametrize("watch_list", [False, True])
def test_cut_watches_refusals_and_a_forgetful_server_lose_nothing_and_repeat_nothing(api, memory, informer, watch_list):
    cache = informer("one", "two", watch_list=watch_list)
    told = Told(cache)
    cache.start()
    for n in range(400):
        namespace = ("one", "two")[n % 2]
        put(memory, f"m{n}", namespace)
        if n % 3 == 0:
            memory.patch(CONFIG_MAPS, Key(namespace, f"m{n}"), {"metadata": {"labels": {"n": str(n)}}})
        if n % 5 == 0:
            memory.delete(CONFIG_MAPS, Key(namespace, f"m{n}"))
            put(memory, f"m{n}", namespace)  # made again under its name
        if n % 7 == 0:
            memory.delete(CONFIG_MAPS, Key(namespace, f"m{n}"))
        if n % 40 == 0:
            memory.cut_watches()
        if n % 90 == 0:
            api.refuse(AWAY, "watch", times=2)
            memory.compact()
            memory.cut_watches()
    assert cache.reach(cache.target(), LONG)
    present = {(found.namespace, found.name): found for space in ("one", "two") for found in memory.list(MAPS, space).items}
    assert {(found.namespace, found.name): found for found in cache.values()} == present
    assert told.content == present
    assert told.nonsense == []


AGES = 1e6
"""Seconds, more than any test takes."""


class Clock(System):
    """A clock that the test puts forward."""

    ahead = 0.0

    def monotonic(self):
        return System.monotonic() + self.ahead


def test_a_cache_is_as_silent_as_its_scope_that_has_been_silent_for_longest(api, informer):
    clock = Clock()
    cache = informer("one", "two", primitives=clock)
    told = Told(cache)
    cache.start()
    assert cache.wait_synced(LONG)
    assert cache.silence() < AGES
    clock.ahead = AGES
    put(api, "m", "one")
    assert told.names(1) == ["m"]
    assert cache.silence() >= AGES
    assert cache.unexplained_silence() >= AGES


def test_a_namespace_that_the_server_cannot_serve_hides_no_dead_watch_of_another(api, informer):
    clock = Clock()
    cache = informer("one", "two", primitives=clock)
    cache.start()
    assert cache.wait_synced(LONG)
    clock.ahead = AGES

    def refuse(namespace):
        refused = queue.Queue()

        def hits(call):
            if hit := call.key.namespace == namespace:
                refused.put(call)
            return hit

        api.refuse(ApiError(503, "ServiceUnavailable", "no"), "watch", "list", when=hits, times=10**9)
        api.cut_watches()
        for _ in range(2):  # with the second one the first has been noted
            refused.get(timeout=LONG)

    refuse("one")
    assert cache.unexplained_silence() >= AGES
    refuse("two")
    assert cache.unexplained_silence() == 0.0
    assert cache.silence() >= AGES


def test_stopping_ends_every_thread(informer):
    cache = informer("one", "two", "three")
    cache.start()
    assert cache.wait_synced(LONG)
    assert cache.stop(LONG)
    assert not any(thread.alive() for thread in cache._threads)
