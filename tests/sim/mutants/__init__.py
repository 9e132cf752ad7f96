"""Mutants: controllers with one deliberate bug each, to show that the simulation would notice.

    python -m sim.mutants            all of them, one after the other; a table, and 1 if one survives
    python -m sim.mutants pause      those whose names or sentences have the word
    python -m sim.mutants --list     what there is

Each is a few words of the controller's source and what stands there instead (`switch.py`), with the clause of `docs/contract.md` that
should notice, and the scenarios to try first. A mutant that nothing catches says that a check is missing, or that the words which it
changes are of no use.
"""

from sim.mutants import caches, charges, commits, deadlines, ends, leaders, owners, pauses, shown, turns, undecodable
from sim.mutants.switch import MUTANTS, Mutant, StaleMutantError

__all__ = ["MUTANTS", "THEMES", "Mutant", "StaleMutantError"]

THEMES = (commits, owners, charges, pauses, ends, shown, caches, leaders, deadlines, turns, undecodable)
