"""The controller of GenericJobs: observe, decide, commit, apply, tell.

    read the caches ── decide (pure) ── store what must not be forgotten ── delete and create ── say what happened

Level-triggered: a key says only that a job should be looked at. Everything that decides is in the pure files of this room; this one reads,
writes, and knows when not to.
"""

import logging
from collections.abc import Callable, Iterable

from msgspec import structs

from genericjob.api import names
from genericjob.api.names import JobIdentity, Reason
from genericjob.api.spec import InvalidSpecError
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.api import Api
from genericjob.reconcile.coalesce import Coalescer
from genericjob.reconcile.controller import AGAIN, DONE, MORE, Result
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.objects import Pod, Service
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.primitives import Primitives
from genericjob.reconcile.queue import Queue
from genericjob.reconcile.recorder import Recorder, Reference
from genericjob.reconcile.resources import Key, Resource
from genericjob.reconcile.writer import Writer

from .applying import Applier
from .bodies import Bodies
from .decide import News, decide, remarks
from .departures import Departures
from .job import Job
from .observe import Observation, observe
from .resource import JOBS, Reader, StoredJob, UnreadableStatusError, identity, read_status, reported_as, status_body
from .restarts import unaccounted
from .status import MESSAGE_LIMIT, shortened, troubled

log = logging.getLogger(__name__)

OWNER = "owner"
"""The index of pods and services by namespace and UID of their job."""

STALE = 1.0
"""Seconds after which a job whose cache lags is looked at again; the event that is waited for comes first, usually within milliseconds."""
SOON = 0.05
"""The shortest wait for a moment to come; clocks and sleeps are not exact."""


def owner_key(namespace: str, uid: str) -> str:
    """Return the value of an owner in the index: WITH THE NAMESPACE, because users of another one may forge the UID (clause 2)."""
    return f"{namespace}/{uid}"


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
        sweep: Callable[[StoredJob], None],
        coalescer: Coalescer,
        queue: Queue[Key],
        stale: Callable[[], None],
        primitives: Primitives,
    ) -> None:
        """`sweep` drops departures of a job that cannot be reconciled."""
        self._api = api
        self._jobs, self._pods, self._services = jobs, pods, services
        self._own_writes, self._recorder = own_writes, recorder
        self._departures, self._coalescer = departures, coalescer
        self._sweep, self._stale = sweep, stale
        self._primitives = primitives
        self._reader = Reader()
        self._expired: set[str] = set()
        """UIDs of jobs that were deleted because their time was over, until the news of it comes."""
        self._applier = Applier(
            api, writer=writer, bodies=bodies, pods=pod_resource, queue=queue, unchanged=self._is_unchanged, primitives=primitives
        )

    def reconcile(self, key: Key) -> Result:
        """Bring one job a step further."""
        stored = self._jobs.get(key)
        if stored is None or stored.deleted is not None:  # its pods and services go with it: the garbage collector's work
            return DONE
        if stored.uid in self._expired:  # deleted by us: that the cache still shows it says nothing
            return DONE
        if not self._own_writes.visible(stored.uid):  # READ YOUR WRITES: jobs, pods and services
            self._stale()
            return Result.wait_for_caches(STALE)
        if stored.unreadable:
            return self._report_unreadable(stored)
        try:
            return self._bring_forward(stored, self._reader.read(stored))
        except InvalidSpecError as error:
            return self._refuse(stored, str(error))
        except UnreadableStatusError as error:
            return self._give_up(stored, str(error))
        except OverflowError as error:  # a time of the year 9999, a number of 2^63: the schema lets them pass
            return self._give_up(stored, f"a number or a time in its status is out of range: {error}")

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
        writes, hindered = self._applier.writes(job, plan)
        confirms = bool(writes) and plan.must_confirm and not plan.must_remember
        if confirms and not self._store(stored, job, plan.status):
            return AGAIN
        done = self._applier.apply(job, plan, writes, hindered)
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
        self._expired.discard(uid)
        self._own_writes.forget(uid)
        self._departures.forget(uid)
        self._coalescer.forget(uid)
        self._reader.forget(uid)
        self._applier.forget(uid)

    # -------------------------------------------------------------------------------------------- observe

    def _observe(self, job: Job) -> Observation:
        uid, namespace = job.identity.uid, job.identity.namespace
        # PODS FIRST: one that goes between the two reads is then seen twice, and not not at all.
        owner = owner_key(namespace, uid)
        pods = self._pods.by(OWNER, owner, namespace=namespace)
        departed = tuple(pod for pod in self._departures.of(uid) if pod.namespace == namespace)
        services = self._services.by(OWNER, owner, namespace=namespace) if job.spec.service else ()
        seen = observe(job, pods, services=services, departed=departed)
        if departed:
            settled = frozenset(pod.uid for pod in departed) - unaccounted(job, seen) - {pod.uid for pod in pods}
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
            if error.too_large:
                return self._put_less(stored, status, error)
            raise  # IF IT IS UNKNOWN WHETHER IT HAPPENED the next try settles it: it conflicts, or it is the first
        self._own_writes.record(stored.uid, JOBS, stored.namespace, written.resource_version)
        self._coalescer.wrote(stored.uid)
        return True

    def _put_less(self, stored: StoredJob, status: GenericJobStatus, error: ApiError) -> bool:
        """The job fills its object by itself: its status goes without all that only people read."""
        short = shortened(status)
        told = "The status goes without its lists, because it does not fit" if short != status else "The status cannot be stored"
        self._recorder.event(_reference(identity(stored)), "Warning", Reason.STATUS_TOO_LARGE, f"{told}: {error.message}")
        if short == status:
            raise error
        return self._put(stored, short)

    def _show(self, stored: StoredJob, job: Job, status: GenericJobStatus, *, again: float | None) -> Result:
        """Let people see how the job stands, at most once a second."""
        if job.status in (status, shortened(status)):  # the short one is stored where the other did not fit
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
        status = structs.replace(told, observed_generation=stored.generation or before.observed_generation)
        if status != before and not self._put(stored, status):
            return AGAIN
        return self._give_up(stored, problem)

    def _report_unreadable(self, stored: StoredJob) -> Result:
        """A job that this program cannot decode is left alone until it changes; its user reads why."""
        found = reported_as(stored)
        return DONE if found is None else self._refuse(found, f"The job cannot be read: {stored.unreadable}")

    def _give_up(self, stored: StoredJob, problem: str) -> Result:
        self._sweep(stored)
        self._recorder.event(_reference(identity(stored)), "Warning", Reason.INVALID_SPEC, problem)
        return Result.give_up(problem)

    # -------------------------------------------------------------------------------------------- apply

    def _expire(self, stored: StoredJob, job: Job) -> Result:
        """The job has been over for long enough; if anybody changed it meanwhile, look again."""
        try:
            self._delete(stored)
        except ApiError as error:
            if error.not_found:
                return DONE
            if error.conflict:
                return AGAIN
            raise
        self._tell(job, [News("Normal", Reason.EXPIRED, "Deleted the job: spec.ttlSecondsAfterFinished have passed since its end")])
        return DONE

    def _delete(self, stored: StoredJob) -> None:
        self._expired.add(stored.uid)  # BEFORE THE DELETE: the news of it may come before the answer, and would have nothing to forget
        try:
            self._api.delete(
                JOBS,
                Key(stored.namespace, stored.name),
                uid=stored.uid,
                resource_version=stored.resource_version,
                propagation="Background",
            )
        except BaseException:
            self._expired.discard(stored.uid)
            raise

    def _is_unchanged(self, job: Job) -> bool:
        """Whether the job that a plan was made for is still there: ten thousand creates take a while, and users change their minds."""
        now = self._jobs.get(Key(job.identity.namespace, job.identity.name))
        return now is not None and now.uid == job.identity.uid and now.deleted is None and now.generation == job.generation

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


def _reference(job: JobIdentity) -> Reference:
    return Reference(names.API_VERSION, names.KIND, job.namespace, job.name, job.uid)
