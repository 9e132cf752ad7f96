"""`genericjob new`: the manifest of a job, made from a preset and a few flags, to be read, changed and kept."""

import re
import shlex
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import jinja2
import typer
import yaml

from genericjob.api.spec import LABEL, MAX_REPLICAS

from .documents import parsed, problems
from .failures import BAD_INPUT, CommandError
from .helping import BEHIND_DASHES
from .lines import Dumper
from .wording import meant

FOLDER = Path(__file__).with_name("presets")
DEFAULT = "plain"
PYTHON = ("python", "python3")


@dataclass(frozen=True)
class Values:
    """What a preset is filled with. None is a flag that it has no use for."""

    name: str = "job"
    command: tuple[str, ...] = ()
    workers: int = 2
    servers: int | None = None
    processes: int | None = None
    image: str = ""
    gpus: int = 0
    cpu: str = ""
    memory: str = ""
    port: int = 0
    restarts: int = 0

    @property
    def hosts(self) -> list[str]:
        """How workers are reached."""
        return [f"$(service.worker[{rank}].host)" for rank in range(self.workers)]

    @property
    def slots(self) -> list[str]:
        """The same, with how many processes each has."""
        return self.hosts if self.processes == 1 else [f"{host}:{self.processes}" for host in self.hosts]


@dataclass(frozen=True)
class Preset:
    """A kind of job, and what it is filled with unless somebody says otherwise."""

    name: str
    summary: str
    values: Values


# IMAGES WERE CHECKED ON 2026-11-18, in public documents and not by pulling them: busybox in the
# README of docker-library, pytorch and tensorflow in public files that pin these tags by digest,
# mpi-pi in the example of kubeflow/mpi-operator (its tags have no versions). Of PyTorch it is the
# build for CUDA 12.6: that for CUDA 13 needs newer drivers.
PRESETS = {
    preset.name: preset
    for preset in (
        Preset(
            "plain",
            "Equal workers that run one command.",
            Values(command=("sh", "-c", "echo I am $(type) $(rank) of $(replicas[worker])"), image="busybox:1.38"),
        ),
        Preset(
            "torchrun",
            "PyTorch: torchrun on every worker, which meet at worker 0.",
            Values(command=("train.py",), processes=1, image="pytorch/pytorch:2.13.0-cuda12.6-cudnn9-runtime", port=29500, restarts=3),
        ),
        Preset(
            "tensorflow-ps",
            "TensorFlow: a chief, workers and parameter servers.",
            Values(command=("python3", "train.py"), servers=1, image="tensorflow/tensorflow:2.21.0", port=2222, restarts=3),
        ),
        Preset(
            "mpi",
            "MPI: a launcher, and workers that it reaches by ssh.",
            Values(command=("/home/mpiuser/pi",), processes=1, image="mpioperator/mpi-pi:openmpi", port=22, restarts=2),
        ),
    )
}
LIST = ", ".join(PRESETS)

NICKNAMES = {"pytorch": "torchrun", "torch": "torchrun", "tensorflow": "tensorflow-ps", "tf": "tensorflow-ps", "openmpi": "mpi"}
"""What people call presets."""


def complete(ctx: typer.Context, incomplete: str) -> list[str]:
    """Presets, for a shell: they come first."""
    return [] if ctx.params.get("words") else [name for name in PRESETS if name.startswith(incomplete)]


Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PRESET] NAME [-- COMMAND...]",
        help=f"One of {LIST}; the name of the job; what its ranks run.",
        autocompletion=complete,
        show_default=False,
    ),
]
List = Annotated[bool, typer.Option("--list", help="Say which presets there are.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, max=MAX_REPLICAS, help="How many workers there are. Default: 2.", show_default=False)
]
Servers = Annotated[
    int | None, typer.Option("--servers", min=1, max=1000, help="How many parameter servers there are. Default: 1.", show_default=False)
]
Processes = Annotated[
    int | None,
    typer.Option("--processes", min=1, max=1000, help="Processes of each worker. Default: one for each GPU.", show_default=False),
]
Image = Annotated[
    str | None, typer.Option("--image", help="Image of the containers. Default: one that fits the preset.", show_default=False)
]
Gpus = Annotated[int | None, typer.Option("--gpus", min=0, help="GPUs of each container.", show_default=False)]
Cpu = Annotated[str | None, typer.Option("--cpu", help="Processors of each container: 2, 500m.", show_default=False)]
Memory = Annotated[str | None, typer.Option("--memory", help="Memory of each container: 8Gi.", show_default=False)]
Port = Annotated[int | None, typer.Option("--port", min=1, max=65535, help="Port at which ranks meet.", show_default=False)]
Restarts = Annotated[
    int | None, typer.Option("--restarts", min=0, help="How often a failure is forgiven. Default: the preset's.", show_default=False)
]


def new(
    ctx: typer.Context,
    words: Words = None,
    workers: Workers = None,
    servers: Servers = None,
    processes: Processes = None,
    image: Image = None,
    gpus: Gpus = None,
    cpu: Cpu = None,
    memory: Memory = None,
    port: Port = None,
    restarts: Restarts = None,
    list: List = False,
) -> None:
    """Print the manifest of a new job.

    It is YAML with comments that explain it: a beginning, to be changed. It passes `genericjob validate` as it is.

    Example: genericjob new torchrun train --workers 4 --gpus 8 -- train.py --epochs 3 > train.yaml
    """
    if list:
        for preset in PRESETS.values():
            typer.echo(f"{preset.name:<16}{preset.summary}")
        return
    preset, name, command = _understood(words or [], ctx.meta.get(BEHIND_DASHES))
    given = {
        "workers": workers,
        "servers": servers,
        "processes": processes,
        "image": image,
        "gpus": gpus,
        "cpu": cpu,
        "memory": memory,
        "port": port,
        "restarts": restarts,
    }
    typer.echo(made(preset, name, command, **{flag: value for flag, value in given.items() if value is not None}), nl=False)


def made(preset: Preset, name: str, command: tuple[str, ...] = (), **flags: Any) -> str:
    """The manifest; raises CommandError for flags that do not fit."""
    if not re.fullmatch(LABEL, name):
        raise CommandError(f"{name!r} is no name for a job: it has a-z, 0-9 and -, and begins and ends with a letter or a digit", BAD_INPUT)
    if unused := next((flag for flag in flags if getattr(preset.values, flag) is None), ""):
        raise CommandError(f"the preset {preset.name} has no use for --{unused}", BAD_INPUT)
    if flags.get("gpus") and preset.values.processes is not None:
        flags.setdefault("processes", flags["gpus"])
    values = replace(preset.values, name=name, **flags)
    values = replace(values, command=_started(preset, command) or values.command)
    text = _environment().get_template(f"{preset.name}.yaml.j2").render(it=values)
    _check(text)
    return text


def _understood(words: list[str], behind: int | None) -> tuple[Preset, str, tuple[str, ...]]:
    """Preset, name and command, of which so many words stand `behind` two dashes; without dashes it is what follows the name.

    A word that is no preset is the name of a plain job, unless it may be a preset that somebody misspelled.
    """
    if len(words) > 1 and words[0] not in PRESETS and (hint := meant(NICKNAMES.get(words[0], words[0]), PRESETS)):
        raise CommandError(f"there is no preset {words[0]}{hint} A plain job of that name: genericjob new plain {words[0]}", BAD_INPUT)
    words, command = (words, []) if behind is None else (words[: len(words) - behind], words[len(words) - behind :])
    if words and words[0] not in PRESETS:
        if behind is not None and len(words) > 1:
            example = shlex.join(["genericjob", "new", DEFAULT, words[1], "--", *words[2:], *command])
            raise CommandError(f"there is no preset {words[0]}; the presets are {LIST}: {example}", BAD_INPUT)
        words = [DEFAULT, *words]
    if len(words) < 2:
        example = f"genericjob new {words[0] if words else DEFAULT} train"
        raise CommandError(f"what is the job's name? {example}; the presets are {LIST}", BAD_INPUT)
    if behind is not None and len(words) > 2:
        example = shlex.join(["genericjob", "new", *words[:2], "--", *words[2:], *command])
        raise CommandError(f"what is {words[2]}? All words of the command stand behind the two dashes: {example}", BAD_INPUT)
    return PRESETS[words[0]], words[1], (*words[2:], *command)


def _started(preset: Preset, command: tuple[str, ...]) -> tuple[str, ...]:
    """A command as its preset wants it: torchrun starts Python itself, and has to be told where it shall not."""
    if preset.name != "torchrun" or not command:
        return command
    if command[0] in PYTHON and len(command) > 1:
        return command[1:]
    return command if command[0].endswith(".py") or command[0] == "-m" else ("--no-python", *command)


def _check(text: str) -> None:
    """What is printed can be used as it is."""
    wrong = [str(problem) for document in parsed(text, "the manifest") for problem in problems(document) if problem.severity == "error"]
    if wrong:
        raise CommandError(f"that makes no job: {'; '.join(wrong)}", BAD_INPUT)


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=False,  # noqa: S701 - this is no HTML: the filter below quotes
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["yaml"] = quoted
    return made


def quoted(value: Any) -> str:
    """A value in YAML, on one line: whatever is in it, it stays one value."""
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    return yaml.dump(value, Dumper=Dumper, default_style=style, width=10**9, allow_unicode=True).removesuffix("...\n").rstrip("\n")
