"""Crashes: at every write of a run, just before and just after it took effect, with every subset of what else was on its way.

A crash at a point is first played with everything lost, which tells how much was on its way; then once per other subset.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal
from zlib import crc32

from genericjob.reconcile.passing import Call

When = Literal["before", "after"]
WHEN: tuple[When, ...] = ("before", "after")
MOST = 8
"""Writes on their way of which every subset is played; of more than these the rest is lost."""
FEW = MOST if os.environ.get("SIM_SUBSETS") == "all" else 3
"""The same, unless time is no object: of more than these only nothing, everything, each alone, and each one missing."""
EVERY = max(1, int(os.environ.get("SIM_EVERY", "1")))
"""Of a run's writes only one in so many is where it crashes; another one in each scenario."""


@dataclass
class Tally:
    """What was played, in this session."""

    scenarios: int = 0
    points: int = 0
    runs: int = 0
    most: int = 0
    """The most writes that were on their way at a crash."""

    def add(self, other: "Tally") -> None:
        """Count what others have played."""
        self.scenarios += other.scenarios
        self.points += other.points
        self.runs += other.runs
        self.most = max(self.most, other.most)

    def __str__(self) -> str:
        return (
            f"{self.scenarios} scenarios, {self.points} crash points, {self.runs} runs with a crash, "
            f"up to {self.most} other writes on their way at a crash, every subset of up to {FEW}"
            f"{f', at one write in {EVERY}' if EVERY > 1 else ''}"
        )


TALLY = Tally()


@dataclass
class Crash:
    """Where a controller dies, and which of the writes on their way arrive all the same, by their number."""

    write: int
    when: When
    arrive: tuple[int, ...] = ()
    under_way: int = 0
    """How many writes were on their way."""

    def commit(self, calls: list[Call]) -> Iterable[Call]:
        """What reaches the server."""
        self.under_way = len(calls)
        return [call for number, call in enumerate(calls) if number in self.arrive]

    def __str__(self) -> str:
        return f"crash {self.when} write {self.write}, and of what was on its way {list(self.arrive) or 'nothing'} arrived"


def chosen(writes: int, scenario: str, every: int = EVERY) -> range:
    """At which of a run's writes it crashes: at one at least."""
    return range(1 + crc32(scenario.encode()) % max(1, min(every, writes)), writes + 1, every)


def crash_at(writes: Iterable[int], play: Callable[[Crash], None]) -> Tally:
    """Play every crash at these writes of a run; says how many these were."""
    tally = Tally()
    for write in writes:
        for when in WHEN:
            first = Crash(write, when)
            play(first)
            others = [Crash(write, when, subset) for subset in subsets(min(first.under_way, MOST))]
            for crash in others:
                play(crash)
            tally.add(Tally(points=1, runs=1 + len(others), most=first.under_way))
    return tally


def subsets(of: int) -> Iterator[tuple[int, ...]]:
    """All subsets that are played, but the empty one."""
    sizes = range(1, of + 1) if of <= FEW else (1, of - 1, of)
    for size in sizes:
        yield from combinations(range(of), size)
