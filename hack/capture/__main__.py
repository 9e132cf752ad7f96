"""The command line: `PYTHONPATH=hack python3 -m capture --output docs/images/run.svg make run`.

The home directory is an empty one while the command runs, and `~` in the picture: it shows what a new user sees.
"""

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

from .picture import svg
from .screen import Screen
from .terminal import sent

PROMPT = "\x1b[1;32m$\x1b[0m "
UNWANTED = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "MAKEFLAGS", "MAKELEVEL", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME")
"""What would make the picture another one on every machine."""


def main(argv: list[str] | None = None) -> int:
    """Draw one picture; the answer is the exit code of the command that is shown."""
    parser = argparse.ArgumentParser(prog="capture", description="Run a command on a terminal, and draw what stands there in the end.")
    parser.add_argument("--output", type=Path, required=True, help="the SVG file to write")
    parser.add_argument("--columns", type=int, default=84, help="width of the terminal (default: %(default)s)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what is run, and shown behind the prompt")
    options = parser.parse_args(argv)
    typed = shlex.join(options.command)
    with tempfile.TemporaryDirectory() as home:
        kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
        text, code = sent(options.command, columns=options.columns, environment=kept | {"HOME": home, "TERM": "xterm-256color"})
    screen = Screen(options.columns)
    screen.write(f"{PROMPT}{typed}\r\n" + text.replace(home, "~"))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(svg(screen.lines, columns=options.columns, title=typed))
    return code


if __name__ == "__main__":
    sys.exit(main())
