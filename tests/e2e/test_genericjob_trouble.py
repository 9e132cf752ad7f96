"""Jobs that cannot work: what their users are told, how often it is tried, and what becomes of it once it is put right."""

import os
import signal
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import pytest
import yaml

from cluster import ClusterError
from e2e.jobs import Team, a_job, replicas
from e2e.standing_in import uid_of
from genericjob.reconcile.resources import NAMESPACES, RAW_PODS, RAW_SERVICES, Key, raw
from harness.audit import Audit
from harness.clusters import Namespaces, eventually
from harness.controllers import USER
from harness.definitions import GENERIC_JOBS

RESOURCE_QUOTAS = raw("", "v1", "resourcequotas", "ResourceQuota")

# ------------------------------------------------------------------------------------------------ refused at once

REFUSED = {
    "a rank below 0": (a_job("bad", replicas(), failureRules=[{"worker": [-1]}]), "spec.failureRules[0].worker[0]"),
    "a restart policy that is a text": (a_job("bad", replicas() | {"restartPolicy": "Never"}), "spec.replicaSpecs[0].restartPolicy"),
    "a field that there is not": (a_job("bad", sucessRules=[]), "spec.sucessRules"),
    "a name too long for pods": (a_job("b" * 60), "metadata.name"),
}


@pytest.mark.parametrize(("job", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_kubectl_names_the_field_that_is_wrong(kubectl, team, job, field):
    with pytest.raises(ClusterError) as refused:
        kubectl("apply", "--filename=-", input=yaml.safe_dump(job))
    assert field.removeprefix("spec.") in str(refused.value)
    assert not team.server.list(GENERIC_JOBS, team.namespace).items


# ------------------------------------------------------------------------------------------------ refused when pods are created

QUOTA = {"requests.example.com/gpu": "0"}
TOLD = {
    "template": ("FailedCreate", 'Pod "template-worker-0" is invalid: spec.containers[0].image: Required value'),
    "quota": (
        "FailedCreate",
        'pods "quota-worker-0" is forbidden: exceeded quota: devices, requested: requests.example.com/gpu=1,'
        " used: requests.example.com/gpu=0, limited: requests.example.com/gpu=0",
    ),
    "pod": ("NameConflict", "Pod pod-worker-1 exists and does not belong to this job; it was left alone"),
    "service": ("NameConflict", "Service service-worker-0 exists and does not belong to this job; it was left alone"),
}


class Crowd(Team):
    """A namespace full of jobs that cannot work, each for a reason of its own."""

    def __init__(self, server, namespace, node, audit):
        super().__init__(server, namespace, node)
        self.foreign_pod, self.foreign_service = Key(namespace, "pod-worker-1"), Key(namespace, "service-worker-0")
        self.quota = Key(namespace, "devices")
        spec = {"containers": [{"name": "main", "image": "app:1"}], "nodeSelector": {"no": "where"}}
        self.foreign_uid = server.create(RAW_PODS, {"metadata": {"name": self.foreign_pod.name}, "spec": spec}, namespace).object[
            "metadata"
        ]["uid"]
        server.create(RAW_SERVICES, {"metadata": {"name": self.foreign_service.name}, "spec": {"ports": [{"port": 1}]}}, namespace)
        server.create(RESOURCE_QUOTAS, {"metadata": {"name": self.quota.name}, "spec": {"hard": QUOTA}}, namespace)
        eventually(lambda: server.get(RESOURCE_QUOTAS, self.quota).get("status", {}).get("hard") == QUOTA)
        self._audit, self._begin = audit, audit.here
        jobs = (
            a_job("template", replicas(2, image="")),
            a_job("quota", replicas(resources={"limits": {"example.com/gpu": "1"}}, args=["$(replicas[nobody])"])),
            a_job("pod", replicas(2)),
            a_job("service", service={"ports": [{"port": 80}]}),
        )
        self.jobs = {body["metadata"]["name"]: self.submit(body) for body in jobs}

    def creates(self, name):
        """What was tried for a job, and what came of it."""
        found = self._audit.requests(since=self._begin, user=USER, verbs={"create"}, namespace=self.namespace)
        return [each for each in found if each.resource in ("pods", "services") and each.name.startswith(f"{name}-")]

    def tries(self, name):
        """Those that were in vain."""
        return [each for each in self.creates(name) if not each.succeeded]


@pytest.fixture(scope="module")
def crowd(cluster, server, controller, ground):
    if cluster.plane is None:
        pytest.skip("needs an audit log")
    with Namespaces(server).fresh() as namespace:
        yield Crowd(server, namespace, ground, Audit(cluster.plane.audit_log, server))


def test_other_jobs_are_not_disturbed(crowd, team):
    for neighbour in (crowd.submit(a_job("well", replicas(2))), team.submit(a_job("well", replicas(2)))):
        neighbour.has_pods(2)
        neighbour.run(0, 1)
        neighbour.finish(0)
        neighbour.finish(1)
        neighbour.becomes("Succeeded")


@contextmanager
def nobody_cleans_up(plane):
    """Stop the control plane's controllers: a namespace that was deleted then stays as it is."""
    pid = plane.status()["components"]["kube-controller-manager"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_in_a_namespace_that_is_being_deleted_nothing_is_tried_twice(crowd, team, plane, server, audit):
    job = team.submit(a_job("train", replicas(2)))
    job.has_pods(2)
    job.run(0, 1)
    job.becomes("Running")
    with nobody_cleans_up(plane):
        server.delete(NAMESPACES, Key("", team.namespace))
        begin = audit.here
        server.delete(RAW_PODS, job.pod(0))

        def refused():
            return audit.requests(since=begin, user=USER, verbs={"create"}, resource="pods", namespace=team.namespace)

        eventually(refused)
        clock = crowd.submit(a_job("clock", replicas(image="")))
        eventually(lambda: len(crowd.tries("clock")) >= 3)
        assert [(each.name, each.code) for each in refused()] == [("train-worker-0", 403)]
        assert clock.conditions["Initialized"][1] == "FailedCreate"
        assert job.conditions["Initialized"][0] == "True"


@pytest.mark.parametrize("name", TOLD)
def test_trouble_is_told_in_a_condition_and_one_event(crowd, name):
    job, (reason, message) = crowd.jobs[name], TOLD[name]
    eventually(lambda: len(crowd.tries(name)) >= 3)
    status, why, text = job.conditions["Initialized"]
    assert (status, why) == ("False", reason)
    assert text == message
    assert job.phase == "Pending"

    def counted():
        assert [text for _, text in job.events[reason]] == [message]
        return job.events[reason][0][0] == len(crowd.tries(name))

    eventually(counted)


@pytest.mark.parametrize("name", TOLD)
def test_tries_become_rarer(crowd, name):
    crowd.server.patch(GENERIC_JOBS, crowd.jobs[name].key, {"metadata": {"labels": {"looked": "at"}}})  # no reason to try again
    tries = eventually(lambda: found if len(found := crowd.tries(name)) >= 3 else None)
    gaps = [(late.received - early.received).total_seconds() for early, late in pairwise(tries)]
    assert all(gap > 0.99 * 2**number for number, gap in enumerate(gaps)), gaps


def test_what_is_put_right_goes_on(crowd):
    server, template = crowd.server, crowd.jobs["template"]
    for name in TOLD:
        eventually(lambda name=name: len(crowd.tries(name)) >= 3)
    server.patch(RESOURCE_QUOTAS, crowd.quota, {"spec": {"hard": {"requests.example.com/gpu": "1"}}})
    assert uid_of(server, crowd.foreign_pod) == crowd.foreign_uid
    server.delete(RAW_PODS, crowd.foreign_pod, grace=0)
    server.delete(RAW_SERVICES, crowd.foreign_service)

    # A corrected spec is tried at once: long before the next try would have come.
    before = len(crowd.tries("template"))
    eventually(lambda: len(crowd.tries("template")) > before)
    server.patch(GENERIC_JOBS, template.key, {"spec": {"replicaSpecs": [replicas(2)]}})
    template.has_pods(2)
    *refused, one, two = eventually(lambda: found if len(found := crowd.creates("template")) >= before + 3 else None)
    assert [each.code for each in (*refused, one, two)] == [422] * (before + 1) + [201, 201]
    assert two.received - refused[-1].received < timedelta(seconds=2**before)

    for job in crowd.jobs.values():
        number = job.body["spec"]["replicaSpecs"][0]["replicas"]
        eventually(lambda job=job: job.conditions["Initialized"][0] == "True")
        job.run(*range(number))
        for rank in range(number):
            job.finish(rank)
        job.becomes("Succeeded")
        assert job.conditions["Initialized"] == ("True", "Initialized", "The job has been initialized successfully.")
    assert crowd.jobs["quota"].told("UnresolvedVariables")  # said at the first try, although it was refused
