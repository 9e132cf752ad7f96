"""Restarts: how the end of a pod is judged, and what follows from it for its rank.

    succeeded, failed     the rank has ended for good, and the rules may look at it
    charged, uncharged    it runs again, as a new pod of the same name once the old one is gone

Charged is what the program did: it failed, or under the policy Always it ended. Not charged is what was done to it: it was in somebody's
way, was deleted, was debugged, or said by its exit code that it wants no more than another try. That is started again under every policy.

With scope Job nobody runs again alone: all replicas go, and the job begins a new epoch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Literal

from genericjob.api.names import DEBUG_ANNOTATION, FINAL_PHASES
from genericjob.api.spec import ReplicaSpec, RestartPolicy
from genericjob.reconcile.objects import NEVER_STARTS, Container, Pod

from .course import Course
from .job import Job
from .ledger import FORGIVEN, Entries
from .observe import Observation, RanksOfType
from .rules import Outcomes

DISRUPTION = "DisruptionTarget"
"""A pod's condition."""

Judgement = Literal["succeeded", "failed", "charged", "uncharged"]


@dataclass(frozen=True, slots=True)
class End:
    """The end of a pod, and what it means."""

    type: str
    rank: int
    name: str
    pod: Pod | None
    """As it was last seen; None if nobody saw it go."""
    judgement: Judgement
    lost: bool = False
    """Whether the pod vanished before it ended."""
    charges: int = 0
    """Restarts that the rank, or with scope Job the job, is charged with now."""
    limit: int | None = None
    together: bool = False
    """Whether nobody may run again alone."""

    @property
    def restarts(self) -> bool:
        """Whether the rank runs again."""
        return self.judgement in ("charged", "uncharged")


@dataclass(frozen=True, slots=True)
class Settlement:
    """What there is of a job, with every end accounted for."""

    seen: Observation
    course: Course
    outcomes: Outcomes
    """What rules are asked about; when the whole job is started again, how things stood just before."""
    ends: tuple[End, ...] = ()
    job_restarts: End | None = None
    """The end for which the whole job is started again."""

    @property
    def restarts(self) -> bool:
        """Whether anything runs again: that must be stored before the old pod goes."""
        return any(end.restarts for end in self.ends)


def settle(job: Job, seen: Observation, now: datetime) -> Settlement:
    """Judge the ends that nobody has judged yet."""
    course = Course.of(job.status, epoch=seen.epoch)
    ends = tuple(_ends(job, seen, course))
    if not ends:
        return Settlement(seen, course, seen.outcomes)
    cause = _cause_of_a_joint_restart(ends)
    after = _each(seen, ends, lambda part, own: _after(part, own, now, alone=cause is None))
    if cause is None:
        return Settlement(after, course, after.outcomes, ends)
    return Settlement(begin_anew(after), course.restarting(now, charged=cause.judgement == "charged"), after.outcomes, ends, cause)


def _cause_of_a_joint_restart(ends: Sequence[End]) -> End | None:
    """One end after which nobody may run again alone; rather one that is charged."""
    shared = [end for end in ends if end.restarts and end.together]
    return next((end for end in shared if end.judgement == "charged"), shared[0] if shared else None)


def settle_after_the_end(job: Job, seen: Observation) -> Settlement:
    """The same when the job has ended: nobody runs again, so every end that a program made itself is an outcome."""
    ends = tuple(
        End(part.type, rank, part.names[rank], pod, "succeeded" if pod.phase == "Succeeded" else "failed")
        for part in seen.types
        for rank, pod in part.ends.items()
        if not says_nothing(pod)
    )
    after = _each(seen, ends, _outcomes) if ends else seen
    return Settlement(after, Course.of(job.status, epoch=seen.epoch), after.outcomes, ends)


def unaccounted(job: Job, seen: Observation) -> frozenset[str]:
    """UIDs of pods of which something is still to be stored. After the end of the job that is only how a program ended."""
    if job.status.phase in FINAL_PHASES:
        return frozenset(pod.uid for part in seen.types for pod in part.ends.values() if not says_nothing(pod))
    return frozenset(pod.uid for part in seen.types for pod in chain(part.ends.values(), part.lost.values()))


def begin_anew(seen: Observation, *, outcomes: bool = False) -> Observation:
    """What there is when an epoch has ended: nobody belongs to the present. Outcomes go too, unless they are to be shown a while."""
    return replace(seen, types=tuple(_all_old(part, outcomes=outcomes) for part in seen.types))


# ------------------------------------------------------------------------------------------------ judging


def judge(pod: Pod, replicas: ReplicaSpec, charges: int, *, debugged: bool = False) -> Judgement:
    """What the end of a pod means, after so many charged restarts."""
    if says_nothing(pod):
        return "uncharged"
    judgement = _by_policy(pod, replicas.restart_policy, charges)
    # WHILE SOMEBODY DEBUGS what failed before is looked into and costs nothing; what had succeeded stays a success.
    return "uncharged" if debugged and judgement in ("charged", "failed") else judgement


def _by_policy(pod: Pod, policy: RestartPolicy, charges: int) -> Judgement:
    left = policy.most is None or charges < policy.most
    if pod.phase == "Succeeded":
        return "charged" if policy.policy == "Always" and left else "succeeded"
    if never_starts(pod):
        return "failed"
    codes = exit_codes(pod)
    if codes.intersection(policy.exit_codes.never_restart):
        return "failed"
    if codes and codes.issubset(policy.exit_codes.not_charged):
        return "uncharged"
    return "charged" if left else "failed"


def says_nothing(pod: Pod) -> bool:
    """Whether the end of a pod is not its program's doing."""
    return pod.annotations.get(DEBUG_ANNOTATION) == "true" or disrupted(pod)


def disrupted(pod: Pod) -> bool:
    """Whether a pod failed because it was in the way: its node was drained, deleted or needed by others. That is nobody's failure."""
    return pod.phase == "Failed" and any(found.type == DISRUPTION and found.status == "True" for found in pod.conditions)


def never_starts(pod: Pod) -> bool:
    """Whether no restart can help: a program or a directory does not exist on the machine of a run."""
    return any(found.reason == NEVER_STARTS for found in failed_containers(pod))


def failed_containers(pod: Pod) -> tuple[Container, ...]:
    """Those that made a pod fail. Where the program itself failed nobody else did: what its sidecars answer to their end says nothing."""
    if pod.phase == "Succeeded":
        return ()
    return tuple(found for found in pod.containers if found.exit_code) or tuple(found for found in pod.init_containers if found.exit_code)


def exit_codes(pod: Pod) -> set[int]:
    """Exit codes of the containers that made a pod fail."""
    return {found.exit_code for found in failed_containers(pod) if found.exit_code}


def _ends(job: Job, seen: Observation, course: Course) -> Iterator[End]:
    debugged = job.spec.debugged
    for part in seen.types:
        replicas = job.design.replicas[part.type]
        together = replicas.restart_policy.scope == "Job" and not debugged
        for rank, pod in part.ends.items():
            before = course.job_restarts if together else part.ledger.charged.get(rank, 0)
            judgement = judge(pod, replicas, before, debugged=debugged)
            charges = before + (judgement == "charged")
            limit = replicas.restart_policy.most
            yield End(part.type, rank, pod.name, pod, judgement, charges=charges, limit=limit, together=together)
        for rank, pod in part.lost.items():
            yield End(part.type, rank, pod.name, pod, "uncharged", lost=True, together=together)
        if together and job.status.phase == "Running" and not course.paused:  # earlier versions stored Running during a pause
            yield from _unseen(part)


def _unseen(part: RanksOfType) -> Iterator[End]:
    """A job that runs had all of its pods, and nobody of this type is started again alone: who is not there was lost unseen.

    Unless it was once started again alone, before the policy was changed or when it was debugged: it may just be waiting.
    """
    if None not in part.pods:
        return
    for rank in sorted(part.open - part.ends.keys() - part.lost.keys() - part.old.keys()):
        if part.pods[rank] is None and not part.ledger.attempt(rank):
            yield End(part.type, rank, part.names[rank], None, "uncharged", lost=True, together=True)


# ------------------------------------------------------------------------------------------------ what follows


def _each(seen: Observation, ends: Sequence[End], change: Callable[[RanksOfType, Sequence[End]], RanksOfType]) -> Observation:
    """An observation whose types are changed by their own ends."""
    by_type: dict[str, list[End]] = {}
    for end in ends:
        by_type.setdefault(end.type, []).append(end)
    return replace(seen, types=tuple(change(part, by_type[part.type]) if part.type in by_type else part for part in seen.types))


def _after(part: RanksOfType, ends: Sequence[End], now: datetime, *, alone: bool) -> RanksOfType:
    """The ranks once their ends are accounted for; `alone` unless the whole job is started again, for which no rank is charged."""
    part = _outcomes(part, ends)
    entries = Entries(part.ledger)
    pods, old = list(part.pods), dict(part.old)
    for end in ends:
        if end.restarts and (alone or not end.together):
            forgiven = _ran_long(end.pod, part.ledger.not_before(end.rank), now)
            entries.restart(end.rank, now, charged=end.judgement == "charged", forgiven=forgiven)
            if (there := pods[end.rank]) is not None:
                old[end.rank], pods[end.rank] = there, None
    return replace(part, pods=tuple(pods), old=old, ledger=entries.ledger())


def _outcomes(part: RanksOfType, ends: Sequence[End]) -> RanksOfType:
    return replace(
        part,
        succeeded=part.succeeded | {end.rank for end in ends if end.judgement == "succeeded"},
        failed=part.failed | {end.rank for end in ends if end.judgement == "failed"},
        ends={},
        lost={},
    )


def _all_old(part: RanksOfType, *, outcomes: bool) -> RanksOfType:
    there = {rank: pod for rank, pod in enumerate(part.pods) if pod is not None}
    nobody = frozenset[int]()
    return replace(
        part,
        pods=(None,) * len(part.names),
        old={**part.old, **there},
        succeeded=part.succeeded if outcomes else nobody,
        failed=part.failed if outcomes else nobody,
        ends={},
        lost={},
    )


def _ran_long(pod: Pod | None, begun: datetime | None, now: datetime) -> bool:
    """Whether a rank ran for so long that it begins anew. ONE CLOCK ON BOTH SIDES: the node's, or ours where the node says nothing."""
    if pod is not None and (times := [found.finished - found.started for found in pod.containers if found.finished and found.started]):
        return max(times) >= FORGIVEN
    return begun is not None and now - begun >= FORGIVEN
