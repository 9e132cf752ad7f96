"""What a team installs: the wheel, in an environment that has nothing else, without the checkout and its development extras.

pip finds packages as this machine has configured it. Without an index that it can reach, these tests are skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

from genericjob import __version__
from genericjob.api.crd import definition

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HELLO = ROOT / "examples" / "hello.yaml"
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")

pytestmark = pytest.mark.index


def done(*words, code=0, **how):
    """Run a program to its end, and return what it printed."""
    found = subprocess.run([*map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL, **how)
    assert found.returncode == code, f"{words}\n{found.stdout}\n{found.stderr}"
    return found.stdout


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A package index: the one from which pip can fetch what builds the wheel."""
    there = tmp_path_factory.mktemp("probe")
    probe = [sys.executable, *PIP, "download", "--retries", "1", "--no-deps", "--dest", str(there), *PROJECT["build-system"]["requires"]]
    found = subprocess.run(probe, capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"needs a Python package index that pip can reach: {found.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="module")
def wheel(index, tmp_path_factory):
    there = tmp_path_factory.mktemp("wheel")
    done(sys.executable, *PIP, "wheel", "--no-deps", "--wheel-dir", there, ROOT)
    (built,) = there.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A function that calls a program of an environment in which only the wheel and what it asks for were installed."""
    home = tmp_path_factory.mktemp("user")
    venv.create(home / "venv", with_pip=True)
    programs = home / "venv" / "bin"
    done(programs / "python", *PIP, "install", "--constraint", ROOT / "constraints.txt", wheel)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "XDG_", "KUBECONFIG"))}
    environment = kept | {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}

    def call(program, *words, code=0):
        return done(programs / program, *words, code=code, cwd=home, env=environment)

    return call


def test_the_wheel_has_the_version_of_the_package(wheel):
    assert wheel.name.startswith(f"genericjob-{__version__}-py3-none-any")


def test_the_environment_has_what_the_wheel_asks_for_and_no_tool_of_the_developers(installed):
    names = {line.split("==")[0].lower().replace("_", "-") for line in installed("python", "-m", "pip", "freeze", "--all").splitlines()}
    asked = {re.split(r"[<>=]", each)[0].lower().replace("_", "-") for each in PROJECT["project"]["dependencies"]}
    extras = {re.split(r"[<>=]", each)[0].lower().replace("_", "-") for each in PROJECT["project"]["optional-dependencies"]["dev"]}
    assert asked <= names
    assert not extras & names


def test_the_program_runs_from_there_and_not_from_the_checkout(installed):
    place = Path(installed("python", "-c", "import genericjob; print(genericjob.__file__)").strip())
    assert ROOT not in place.parents
    assert "site-packages" in place.parts


def test_versions_help_and_the_plugin(installed):
    assert installed("genericjob", "--version") == f"genericjob {__version__}\n"
    assert "Usage: genericjob" in installed("genericjob", "--help")
    assert "Usage: kubectl gj" in installed("kubectl-gj", "--help")
    assert "_genericjob_completion" in installed("genericjob", "completion", "bash")


def test_a_new_manifest_is_written_judged_explained_and_rendered(installed, tmp_path):
    manifest = tmp_path / "job.yaml"
    for preset in ("plain", "torchrun", "tensorflow-ps", "mpi"):
        manifest.write_text(installed("genericjob", "new", preset, "train", "--", "train.py"))
        installed("genericjob", "validate", manifest)
    installed("genericjob", "explain", manifest)
    assert [*yaml.safe_load_all(installed("genericjob", "render", manifest))]


def test_a_job_runs(installed):
    assert "hello succeeded" in installed("genericjob", "run", HELLO)


def test_a_wrong_manifest_is_told_with_its_line(installed, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(HELLO.read_text().replace("replicas: 1", "replicas: many"))
    assert re.search(r"wrong.yaml:\d+: error: spec.replicaSpecs", installed("genericjob", "validate", wrong, code=2))


def test_the_definition_is_in_the_wheel(installed):
    assert yaml.safe_load(installed("python", "-m", "genericjob.api")) == yaml.safe_load(yaml.safe_dump(definition()))


def test_uninstalling_leaves_no_file_of_it(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    before = files(tmp_path)
    done(python, *PIP, "install", "--no-deps", wheel)
    assert shutil.which("kubectl-gj", path=str(python.parent))
    done(python, *PIP, "uninstall", "--yes", "genericjob")
    assert files(tmp_path) - before == set()


def files(directory):
    return {path.relative_to(directory) for path in directory.rglob("*") if "__pycache__" not in path.parts}
