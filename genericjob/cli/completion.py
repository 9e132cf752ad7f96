"""`genericjob completion`: scripts for shells."""

from typing import Annotated, Literal

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

Shell = Annotated[
    Literal["bash", "zsh", "fish", "kubectl"],
    typer.Argument(metavar="bash|zsh|fish|kubectl", help="The shell; kubectl is for `kubectl gj`."),
]

KUBECTL = """\
#!/bin/sh
# kubectl asks this program how `kubectl gj …` goes on. Save it as kubectl_complete-gj, executable, where programs are looked for.
COMP_WORDS="kubectl-gj $*" COMP_CWORD=$# _KUBECTL_GJ_COMPLETE=complete_bash kubectl-gj
echo :4
"""
""":4 says that names of files are of no use here."""


def completion(shell: Shell) -> None:
    """Print a script by which a shell completes commands, options and names of jobs.

    bash: source <(genericjob completion bash)

    zsh: source <(genericjob completion zsh)

    fish: genericjob completion fish | source

    kubectl: genericjob completion kubectl > ~/.local/bin/kubectl_complete-gj, and make it executable
    """
    if shell == "kubectl":
        typer.echo(KUBECTL, nl=False)
    else:
        typer.echo(get_completion_script(prog_name="genericjob", complete_var="_GENERICJOB_COMPLETE", shell=shell))
