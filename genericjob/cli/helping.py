"""How help calls what a command takes: as kubectl's users know it, FILE and NAME, and not by types of Python."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

_CALLED = {
    "kubeconfig": "FILE",
    "metrics_bind": "ADDRESS",
    "cpu": "AMOUNT",
    "memory": "AMOUNT",
    "lease_namespace": "NAMESPACE",
    "types": "TYPE",
}
"""Values of options that are not called as the option is."""


class Command(TyperCommand):
    """A command whose help has no types in it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What it takes."""
        return [dressed(param) for param in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line. What is wrong with a value is said without how that was found out."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands in the usage, behind the command."""
        return [self.options_metavar or "", *(_usage(param) for param in self.get_params(ctx) if isinstance(param, TyperArgument))]


def flowing(command: Callable[..., Any]) -> str:
    """What a command says of itself, with lines that break where the screen ends and not where the source did."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(text if "\n " in text else text.replace("\n", " ") for text in paragraphs)


def dressed(param: Any) -> Any:
    """A parameter that help calls as people do."""
    called = _value(param)
    param.display_type_rich = lambda ctx: called
    return param


def _value(param: Any) -> str | None:
    """What help calls a value; a flag has none, and what an argument is has been said."""
    if isinstance(param, TyperArgument) or param.is_flag or param.count:
        return None
    choices = param.type_descriptor.choices
    if param.metavar is not None or choices:
        return str(param.metavar or "|".join(map(str, choices)))
    number = isinstance(param, TyperOption) and (param.min is not None or param.max is not None)
    return "N" if number else _CALLED.get(param.name, param.name.upper())


def _usage(argument: TyperArgument) -> str:
    name = argument.display_name_raw
    if name.endswith("]"):  # it says itself what may be left out
        return name
    several = f"{name}..." if argument.nargs != 1 else name
    return several if argument.required else f"[{several}]"
