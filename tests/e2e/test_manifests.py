"""What administrators apply, applied."""

import json

import pytest

from cluster import ClusterError
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import eventually
from harness.definitions import MANIFESTS

NAMESPACE = "genericjob-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:genericjob-controller"


@pytest.fixture(scope="module")
def installed(cluster):
    """Everything of `manifests/`. The roles stay, as other tests may use them; the controllers, whose image nobody has, go."""
    if cluster.plane is None:
        pytest.skip("nothing is installed on a cluster that belongs to others")
    cluster.plane.kubectl("apply", "--kustomize", str(MANIFESTS))
    yield cluster.plane
    cluster.plane.kubectl("delete", "deployment", "genericjob-controller", "--namespace", NAMESPACE)


def may(plane, verb, what, *, namespace="default", subresource=""):
    flags = (f"--as={ACCOUNT}", f"--namespace={namespace}", f"--subresource={subresource}")
    return plane.kubectl("auth", "can-i", verb, what, *flags, check=False).strip() == "yes"


def test_applied_a_second_time_they_change_nothing(installed):
    answers = installed.kubectl("apply", "--dry-run=server", "--kustomize", str(MANIFESTS)).splitlines()
    assert answers
    changed = {answer.split()[0] for answer in answers if not answer.endswith("unchanged (server dry run)")}
    assert changed <= {"poddisruptionbudget.policy/genericjob-controller"}  # kubectl sends selectors of budgets again each time


def test_the_controllers_pass_the_strictest_level_of_pod_security(installed, server):
    eventually(lambda: len(server.list(RAW_PODS, NAMESPACE, labels="app.kubernetes.io/component=controller").items) == 2)
    lax = {"metadata": {"generateName": "lax-"}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        server.create(RAW_PODS, lax, NAMESPACE)


def test_the_controller_may_do_its_work_and_nothing_beside_it(installed):
    assert may(installed, "create", "pods")
    assert may(installed, "update", "genericjobs.batch.tensorstack.dev", subresource="status")
    assert may(installed, "update", "leases.coordination.k8s.io/genericjob-controller", namespace=NAMESPACE)
    assert not may(installed, "update", "leases.coordination.k8s.io/another", namespace=NAMESPACE)
    assert not may(installed, "update", "leases.coordination.k8s.io/genericjob-controller")
    assert not may(installed, "update", "genericjobs.batch.tensorstack.dev")
    assert not may(installed, "get", "secrets")


def test_the_controller_may_watch_its_own_lease_and_no_other(installed):
    def watch(name):
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        installed.kubectl("get", f"--as={ACCOUNT}", f"--raw={leases}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3D{name}")

    watch("genericjob-controller")
    with pytest.raises(ClusterError, match="cannot watch resource"):
        watch("another")


@pytest.mark.parametrize(("role", "verb"), [("view", "watch"), ("edit", "create"), ("admin", "delete")])
def test_who_may_use_a_namespace_may_use_jobs_in_it(installed, role, verb):
    def allowed():
        rules = json.loads(installed.kubectl("get", "clusterrole", role, "--output=json"))["rules"] or ()
        return any("genericjobs" in rule.get("resources", ()) and verb in rule["verbs"] for rule in rules)

    eventually(allowed)
