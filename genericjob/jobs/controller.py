"""The controller of GenericJobs: observe, decide, commit, apply, tell.

    read the caches ── decide (pure) ── store what must not be forgotten ── delete and create ── say what happened

Level-triggered: a key says only that a job should be looked at. Everything that decides is in the pure files of this room; this one reads,
writes, and knows when not to.
"""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

from msgspec import structs

from genericjob.api import names
from genericjob.api.names import JobIdentity, Reason
from genericjob.api.spec import InvalidSpecError
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.api import Api
from genericjob.reconcile.coalesce import Coalescer
from genericjob.reconcile.controller import AGAIN, DONE, MORE, Result
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.objects import Pod, Service
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.recorder import Recorder, Reference
from genericjob.reconcile.resources import SERVICES, Key, Resource
from genericjob.reconcile.writer import Create, Delete, Done, Write, Writer

from .bodies import Bodies
from .decide import News, Plan, decide, remarks
from .departures import Departures
from .job import Job
from .observe import Observation, observe
from .podgroups import PodGroups
from .refusals import LONGEST, Refusals
from .resource import JOBS, Reader, StoredJob, UnreadableStatusError, identity, read_status, status_body
from .status import MESSAGE_LIMIT, condition, troubled

log = logging.getLogger(__name__)

OWNER = "owner"
"""The index of pods and services by the UID of their job."""

STALE = 1.0
"""Seconds after which a job whose cache lags is looked at again; the event that is waited for comes first, usually within milliseconds."""
PREDECESSOR = 5.0
"""The same for a pod of an earlier job that still has our name."""
AT_A_TIME, BYTES_AT_A_TIME = 1_000, 32 * 2**20
"""Writes of one reconcile, and the size of their bodies."""
SOON = 0.05
"""The shortest wait for a moment to come; clocks and sleeps are not exact."""
LONGEST_WITHOUT_GROUP = {Reason.SCHEDULER_MISSING: 60.0, Reason.NAME_CONFLICT: 60.0, Reason.PREDECESSOR_ENDING: 5.0}
"""Seconds between two looks for a group: nobody watches them, and somebody may be installing the scheduler at this moment."""
SERVER_ERRORS = 500
"""Codes from here on are the server's own fault."""
PERSISTENT = 4.0
"""Seconds of waiting from which on errors of the server itself are shown: the third in a row."""


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


class JobController:
    """Reconciles one job at a time per worker. Holds no truth: what is here can be lost at any moment."""

    def __init__(
        self,
        api: Api,
        *,
        jobs: Informer[StoredJob],
        pods: Informer[Pod],
        services: Informer[Service],
        pod_resource: Resource[Pod],
        own_writes: OwnWrites,
        writer: Writer,
        recorder: Recorder,
        bodies: Bodies,
        departures: Departures,
        coalescer: Coalescer,
        stale: Callable[[], None],
        primitives: Primitives,
    ) -> None:
        self._api = api
        self._jobs, self._pods, self._services = jobs, pods, services
        self._pod_resource = pod_resource
        self._own_writes, self._writer, self._recorder = own_writes, writer, recorder
        self._bodies, self._departures, self._coalescer = bodies, departures, coalescer
        self._stale = stale
        self._primitives = primitives
        self._groups = PodGroups(api)
        self._reader = Reader()
        self._refusals, self._kept = Refusals(), Refusals()
        """Of jobs whose creates, and of pods whose deletes, were refused."""

    def reconcile(self, key: Key) -> Result:
        """Bring one job a step further."""
        stored = self._jobs.get(key)
        if stored is None or stored.deleted is not None:  # its pods and services go with it: the garbage collector's work
            return DONE
        if not self._own_writes.visible(stored.uid):  # READ YOUR WRITES: jobs, pods and services
            self._stale()
            return Result.again_in(STALE)
        try:
            return self._bring_forward(stored, self._reader.read(stored))
        except InvalidSpecError as error:
            return self._refuse(stored, str(error))
        except UnreadableStatusError as error:
            return self._give_up(stored, str(error))

    def _bring_forward(self, stored: StoredJob, job: Job) -> Result:
        if job.spec.managed_by not in (None, names.MANAGER):
            self._departures.forget(stored.uid)
            return DONE  # another controller's
        now = self._primitives.now()
        plan = decide(job, self._observe(job), now)
        # COMMIT FIRST: outcomes, charges, epoch and phase before any delete that depends on them.
        if plan.must_remember and not self._store(stored, job, plan.status):
            return AGAIN  # somebody else wrote: look again, change nothing
        if plan.expired and not plan.must_remember:
            return self._expire(stored, job)
        writes, hindered = self._writes(job, plan)
        confirms = bool(writes) and plan.must_confirm and not plan.must_remember
        if confirms and not self._store(stored, job, plan.status):
            return AGAIN
        done = self._apply(job, plan, writes, hindered)
        self._tell(job, plan.news + done.news)
        if done.done and done.trouble is None and done.again is None and done.done < plan.size:
            return MORE
        if plan.must_remember or confirms or done.created:
            return Result.again_in(STALE)  # the events of our own writes bring us back before that, and then there is more to show
        status = troubled(plan.status, *done.trouble, now, stored=job.status) if done.trouble else plan.status
        waits = [done.again, max(SOON, (plan.look_again - now).total_seconds()) if plan.look_again else None]
        return self._show(stored, job, status, again=min((wait for wait in waits if wait is not None), default=None))

    def forget(self, uid: str) -> None:
        """A job is gone."""
        self._own_writes.forget(uid)
        self._departures.forget(uid)
        self._coalescer.forget(uid)
        self._refusals.forget(uid)
        self._reader.forget(uid)
        self._bodies.forget(uid)

    # -------------------------------------------------------------------------------------------- observe

    def _observe(self, job: Job) -> Observation:
        uid, namespace = job.identity.uid, job.identity.namespace
        # PODS FIRST: one that goes between the two reads is then seen twice, and not not at all.
        pods = self._pods.by(OWNER, uid, namespace=namespace)
        departed = self._departures.of(uid)
        services = self._services.by(OWNER, uid, namespace=namespace) if job.spec.service else ()
        seen = observe(job, pods, services=services, departed=departed)
        if departed:
            settled = frozenset(pod.uid for pod in departed) - seen.unaccounted() - {pod.uid for pod in pods}
            self._departures.settle(uid, settled)
        return seen

    # -------------------------------------------------------------------------------------------- commit, show

    def _store(self, stored: StoredJob, job: Job, status: GenericJobStatus) -> bool:
        """Write the status if the job is still the one that was read; False if somebody else wrote first."""
        if not self._put(stored, status):
            return False
        if job.status.observed_generation != job.generation:
            self._tell(job, remarks(job))
        return True

    def _put(self, stored: StoredJob, status: GenericJobStatus) -> bool:
        key = Key(stored.namespace, stored.name)
        try:
            written = self._api.replace_status(JOBS, key, status_body(stored, status))
        except ApiError as error:
            if error.conflict or error.not_found:
                return False
            raise  # IF IT IS UNKNOWN WHETHER IT HAPPENED the next try settles it: it conflicts, or it is the first
        self._own_writes.record(stored.uid, JOBS, stored.namespace, written.resource_version)
        self._coalescer.wrote(stored.uid)
        return True

    def _show(self, stored: StoredJob, job: Job, status: GenericJobStatus, *, again: float | None) -> Result:
        """Let people see how the job stands, at most once a second."""
        if status == job.status:
            return DONE if again is None else Result.again_in(again)
        if wait := self._coalescer.due(stored.uid):
            return Result.again_in(wait if again is None else min(wait, again))
        if not self._store(stored, job, status):
            return AGAIN
        return DONE if again is None else Result.again_in(again)

    def _refuse(self, stored: StoredJob, problem: str) -> Result:
        """A spec that admission let through although it cannot work: show it, and wait for a better one."""
        try:
            before = read_status(stored)
        except UnreadableStatusError as error:
            return self._give_up(stored, f"{problem}; {error}")
        told = troubled(before, Reason.INVALID_SPEC, problem, self._primitives.now(), stored=before)
        status = structs.replace(told, observed_generation=stored.generation)
        if status != before and not self._put(stored, status):
            return AGAIN
        return self._give_up(stored, problem)

    def _give_up(self, stored: StoredJob, problem: str) -> Result:
        self._recorder.event(_reference(identity(stored)), "Warning", Reason.INVALID_SPEC, problem)
        return Result.give_up(problem)

    # -------------------------------------------------------------------------------------------- apply

    def _writes(self, job: Job, plan: Plan) -> tuple[list[Write], Applied]:
        """What of a plan can be sent now, and what hinders the rest."""
        uid, now = job.identity.uid, self._primitives.monotonic()
        held = {found.uid: wait for found in plan.deletes if (wait := self._kept.wait(found.uid, job.generation, now))}
        writes = [self._delete(found, uid) for found in plan.deletes if found.uid not in held][:AT_A_TIME]
        later = Applied(again=min(held.values(), default=None))
        if not (plan.pods or plan.services) or len(writes) == AT_A_TIME:
            return writes, later
        if again := self._refusals.wait(uid, job.generation, now):
            return writes, replace(later, trouble=self._refusals.trouble(uid, job.generation), again=again if again < math.inf else None)
        if plan.pods and (hindered := self._without_a_group(job)):
            return writes, hindered
        return writes + self._creates(job, plan, room=AT_A_TIME - len(writes)), later

    def _apply(self, job: Job, plan: Plan, writes: list[Write], hindered: Applied) -> Applied:
        if not writes:
            return hindered
        done = self._judge(job, self._writer.apply(writes, wanted=lambda: self._is_unchanged(job)), plan)
        waits = [wait for wait in (done.again, hindered.again) if wait is not None]
        return replace(done, news=hindered.news + done.news, trouble=done.trouble or hindered.trouble, again=min(waits, default=None))

    def _delete(self, found: Pod | Service, owner_uid: str) -> Write:
        """AS IT WAS SEEN: since then it may have ended, so that its end is to be stored first, or have been taken from the job."""
        resource: Resource[Any] = self._pod_resource if isinstance(found, Pod) else SERVICES
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
        """The first creates of a plan. NOT ALL OF THEM: 10,000 bodies can be a gigabyte, and what happens meanwhile may end the job."""
        epoch, resumed = plan.status.epoch, plan.status.resumes > 0
        services = (self._bodies.service(job, rank) for rank in plan.services)
        pods = (
            self._bodies.pod(job, one.rank, epoch=epoch, attempt=one.attempt, charged=one.charged, resumed=resumed) for one in plan.pods
        )
        found: list[Write] = []
        size = 0
        for create in islice(chain[Create[Any]](services, pods), room):
            size += len(create.body)
            if found and size > BYTES_AT_A_TIME:
                break
            found.append(create)
        return found

    def _expire(self, stored: StoredJob, job: Job) -> Result:
        """The job has been over for long enough; if anybody changed it meanwhile, look again."""
        try:
            self._api.delete(
                JOBS,
                Key(stored.namespace, stored.name),
                uid=stored.uid,
                resource_version=stored.resource_version,
                propagation="Background",
            )
        except ApiError as error:
            if error.not_found:
                return DONE
            if error.conflict:
                return AGAIN
            raise
        self._tell(job, [News("Normal", Reason.EXPIRED, "Deleted the job: spec.ttlSecondsAfterFinished have passed since its end")])
        return DONE

    def _is_unchanged(self, job: Job) -> bool:
        """Whether the job that a plan was made for is still there: ten thousand creates take a while, and users change their minds."""
        now = self._jobs.get(Key(job.identity.namespace, job.identity.name))
        return now is not None and now.uid == job.identity.uid and now.deleted is None and now.generation == job.generation

    def _judge(self, job: Job, outcomes: Sequence[Done], plan: Plan) -> Applied:
        """What came of the writes, in one answer."""
        happened = [done for done in outcomes if done.fate == "done"]
        created = sum(isinstance(done.write, Create) for done in happened)
        news = self._first_words(job, outcomes, plan) if any(isinstance(done.write, Create) for done in outcomes) else ()
        news += _cleaned_up(happened, plan)
        applied = Applied(len(happened), created, news)
        hindered = [done for done in outcomes if done.fate not in ("done", "skipped")]
        kept = [done for done in hindered if isinstance(done.write, Delete) and done.fate == "refused"]
        if kept:
            applied = self._may_not_delete(job, applied, kept)
        first = next((done for done in hindered if done not in kept), None)
        if first is not None:
            return self._hindered(job, applied, first)
        if created:
            self._refusals.forget(job.identity.uid)
        return applied

    def _may_not_delete(self, job: Job, applied: Applied, kept: Sequence[Done]) -> Applied:
        """Some pods have to stay for now. Each is tried again later, and the others do not wait for it."""
        now = self._primitives.monotonic()
        waits = [self._kept.note(done.write.uid, job.generation, now) for done in kept if isinstance(done.write, Delete)]
        why = kept[0].error.message if kept[0].error else ""
        news = News("Warning", Reason.FAILED_DELETE, f"{_name(kept[0].write)} could not be deleted: {why}")
        return replace(applied, news=(*applied.news, news), again=min(waits))

    def _hindered(self, job: Job, applied: Applied, hindered: Done) -> Applied:
        """One write could not be done, and the rest was not worth trying."""
        uid, now = job.identity.uid, self._primitives.monotonic()
        error = hindered.error or ApiError(NO_ANSWER, "Unknown", f"{hindered.write} failed")
        if hindered.fate == "failed" and error.code < SERVER_ERRORS:
            raise error
        if hindered.fate == "waiting":
            text = f"{_name(hindered.write)} of an earlier run is still there; waiting until it is gone"
            return replace(applied, done=0, created=0, trouble=(Reason.PREDECESSOR_ENDING, text), again=PREDECESSOR)
        if any(cause.reason == "NamespaceTerminating" for cause in error.causes):
            self._refusals.give_up(uid, job.generation)
            return replace(applied, done=0, created=0)  # nothing will ever be created here again, and nobody is left to read about it
        trouble = _trouble(hindered)
        shown = PERSISTENT if hindered.fate == "failed" else 0.0  # a server that starts answers so for a moment
        again = self._refusals.note(uid, job.generation, now, trouble=trouble, shown=shown)
        if again < shown:
            return replace(applied, done=0, created=0, again=again)
        news = (*applied.news, News("Warning", *trouble))
        return replace(applied, done=0, created=0, news=news, trouble=trouble, again=again)

    def _first_words(self, job: Job, outcomes: Sequence[Done], plan: Plan) -> tuple[News, ...]:
        """What to say when something was to be created, and more of it the first time."""
        pods = sum(
            done.fate == "done" and isinstance(done.write, Create) and done.write.resource is self._pod_resource for done in outcomes
        )
        told = [News("Normal", Reason.CREATED, f"Created {pods} pod{'' if pods == 1 else 's'}")] if pods else []
        new = job.status.observed_generation != job.generation
        if new:
            for compiled, _ in self._bodies.of(job, resumed=plan.status.resumes > 0).values():
                if compiled.unresolved:
                    text = f"these variables mean nothing in this job and were left as they are: {', '.join(compiled.unresolved)}"
                    told.append(News("Warning", Reason.UNRESOLVED_VARIABLES, text))
                told += [News("Warning", Reason.TEMPLATE_OVERRIDDEN, remark) for remark in compiled.remarks]
        initialized = condition(job.status, "Initialized")
        if new or initialized is None or initialized.status != "True":  # the first create that was not refused brings them
            warnings = dict.fromkeys(warning for done in outcomes for warning in done.warnings)
            told += [News("Warning", Reason.SERVER_WARNING, warning) for warning in warnings]
        return tuple(dict.fromkeys(told))

    # -------------------------------------------------------------------------------------------- tell

    def _tell(self, job: Job, news: Iterable[News]) -> None:
        for one in news:
            log.log(
                logging.WARNING if one.type == "Warning" else logging.INFO,
                "%s",
                one.message[:MESSAGE_LIMIT],
                extra={"job": f"{job.identity.namespace}/{job.identity.name}", "uid": job.identity.uid, "reason": one.reason},
            )
            self._recorder.event(_reference(job.identity), one.type, one.reason, one.message)


def _cleaned_up(happened: Sequence[Done], plan: Plan) -> tuple[News, ...]:
    gone = sum(isinstance(done.write, Delete) and done.write.uid in plan.cleaned_up for done in happened) if plan.cleaned_up else 0
    return (News("Normal", Reason.CLEANED_UP, f"Deleted {gone} pod{'' if gone == 1 else 's'} after the end of the job"),) if gone else ()


def _trouble(hindered: Done) -> tuple[str, str]:
    """Reason and message of a create that was refused, or that met somebody else's object."""
    if hindered.fate in ("refused", "failed") and hindered.error is not None:
        return Reason.FAILED_CREATE if isinstance(hindered.write, Create) else Reason.FAILED_DELETE, hindered.error.message
    name = _name(hindered.write)
    if hindered.object is not None and hindered.object.owner_uid == hindered.write.owner_uid:
        label = f"{names.COMPONENT_LABEL}={names.COMPONENT}"
        return Reason.NAME_CONFLICT, f"{name} belongs to this job but has lost its label {label}; it was left alone"
    return Reason.NAME_CONFLICT, f"{name} exists and does not belong to this job; it was left alone"


def _name(write: Write) -> str:
    return f"{write.resource.kind} {write.name if isinstance(write, Create) else write.key.name}"


def _reference(job: JobIdentity) -> Reference:
    return Reference(names.API_VERSION, names.KIND, job.namespace, job.name, job.uid)
