"""Success and failure rules.

A job ends when one of its rules fires. Rules see outcomes, never pods: a rank has succeeded, has failed for good, or is still open.
Success is asked first: when rank 0 ends well its peers often die of the broken connection in the same second.

A job without success rules succeeds when every rank has. A job without failure rules fails when no success rule can be met any more. With
failure rules it also fails when no success rule can be met and no failure rule can fire any more, so that it never hangs.

Ranks that are started again always and without a limit never end. Nothing waits for them where there are no rules; a success rule that
names one is never met, but no job fails for that: it runs until it is stopped, as its author asked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from genericjob.api.names import Reason
from genericjob.api.spec import GenericJobSpec, Rule

TOLD = 10
"""Rules that can never fire and are told one by one; of the others only the number is."""
LONGEST = 900
"""Characters of a rule, or of reasons, in a message: a rule may name 10,000 ranks, and an event has room for 1,024 characters."""
LONGEST_TYPE = 100
"""Characters of a type that is not one of the job's, and so may be any text."""

Ranks = Mapping[str, frozenset[int]]
"""Ranks by type."""
NamedRanks = Mapping[str, Sequence[int]]
"""The ranks that a rule names, by type: the tuples of the spec itself, or a range for a whole type.

Not sets: ten thousand rules over ten types would need a hundred thousand of them, at 216 bytes each.
"""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Which ranks have ended, and how."""

    succeeded: Ranks
    failed: Ranks


@dataclass(frozen=True, slots=True)
class Verdict:
    """That a job has ended, how, and why."""

    phase: Literal["Succeeded", "Failed"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Rules:
    """A job's rules, prepared for asking. Rules that can never fire are kept apart: an empty one must not be true of nothing."""

    every_rank: NamedRanks
    success: tuple[NamedRanks, ...]
    failure: tuple[NamedRanks, ...]
    explicit_success: bool
    never: tuple[str, ...]
    """Rules that can never fire: the first few, each with the reason, and how many more there are."""

    @classmethod
    def of(cls, spec: GenericJobSpec) -> "Rules":
        """Prepare the rules of a spec."""
        every: NamedRanks = {found.type: range(found.replicas) for found in spec.replica_specs if found.replicas}
        endless = frozenset(found.type for found in spec.replica_specs if found.restart_policy.most is None)
        immortal = endless - {found.type for found in spec.replica_specs if found.restart_policy.exit_codes.never_restart}
        never: list[str] = []
        untold = 0

        def usable(name: str, rules: Sequence[Rule], unending: frozenset[str], *, kept: bool) -> Iterator[NamedRanks]:
            nonlocal untold
            for number, rule in enumerate(rules):
                problem = _never_fires(rule, every)
                unended = next((type for type, ranks in rule.items() if ranks and type in unending), "") if not problem else ""
                if unended:
                    problem = f"type {unended!r} is started again always and without a limit"
                if problem and len(never) < TOLD:
                    never.append(f"{name}[{number}] can never fire: {problem}")
                elif problem:
                    untold += 1
                if not problem or (unended and kept):
                    yield rule if all(rule.values()) else {type: ranks for type, ranks in rule.items() if ranks}

        ending = {type: ranks for type, ranks in every.items() if type not in endless}
        success = tuple(usable("successRules", spec.success_rules, endless, kept=True)) if spec.success_rules else (ending or every,)
        failure = tuple(usable("failureRules", spec.failure_rules, immortal, kept=False))
        if untold:
            never.append("1 more rule can never fire" if untold == 1 else f"{untold} more rules can never fire")
        return cls(every, success, failure, bool(spec.success_rules), tuple(never))


def _never_fires(rule: Rule, every: NamedRanks) -> str:
    if not any(rule.values()):
        return "it names no rank"
    for type, ranks in rule.items():
        if ranks and type not in every:
            return f"there is no replica of type {_cut(type, LONGEST_TYPE)!r}"
        if ranks and max(ranks) >= len(every[type]):
            return f"type {type!r} has no rank {min(rank for rank in ranks if rank >= len(every[type]))}"
    return ""


def verdict(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """How the job has ended; None while it has not."""
    for ask in (success_rule_met, failure_rule_met, no_success_rule_reachable):
        if answer := ask(rules, outcomes):
            return answer
    return None


def success_rule_met(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """All ranks of some success rule have succeeded."""
    if any(_covers(outcomes.succeeded, rule) for rule in rules.success):
        return Verdict("Succeeded", Reason.SUCCEEDED, "The job has finished successfully.")
    return None


def failure_rule_met(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """All ranks of some failure rule have failed for good."""
    for rule in rules.failure:
        if _covers(outcomes.failed, rule):
            return Verdict("Failed", Reason.FAILED, f"The job is failed with rule: {_cut(written(rule), LONGEST)}")
    return None


def no_success_rule_reachable(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """Nothing can lead to success any more, and no failure rule is still to be decided.

    So it is at the latest when every rank has ended: a rule that was not met has a rank that ended the other way.
    """
    needed = rules.success if rules.explicit_success else (rules.every_rank,)
    if any(not _touches(outcomes.failed, rule) for rule in needed):
        return None
    if any(not _touches(outcomes.succeeded, rule) for rule in rules.failure):
        return None
    type, rank = min(((type, min(ranks)) for type, ranks in outcomes.failed.items() if ranks), default=("", 0))
    why = f"rank {rank} of type {type} has failed" if type else _cut("; ".join(rules.never), LONGEST)
    if not rules.explicit_success:
        return Verdict("Failed", Reason.FAILED, f"The job is failed: {why}.")
    return Verdict("Failed", Reason.NO_SUCCESS_RULE_REACHABLE, f"The job is failed: no success rule can be met any more: {why}.")


def written(rule: NamedRanks) -> str:
    """A rule as compact JSON."""
    return json.dumps({type: sorted(set(ranks)) for type, ranks in rule.items()}, separators=(",", ":"))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _covers(outcomes: Ranks, rule: NamedRanks) -> bool:
    """Return whether all ranks of a rule are among these: decided by the first one that is not."""
    return all(outcomes.get(type, _NOBODY).issuperset(ranks) for type, ranks in rule.items())


def _touches(outcomes: Ranks, rule: NamedRanks) -> bool:
    return any((found := outcomes.get(type)) and not found.isdisjoint(ranks) for type, ranks in rule.items())


_NOBODY = frozenset[int]()
