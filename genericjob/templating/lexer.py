"""What is a variable, and what is only text.

    $(type)   $(rank)   $(replicas[T])   $(service.T[R].host)   $(service.port[NAME])

`$(...)` belongs to others too: a shell runs `$(date)`, and the kubelet expands `$(NAME)` for the environment variables of the container and
turns `$$` into `$`. So only an exact match of the five forms is a variable, and everything else passes untouched. A text is read from left
to right and `$$` is a pair: `$$(rank)` reaches the process as the text `$(rank)`, and `$$$(rank)` as a `$` before the number.

Nothing nests. `$(echo $(rank))` has a variable inside something that is none, and becomes `$(echo 3)`.

T and NAME are spelled like replica types and port names: DNS labels, so lower case and without spaces. R is any run of digits; whether
there is such a rank is not a question of spelling (see `substitution.py`).
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"

# LINEAR FOR ANY TEXT: a try begins at a `$` and ends before the next one, and inside it a label is bounded and digits are never given back.
# `[0-9]`, not `\d`: that would take the digits of every script. The pair stands first, or `$$(rank)` would lose its first `$` to the text.
_TOKEN = re.compile(
    rf"""\$(?: \$
             | \( (?: (?P<own> type | rank )
                    | replicas \[ (?P<replicas> {_LABEL} ) \]
                    | service \. (?P<host> {_LABEL} ) \[ (?P<rank> [0-9]++ ) \] \. host
                    | service \. port \[ (?P<port> {_LABEL} ) \]
                  ) \)
         )""",
    re.VERBOSE,
)


class Form(Enum):
    """The five kinds of variables."""

    TYPE = "type"
    RANK = "rank"
    REPLICAS = "replicas"
    HOST = "host"
    PORT = "port"


class Variable(NamedTuple):
    """A variable, as it was written and as it was understood."""

    text: str
    form: Form
    name: str = ""
    """The type of `replicas` and `host`, the name of `port`."""
    rank: str = ""
    """The digits of `host`, as written."""


@dataclass(frozen=True)
class Template:
    """A text that was read: literal pieces and variables, in their order."""

    segments: tuple[str | Variable, ...]

    @property
    def text(self) -> str:
        """The text as it was written."""
        return "".join([segment if isinstance(segment, str) else segment.text for segment in self.segments])

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables, as often as they occur."""
        return tuple(segment for segment in self.segments if isinstance(segment, Variable))

    @property
    def constant(self) -> bool:
        """Whether it is the same for every job and rank."""
        return len(self.segments) < 2 and not self.variables


def parse(text: str) -> Template:
    """Read a text, once for all the ranks it will be filled in for."""
    segments: list[str | Variable] = []
    copied = 0
    for token in _TOKEN.finditer(text) if "$(" in text else ():
        start, end = token.span()
        if end - start == 2:  # a pair
            continue
        if start > copied:
            segments.append(text[copied:start])
        segments.append(_variable(token))
        copied = end
    if copied < len(text):
        segments.append(text[copied:])
    return Template(tuple(segments))


def _variable(token: re.Match[str]) -> Variable:
    text, own, replicas, host, rank, port = token.group(0, "own", "replicas", "host", "rank", "port")
    if own:
        return Variable(text, _OWN[own])
    if replicas:
        return Variable(text, Form.REPLICAS, replicas)
    if port:
        return Variable(text, Form.PORT, port)
    return Variable(text, Form.HOST, host, rank)


_OWN = {"type": Form.TYPE, "rank": Form.RANK}
