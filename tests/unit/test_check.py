"""`genericjob check`: who runs the jobs of a namespace."""

from datetime import timedelta

import pytest
import yaml

from genericjob.api import crd
from genericjob.cli import check
from genericjob.cli.check import _controller
from genericjob.cli.jobs import JOBS
from genericjob.cli.options import HOME
from genericjob.cli.tables import now
from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NAMESPACES, Key
from harness.scripted import ScriptedServer, answer
from unit.calling import genericjob

ALL, TEAM, OTHERS = "genericjob-controller", "genericjob-controller.team", "genericjob-controller.others"
NO_JOB = "unknown: in namespace team there is no job by which to see it; "
NEEDS_NONE = f"{NO_JOB}nobody has the lease {HOME}/{ALL}, which a controller without --leader-elect does not need"


def api(**leases):
    """A server with leases: name, and for how many seconds nobody has renewed it."""
    memory = MemoryApi()
    memory.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    for namespace in (HOME, "team"):
        memory.create(NAMESPACES, {"metadata": {"name": namespace}})
    for name, silent in leases.items():
        renewed = (now() - timedelta(seconds=silent)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": f"holder of {name}", "leaseDurationSeconds": 15, "renewTime": renewed}
        memory.create(LEASES, {"metadata": {"name": name}, "spec": spec}, HOME)
    return memory


@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ({}, NEEDS_NONE),
        ({ALL: 1}, f"holder of {ALL} leads"),
        ({ALL: 1, TEAM: 1}, f"holder of {ALL} leads"),
        ({TEAM: 1}, f"holder of {TEAM} leads, in namespace team only"),
        ({ALL: 60, TEAM: 1}, f"holder of {TEAM} leads, in namespace team only"),
        ({TEAM: 60}, NEEDS_NONE),
        ({OTHERS: 1}, NEEDS_NONE),
    ],
)
def test_a_controller_of_all_namespaces_or_of_this_one_is_found(leases, told):
    assert _controller(api(**leases), "team") == told


def test_a_lease_that_is_not_renewed_is_reported():
    assert f"holder of {ALL} had the lease {HOME}/{ALL}, and has not renewed it for" in _controller(api(**{ALL: 60}), "team")


def test_a_user_who_may_not_read_leases_is_told_so():
    faulty = FaultyApi(api())
    faulty.refuse(ApiError(403, "Forbidden", "no"), "get", times=2)
    assert _controller(faulty, "team") == f"{NO_JOB}you may not read the lease {HOME}/{ALL}"


def with_jobs(monkeypatch, **seen):
    """A server with jobs that are an hour old, and the generation of which a controller has seen."""
    memory = api()
    for name, generation in seen.items():
        spec = {"replicaSpecs": [{"type": "worker", "template": {}}]}
        memory.create(JOBS, {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name}, "spec": spec}, "team")
        if generation:
            told = {"type": "Running", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            memory.patch(
                JOBS, Key("team", name), {"status": {"observedGeneration": generation, "conditions": [told]}}, subresource="status"
            )
    later = now() + timedelta(hours=1)
    monkeypatch.setattr(check, "now", lambda: later)
    return memory


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"a": 1}, "one has seen the only job of namespace team, the newest created "),
        ({"a": 1, "b": 1}, "one has seen all 2 jobs of namespace team, the newest created "),
        ({"a": 1, "b": 0}, "none works: no controller has seen the last change of 1 of 2 jobs of namespace team, among them b, created "),
    ],
    ids=str,
)
def test_a_controller_without_a_lease_is_known_by_its_work(monkeypatch, seen, told):
    assert _controller(with_jobs(monkeypatch, **seen), "team").startswith(told)


def test_a_change_that_no_controller_has_seen_is_noticed(monkeypatch):
    memory = with_jobs(monkeypatch, a=1)
    memory.patch(JOBS, Key("team", "a"), {"spec": {"suspend": True}})
    assert _controller(memory, "team").startswith("none works: ")


def test_a_job_that_is_quite_new_says_nothing(monkeypatch):
    memory = with_jobs(monkeypatch, a=0)
    monkeypatch.undo()
    assert _controller(memory, "team").startswith("unknown: the job a is too new")


def test_neither_does_one_of_another_controller(monkeypatch):
    memory = with_jobs(monkeypatch, a=0)
    memory.patch(JOBS, Key("team", "a"), {"spec": {"managedBy": "example.com/other"}})
    assert _controller(memory, "team").startswith(NO_JOB)


@pytest.mark.parametrize(("allowed", "code"), [([True] * 7, 0), ([False] * 6 + [True], 0), ([False] * 7, 1)], ids=str)
def test_the_exit_code_says_when_a_user_may_do_nothing(tmp_path, allowed, code):
    version, refusal = answer(200, {"gitVersion": "v1"}), answer(403, {"message": "no", "reason": "Forbidden"})
    kinds = answer(200, {"resources": [{"name": "genericjobs"}]})
    rights = [answer(201, {"status": {"allowed": each}}) for each in allowed]
    with ScriptedServer(version, answer(201), answer(200), kinds, *[refusal] * 3, *rights, *[version] * 5) as server:
        config = {"clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}]}
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        called = genericjob("check", "--kubeconfig", tmp_path / "config", "--cluster", "it")
    assert (called.code, called.err) == (code, "")
    assert f"Controller  unknown: you may not list jobs; you may not read the lease {HOME}/{ALL}\n" in called.out
