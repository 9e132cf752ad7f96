"""A schedule that fails, made small and told."""

from dataclasses import replace

from sim.chance.schedules import Schedule, python
from sim.chance.shrinking import shrink
from sim.chance.trial import Trial, play

OTHERS = 2
"""Other seeds of the scheduler that a smaller schedule is tried with."""


def smallest(trial: Trial, *, tries: int = 600, others: int = OTHERS) -> Trial:
    """The smallest schedule that was found to fail in the same way, played."""

    def fails(candidate: Schedule) -> Schedule | None:
        seeds = dict.fromkeys((trial.schedule.seed, candidate.seed, *range(1, others + 1)))
        for seed in seeds:
            other = replace(candidate, seed=seed)
            try:
                found = play(other)
            except Exception:
                return None  # a step that lost an argument which it needs is no step
            if found.failure and found.check == trial.check:
                return other
        return None

    return play(shrink(trial.schedule, fails, tries=tries), traced=True)


def told(trial: Trial, small: Trial) -> str:
    """What a failure is, as text and as Python."""
    why = small.failure.split("\n")[0].replace('"', "'")
    text = python(small.schedule, f"seed_{trial.schedule.seed}", why)
    return f"seed {trial.schedule.seed}: {trial.failure}\n\n{text}"
