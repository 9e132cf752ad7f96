"""Objects that cannot be decoded, made by whoever may make objects in one namespace: they cost nobody else anything (clause 8)."""

import msgspec
import pytest

from e2e.apart import apart
from e2e.jobs import a_job, replicas
from genericjob.api.names import EPOCH_ANNOTATION
from genericjob.jobs.resource import JOBS, reported_as
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import EVENTS, RAW_PODS, Key
from harness.clusters import eventually
from harness.commands import Program
from harness.definitions import GENERIC_JOBS

MARK = b'"@"'

VALUES = {
    "deep-lists": b"[" * 1_200 + b"]" * 1_200,
    "deep-maps": b'{"a":' * 1_100 + b"1" + b"}" * 1_100,
    "as-deep-as-the-server-takes": b"[" * 9_900 + b"]" * 9_900,
    "deep-and-wide": b"[%b,%b]" % (b"[" * 1_200 + b"]" * 1_200, b",".join([b"[[[[1]]]]"] * 50_000)),
}
"""What stands somewhere in a template; the server stores all of these."""


def hostile(name, value, ranks=1):
    body = a_job(name, replicas(ranks))
    body["spec"]["replicaSpecs"][0]["template"]["x"] = "@"
    return msgspec.json.encode(body).replace(MARK, value)


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "hostile") as world:
        yield world


@pytest.fixture(scope="module")
def attacked(world):
    """A namespace with one job of each kind, made before any controller begins."""
    namespace = world.namespace()
    for name, value in VALUES.items():
        world.api.request("POST", GENERIC_JOBS.path(namespace), body=hostile(name, value))
    return namespace


@pytest.fixture(scope="module")
def leader(world, attacked, tmp_path_factory):
    """A controller that meets them in its first list."""
    with world.contenders(tmp_path_factory.mktemp("controller"), number=1) as (leader,):
        yield leader


def reported(world, key):
    """The reason and message of the condition that a job which cannot be decoded has got."""
    found = reported_as(world.api.get(JOBS, key))
    status = msgspec.json.decode(found.status or b"{}")
    return next(((each["reason"], each["message"]) for each in status.get("conditions", ()) if each["type"] == "Initialized"), None)


def events(world, key):
    found = world.api.list(EVENTS, key.namespace, fields=f"involvedObject.name={key.name}").items
    return {(each["type"], each["reason"], each["message"]) for each in found}


@pytest.fixture
def gj(world):
    return Program(KUBECONFIG=str(world.cluster.kubeconfig))


UNREADABLE = "The job cannot be read: it is nested too deeply"


@pytest.mark.parametrize("name", VALUES)
def test_a_job_that_was_there_before_is_told_why_it_does_not_run(world, attacked, leader, name):
    key = Key(attacked, name)
    assert eventually(lambda: reported(world, key)) == ("InvalidSpec", UNREADABLE)
    eventually(lambda: ("Warning", "InvalidSpec", UNREADABLE) in events(world, key))


def test_everybody_else_is_served(world, attacked, leader):
    world.neighbour(ranks=2)
    assert "ok" in leader.page("/readyz")
    assert "ok" in leader.page("/healthz")
    assert leader.metric("genericjob_unreadable_objects_total") >= len(VALUES)
    for name in VALUES:
        assert f"{attacked}/{name} cannot be read: it is nested too deeply" in leader.log


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_one_that_comes_and_changes_and_goes_while_all_are_watched_disturbs_nobody(world, leader, value):
    namespace, lists = world.namespace(), leader.metric("reflector_list_duration_seconds_count")
    key = Key(namespace, "odd")
    world.api.request("POST", GENERIC_JOBS.path(namespace), body=hostile("odd", value))
    assert eventually(lambda: reported(world, key)) == ("InvalidSpec", UNREADABLE)
    for number in range(5):
        patch = {"metadata": {"labels": {"number": str(number)}}}
        world.api.request("PATCH", GENERIC_JOBS.path(namespace, "odd"), body=patch, content="application/merge-patch+json")
    world.neighbour(ranks=2)
    world.api.request("DELETE", GENERIC_JOBS.path(namespace, "odd"))
    world.neighbour(ranks=2)
    assert leader.metric("reflector_list_duration_seconds_count") == lists  # the streams went on


def test_a_job_that_becomes_readable_runs(world, leader):
    namespace = world.namespace()
    key = Key(namespace, "mended")
    world.api.request("POST", GENERIC_JOBS.path(namespace), body=hostile("mended", VALUES["deep-lists"]))
    eventually(lambda: reported(world, key))
    patch = [{"op": "remove", "path": "/spec/replicaSpecs/0/template/x"}]
    world.api.request("PATCH", GENERIC_JOBS.path(namespace, "mended"), body=patch, content="application/json-patch+json")
    eventually(lambda: Key(namespace, "mended-worker-0") in world.running(namespace))


def test_a_job_that_runs_and_becomes_unreadable_keeps_its_status(world, leader):
    namespace = world.namespace()
    job = world.submit(namespace, "spoiled", 2)
    world.run(job)
    eventually(lambda: job.phase == "Running" and job.aggregate["running"] == 2)
    patch = hostile("spoiled", VALUES["deep-lists"], ranks=2)
    world.api.request("PATCH", GENERIC_JOBS.path(namespace, "spoiled"), body=patch, content="application/merge-patch+json")
    assert eventually(lambda: (found := reported(world, job.key)) and found[0] == "InvalidSpec" and found)[1] == UNREADABLE
    status = msgspec.json.decode(reported_as(world.api.get(JOBS, job.key)).status)
    assert (status["phase"], status["aggregate"]["running"]) == ("Running", 2)
    assert set(job.keys) <= world.running(namespace)


def test_get_lists_all_others_and_names_what_cannot_be_read(world, attacked, leader, gj):
    job = world.submit(world.namespace(), "listed", 1)
    ended = gj("get", "-A")
    assert ended.code == 0
    assert job.key.namespace in ended.out
    for name in VALUES:
        assert f"the job {attacked}/{name} cannot be read: it is nested too deeply" in ended.err
        assert name in ended.out


def test_commands_describe_and_delete_what_cannot_be_read(world, leader, gj):
    namespace = world.namespace()
    world.api.request("POST", GENERIC_JOBS.path(namespace), body=hostile("odd", VALUES["deep-maps"]))
    eventually(lambda: reported(world, Key(namespace, "odd")))
    assert UNREADABLE in gj("describe", "-n", namespace, "odd").out
    for output in ("yaml", "json"):
        ended = gj("get", "-n", namespace, "odd", "-o", output)
        assert (ended.code, ended.out) == (1, "")  # a part of it must not be taken for the whole
        assert f"the job odd cannot be shown as {output}: it is nested too deeply" in ended.err
    for words in (["pause"], ["resume"], ["debug"], ["debug", "--off"], ["explain"]):
        ended = gj(*words, "-n", namespace, "odd")
        assert (ended.code, ended.out) == (1, "")
        assert "odd cannot be decoded: it is nested too deeply" in ended.err
    assert gj("delete", "-n", namespace, "odd").code == 0
    with pytest.raises(ApiError) as caught:
        world.api.get(JOBS, Key(namespace, "odd"))
    assert caught.value.not_found


def test_objects_of_another_namespace_that_name_the_uid_of_a_job_are_none_of_its_own(world, leader):
    """Of the kind Foo nobody knows whether it exists, so the garbage collector leaves such objects alone."""
    job = world.submit(world.namespace(), "train", 2, failureRules=[{"worker": [0]}])
    world.run(job)
    job.becomes("Running")
    pod, evil = world.api.get(RAW_PODS, job.pod(0)), world.namespace()
    owner = {"apiVersion": "evil.test/v1", "kind": "Foo", "name": "x", "uid": job.body["metadata"]["uid"], "controller": True}
    for name, epoch in (("train-worker-0", "0"), ("x", "7")):
        annotations = pod["metadata"]["annotations"] | {EPOCH_ANNOTATION: epoch}
        meta = {"name": name, "labels": pod["metadata"]["labels"], "annotations": annotations, "ownerReferences": [owner]}
        spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "app:1"}]}
        world.api.create(RAW_PODS, {"metadata": meta, "spec": spec}, evil)
        patch = {"status": {"phase": "Failed", "reason": "Forged"}}
        world.api.request("PATCH", RAW_PODS.path(evil, name, "status"), body=patch, content="application/merge-patch+json")
    world.neighbour()  # the controller has seen all that came before
    assert (job.phase, job.status.get("epoch", 0)) == ("Running", 0)
    assert set(job.keys) <= world.running(job.key.namespace)
    world.end(job.keys).kept()
    job.becomes("Succeeded")
