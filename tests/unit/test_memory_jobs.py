"""GenericJob as a kind of the API in memory: it refuses what a real server does, for the same field and in the same words.

The same manifests go to a real server in `tests/e2e/test_crd.py`.
"""

import pytest

from genericjob.api import crd
from genericjob.api.names import PHASES
from genericjob.jobs.policies import POLICIES
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS
from harness.corpus import Writer, manifests, refusal, see_that_it_became

PAUSED = next(found for found in manifests("changes-accepted") if str(found) == "more-replicas-while-paused")


def of(folder):
    return pytest.mark.parametrize("manifest", manifests(folder), ids=str)


@pytest.fixture
def writer():
    api = MemoryApi(policies=POLICIES)
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    return Writer(api, "default")


@of("accepted")
def test_what_is_accepted(writer, manifest):
    assert writer.create(manifest.job)["spec"]["replicaSpecs"]


@of("refused")
def test_what_is_refused(writer, manifest):
    refusal(manifest, writer.create, manifest.job)


@of("changes-accepted")
def test_changes_that_are_accepted(writer, manifest):
    see_that_it_became(manifest, writer.walk(manifest.documents))


@of("changes-refused")
def test_changes_that_are_refused(writer, manifest):
    job = writer.walk(manifest.documents[:-1])
    refusal(manifest, writer.change, job, manifest.documents[-1])
    writer.change(job, manifest.documents[-2])


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "Paused"])
def test_types_and_replicas_change_in_no_other_phase(writer, phase):
    before, after = PAUSED.documents
    job = writer.create(before | {"status": {"phase": phase}})
    with pytest.raises(ApiError, match=r"spec\.replicaSpecs: Forbidden"):
        writer.change(job, after)
