"""Watches in memory: bookmarks, ends, lags, and many threads at once."""

import threading
from contextlib import suppress
from datetime import timedelta

import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, Key


@pytest.fixture
def api(clock):
    return MemoryApi(now=clock, history=100)


def put(api, name, **labels):
    return api.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}}, "default").object


def told(watch):
    return [(event.type, event.object["metadata"]["name"] if event.object else "") for event in watch.ready()]


def test_a_watch_from_now_tells_what_follows(api):
    put(api, "before")
    watch = api.watch(CONFIG_MAPS, "default", resource_version=api.resource_version)
    put(api, "after")
    api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
    assert told(watch) == [("ADDED", "after")]
    assert told(watch) == []
    assert int(watch.resource_version) == int(api.resource_version) - 1


@pytest.mark.parametrize("options", [{}, {"resource_version": "0"}, {"initial_events": True}])
def test_a_watch_from_nothing_tells_the_present_first(api, options):
    put(api, "b")
    put(api, "a")
    watch = api.watch(CONFIG_MAPS, "default", **options)
    put(api, "c")
    events = list(watch.ready())
    assert [(e.type, e.initial_events_end) for e in events] == [("ADDED", False), ("ADDED", False), ("BOOKMARK", True), ("ADDED", False)]
    assert [e.object["metadata"]["name"] for e in events if e.object] == ["a", "b", "c"]


def test_a_selector_turns_changes_into_comings_and_goings(api):
    watch = api.watch(CONFIG_MAPS, "default", resource_version=api.resource_version, labels="x=1")
    put(api, "a", x="2")
    key = Key("default", "a")
    for value in ("1", "1", "2"):
        api.patch(CONFIG_MAPS, key, {"metadata": {"labels": {"x": value, "n": value}, "annotations": {"n": api.resource_version}}})
    api.delete(CONFIG_MAPS, key)
    events = list(watch.ready())
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[-1]
    assert gone.object["metadata"]["labels"] == {"x": "1", "n": "1"}
    assert gone.object["metadata"]["resourceVersion"] == gone.resource_version


def test_bookmarks_come_once_a_minute_when_asked_for_and_at_the_end(api, clock):
    watch = api.watch(CONFIG_MAPS, resource_version=api.resource_version, timeout=100)
    quiet = api.watch(CONFIG_MAPS, resource_version=api.resource_version, timeout=100, bookmarks=False)
    api.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, "default")
    assert told(watch) == [("ADDED", "x")]
    clock.moment += timedelta(seconds=61)
    assert told(watch) == [("BOOKMARK", "")]
    api.bookmark()
    assert told(watch) == [("BOOKMARK", "")]
    assert told(watch) == []
    clock.moment += timedelta(seconds=40)
    assert list(watch)[-1].type == "BOOKMARK"  # and then it ends, without anybody closing it
    assert watch.resource_version == api.resource_version
    assert [event.type for event in quiet] == ["ADDED"]


def test_what_history_has_forgotten_is_expired(api):
    old = api.resource_version
    put(api, "a")
    put(api, "b")
    api.compact()
    with pytest.raises(ApiError) as caught:
        list(api.watch(CONFIG_MAPS, resource_version=old).ready())
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_compaction_does_not_end_a_watch_that_has_told_everything(api):
    watch = api.watch(CONFIG_MAPS, resource_version=api.resource_version)
    put(api, "a")
    assert told(watch) == [("ADDED", "a")]
    for _ in range(3):
        api.create(SECRETS, {"metadata": {"generateName": "x-"}}, "default")
    api.compact()
    put(api, "b")
    assert told(watch) == [("ADDED", "b")]


def test_a_watch_that_is_too_slow_is_closed(api):
    watch = api.watch(CONFIG_MAPS, resource_version=api.resource_version)
    for n in range(250):
        put(api, f"c{n}")
    assert list(watch) == []
    with pytest.raises(ApiError) as caught:
        list(api.watch(CONFIG_MAPS, resource_version=watch.resource_version))
    assert caught.value.gone


def test_a_watch_of_the_future_is_silent_until_then(api):
    watch = api.watch(CONFIG_MAPS, resource_version=str(int(api.resource_version) + 2))
    assert told(watch) == []
    for name in "abc":
        put(api, name)
    assert told(watch) == [("ADDED", "c")]


def test_a_lag_holds_back_what_happens(api):
    watch = api.watch(CONFIG_MAPS, resource_version=api.resource_version)
    api.lag()
    put(api, "a")
    assert told(watch) == []
    api.catch_up()
    assert told(watch) == [("ADDED", "a")]


def test_cutting_ends_every_watch_quietly(api):
    watches = [api.watch(CONFIG_MAPS, resource_version=api.resource_version) for _ in range(3)]
    api.cut_watches()
    assert [list(watch) for watch in watches] == [[], [], []]
    assert told(api.watch(CONFIG_MAPS, resource_version=api.resource_version)) == []


def test_closing_from_another_thread_ends_a_watch_that_waits():
    api = MemoryApi()
    watch = api.watch(CONFIG_MAPS, resource_version=api.resource_version)
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(watch))
    reader.start()
    put(api, "a")
    watch.close()
    reader.join(10)
    assert not reader.is_alive()


class Reader(threading.Thread):
    """Watches until a last version was reached, from time to time anew, and remembers what it was told of each object."""

    def __init__(self, api, patient):
        super().__init__()
        self.api = api
        self.patient = patient
        self.version = api.resource_version
        self.last = ""
        self.told: dict[str, list[tuple[int, str]]] = {}

    def run(self):
        while self.version != self.last:
            watch = self.api.watch(CONFIG_MAPS, "default", resource_version=self.version)
            for event in watch if self.patient else watch.ready():
                if event.object:
                    meta = event.object["metadata"]
                    self.told.setdefault(meta["name"], []).append((int(meta["resourceVersion"]), event.type))
                if not self.patient and len(self.told) % 3 == 0:
                    break
            self.version = watch.resource_version


def write_a_lot(api, who):
    for n in range(60):
        key = Key("default", f"w{who}-{n % 5}")
        with suppress(ApiError):
            api.create(CONFIG_MAPS, {"metadata": {"name": key.name}}, "default")
        for step in range(3):
            api.patch(CONFIG_MAPS, key, {"data": {"step": f"{n}-{step}"}})
        if n % 7 == 0:
            api.delete(CONFIG_MAPS, key)


def is_a_life(told):
    """Versions grow, and an object is added exactly when it is not there."""
    versions = [version for version, _ in told]
    alive = [False, *(kind != "DELETED" for _, kind in told)]
    return versions == sorted(set(versions)) and all((kind == "ADDED") != there for (_, kind), there in zip(told, alive, strict=False))


def test_threads_lose_nothing_and_see_each_object_in_order():
    api = MemoryApi()
    readers = [Reader(api, patient=n % 2 == 0) for n in range(4)]
    writers = [threading.Thread(target=write_a_lot, args=(api, n)) for n in range(4)]
    for thread in (*readers, *writers):
        thread.start()
    for writer in writers:
        writer.join(60)
    for reader in readers:
        reader.last = api.resource_version
    while any(reader.is_alive() for reader in readers):
        api.cut_watches()
        readers[0].join(0.01)
    assert all(reader.told == readers[0].told for reader in readers)
    assert all(is_a_life(told) for told in readers[0].told.values())
    present = {item["metadata"]["name"] for item in api.list(CONFIG_MAPS, "default").items}
    assert present == {name for name, told in readers[0].told.items() if told[-1][1] != "DELETED"}


def test_a_waiting_watch_looks_at_a_clock_that_was_moved(api, clock):
    watch = api.watch(CONFIG_MAPS, "default", resource_version=api.resource_version, timeout=60, bookmarks=False)
    ended = threading.Event()

    def read():
        list(watch)
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    assert not ended.wait(0.05)
    clock.moment += timedelta(seconds=61)
    api.tick()
    assert ended.wait(10)
