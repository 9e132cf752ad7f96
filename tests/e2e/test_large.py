"""Jobs that are large, odd or busy: their cost is bounded, and nobody else's jobs wait for them."""

import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.apart import apart
from e2e.jobs import Job, a_job, counts, replicas, restarts
from e2e.record import Record
from genericjob.reconcile.api import pages
from genericjob.reconcile.resources import RAW_PODS, Key, partial
from harness.clusters import eventually
from harness.controllers import USER
from harness.definitions import GENERIC_JOBS
from harness.kubelet.pods import STRATEGIC_MERGE_PATCH

POD_NAMES = partial("", "v1", "pods", "Pod")
RANKS = int(os.environ.get("LARGE_RANKS", "2000"))
"""`make large` has 10,000 of them; the suite has less time."""
MEBIBYTE = 1 << 20
OBJECT = 3 * MEBIBYTE // 2
"""What the store takes at most."""
WRITERS = 8
LONG = 1500.0
"""Seconds for what takes minutes on a slow machine."""


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "large") as world:
        yield world


@pytest.fixture(scope="module")
def leader(world, tmp_path_factory):
    with world.contenders(tmp_path_factory.mktemp("controller"), number=1) as (leader,):
        yield leader


@pytest.fixture
def namespace(world, leader):
    return world.namespace()


def succeeds(world, beside, record_property):
    """A small job of another namespace, from its creation to its end; how long it waited for its pods is recorded."""
    job = world.neighbour(ranks=2)
    record_property("neighbour_waited_s", round(job.waited, 3))
    print(f"beside {beside}: a small job waited {job.waited:.2f} s for its first pod")
    return job


# ------------------------------------------------------------------------------------------------ thousands of failing ranks


class Doom:
    """A node on which every program fails as soon as it begins, each with a code of its own and many words."""

    def __init__(self, api, namespace):
        self.ended = set()
        self._api, self._namespace = api, namespace
        self._pool = ThreadPoolExecutor(WRITERS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="doom")
        self._thread.start()

    def _follow(self):
        """AGAIN AND AGAIN FROM THE WHOLE LIST: a watcher that is slower than all this news is cut off by the server."""
        chance = random.Random(0)
        while not self._closing.wait(0.5):
            found = [pod for page in pages(self._api, POD_NAMES, self._namespace) for pod in page.items]
            new = [pod for pod in found if pod.uid not in self.ended]
            chance.shuffle(new)  # neighbours share little: sets of ranks are at their longest
            for _ in self._pool.map(self._end, new):
                if self._closing.is_set():
                    return

    def _end(self, pod):
        key, uid = Key(pod.namespace, pod.name), pod.uid
        rank = int(key.name.rsplit("-", 1)[1])
        words = f"rank {rank} met its doom. " * (10_240 // 20 if rank % 10 == 0 else 20)
        ended = {"exitCode": rank + 1, "reason": "Error", "message": words, "finishedAt": "2024-01-01T00:00:00Z", "containerID": "a://b"}
        container = {"name": "main", "image": "app:1", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}
        status = {"phase": "Failed", "containerStatuses": [container]}
        body = {"metadata": {"uid": uid}, "status": status}
        self._api.request("PATCH", RAW_PODS.path(*key, "status"), body=body, content=STRATEGIC_MERGE_PATCH)
        self.ended.add(uid)

    def has_ended(self, number):
        if not self._thread.is_alive():
            raise RuntimeError("the node of doom met its own")
        return len(self.ended) >= number

    def close(self):
        self._closing.set()
        self._thread.join()
        self._pool.shutdown(cancel_futures=True)


@contextmanager
def doom(world, namespace):
    found = Doom(world.cluster.api(), namespace)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.timeout(2 * LONG)
def test_thousands_of_ranks_that_fail_fit_into_one_status_and_others_do_not_wait(world, namespace, record_property):
    spec = replicas(RANKS) | restarts("OnFailure", 1)
    spec["template"]["spec"]["schedulerName"] = "nobody"
    body = a_job("large", spec, failureRules=[{"worker": [*range(RANKS)]}])
    since, began = world.audit.here, time.monotonic()
    with doom(world, namespace) as node:
        large = Job(world.api, world.node, world.api.create(GENERIC_JOBS, body, namespace).object)
        eventually(lambda: node.has_ended(RANKS // 2), within=LONG)
        neighbour = succeeds(world, f"{RANKS:,} ranks that fail", record_property)
        assert large.phase not in ("Succeeded", "Failed")
        eventually(lambda: node.has_ended(2 * RANKS), within=LONG)
    status = large.becomes("Failed")
    (task,) = status["tasks"]
    assert (task["failedRanks"], task["restartCount"], task["chargedRestarts"]) == (f"0-{RANKS - 1}", RANKS, {"1": f"0-{RANKS - 1}"})
    assert sum(task["failedExitCodes"].values()) == 2 * RANKS
    assert len(task["failures"]) == 100
    assert sum(status["aggregate"].values()) == RANKS

    statuses = Record(world.audit, large, since).statuses()
    sizes = [len(json.dumps(each.stored["status"])) for each in statuses]
    assert max(sizes) < MEBIBYTE
    assert Record(world.audit, neighbour, since).statuses()[-1].answered < statuses[-1].received
    figures = {"seconds": round(time.monotonic() - began, 1), "largest_status": max(sizes), "statuses": len(sizes)}
    for name, value in figures.items():
        record_property(name, value)
    print(figures)


# ------------------------------------------------------------------------------------------------ odd jobs


def test_a_hundred_types_a_thousand_rules_and_a_mebibyte_of_environment(world, namespace, record_property):
    types = [f"t{number}" for number in range(100)]
    environment = [{"name": "LONG", "value": "$(rank)" + "x" * (MEBIBYTE // len(types))}]
    rules = [{types[number % 100]: [0], types[number * 7 % 100]: [0], types[(number // 10) % 100]: [0]} for number in range(1000)]
    specs = [replicas(1, type, env=environment) | restarts("OnFailure", 2) for type in types]
    body = a_job("wide", *specs, successRules=rules, failureRules=rules)
    job = Job(world.api, world.node, world.api.create(GENERIC_JOBS, body, namespace).object)
    keys = {type: Key(namespace, f"wide-{type}-0") for type in types}
    eventually(lambda: set(keys.values()) <= world.running(namespace))
    succeeds(world, "a job of 100 types, 1,000 rules and 1 MiB of environment", record_property)
    failing = [keys[type] for type in types[50:]]
    world.end(failing, but=failing).kept()
    eventually(lambda: job.status.get("restarts") == 50 and set(keys.values()) <= world.running(namespace))
    world.end([keys[type] for type in rules[42]]).kept()
    assert job.becomes("Succeeded")["ready"] == "100/100"


def test_a_job_that_leaves_no_room_for_its_status_is_shown_without_lists(world, namespace, record_property):
    waits = replicas(200)
    waits["template"]["spec"]["schedulerName"] = "nobody"
    spare = replicas(0, "spare", env=[{"name": "LONG", "value": "x" * (OBJECT - 20_000)}])
    body = a_job("full", waits, spare)
    job = Job(world.api, world.node, world.api.create(GENERIC_JOBS, body, namespace).object)
    eventually(lambda: job.aggregate == counts(pending=200), within=LONG)
    assert (job.task().get("replicas"), job.task()["unlisted"]) == (None, 200)
    assert any("does not fit" in message for _, message in job.told("StatusTooLarge"))
    succeeds(world, "a job that fills the store's largest object", record_property)
    job.pause()
    job.becomes("Paused")


def test_a_template_that_can_never_be_admitted_costs_little(world, namespace, record_property):
    since = world.audit.here
    spec = replicas(1000, image="")
    world.api.create(GENERIC_JOBS, a_job("vain", spec), namespace)

    def tries():
        found = world.audit.requests(since=since, user=USER, verbs={"create"}, resource="pods", namespace=namespace)
        return found if len(found) >= 3 else None

    eventually(tries)
    succeeds(world, "1,000 pods that are refused", record_property)
    assert {each.code for each in tries()} == {422}
    assert {each.name for each in tries()} == {"vain-worker-0"}  # one refusal is enough to know


# ------------------------------------------------------------------------------------------------ busy users

EDITS, PER_SECOND = 400, 100


def test_a_job_that_is_edited_a_hundred_times_a_second_is_looked_at_and_not_written_about(world, namespace, record_property):
    job = world.submit(namespace, "edited", 2, failureRules=[{"nobody": [0]}])
    world.run(job)
    job.becomes("Running")
    since = world.audit.here

    def edit(number):
        time.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        spec = replicas(2, env=[{"name": "EDIT", "value": str(number)}])
        world.api.patch(GENERIC_JOBS, job.key, {"spec": {"replicaSpecs": [spec]}})

    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:  # several would mostly be in each other's way
        edits = [pool.submit(edit, number) for number in range(EDITS)]
        succeeds(world, "100 edits a second", record_property)
        for each in edits:
            each.result()
    seconds = time.monotonic() - began
    eventually(lambda: job.status["observedGeneration"] == job.body["metadata"]["generation"])
    writes = world.audit.writes(since=since, user=USER, namespace=namespace)
    stored = [each for each in writes if each.resource == "genericjobs/status" and each.succeeded]
    print(f"{EDITS} edits in {seconds:.1f} s: {len(writes)} writes, {len(stored)} statuses")
    assert len(stored) <= seconds + 3
    assert len(writes) < EDITS
    world.end(job.keys).kept()
    job.becomes("Succeeded")
    assert world.verbs(namespace) == {"create"}
