"""What to do about a job: a pure function of the job, what there is of it, and the time.

    given these pods, this plan

No clock, no client, no chance. The order of questions is the policy: a job that has ended stays as it ended; ends of pods are accounted
for; then the rules are asked, then the deadline, then whether the user wants a pause; then what is old goes, and what is missing comes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple

from genericjob.api.names import FINAL_PHASES, Rank, Reason
from genericjob.api.spec import GenericJobSpec
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.objects import Pod, Service

from . import waiting
from .course import Course
from .ends import as_it_ended, deadline, deadline_exceeded, expiry, late, run_again, to_clean_up
from .job import Job
from .observe import FINISHED, Observation
from .restarts import End, Settlement, begin_anew, settle, settle_after_the_end
from .rules import Verdict, verdict
from .status import condition, how_it_ended, status_of

TOLD_ONE_BY_ONE = 10
"""Restarts of one look; more of them are told in sum."""


@dataclass(frozen=True, slots=True)
class News:
    """Something worth an event."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Try(NamedTuple):
    """A pod to be created: which rank, and which attempt of it."""

    rank: Rank
    attempt: int = 0
    charged: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reconcile is to do, in this order: remember, delete, create, tell."""

    status: GenericJobStatus
    must_remember: bool = False
    """Whether the status has to be stored before anything else happens, and at once."""
    must_confirm: bool = False
    """Whether it has to be stored before anything is deleted or created, to see that nothing has changed: caches may be behind."""
    deletes: tuple[Pod | Service, ...] = ()
    services: tuple[Rank, ...] = ()
    """Ranks whose service is to be created."""
    pods: tuple[Try, ...] = ()
    news: tuple[News, ...] = ()
    cleaned_up: frozenset[str] = frozenset()
    """UIDs of the pods that go because the job's policy says so."""
    expired: bool = False
    """Whether the job itself is to be deleted."""
    look_again: datetime | None = None
    """When time alone will change the answer."""

    @property
    def size(self) -> int:
        """How many objects it deletes and creates."""
        return len(self.deletes) + len(self.services) + len(self.pods)


def decide(job: Job, seen: Observation, now: datetime) -> Plan:
    """Make a plan."""
    if job.status.phase in FINAL_PHASES:
        return _after_the_end(job, seen, now)
    settled = settle(job, seen, now)
    if ended := _verdict(job, settled, now):
        return _at_the_end(job, settle_after_the_end(job, seen), ended, now)
    if job.spec.paused:
        return _paused(job, settled, now)
    if settled.course.paused:
        return _resume(job, seen, settled, now)
    return _go_on(job, settled, settled.course, now, must_remember=settled.restarts or _vanished_end(seen), news=_restarts(settled))


def _verdict(job: Job, settled: Settlement, now: datetime) -> Verdict | None:
    """How the job has ended, if it has. One that is paused does not end, and one that is debugged only by its deadline."""
    if settled.course.paused:  # outcomes are shown still, but they are those of an epoch that is over
        return None
    if not job.spec.debugged and (ended := verdict(job.design.rules, settled.outcomes)):
        return ended
    return deadline_exceeded(job, settled, now)


# ------------------------------------------------------------------------------------------------ going on


def _go_on(job: Job, settled: Settlement, course: Course, now: datetime, *, must_remember: bool, news: tuple[News, ...] = ()) -> Plan:
    seen = settled.seen
    again = tuple(run_again(seen))
    deletes: tuple[Pod | Service, ...] = (*_going(seen.old_pods()), *again, *seen.stray_services())
    services = seen.missing_services(job)
    tries, next_try = _missing(seen, course, now)
    moments = (next_try, deadline(job, settled, now, course=course), waiting.next_look(seen, now))
    return Plan(
        status_of(job, settled, None, now, course=course),
        must_remember=must_remember,
        must_confirm=bool(again) or bool(services and _had_all(job)),
        deletes=deletes,
        services=services,
        pods=tries,
        news=news,
        look_again=min((moment for moment in moments if moment is not None), default=None),
    )


def _had_all(job: Job) -> bool:
    """Whether all services were there once. Then their job may be gone, too, and our cache behind the collector that took them away."""
    told = condition(job.status, "Initialized")
    return told is not None and told.status == "True"


def _missing(seen: Observation, course: Course, now: datetime) -> tuple[tuple[Try, ...], datetime | None]:
    """Pods to create now, and when the next one may be."""
    if seen.of_earlier_epochs(course.epoch):  # NONE OF THE NEW BEFORE ALL OF THE OLD ARE GONE
        return (), None
    if course.not_before is not None and course.not_before > now:
        return (), course.not_before
    tries: list[Try] = []
    later: list[datetime] = []
    for part in seen.types:
        if None not in part.pods:
            continue
        settled = part.succeeded | part.failed | part.old.keys()
        missing = [rank for rank, pod in enumerate(part.pods) if pod is None and rank not in settled]
        if not part.ledger:
            tries += [Try(Rank(part.type, rank)) for rank in missing]
            continue
        for rank in missing:
            moment = part.ledger.not_before(rank)
            if moment is not None and moment > now:
                later.append(moment)
            else:
                tries.append(Try(Rank(part.type, rank), part.ledger.attempt(rank), part.ledger.charged.get(rank, 0)))
    return tuple(tries), min(later, default=None)


def _going(pods: Iterable[Pod]) -> Iterator[Pod]:
    """Those whose deletion nobody has asked for yet."""
    return (pod for pod in pods if pod.deleted is None)


def _vanished_end(seen: Observation) -> bool:
    """Whether an outcome is known only from a pod that is gone or going: nothing but our memory has it."""
    return any(part.pods[rank] is not pod for part in seen.types for rank, pod in part.ends.items())


# ------------------------------------------------------------------------------------------------ pause


def _paused(job: Job, settled: Settlement, now: datetime) -> Plan:
    """Have no pods. The write that begins a pause also ends the epoch, so that no pod of it will ever count again."""
    before, started = settled.course, _has_started(job, settled.seen)
    begins = not before.paused
    if begins:
        course = before.pausing(now, before_start=not started and not _created_paused(job))
    else:
        course = replace(before, paused_before_start=before.paused_before_start and not started)
    seen = begin_anew(settled.seen, outcomes=True)
    news = (*_restarts(settled), News("Normal", Reason.PAUSED, "The job is being paused: its pods are deleted.")) if begins else ()
    return Plan(
        status_of(job, replace(settled, seen=seen), None, now, course=course),
        must_remember=course != before or settled.restarts,
        deletes=(*_going(seen.old_pods()), *seen.stray_services()),
        news=news,
        look_again=waiting.next_look(seen, now),
    )


def _has_started(job: Job, seen: Observation) -> bool:
    """Return whether the job has or had pods. A pause then ends them, or follows upon their end, and the job resumes afterwards."""
    status = job.status
    return (
        status.resumes > 0
        or status.last_job_restart is not None
        or _had_all(job)
        or any(pod is not None for part in seen.types for pod in part.pods)
        or any(True for _ in seen.old_pods())
        or any(part.ledger or part.succeeded or part.failed for part in seen.types)
    )


def _created_paused(job: Job) -> bool:
    """Return whether runMode.pause is on in the first spec of the job that could be used. A spec that was refused stores no start."""
    pause = job.spec.run_mode.pause if job.spec.run_mode else None
    return job.status.start_time is None and pause is not None and pause.enabled


def _resume(job: Job, found: Observation, settled: Settlement, now: datetime) -> Plan:
    """Go on after a pause, or start: every rank, those that had ended too, because the others expect them."""
    seen = begin_anew(settled.seen)
    if not job.spec.debugged and (ended := verdict(job.design.rules, seen.outcomes)):  # its rules were changed so that nothing can be met
        return _at_the_end(job, settle_after_the_end(job, begin_anew(found)), ended, now, course=settled.course.resuming(now))
    first = settled.course.paused_before_start
    text = "The job starts: its pods are created." if first else "The job goes on: its pods are created again."
    news = (News("Normal", Reason.RESUMING, text),)
    return _go_on(job, Settlement(seen, settled.course, seen.outcomes), settled.course.resuming(now), now, must_remember=True, news=news)


# ------------------------------------------------------------------------------------------------ the end


def _at_the_end(job: Job, settled: Settlement, ended: Verdict, now: datetime, *, course: Course | None = None) -> Plan:
    """Store it. What the end means for pods is decided when that is done."""
    kind: Literal["Normal", "Warning"] = "Normal" if ended.phase == "Succeeded" else "Warning"
    news = [News(kind, ended.reason, ended.message)]
    left = sum(pod.phase not in FINISHED and pod.deleted is None for pod in settled.seen.current_pods())
    if left and job.spec.clean_up_policy == "None" and ended.reason != Reason.DEADLINE_EXCEEDED:
        text = f"{'1 pod still runs' if left == 1 else f'{left} pods still run'}, because spec.cleanUpPolicy is None"
        news.append(News("Normal", Reason.LEFT_RUNNING, text))
    return Plan(status_of(job, settled, ended, now, course=course), must_remember=True, news=tuple(news))


def _after_the_end(job: Job, seen: Observation, now: datetime) -> Plan:
    """A terminal phase is final."""
    settled = settle_after_the_end(job, seen)
    unwanted = list(to_clean_up(job, settled.seen))
    pods = {pod.uid: pod for pod in (*_going(seen.old_pods()), *late(job, settled.seen), *unwanted)}
    deletes: tuple[Pod | Service, ...] = (*pods.values(), *seen.stray_services())
    moment = expiry(job)
    return Plan(
        status_of(job, settled, as_it_ended(job.status), now),
        must_remember=bool(settled.ends and pods),
        deletes=deletes,
        cleaned_up=frozenset(pod.uid for pod in unwanted),
        expired=moment is not None and moment <= now,
        look_again=moment,
    )


# ------------------------------------------------------------------------------------------------ what to tell


def _restarts(settled: Settlement) -> tuple[News, ...]:
    """What a user should hear about ranks that are started again."""
    if cause := settled.job_restarts:
        return (News("Warning", Reason.RESTARTING_JOB, _told(cause, what="restart of the whole job")),)
    again = [end for end in settled.ends if end.restarts]
    told = tuple(News("Warning", Reason.RESTARTING, _told(end)) for end in again[:TOLD_ONE_BY_ONE])
    if len(again) > TOLD_ONE_BY_ONE:
        told += (News("Warning", Reason.RESTARTING, f"{len(again) - TOLD_ONE_BY_ONE} more replicas are started again"),)
    return told


def _told(end: End, *, what: str = "restart") -> str:
    where = f" on node {end.pod.node}" if end.pod and end.pod.node else ""
    count = f" {end.charges} of {'any number' if end.limit is None else end.limit}" if end.judgement == "charged" else ", not charged"
    return f"{how_it_ended(end)}{where}; {what}{count}"


def remarks(job: Job) -> tuple[News, ...]:
    """What a user should hear about a spec, once: when the status first speaks of it."""
    told = [News("Warning", Reason.RULE_NEVER_FIRES, text) for text in job.design.rules.remarks]
    told += [News("Warning", Reason.UNKNOWN_TYPE, f"{where}: there is no replica of type {type!r}") for where, type in _unknown(job.spec)]
    return tuple(told)


def _unknown(spec: GenericJobSpec) -> Iterator[tuple[str, str]]:
    """Types that modes speak of and the job does not have."""
    mode, types = spec.run_mode, {part.type for part in spec.replica_specs}
    debugged = [one.type for one in mode.debug.replica_specs] if mode and mode.debug else []
    resumed = [one.type for one in mode.pause.resume_specs] if mode and mode.pause else []
    for where, found in (("runMode.debug.replicaSpecs", debugged), ("runMode.pause.resumeSpecs", resumed)):
        for number, type in enumerate(found):
            if type not in types:
                yield f"{where}[{number}]", type
