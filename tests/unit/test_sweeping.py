"""A standby on the API in memory: what it remembers of pods that are deleted while another process leads."""

import pytest

from genericjob.api.crd import definition
from genericjob.api.names import API_VERSION, ATTEMPT_ANNOTATION, COMPONENT, COMPONENT_LABEL, EPOCH_ANNOTATION, JOB_LABEL, KIND
from genericjob.jobs import sweeping
from genericjob.jobs.assembly import Assembly
from genericjob.jobs.resource import JOBS
from genericjob.local import MemoryApi
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, RAW_PODS, Key, raw
from harness.clusters import eventually

RAW_JOBS = raw(JOBS.group, JOBS.version, JOBS.plural, JOBS.kind)
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
NAMESPACE, LONG = "default", 30.0


class Standby:
    """A controller that never leads, and the hands of the leader."""

    def __init__(self):
        self.api = MemoryApi()
        self.api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        self.assembly = Assembly(self.api, primitives=System(), metrics=Metrics())

    def start(self):
        for informer in self.assembly.informers:
            informer.start()
        assert all(informer.wait_synced(LONG) for informer in self.assembly.informers)

    def job(self, name, ranks):
        specs = [{"type": "worker", "replicas": ranks, "template": TEMPLATE}]
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"replicaSpecs": specs}}
        uid = self.api.create(RAW_JOBS, body, NAMESPACE).object["metadata"]["uid"]
        for rank in range(ranks):
            self.pod(name, uid, rank)

    def pod(self, job, uid, rank, *, attempt=0):
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": job, "uid": uid, "controller": True}
        meta = {
            "name": f"{job}-worker-{rank}",
            "labels": {COMPONENT_LABEL: COMPONENT, JOB_LABEL: job},
            "annotations": {EPOCH_ANNOTATION: "0", ATTEMPT_ANNOTATION: str(attempt)},
            "ownerReferences": [owner],
        }
        self.api.create(RAW_PODS, {"metadata": meta, **TEMPLATE}, NAMESPACE)

    def end(self, *pods, phase="Succeeded"):
        for pod in pods:
            self.api.patch(RAW_PODS, Key(NAMESPACE, pod), {"status": {"phase": phase}}, subresource="status")

    def remove(self, *pods):
        for pod in pods:
            self.api.delete(RAW_PODS, Key(NAMESPACE, pod), grace=0)

    def store(self, job, **task):
        status = {"phase": "Running", "conditions": [], "restarts": 0, "tasks": [{"type": "worker", "restartCount": 0, **task}]}
        self.api.patch(RAW_JOBS, Key(NAMESPACE, job), {"status": status}, subresource="status")

    def catch_up(self):
        """Wait until the handlers have seen everything: a bookmark of a later version comes after it."""
        self.api.create(CONFIG_MAPS, {"metadata": {"generateName": "later-"}}, NAMESPACE)
        version = self.api.resource_version

        def told():
            self.api.bookmark()
            return all(informer.reached("", version) for informer in self.assembly.informers)

        eventually(told)

    @property
    def remembered(self):
        self.catch_up()
        return self.assembly.departures.size


@pytest.fixture
def standby():
    standby = Standby()
    yield standby
    assert all(informer.stop(LONG) for informer in standby.assembly.informers)


@pytest.mark.parametrize("first", ["status", "pods"])
def test_what_is_stored_is_forgotten_whichever_comes_first(standby, first):
    jobs, ranks = [f"job-{number}" for number in range(4)], 25
    for job in jobs:
        standby.job(job, ranks)
    standby.start()
    for job in jobs:
        pods = [f"{job}-worker-{rank}" for rank in range(ranks)]
        standby.end(*pods)
        if first == "status":
            standby.store(job, succeededRanks=f"0-{ranks - 1}")
            standby.catch_up()
        standby.remove(*pods)
    assert standby.remembered == (0 if first == "status" else len(jobs) * ranks)
    for job in jobs:
        standby.store(job, succeededRanks=f"0-{ranks - 1}", restartCount=0)
    assert standby.remembered == 0


def test_what_is_not_stored_is_kept(standby):
    standby.job("job", 3)
    standby.start()
    standby.end("job-worker-0", "job-worker-1")
    standby.remove("job-worker-0", "job-worker-1", "job-worker-2")
    standby.store("job", succeededRanks="1")
    assert standby.remembered == 2
    uid = standby.assembly.jobs.get(Key(NAMESPACE, "job")).uid
    assert sorted(pod.name for pod in standby.assembly.departures.of(uid)) == ["job-worker-0", "job-worker-2"]


def test_a_pod_that_was_replaced_by_a_leader_that_did_not_see_it_go_is_forgotten(standby):
    standby.job("job", 2)
    standby.start()
    standby.end("job-worker-1")
    standby.remove("job-worker-0", "job-worker-1")
    assert standby.remembered == 2
    uid = standby.assembly.jobs.get(Key(NAMESPACE, "job")).uid
    for rank in (0, 1):
        standby.pod("job", uid, rank)
    standby.catch_up()
    standby.store("job")
    assert standby.remembered == 1  # the one that ended still counts
    assert [pod.name for pod in standby.assembly.departures.of(uid)] == ["job-worker-1"]


def test_a_status_that_cannot_be_read_accounts_for_nothing(standby):
    standby.job("job", 1)
    standby.start()
    standby.end("job-worker-0")
    standby.remove("job-worker-0")
    standby.store("job", succeededRanks="none of your business")
    assert standby.remembered == 1


def test_a_job_that_is_being_deleted_remembers_nothing(standby):
    standby.job("job", 2)
    standby.api.patch(RAW_JOBS, Key(NAMESPACE, "job"), {"metadata": {"finalizers": ["example.com/slow"]}})
    standby.start()
    standby.remove("job-worker-0")
    assert standby.remembered == 1
    standby.api.delete(RAW_JOBS, Key(NAMESPACE, "job"), propagation="Background")
    assert standby.remembered == 0
    standby.remove("job-worker-1")
    assert standby.remembered == 0


def test_only_statuses_of_jobs_with_departures_are_read_and_each_version_once(standby, monkeypatch):
    read, real = [], sweeping.read_status
    monkeypatch.setattr(sweeping, "read_status", lambda stored: read.append(stored.name) or real(stored))
    for job in ("quiet", "busy"):
        standby.job(job, 20)
    standby.start()
    for count in range(5):
        standby.store("quiet", restartCount=count)
    standby.remove(*(f"busy-worker-{rank}" for rank in range(20)))
    standby.catch_up()
    assert read == ["busy"]
    standby.store("busy", restartCount=1)
    standby.catch_up()
    assert read == ["busy"] * 2
