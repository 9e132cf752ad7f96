"""What is known of the tests so far: one line of JSON for each time that a test ran.

Testers append lines while they run; each line is written at once and whole, so several of them
share the file. The first line says of which code these are the results.
"""

import hashlib
import itertools
import json
import os
import statistics
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flaky import FlakyError

CODE = ("genericjob", "hack", "tests", "examples")
"""Directories whose files decide what a test does."""


def fingerprint(root: Path) -> str:
    """The same for the same code."""
    found = hashlib.sha256()
    for directory in CODE:
        for file in sorted((root / directory).rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:16]


@dataclass
class Runs:
    """How one test has done."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Files with what the failed runs printed."""

    @property
    def count(self) -> int:
        """How often it has run."""
        return len(self.seconds)

    @property
    def usual(self) -> float:
        """Seconds that it usually takes."""
        return statistics.median(self.seconds)


class Record:
    """The results in a directory, those that testers add included."""

    def __init__(self, directory: Path, code: str) -> None:
        """Go on with the results in a directory, or begin there; results of other code are an error."""
        self.directory, self.file = directory, directory / "results.jsonl"
        self.failures, self.logs = directory / "failures", directory / "logs"
        self.tests: dict[str, Runs] = defaultdict(Runs)
        self._read = 0
        for each in (directory, self.failures, self.logs):
            each.mkdir(parents=True, exist_ok=True)
        if not self.file.exists():
            append(self.file, {"code": code})
        if self.update() != code:
            raise FlakyError(f"{directory} has the results of other code: remove it, or begin anew with --anew")

    def update(self) -> str:
        """Take in what testers have written since; returns the fingerprint, if that was among it."""
        code = ""
        with self.file.open("rb") as file:
            file.seek(self._read)
            *lines, _ = file.read().split(b"\n")
        for line in lines:
            self._read += len(line) + 1
            found = json.loads(line)
            code = found.get("code", code)
            if "test" in found:
                runs = self.tests[found["test"]]
                runs.seconds.append(found["seconds"])
                if found["failed"]:
                    runs.failures.append(found["failed"])
        return code

    @property
    def runs(self) -> int:
        """How many results there are."""
        return sum(runs.count for runs in self.tests.values())

    @property
    def failed(self) -> int:
        """How many of them are failures."""
        return sum(len(runs.failures) for runs in self.tests.values())


def append(file: Path, line: dict[str, Any]) -> None:
    """Add a line. IN ONE WRITE: other processes do the same."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, json.dumps(line).encode() + b"\n")
    finally:
        os.close(handle)


def failure(directory: Path, test: str, text: str) -> str:
    """Keep what a failed run printed; returns the name of the file."""
    short = "".join(each if each.isalnum() else "-" for each in test.rpartition("/")[2])[:100]
    for number in itertools.count(1):
        with suppress(FileExistsError), (directory / f"{short}-{number}.txt").open("x") as file:
            file.write(f"{test}\n\n{text}\n")
            return Path(file.name).name
    raise AssertionError
