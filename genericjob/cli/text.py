"""The one door for text that commands print.

Most of what is printed was written by others: users, programs, webhooks, another API server. A terminal obeys control characters: they
move the cursor, forge lines, and fill the clipboard. So control characters are made visible here, and no other module of a command may
call `typer.echo` (`pyproject.toml`). Not through this door: the output of a user's own programs (`logs`, `run`, `exec`).
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import typer

_COLOUR = re.compile("\x1b\\[(?:0|3[1-7]|9[0-7])m")
"""What `painted` adds."""
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Characters that JSON and YAML may contain as they are, and that a terminal obeys."""


def one_line(text: str) -> str:
    """Return a text on one line, with control characters made visible."""
    return _visible(" ".join(text.split()))


def say(text: str, *, err: bool = False, end: str = "\n") -> None:
    """Print a text of one or more lines, with all other control characters made visible."""
    typer.echo("\n".join(map(_visible, text.split("\n"))) + end, err=err, nl=False)


def show(lines: Iterable[str]) -> None:
    """Print lines that may have our own colours; all other control characters are made visible."""
    for line in lines:
        typer.echo("".join(_pieces(line)))


def say_json(value: Any, *, indent: int = 2) -> None:
    """Print a value as JSON; what a terminal would obey is escaped, which means the same."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()
    typer.echo(_OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def say_yaml(dump: Callable[..., Any]) -> None:
    """Print what `dump` makes of YAML; what a terminal would obey is escaped, which means the same."""
    text = dump(allow_unicode=True)
    typer.echo((dump(allow_unicode=False) if _OBEYED.search(text) else text).rstrip("\n"))


def painted(text: str, colour: str, *, colours: bool) -> str:
    """Return a text in a colour, if there are any."""
    return typer.style(text, fg=colour) if colours and colour and text else text


def _pieces(line: str) -> Iterable[str]:
    at = 0
    for found in _COLOUR.finditer(line):
        yield _visible(line[at : found.start()])
        yield found[0]
        at = found.end()
    yield _visible(line[at:])


def _visible(line: str) -> str:
    return line if line.isprintable() else "".join(each if each.isprintable() else _shown(each) for each in line)


def _shown(character: str) -> str:
    if character == "\t":
        return character
    return f"^{chr(ord(character) + 64)}" if ord(character) < 32 else "?"
