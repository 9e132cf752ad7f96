"""What is left to run, in packs: a pack is the work of one pytest process.

Tests that share a control plane are in one pack, so that few of those are started. A long pack is
divided by rounds, not by tests: its parts run the same tests, fewer times each.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

LONGEST_S = 300.0
"""Seconds that a pack should take."""


class Case(NamedTuple):
    """A test of the suite."""

    name: str
    lane: str
    """Tests of one lane share a control plane; empty if it needs none."""
    marked: bool


class Pack(NamedTuple):
    """Tests for one process, and how often each is to run there."""

    name: str
    plan: dict[str, int]
    seconds: float
    """How long that takes, as far as known."""


def wanted(tests: Iterable[Case], seconds: Mapping[str, float], *, times: int, slowest: int, slow_times: int) -> dict[str, int]:
    """Say how often each test is to run: one that is marked `times`, one of the slowest at least `slow_times`."""
    found = {test.name: times if test.marked else 0 for test in tests}
    for name in sorted(found.keys() & seconds.keys(), key=lambda name: -seconds[name])[:slowest]:
        found[name] = max(found[name], slow_times)
    return {name: number for name, number in found.items() if number}


def packed(tests: Iterable[Case], left: Mapping[str, int], seconds: Mapping[str, float], *, most: int) -> list[Pack]:
    """Divide what is left into packs, each lane into `most` at most; the longest come first."""
    lanes: dict[str, dict[str, int]] = defaultdict(dict)
    for test in tests:
        if left.get(test.name, 0) > 0:
            lanes[test.lane][test.name] = left[test.name]
    packs = []
    for lane, plan in lanes.items():
        whole = sum(seconds.get(name, 1.0) * number for name, number in plan.items())
        parts = min(most, max(plan.values()), max(1, round(whole / LONGEST_S)))
        for part in range(parts):
            share = {name: number // parts + (part < number % parts) for name, number in plan.items()}
            packs.append(_pack(lane or "no control plane", {name: number for name, number in share.items() if number}, seconds))
    return sorted(packs, key=lambda pack: -pack.seconds)


def _pack(name: str, plan: dict[str, int], seconds: Mapping[str, float]) -> Pack:
    return Pack(name, plan, sum(seconds.get(test, 1.0) * number for test, number in plan.items()))
