"""What an object that is found under one of our names is to a job."""

import pytest
from msgspec import structs

from genericjob.api.names import COMPONENT, COMPONENT_LABEL, EPOCH_ANNOTATION, JOB_LABEL, JobIdentity
from genericjob.jobs.assembly import PODS, bare_name
from genericjob.jobs.bodies import Bodies, accepts_pod
from unit.jobs import NAME, NOW, UID, a_job, a_pod

JOB = JobIdentity("team", NAME, UID)
OURS = structs.replace(a_pod("train-worker-0"), labels={JOB_LABEL: NAME, COMPONENT_LABEL: COMPONENT}, annotations={EPOCH_ANNOTATION: "0"})


@pytest.mark.parametrize(
    ("why", "pod", "standing"),
    [
        ("it is the one we want", OURS, "ours"),
        ("it is ours and going", structs.replace(OURS, deleted=NOW), "wait"),
        ("it belongs to an earlier run", structs.replace(OURS, annotations={EPOCH_ANNOTATION: "1"}), "wait"),
        ("it belongs to an earlier job of our name", structs.replace(OURS, owner_uid="earlier"), "wait"),
        ("nobody owns it", structs.replace(OURS, owner_uid=""), "foreign"),
        ("it belongs to a job of another name", structs.replace(OURS, owner_uid="x", labels=OURS.labels | {JOB_LABEL: "x"}), "foreign"),
        ("we cannot see it without its label", structs.replace(OURS, labels={}), "foreign"),
    ],
)
def test_a_pod_under_our_name(why, pod, standing):
    assert accepts_pod(JOB, 0)(pod) == standing, why


def test_bodies_are_compiled_once_per_generation():
    ids = iter(f"marker-{n}" for n in range(100))
    bodies = Bodies(pods=PODS, host=bare_name, new_id=lambda: next(ids))
    builder = a_job().type("worker", 2)
    first = bodies.of(builder.build())
    assert bodies.of(builder.build()) is first
    assert bodies.of(builder.generation(2).build()) is not first
