"""docs/metrics.md is the list of metrics: what a controller exposes is on it, and nothing else."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from genericjob.cli.app import app
from genericjob.reconcile import process
from genericjob.reconcile.metrics import Metrics

from .test_controller_command import KUBECONFIG

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|(.*?)\| (.+) \|$", re.MULTILINE)
LISTED = {name: (type, {*re.findall(r"`(\w+)`", labels)}) for name, type, labels, _ in ROW.findall(PAGE)}
SUFFIXES = re.compile(r"_(bucket|sum|count)$")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory):
    """What the page of a controller has that was put together as always, and then stopped: name to type and names of labels."""
    kubeconfig = tmp_path_factory.mktemp("controller") / "config"
    kubeconfig.write_text(KUBECONFIG)
    made = []

    class Remembered(Metrics):
        def __init__(self):
            super().__init__()
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("genericjob.cli.controller.Metrics", Remembered)
        patch.setattr("genericjob.cli.controller.install_signals", lambda process: None)
        patch.setattr("genericjob.cli.controller.logs.configure", lambda *how: None)
        patch.setattr(process.Process, "run", lambda process: 0)
        result = CliRunner().invoke(app, ["controller", "--kubeconfig", str(kubeconfig), "--metrics-bind", "0", "--leader-elect"])
    assert result.exit_code == 0, result.output
    (metrics,) = made
    metrics.thread("metrics")  # as each thread of a process that runs
    found = {}
    for family in text_string_to_metric_families(metrics.page().decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = [{*sample.labels} - {"le"} for sample in family.samples]
        assert labels, f"{name} has no series"
        assert all(each == labels[0] for each in labels)
        found[name] = family.type, labels[0]
    return found


def test_the_list_has_every_metric_with_its_type_and_labels_and_no_other(exposed):
    assert exposed == LISTED


def test_every_metric_that_is_mentioned_is_listed(exposed):
    words = re.findall(r"\b(?:workqueue|controller_runtime|rest_client|reflector|leader_election|genericjob|process|python)_\w+", PAGE)
    assert {SUFFIXES.sub("", word) for word in words} == {*LISTED}


def test_the_guide_and_the_first_page_lead_to_the_list():
    for page in ("README.md", "docs/guide.md"):
        assert "metrics.md" in (ROOT / page).read_text(), page


def test_expressions_use_labels_that_the_metrics_have():
    for name, labels in re.findall(r"(\w+)\{(.*?)\}", PAGE):
        assert {*re.findall(r"(\w+)(?:=|!=)", labels)} <= LISTED[SUFFIXES.sub("", name)][1]
