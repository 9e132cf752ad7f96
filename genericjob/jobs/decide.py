"""What to do about a job: a pure function of the job, what there is of it, and the time.

    given these pods, this plan

No clock, no client, no chance. The order of questions is the policy: a job that has ended stays as it ended; then its rules are asked; then
what is missing is created.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES, Rank, Reason
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.objects import Pod

from .job import Job
from .observe import ENDED, Observation, disrupted
from .rules import Verdict, verdict
from .status import condition, status_of, troubled

PAUSE_IGNORED = "spec.runMode.pause: this version of the controller cannot pause a job, so it starts none of its replicas"


@dataclass(frozen=True, slots=True)
class News:
    """Something worth an event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reconcile is to do, in this order: remember, delete, create, tell."""

    status: GenericJobStatus
    must_remember: bool = False
    """Whether the status has to be stored before anything else happens, and at once."""
    deletes: tuple[Pod, ...] = ()
    services: tuple[Rank, ...] = ()
    pods: tuple[Rank, ...] = ()
    """Ranks whose service, and whose pod, is to be created."""
    news: tuple[News, ...] = ()


def decide(job: Job, seen: Observation, now: datetime) -> Plan:
    """Make a plan."""
    if job.status.phase in FINAL_PHASES:
        return _after_the_end(job, seen, now)
    ended = verdict(job.design.rules, seen.outcomes)
    status = status_of(job, seen, ended, now)
    if ended:
        kind: Literal["Normal", "Warning"] = "Normal" if ended.phase == "Succeeded" else "Warning"
        return Plan(status, must_remember=True, news=(*remarks(job), News(kind, ended.reason, ended.message)))
    if _asks_for_a_pause(job):
        told = troubled(status, Reason.NOT_YET_SUPPORTED, PAUSE_IGNORED, now, stored=job.status)
        return Plan(told, must_remember=_vanished_end(seen) or told.conditions != job.status.conditions, news=_pausing(job))
    again = [*_run_again(seen), *_disrupted(seen)]
    return Plan(
        status,
        must_remember=_vanished_end(seen) or bool(again),
        deletes=tuple(again),
        services=seen.missing_services(job),
        pods=tuple(
            Rank(part.type, rank)
            for part in seen.types
            if None in part.pods
            for rank, pod in enumerate(part.pods)
            if pod is None and rank not in part.succeeded and rank not in part.failed
        ),
    )


def _after_the_end(job: Job, seen: Observation, now: datetime) -> Plan:
    """A terminal phase is final. A pod that appears now was on its way when the job ended: it goes."""
    late = _run_again(seen)
    stored = {task.type: task for task in job.status.tasks}
    for part in seen.types:
        task = stored.get(part.type)
        if task and task.never_started_ranks:
            pods = (part.pods[rank] for rank in ranges.parse(task.never_started_ranks) if rank < len(part.pods))
            late += [pod for pod in pods if pod is not None and pod.deleted is None]
    return Plan(status_of(job, seen, _as_it_ended(job.status), now), deletes=tuple(late))


def _as_it_ended(status: GenericJobStatus) -> Verdict:
    """The verdict that is stored."""
    told = condition(status, "Completed")
    phase: Literal["Succeeded", "Failed"] = "Succeeded" if status.phase == "Succeeded" else "Failed"
    return Verdict(phase, told.reason, told.message) if told else Verdict(phase, phase, "")


def _pausing(job: Job) -> tuple[News, ...]:
    return () if job.status.observed_generation == job.generation else (News("Warning", Reason.NOT_YET_SUPPORTED, PAUSE_IGNORED),)


def _disrupted(seen: Observation) -> list[Pod]:
    """Pods that were in somebody's way: when they are gone their ranks run again."""
    return [pod for part in seen.types for pod in part.pods if pod is not None and pod.deleted is None and disrupted(pod)]


def _run_again(seen: Observation) -> list[Pod]:
    """Pods of ranks that have ended before: created late, by a leader of old or a write whose answer was lost. Never two runs of a rank."""
    return [
        pod
        for part in seen.types
        for rank in (*part.succeeded, *part.failed)
        if rank < len(part.pods) and (pod := part.pods[rank]) is not None and pod.phase not in ENDED and pod.deleted is None
    ]


def _vanished_end(seen: Observation) -> bool:
    """Whether an outcome is known only from a pod that is gone: nothing but our memory has it."""
    return any(part.pods[rank] is not pod for part in seen.types for rank, pod in part.ends.items())


def _asks_for_a_pause(job: Job) -> bool:
    mode = job.spec.run_mode
    return mode is not None and mode.pause is not None and mode.pause.enabled


def remarks(job: Job) -> tuple[News, ...]:
    """What a user should hear about a spec when it is first acted upon."""
    if job.status.observed_generation == job.generation:
        return ()
    told = [News("Warning", Reason.RULE_NEVER_FIRES, text) for text in job.design.rules.never]
    ignored = ", ".join(_not_supported(job))
    if ignored:
        told.append(News("Warning", Reason.NOT_YET_SUPPORTED, f"this version of the controller ignores {ignored}"))
    return tuple(told)


def _not_supported(job: Job) -> list[str]:
    spec = job.spec
    found = []
    if any(part.restart_policy.policy == "Always" or part.restart_policy.limit for part in spec.replica_specs):
        found.append("restartPolicy (every policy is treated as Never)")
    if spec.clean_up_policy != "None":
        found.append("cleanUpPolicy")
    if spec.scheduler is not None:
        found.append("scheduler (pods name it, but no PodGroup is made)")
    if spec.run_mode is not None and spec.run_mode.debug is not None and spec.run_mode.debug.enabled:
        found.append("runMode.debug")
    return found
