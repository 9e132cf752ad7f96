"""How help calls what a command takes: as kubectl's users know it, FILE and NAME, and not by types of Python."""

import inspect
import re
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

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
BEHIND_DASHES = "genericjob.behind_dashes"
"""Where a context has how many words stand behind two dashes; nothing, if there are no dashes."""
_WHOLE_NUMBER = re.compile("-?[0-9]{1,9}")


class Command(TyperCommand):
    """A command whose help has no types in it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """What it takes."""
        return [dressed(param) for param in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line. What is wrong with a value is said without how that was found out."""
        if "--" in args:
            ctx.meta[BEHIND_DASHES] = len(args) - args.index("--") - 1
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


class _Unconverted:
    """Takes the values that need no conversion as they are.

    Typer has pydantic convert every value, and loading pydantic takes longer than most commands do. So it is loaded for
    values that may be wrong: it finds the words for them.
    """

    @staticmethod
    def coerce(value: Any, param: Any, ctx: Any) -> Any:
        """Return what the function of the command gets."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        kind = get_args(param.type_descriptor.annotation)[0] if several else param.type_descriptor.annotation
        values = value if several else (value,)
        if isinstance(values, tuple | list) and all(
            _needs_no_conversion(each, kind, param.type_descriptor.parameter_info) for each in values
        ):
            taken = [int(each) if kind is int else each for each in values]
            return taken if several else taken[0]
        return type(param).get_runtime_param(param).coerce(value, param=param, ctx=ctx)


def _needs_no_conversion(value: Any, kind: Any, limits: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is int and (type(value) is int or _WHOLE_NUMBER.fullmatch(value)):
        return (limits.min is None or limits.min <= int(value)) and (limits.max is None or int(value) <= limits.max)
    return kind is str and isinstance(value, str) and value.isascii()  # what is no UTF-8 on the command line is not ASCII


def dressed(param: Any) -> Any:
    """A parameter that help calls as people do, and whose value is converted only if that is needed."""
    called = _value(param)
    param.display_type_rich = lambda ctx: called
    param.get_runtime_param = lambda: _Unconverted
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
