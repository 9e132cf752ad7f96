"""Caches that are bounded by the bytes they take, and what jobs of any shape take in them."""

import gc
import json
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from resource import getpagesize
from sys import getsizeof
from threading import Thread

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.names import COMPONENT, COMPONENT_LABEL, JOB_LABEL
from genericjob.api.spec import parse
from genericjob.jobs import resource
from genericjob.jobs.bodies import Bodies, bare_name
from genericjob.jobs.departures import Departures
from genericjob.jobs.resource import JOBS, MOST, PODS, SERVICES, Reader, StoredJob
from genericjob.reconcile.codec import codec
from genericjob.reconcile.objects import Condition, Container
from genericjob.reconcile.process import share_malloc_arenas
from genericjob.reconcile.weighed import HEAVY, Weighed, decoded_weight, one_at_a_time
from unit.jobs import NOW, a_pod

MEBIBYTE = 2**20


@pytest.fixture
def cache():
    return Weighed(10)


def kept(cache, keys="abcdef"):
    """The keys that are kept, without using any of them."""
    return [key for key in keys if key in cache._entries]


def test_the_least_recently_used_go_until_the_rest_fits(cache):
    for key in "abc":
        cache.put(key, key.upper(), 3)
    assert cache.get("a") == "A"
    cache.put("d", "D", 4)
    assert kept(cache) == ["a", "c", "d"]
    assert cache.weight == 10
    cache.put("e", "E", 8)
    assert kept(cache) == ["e"]
    assert cache.get("a") is None


def test_a_value_takes_the_place_and_the_weight_of_the_one_before(cache):
    for weight in (9, 2, 5):
        cache.put("a", weight, weight)
    cache.put("b", 0, 5)
    assert (cache.get("a"), cache.weight, len(cache)) == (5, 10, 2)


def test_what_is_too_heavy_is_not_kept_and_costs_nobody_his_place(cache):
    cache.put("a", "A", 5)
    cache.put("b", "B", 5)
    cache.put("b", "heavy", 11)
    assert kept(cache) == ["a"]
    assert cache.weight == 5


def test_what_is_forgotten_weighs_nothing(cache):
    cache.put("a", "A", 5)
    cache.forget("a")
    cache.forget("a")
    assert (cache.weight, len(cache)) == (0, 0)


# ------------------------------------------------------------------------------------------------ what JSON weighs

TEXTS = st.text(max_size=50) | st.text("ab\U0001f600", min_size=1, max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(TEXTS, inner, max_size=20),
    max_leaves=100,
)


def taken(value):
    """The bytes of a decoded value, with the header that the garbage collector adds to containers."""
    if isinstance(value, dict):
        return 16 + getsizeof(value) + sum(taken(key) + taken(found) for key, found in value.items())
    if isinstance(value, list):
        return 16 + getsizeof(value) + sum(map(taken, value))
    return getsizeof(value)


@given(VALUES)
def test_a_text_weighs_at_least_what_its_values_take(value):
    text = msgspec.json.encode(value)
    assert decoded_weight(text) + 100 >= taken(msgspec.json.decode(text))


# ------------------------------------------------------------------------------------------------ jobs


def stored(spec, uid):
    return StoredJob("team", "train", uid, "1", 1, {}, {}, "", (), NOW, None, json.dumps(spec).encode(), b"")


def a_type(replicas, type="worker", **container):
    containers = [{"name": "main", "image": "app:1", **container}]
    return {"type": type, "replicas": replicas, "template": {"spec": {"containers": containers}}}


def ten_types_and_rules(number):
    types = [f"t{n}" for n in range(10)]
    rules = [{type: [rule % 1000] for type in types} for rule in range(number)]
    return {"replicaSpecs": [a_type(1000, type) for type in types], "failureRules": rules}


SPECS = {
    "paused": ({"replicaSpecs": [a_type(10_000)], "suspend": True}, 60),
    "rules over ten types": (ten_types_and_rules(10_000), 3),
    "rules of one rank": ({"replicaSpecs": [a_type(10_000)], "successRules": [{"worker": [n]} for n in range(10_000)]}, 8),
    "rules of all ranks": ({"replicaSpecs": [a_type(10_000)], "failureRules": [{"worker": ["all"]}, {"worker": ["any"]}] * 5_000}, 8),
    "rules of ranges": (
        {"replicaSpecs": [a_type(10_000)], "failureRules": [{"worker": [f"{n}-{9_000 + n}" for n in range(300, 800)]}] * 40},
        8,
    ),
    "brackets": ({"replicaSpecs": [{"type": "a", "template": {"x": [[]] * 200_000}}]}, 4),
    "small": ({"replicaSpecs": [a_type(4, args=["--rank=$(rank)"])], "successRules": [{"worker": [0]}]}, 3_000),
}


@contextmanager
def measured():
    gc.collect()
    tracemalloc.start()
    found = {}
    try:
        yield found
        gc.collect()
        found["bytes"] = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def alone():
    """`alone(function, …)`: call it in a process of its own, because threads that other tests left behind allocate, too."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        yield lambda function, *args: process.submit(function, *args).result()


def growth_by_many(shape):
    """Return the bytes that a reader takes after many jobs of a shape, and its weight."""
    spec, number = SPECS[shape]
    reader, job = Reader(), stored(spec, "uid-0")
    reader.read(job)
    with measured() as taken:
        for n in range(number):
            reader.read(msgspec.structs.replace(job, uid=f"uid-{n}"))
    return taken["bytes"], reader.weight


@pytest.mark.parametrize("shape", SPECS)
def test_jobs_of_any_shape_and_number_take_a_bounded_part_of_memory(alone, shape):
    taken, weight = alone(growth_by_many, shape)
    assert taken < MOST
    assert weight <= MOST


def growth_by_one(shape):
    """Return the bytes that a reader takes for one job of a shape, with the text that it keeps, and its weight."""
    reader = Reader(most=100 * MEBIBYTE)
    reader.read(stored(SPECS[shape][0], "another"))  # what is loaded once and shared
    reader.forget("another")
    with measured() as taken:
        reader.read(stored(SPECS[shape][0], "uid"))
    return taken["bytes"], reader.weight


@pytest.mark.parametrize("shape", SPECS)
def test_a_job_takes_no_more_than_it_weighs(alone, shape):
    taken, weight = alone(growth_by_one, shape)
    assert taken <= weight < 3 * taken + 10_000


def peak_of_reading(shape):
    """Return the bytes that reading a job of a shape takes while it lasts, and those of its text."""
    spec, _ = SPECS[shape]
    Reader().read(stored(spec, "another"))
    job = stored(spec, "uid")
    with measured() as taken:
        Reader().read(job)
        taken["peak"] = tracemalloc.get_traced_memory()[1]
    return taken["peak"], len(job.spec)


def test_a_job_is_read_without_decoding_its_templates(alone):
    peak, text = alone(peak_of_reading, "brackets")
    assert peak < 4 * text  # decoded it takes thirty times its text


def occupied():
    """Whether a heavy value is being decoded."""
    passage = one_at_a_time(HEAVY + 1)
    free = passage.acquire(blocking=False)
    if free:
        passage.release()
    return not free


@pytest.mark.parametrize(("shape", "heavy"), [("brackets", True), ("small", False)])
def test_heavy_jobs_are_read_and_compiled_one_at_a_time_and_light_ones_beside_them(monkeypatch, shape, heavy):
    found = []

    def noted(spec):
        found.append(occupied())
        return parse(spec)

    def new_id():
        found.append(occupied())
        return "marker"

    monkeypatch.setattr(resource, "parse", noted)
    job = Reader().read(stored(SPECS[shape][0], "uid"))
    Bodies(pods=PODS, host=bare_name, new_id=new_id).of(job, resumed=False)
    assert {*found} == {heavy}
    assert not occupied()


def growth_by_bodies(argument):
    """Return the bytes that the compiled bodies of a job with an argument take, and their weight."""
    job = Reader().read(stored({"replicaSpecs": [a_type(2, args=[argument])], "service": {"ports": [{"port": 1}]}}, "uid"))
    Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker").of(job, resumed=False)
    bodies = Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker")
    with measured() as taken:
        bodies.of(job, resumed=False)
    return taken["bytes"], bodies.of(job, resumed=False).weight


@pytest.mark.parametrize("argument", ["$(rank)" * 10_000, "$(rank) of many " * 5_000, "$(rank)x" * 10_000, "x" * 100_000, "$(rank)"])
def test_compiled_bodies_take_no_more_than_they_weigh(alone, argument):
    taken, weight = alone(growth_by_bodies, argument)
    assert taken <= weight < MEBIBYTE


def growth_by_bodies_of_many():
    """Return the bytes that the compiled bodies of many jobs take."""
    reader = Reader()
    jobs = [reader.read(stored({"replicaSpecs": [a_type(2, args=["$(rank)" * 5_000])]}, f"uid-{n}")) for n in range(12)]
    bodies = Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker", most=MEBIBYTE)
    with measured() as taken:
        for job in jobs:
            bodies.of(job, resumed=False)
    return taken["bytes"]


def test_compiled_bodies_of_many_jobs_take_a_bounded_part_of_memory(alone):
    assert alone(growth_by_bodies_of_many) < MEBIBYTE


def resident_after_bodies_of_many_holes(threads):
    """Return the bytes by which a process has grown after each of so many threads compiled a large body."""
    share_malloc_arenas()

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

    spec = {"replicaSpecs": [a_type(2, args=["".join(f"$(rank){n:05}" for n in range(100_000))])]}
    reader, bodies, kept = Reader(), Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker", most=0), []
    before = resident()

    def compile(number):
        kept.append(bodies.of(reader.read(stored(spec, f"uid-{number}")), resumed=False))

    started = [Thread(target=compile, args=(number,)) for number in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return resident() - before


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_threads_have_used_does_not_stay_with_each_of_them(alone):
    assert alone(resident_after_bodies_of_many_holes, 24) < 320 * MEBIBYTE


# ------------------------------------------------------------------------------------------------ objects in caches


def departed(shape, number):
    """A deleted pod that has no part in common with others."""
    containers, conditions, message = shape
    time = NOW + timedelta(seconds=number)
    return a_pod(
        f"train-worker-{number}",
        "Failed",
        uid=f"0b5f36ad-4d3a-4bd2-9a4f-{number:012}",
        resource_version=f"1000{number}",
        labels={JOB_LABEL: "train", COMPONENT_LABEL: COMPONENT},
        created=time,
        containers=tuple(Container("main", "terminated", "Error", f"{number} {n} {message}", 1, 0, time) for n in range(containers)),
        conditions=tuple(Condition("Ready", "False", "", f"{number} {n} {message}") for n in range(conditions)),
    )


def growth_by_departures(shape):
    """Return the bytes that deleted pods of a shape take, and their weight."""
    departures = Departures()
    departed(shape, 0)  # what is loaded once
    with measured() as taken:
        for number in range(200):
            departures.note(departed(shape, 10_000 + number), None)
    return taken["bytes"], departures.weight


@pytest.mark.parametrize("shape", [(1, 5, ""), (100, 5, ""), (1, 5, "\U0001f600" * 240), (100, 0, "x" * 240)])
def test_deleted_pods_take_no_more_than_they_weigh(alone, shape):
    taken, weight = alone(growth_by_departures, shape)
    assert taken <= weight < 5 * taken


LABELS = {JOB_LABEL: "train", COMPONENT_LABEL: COMPONENT} | {f"example.com/{n:050}": "x" * 63 for n in range(4_000)}
OBJECTS = {each.plural: each for each in (JOBS, PODS, SERVICES)}


def growth_by_labels(plural):
    """Return the bytes that an object with thousands of labels takes once it is decoded, and the labels that are kept."""
    meta = {"namespace": "team", "uid": "uid", "resourceVersion": "1", "labels": LABELS, "annotations": LABELS}
    one, other = (msgspec.json.encode({"metadata": {**meta, "name": name}}) for name in ("other", "train-worker-0"))
    first = codec(OBJECTS[plural]).one(one)  # what is loaded once and shared
    with measured() as taken:
        found = codec(OBJECTS[plural]).one(other)
    assert first.labels == found.labels
    return taken["bytes"], dict(found.labels)


@pytest.mark.parametrize(
    ("plural", "kept"),
    [("genericjobs", {}), *((plural, {JOB_LABEL: "train", COMPONENT_LABEL: COMPONENT}) for plural in ("pods", "services"))],
)
def test_labels_that_are_not_read_take_no_memory(alone, plural, kept):
    taken, labels = alone(growth_by_labels, plural)
    assert taken < 2_000
    assert labels == kept
