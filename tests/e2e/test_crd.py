"""GenericJob as a kind of a real server: what it lets pass, what it refuses, and in which words. The manifests are in `tests/corpus`."""

import copy
from datetime import UTC, datetime

import msgspec
import pytest
import yaml

from genericjob.api.names import API_VERSION, GROUP, KIND, PAUSE_PHASES, PHASES, PLURAL
from genericjob.api.status import Aggregate, Condition, ContainerStatus, Failure, GenericJobStatus, Replica, Task
from genericjob.cli.documents import problems, read
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key
from harness.clusters import Namespaces, eventually
from harness.corpus import (
    Writer,
    manifests,
    refusal,
    see_that_it_became,
    see_that_replicas_are_fixed_in,
    see_that_the_last_is_refused,
)
from harness.definitions import conditions, install

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}
ACCEPTED = manifests("accepted")


def of(folder):
    return pytest.mark.parametrize("manifest", manifests(folder), ids=str)


def replicas(type="worker", **more):
    return {"type": type, "template": TEMPLATE, **more}


def a_job(*types, name="", **spec):
    metadata = {"name": name} if name else {"generateName": "job-"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"replicaSpecs": list(types or [replicas()]), **spec}}


@pytest.fixture(scope="module")
def place(server, genericjobs):
    """A namespace for all jobs of this module: nobody runs them."""
    with Namespaces(server).fresh() as name:
        yield name


@pytest.fixture
def writer(server, genericjobs, place):
    writer = Writer(server, place)
    yield writer
    for key in writer.written:
        server.delete(genericjobs, key)


# ------------------------------------------------------------------------------------------------ the definition


def test_the_server_takes_the_definition(server, genericjobs):
    told = conditions(server, Key("", f"{PLURAL}.{GROUP}"))
    assert told["Established"] == told["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in told


def test_kubectl_explains_every_field(plane, genericjobs):
    def explained(field, text):
        return text in plane.kubectl("explain", field, check=False)  # the server publishes schemas a moment after it uses them

    eventually(lambda: explained("gj.spec.replicaSpecs", "Name of this type of replica"))
    eventually(lambda: explained("gj.spec.replicaSpecs.restartPolicy.exitCodes", "Exit codes that are judged"))
    eventually(lambda: explained("genericjob.status.tasks.chargedRestarts", "Ranks by how many restarts"))
    eventually(lambda: explained("genericjob.status.tasks.status", "Deprecated"))


def test_kubectl_shows_where_jobs_stand(plane, server, genericjobs, namespace):
    server.create(genericjobs, a_job(name="train"), namespace)
    server.patch(
        genericjobs, Key(namespace, "train"), {"status": {"phase": "Running", "ready": "3/4", "restarts": 2}}, subresource="status"
    )
    head, row = plane.kubectl("get", "gj", "--namespace", namespace).splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert row.split()[:-1] == ["train", "Running", "3/4", "2"]
    assert "genericjob.batch.tensorstack.dev/train" in plane.kubectl("get", "all", "--namespace", namespace, "--output=name")


# ------------------------------------------------------------------------------------------------ creations


@of("accepted")
def test_accepted(writer, manifest):
    kept = writer.create({name: part for name, part in manifest.job.items() if name != "status"})
    given = manifest.job["spec"]["replicaSpecs"]
    assert [one["template"] for one in given] == [one["template"] for one in kept["spec"]["replicaSpecs"]]


@of("refused")
def test_refused(writer, manifest):
    error = refusal(manifest, writer.create, manifest.job)
    (document,) = read([str(manifest.path)])
    told = {problem.field for problem in problems(document) if problem.severity == "error"}
    assert {cause.field for cause in error.causes if cause.field.startswith(("metadata", "spec"))} <= told, "validate names other fields"


def test_kubectl_takes_the_files_as_they_are(kubectl, genericjobs):
    named = [f"--filename={found.path}" for found in ACCEPTED if "name" in found.job["metadata"]]
    unnamed = [f"--filename={found.path}" for found in ACCEPTED if "name" not in found.job["metadata"]]
    strict = ("--validate=strict", "--dry-run=server", "--output=name")
    told = kubectl("apply", *strict, *named) + kubectl("create", *strict, *unnamed)
    assert len(told.splitlines()) == len(ACCEPTED)


def test_kubectl_may_apply_the_oddities_again_and_nothing_changes(kubectl, genericjobs):
    odd = [found.job | {"metadata": {"name": f"odd-{number}"}} for number, found in enumerate(ACCEPTED) if str(found).startswith("odd-")]
    for _ in range(2):
        kubectl("apply", "--filename=-", input=yaml.safe_dump_all(odd))
    generations = kubectl("get", "genericjobs", "--output=jsonpath={.items[*].metadata.generation}")
    assert generations.split() == ["1"] * len(odd)


def test_a_status_in_a_manifest_is_not_kept(server, genericjobs, writer):
    job = next(found.job for found in ACCEPTED if str(found) == "odd-status")
    assert "status" not in server.create(genericjobs, job, writer.namespace, field_validation="Strict").object
    server.delete(genericjobs, writer.key(job))


def test_the_server_fills_in_defaults(writer):
    spec = writer.create(a_job(service={"ports": [{"port": 80}]}))["spec"]
    assert spec == {
        "replicaSpecs": [
            {"type": "worker", "replicas": 1, "restartPolicy": {"policy": "OnFailure", "scope": "Replica"}, "template": TEMPLATE}
        ],
        "cleanUpPolicy": "None",
        "suspend": False,
        "service": {"ports": [{"port": 80, "protocol": "TCP"}]},
    }


MANAGERS = [
    *("a.example/x", "a/b", "a.example/x/y", "a.example//", "1.2/3", "a-b.c/%!$&'()*+,;=:~._-", f"a.example/{'x' * 53}"),
    *("kueue", "/x", "a/", "A/x", "a_b/x", "-a/x", "a-/x", "a..b/x", "a./x", "a b/x", "a/b c", "a/b?", "a/b#", 'a/"b"', "a/b\\", "a/<b>"),
    *("a/é", "a/控", "é/x", "a/b\n", "a\n/b", "a/\x1b[2J", "a/\x9b2J", "a/\u202eb", "a/\x7f", f"a.example/{'x' * 54}"),
]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_is_judged_as_batch_jobs_judge_theirs(server, writer, manager):
    def wrong_fields(create):
        try:
            create()
        except ApiError as error:
            return {cause.field for cause in error.causes if cause.field.startswith("spec")}
        return set()

    template = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "j-"},
        "spec": {"template": template, "managedBy": manager},
    }
    path = f"/apis/batch/v1/namespaces/{writer.namespace}/jobs"
    wanted = wrong_fields(lambda: server.request("POST", path, {"dryRun": "All"}, job))
    assert wanted in (set(), {"spec.managedBy"})
    assert wrong_fields(lambda: writer.create(a_job(managedBy=manager))) == wanted


# ------------------------------------------------------------------------------------------------ changes


@of("changes-accepted")
def test_accepted_changes(writer, manifest):
    see_that_it_became(manifest, writer.walk(manifest.documents))


@of("changes-refused")
def test_refused_changes(writer, manifest):
    see_that_the_last_is_refused(manifest, writer)


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase not in PAUSE_PHASES])
def test_types_and_replicas_change_in_no_other_phase(writer, phase):
    see_that_replicas_are_fixed_in(phase, writer)


def drop_rules(schema):
    schema.pop("x-kubernetes-validations", None)
    for below in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        drop_rules(below)


def test_what_an_older_definition_let_pass_can_be_told_so_and_can_go(server, genericjobs, namespace):
    """Every rule is asked on every write; one that asks too much would keep an old job for ever."""

    def passes(job):
        try:
            made = server.create(genericjobs, job, namespace).object
        except ApiError:
            return None
        return Key(namespace, made["metadata"]["name"])

    bad = [
        a_job(replicas("w" * 59)),
        a_job(name="1st", service={}),
        a_job(replicas("a", replicas=9_999), replicas("b", replicas=9_999)),
        a_job(service={"ports": [{"port": 80}, {"port": 81}]}),
        a_job(service={"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}),
        a_job(replicas(restartPolicy={"policy": "Always", "scope": "Job"})),
        a_job(replicas(restartPolicy={"exitCodes": {"neverRestart": [1], "notCharged": [1]}})),
        a_job(managedBy="\x1b]52;c;bHM=\x07"),
        a_job(replicas(replicas=2_000), service={"ports": [{"port": 80, "targetPort": 8080}]}),
    ]
    try:
        key = Key("", f"{PLURAL}.{GROUP}")
        older = server.get(CUSTOM_RESOURCE_DEFINITIONS, key)
        drop_rules(older["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        server.replace(CUSTOM_RESOURCE_DEFINITIONS, key, older)
        jobs = [eventually(lambda job=job: passes(copy.deepcopy(job))) for job in bad]
    finally:
        install(server)
    eventually(lambda: not passes(a_job(replicas("w" * 59))))
    for job in jobs:
        server.patch(genericjobs, job, {"status": {"phase": "Pending"}}, subresource="status")
        server.patch(genericjobs, job, {"metadata": {"finalizers": ["example.dev/keep"]}, "spec": {"cleanUpPolicy": "All"}})
        server.delete(genericjobs, job)
        server.patch(genericjobs, job, {"metadata": {"finalizers": None}})
        with pytest.raises(ApiError, match="not found"):
            server.get(genericjobs, job)


# ------------------------------------------------------------------------------------------------ status


def as_json(status):
    return msgspec.json.decode(msgspec.json.encode(status))


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REPLICA = Replica("job-worker-1", "uid", "Failed", (ContainerStatus("main", "Terminated", 137, "OOMKilled"),))
STATUS = GenericJobStatus(
    phase="Running",
    conditions=(Condition("Running", "True", "Running", "All pods are running normally.", NOW),),
    ready="1/2",
    restarts=3,
    aggregate=Aggregate(running=1, failed=1),
    terminating=1,
    tasks=(
        Task(
            "worker",
            restart_count=3,
            succeeded_ranks="0",
            failed_ranks="1",
            absent_ranks="2",
            charged_restarts={"1": "0-9,11", "3": "10"},
            uncharged_restarts={"2": "4"},
            restarts_in_a_row={"1": "0-11"},
            last_restarts={"2026-01-02T03:04:05Z": "0-11"},
            failures=(Failure(1, "uid", NOW, 2, 3, 137, "OOMKilled", "node-1", "out of memory"),),
            failed_exit_codes={"137": 1},
            replicas=(REPLICA,),
            unlisted=7,
            status=(REPLICA,),
        ),
    ),
    observed_generation=1,
    start_time=NOW,
    completion_time=NOW,
    epoch=1,
    pause_time=NOW,
    paused_before_start=True,
    paused_seconds=1,
    resumes=1,
    job_restarts=1,
    job_restarts_in_a_row=1,
    last_job_restart=NOW,
)


def test_the_server_keeps_every_field_of_a_status_and_adds_none(writer, server, genericjobs):
    job = writer.create(a_job())
    told = as_json(STATUS)
    kept = server.replace_status(genericjobs, writer.key(job), job | {"status": told})
    assert kept["status"] == told
    for part in (STATUS, *STATUS.tasks):
        assert all(getattr(part, name) for name in part.__struct_fields__), "a new field of the status is missing in this test"


def test_an_empty_status_stays_as_it_is(writer, server, genericjobs):
    job = writer.create(a_job())
    told = as_json(GenericJobStatus())
    assert server.replace_status(genericjobs, writer.key(job), job | {"status": told})["status"] == told
