"""Jobs as they are stored, and as decisions see them."""

import json
import re

import pytest
from msgspec import structs

from genericjob.api.spec import InvalidSpecError
from genericjob.jobs.assembly import bare_name
from genericjob.jobs.bodies import Bodies
from genericjob.jobs.resource import PODS, Reader, StoredJob, UnreadableStatusError
from unit.jobs import NAME, NOW, UID


def stored(*, generation=1, uid=UID, replicas=1, status=b""):
    spec = json.dumps({"replicaSpecs": [{"type": "worker", "replicas": replicas, "template": {}}]}).encode()
    return StoredJob("team", NAME, uid, "1", generation, {}, {}, "", (), NOW, None, spec, status)


def test_a_generation_is_parsed_once_and_the_next_one_anew():
    reader = Reader()
    first = reader.read(stored())
    assert reader.read(structs.replace(stored(), spec=b"never looked at")).design is first.design
    assert reader.read(stored(generation=2, replicas=3)).spec.total == 3
    assert reader.read(stored()).spec.total == 1  # a cache may be behind another


def test_of_a_job_only_one_generation_is_remembered():
    reader = Reader()
    reader.read(stored())
    reader = Reader(most=2 * reader.weight)
    kept = reader.read(stored(uid="another-uid")).design
    for generation in range(1, 5):
        reader.read(stored(generation=generation))
    assert reader.read(stored(uid="another-uid")).design is kept


def test_a_job_that_is_gone_is_forgotten():
    reader = Reader()
    before = reader.read(stored()).design
    reader.forget("another-uid")
    assert reader.read(stored()).design is before
    reader.forget(UID)
    assert reader.read(stored()).design is not before


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (b"null", "spec: "),
        (b'{"replicaSpecs": {}}', "spec.replicaSpecs: "),
        (b'{"replicaSpecs": [{"type": "worker", "template": [1]}]}', "spec.replicaSpecs[0].template: "),
        (b'{"replicaSpecs": [{"type": "worker", "template": {"x": %s}}]}' % (b"[" * 100 + b"]" * 100), "spec: it is nested too deeply"),
        (b'{"replicaSpecs": [{"type": "worker", "template": {}}', "spec: what is stored cannot be read: "),
    ],
)
def test_a_spec_that_cannot_be_read_is_invalid(spec, problem):
    with pytest.raises(InvalidSpecError, match=re.escape(problem)):
        Reader().read(structs.replace(stored(), spec=spec))


def test_a_template_that_cannot_be_decoded_is_invalid_when_pods_are_made_of_it():
    job = Reader().read(structs.replace(stored(), spec=b'{"replicaSpecs": [{"type": "worker", "template": {"x": 1e999}}]}'))
    with pytest.raises(InvalidSpecError, match="what is stored as a template cannot be read"):
        Bodies(pods=PODS, host=bare_name, new_id=lambda: "marker").of(job, resumed=False)


@pytest.mark.parametrize(
    "task",
    [
        {"chargedRestarts": {"-1": "0"}},
        {"chargedRestarts": {"one": "0"}},
        {"unchargedRestarts": {"1234567890": "0"}},
        {"chargedRestarts": {"1": "0"}, "lastRestarts": {"2026-01-01T12:00:00": "0"}},
        {"succeededRanks": "all"},
    ],
)
def test_a_status_that_nobody_can_have_written_is_not_taken_for_empty(task):
    status = json.dumps({"phase": "Running", "tasks": [{"type": "worker", **task}]}).encode()
    with pytest.raises(UnreadableStatusError, match="status: what is stored cannot be read: "):
        Reader().read(stored(status=status))
