"""The roles of `manifests/rbac`: all that the controller needs, and nothing that it does not use."""

import copy

import pytest
import yaml

from cluster import ClusterError
from e2e.jobs import a_job, replicas
from e2e.standing_in import is_gone
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES, Key
from harness import podgroups
from harness.clusters import eventually
from harness.controllers import KINDS, USER, ControllerProcess, account_kubeconfig
from harness.definitions import MANIFESTS, establish

ROLES = [body for body in yaml.safe_load_all((MANIFESTS / "rbac/controller.yaml").read_text()) if body["kind"] in ("ClusterRole", "Role")]
FINALIZERS = ("batch.tensorstack.dev", "genericjobs/finalizers", "update")
"""Nobody asks for it: the server does, when an object is created that keeps its owner from going."""


def permissions(role):
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def foreign(name):
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}


def test_every_permission_is_used_and_none_is_missing(cluster, server, team, controller, audit, tmp_path):
    def used():
        requests = [each for each in audit.requests(user=USER) if each.resource]
        assert all(each.allowed for each in requests), [each for each in requests if not each.allowed]
        return {(each.group, each.resource, each.verb) for each in requests}

    # A name that somebody else has: looked at, told, tried again, and told again.
    server.create(RAW_PODS, foreign("late-worker-1"), team.namespace)
    late = team.submit(a_job("late", replicas(2), successRules=[{"worker": [0]}]))
    server.create(RAW_SERVICES, {"metadata": {"name": "named-worker-0"}, "spec": {"ports": [{"port": 1}]}}, team.namespace)
    named = team.submit(a_job("named", service={"ports": [{"port": 80}]}))
    served = team.submit(a_job("served", service={"ports": [{"port": 80}]}, ttlSecondsAfterFinished=0))

    # A group of pods that becomes smaller while its job is paused.
    establish(server, podgroups.definition())
    gang = team.submit(a_job("gang", replicas(2), service={"ports": [{"port": 80}]}, scheduler={"t9kScheduler": {}}))
    gang.has_pods(2)
    gang.edit(suspend=True)
    gang.becomes("Paused")
    gang.edit(replicaSpecs=[replicas(1)])
    gang.edit(suspend=False)
    gang.has_pods(1)

    # A pod that comes when its job has ended, as after the last write of a leader that is gone.
    late.run(0)
    late.finish(0)
    late.becomes("Succeeded")
    server.delete(RAW_PODS, late.pod(1), grace=0)
    server.create(RAW_PODS, _as_if_created_by_us(late.pods["late-worker-0"], "late-worker-1"), team.namespace)
    eventually(lambda: is_gone(server, late.pod(1)))

    # Another controller, which waits.
    config = account_kubeconfig(cluster, server, tmp_path / "config")
    with ControllerProcess(config, tmp_path / "log", "--leader-elect") as standby:
        standby.wait_ready()
        eventually(lambda: ("coordination.k8s.io", "leases", "watch") in used())
        assert standby.terminate() == 0

    served.run(0)
    served.finish(0)
    eventually(lambda: not served.exists)
    eventually(lambda: named.events.get("NameConflict", [(0, "")])[0][0] >= 2)
    granted = set().union(*map(permissions, ROLES))
    eventually(lambda: used() >= granted - {FINALIZERS})
    assert used() == granted - {FINALIZERS}


@pytest.fixture
def careless(server, namespace):
    """Somebody with all permissions of the controller but for finalizers."""
    (role,) = [copy.deepcopy(role) for role in ROLES if role["kind"] == "ClusterRole"]
    role["metadata"] = {"name": f"careless-{namespace}"}
    role["rules"] = [rule for rule in role["rules"] if "genericjobs/finalizers" not in rule["resources"]]
    binding = {
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role["metadata"]["name"]}],
    }
    server.create(KINDS["ClusterRole"], role)
    server.create(KINDS["ClusterRoleBinding"], binding)
    yield role["metadata"]["name"]
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        server.delete(KINDS[kind], Key("", role["metadata"]["name"]))


def test_without_the_right_to_set_finalizers_no_pod_could_be_owned(team, kubectl, careless):
    job = team.submit(a_job("train"))
    pod = job.has_pods(1)["train-worker-0"]

    def create(user, name):
        kubectl(
            "create",
            f"--as={user}",
            "--filename=-",
            input=yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **_as_if_created_by_us(pod, name)}),
        )

    create(USER, "train-other-0")
    eventually(lambda: kubectl("auth", "can-i", "create", "pods", f"--as={careless}", check=False).strip() == "yes")
    with pytest.raises(
        ClusterError, match="cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
    ):
        create(careless, "train-other-1")


def _as_if_created_by_us(pod, name):
    body = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}, "spec": foreign(name)["spec"]}
    body["metadata"] |= {"name": name, "labels": body["metadata"]["labels"] | {"genericjob-replica": name}}
    return body
