"""`--cluster`, `--user`, `--as`, `--as-uid` and `--as-group`: other entries of the kubeconfig than those of the context, and the user
as whom a command acts, for every command that talks to a cluster.

The options are added to all of these commands at once, and what they say is kept here until the
command asks for its server.
"""

from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.main import get_command

from genericjob.reconcile.impersonation import Impersonation


class Acting:
    """What the options of the command that is being run say."""

    chosen = Impersonation()
    cluster = user = ""
    """Entries of the kubeconfig in the place of those that the context names."""

    @classmethod
    def options(cls) -> list[tuple[str, str]]:
        """Return the options that were given, for commands that are proposed."""
        entries = [("--cluster", cls.cluster), ("--user", cls.user)]
        given = [*entries, ("--as", cls.chosen.user), ("--as-uid", cls.chosen.uid), *(("--as-group", group) for group in cls.chosen.groups)]
        return [(name, value) for name, value in given if value]


def _given(value: str | None) -> str:
    if value == "":
        # An empty value mostly is a variable of a shell that is not set, and would act with all rights of the user.
        raise typer.BadParameter("it is empty: leave the option out to act as yourself")
    return value or ""


def _entry(value: str | None) -> str:
    if value == "":
        raise typer.BadParameter("it is empty: leave the option out for the one of the context")
    return value or ""


def _cluster(value: str | None) -> None:
    Acting.cluster = _entry(value)


def _user(value: str | None) -> None:
    Acting.user = _entry(value)


def _as_user(value: str | None) -> None:
    Acting.chosen = replace(Acting.chosen, user=_given(value))


def _as_uid(value: str | None) -> None:
    Acting.chosen = replace(Acting.chosen, uid=_given(value))


def _as_groups(value: list[str] | None) -> None:
    Acting.chosen = replace(Acting.chosen, groups=tuple(_given(group) for group in value or ()))


Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster", metavar="NAME", help="Cluster of the kubeconfig. Default: the context's.", callback=_cluster, expose_value=False
    ),
]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="User of the kubeconfig. Default: the context's.", callback=_user, expose_value=False),
]
As = Annotated[
    str | None, typer.Option("--as", metavar="USER", help="Act as this user, as far as you may.", callback=_as_user, expose_value=False)
]
AsUid = Annotated[str | None, typer.Option("--as-uid", metavar="UID", help="Act with this UID.", callback=_as_uid, expose_value=False)]
AsGroup = Annotated[
    list[str] | None,
    typer.Option(
        "--as-group", metavar="GROUP", help="Act as a member of this group; may be repeated.", callback=_as_groups, expose_value=False
    ),
]


def _acting(cluster: Cluster = None, user: User = None, as_user: As = None, as_uid: AsUid = None, as_group: AsGroup = None) -> None:
    """Stand for the commands that have these options."""


def acting(command: Any) -> Any:
    """Return a command with these options, if it talks to a cluster that its other options choose."""
    if {"kubeconfig", "run"} <= {param.name for param in command.params}:
        alone = typer.Typer(add_completion=False)
        alone.command()(_acting)
        command.params += get_command(alone).params
    return command
