"""What administrators apply, held together."""

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from genericjob.cli.app import loaded
from genericjob.cli.controller import LEASE
from genericjob.reconcile.process import Limits

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
KUSTOMIZATION = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
OBJECTS = [found for path in KUSTOMIZATION["resources"] for found in yaml.safe_load_all((MANIFESTS / path).read_text())]


def the(kind, name="genericjob-controller"):
    (found,) = [found for found in OBJECTS if (found["kind"], found["metadata"]["name"]) == (kind, name)]
    return found


@pytest.fixture
def pod():
    return the("Deployment")["spec"]["template"]


@pytest.fixture
def container(pod):
    (only,) = pod["spec"]["containers"]
    return only


# ------------------------------------------------------------------------------------------------ one piece


def test_every_manifest_is_part_of_the_whole():
    optional = {*MANIFESTS.glob("policies/*.yaml")}
    there = {str(path.relative_to(MANIFESTS)) for path in {*MANIFESTS.rglob("*.yaml")} - optional} - {"kustomization.yaml"}
    assert there == set(KUSTOMIZATION["resources"])


def test_everything_with_a_namespace_is_in_ours():
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    assert {found["metadata"]["namespace"] for found in OBJECTS if found["kind"] not in cluster_wide} == {
        the("Namespace", "genericjob-system")["metadata"]["name"]
    }


def test_the_controller_runs_as_the_account_that_the_roles_are_bound_to(pod):
    account = the("ServiceAccount")["metadata"]
    assert pod["spec"]["serviceAccountName"] == account["name"]
    for kind, role in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        binding = the(kind)
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (role, the(role)["metadata"]["name"])


def test_selectors_find_the_controller(pod):
    labels = pod["metadata"]["labels"].items()
    assert the("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    assert the("Service", "genericjob-metrics")["spec"]["selector"].items() <= labels


def test_probes_and_metrics_go_to_the_port_that_is_bound(container):
    (port,) = container["ports"]
    assert f"--metrics-bind=:{port['containerPort']}" in container["args"]
    assert {container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")} == {port["name"]}
    assert the("Service", "genericjob-metrics")["spec"]["ports"][0]["targetPort"] == port["name"]


def test_the_command_takes_all_that_it_is_started_with(container):
    name, *flags = container["args"]
    command = loaded(name)
    given = command.make_context(name, list(flags)).params
    assert (given["leader_elect"], given["log_format"]) == (True, "json")


def test_the_lease_that_the_role_is_for_is_the_one_that_is_taken():
    (named,) = [rule["resourceNames"] for rule in the("Role")["rules"] if "resourceNames" in rule]
    assert named == [LEASE]


def test_two_controllers_agree_on_a_leader(container):
    assert the("Deployment")["spec"]["replicas"] > 1
    assert "--leader-elect" in container["args"]


def test_a_pod_has_more_time_to_end_than_the_controller_takes(pod):
    limits = Limits()
    longest = limits.drain + 3 * limits.flush  # recorder, fence and elector, one after the other
    assert pod["spec"]["terminationGracePeriodSeconds"] > longest


# ------------------------------------------------------------------------------------------------ no more than needed


def test_no_role_has_a_wildcard():
    rules = [rule for found in OBJECTS if found["kind"] in ("Role", "ClusterRole") for rule in found["rules"]]
    assert not [rule for rule in rules if any("*" in rule[part] for part in ("apiGroups", "resources", "verbs"))]


def test_the_controller_writes_the_status_of_jobs_deletes_those_that_expired_and_changes_nothing_else_of_them():
    rules = [rule for rule in the("ClusterRole")["rules"] if rule["apiGroups"] == ["batch.tensorstack.dev"]]
    verbs = {resource: set(rule["verbs"]) for rule in rules for resource in rule["resources"]}
    assert verbs["genericjobs"] == {"list", "watch", "delete"}
    assert verbs["genericjobs/status"] == {"update"}


# ------------------------------------------------------------------------------------------------ the image

INSTRUCTIONS = re.findall(r"^([A-Z]+) (.+?)$", (ROOT / "Dockerfile").read_text().replace("\\\n", " "), re.MULTILINE)
COPIED = [Path(source) for name, rest in INSTRUCTIONS if name == "COPY" for source in shlex.split(rest)[:-1]]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def ignored(path):
    """Whether Docker leaves a file of the project out: the last pattern that matches decides."""
    fate = False
    for line in (ROOT / ".dockerignore").read_text().split():
        if fnmatch(str(path), line.removeprefix("!")):
            fate = not line.startswith("!")
    return fate


def test_all_that_is_copied_exists_and_is_not_ignored():
    assert COPIED
    for source in COPIED:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_tests_and_history_stay_out():
    assert ignored(Path("tests"))
    assert ignored(Path(".git"))


def test_all_that_building_the_package_needs_is_copied():
    needed = {
        PROJECT["project"]["readme"],
        *PROJECT["project"]["license-files"],
        *PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
    }
    assert {Path(name) for name in needed | {"pyproject.toml"}} <= set(COPIED)


def test_the_image_runs_a_command_of_the_project_as_the_user_of_the_deployment(pod):
    told = dict(INSTRUCTIONS)  # of instructions given twice the last counts, as for Docker
    assert json.loads(told["ENTRYPOINT"])[0] in PROJECT["project"]["scripts"]
    security = pod["spec"]["securityContext"]
    assert told["USER"] == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_the_image_does_what_the_deployment_asks_for(container):
    assert container["args"][0] == json.loads(dict(INSTRUCTIONS)["CMD"])[0]
