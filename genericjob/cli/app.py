"""The commands, put together. Each is loaded when it is called: whoever asks for help need not wait for an engine."""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command

from genericjob import __version__

from .acting import acting
from .failures import Debugging
from .helping import Command as Plain
from .helping import dressed, flowing
from .text import say

HERE, THERE, FILES, CLUSTER = "Without a cluster", "Jobs, on a cluster or in a run on this machine", "Manifests", "Clusters"


class Command(NamedTuple):
    """A command as the list of all shows it. The function that does it has the same name as the command."""

    name: str
    room: str
    panel: str
    help: str
    """The first sentence of the function's own words."""
    function: str = ""


COMMANDS = (
    Command("run", "run", HERE, "Run jobs on this machine: no cluster, and programs in place of containers."),
    Command("apply", "apply", THERE, "Create jobs from files, or change those that exist."),
    Command("get", "get", THERE, "List jobs, or show one."),
    Command("describe", "describe", THERE, "Tell all about a job: its ranks, what it waits for, and what happened."),
    Command("logs", "logs", THERE, "Print what the ranks of a job print."),
    Command("wait", "wait", THERE, "Wait until a job has succeeded or failed."),
    Command("watch", "watch", THERE, "Watch the ranks of a job until it ends."),
    Command("pause", "modes", THERE, "Have no replicas for a while."),
    Command("resume", "modes", THERE, "Let jobs go on after a pause."),
    Command("debug", "modes", THERE, "Let a job's replicas wait to be debugged, and enter one of them."),
    Command("exec", "exec", THERE, "Run a command in a rank of a job.", function="execute"),
    Command("delete", "delete", THERE, "Delete jobs, and everything that they made."),
    Command("validate", "validate", FILES, "Say all that a cluster would say about manifests, without one."),
    Command("render", "render", FILES, "Print the pods and services that the controller would make of a job."),
    Command("explain", "explain", FILES, "Tell which rules of a job can still fire, and what they wait for."),
    Command("new", "new", FILES, "Print the manifest of a new job."),
    Command("check", "check", CLUSTER, "Check that the cluster can be reached, and show who the cluster thinks you are."),
    Command("controller", "controller", CLUSTER, "Run GenericJobs on a cluster, until SIGTERM or Ctrl-C; a second one ends at once."),
    Command("completion", "completion", CLUSTER, "Print a script by which a shell completes commands, options and names of jobs."),
)


class Lazy(TyperGroup):
    """Knows its commands by their names, and loads the one that is called."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of all commands."""
        return [dressed(param) for param in super().get_params(ctx)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words name."""
        name, found, rest = super().resolve_command(ctx, args)
        return name, loaded(name) if name and found else found, rest


def loaded(name: str) -> Any:
    """A command with its options."""
    wanted = next(each for each in COMMANDS if each.name == name)
    room = import_module(f".{wanted.room}", __package__)
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    function = getattr(room, wanted.function or name)
    alone.command(name, cls=Plain, help=flowing(function))(function)
    return acting(get_command(alone))


def _called_by_its_name() -> None:
    """Stands for a command that is not loaded."""


app = typer.Typer(
    name="genericjob",
    cls=Lazy,
    help="Distributed jobs on Kubernetes, and without it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _each in COMMANDS:
    app.command(_each.name, help=_each.help, rich_help_panel=_each.panel)(_called_by_its_name)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"genericjob {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show requests, and where in the program a failure came from.")] = False,
) -> None:
    """Distributed jobs on Kubernetes, and without it."""
    Debugging.on = debug
