"""The tutorial, as somebody who reads it would try it on this machine. The part on a cluster is in tests/e2e/test_tutorial.py."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from genericjob.api.spec import parse
from genericjob.local.addresses import Addresses
from genericjob.reconcile.resources import Key
from harness.console import commands, typed

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
PROGRAMS = sorted((ROOT / "examples" / "tutorial").glob("*.py"))
RUN, *HERE = commands(PAGE.split("## 5. On a cluster")[0])
RESULT = re.compile(r"trained: the loss is (\d\.\d{8})")
(LOSS,) = set(RESULT.findall(PAGE))


@pytest.fixture
def clone(tmp_path):
    """As much of a clone as the tutorial needs, with checkpoints of its own."""
    shutil.copytree(ROOT / "examples" / "tutorial", tmp_path / "examples" / "tutorial", ignore=shutil.ignore_patterns("__pycache__"))
    activate = tmp_path / ".venv" / "bin" / "activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f'export PATH="{Path(sys.executable).parent}:$PATH"\n')
    for manifest in (tmp_path / "examples" / "tutorial").glob("*.yaml"):
        manifest.write_text(manifest.read_text().replace("/tmp/genericjob-tutorial", f"{tmp_path}/checkpoints"))
    return tmp_path


def test_the_commands_of_the_tutorial_print_what_the_page_shows(clone):
    """ALL IN ONE TEST, because they are typed into one shell."""
    own = {"PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(clone / "state")}
    done = typed(HERE, directory=clone, environment=os.environ | own, timeout=240)
    for command, (printed, code) in zip(HERE, done, strict=False):
        assert code == 0, f"{command.text}\n{printed}"
        assert not command.missing(printed), f"{command.text}\n{printed}"
    assert len(done) == len(HERE)
    trained = [printed for command, (printed, _) in zip(HERE, done, strict=True) if "genericjob run" in command.text]
    assert ["as it was asked to" in printed for printed in trained] == [True, False, True]
    assert [RESULT.findall(printed) for printed in trained] == [[LOSS]] * 3  # with an accident or without
    assert list((clone / "checkpoints").iterdir()) == []  # the next job begins at the beginning


def test_make_run_is_short_for_what_the_page_says():
    """And that one is run by tests/e2e/test_examples.py."""
    (recipe,) = re.findall(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert RUN.text == "make run"
    assert recipe.splitlines()[-1].strip() == "@$(BIN)/genericjob run examples/hello.yaml"
    assert "`make run` is short for `genericjob run examples/hello.yaml`" in PAGE


def test_a_training_that_was_interrupted_goes_on_where_it_was(clone):
    """One rank is a ring, too."""
    addresses = Addresses()
    here = {"ADDRESS": addresses.of(Key("", "alone")), "CHECKPOINTS": str(clone / "checkpoints"), "DIES_AT": "never"}
    env = os.environ | here | {"HOSTS": here["ADDRESS"], "RANK": "0", "PORT": "29602"}
    command = [sys.executable, "-u", clone / "examples" / "tutorial" / "allreduce.py"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as first:
        while "step 200" not in next(first.stdout):
            pass
        first.kill()
    second = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    addresses.close()
    assert 150 <= int(re.search(r"begins at step (\d+)", second.stdout)[1]) < 400
    assert RESULT.search(second.stdout)[1][:8] == LOSS[:8]  # another order of adding up, and so not to the last digit


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_of_the_tutorial_is_short_enough_to_be_read(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) < 120


def test_the_yaml_blocks_of_the_tutorial_are_those_of_the_manifests():
    """Comments are the page's own."""
    manifests = "\n".join(path.read_text() for path in (ROOT / "examples" / "tutorial").glob("*.yaml"))
    wanted = set(map(statement, manifests.splitlines()))
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        yaml.safe_load(block)
        assert set(map(statement, block.splitlines())) <= wanted


def statement(line):
    return re.sub(r"\s+#.*", "", line).strip()


def test_a_worker_of_the_tutorial_may_be_started_again_by_itself():
    """As the page says in passing."""
    spec = parse(yaml.safe_load((ROOT / "examples" / "tutorial" / "server.yaml").read_text())["spec"])
    (worker,) = [part for part in spec.replica_specs if part.type == "worker"]
    assert "`restartPolicy: {policy: OnFailure, limit: 3}`" in PAGE
    assert (worker.restart_policy.policy, worker.restart_policy.limit, worker.restart_policy.scope) == ("OnFailure", 3, "Replica")


def test_links_of_the_tutorial_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
