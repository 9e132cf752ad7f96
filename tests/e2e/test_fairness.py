"""How long a small job waits for its pod beside each abuse that the contract names (clause 8).

The waits are read from the server's audit log: from the answer to the job's creation to the answer to that of its pod. They are recorded
and printed (`make fairness`), not asserted; what is asserted is that the small job is served while the abuse goes on. The simulation
asserts the times (`tests/sim/test_fairness.py`), on its virtual clock.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from statistics import median
from threading import Event

import msgspec
import pytest

from e2e.apart import apart
from e2e.jobs import Job, a_job, counts, replicas
from genericjob.reconcile.api import pages
from genericjob.reconcile.http import MERGE_PATCH
from genericjob.reconcile.resources import RAW_PODS, Key
from genericjob.reconcile.resources import partial as partial_metadata
from harness.clusters import eventually
from harness.controllers import USER
from harness.definitions import GENERIC_JOBS
from harness.webhook import slow_admission

JOBS, RANKS = 12, 1_000
ADMISSION_S = 0.25
PAUSED, PAUSED_RANKS = 300, 10_000
NEIGHBOURS = 5
MEBIBYTE = 1 << 20
OBJECT = 3 * MEBIBYTE // 2
"""What the store takes at most."""
WIDE = b"[" + b",".join([b"[]"] * 480_000) + b"]"
"""1.4 MB of JSON, no deeper than any template, that take thirty times as much once they are decoded."""
LIMIT = 512 * MEBIBYTE
"""Of the controller's memory (`manifests/deployment.yaml`)."""
POD_NAMES = partial_metadata("", "v1", "pods", "Pod")


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "fairness") as world:
        yield world


@pytest.fixture(scope="module")
def leader(world, tmp_path_factory):
    with world.contenders(tmp_path_factory.mktemp("controller"), number=1) as (leader,):
        yield leader


@pytest.fixture(scope="module")
def quiet(world, leader):
    """The seconds that a small job waits beside nothing at all."""
    return median(world.neighbour().waited for _ in range(NEIGHBOURS))


# ------------------------------------------------------------------------------------------------ a restart

# BEFORE THE OTHERS: here the test starts the controllers, and none of the module's leads yet.


def test_a_restart_beside_jobs_with_wide_templates_takes_little_memory(world, tmp_path, record_property):
    namespace = world.namespace()
    for number in range(JOBS):
        body = a_job(f"wide-{number}", replicas(1), suspend=True)
        body["spec"]["replicaSpecs"][0]["template"]["x"] = "@"
        world.api.request("POST", GENERIC_JOBS.path(namespace), body=msgspec.json.encode(body).replace(b'"@"', WIDE))
    with world.contenders(tmp_path, number=1) as (leader,):
        eventually(lambda: leader.metric("controller_runtime_reconcile_total"))
    with world.contenders(tmp_path, number=1) as (leader,):
        eventually(lambda: leader.metric("controller_runtime_reconcile_total") >= JOBS)
        peak = leader.peak()
    for number in range(JOBS):  # one by one: of such objects a server deletes no dozen within the time of a request
        world.api.delete(GENERIC_JOBS, Key(namespace, f"wide-{number}"))
    record_property("peak_mebibytes", round(peak / MEBIBYTE))
    print(f"{JOBS} jobs of 1.4 MB with wide templates: the controller took {peak / MEBIBYTE:.0f} MiB at most after its restart")
    assert peak < LIMIT / 2


# ------------------------------------------------------------------------------------------------ the abuses


@contextmanager
def crowd(world, **container):
    """Large jobs whose pods no scheduler takes. Yields the namespace; nothing is left of them afterwards."""
    namespace = world.namespace()
    for number in range(JOBS):
        world.api.create(GENERIC_JOBS, large(f"large-{number}", RANKS, **container), namespace)
    try:
        yield namespace
    finally:
        sweep(world, namespace)


def large(name, ranks, **container):
    spec = replicas(ranks, **container)
    spec["template"]["spec"]["schedulerName"] = "nobody"
    return a_job(name, spec)


def sweep(world, namespace):
    """Delete all jobs of a namespace, and their pods without waiting for the collector."""
    world.api.request("DELETE", GENERIC_JOBS.path(namespace), {"propagationPolicy": "Background"})
    eventually(lambda: not world.api.list(GENERIC_JOBS, namespace).items)

    def gone():
        world.api.request("DELETE", RAW_PODS.path(namespace), {"gracePeriodSeconds": "0"})
        return not pods(world, namespace)

    eventually(gone)


def pods(world, namespace):
    return sum(len(page.items) for page in pages(world.api, POD_NAMES, namespace))


@contextmanager
def many_large_jobs(world):
    with crowd(world) as namespace:
        eventually(lambda: pods(world, namespace) > JOBS)
        yield lambda: pods(world, namespace) < JOBS * RANKS


@contextmanager
def slow_admission_of_pods(world, *, teams=1):
    with ExitStack() as stack:
        namespaces = [world.namespace() for _ in range(teams)]
        for namespace in namespaces:
            stack.enter_context(slow_admission(world.plane, world.api, namespace, seconds=ADMISSION_S))
            stack.callback(sweep, world, namespace)
        for number in range(JOBS):
            world.api.create(GENERIC_JOBS, large(f"large-{number}", RANKS), namespaces[number % teams])

        def everywhere():
            return sum(pods(world, namespace) for namespace in namespaces)

        eventually(lambda: everywhere() > JOBS)
        yield lambda: everywhere() < JOBS * RANKS


@contextmanager
def refused_creates(world):
    since = world.audit.here
    with crowd(world, image="") as namespace:

        def refused():
            found = world.audit.requests(since=since, user=USER, verbs={"create"}, resource="pods", namespace=namespace)
            return len([each for each in found if each.code == 422]) >= JOBS

        eventually(refused)
        yield lambda: pods(world, namespace) == 0


@contextmanager
def huge_statuses(world):
    """Jobs that fill the store's largest object: their statuses are made small, and stored again with every change."""
    namespace = world.namespace()
    made = []
    for number in range(JOBS):
        waits = large(f"full-{number}", 100)
        spare = replicas(0, "spare", env=[{"name": "LONG", "value": "x" * (OBJECT - 20_000)}])
        waits["spec"]["replicaSpecs"].append(spare)
        made.append(Job(world.api, world.node, world.api.create(GENERIC_JOBS, waits, namespace).object))
    eventually(lambda: made[0].aggregate == counts(pending=100))
    with repeated(lambda number: made[number % JOBS].pause() if number // JOBS % 2 == 0 else made[number % JOBS].resume(), 5) as went_on:
        yield went_on
    sweep(world, namespace)


@contextmanager
def a_hundred_edits_a_second(world):
    job = world.submit(world.namespace(), "edited", 2, failureRules=[{"nobody": [0]}])
    world.run(job)

    def edit(number):
        spec = replicas(2, env=[{"name": "EDIT", "value": str(number)}])
        world.api.patch(GENERIC_JOBS, job.key, {"spec": {"replicaSpecs": [spec]}})

    with repeated(edit, 100) as went_on:
        yield went_on
    world.end(job.keys).kept()
    job.becomes("Succeeded")


@contextmanager
def an_object_that_cannot_be_decoded(world):
    """One as deep as the server takes, which comes and changes and comes again."""
    namespace, depth = world.namespace(), 9_900
    body = a_job("deep", replicas(1))
    body["spec"]["replicaSpecs"][0]["template"]["x"] = "@"
    text = msgspec.json.encode(body).replace(b'"@"', b"[" * depth + b"]" * depth)
    world.api.request("POST", GENERIC_JOBS.path(namespace), body=text)
    path = GENERIC_JOBS.path(namespace, "deep")

    def edit(number):
        world.api.request("PATCH", path, body={"metadata": {"labels": {"edit": str(number)}}}, content=MERGE_PATCH)

    with repeated(edit, 20) as went_on:
        yield went_on
    world.api.request("DELETE", path)


@contextmanager
def repeated(act, per_second):
    """Do something again and again until the block ends. Yields a question: whether it went on since it was asked last."""
    done, ended, asked = count(), Event(), [0]
    numbers = []

    def go():
        while not ended.wait(1 / per_second):
            number = next(done)
            act(number)
            numbers.append(number)

    def went_on():
        eventually(lambda: len(numbers) > asked[0])
        asked[0] = len(numbers)
        return True

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(go)
        try:
            yield went_on
        finally:
            ended.set()
            going.result()


ABUSES = {
    f"{JOBS} jobs of {RANKS:,} ranks": many_large_jobs,
    f"the same behind admission of {ADMISSION_S:g} s per pod": slow_admission_of_pods,
    "the same, one namespace each": partial(slow_admission_of_pods, teams=JOBS),
    f"{JOBS} jobs of {RANKS:,} ranks whose pods are refused": refused_creates,
    f"{JOBS} jobs as large as the store takes, paused and resumed": huge_statuses,
    "a job that is edited 100 times a second": a_hundred_edits_a_second,
    "a job nested 9,900 levels deep that is edited 20 times a second": an_object_that_cannot_be_decoded,
}


@pytest.mark.parametrize("abuse", ABUSES)
def test_a_small_job_is_served_while_the_abuse_goes_on(world, leader, quiet, abuse, record_property):
    with ABUSES[abuse](world) as goes_on:
        beside = []
        for _ in range(NEIGHBOURS):
            assert goes_on()
            beside.append(world.neighbour().waited)
        assert goes_on()
    figures = {"quiet_s": quiet, "beside_s": median(beside), "longest_s": max(beside)}
    for name, value in figures.items():
        record_property(name, round(value, 3))
    print(f"{abuse}: a small job waits {median(beside):.2f} s for its pod, {max(beside):.2f} s at most; without it {quiet:.2f} s")
    assert leader.page("/healthz")
    assert leader.page("/readyz")


# ------------------------------------------------------------------------------------------------ memory


def test_hundreds_of_paused_jobs_with_thousands_of_replicas_take_little_memory(world, leader, record_property):
    namespace, began = world.namespace(), time.monotonic()
    world.neighbour()
    before = leader.usage()[1]
    for number in range(PAUSED):
        world.api.create(GENERIC_JOBS, a_job(f"paused-{number}", replicas(PAUSED_RANKS), suspend=True), namespace)
    eventually(lambda: {phase for (phase,) in world.statuses(namespace, "phase").values()} == {"Paused"})
    grown = leader.usage()[1] - before
    record_property("grown_mebibytes", round(grown / MEBIBYTE, 1))
    seconds = time.monotonic() - began
    print(f"{PAUSED} paused jobs of {PAUSED_RANKS:,} replicas: {grown / MEBIBYTE:.0f} MiB in {seconds:.0f} s")
    assert grown < 100 * MEBIBYTE
    sweep(world, namespace)
