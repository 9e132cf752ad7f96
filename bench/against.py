"""The controller of another commit against that of this checkout: pairs on one server, and what their ratios say.

    make bench-quick OPTIONS="--against COMMIT"

Only the package of the other commit is used, in a directory of its own: server, definition of the
kind, measuring program and installed packages are those of this checkout for both. A machine is never
equally fast for long, so old and new take turns, and each pair gives a ratio. The median of the ratios
is reported with an interval that covers the true median in 95 of 100 such measurements, whatever the
distribution of the ratios is.
"""

import io
import math
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "genericjob"
LEAST_PAIRS = 20
CONFIDENCE = 0.95
MOST_CPU = 1.05
"""Processor time per rank, new : old, that is still accepted."""


class Costs(Protocol):
    """What a controller needed for one job."""

    @property
    def seconds(self) -> float:
        """Time until all pods exist."""
        ...

    @property
    def cpu(self) -> float:
        """Processor time of the controller."""
        ...


class UnknownCommitError(Exception):
    """A commit that cannot be checked out."""


# ------------------------------------------------------------------------------------------------ the other code


@contextmanager
def checked_out(commit: str, *, repository: Path = ROOT) -> Iterator[Path]:
    """Yield a directory with the package of a commit."""
    done = subprocess.run(["git", "-C", str(repository), "archive", commit, PACKAGE], capture_output=True)
    if done.returncode:
        raise UnknownCommitError(f"{commit}: {done.stderr.decode(errors='replace').strip()}")
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            archive.extractall(directory, filter="data")
        check_origin(Path(directory))
        yield Path(directory)


def check_origin(directory: Path) -> None:
    """Make sure that a program which runs in a directory takes the package from there, not from where it is installed."""
    ask = f"import {PACKAGE}; print({PACKAGE}.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", ask], cwd=directory, env=environment(directory), capture_output=True, text=True, check=True
    )
    if not Path(found.stdout.strip()).resolve().is_relative_to(directory.resolve()):
        raise RuntimeError(f"a program in {directory} takes {PACKAGE} from {found.stdout.strip()}")


def environment(directory: Path) -> dict[str, str]:
    """The environment of a program that takes the package from a directory."""
    return {**os.environ, "PYTHONPATH": str(directory)}


# ------------------------------------------------------------------------------------------------ figures


@dataclass(frozen=True)
class Estimate:
    """The median of some ratios, and where the true one is with 95 % confidence."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def estimate(ratios: Sequence[float]) -> Estimate:
    """Return the median and its interval by order statistics; few ratios have none, which is without end."""
    found = sorted(ratios)
    rank = interval_rank(len(found))
    if not rank:
        return Estimate(statistics.median(found), -math.inf, math.inf)
    return Estimate(statistics.median(found), found[rank - 1], found[-rank])


def interval_rank(count: int) -> int:
    """Return k so that the k-th smallest and the k-th largest of `count` values enclose the median with confidence; 0 if none do.

    Each value is below the true median with probability 1/2. The median is outside if fewer than k
    values are below it, or fewer than k above it.
    """
    outside, rank = 0.0, 0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        rank += 1
    return rank


@dataclass(frozen=True)
class Comparison:
    """Pairs of measurements, new and old."""

    pairs: Sequence[tuple[Costs, Costs]]
    ranks: int

    @property
    def cpu(self) -> Estimate:
        """Processor time, new : old."""
        return estimate([new.cpu / old.cpu for new, old in self.pairs])

    @property
    def seconds(self) -> Estimate:
        """Time until all pods exist, new : old."""
        return estimate([new.seconds / old.seconds for new, old in self.pairs])

    @property
    def slower(self) -> bool:
        """Whether the new code certainly needs more processor time, and more than is accepted. Few pairs prove nothing."""
        return len(self.pairs) >= LEAST_PAIRS and self.cpu.median > MOST_CPU and self.cpu.low > 1.0

    def lines(self, commit: str) -> Iterator[str]:
        """The table to print."""
        news, olds = zip(*self.pairs, strict=True)
        yield f"new: this checkout, old: {commit}; {len(self.pairs)} pairs, one job of {self.ranks:,} ranks"
        yield f"{'':30} {'new':>9} {'old':>9}   new : old, median (95 % interval)"
        yield f"{'processor time per rank, ms':30} {self._cpu(news):9.3f} {self._cpu(olds):9.3f}   {self.cpu}"
        yield f"{'time until all pods exist, s':30} {self._seconds(news):9.2f} {self._seconds(olds):9.2f}   {self.seconds}"
        if len(self.pairs) < LEAST_PAIRS:
            yield f"fewer than {LEAST_PAIRS} pairs: a trial, no measurement"
        elif self.slower:
            yield f"MORE THAN ACCEPTED: processor time is above {MOST_CPU:g} of the old, and its interval does not include 1.0"
        else:
            yield f"accepted: processor time is at most {MOST_CPU:g} of the old, or its interval includes 1.0"

    def _cpu(self, found: Sequence[Costs]) -> float:
        return statistics.median(each.cpu for each in found) / self.ranks * 1e3

    def _seconds(self, found: Sequence[Costs]) -> float:
        return statistics.median(each.seconds for each in found)
