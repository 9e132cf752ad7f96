"""docs/install.md is true: its versions, its files and its order."""

import re
from pathlib import Path

import pytest
import yaml

from genericjob import __version__
from genericjob.api.names import API_VERSION
from genericjob.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("text", [PAGE, README], ids=["docs/install.md", "README.md"])
def test_the_version_shown_is_that_of_the_package(text):
    shown = re.findall(r"genericjob-([\d.]+)-py3|genericjob:([\d.]+)|newTag: ([\d.]+)", text)
    assert shown
    assert {"".join(each) for each in shown} == {__version__}


def test_the_manifests_that_are_applied_exist():
    applied = {*re.findall(r"`?(manifests(?:/[\w.]+)*)`?", PAGE)}
    assert {"manifests/crd", "manifests/rbac", "manifests/policies", "manifests/deployment.yaml"} <= applied
    assert [path for path in applied if not (ROOT / path).exists()] == []


def test_an_upgrade_brings_the_kind_before_the_roles_and_these_before_the_controller():
    upgrading = PAGE.split("## Upgrading")[1].split("\n## ")[0]
    steps = re.findall(r"^kubectl apply -[fk] (\S+) +# (\d)\. (.+?)(?:,.*)?$", upgrading, re.MULTILINE)
    assert steps == [("manifests/crd", "1", "the kind"), ("manifests/rbac", "2", "the roles"), (".", "3", "the controller")]
    resources = yaml.safe_load((ROOT / "manifests" / "kustomization.yaml").read_text())["resources"]
    order = [resources.index(name) for name in ("crd/genericjobs.yaml", "rbac/controller.yaml", "rbac/users.yaml", "deployment.yaml")]
    assert order == sorted(order)


def test_what_the_overlay_and_the_commands_name_is_what_the_manifests_have():
    (overlay,) = (yaml.safe_load(found) for found in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
    (deployment, *_) = yaml.safe_load_all((ROOT / "manifests" / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [image["name"] for image in overlay["images"]] == [container["image"].partition(":")[0]]
    for namespace, name in re.findall(r"kubectl -n (\S+) (?:rollout status deployment/|delete deployment )([\w-]+)", PAGE):
        assert (namespace, name) == (deployment["metadata"]["namespace"], deployment["metadata"]["name"])


def test_the_commands_and_the_api_version_exist():
    called = set(re.findall(r"`?(?<![/\w])genericjob (\w+)", PAGE))
    assert {"check", "completion", "run", "controller"} <= called <= {command.name for command in COMMANDS}
    assert f"`{API_VERSION}`" in PAGE


def test_links_lead_somewhere():
    for file, place in re.findall(r"\]\(([\w./]+\.md)(?:#([\w-]+))?\)", PAGE):
        text = (ROOT / "docs" / file).read_text()
        titles = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)}
        assert not place or place in titles
