"""How a mutant is written: a few words of the controller, and what stands there instead.

A mutant is switched on by exchanging the code of a function in place, so that everybody who holds the function has the mutant, under
whatever name. Words that are not there any more, or there twice, are an error and never a mutant that does nothing.
"""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, cast


class StaleMutantError(Exception):
    """The controller has changed, and a mutant has not."""


@dataclass(frozen=True)
class Edit:
    """Some words of a function, and others in their place."""

    function: FunctionType
    before: str
    after: str


def edit(function: Callable[..., Any] | property, before: str, after: str) -> Edit:
    """Change a function, a method or a property. Lines stand as in a function that is not indented."""
    found = function.fget if isinstance(function, property) else getattr(function, "__func__", function)
    return Edit(cast(FunctionType, found), before, after)


@dataclass(frozen=True)
class Mutant:
    """A controller with one deliberate bug."""

    name: str
    clause: str
    """Of the contract that should notice, by its number; empty if it is about what users are told."""
    wrong: str
    """What is broken, in one sentence."""
    edits: tuple[Edit, ...]
    first: tuple[str, ...]
    """Names of the scenarios, and of the promises in `test_controller.py`, that are tried first."""

    def __str__(self) -> str:
        return self.name

    @contextmanager
    def active(self) -> Iterator[None]:
        """Be this controller for a while. Raises StaleMutantError if that cannot be."""
        codes = {function: compiled(function, source) for function, source in self._sources().items()}
        originals = {function: function.__code__ for function in codes}
        try:
            for function, code in codes.items():
                function.__code__ = code
            yield
        finally:
            for function, code in originals.items():
                function.__code__ = code

    def _sources(self) -> dict[FunctionType, str]:
        sources: dict[FunctionType, str] = {}
        for one in self.edits:
            source = sources.get(one.function) or dedent(inspect.getsource(one.function))
            if (times := source.count(one.before)) != 1:
                raise StaleMutantError(f"{self.name}: {one.function.__qualname__} has {times} times, not once: {one.before}")
            sources[one.function] = source.replace(one.before, one.after)
        return sources


def compiled(function: FunctionType, source: str) -> CodeType:
    """The code of a function in its new words."""
    module = compile(source, f"<a mutant of {function.__qualname__}>", "exec", dont_inherit=True)
    return next(found for found in module.co_consts if isinstance(found, CodeType) and found.co_name == function.__name__)


MUTANTS: list[Mutant] = []


def mutant(name: str, clause: str, wrong: str, *edits: Edit, first: tuple[str, ...] = ()) -> None:
    """Register one."""
    if not edits or any(known.name == name for known in MUTANTS):
        raise ValueError(f"{name}: a mutant has edits, and a name of its own")
    MUTANTS.append(Mutant(name, clause, wrong, edits, first))
