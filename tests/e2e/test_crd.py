"""GenericJob as a kind of a real server: what it lets pass, what it refuses, and in which words."""

import copy
from datetime import UTC, datetime

import msgspec
import pytest
import yaml

from genericjob.api.names import API_VERSION, GROUP, KIND, PHASES, PLURAL
from genericjob.api.status import Aggregate, Condition, ContainerStatus, GenericJobStatus, Replica, Task
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key
from harness.clusters import eventually
from harness.definitions import conditions, install

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "app:1", "command": ["sleep", "365"]}]}}


def replicas(type="worker", **more):
    return {"type": type, "template": TEMPLATE, **more}


def a_job(*types, name="", **spec):
    metadata = {"name": name} if name else {"generateName": "job-"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {"replicaSpecs": list(types or [replicas()]), **spec}}


def ports(*found):
    return {"service": {"ports": list(found)}}


@pytest.fixture
def apply(server, genericjobs, namespace):
    """Create a job as kubectl does, which has unknown fields refused."""
    return lambda job: server.create(genericjobs, job, namespace, field_validation="Strict").object


def refusal(call, *args, **more):
    with pytest.raises(ApiError) as caught:
        call(*args, **more)
    assert caught.value.refused, caught.value
    return caught.value


# ------------------------------------------------------------------------------------------------ the definition


def test_the_server_takes_the_definition(server, genericjobs):
    told = conditions(server, Key("", f"{PLURAL}.{GROUP}"))
    assert told["Established"] == told["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in told


def test_kubectl_explains_every_field(plane, genericjobs):
    def explained(field, text):
        return text in plane.kubectl("explain", field, check=False)  # the server publishes schemas a moment after it uses them

    eventually(lambda: explained("gj.spec.replicaSpecs", "Name of this type of replica"))
    eventually(lambda: explained("genericjob.status.tasks.succeededRanks", "Ranks that ended well"))


def test_kubectl_shows_where_jobs_stand(plane, server, genericjobs, namespace):
    server.create(genericjobs, a_job(name="train"), namespace)
    server.patch(
        genericjobs, Key(namespace, "train"), {"status": {"phase": "Running", "ready": "3/4", "restarts": 2}}, subresource="status"
    )
    head, row = plane.kubectl("get", "gj", "--namespace", namespace).splitlines()
    assert head.split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert row.split()[:-1] == ["train", "Running", "3/4", "2"]
    assert "genericjob.batch.tensorstack.dev/train" in plane.kubectl("get", "all", "--namespace", namespace, "--output=name")


# ------------------------------------------------------------------------------------------------ let pass


def with_pod(**pod):
    return a_job(replicas(replicas=4, template={"spec": {"containers": [{"name": "main", "image": "app:1"}], **pod}}))


def with_container(*, service=None, **container):
    job = with_pod(containers=[{"name": "main", "image": "app:1", **container}])
    return job | {"spec": job["spec"] | {"service": service}} if service else job


CLUSTER = ",".join(f'"$(service.worker[{rank}].host):$(service.port[http])"' for rank in range(4))
TF_CONFIG = f'{{"task":{{"type":"$(type)","index":$(rank)}},"cluster":{{"worker":[{CLUSTER}]}}}}'
HTTP = {"name": "http", "port": 2222}

ACCEPTED = {
    # the seed document's
    "rules": a_job(replicas(replicas=4), successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}, {"worker": [1]}]),
    "integer cpu": with_container(resources={"limits": {"cpu": 4, "memory": "4Gi"}, "requests": {"cpu": 2, "memory": "2Gi"}}),
    "shared memory": with_pod(volumes=[{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}]),
    "environment": with_container(env=[{"name": "E", "valueFrom": {"secretKeyRef": {"name": "secret-name", "key": "key-in-secret"}}}]),
    "TF_CONFIG": with_container(env=[{"name": "TF_CONFIG", "value": TF_CONFIG}], **ports(HTTP)),
    "rules over two types": a_job(
        replicas("master", replicas=3),
        replicas(replicas=3),
        successRules=[{"master": [0]}, {"worker": [0, 1, 2]}, {"master": [2], "worker": [0, 1]}],
        failureRules=[{"master": [0]}],
    ),
    "service": a_job(name="generic-example", **ports(HTTP)),
    "clean up": a_job(cleanUpPolicy="Unfinished"),
    "restarts": a_job(replicas("master", restartPolicy={"policy": "Always"}), replicas(restartPolicy={"policy": "OnFailure", "limit": 3})),
    "scheduler": a_job(scheduler={"t9kScheduler": {"queue": "default", "priority": 50}}),
    "debug": a_job(runMode={"debug": {"enabled": True}}),
    "debug by type": a_job(
        runMode={"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True, "command": ["/usr/bin/sshd"]}]}}
    ),
    "pause": a_job(runMode={"pause": {"enabled": True}}),
    "pause and resume": a_job(
        runMode={"pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "skipInitContainer": True, "command": ["/usr/bin/sshd"]}]}}
    ),
    # what is in circulation
    "an unknown field of a container": with_container(commands=["python"]),
    "restartPolicy in the template": with_pod(restartPolicy="Never"),
    "a name that the server makes": a_job(),
    "ranks in quotes": a_job(successRules=[{"worker": ["0", 1]}]),
    "a rule that can never fire": a_job(successRules=[{}, {"nobody": [0]}, {"worker": []}, {"worker": [77]}]),
    # at the limits
    "no replicas": a_job(replicas(replicas=0)),
    "10,000 replicas": a_job(replicas("a", replicas=9_999), replicas("b", replicas=1)),
    "many types": a_job(*(replicas(f"t{number}") for number in range(64))),
    "a name of 63 characters": a_job(replicas("w" * 20, replicas=100), name="j" * 39),
    "a name with a dot, without services": a_job(name="job.v1"),
    "a name that begins with a digit, without services": a_job(name="1st-job"),
    "the longest type": a_job(replicas("w" * 59), name="j"),
    "two ports": a_job(**ports(HTTP, {"name": "ssh", "port": 22, "targetPort": "ssh"})),
    "one number for two protocols": a_job(**ports({"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"})),
    "a port without a name": a_job(**ports({"port": 80})),
    "a service without ports": a_job(service={}),
    "somebody else's": a_job(managedBy="kueue.x-k8s.io/multikueue"),
}


@pytest.mark.parametrize("job", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(apply, job):
    made = apply(job)
    assert [given["template"] for given in job["spec"]["replicaSpecs"]] == [kept["template"] for kept in made["spec"]["replicaSpecs"]]


def test_kubectl_applies_them_as_well(plane, genericjobs, namespace):
    jobs = [{**job, "metadata": {"name": f"job-{number}"}} for number, job in enumerate(ACCEPTED.values()) if "name" not in job["metadata"]]
    plane.kubectl("apply", "--namespace", namespace, "--filename=-", input=yaml.safe_dump_all(jobs))


def test_the_server_fills_in_defaults(apply):
    spec = apply(a_job(**ports({"port": 80})))["spec"]
    assert spec == {
        "replicaSpecs": [{"type": "worker", "replicas": 1, "restartPolicy": {"policy": "OnFailure"}, "template": TEMPLATE}],
        "cleanUpPolicy": "None",
        "service": {"ports": [{"port": 80, "protocol": "TCP"}]},
    }


# ------------------------------------------------------------------------------------------------ refused

REFUSED = {
    "no spec": ({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "job"}}, "spec"),
    "no types": (a_job() | {"spec": {}}, "spec.replicaSpecs"),
    "an empty list of types": (a_job() | {"spec": {"replicaSpecs": []}}, "spec.replicaSpecs"),
    "too many types": (a_job(*(replicas(f"t{number}") for number in range(65))), "spec.replicaSpecs"),
    "a type twice": (a_job(replicas(), replicas()), "spec.replicaSpecs[1]"),
    "no type": (a_job({"template": TEMPLATE}), "spec.replicaSpecs[0].type"),
    "no template": (a_job({"type": "worker"}), "spec.replicaSpecs[0].template"),
    "a type in capitals": (a_job(replicas("Worker")), "spec.replicaSpecs[0].type"),
    "a type that is too long": (a_job(replicas("w" * 60)), "spec.replicaSpecs[0].type"),
    "replicas below 0": (a_job(replicas(replicas=-1)), "spec.replicaSpecs[0].replicas"),
    "too many replicas": (a_job(replicas(replicas=10_001)), "spec.replicaSpecs[0].replicas"),
    "too many replicas in sum": (a_job(replicas("a", replicas=9_999), replicas("b", replicas=2)), "spec.replicaSpecs"),
    "replicas as text": (a_job(replicas(replicas="4")), "spec.replicaSpecs[0].replicas"),
    "a restart policy as text": (a_job(replicas(restartPolicy="Never")), "spec.replicaSpecs[0].restartPolicy"),
    "a restart policy of its own": (a_job(replicas(restartPolicy={"policy": "Sometimes"})), "spec.replicaSpecs[0].restartPolicy.policy"),
    "a limit below 0": (a_job(replicas(restartPolicy={"limit": -1})), "spec.replicaSpecs[0].restartPolicy.limit"),
    "a template that is none": (a_job(replicas(template="x")), "spec.replicaSpecs[0].template"),
    "rules that are no list": (a_job(successRules={"worker": [0]}), "spec.successRules"),
    "a rank below 0": (a_job(failureRules=[{"worker": [0, -1]}]), "spec.failureRules[0].worker[1]"),
    "a rank that is no number": (a_job(successRules=[{"worker": ["first"]}]), "spec.successRules[0].worker[0]"),
    "a rank with a fraction": (a_job(successRules=[{"worker": [0.5]}]), "spec.successRules[0].worker[0]"),
    "a clean-up policy of its own": (a_job(cleanUpPolicy="Some"), "spec.cleanUpPolicy"),
    "a port without a number": (a_job(**ports({"name": "http"})), "spec.service.ports[0].port"),
    "port 0": (a_job(**ports({"port": 0})), "spec.service.ports[0].port"),
    "a port twice": (a_job(**ports({"name": "a", "port": 80}, {"name": "b", "port": 80})), "spec.service.ports[1]"),
    "a port's name twice": (a_job(**ports({"name": "a", "port": 80}, {"name": "a", "port": 81})), "spec.service.ports"),
    "two ports without names": (a_job(**ports({"port": 80}, {"port": 81})), "spec.service.ports"),
    "a protocol of its own": (a_job(**ports({"port": 80, "protocol": "ICMP"})), "spec.service.ports[0].protocol"),
    "a priority above 100": (a_job(scheduler={"t9kScheduler": {"priority": 101}}), "spec.scheduler.t9kScheduler.priority"),
    "debug, misspelled": (a_job(runMode={"debug": {"enable": True}}), "spec.runMode.debug.enable"),
    "a field that there is not": (a_job(sucessRules=[]), "spec.sucessRules"),
    "a name too long for pods": (a_job(replicas("w" * 20, replicas=101), name="j" * 39), "metadata.name"),
    "a generated name too long for pods": (a_job(replicas("w" * 59)), "metadata.name"),
    "a name with a dot, with services": (a_job(name="job.v1", **ports(HTTP)), "metadata.name"),
    "a name that begins with a digit, with services": (a_job(name="1st-job", **ports(HTTP)), "metadata.name"),
}


@pytest.mark.parametrize(("job", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(apply, job, field):
    error = refusal(apply, job)
    assert field in error.message
    if error.causes:
        assert field in [cause.field for cause in error.causes]


# ------------------------------------------------------------------------------------------------ changes


RESUME = [{"type": "worker", "command": ["go", "on"]}]
FIXED = {
    "service": (ports(HTTP), ports({"name": "http", "port": 2223}), "spec.service"),
    "scheduler": ({"scheduler": {"t9kScheduler": {"queue": "a"}}}, {"scheduler": {"t9kScheduler": {"queue": "b"}}}, "spec.scheduler"),
    "managedBy": ({"managedBy": "a.example/x"}, {"managedBy": "b.example/x"}, "spec.managedBy"),
    "resumeSpecs": (
        {"runMode": {"pause": {"resumeSpecs": RESUME}}},
        {"runMode": {"pause": {"resumeSpecs": [{"type": "worker", "command": ["stop"]}]}}},
        "spec.runMode.pause.resumeSpecs",
    ),
}


@pytest.fixture
def change(server, genericjobs, namespace):
    """Change a job by a merge patch of its spec."""
    return lambda job, spec: server.patch(genericjobs, Key(namespace, job["metadata"]["name"]), {"spec": spec})


def without(spec):
    """The patch that removes what a spec has: the innermost of nested objects, so that those around it stay."""
    ((name, inner),) = spec.items()
    return {name: without(inner) if isinstance(inner, dict) and name in ("runMode", "pause") else None}


@pytest.mark.parametrize(("before", "after", "field"), FIXED.values(), ids=FIXED.keys())
def test_fixed_fields(apply, change, before, after, field):
    job = apply(a_job(**before))
    bare = apply(a_job(**{"runMode": {"pause": {}}} if "runMode" in before else {}))
    for error in (refusal(change, job, after), refusal(change, job, without(before)), refusal(change, bare, before)):
        assert [cause.field for cause in error.causes] == [field]
        assert f"{field}: Forbidden: cannot be changed" in error.message
    change(job, before)


def test_a_job_goes_on_when_its_pause_is_removed(apply, change):
    job = apply(a_job(runMode={"pause": {"enabled": True, "resumeSpecs": RESUME}}))
    assert change(job, {"runMode": {"pause": {"enabled": False}}})["spec"]["runMode"]["pause"]["resumeSpecs"] == RESUME_KEPT
    assert change(job, {"runMode": {"pause": None}})["spec"]["runMode"] == {}
    refusal(change, job, {"runMode": {"pause": {"resumeSpecs": RESUME}}})
    change(job, {"runMode": {"pause": {"enabled": True}}})


RESUME_KEPT = [{"type": "worker", "skipInitContainer": False, "command": ["go", "on"]}]

OTHERS = {
    "more replicas": [replicas("master"), replicas(replicas=5)],
    "fewer replicas": [replicas("master"), replicas(replicas=3)],
    "another type": [replicas("chief"), replicas(replicas=4)],
    "one type more": [replicas("master"), replicas(replicas=4), replicas("ps")],
    "one type less": [replicas(replicas=4)],
}


@pytest.mark.parametrize("wanted", OTHERS.values(), ids=OTHERS.keys())
def test_types_and_replicas_change_only_while_the_job_is_paused(apply, change, server, genericjobs, namespace, wanted):
    def phase(text):
        server.patch(genericjobs, Key(namespace, job["metadata"]["name"]), {"status": {"phase": text}}, subresource="status")

    job = apply(a_job(replicas("master"), replicas(replicas=4)))
    asked = {"replicaSpecs": copy.deepcopy(wanted)}
    assert "spec.replicaSpecs: Forbidden" in refusal(change, job, asked).message
    phase("Paused")
    refusal(change, job, asked)  # nobody asked for a pause, whatever the status says
    change(job, {"runMode": {"pause": {"enabled": True}}})
    for other in PHASES:
        if other != "Paused":
            phase(other)
            refusal(change, job, asked)
    phase("Paused")
    changed = change(job, asked)["spec"]["replicaSpecs"]
    assert [(one["type"], one["replicas"]) for one in changed] == [(one["type"], one.get("replicas", 1)) for one in wanted]


def test_limits_hold_for_changes_as_well(apply, change, server, genericjobs, namespace):
    job = apply(a_job(replicas("w" * 20, replicas=100), name="j" * 39, runMode={"pause": {"enabled": True}}))
    server.patch(genericjobs, Key(namespace, "j" * 39), {"status": {"phase": "Paused"}}, subresource="status")
    assert "metadata.name: Invalid" in refusal(change, job, {"replicaSpecs": [replicas("w" * 20, replicas=101)]}).message
    many = {"replicaSpecs": [replicas("a", replicas=9_999), replicas("b", replicas=9_999)]}
    assert "spec.replicaSpecs: Invalid" in refusal(change, job, many).message


def test_everything_else_can_be_changed_and_types_may_come_in_another_order(apply, change):
    job = apply(a_job(replicas("master"), replicas(replicas=4)))
    other = {"spec": {"containers": [{"name": "other", "image": "app:2"}]}}
    change(job, {"replicaSpecs": [replicas(replicas=4, template=other, restartPolicy={"policy": "Never"}), replicas("master")]})
    change(job, {"successRules": [{"worker": [0]}], "failureRules": [{"master": [0]}], "cleanUpPolicy": "All", "runMode": {"debug": {}}})


def drop_rules(schema):
    schema.pop("x-kubernetes-validations", None)
    for below in schema.get("properties", {}).values():
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
        a_job(name="1st", **ports(HTTP)),
        a_job(replicas("a", replicas=9_999), replicas("b", replicas=9_999)),
        a_job(**ports({"port": 80}, {"port": 81})),
        a_job(**ports({"name": "a", "port": 80}, {"name": "a", "port": 81})),
    ]
    try:
        key = Key("", f"{PLURAL}.{GROUP}")
        older = server.get(CUSTOM_RESOURCE_DEFINITIONS, key)
        drop_rules(older["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        server.replace(CUSTOM_RESOURCE_DEFINITIONS, key, older)
        jobs = [eventually(lambda job=job: passes(job)) for job in bad]
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
STATUS = GenericJobStatus(
    phase="Running",
    conditions=(Condition("Running", "True", "Running", "All pods are running normally.", NOW),),
    ready="1/2",
    restarts=3,
    aggregate=Aggregate(running=1, failed=1),
    tasks=(
        Task(
            "worker",
            restart_count=3,
            succeeded_ranks="0",
            failed_ranks="1",
            never_started_ranks="2",
            replicas=(Replica("job-worker-1", "uid", "Failed", (ContainerStatus("main", "Terminated", 137, "OOMKilled"),)),),
        ),
    ),
    observed_generation=1,
    start_time=NOW,
    completion_time=NOW,
    epoch=1,
)


def test_the_server_keeps_every_field_of_a_status_and_adds_none(apply, server, genericjobs, namespace):
    job = apply(a_job())
    told = as_json(STATUS)
    kept = server.replace_status(genericjobs, Key(namespace, job["metadata"]["name"]), job | {"status": told})
    assert kept["status"] == told
    assert all(getattr(STATUS, name) for name in STATUS.__struct_fields__), "a new field of the status is missing in this test"


def test_an_empty_status_stays_as_it_is(apply, server, genericjobs, namespace):
    job = apply(a_job())
    told = as_json(GenericJobStatus())
    assert server.replace_status(genericjobs, Key(namespace, job["metadata"]["name"]), job | {"status": told})["status"] == told
