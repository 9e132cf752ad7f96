"""The corpus of manifests, without a server: what it lets pass the models can read, and what it refuses they refuse as well.

The controller must not depend on who admitted a job: an older definition may have. What the API in memory refuses is in
`test_memory_jobs.py`.
"""

import copy
import re

import pytest

from genericjob.api import crd
from genericjob.api.admission import RULES
from genericjob.api.spec import BESIDE_OTHERS, InvalidSpecError, parse
from genericjob.jobs.job import Design
from genericjob.local.schema import Schema, fill
from harness.corpus import BLIND, CORPUS, manifests

SCHEMA = Schema(crd.definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
FOLDERS = ("accepted", "refused", "changes-accepted", "changes-refused", "pods-accepted", "pods-refused")


def of(folder, wanted=lambda manifest: True):
    return pytest.mark.parametrize("manifest", [found for found in manifests(folder) if wanted(found)], ids=str)


def designed(job):
    """As it is understood when a server has stored it: without fields that are empty."""
    metadata, stored = job["metadata"], copy.deepcopy({"spec": job.get("spec")})
    fill(stored, SCHEMA)
    return Design.of(metadata.get("name") or f"{metadata['generateName']}12345", parse(stored.get("spec")))


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
    elif manifest.words.startswith(("Duplicate", f"should match '{BESIDE_OTHERS}'")):  # nor which of two was there first
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
