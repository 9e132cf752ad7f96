"""What users may write, and what it means."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from genericjob.api.names import NAME_LIMIT, replica_name
from genericjob.api.spec import (
    LABEL,
    MAX_EXIT_CODES,
    MAX_REPLICAS,
    MAX_RULES,
    MAX_SECONDS,
    MAX_TYPE_LENGTH,
    MAX_TYPES,
    PORT_NAME,
    GenericJobSpec,
    InvalidSpecError,
    parse,
)

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def a_spec(*types, **more):
    replicas = [{"type": type, "template": TEMPLATE} for type in types or ("worker",)]
    return {"replicaSpecs": replicas, **more}


def with_restarts(**policy):
    return {"replicaSpecs": [{"type": "worker", "restartPolicy": policy}]}


def restarts(**policy):
    return parse(with_restarts(**policy)).replica_specs[0].restart_policy


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
    assert (worker.restart_policy.scope, worker.restart_policy.exit_codes.never_restart) == ("Replica", ())
    assert worker.restart_policy.exit_codes.not_charged == ()
    assert spec.ttl_seconds_after_finished is spec.active_deadline_seconds is None
    assert (spec.suspend, spec.paused, spec.debugged) == (False, False, False)


def test_ranks_are_numbers_or_digits_in_quotes():
    assert parse(a_spec(successRules=[{"worker": [0, "1", "007"]}])).success_rules == ({"worker": (0, 1, 7)},)


def test_a_rule_names_ranges_and_words_beside_numbers():
    rule = {"a": [7, "0-99", "5-5", "9-0", "0-9999"], "b": ["all"], "c": ["any"], "d": []}
    (found,) = parse(a_spec(failureRules=[rule])).failure_rules
    assert found == {"a": (7, range(100), range(5, 6), range(9, 1), range(10_000)), "b": ("all",), "c": ("any",), "d": ()}
    assert (found["a"][3].start, found["a"][3].stop) == (9, 1)  # backwards, and not forgotten how


@pytest.mark.parametrize("items", [["any", 0], [0, "any"], ["0-9", "any"], ["all", 0], ["all", "0-9"], ["any", "all"], ["all", "all"]])
def test_a_word_stands_alone(items):
    told = complaint(a_spec(successRules=[{"worker": [0]}, {"worker": items}]))
    assert told.startswith("spec.successRules[1].worker: ")
    assert "has to stand alone" in told


ODD = [
    "ALL",
    "Any",
    "each",
    "*",
    "0-",
    "-",
    "0--1",
    "00-01",
    "1-02",
    "0 - 9",
    " 0-9",
    "0-9 ",
    "0-10000",
    "0-9\n",
    "0..9",
    "0:9",
    "0-9-12",
    "0,1",
    "\u0660-9",
]


@pytest.mark.parametrize("rank", [-1, "-1", "+1", "1_0", "\u0661", "", " 1", "one", 1.5, True, None, [0], *ODD])
def test_nothing_else_is_a_rank(rank):
    assert complaint(a_spec(successRules=[{"worker": [rank]}])).startswith("spec.successRules[0].worker[0]: ")


def test_every_field_is_written_as_in_the_vendors_documents():
    spec = parse(
        a_spec(
            service={"ports": [{"name": "http", "port": 2222, "targetPort": "web", "appProtocol": "http"}]},
            cleanUpPolicy="Unfinished",
            suspend=True,
            ttlSecondsAfterFinished=0,
            activeDeadlineSeconds=60,
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
    assert (spec.suspend, spec.ttl_seconds_after_finished, spec.active_deadline_seconds) == (True, 0, 60)


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
        (with_restarts(scope="Type"), "spec.replicaSpecs[0].restartPolicy.scope: "),
        (with_restarts(policy="Always", scope="Job"), "spec.replicaSpecs[0].restartPolicy.scope: "),
        (with_restarts(exitCodes={"neverRestart": [0]}), "spec.replicaSpecs[0].restartPolicy.exitCodes.neverRestart[0]: "),
        (with_restarts(exitCodes={"notCharged": [1, 256]}), "spec.replicaSpecs[0].restartPolicy.exitCodes.notCharged[1]: "),
        (with_restarts(exitCodes={"neverRestart": [2, 1], "notCharged": [1]}), "spec.replicaSpecs[0].restartPolicy.exitCodes.notCharged: "),
        (a_spec(service={"ports": [{"port": 80}, {"port": 81}]}), "spec.service.ports: "),
        (a_spec(service={"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}), "spec.service.ports: "),
        (a_spec(service={"ports": [{"port": 80, "appProtocol": "a b"}]}), "spec.service.ports[0].appProtocol: "),
        (a_spec(scheduler={"t9kScheduler": {"queue": "my queue"}}), "spec.scheduler.t9kScheduler.queue: "),
        (a_spec(suspend="later"), "spec.suspend: "),
        (a_spec(managedBy=""), "spec.managedBy: "),
    ],
)
def test_a_complaint_begins_with_the_field(spec, field):
    assert complaint(spec).startswith(field)


def test_the_replicas_of_all_types_together_are_limited():
    def both(first, second):
        return {"replicaSpecs": [{"type": "a", "replicas": first}, {"type": "b", "replicas": second}]}

    assert parse(both(MAX_REPLICAS - 1, 1)).total == MAX_REPLICAS
    assert "spec.replicaSpecs: " in complaint(both(MAX_REPLICAS, 1))


@pytest.mark.parametrize(
    ("spec", "field", "most"),
    [
        (lambda number: a_spec(*(f"t{one}" for one in range(number))), "replicaSpecs", MAX_TYPES),
        (lambda number: a_spec("w" * number), "replicaSpecs[0].type", MAX_TYPE_LENGTH),
        (lambda number: a_spec(successRules=[{"worker": [0]}] * number), "successRules", MAX_RULES),
        (lambda number: a_spec(failureRules=[{"worker": [0] * number}]), "failureRules[0].worker", MAX_REPLICAS),
        (lambda number: a_spec(ttlSecondsAfterFinished=number), "ttlSecondsAfterFinished", MAX_SECONDS),
        (lambda number: a_spec(activeDeadlineSeconds=number), "activeDeadlineSeconds", MAX_SECONDS),
        (
            lambda number: with_restarts(exitCodes={"notCharged": [1] * number}),
            "replicaSpecs[0].restartPolicy.exitCodes.notCharged",
            MAX_EXIT_CODES,
        ),
    ],
)
def test_limits_are_reached_and_not_passed(spec, field, most):
    parse(spec(most))
    assert complaint(spec(most + 1)).startswith(f"spec.{field}: ")


@pytest.mark.parametrize(("field", "least"), [("ttlSecondsAfterFinished", 0), ("activeDeadlineSeconds", 1)])
def test_times_have_a_least(field, least):
    parse(a_spec(**{field: least}))
    assert complaint(a_spec(**{field: least - 1})).startswith(f"spec.{field}: ")


def test_a_job_may_have_a_hundred_types():
    assert parse(a_spec(*(f"t{number}" for number in range(100)))).total == 100


# ------------------------------------------------------------------------------------------------ restarts


@pytest.mark.parametrize(
    ("policy", "limit", "most"),
    [
        ("Never", None, 0),
        ("Never", 5, 0),
        ("OnFailure", None, 0),
        ("OnFailure", 0, 0),
        ("OnFailure", 3, 3),
        ("Always", None, None),
        ("Always", 0, 0),
        ("Always", 3, 3),
    ],
)
def test_how_often_is_the_most(policy, limit, most):
    given = {"policy": policy} if limit is None else {"policy": policy, "limit": limit}
    assert restarts(**given).most == most


def test_a_limit_alone_is_one_of_failures():
    assert (restarts(limit=2).policy, restarts(limit=2).most) == ("OnFailure", 2)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_the_whole_job_is_started_again_under_policies_that_let_it_end(policy):
    assert restarts(policy=policy, scope="Job").scope == "Job"


def test_exit_codes_are_in_one_list_or_the_other():
    codes = restarts(exitCodes={"neverRestart": [1, 1, 255], "notCharged": [143]}).exit_codes
    assert (codes.never_restart, codes.not_charged) == ((1, 1, 255), (143,))
    assert "143 is in neverRestart as well" in complaint(with_restarts(exitCodes={"neverRestart": [143], "notCharged": [130, 143]}))


# ------------------------------------------------------------------------------------------------ modes


@pytest.mark.parametrize(
    ("given", "paused"),
    [
        ({}, False),
        ({"suspend": False}, False),
        ({"suspend": True}, True),
        ({"runMode": {}}, False),
        ({"runMode": {"pause": {}}}, False),
        ({"runMode": {"pause": {"enabled": False}}}, False),
        ({"runMode": {"pause": {"enabled": True}}}, True),
        ({"runMode": {"pause": {"enabled": False}}, "suspend": True}, True),
        ({"runMode": {"pause": {"enabled": True}}, "suspend": False}, True),
        ({"runMode": {"debug": {"enabled": True}}}, False),
    ],
)
def test_either_switch_pauses(given, paused):
    assert parse(a_spec(**given)).paused is paused


@pytest.mark.parametrize(
    ("mode", "debugged"),
    [
        (None, False),
        ({}, False),
        ({"debug": {}}, False),
        ({"debug": {"enabled": False, "replicaSpecs": [{"type": "worker"}]}}, False),
        ({"debug": {"enabled": True}}, True),
        ({"debug": {"enabled": True}, "pause": {"enabled": True}}, True),
        ({"pause": {"enabled": True}}, False),
    ],
)
def test_debugged(mode, debugged):
    assert parse(a_spec(runMode=mode)).debugged is debugged


# ------------------------------------------------------------------------------------------------ names

DNS_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


@given(st.from_regex(DNS_1035, fullmatch=True), st.from_regex(LABEL, fullmatch=True), st.integers(0, MAX_REPLICAS - 1))
def test_no_type_can_spoil_the_name_of_a_service(job, type, rank):
    """Where admission lets the name of a job pass, it need not look at its types: all but the length follows from their form."""
    name = replica_name(job, type, rank)
    assert DNS_1035.fullmatch(name)
    assert len(replica_name("j", "w" * MAX_TYPE_LENGTH, 9)) == NAME_LIMIT


@pytest.mark.parametrize("name", ["web", "a", "9-to-5", "h2c", "1a", "a-b-c", "0a1"])
def test_a_name_of_a_port(name):
    assert re.fullmatch(PORT_NAME, name)


@pytest.mark.parametrize("name", ["", "80", "-a", "a-", "a--b", "8--a", "Web", "a_b", "8-0", "a.b"])
def test_no_name_of_a_port(name):
    assert not re.fullmatch(PORT_NAME, name)


def test_a_spec_is_a_value():
    spec = parse(a_spec())
    with pytest.raises(ValidationError):
        spec.clean_up_policy = "All"
    assert spec == GenericJobSpec.model_validate(a_spec())
