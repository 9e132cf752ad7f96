"""Success and failure rules.

A job ends when one of its rules fires. Rules see outcomes, never pods: a rank has succeeded, has failed for good, or is still open.
Success is asked first: when rank 0 ends well its peers often die of the broken connection in the same second.

A rule names ranks of one or more types, as numbers, as ranges (`0-99`), as `all` of a type or as `any` of it, and is met when everything
that it names has ended that way. `all` and `any` mean the ranks that the type has now: they follow its number of replicas.

A job without success rules succeeds when every rank has. A job without failure rules fails when no success rule can be met any more. With
failure rules it also fails when no success rule can be met and no failure rule can fire any more, so that it never hangs.

Ranks that are started again always and without a limit never end. Nothing waits for them where there are no rules; a success rule that
names one is never met, but no job fails for that: it runs until it is stopped, as its author asked.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from genericjob.api.names import Reason
from genericjob.api.rank_items import ALL, ANY, Mixed, RankItem
from genericjob.api.spec import GenericJobSpec, Rule

TOLD = 10
"""Rules that can never fire and are told one by one; of the others only the number is."""
LONGEST = 900
"""Characters of a rule, or of reasons, in a message: a rule may name 10,000 ranks, and an event has room for 1,024 characters."""
LONGEST_TYPE = 100
"""Characters of a type that is not one of the job's, and so may be any text."""

Ranks = Mapping[str, frozenset[int]]
"""Ranks by type."""
NamedRanks = Mapping[str, Sequence[RankItem]]
"""What a rule names, by type: the tuples of the spec itself.

Not sets: ten thousand rules over ten types would need a hundred thousand of them, at 216 bytes each, or at half a megabyte for `all` of
10,000 ranks.
"""
_EVERY = Mixed((ALL,))


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
class Unfireable:
    """A rule that can never fire, and why."""

    why: Literal["names nobody", "no such type", "no such rank", "backwards", "endless"]
    type: str = ""
    rank: RankItem = 0
    """The first one that there is not, or the range that is backwards."""
    field: Literal["successRules", "failureRules"] = "successRules"
    index: int = 0

    @property
    def reason(self) -> str:
        """Return why, in words."""
        match self.why:
            case "names nobody":
                return "it names no rank"
            case "no such type":
                return f"there is no replica of type {_cut(self.type, LONGEST_TYPE)!r}"
            case "no such rank":
                return f"type {self.type!r} has no rank {self.rank}"
            case "backwards":
                return f"the range {item_text(self.rank)} of type {self.type!r} is backwards and names no rank"
            case "endless":
                return f"type {self.type!r} is started again always and without a limit"


@dataclass(frozen=True, slots=True)
class Rules:
    """A job's rules, prepared for asking. Rules that can never fire are kept apart: an empty one must not be true of nothing."""

    sizes: Mapping[str, int]
    """Replicas by type, where there are any."""
    every_rank: NamedRanks
    success: tuple[NamedRanks, ...]
    failure: tuple[NamedRanks, ...]
    explicit_success: bool
    never: tuple[Unfireable, ...]
    """Rules that can never fire: the first few."""
    untold: int
    """How many more there are."""

    @classmethod
    def of(cls, spec: GenericJobSpec) -> "Rules":
        """Prepare the rules of a spec."""
        sizes = {found.type: found.replicas for found in spec.replica_specs if found.replicas}
        every: NamedRanks = dict.fromkeys(sizes, _EVERY)
        endless, immortal = _endless(spec), _immortal(spec)
        never: list[Unfireable] = []
        untold = 0

        def usable(field: Literal["successRules", "failureRules"], rules: Sequence[Rule], unending: frozenset[str]) -> Iterator[NamedRanks]:
            nonlocal untold
            for index, rule in enumerate(rules):
                problem = _never_fires(rule, sizes, unending)
                if problem and len(never) < TOLD:
                    never.append(replace(problem, field=field, index=index))
                elif problem:
                    untold += 1
                if not problem or (problem.why == "endless" and field == "successRules"):
                    yield rule if all(rule.values()) else {type: items for type, items in rule.items() if items}

        ending = {type: items for type, items in every.items() if type not in endless}
        success = tuple(usable("successRules", spec.success_rules, endless)) if spec.success_rules else (ending or every,)
        failure = tuple(usable("failureRules", spec.failure_rules, immortal))
        return cls(sizes, every, success, failure, bool(spec.success_rules), tuple(never), untold)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return which rules can never fire, in words: the first few with the reason, and how many more there are."""
        told = tuple(f"{one.field}[{one.index}] can never fire: {one.reason}" for one in self.never)
        if not self.untold:
            return told
        return (*told, "1 more rule can never fire" if self.untold == 1 else f"{self.untold} more rules can never fire")


def unfireable(spec: GenericJobSpec) -> Iterator[Unfireable]:
    """All rules that can never fire."""
    sizes = {found.type: found.replicas for found in spec.replica_specs if found.replicas}
    lists: tuple[tuple[Literal["successRules", "failureRules"], Sequence[Rule], frozenset[str]], ...] = (
        ("successRules", spec.success_rules, _endless(spec)),
        ("failureRules", spec.failure_rules, _immortal(spec)),
    )
    for field, rules, unending in lists:
        for index, rule in enumerate(rules):
            if problem := _never_fires(rule, sizes, unending):
                yield replace(problem, field=field, index=index)


def _endless(spec: GenericJobSpec) -> frozenset[str]:
    """Types that are started again always and without a limit."""
    return frozenset(found.type for found in spec.replica_specs if found.restart_policy.most is None)


def _immortal(spec: GenericJobSpec) -> frozenset[str]:
    """Those of them that no exit code ends, either."""
    return _endless(spec) - {found.type for found in spec.replica_specs if found.restart_policy.exit_codes.never_restart}


def _never_fires(rule: Rule, sizes: Mapping[str, int], unending: frozenset[str]) -> Unfireable | None:
    if not any(rule.values()):
        return Unfireable("names nobody")
    for type, items in rule.items():
        if items and type not in sizes:
            return Unfireable("no such type", type)
        if items and (problem := _unfit(type, items, sizes[type])):
            return problem
    return next((Unfireable("endless", type) for type, items in rule.items() if items and type in unending), None)


def _unfit(type: str, items: Sequence[RankItem], size: int) -> Unfireable | None:
    """What is wrong with the numbers and ranges that a rule names of a type."""
    spans = [item for item in items if isinstance(item, range)] if isinstance(items, Mixed) else []
    if (backwards := next((span for span in spans if not span), None)) is not None:
        return Unfireable("backwards", type, backwards)
    missing = [item for item in items if isinstance(item, int) and item >= size]
    missing += [max(span[0], size) for span in spans if span[-1] >= size]
    return Unfireable("no such rank", type, min(missing)) if missing else None


def verdict(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """How the job has ended; None while it has not."""
    for ask in (success_rule_met, failure_rule_met, no_success_rule_reachable):
        if answer := ask(rules, outcomes):
            return answer
    return None


def success_rule_met(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """Everything that some success rule names has succeeded."""
    succeeded = Ended(outcomes.succeeded, rules.sizes)
    if any(succeeded.meet(rule) for rule in rules.success):
        return Verdict("Succeeded", Reason.SUCCEEDED, "The job has finished successfully.")
    return None


def failure_rule_met(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """Everything that some failure rule names has failed for good."""
    failed = Ended(outcomes.failed, rules.sizes)
    for rule in rules.failure:
        if failed.meet(rule):
            return Verdict("Failed", Reason.FAILED, f"The job is failed with rule: {written(rule, outcomes.failed)}")
    return None


def no_success_rule_reachable(rules: Rules, outcomes: Outcomes) -> Verdict | None:
    """Nothing can lead to success any more, and no failure rule is still to be decided.

    So it is at the latest when every rank has ended: a rule that was not met has a rank that ended the other way.
    """
    succeeded, failed = Ended(outcomes.succeeded, rules.sizes), Ended(outcomes.failed, rules.sizes)
    needed = rules.success if rules.explicit_success else (rules.every_rank,)
    if any(not failed.forbid(rule) for rule in needed):
        return None
    if any(not succeeded.forbid(rule) for rule in rules.failure):
        return None
    type, rank = min(((type, min(ranks)) for type, ranks in outcomes.failed.items() if ranks), default=("", 0))
    why = f"rank {rank} of type {type} has failed" if type else _cut("; ".join(rules.remarks), LONGEST)
    if not rules.explicit_success:
        return Verdict("Failed", Reason.FAILED, f"The job is failed: {why}.")
    return Verdict("Failed", Reason.NO_SUCCESS_RULE_REACHABLE, f"The job is failed: no success rule can be met any more: {why}.")


class Ended:
    """Ranks that have ended one way, and what that means for rules.

    A range is counted and not walked: ten thousand rules may each name ten thousand ranks in ten characters.
    """

    def __init__(self, ranks: Ranks, sizes: Mapping[str, int]) -> None:
        self._ranks, self._sizes = ranks, sizes
        self._sums: dict[str, list[int]] = {}
        """By type: how many ranks below a number have ended that way."""

    def meet(self, rule: NamedRanks) -> bool:
        """Return whether everything that a rule names has ended that way: decided by the first that has not."""
        return all(self._meet(type, items) for type, items in rule.items())

    def forbid(self, rule: NamedRanks) -> bool:
        """Return whether a rule can no longer be met the other way, because of ranks that have ended this way."""
        return any(type in self._ranks and self._forbid(type, items) for type, items in rule.items())

    def _meet(self, type: str, items: Sequence[RankItem]) -> bool:
        if isinstance(items, Mixed):
            return all(self._meets(type, item) for item in items)
        return self._ranks.get(type, _NOBODY).issuperset(items)

    def _forbid(self, type: str, items: Sequence[RankItem]) -> bool:
        if isinstance(items, Mixed):
            return any(self._forbids(type, item) for item in items)
        return not self._ranks[type].isdisjoint(items)

    def _meets(self, type: str, item: RankItem) -> bool:
        ranks = self._ranks.get(type, _NOBODY)
        if isinstance(item, range):
            return self._count(type, item) == len(item)
        if item == ALL:
            return len(ranks) == self._sizes[type]
        return bool(ranks) if item == ANY else item in ranks

    def _forbids(self, type: str, item: RankItem) -> bool:
        ranks = self._ranks.get(type, _NOBODY)
        if isinstance(item, range):
            return self._count(type, item) > 0
        if item == ANY:
            return len(ranks) == self._sizes[type]
        return bool(ranks) if item == ALL else item in ranks

    def _count(self, type: str, span: range) -> int:
        if type not in self._sums:
            ranks = self._ranks.get(type, _NOBODY)
            self._sums[type] = [*accumulate((rank in ranks for rank in range(self._sizes[type])), initial=0)]
        sums = self._sums[type]
        return sums[span.stop] - sums[span.start]


def written(rule: NamedRanks, ended: Ranks) -> str:
    """A rule that is met, as compact JSON; where it names any rank of a type, also which one it was."""
    text = json.dumps({type: _in_order(items) for type, items in rule.items()}, separators=(",", ":"))
    found = [f"{type} {min(ended[type])}" for type, items in rule.items() if isinstance(items, Mixed) and items[0] == ANY]
    return _cut(text, LONGEST) + (f" ({_cut(', '.join(found), LONGEST_TYPE)})" if found else "")


def item_text(item: RankItem) -> str:
    """Return an item as it is written in a rule."""
    return f"{item.start}-{item.stop - 1}" if isinstance(item, range) else str(item)


def _in_order(items: Sequence[RankItem]) -> list[int | str]:
    """Each item once, numbers as numbers, by the first rank."""
    found = sorted({*items}, key=lambda item: item.start if isinstance(item, range) else -1 if isinstance(item, str) else item)
    return [item if isinstance(item, int) else item_text(item) for item in found]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


_NOBODY = frozenset[int]()
