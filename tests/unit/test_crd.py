"""The CRD that is made of the models."""

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api import crd
from genericjob.api.admission import RULES
from genericjob.api.spec import parse
from genericjob.local import MemoryApi
from genericjob.local.checks import problems
from genericjob.local.schema import Schema, fill
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, raw

COMMITTED = Path(__file__).parents[2] / "manifests" / "crd" / "genericjobs.yaml"
SCHEMA = crd.schema()
SPEC = SCHEMA["properties"]["spec"]
STRUCTURAL_SPEC = Schema(SPEC)
STATUS = SCHEMA["properties"]["status"]
JOBS = raw("batch.tensorstack.dev", "v1beta1", "genericjobs", "GenericJob")
MINIMAL = {"replicaSpecs": [{"type": "worker", "template": {"spec": {}}}]}


def fields(schema, path=""):
    """Every schema below this one, with its path."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}", below
        yield from fields(below, f"{path}.{name}")
    for name, step in (("items", "[]"), ("additionalProperties", "{}")):
        if name in schema:
            yield f"{path}{step}", schema[name]
            yield from fields(schema[name], f"{path}{step}")


def paths(schema, wanted):
    return {path for path, below in fields(schema) if wanted(below)}


# ------------------------------------------------------------------------------------------------ as a file


def test_the_committed_file_is_current():
    assert COMMITTED.read_text() == crd.manifest(), "the models have changed: run `make manifests`"


def test_the_file_says_what_the_definition_says():
    assert yaml.safe_load(crd.manifest()) == crd.definition()


def test_the_file_has_no_references():
    assert not any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(crd.manifest()))


# ------------------------------------------------------------------------------------------------ as a structural schema


def test_every_field_has_one_type():
    assert paths(SCHEMA, lambda below: ("type" in below) == ("x-kubernetes-int-or-string" in below)) == set()


def test_nothing_is_left_of_references_and_titles():
    assert paths(SCHEMA, lambda below: below.keys() & {"$ref", "$defs", "title", "nullable"}) == set()
    choices = paths(SCHEMA, lambda below: "anyOf" in below and "x-kubernetes-int-or-string" not in below)
    assert choices == {".spec.successRules[]{}", ".spec.failureRules[]{}"}  # where a word stands alone


def test_every_field_that_has_a_name_is_explained():
    named = {path for path, below in fields(SCHEMA) if not path.endswith(("]", "}")) and "description" not in below}
    assert named == {".metadata", ".metadata.name"}  # the server has its own words for these


def test_everything_in_the_spec_has_a_limit_so_that_the_server_can_work_out_the_cost_of_rules():
    assert paths(SPEC, lambda below: below.get("type") == "array" and "maxItems" not in below) == set()
    assert paths(SPEC, lambda below: below.get("type") == "string" and "maxLength" not in below and "enum" not in below) == set()
    assert paths(SPEC, lambda below: "additionalProperties" in below and "maxProperties" not in below) == set()


def test_templates_are_open_and_nothing_else_is():
    assert paths(SCHEMA, lambda below: "x-kubernetes-preserve-unknown-fields" in below) == {".spec.replicaSpecs[].template"}


def test_ranks_and_target_ports_are_numbers_or_texts():
    assert paths(SCHEMA, lambda below: below.get("x-kubernetes-int-or-string")) == {
        ".spec.successRules[]{}[]",
        ".spec.failureRules[]{}[]",
        ".spec.service.ports[].targetPort",
    }


def test_lists_of_the_status_are_atomic_but_for_conditions():
    kinds = {path: below.get("x-kubernetes-list-type") for path, below in fields(STATUS) if below.get("type") == "array"}
    assert kinds.pop(".conditions") == "map"
    assert kinds
    assert set(kinds.values()) == {"atomic"}


def test_what_ranks_have_in_common_is_a_map_of_texts():
    maps = {path: below["additionalProperties"] for path, below in fields(STATUS) if "additionalProperties" in below}
    assert maps.pop(".tasks[].failedExitCodes") == {"type": "integer"}
    assert maps.keys() == {f".tasks[].{name}" for name in ("chargedRestarts", "unchargedRestarts", "restartsInARow", "lastRestarts")}
    assert [*maps.values()] == [{"type": "string"}] * 4


def test_the_old_name_of_a_list_is_marked_as_such():
    task = dict(fields(STATUS))[".tasks[]"]["properties"]
    assert task["status"]["description"].startswith("Deprecated: another name of replicas")
    assert task["status"] | {"description": ""} == task["replicas"] | {"description": ""}


def test_the_server_fills_in_nothing_of_the_status():
    assert paths(STATUS, lambda below: "default" in below) == set()


@pytest.mark.parametrize(("place", "rule"), [(place, rule) for place, rules in RULES.items() for rule in rules])
def test_a_rule_speaks_of_a_field_that_exists(place, rule):
    assert ".".join(("", *filter(None, (place, rule.field)))) in dict(fields(SCHEMA))


# ------------------------------------------------------------------------------------------------ held to the models


def test_a_type_that_is_none_or_several_is_an_error_of_the_model():
    with pytest.raises(TypeError, match="one type"):
        crd.structural({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, defaults=True)


def test_defaults_are_those_of_the_models():
    filled = copy.deepcopy(MINIMAL) | {
        "service": {"ports": [{"port": 80}]},
        "scheduler": {"t9kScheduler": {}},
        "runMode": {"debug": {"replicaSpecs": [{"type": "worker"}]}, "pause": {"resumeSpecs": [{"type": "worker"}]}},
    }
    plain = copy.deepcopy(filled)
    fill(filled, STRUCTURAL_SPEC)
    assert filled["replicaSpecs"][0] == {
        "type": "worker",
        "replicas": 1,
        "restartPolicy": {"policy": "OnFailure", "scope": "Replica"},
        "template": {"spec": {}},
    }
    assert filled["scheduler"]["t9kScheduler"] == {"queue": "default", "priority": 0}
    assert parse(filled) == parse(plain)


def test_a_limit_of_restarts_that_was_not_given_stays_absent():
    spec = {"replicaSpecs": [{"type": "worker", "restartPolicy": {"policy": "Always"}}]}
    fill(spec, STRUCTURAL_SPEC)
    assert spec["replicaSpecs"][0]["restartPolicy"] == {"policy": "Always", "scope": "Replica"}


WORDS = st.sampled_from(["", "worker", "ps", "a" * 60, "A", "x-", "0", "12", "²", "1 "])
RANKS = st.integers(-1, 20_000) | WORDS
NAMED = RANKS | st.sampled_from(["all", "any", "0-1", "3-0", "0-9999", "00-1", "0-10000", "1-", " 0-1", "each"])
SPECS = st.fixed_dictionaries(
    {
        "replicaSpecs": st.lists(
            st.fixed_dictionaries(
                {"type": WORDS, "template": st.just({})},
                optional={
                    "replicas": st.integers(-1, 10_001),
                    "restartPolicy": st.fixed_dictionaries(
                        {},
                        optional={
                            "policy": st.sampled_from(["Never", "Always", "no"]),
                            "limit": st.integers(-1, 1),
                            "scope": st.sampled_from(["Replica", "no"]),
                            "exitCodes": st.fixed_dictionaries({}, optional={"notCharged": st.lists(st.integers(-1, 257), max_size=2)}),
                        },
                    ),
                },
            ),
            max_size=1,
        )
    },
    optional={
        "successRules": st.lists(st.dictionaries(WORDS, st.lists(NAMED, max_size=2), max_size=2), max_size=2),
        "service": st.fixed_dictionaries(
            {},
            optional={
                "ports": st.lists(
                    st.fixed_dictionaries(
                        {"port": st.integers(0, 70_000)},
                        optional={"name": WORDS, "targetPort": RANKS | st.just(80), "protocol": st.sampled_from(["TCP", "tcp"])},
                    ),
                    max_size=1,
                )
            },
        ),
        "managedBy": WORDS,
        "suspend": st.booleans() | WORDS,
        "ttlSecondsAfterFinished": st.integers(-1, 1) | st.integers(2**31 - 1, 2**31),
        "activeDeadlineSeconds": st.integers(-1, 1) | st.integers(2**31 - 1, 2**31),
    },
)
"""Without what only rules in CEL refuse: they see several fields, and these lists have one element."""


@given(SPECS)
def test_the_controller_can_read_whatever_the_server_lets_pass(spec):
    if not any(problems(spec, STRUCTURAL_SPEC)):
        parse(spec)


# ------------------------------------------------------------------------------------------------ in the embedded engine


def test_the_api_in_memory_takes_the_definition_and_names_the_field_of_a_bad_job():
    def create(spec):
        return api.create(
            JOBS, {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"generateName": "job-"}, "spec": spec}, "default"
        )

    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    assert create(MINIMAL).object["spec"]["replicaSpecs"][0]["replicas"] == 1
    with pytest.raises(ApiError, match=r"spec\.replicaSpecs\[0\]\.replicas"):
        create({"replicaSpecs": [{"type": "worker", "replicas": -1, "template": {}}]})
