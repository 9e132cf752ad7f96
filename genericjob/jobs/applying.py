"""What of a plan can be sent now, and what becomes of it.

Deletes come first, then services, then pods, not all at once: what happens meanwhile may end the job.
What the server refuses is tried again ever more rarely, and what is waited for is known meanwhile, so that it can be shown.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from genericjob.api import names
from genericjob.api.names import Reason
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.objects import Pod, Service
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.resources import Key, Resource
from genericjob.reconcile.writer import Create, Delete, Done, Write, Writer

from .bodies import Bodies
from .decide import News, Plan
from .job import Job
from .podgroups import PodGroups
from .refusals import LONGEST, Refusals
from .resource import SERVICES
from .status import condition

PREDECESSOR = 5.0
"""Seconds until a name is looked at again that a pod of an earlier run still has; its end brings us back before that."""
CHANGED = 5.0
"""The same for what was not deleted, because it had changed: its event brings us back, and where none comes we come by ourselves."""
AT_A_TIME = 1_000
"""Writes of one reconcile."""
TURN_S = 1.0
"""Seconds after which a reconcile sends no further writes if another job waits: admission may take a second for each of them."""
LONGEST_WITHOUT_GROUP = {Reason.SCHEDULER_MISSING: 60.0, Reason.NAME_CONFLICT: 60.0, Reason.PREDECESSOR_ENDING: 5.0}
"""Seconds between two looks for a group: nobody watches them, and somebody may be installing the scheduler at this moment."""
FORBIDDEN = 403
PERSISTENT = 4.0
"""Seconds of waiting from which on errors are shown that usually pass, such as those of the server itself: the third in a row."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a plan's writes."""

    done: int = 0
    """Writes that happened; more than none, and there may be more to see and to do."""
    created: int = 0
    news: tuple[News, ...] = ()
    trouble: tuple[str, str] | None = None
    """Reason and message of what keeps the job from being initialized."""
    again: float | None = None
    """Seconds until something of the plan is to be tried again."""

    def merged(self, other: "Applied") -> "Applied":
        """Add another result: the trouble of this one comes first, and of two waits THE EARLIER COUNTS."""
        waits = [wait for wait in (self.again, other.again) if wait is not None]
        return Applied(
            self.done + other.done,
            self.created + other.created,
            self.news + other.news,
            self.trouble or other.trouble,
            min(waits, default=None),
        )


class Applier:
    """Sends the writes of plans."""

    def __init__(
        self,
        api: Api,
        *,
        writer: Writer,
        bodies: Bodies,
        pods: Resource[Pod],
        queue: Queue[Key],
        unchanged: Callable[[Job], bool],
        primitives: Primitives,
    ) -> None:
        """`unchanged` says whether the job that a plan was made for is still there: thousands of creates take a while."""
        self._writer, self._bodies, self._pods, self._queue, self._unchanged = writer, bodies, pods, queue, unchanged
        self._primitives = primitives
        self._groups = PodGroups(api)
        self._refusals, self._kept = Refusals(), Refusals()
        """Of jobs whose creates, and of pods whose deletes, were refused."""

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._refusals.forget(uid)
        self._bodies.forget(uid)

    def writes(self, job: Job, plan: Plan) -> tuple[list[Write], Applied]:
        """What of a plan can be sent now, and what hinders the rest."""
        uid, now = job.identity.uid, self._primitives.monotonic()
        held = {found.uid: wait for found in plan.deletes if (wait := self._kept.wait(found.uid, job.generation, now))}
        writes = [self._delete(found, uid) for found in plan.deletes if found.uid not in held][:AT_A_TIME]
        later = Applied(again=min(held.values(), default=None))
        if not (plan.pods or plan.services) or len(writes) == AT_A_TIME:
            return writes, later
        if again := self._refusals.wait(uid, job.generation, now):
            trouble = self._refusals.trouble(uid, job.generation)
            return writes, later.merged(Applied(trouble=trouble, again=again if again < math.inf else None))
        if plan.pods and (hindered := self._without_a_group(job)):
            return writes, later.merged(hindered)
        return writes + self._creates(job, plan, room=AT_A_TIME - len(writes)), later

    def apply(self, job: Job, plan: Plan, writes: list[Write], hindered: Applied) -> Applied:
        """Send them; `hindered` is what is known of the rest."""
        if not writes:
            return hindered
        key, turn_ends = Key(job.identity.namespace, job.identity.name), self._primitives.monotonic() + TURN_S

        def wanted() -> bool:
            """Asked after each write."""
            self._queue.progress(key)
            return self._unchanged(job) and (self._primitives.monotonic() < turn_ends or not self._queue.crowded())

        return self._judge(job, self._writer.apply(writes, wanted=wanted), plan).merged(hindered)

    def _delete(self, found: Pod | Service, owner_uid: str) -> Write:
        """AS IT WAS SEEN: since then it may have ended, so that its end is to be stored first, or have been taken from the job."""
        resource: Resource[Any] = self._pods if isinstance(found, Pod) else SERVICES
        key = Key(found.namespace, found.name)
        return Delete(resource, key, found.uid, owner_uid, resource_version=found.resource_version)

    def _without_a_group(self, job: Job) -> Applied | None:
        """What keeps the pods from being placed together keeps them from being created. Asked every time: the group may have gone."""
        shown = 0.0
        try:
            trouble = self._groups.ensure(job)
        except ApiError as error:  # a server that starts answers so for a moment
            trouble, shown = (Reason.FAILED_CREATE, error.message), PERSISTENT
        if trouble is None:
            return None
        longest = LONGEST_WITHOUT_GROUP.get(trouble[0], LONGEST)
        uid, now = job.identity.uid, self._primitives.monotonic()
        again = self._refusals.note(uid, job.generation, now, longest=longest, trouble=trouble, shown=shown)
        if again < shown:
            return Applied(again=again)
        return Applied(news=(News("Warning", *trouble),), trouble=trouble, again=again)

    def _creates(self, job: Job, plan: Plan, *, room: int) -> list[Write]:
        """The first creates of a plan. NOT ALL OF THEM: what happens meanwhile may end the job."""
        epoch, bodies = plan.status.epoch, self._bodies.of(job, resumed=plan.status.resumes > 0)
        services = (bodies.service(rank) for rank in plan.services)
        pods = (bodies.pod(one.rank, epoch=epoch, attempt=one.attempt, charged=one.charged) for one in plan.pods)
        return list(islice(chain[Create[Any]](services, pods), room))

    def _judge(self, job: Job, outcomes: Sequence[Done], plan: Plan) -> Applied:
        """What came of the writes, in one answer."""
        happened = [done for done in outcomes if done.fate == "done"]
        created = sum(isinstance(done.write, Create) for done in happened)
        news = self._first_words(job, outcomes, plan) if any(isinstance(done.write, Create) for done in outcomes) else ()
        news += _cleaned_up(happened, plan)
        changed = any(done.fate == "skipped" and done.error is not None for done in outcomes)
        applied = Applied(len(happened), created, news, again=CHANGED if changed else None)
        hindered = [done for done in outcomes if done.fate not in ("done", "skipped")]
        kept = [done for done in hindered if _is_kept(done)]
        if kept:
            applied = applied.merged(self._may_not_delete(job, kept))
        first = next((done for done in hindered if not _is_kept(done)), None)
        if first is not None:
            return replace(applied, done=0, created=0).merged(self._hindered(job, first))  # the trouble is to be shown first
        if created:
            self._refusals.forget(job.identity.uid)
        return applied

    def _may_not_delete(self, job: Job, kept: Sequence[Done]) -> Applied:
        """Some pods have to stay for now. Each is tried again later, and the others do not wait for it."""
        now = self._primitives.monotonic()
        waits = [self._kept.note(done.write.uid, job.generation, now) for done in kept if isinstance(done.write, Delete)]
        why = kept[0].error.message if kept[0].error else ""
        news = News("Warning", Reason.FAILED_DELETE, f"{_name(kept[0].write)} could not be deleted: {why}")
        return Applied(news=(news,), again=min(waits))

    def _hindered(self, job: Job, hindered: Done) -> Applied:
        """One write could not be done, and the rest was not worth trying."""
        uid, now = job.identity.uid, self._primitives.monotonic()
        error = hindered.error or ApiError(NO_ANSWER, "Unknown", f"{hindered.write} failed")
        if hindered.fate == "failed" and (error.unreachable or error.unauthorized or error.conflict):
            raise error  # of these the caches tell, or another try settles them
        if hindered.fate == "waiting":
            text = f"{_name(hindered.write)} of an earlier run is still there; waiting until it is gone"
            return Applied(trouble=(Reason.PREDECESSOR_ENDING, text), again=PREDECESSOR)
        if error.code == FORBIDDEN and any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            self._refusals.give_up(uid, job.generation)
            return Applied()  # nothing will ever be created here again, and nobody is left to read about it
        trouble = _trouble(hindered)
        shown = PERSISTENT if hindered.fate == "failed" else 0.0  # a server that starts answers so for a moment
        again = self._refusals.note(uid, job.generation, now, trouble=trouble, shown=shown)
        if again < shown:
            return Applied(again=again)
        return Applied(news=(News("Warning", *trouble),), trouble=trouble, again=again)

    def _first_words(self, job: Job, outcomes: Sequence[Done], plan: Plan) -> tuple[News, ...]:
        """What to say when something was to be created, and more of it the first time."""
        pods = sum(done.fate == "done" and isinstance(done.write, Create) and done.write.resource is self._pods for done in outcomes)
        told = [News("Normal", Reason.CREATED, f"Created {pods} pod{'' if pods == 1 else 's'}")] if pods else []
        new = job.status.observed_generation != job.generation
        if new:
            for compiled, _ in self._bodies.of(job, resumed=plan.status.resumes > 0).types.values():
                if compiled.unresolved:
                    text = f"these variables mean nothing in this job and were left as they are: {', '.join(compiled.unresolved)}"
                    told.append(News("Warning", Reason.UNRESOLVED_VARIABLES, text))
                told += [News("Warning", Reason.TEMPLATE_OVERRIDDEN, remark) for remark in compiled.remarks]
        initialized = condition(job.status, "Initialized")
        if new or initialized is None or initialized.status != "True":  # the first create that was not refused brings them
            warnings = dict.fromkeys(warning for done in outcomes for warning in done.warnings)
            told += [News("Warning", Reason.SERVER_WARNING, warning) for warning in warnings]
        return tuple(dict.fromkeys(told))


def _is_kept(done: Done) -> bool:
    """Whether an object may not be deleted."""
    return isinstance(done.write, Delete) and done.fate == "refused"


def _cleaned_up(happened: Sequence[Done], plan: Plan) -> tuple[News, ...]:
    gone = sum(isinstance(done.write, Delete) and done.write.uid in plan.cleaned_up for done in happened) if plan.cleaned_up else 0
    return (News("Normal", Reason.CLEANED_UP, f"Deleted {gone} pod{'' if gone == 1 else 's'} after the end of the job"),) if gone else ()


def _trouble(hindered: Done) -> tuple[str, str]:
    """Reason and message of a create that was refused, or that met somebody else's object."""
    if hindered.fate in ("refused", "failed") and hindered.error is not None:
        return Reason.FAILED_CREATE if isinstance(hindered.write, Create) else Reason.FAILED_DELETE, hindered.error.message
    if hindered.error is not None and hindered.error.unreadable:
        return Reason.NAME_CONFLICT, f"{hindered.error.message}; it was left alone"
    name = _name(hindered.write)
    if hindered.object is not None and hindered.object.owner_uid == hindered.write.owner_uid:
        label = f"{names.COMPONENT_LABEL}={names.COMPONENT}"
        return Reason.NAME_CONFLICT, f"{name} belongs to this job but has lost its label {label}; it was left alone"
    return Reason.NAME_CONFLICT, f"{name} exists and does not belong to this job; it was left alone"


def _name(write: Write) -> str:
    return f"{write.resource.kind} {write.name if isinstance(write, Create) else write.key.name}"
