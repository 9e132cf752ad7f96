"""The informer on a real server that is killed, loses its memory, or has been quiet for long."""

import threading

import pytest

from genericjob.local import FaultyApi
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.reflector import Timings
from genericjob.reconcile.resources import CONFIG_MAPS, PODS, Key
from harness.clusters import PATIENCE, Namespaces, eventually

AWAY = ApiError(NO_ANSWER, "Unreachable", "the network is gone")
IMPATIENT = Timings(backoff=0.05, longest_backoff=0.2)


@pytest.fixture(scope="module")
def api(fragile):
    return fragile.api()


@pytest.fixture
def place(api):
    with Namespaces(api).fresh() as name:
        yield name


@pytest.fixture
def following(fragile):
    """A maker of caches of pods; they end with the test."""
    made = []

    def make(*namespaces, **options):
        made.append(Following(FaultyApi(fragile.api()), namespaces, **options))
        return made[-1]

    yield make
    for one in made:
        assert one.cache.stop(PATIENCE)


class Following:
    """A cache of pods, and a handler that believes nothing but what it is told."""

    def __init__(self, api, namespaces, **options):
        self.api, self.metrics = api, Metrics()
        self.told, self.content, self.nonsense = [], {}, []
        self.cache = Informer(
            api,
            PODS,
            namespaces=namespaces,
            indexes={"color": lambda pod: pod.labels.get("color", "")},
            primitives=System(),
            metrics=self.metrics,
            timings=IMPATIENT,
            **options,
        )
        self.cache.on_change(self.hear)
        self.cache.start()
        assert self.cache.wait_synced(PATIENCE)

    def hear(self, change):
        found = change.new or change.old
        before = self.content.pop((found.namespace, found.name), None)
        if (before and before.uid) != (change.old and change.old.uid) or before == change.new:
            self.nonsense.append(change)  # it came twice, or something before it was lost
        if change.new:
            self.content[found.namespace, found.name] = change.new
        self.told.append(change)

    def agrees_with(self, api, *namespaces):
        """Whether cache and handler have exactly what a list shows."""
        present = {(pod.namespace, pod.name): pod for space in namespaces for pod in api.list(PODS, space).items}
        cached = {(pod.namespace, pod.name): pod for pod in self.cache.values()}
        assert cached == self.content == present
        assert self.nonsense == []
        return True

    @property
    def lists(self):
        return self.metrics.registry.get_sample_value("reflector_list_duration_seconds_count", {"resource": "pods"})

    def ends(self, reason):
        return self.metrics.registry.get_sample_value("reflector_watches_total", {"resource": "pods", "reason": reason})


def pod(name, color="red"):
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name, "labels": {"color": color}}, "spec": {"schedulerName": "nobody", "containers": containers}}


def put(api, place, *names, **options):
    for name in names:
        api.create(PODS, pod(name, **options), place)


def remove(api, place, *names):
    for name in names:
        api.delete(PODS, Key(place, name), grace=0)


def paint(api, place, name, color):
    api.patch(PODS, Key(place, name), {"metadata": {"labels": {"color": color}}})


class Busy(threading.Thread):
    """Makes, changes and removes pods, whether the server is there or not."""

    def __init__(self, api, place):
        super().__init__(daemon=True)
        self.api, self.place, self.leaving = api, place, threading.Event()
        self.start()

    def run(self):
        n = 0
        while not self.leaving.is_set():
            n += 1
            try:
                put(self.api, self.place, f"p{n}")
                paint(self.api, self.place, f"p{n}", "blue")
                if n % 3:
                    remove(self.api, self.place, f"p{n}")
            except ApiError:
                self.leaving.wait(0.02)

    def leave(self):
        self.leaving.set()
        self.join(PATIENCE)


def test_pods_are_followed_while_the_server_dies_forgets_and_comes_back(fragile, api, place, following):
    """One cache looks on until the server dies; another was cut off some time before, and what it missed is forgotten."""
    with Namespaces(api).fresh() as other:
        looking, cut_off = following(place), following(other)
        put(api, other, "again", "changes", "goes", "stays")
        eventually(lambda: len(cut_off.told) >= 4)
        cut_off.told.clear()
        cut_off.api.refuse(AWAY, "watch", times=10**9)
        cut_off.api.cut_watches()
        eventually(lambda: cut_off.ends("error"))
        remove(api, other, "goes", "again")
        paint(api, other, "changes", "blue")
        put(api, other, "again", "comes")

        busy = Busy(api, place)
        eventually(lambda: len(looking.told) > 30)
        fragile.plane.compact()
        fragile.plane.kill("kube-apiserver")  # and with it a watch cache that remembers what etcd has forgotten
        fragile.plane.restart("kube-apiserver")
        cut_off.api.heal()
        so_far = len(looking.told)
        eventually(lambda: len(looking.told) > so_far + 30)
        busy.leave()

        assert looking.cache.reach(looking.cache.target(), PATIENCE)
        assert looking.agrees_with(api, place)
        eventually(lambda: cut_off.agrees_with(api, other))
        assert sorted(change.old.name for change in cut_off.told if change.tombstone) == ["again", "goes"]
        assert sorted(change.new.name for change in cut_off.told if change.new) == ["again", "changes", "comes"]
        assert (cut_off.lists, cut_off.ends("expired")) == (2, 1)


@pytest.mark.parametrize("watch_list", [False, True], ids=["list", "watch-list"])
def test_several_namespaces_are_one_cache(api, place, following, watch_list):
    with Namespaces(api).fresh() as second, Namespaces(api).fresh() as unseen:
        put(api, place, "a")
        informed = following(place, second, watch_list=watch_list)
        put(api, second, "a", "b", color="blue")
        put(api, unseen, "a")
        paint(api, place, "a", "blue")
        assert informed.cache.reach(informed.cache.target(), PATIENCE)
        assert informed.agrees_with(api, place, second)
        assert {pod.name for pod in informed.cache.by("color", "blue", namespace=second)} == {"a", "b"}
        assert [pod.namespace for pod in informed.cache.by("color", "blue", namespace=place)] == [place]
        assert informed.cache.get(Key(unseen, "a")) is None


def test_a_cache_that_has_caught_up_has_what_was_written_before(api, place, following):
    informed = following("")
    for n in range(10):
        put(api, place, f"p{n}")
        assert informed.cache.reach(informed.cache.target(), PATIENCE)
        assert informed.cache.get(Key(place, f"p{n}"))


def test_a_quiet_cache_catches_up_by_a_bookmark_and_needs_no_list(api, place, following):
    informed = following(place)
    newest = api.create(CONFIG_MAPS, {"metadata": {"name": "something-else"}}, place).object["metadata"]["resourceVersion"]
    assert not informed.cache.reached(place, newest)
    assert informed.cache.reach(informed.cache.target(), PATIENCE)
    assert informed.cache.reached(place, newest)
    assert informed.lists == 1
