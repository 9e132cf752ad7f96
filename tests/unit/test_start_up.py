"""What a command loads. Most of the time that a short command takes is loading: no command loads a library that it does not need."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from typer.main import get_command

from genericjob.api import crd
from genericjob.cli.app import COMMANDS
from genericjob.cli.helping import dressed
from genericjob.local import runs
from genericjob.local.memory import MemoryApi
from genericjob.local.serving import ApiServer
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS

from .test_cli_server import JOBS, a_job

HELLO = str(Path(__file__).parents[2] / "examples" / "hello.yaml")

SPEC = {"pydantic", "genericjob.api.spec"}
ENGINE = {"genericjob.local.memory"}
CLIENT = {"genericjob.reconcile.http"}
CONTROLLER = {"genericjob.jobs.controller", "cachetools", "prometheus_client"}
ALL = SPEC | ENGINE | CLIENT | CONTROLLER | {"jinja2", "kubernetes", "rich", "websocket"}
"""What takes long to load: libraries, and modules of ours that stand for many others."""


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory):
    """The directory in which commands find a run with one job."""
    directory = tmp_path_factory.mktemp("runtime")
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    api.create(JOBS, a_job(), "default")
    server = ApiServer(api)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(directory))
        registration = runs.register("hello")
    registration.announce(server.host, server.port, token=server.token, namespace="default")
    yield directory
    registration.close()
    server.stop()


def loaded_by(directory, *words, code=0, **environment):
    """Return what is loaded when the command ends."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(directory), "KUBECONFIG": "/nowhere", **environment}
    listing = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    program = [sys.executable, "-c", f"{listing}from genericjob.cli.main import main; main()", *words]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stderr
    return ALL & {*done.stderr.split()}


CALLS = [
    ("--version", 0, set()),
    ("--help", 0, {"rich"}),
    ("get --help", 0, {"rich"} | CLIENT),
    ("completion bash", 0, set()),
    ("get --run -", 0, CLIENT),
    ("get --run - train -o yaml", 0, CLIENT),
    ("describe --run - train", 0, CLIENT),
    ("logs --run - train --tail 5", 0, CLIENT),
    ("wait --run - other", 1, CLIENT),
    ("watch --run - other", 1, CLIENT),
    ("pause --run - other", 1, CLIENT),
    ("resume --run - other", 1, CLIENT),
    ("debug --run - other", 1, CLIENT),
    ("exec --run - other -- ls", 1, CLIENT),
    ("delete --run - other", 1, CLIENT),
    ("check --run -", 0, CLIENT),
    ("explain --run - train", 0, CLIENT | SPEC | ENGINE),
    (f"apply --run - {HELLO}", 0, CLIENT | SPEC | ENGINE),
    (f"validate {HELLO}", 0, SPEC | ENGINE),
    (f"render {HELLO}", 0, CLIENT | SPEC | ENGINE),
    ("new torchrun train -- train.py", 0, SPEC | ENGINE | {"jinja2"}),
    ("run /nowhere", 2, ALL - CLIENT - {"jinja2", "kubernetes", "websocket"}),
    ("controller --metrics-bind nowhere", 2, ALL - ENGINE - {"jinja2", "kubernetes", "websocket"}),
]


@pytest.mark.parametrize(("words", "code", "allowed"), CALLS, ids=[words.removesuffix(HELLO) for words, *_ in CALLS])
def test_a_command_loads_only_what_it_needs(run_directory, words, code, allowed):
    assert loaded_by(run_directory, *words.split(), code=code) <= allowed


def test_every_command_is_among_them():
    assert {command.name for command in COMMANDS} <= {words.split()[0] for words, *_ in CALLS}


@pytest.mark.parametrize(("typed", "allowed"), [("genericjob de", set()), ("genericjob get --run - tr", CLIENT)])
def test_a_tab_loads_only_what_completes_the_word(run_directory, typed, allowed):
    position = str(len(typed.split()) - 1)
    environment = {"_GENERICJOB_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": position}
    assert loaded_by(run_directory, **environment) <= allowed


# ------------------------------------------------------------------------------------------------ values without pydantic


def _command(
    text: Annotated[str, typer.Option()] = "",
    choice: Annotated[Literal["yaml", "json"], typer.Option()] = "yaml",
    number: Annotated[int, typer.Option(min=-1, max=64)] = 5,
    fraction: Annotated[float, typer.Option(min=1)] = 5,
    texts: Annotated[list[str] | None, typer.Option()] = None,
    names: Annotated[list[str] | None, typer.Argument()] = None,
) -> None: ...


def outcome(param, value):
    try:
        return param.process_value(None, value)
    except typer.BadParameter as error:
        return error.message


VALUES = {
    "text": [None, "", "a b", "ü", "\udcff", "a\nb"],
    "choice": [None, "yaml", "YAML", "", "toml"],
    "number": [None, 5, "5", "007", "-1", "-2", "64", "65", " 3", "1_0", "x", "", "5.0", "9" * 30],
    "fraction": [None, 5, "5", "0.5", "1.5", "x"],
    "texts": [None, (), ("a",), ("a", "ü"), ["\udcff"]],
    "names": [None, (), ("a",), ["a", "\udcff"]],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in VALUES.items() for value in values])
def test_values_are_what_typer_makes_of_them(name, value):
    def param():
        alone = typer.Typer()
        alone.command()(_command)
        return next(param for param in get_command(alone).params if param.name == name)

    expected, found = outcome(param(), value), outcome(dressed(param()), value)
    assert (found, type(found)) == (expected, type(expected))
