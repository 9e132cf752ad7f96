"""What users may write, and what it means."""

import pytest
from pydantic import ValidationError

from genericjob.api.spec import MAX_REPLICAS, GenericJobSpec, InvalidSpecError, parse

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def a_spec(*types, **more):
    replicas = [{"type": type, "template": TEMPLATE} for type in types or ("worker",)]
    return {"replicaSpecs": replicas, **more}


def complaint(spec):
    with pytest.raises(InvalidSpecError) as caught:
        parse(spec)
    return str(caught.value)


def test_what_is_not_said_has_the_documented_defaults():
    spec = parse(a_spec())
    (worker,) = spec.replica_specs
    assert (worker.replicas, worker.restart_policy.policy, worker.restart_policy.limit) == (1, "OnFailure", None)
    assert (spec.clean_up_policy, spec.success_rules, spec.failure_rules) == ("None", (), ())
    assert spec.service is spec.scheduler is spec.run_mode is spec.managed_by is None


def test_ranks_are_numbers_or_digits_in_quotes():
    assert parse(a_spec(successRules=[{"worker": [0, "1", "007"]}])).success_rules == ({"worker": (0, 1, 7)},)


@pytest.mark.parametrize("rank", [-1, "-1", "+1", "1_0", "\u0661", "", " 1", "one", 1.5, True, None])
def test_nothing_else_is_a_rank(rank):
    assert complaint(a_spec(successRules=[{"worker": [rank]}])).startswith("spec.successRules[0].worker[0]: ")


def test_every_field_is_written_as_in_the_vendors_documents():
    spec = parse(
        a_spec(
            service={"ports": [{"name": "http", "port": 2222, "targetPort": "web", "appProtocol": "http"}]},
            cleanUpPolicy="Unfinished",
            scheduler={"t9kScheduler": {"queue": "big", "priority": 50}},
            runMode={
                "debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True, "command": ["/usr/bin/sshd"]}]},
                "pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["a"], "args": ["b"]}]},
            },
        )
    )
    assert spec.service.ports[0].target_port == "web"
    assert spec.scheduler.t9k_scheduler.queue == "big"
    assert spec.run_mode.debug.replica_specs[0].skip_init_container
    assert spec.run_mode.pause.resume_specs[0].args == ("b",)


def test_templates_are_left_as_they_are():
    odd = {"spec": {"containers": [{"commands": ["x"], "resources": {"limits": {"cpu": 4}}}]}, "x": None}
    spec = parse({"replicaSpecs": [{"type": "worker", "template": odd}]})
    assert spec.replica_specs[0].template == odd


def test_fields_of_newer_versions_are_no_error():
    assert parse(a_spec(somethingNew=1)).total == 1


def test_replicas_are_found_by_type_and_counted():
    spec = parse({"replicaSpecs": [{"type": "ps", "replicas": 2}, {"type": "worker", "replicas": 0}]})
    assert spec.replicas("ps").replicas == 2
    assert spec.replicas("launcher") is None
    assert spec.total == 2


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (None, "spec: "),
        ({}, "spec.replicaSpecs: "),
        ({"replicaSpecs": []}, "spec.replicaSpecs: "),
        ({"replicaSpecs": [{}]}, "spec.replicaSpecs[0].type: "),
        (a_spec("Worker"), "spec.replicaSpecs[0].type: "),
        (a_spec("ok", "-"), "spec.replicaSpecs[1].type: "),
        ({"replicaSpecs": [{"type": "w", "replicas": -1}]}, "spec.replicaSpecs[0].replicas: "),
        ({"replicaSpecs": [{"type": "w", "restartPolicy": "Never"}]}, "spec.replicaSpecs[0].restartPolicy: "),
        ({"replicaSpecs": [{"type": "w", "restartPolicy": {"policy": "never"}}]}, "spec.replicaSpecs[0].restartPolicy.policy: "),
        (a_spec(scheduler={"t9kScheduler": {"priority": 101}}), "spec.scheduler.t9kScheduler.priority: "),
        (a_spec(cleanUpPolicy="Some"), "spec.cleanUpPolicy: "),
    ],
)
def test_a_complaint_begins_with_the_field(spec, field):
    assert complaint(spec).startswith(field)


def test_the_replicas_of_all_types_together_are_limited():
    def both(first, second):
        return {"replicaSpecs": [{"type": "a", "replicas": first}, {"type": "b", "replicas": second}]}

    assert parse(both(MAX_REPLICAS - 1, 1)).total == MAX_REPLICAS
    assert "spec.replicaSpecs: " in complaint(both(MAX_REPLICAS, 1))


def test_a_spec_is_a_value():
    spec = parse(a_spec())
    with pytest.raises(ValidationError):
        spec.clean_up_policy = "All"
    assert spec == GenericJobSpec.model_validate(a_spec())
