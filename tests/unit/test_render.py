"""`genericjob render`: what the controller would create, and nothing else."""

import json
from pathlib import Path
from threading import Condition

import pytest
import yaml

from genericjob.api import crd
from genericjob.cli.documents import parsed, read
from genericjob.cli.render import UID, rendered
from genericjob.jobs.assembly import Assembly
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.jobs.resource import JOBS
from genericjob.local import MemoryApi
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS

from .calling import genericjob
from .test_documents import JOB

EXAMPLES = Path(__file__).parents[2] / "examples"
CREATED = ("PodGroup", "Service", "Pod")


def the_job(file):
    return next(document for document in read([str(file)]) if document.kind == "GenericJob")


def names(found):
    return [f"{one['kind']} {one['metadata']['name']}" for one in found]


# ------------------------------------------------------------------------------------------------ the same as the controller


class Recording:
    """An API that remembers what was created."""

    def __init__(self, api):
        self.api, self.created, self.changed = api, [], Condition()

    def __getattr__(self, name):
        return getattr(self.api, name)

    def create(self, resource, body, *args, **options):
        made = self.api.create(resource, body, *args, **options)
        if resource.kind in CREATED:
            with self.changed:
                self.created.append(json.loads(body) if isinstance(body, bytes) else body)
                self.changed.notify_all()
        return made


def created(document, count):
    """What a controller creates for a job in a cluster of its own."""
    api = Recording(MemoryApi())
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    api.register(POD_GROUPS)
    controller = Assembly(api, workers=1, writers=1, primitives=System(), metrics=Metrics())
    job = api.create(JOBS, document.body, "default").object
    try:
        for informer in controller.informers:
            informer.start()
        controller.controller.start()
        with api.changed:
            assert api.changed.wait_for(lambda: len(api.created) >= count, 60)
    finally:
        controller.controller.stop(60)
        controller.writer.stop(60)
        for informer in controller.informers:
            informer.stop()
    return json.loads(json.dumps(api.created).replace(job.uid, UID))


@pytest.mark.parametrize("example", ["hello", "gang", "tensorflow-ps", "debug", "variables"])
def test_what_is_rendered_is_what_a_controller_creates(example):
    document = the_job(EXAMPLES / f"{example}.yaml")
    found = rendered(document)
    order = [*map(CREATED.index, (one["kind"] for one in found))]
    assert order == sorted(order)
    assert sorted(found, key=str) == sorted(created(document, len(found)), key=str)


def test_after_a_pause_the_commands_are_others():
    document = the_job(EXAMPLES / "pause.yaml")
    before, after = (rendered(document, resumed=resumed, ranks="0")[-1]["spec"]["containers"][0] for resumed in (False, True))
    assert before != after
    (resume,) = document.body["spec"]["runMode"]["pause"]["resumeSpecs"]
    assert after["args"] == resume["args"]


def test_a_name_that_the_server_makes_is_shown_as_such():
    (document,) = parsed(JOB.replace("name: train", "generateName: train-"), "job.yaml")
    assert names(rendered(document)) == ["Pod train-xxxxx-chief-0", "Pod train-xxxxx-worker-0", "Pod train-xxxxx-worker-1"]


# ------------------------------------------------------------------------------------------------ the command


def test_yaml_can_be_applied_as_it_is():
    called = genericjob("render", EXAMPLES / "hello.yaml")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(f"# As the controller would create them. {UID} stands for")
    assert "&" not in called.out.split("args", 1)[0]
    found = [*yaml.safe_load_all(called.out)]
    assert found == rendered(the_job(EXAMPLES / "hello.yaml"))
    assert "    - |\n      import os, socket\n" in called.out


def test_some_ranks_are_picked():
    def picked(*options):
        called = genericjob("render", EXAMPLES / "hello.yaml", "--output", "json", *options)
        return names(json.loads(called.out)["items"])

    assert picked("--rank", "worker-1") == ["Service hello-worker-1", "Pod hello-worker-1"]
    assert picked("--type", "worker", "--rank", "1-2") == [f"{kind} hello-worker-{rank}" for kind in ("Service", "Pod") for rank in (1, 2)]
    assert picked("--type", "server") == ["Service hello-server-0", "Pod hello-server-0"]


def test_the_namespace_is_the_jobs_own_or_the_given_one():
    def namespaces(text):
        return {one["metadata"]["namespace"] for one in yaml.safe_load_all(genericjob("render", "-", "-n", "team", stdin=text).out)}

    assert namespaces(JOB) == {"team"}
    assert namespaces(JOB.replace("  name: train", "  name: train\n  namespace: own")) == {"own"}


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (["-", "--type", "nobody"], JOB, "the job has no type nobody: there are chief, worker"),
        (["-", "--rank", "9"], JOB, "the job has no rank 9: they are 0 to 1"),
        (["-", "--rank", "first"], JOB, "'first' names no ranks: write 0, 0-3,7 or worker-0"),
        (
            ["-"],
            JOB.replace("replicas: 2", "replicas: x"),
            'standard input:15: error: spec.replicaSpecs[1].replicas: "x" is not a whole number',
        ),
        (["-"], "kind: ConfigMap\n", "standard input: there is no GenericJob in it"),
        (["-"], "a: }", "standard input:1: error: did not find expected node content"),
    ],
)
def test_what_cannot_be_rendered_is_told_in_a_sentence(words, stdin, told):
    assert genericjob("render", *words, stdin=stdin) == (2, "", f"genericjob: {told}\n")
