"""The commands, put together."""

from typing import Annotated

import typer

from genericjob import __version__

from .check import check
from .controller import controller
from .run import run

app = typer.Typer(
    name="genericjob",
    help="Distributed jobs on Kubernetes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(check)
app.command()(controller)
app.command()(run)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genericjob {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """Distributed jobs on Kubernetes."""
