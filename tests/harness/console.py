"""What pages tell people to type, and what they say comes of it.

Blocks in the language `console`: a line that begins with `$` is typed, those below it are printed, and `…` stands for lines left out.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEFT_OUT = "…"
BETWEEN = "-- the next command --"


@dataclass(frozen=True)
class Command:
    """A command, and the lines that it prints according to the page."""

    text: str
    shown: tuple[str, ...]

    def missing(self, printed: str) -> list[str]:
        """The lines that were not printed. In whatever order: programs that run at the same time have none."""
        found = set(map(_plain, printed.splitlines()))
        return [line for line in self.shown if _plain(line) not in found]


def commands(page: str) -> list[Command]:
    """The commands of a page, in order."""
    found = []
    for block in re.finditer(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for each in re.split(r"^\$ ", block[1], flags=re.MULTILINE)[1:]:
            text, *shown = each.splitlines()
            found.append(Command(text, tuple(line for line in shown if line.strip() not in ("", LEFT_OUT))))
    return found


def typed(given: Iterable[Command], *, directory: Path, environment: Mapping[str, str], timeout: float = 120) -> list[tuple[str, int]]:
    """Type commands into one shell; what each printed, and its exit code, as far as they came in that time."""
    lines = [f'{command.text}\nprintf "\\n{BETWEEN} %s\\n" $?' for command in given]
    told: dict[str, Any] = {"cwd": directory, "env": dict(environment), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        printed = subprocess.run(["bash", "-s"], input="\n".join(lines).encode(), timeout=timeout, **told).stdout
    except subprocess.TimeoutExpired as slow:
        printed = slow.stdout or b""
    parts = re.split(rf"^{BETWEEN} (\d+)$\n", printed.decode(), flags=re.MULTILINE)
    return [(text, int(code)) for text, code in zip(parts[::2], parts[1::2], strict=False)]


def _plain(line: str) -> str:
    return " ".join(line.split())
