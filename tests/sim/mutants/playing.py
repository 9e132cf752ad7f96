"""What is played with mutants: the catalogue, what the other tests promise, and random schedules."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sim import test_controller, test_fairness, test_genericjob, test_leading, test_requests, test_undecodable
from sim.chance.found import FOUND
from sim.chance.making import schedule
from sim.chance.schedules import Schedule
from sim.chance.trial import play
from sim.crashes import MOST, WHEN, Crash, subsets
from sim.runs import Ending, compare, differences, played
from sim.scenarios import SCENARIOS, Scenario

SEED = 1
FEW = 8
"""A test that is made for more values than this is about the catalogue, which is played here anyway."""


@dataclass(frozen=True)
class Run:
    """One run, and what it is called."""

    name: str
    check: Callable[[Ending | None], None]
    """Raises if anything is wrong."""
    scenario: Scenario | None = None
    """If it is one without any disturbance."""
    expected: Ending | None = None
    """How the same controller ends without the crash."""

    def play(self) -> None:
        """Raises if anything is wrong."""
        self.check(self.expected)

    def anew(self) -> "Run":
        """The same, without knowledge of the controller that it was played with before."""
        return replace(self, expected=None)


def everything() -> dict[str, Run]:
    """All scenarios without disturbance, and all promises, by their names."""
    runs = [Run(str(found), partial(_undisturbed, found), found) for found in SCENARIOS]
    modules = (test_controller, test_fairness, test_genericjob, test_leading, test_requests, test_undecodable)
    promises = [found for module in modules for found in _promises(module)]
    found = [Run(str(one), partial(_schedule, one.schedule, one.script)) for one in FOUND]
    return {run.name: run for run in (*runs, *promises, *found)}


def two_leaders(scenario: Scenario) -> Run:
    """Two controllers that both believe that they lead."""

    def check(_: Ending | None) -> None:
        one, two = (played(scenario, SEED, leaders=leaders, losses=True) for leaders in (1, 2))
        differ = list(differences(two.state, one.state))
        assert not differ, f"1: two leaders end differently: {differ[0]}"

    return Run(f"{scenario}, two leaders", check)


def crashes(scenario: Scenario) -> Iterator[Run]:
    """A crash at every write, with all subsets of what was on its way."""
    expected = played(scenario, SEED)

    def run(crash: Crash) -> Run:
        return Run(f"{scenario}, {crash}", lambda known: compare(known or played(scenario, SEED), scenario, SEED, crash), expected=expected)

    for write in range(1, expected.writes + 1):
        for when in WHEN:
            first = Crash(write, when)
            yield run(first)
            for subset in subsets(min(first.under_way, MOST)):
                yield run(Crash(write, when, subset))


def random_schedule(seed: int) -> Run:
    """What chance makes of a seed."""
    return Run(f"random schedule {seed}", lambda _: _schedule(schedule(seed), None, _))


def _undisturbed(scenario: Scenario, _: Ending | None) -> None:
    found = played(scenario, SEED)
    assert found.events == scenario.events, f"it tells {sorted(found.events)}, not {sorted(scenario.events)}"
    assert found.runs == scenario.runs, f"ranks run {found.runs}, not {dict(scenario.runs)}"
    for field, value in scenario.status.items():
        assert getattr(found.status, field) == value, f"status.{field} is {getattr(found.status, field)}, not {value}"


def _schedule(made: Schedule, script: Callable[[Any], None] | None, _: Ending | None) -> None:
    failure = play(made, script=script).failure
    assert not failure, failure


def _promises(module: Any) -> Iterator[Run]:
    """Tests that need nothing, or one of a few values."""
    for name, test in vars(module).items():
        if not name.startswith("test_"):
            continue
        wanted = list(inspect.signature(test).parameters)
        values = [mark.args[1] for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize" and [mark.args[0]] == wanted]
        if not wanted:
            yield Run(name, partial(_kept, test))
        elif values and len(values[0]) <= FEW:
            yield from (Run(f"{name}[{value}]", partial(_kept, partial(test, value))) for value in values[0])


def _kept(promise: Callable[[], None], _: Ending | None) -> None:
    promise()
