"""A mutant on trial: scenarios are played with it until one fails.

First those that its author thinks of: without a crash, with two leaders, and with a crash at every write. Then all others, some random
schedules, and the others with crashes. What caught it is played once more with the controller as it is, which must pass: otherwise it was
not the mutant that was noticed.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from sim.mutants.hearing import ClumsyError, listening, silence, words
from sim.mutants.playing import Run, crashes, everything, random_schedule, two_leaders
from sim.mutants.switch import MUTANTS, Mutant, StaleMutantError
from sim.scenarios import Scenario

BY_CHANCE = 200
"""Random schedules that come before the many crashes of scenarios that nobody thought of."""


@dataclass(frozen=True)
class Report:
    """What became of a mutant."""

    mutant: str
    runs: int
    seconds: float
    where: str = ""
    """The run that failed; empty if the mutant survived."""
    check: str = ""
    """Why it failed, in the words of the check."""
    trouble: str = ""
    """Why the trial proves nothing."""

    @property
    def caught(self) -> bool:
        """Whether somebody noticed, and whether it was this mutant that was noticed."""
        return bool(self.where) and not self.trouble


def put_on_trial(mutant: Mutant, *, most: int, chance: bool = False) -> Report:
    """Play with a mutant until it is caught, so many runs at most; with `chance` only random schedules."""
    began, runs, check, trouble = time.monotonic(), 0, "", ""
    run: Run | None = None
    try:
        with mutant.active(), silence():
            for run in islice(map(random_schedule, count()) if chance else _runs(mutant.first), most):
                runs += 1
                if check := complaint(run):
                    break
    except (ClumsyError, StaleMutantError) as error:
        trouble = str(error)
    if run is None or not check:
        return Report(mutant.name, runs, time.monotonic() - began, trouble=trouble or "it survived")
    with silence():
        anyway = complaint(run.anew())
    if anyway:
        trouble = f"the controller as it is fails there, too: {anyway}"
    return Report(mutant.name, runs, time.monotonic() - began, run.name, check, trouble)


def put_on_trial_by_name(name: str, *, most: int, chance: bool = False) -> Report:
    """The same in another process, where a mutant has other functions."""
    return put_on_trial(next(found for found in MUTANTS if found.name == name), most=most, chance=chance)


def complaint(run: Run) -> str:
    """What is wrong with a run; empty if nothing is. Raises ClumsyError if the controller does things that no controller can do."""
    with listening():
        try:
            run.play()
        except Exception as error:
            return words(error).replace("scenario.phase", repr(run.scenario.phase) if run.scenario else "its phase")
    return ""


def _runs(first: Sequence[str]) -> Iterator[Run]:
    known = everything()
    unknown = [name for name in first if name not in known]
    if unknown:
        raise KeyError(f"there is no scenario and no promise called {unknown[0]}")
    hinted = [known.pop(name) for name in first]
    yield from _all_of(hinted)
    for scenario in _scenarios(hinted):
        yield from crashes(scenario)
    others = list(known.values())
    yield from _all_of(others)
    yield from map(random_schedule, range(BY_CHANCE))
    for scenario in _scenarios(others):
        yield from crashes(scenario)
    yield from map(random_schedule, count(BY_CHANCE))


def _all_of(runs: Sequence[Run]) -> Iterator[Run]:
    yield from runs
    yield from map(two_leaders, _scenarios(runs))


def _scenarios(runs: Sequence[Run]) -> list[Scenario]:
    return [run.scenario for run in runs if run.scenario is not None]
