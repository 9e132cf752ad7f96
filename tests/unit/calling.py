"""The command as people call it, in this process: what it prints, and how it exits."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

import pytest

from genericjob.cli.main import main


class Called(NamedTuple):
    code: int
    out: str
    err: str


def genericjob(*words, stdin=""):
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    called = patch.object(sys, "argv", ["genericjob", *map(str, words)])
    with called, patch.object(sys, "stdin", given), redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main()
    code = ended.value.code
    if isinstance(code, str):  # the interpreter prints it, and exits with 1
        return Called(1, out.getvalue(), f"{err.getvalue()}{code}\n")
    return Called(code or 0, out.getvalue(), err.getvalue())
