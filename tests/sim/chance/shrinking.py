"""Making a schedule that fails as small as possible: first fewer steps (ddmin), then simpler ones.

Whoever shrinks says what failing is: a function that takes a schedule and returns one that fails in the same way, itself or the same with
another seed of the scheduler, or nothing. Which thread goes first depends on everything that happened before, so with a step less the same
seed may lead elsewhere.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from sim.chance import electing
from sim.chance.schedules import Schedule, Step
from sim.node import FOREVER, Program

T = TypeVar("T")

Fails = Callable[[Schedule], Schedule | None]


def shrink(schedule: Schedule, fails: Fails, *, tries: int = 2_000) -> Schedule:
    """The smallest that was found with so many tries."""
    return _Shrinking(fails, tries).shrink(schedule)


class _Shrinking:
    """Tries, until there is nothing left to leave out."""

    def __init__(self, fails: Fails, tries: int) -> None:
        self._fails, self._left = fails, tries

    def shrink(self, schedule: Schedule) -> Schedule:
        while True:
            smaller = self._simpler(self._fewer(schedule))
            if smaller == schedule or self._left <= 0:
                return smaller
            schedule = smaller

    def _try(self, candidate: Schedule) -> Schedule | None:
        if self._left <= 0:
            return None
        self._left -= 1
        return self._fails(candidate)

    def _fewer(self, schedule: Schedule) -> Schedule:
        """ddmin: leave out ever smaller parts of the steps."""
        parts = 2
        while len(schedule) > 0:
            for kept in without_a_part(schedule.steps, parts):
                if (found := self._try(replace(schedule, steps=tuple(kept)))) is not None:
                    schedule, parts = found, max(parts - 1, 2)
                    break
            else:
                if parts >= len(schedule):
                    break
                parts = min(2 * parts, len(schedule))
        return schedule

    def _simpler(self, schedule: Schedule) -> Schedule:
        """Simplify one thing after the other, for as long as it fails."""
        while True:
            for candidate in simpler(schedule):
                if (found := self._try(candidate)) is not None:
                    schedule = found
                    break
            else:
                return schedule


def without_a_part(items: Sequence[T], parts: int) -> Iterator[list[T]]:
    """Everything but one of so many parts."""
    parts = min(parts, len(items))
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    for begin, end in pairwise(bounds):
        yield [*items[:begin], *items[end:]]


# ------------------------------------------------------------------------------------------------ simpler ones


def simpler(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules that are simpler in one thing."""
    if schedule.latency:
        yield replace(schedule, latency=0.0)
    if schedule.ends:
        yield replace(schedule, ends=False)
    if schedule.elected and not any(step.do in electing.STEPS for step in schedule.steps):
        yield replace(schedule, elected=False)
    for rank in schedule.programs:
        yield replace(schedule, programs={other: found for other, found in schedule.programs.items() if other != rank})
    for rank, programs in schedule.programs.items():
        for fewer in _programs(programs):
            yield replace(schedule, programs={**schedule.programs, rank: fewer})
    for number, step in enumerate(schedule.steps):
        for other in _steps(step):
            yield replace(schedule, steps=(*schedule.steps[:number], other, *schedule.steps[number + 1 :]))


def _programs(programs: tuple[Program, ...]) -> Iterator[tuple[Program, ...]]:
    if len(programs) > 1:
        for number in range(len(programs)):
            yield programs[:number] + programs[number + 1 :]
    usual = Program()
    for number, program in enumerate(programs):
        if program != FOREVER:
            yield (*programs[:number], FOREVER, *programs[number + 1 :])
        for name in Program.__dataclass_fields__:
            if program != FOREVER and getattr(program, name) != getattr(usual, name):
                other = replace(program, **{name: getattr(usual, name)})
                if other != FOREVER:
                    yield (*programs[:number], other, *programs[number + 1 :])


def _steps(step: Step) -> Iterator[Step]:
    for name, value in step.arguments.items():
        if (step.do, name) not in NEEDED:
            yield step.without(name)
        for other in _values(value):
            yield step.but(**{name: other})


NEEDED = frozenset(
    (
        *(("submit", name) for name in ("types",)),
        *((do, "seconds") for do in ("wait", "slow", "slow_reads", "freeze", "cut_off", "lag", "behind", "stutter", "jump")),
        ("refuse_lease", "code"),
        *((do, "resource") for do in ("lag", "stutter")),
        *((do, "name") for do in ("kill", "drain", "lose", "delete_pod", "delete_service")),
        *(("refuse", name) for name in ("code", "verb")),
        ("lose_answers", "verb"),
        ("until", "mode"),
    )
)
"""Arguments without which a step is none."""


def _values(value: Any) -> Iterator[Any]:
    """Simpler values of the same type; each chain of them ends."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield from (type(value)(smaller) for smaller in _numbers(value))
    elif isinstance(value, tuple | list):
        yield from (type(value)((*value[:number], *value[number + 1 :])) for number in range(len(value)))
        for number, item in enumerate(value):
            yield from (type(value)((*value[:number], other, *value[number + 1 :])) for other in _values(item))
    elif isinstance(value, Mapping):
        yield from ({other: item for other, item in value.items() if other != key} for key in value)
        for key, item in value.items():
            yield from ({**value, key: other} for other in _values(item))


def _numbers(value: float) -> Iterator[float]:
    if value == 0:
        return
    yield 0
    if abs(value) > 1:
        yield 1 if value > 0 else -1
    if isinstance(value, int) and abs(value) > 2:
        yield value - 1 if value > 0 else value + 1
