"""Which rules of a job can still fire, and what they wait for.

A pure function of a job and the time: of its spec alone before it runs, and of what its status remembers afterwards. The rules themselves
are asked in `jobs/rules.py`; here is told how they stand, the implicit ones included.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Literal

from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES, MANAGER, Reason
from genericjob.api.rank_items import ALL, ANY, RankItem
from genericjob.api.spec import ReplicaSpec
from genericjob.api.status import Task
from genericjob.jobs.course import Course
from genericjob.jobs.job import Job
from genericjob.jobs.ledger import Ledger
from genericjob.jobs.rules import NamedRanks, Outcomes, Ranks, item_text, no_success_rule_reachable, unfireable
from genericjob.jobs.status import condition

State = Literal["met", "can fire", "cannot fire", "never fires"]
MOST_NOTES = 10
"""Ranks that wait for their next try and are told one by one."""
IMPLICIT, ANY_RANK = "(implicit)", "any"


@dataclass(frozen=True)
class Standing:
    """How a rule stands."""

    rule: str
    """Its field, or that there is none."""
    ranks: str
    state: State
    why: str


@dataclass(frozen=True)
class Outlook:
    """How a job may still end."""

    phase: str
    success: tuple[Standing, ...]
    failure: tuple[Standing, ...]
    notes: tuple[str, ...]
    """What else decides, or happens next."""


def outlook(job: Job, now: datetime, *, stored: bool = True) -> Outlook:
    """How the rules of a job stand; one that is not `stored` has never run."""
    found = _Looking(job, now, stored=stored)
    return Outlook(job.status.phase if stored else "", tuple(found.success()), tuple(found.failure()), tuple(found.notes()))


class _Looking:
    """At one job."""

    def __init__(self, job: Job, now: datetime, *, stored: bool) -> None:
        self._job, self._spec, self._status, self._now, self._stored = job, job.spec, job.status, now, stored
        self._tasks: Mapping[str, Task] = {task.type: task for task in job.status.tasks}
        self._ended = job.status.phase in FINAL_PHASES
        self._never = {f"{rule.field}[{rule.index}]": rule.reason for rule in unfireable(job.spec)}
        self._every: Ranks = {type: frozenset(range(size)) for type, size in job.design.rules.sizes.items()}
        """ONE SET FOR ALL RULES: each of ten thousand may name all ranks of a type."""
        self._succeeded: Ranks = {type: ranges.parse(task.succeeded_ranks) for type, task in self._tasks.items()}
        self._failed: Ranks = {type: ranges.parse(task.failed_ranks) for type, task in self._tasks.items()}

    # -------------------------------------------------------------------------------------------- rules

    def success(self) -> Iterator[Standing]:
        """The rules by which the job succeeds."""
        for number, rule in enumerate(self._spec.success_rules):
            yield self._standing(f"successRules[{number}]", rule, self._succeeded, self._failed, "succeed")
        if not self._spec.success_rules:
            wanted = self._job.design.rules.success[0]
            endless = sorted({*self._job.design.rules.every_rank} - {*wanted})
            beside = f", but for {', '.join(endless)}, which never ends" if endless else ""
            made = self._standing(IMPLICIT, wanted, self._succeeded, self._failed, "succeed")
            yield Standing(IMPLICIT, f"every rank{beside}", made.state, made.why)

    def failure(self) -> Iterator[Standing]:
        """The rules by which the job fails."""
        for number, rule in enumerate(self._spec.failure_rules):
            yield self._standing(f"failureRules[{number}]", rule, self._failed, self._succeeded, "fail for good")
        yield self._otherwise()

    def _standing(self, name: str, rule: NamedRanks, for_it: Ranks, against: Ranks, verb: str) -> Standing:
        ranks = _written(rule)
        if name in self._never:
            return Standing(name, ranks, "never fires", self._never[name])
        exact = {type: self._ranks(type, items) for type, items in rule.items() if items and items[0] != ANY}
        choices = [type for type, items in rule.items() if items and items[0] == ANY]
        chosen = {type: found for type in choices if (found := for_it.get(type))}
        lost = {type: against[type] for type in choices if against.get(type) == self._every[type]}
        done, hindering = _common(exact, for_it) | chosen, _common(exact, against) | lost
        missing = {type: left for type, wanted in exact.items() if (left := wanted - done.get(type, frozenset()))}
        open = {type: self._every[type] - against.get(type, frozenset()) for type in choices if type not in chosen}
        if not missing and not open:
            return Standing(name, ranks, "met", f"{_have(done)} {_past(verb)}" if done else "there is no rank to wait for")
        if hindering:
            return Standing(name, ranks, "cannot fire", f"{_have(hindering)} {_past('succeed' if verb != 'succeed' else 'fail for good')}")
        if self._ended:
            return Standing(name, ranks, "cannot fire", "the job has ended")
        told = [f"{_have(done)} {_past(verb)}"] if done else []
        awaited = [self._doing(missing)] if missing else []
        awaited += [f"any of {self._doing({type: left})}" for type, left in open.items()]
        told.append(f"waits for {', '.join(awaited)} to {verb}")
        told += self._budgets([*missing, *open]) if verb != "succeed" else []
        return Standing(name, ranks, "can fire", "; ".join(told))

    def _ranks(self, type: str, items: Sequence[RankItem]) -> frozenset[int]:
        if items[0] == ALL:
            return self._every[type]
        return frozenset(chain.from_iterable(item if isinstance(item, range) else (item,) for item in items if not isinstance(item, str)))

    def _otherwise(self) -> Standing:
        """The rule that no job is without: it never hangs."""
        text = "fires when no success rule can be met any more" if self._spec.success_rules else "fires when a rank has failed for good"
        if self._spec.failure_rules:
            text += " and no failure rule can fire any more"
        told = condition(self._status, "Failed")
        if self._status.phase == "Failed" and told and "with rule:" not in told.message and told.reason != Reason.DEADLINE_EXCEEDED:
            return Standing(IMPLICIT, ANY_RANK, "met", told.message)
        if self._ended:
            return Standing(IMPLICIT, ANY_RANK, "cannot fire", "the job has ended")
        if self._is_hopeless():
            return Standing(IMPLICIT, ANY_RANK, "can fire", "fires as soon as the job begins: no success rule can ever fire")
        lost = {type: ranks for type, ranks in self._failed.items() if ranks}
        why = [text, f"{_have(lost)} failed for good" if lost else "so far none has"]
        if not lost and not self._spec.success_rules:
            why += self._budgets(self._job.design.rules.every_rank)
        return Standing(IMPLICIT, ANY_RANK, "can fire", "; ".join(why))

    def _is_hopeless(self) -> bool:
        """Whether nothing can lead to success, even before any rank has ended."""
        return no_success_rule_reachable(self._job.design.rules, Outcomes({}, {})) is not None

    def _doing(self, ranks: Ranks) -> str:
        """Ranks by what they do: `worker 1-2 (Running), worker 3 (Pending)`."""
        if not self._stored or self._spec.paused:
            return _named(ranks)
        told: list[str] = []
        for type, numbers in ranks.items():
            task = self._tasks.get(type)
            known = {one.name: one.phase for one in task.replicas} if task else {}
            phases: dict[str, list[int]] = {}
            for number in sorted(numbers):
                phases.setdefault(known.get(self._job.design.names[type][number], ""), []).append(number)
            told += [f"{type} {ranges.format(some)}{f' ({phase})' if phase else ''}" for phase, some in phases.items()]
        return ", ".join(told)

    def _budgets(self, types: Iterable[str]) -> list[str]:
        """After how many restarts a rank of each type fails for good."""
        return [text for type in types if (text := self._budget(self._job.design.replicas[type]))]

    def _budget(self, part: ReplicaSpec) -> str:
        policy, task = part.restart_policy, self._tasks.get(part.type)
        if policy.most is None:
            return f"{part.type} fails for good only with the exit codes {_codes(part)}" if policy.exit_codes.never_restart else ""
        if policy.most == 0:
            return f"{part.type} is not started again"
        if policy.scope == "Job":
            used = f", and was {_times(self._status.job_restarts)}" if self._status.job_restarts else ""
            return f"the whole job is started again {_times(policy.most)} at most{used}"
        told = f"each {part.type} is started again {_times(policy.most)} at most"
        charged = Ledger.of(task, part.replicas).charged
        if not charged:
            return told
        worst = max(charged, key=lambda rank: (charged[rank], -rank))
        return f"{told}, {part.type} {worst} was {_times(charged[worst])}"

    # -------------------------------------------------------------------------------------------- what else decides

    def notes(self) -> Iterator[str]:
        """What happens beside the rules."""
        if self._ended:
            told = condition(self._status, "Completed" if self._status.phase == "Succeeded" else "Failed")
            yield f"The job has ended and stays as it is{f': {told.message}' if told and told.message else '.'}"
            return
        if self._spec.managed_by not in (None, MANAGER):
            yield f"{self._spec.managed_by} runs this job, by its own rules."
        if self._stored and self._status.observed_generation != self._job.generation:
            yield "The controller has not looked at the latest change of the job yet."
        if self._spec.paused:
            yield "The job is paused, and no rule fires. When it goes on every rank runs again, also those that have ended."
        elif self._spec.debugged:
            yield "The job is debugged: how its ranks end says nothing, and no rule fires."
        yield from self._tries()
        yield from self._deadline()
        if self._stored and not self._spec.paused:
            yield from self._hindrances()

    def _tries(self) -> Iterator[str]:
        """Ranks that wait for their next try."""
        moments: list[tuple[datetime, str, int]] = []
        for type, part in self._job.design.replicas.items():
            ledger = Ledger.of(self._tasks.get(type), part.replicas)
            for rank in ledger.last.keys() - self._succeeded.get(type, frozenset()) - self._failed.get(type, frozenset()):
                moment = ledger.not_before(rank)
                if moment is not None and moment > self._now:
                    moments.append((moment, type, rank))
        for moment, type, rank in sorted(moments)[:MOST_NOTES]:
            yield f"{type} {rank} is started again at {_clock(moment, self._now)}."
        if len(moments) > MOST_NOTES:
            yield f"{len(moments) - MOST_NOTES} more ranks wait for their next try."
        together = Course.of(self._status, epoch=0).not_before
        if together is not None and together > self._now:
            yield f"All ranks are started again together at {_clock(together, self._now)}."

    def _deadline(self) -> Iterator[str]:
        limit = self._spec.active_deadline_seconds
        if limit is None:
            return
        begun, course = self._status.start_time, Course.of(self._status, epoch=0)
        if begun is None or course.paused:
            yield f"The job fails when it has been active for {limit} seconds, whatever its rules say."
            return
        left = max(timedelta(), timedelta(seconds=limit) - course.active(begun, self._now))
        yield f"The job fails at {_clock(self._now + left, self._now)}, whatever its rules say: spec.activeDeadlineSeconds is {limit}."

    def _hindrances(self) -> Iterator[str]:
        for type in ("Initialized", "Running"):
            told = condition(self._status, type)
            if told and told.status == "False" and told.message:
                yield told.message


# ------------------------------------------------------------------------------------------------ words


def _written(rule: NamedRanks) -> str:
    """What a rule names: `worker 0-3, every ps, any server`."""
    return ", ".join(_written_items(type, items) for type, items in rule.items() if items) or "no rank"


def _written_items(type: str, items: Sequence[RankItem]) -> str:
    if items[0] in (ALL, ANY):
        return f"{'every' if items[0] == ALL else ANY} {type}"
    if all(isinstance(item, int) for item in items):
        return f"{type} {ranges.format(item for item in items if isinstance(item, int))}"
    return f"{type} {','.join(map(item_text, items))}"


def _named(ranks: Ranks) -> str:
    return ", ".join(f"{type} {ranges.format(numbers)}" for type, numbers in ranks.items()) or "no rank"


def _common(rule: Ranks, outcomes: Ranks) -> dict[str, frozenset[int]]:
    return {type: both for type, ranks in rule.items() if (both := ranks & outcomes.get(type, frozenset()))}


def _size(ranks: Ranks) -> int:
    return sum(map(len, ranks.values()))


def _have(ranks: Ranks) -> str:
    return f"{_named(ranks)} {'has' if _size(ranks) == 1 else 'have'}"


def _past(verb: str) -> str:
    return {"succeed": "succeeded", "fail for good": "failed for good"}[verb]


def _codes(part: ReplicaSpec) -> str:
    return ranges.format(part.restart_policy.exit_codes.never_restart)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _clock(moment: datetime, now: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%SZ} (in {max(0, round((moment - now).total_seconds()))} s)"
