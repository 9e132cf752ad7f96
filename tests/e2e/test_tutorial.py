"""The tutorial's part on a cluster: its commands, typed on a real control plane whose node runs programs, with the manifests as they are.

Only the directory of the checkpoints is another one, so that tests do not share it with people.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from genericjob.reconcile.resources import Key
from harness.console import commands, typed
from harness.machine import Machine, alone

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
THERE = commands(PAGE.split("## 5. On a cluster")[1])


@pytest.fixture
def directory(tmp_path):
    """The tutorial, to be worked in."""
    found = tmp_path / "tutorial"
    shutil.copytree(ROOT / "examples" / "tutorial", found, ignore=shutil.ignore_patterns("__pycache__"))
    for manifest in found.glob("*.yaml"):
        manifest.write_text(manifest.read_text().replace("/tmp/genericjob-tutorial", f"{tmp_path}/checkpoints"))
    return found


@pytest.fixture
def shell(cluster, plane, namespace, tmp_path):
    """The environment of somebody who has both commands, and this namespace as his own."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    for each in config["contexts"]:
        each["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    programs = [str(Path(plane.status()["kubectl"]).parent), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {"KUBECONFIG": str(own), "PATH": os.pathsep.join(programs), "PYTHONPATH": str(ROOT)}


def test_the_tutorial_goes_on_on_a_cluster(cluster, controller, namespace, directory, shell, tmp_path):
    if not alone():
        pytest.skip("a node that runs programs has its own /etc/hosts, and this user may not have mounts of his own: unshare --mount")
    with Machine(cluster, tmp_path, work=directory, path=[Path(sys.executable).parent]) as machine:
        done = typed(THERE, directory=directory, environment=shell, timeout=240)
        assert len(done) == len(THERE), machine.log
        for command, (printed, code) in zip(THERE, done, strict=True):
            assert code == 0, f"{command.text}\n{printed}\n{machine.log}"
            assert not command.missing(printed.replace(namespace, "default")), f"{command.text}\n{printed}"
        ring, server = (machine.lines(Key(namespace, pod)) for pod in ("allreduce-worker-0", "server-server-0"))
    assert [line for line in ring if "begins" in line] == [f"rank 0 of 4 begins at step {step}" for step in (0, 100)]
    assert "worker 1 has gone in step 120: waiting for another one" in server
    (loss,) = {found for line in PAGE.splitlines() for found in re.findall(r"trained: the loss is \S+", line)}
    assert loss in ring
    assert loss in server
