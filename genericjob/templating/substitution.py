"""Variables become values, where there is one.

A variable that means nothing in this job (a type it does not have, a rank beyond the last, a port without that name, anything about
services when there are none) stays exactly as it was written, and is reported. It is no error: the same text may mean something to a shell.

Values are inserted raw, so `$(rank)` can be a number in the middle of JSON. What is inserted is never read again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from genericjob.templating.lexer import Form, Template, Variable


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the variables mean for the pods of one rank, or of any rank if `rank` is a marker to be replaced later."""

    type: str
    rank: str
    replicas: Mapping[str, int]
    """How many ranks each type has."""
    host: Callable[[str, int], str] | None = None
    """The name or address of a rank; None when the job has no services."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports of the services by name; empty when there are none."""

    def value(self, variable: Variable) -> str | None:
        """What stands for a variable; None if it means nothing here."""
        match variable.form:
            case Form.TYPE:
                return self.type
            case Form.RANK:
                return self.rank
            case Form.REPLICAS:
                return _number(self.replicas.get(variable.name))
            case Form.PORT:
                return _number(self.ports.get(variable.name))
            case Form.HOST:
                return self._host(variable.name, variable.rank)

    def _host(self, type: str, digits: str) -> str | None:
        count = self.replicas.get(type, 0)
        if self.host is None or len(digits) > len(str(count)):  # LENGTH FIRST: digits by the thousand are refused by int()
            return None
        rank = int(digits)
        # "00" is no rank: one rank has one spelling, the one in its name.
        return self.host(type, rank) if rank < count and str(rank) == digits else None


@dataclass(frozen=True, slots=True)
class Filled:
    """A text with values in it."""

    text: str
    unresolved: tuple[str, ...]
    """Variables that meant nothing and were left as they are, each once, in their order."""


def substitute(template: Template, scope: Scope) -> Filled:
    """Put values in the place of variables."""
    pieces: list[str] = []
    unresolved: dict[str, None] = {}
    for segment in template.segments:
        if isinstance(segment, str):
            pieces.append(segment)
        elif (value := scope.value(segment)) is not None:
            pieces.append(value)
        else:
            pieces.append(segment.text)
            unresolved[segment.text] = None
    return Filled("".join(pieces), tuple(unresolved))


def _number(count: int | None) -> str | None:
    return None if count is None else str(count)
