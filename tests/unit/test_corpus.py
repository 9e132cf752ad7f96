"""The corpus of manifests, without a server: what it lets pass the models can read, and what it refuses they refuse as well.

The controller must not depend on who admitted a job: an older definition may have, or the embedded engine, which knows no CEL.
"""

import copy
import re

import pytest

from genericjob.api import crd
from genericjob.api.admission import RULES
from genericjob.api.spec import InvalidSpecError, parse
from genericjob.jobs.job import Design
from genericjob.local import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS
from harness.corpus import BLIND, CORPUS, manifests
from harness.definitions import GENERIC_JOBS

FOLDERS = ("accepted", "refused", "changes-accepted", "changes-refused", "pods-accepted", "pods-refused")
RULES_ALONE = {
    "exit-code-in-both-lists",
    "name-generated-too-long-for-pods",
    "name-of-digits-and-a-service-without-ports",
    "name-that-begins-with-a-digit-and-services",
    "name-too-long-for-pods",
    "name-too-long-for-pods-of-the-second-type",
    "name-with-a-dot-and-services",
    "node-port",
    "port-name-twice",
    "ports-without-names",
    "replicas-too-many-in-sum",
    "restart-scope-job-and-always",
    "restart-scope-job-and-always-of-the-second-type",
}
"""Refused by rules in CEL, which the embedded engine does not know."""


def of(folder, wanted=lambda manifest: True):
    return pytest.mark.parametrize("manifest", [found for found in manifests(folder) if wanted(found)], ids=str)


def designed(job):
    metadata = job["metadata"]
    return Design.of(metadata.get("name") or f"{metadata['generateName']}12345", parse(job.get("spec")))


@pytest.fixture
def create():
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    return lambda job: api.create(GENERIC_JOBS, copy.deepcopy(job), "default", field_validation="Strict").object


# ------------------------------------------------------------------------------------------------ the files


def test_the_corpus_is_whole():
    assert {path.name for path in CORPUS.iterdir()} == set(FOLDERS)
    assert all(len(manifests(folder)) > 15 for folder in FOLDERS)


@pytest.mark.parametrize("manifest", [found for folder in FOLDERS for found in manifests(folder)], ids=str)
def test_a_file_says_what_it_is_about(manifest):
    refused = "refused" in manifest.path.parent.name
    assert manifest.comments[0]
    assert len(manifest.documents) >= 2 if "changes" in manifest.path.parent.name else manifest.job
    if refused:
        assert manifest.field.startswith(("spec", "metadata.name"))
        assert manifest.words
    assert all(line.startswith(BLIND) for line in manifest.comments[1:])


@pytest.mark.parametrize(("place", "rule"), [(place, rule) for place, rules in RULES.items() for rule in rules])
def test_every_rule_is_broken_by_a_file_whenever_it_is_asked(place, rule):
    def breaks(manifest):
        return (
            re.sub(r'^(Forbidden|Required value|Invalid value: "\w+"): ', "", manifest.words) in rule.message
            and re.sub(r"\[\d+]", "[]", manifest.field) == field
        )

    field = ".".join(filter(None, (place, rule.field)))
    asked = {"at creation": ["refused"], "at a change": ["changes-refused"], "at both": ["refused", "changes-refused"]}[rule.asked]
    assert [folder for folder in asked if not any(map(breaks, manifests(folder)))] == []


# ------------------------------------------------------------------------------------------------ the models


@of("accepted")
def test_what_is_accepted_is_understood(manifest):
    design = designed(manifest.job)
    assert sum(len(names) for names in design.names.values()) == design.spec.total


@of("refused", lambda manifest: not manifest.only_the_server_sees_it)
def test_the_models_refuse_what_they_can_see(manifest):
    with pytest.raises(InvalidSpecError) as caught:
        designed(manifest.job)
    told = str(caught.value)
    if manifest.field == "metadata.name":  # or the type that makes a name too long
        assert told.startswith(("metadata.name: ", "spec.replicaSpecs["))
    elif manifest.words.startswith("Duplicate"):  # nor which of two was there first
        assert told.startswith(manifest.field.rpartition("[")[0])
    else:
        assert told.startswith(manifest.field)


@of("refused", lambda manifest: manifest.only_the_server_sees_it)
def test_what_only_the_server_sees_is_named_so(manifest):
    designed(manifest.job)


@of("changes-accepted")
def test_every_step_of_an_accepted_change_is_understood(manifest):
    for document in manifest.documents:
        designed(document)


@of("changes-refused")
def test_every_step_before_a_refused_change_is_understood(manifest):
    for document in manifest.documents[:-1]:
        designed(document)


@of("pods-accepted")
def test_a_job_whose_pods_are_accepted_is_understood(manifest):
    designed(manifest.job)


@of("pods-refused")
def test_a_job_whose_pods_are_refused_is_understood(manifest):
    designed(manifest.job)


# ------------------------------------------------------------------------------------------------ the embedded engine


@of("accepted")
def test_the_embedded_engine_takes_what_is_accepted(create, manifest):
    made = create(manifest.job)
    assert parse(made["spec"]) == parse(manifest.job["spec"])


@of("refused", lambda manifest: str(manifest) not in RULES_ALONE)
def test_the_embedded_engine_refuses_what_is_refused(create, manifest):
    with pytest.raises(ApiError) as caught:
        create(manifest.job)
    assert manifest.field in caught.value.message
