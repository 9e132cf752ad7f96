"""What is created for a rank, and what an object that is found under its name is to the job."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from genericjob.api.names import (
    ATTEMPT_ANNOTATION,
    CHARGED_ANNOTATION,
    COMPONENT,
    COMPONENT_LABEL,
    EPOCH_ANNOTATION,
    JOB_LABEL,
    JobIdentity,
    Rank,
)
from genericjob.jobs.bodies import Bodies, accepts_pod, bare_name
from genericjob.jobs.resource import PODS, SERVICES
from unit.jobs import NAME, NOW, UID, a_job, a_pod

JOB = JobIdentity("team", NAME, UID)
PRESENT = {EPOCH_ANNOTATION: "2", ATTEMPT_ANNOTATION: "5"}
OURS = structs.replace(a_pod("train-worker-0"), labels={JOB_LABEL: NAME, COMPONENT_LABEL: COMPONENT}, annotations=PRESENT)


def but(**fields):
    return structs.replace(OURS, **fields)


@pytest.mark.parametrize(
    ("why", "pod", "standing"),
    [
        ("it is the one we want", OURS, "ours"),
        ("it is ours and going", but(deleted=NOW), "wait"),
        ("it belongs to an earlier run", but(annotations=PRESENT | {EPOCH_ANNOTATION: "1"}), "wait"),
        ("it is an earlier try of the rank", but(annotations=PRESENT | {ATTEMPT_ANNOTATION: "4"}), "wait"),
        ("it is of a run that we do not know of yet", but(annotations=PRESENT | {EPOCH_ANNOTATION: "3"}), "wait"),
        ("it is of no run", but(annotations={ATTEMPT_ANNOTATION: "5"}), "wait"),
        ("it is no try", but(annotations={EPOCH_ANNOTATION: "2"}), "wait"),
        ("numbers have one spelling", but(annotations=PRESENT | {ATTEMPT_ANNOTATION: "05"}), "wait"),
        ("it belongs to an earlier job of our name", but(owner_uid="earlier"), "wait"),
        ("nobody owns it", but(owner_uid=""), "foreign"),
        ("it belongs to a job of another name", but(owner_uid="x", labels=OURS.labels | {JOB_LABEL: "x"}), "foreign"),
        ("we cannot see it without its label", but(labels={}), "foreign"),
        ("we cannot see it without its label, even if it goes", but(labels={}, deleted=NOW), "foreign"),
    ],
)
def test_a_pod_under_our_name(why, pod, standing):
    assert accepts_pod(JOB, 2, 5)(pod) == standing, why


# ------------------------------------------------------------------------------------------------ compiled once


@pytest.fixture
def bodies():
    ids = iter(f"marker-{n}" for n in range(100))
    return Bodies(pods=PODS, host=bare_name, new_id=lambda: next(ids))


def a_trainer():
    template = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["train"]}]}}
    resume = {"pause": {"resumeSpecs": [{"type": "worker", "args": ["--from=$(rank)"]}]}}
    return a_job().type("worker", 2, template=template).having(runMode=resume, service={"ports": [{"port": 1}]})


def test_bodies_are_compiled_once_per_generation(bodies):
    builder = a_job().type("worker", 2)
    first = bodies.of(builder.build(), resumed=False)
    assert bodies.of(builder.build(), resumed=False) is first
    assert bodies.of(builder.generation(2).build(), resumed=False) is not first


def test_a_job_that_went_on_has_other_bodies_in_the_same_generation(bodies):
    job = a_trainer().build()
    before, after = (bodies.of(job, resumed=resumed) for resumed in (False, True))
    assert before is not after
    assert bodies.of(job, resumed=True) is after


def test_of_a_job_only_the_latest_generation_is_remembered(bodies):
    other = a_job("other").type("worker", 1).build()
    other = replace(other, identity=JobIdentity("team", "other", "another-uid"))
    kept = bodies.of(other, resumed=False)
    small = Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker", most=3 * kept.weight)
    kept = small.of(other, resumed=False)
    for generation in range(1, 5):
        small.of(a_job().type("worker", 2).generation(generation).build(), resumed=False)
    assert small.of(other, resumed=False) is kept


@pytest.mark.parametrize("resumed", [False, True])
def test_a_job_that_is_gone_is_forgotten(bodies, resumed):
    job = a_trainer().build()
    before = bodies.of(job, resumed=resumed)
    bodies.forget("another-uid")
    assert bodies.of(job, resumed=resumed) is before
    bodies.forget(UID)
    assert bodies.of(job, resumed=resumed) is not before


@pytest.mark.parametrize(("resumed", "args"), [(False, None), (True, ["--from=1"])])
def test_the_create_of_a_pod(bodies, resumed, args):
    create = bodies.of(a_trainer().build(), resumed=resumed).pod(Rank("worker", 1), epoch=2, attempt=5, charged=3)
    sent = json.loads(create.body())
    assert (create.resource, create.namespace, create.name, create.owner_uid) == (PODS, "team", "train-worker-1", UID)
    assert sent["metadata"]["annotations"] == PRESENT | {CHARGED_ANNOTATION: "3"}
    assert sent["spec"]["containers"][0].get("args") == args
    assert create.accept(OURS) == "ours"
    assert create.accept(but(annotations=PRESENT | {ATTEMPT_ANNOTATION: "4"})) == "wait"


@pytest.mark.parametrize("resumed", [False, True])
def test_the_create_of_a_service(bodies, resumed):
    create = bodies.of(a_trainer().build(), resumed=resumed).service(Rank("worker", 1))
    assert (create.resource, create.namespace, create.name, create.owner_uid) == (SERVICES, "team", "train-worker-1", UID)
    assert json.loads(create.body())["spec"]["selector"] == {"genericjob": NAME, "genericjob-replica": "train-worker-1"}
