"""GenericJob as a kind of the API in memory: it refuses what a real server does, for the same field and in the same words.

The same manifests go to a real server in `tests/e2e/test_crd.py`.
"""

import pytest

from genericjob.api import crd
from genericjob.api.admission import RULES
from genericjob.api.names import PAUSE_PHASES, PHASES
from genericjob.api.spec import parse
from genericjob.api.validation import broken
from genericjob.jobs.admission import POLICIES
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key
from harness.corpus import (
    Writer,
    manifests,
    refusal,
    see_that_it_became,
    see_that_replicas_are_fixed_in,
    see_that_the_last_is_refused,
)
from harness.definitions import GENERIC_JOBS


def of(folder):
    return pytest.mark.parametrize("manifest", manifests(folder), ids=str)


def server(policies):
    api = MemoryApi(policies=policies)
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    return api


def passes_without_rules(manifest):
    try:
        Writer(server({}), "default").create(manifest.job)
    except ApiError:
        return False
    return True


BY_RULES = [manifest for manifest in manifests("refused") if passes_without_rules(manifest)]


@pytest.fixture
def writer():
    return Writer(server(POLICIES), "default")


@of("accepted")
def test_what_is_accepted(writer, manifest):
    made = writer.create(manifest.job)
    assert [part["type"] for part in made["spec"]["replicaSpecs"]] == [part["type"] for part in manifest.job["spec"]["replicaSpecs"]]
    parse(made["spec"])


@of("refused")
def test_what_is_refused(writer, manifest):
    refusal(manifest, writer.create, manifest.job)


@of("changes-accepted")
def test_changes_that_are_accepted(writer, manifest):
    see_that_it_became(manifest, writer.walk(manifest.documents))


@of("changes-refused")
def test_changes_that_are_refused(writer, manifest):
    see_that_the_last_is_refused(manifest, writer)


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase not in PAUSE_PHASES])
def test_types_and_replicas_change_in_no_other_phase(writer, phase):
    see_that_replicas_are_fixed_in(phase, writer)


def test_some_are_refused_by_every_rule_that_is_asked_of_new_jobs():
    asked = {rule.message for rules in RULES.values() for rule in rules if rule.asked != "at a change"}
    assert asked <= {one.rule.message for manifest in BY_RULES for one in broken(manifest.job)}


@pytest.mark.parametrize("manifest", BY_RULES, ids=str)
def test_what_an_older_definition_let_pass_can_be_told_so_and_can_go(manifest):
    policies = {}
    api = server(policies)
    job = Key("default", Writer(api, "default").create(manifest.job)["metadata"]["name"])
    policies.update(POLICIES)
    api.patch(GENERIC_JOBS, job, {"status": {"phase": "Pending"}}, subresource="status")
    api.patch(GENERIC_JOBS, job, {"metadata": {"finalizers": ["example.dev/keep"]}, "spec": {"cleanUpPolicy": "All"}})
    api.delete(GENERIC_JOBS, job)
    api.patch(GENERIC_JOBS, job, {"metadata": {"finalizers": None}})
    with pytest.raises(ApiError, match="not found"):
        api.get(GENERIC_JOBS, job)


def test_what_is_wrong_with_one_element_is_not_said_of_another():
    always = {"policy": "Always", "scope": "Job"}
    old = {"spec": {"replicaSpecs": [{"type": "a", "restartPolicy": always}, {"type": "b", "restartPolicy": {}}]}}
    new = {"spec": {"replicaSpecs": [{"type": "b", "restartPolicy": always}, {"type": "a", "restartPolicy": always}]}}
    assert [one.field for one in broken(new, old)] == ["spec.replicaSpecs[0].restartPolicy.scope"]
