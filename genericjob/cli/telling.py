"""What happens to jobs and ranks, told to whoever looks at a run.

Changes of pods, jobs and events come in; views are kept up to date, and everything that is worth a line is said. Used by one thread.

HOW A RANK FAILED IS SAID WHEN THE CONTROLLER HAS JUDGED IT, a moment later: only then is it known whether it runs again.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from genericjob.api.names import FINAL_PHASES, Reason
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.job import Job
from genericjob.jobs.resource import Reader, StoredJob, read_status
from genericjob.jobs.status import condition
from genericjob.local.containers import unhonoured
from genericjob.reconcile.objects import Pod
from genericjob.reconcile.resources import Key
from genericjob.reconcile.store import Change

from .endings import Judged, end_of, verdict
from .engine import Warned
from .show import Show
from .views import AGAIN, ENDED, JobView, RankView, RunView

HOPELESS = (Reason.FAILED_CREATE, Reason.INVALID_SPEC, Reason.NAME_CONFLICT)
"""Troubles that pass on a cluster, where people mend things; here nobody can."""
TOLD_BETTER = (*HOPELESS, Reason.RESTARTING)
"""Events that say what is said of a rank or a job anyway."""
JUDGED = (
    Reason.RULE_NEVER_FIRES,
    Reason.UNKNOWN_TYPE,
    Reason.UNRESOLVED_VARIABLES,
    Reason.TEMPLATE_OVERRIDDEN,
    Reason.SERVER_WARNING,
)
"""Events about a manifest. Of those that a run began with all of that was said before the start, with lines (`documents.remarks`)."""
MISSING = "CreateContainerConfigError"
"""A container waits for a ConfigMap or Secret."""
GOING = "Terminating"


class Teller:
    """Tells of one run."""

    def __init__(self, show: Show, run: RunView, *, address: Callable[[Key], str], honoured: Collection[str] = ()) -> None:
        self._show, self._run, self._address, self._honoured = show, run, address, honoured
        self._reader = Reader()
        self._jobs: dict[str, Job] = {}
        self._views: dict[str, JobView] = {}
        """Both by the UIDs of the jobs."""
        self._ranks: dict[Key, tuple[str, RankView]] = {}
        """By the keys of their pods, with the UID of the job."""
        self._edited: set[str] = set()
        """Names of jobs that are no longer as they were when the run began."""
        self._unjudged: dict[str, dict[Key, Pod]] = {}
        """Pods that have ended and that nobody has judged yet, by the UIDs of the jobs."""
        self._waiting: dict[str, dict[Key, str]] = {}
        """Ranks that wait for something that is not there, by the UIDs of the jobs."""
        self._job_restarts: dict[str, int] = {}
        """How often whole jobs were started again, by their UIDs."""
        self._warned: set[str] = set()
        self.alive: set[Key] = set()
        """Pods that have not ended."""
        self.trouble = ""
        """Why it makes no sense to go on."""

    # -------------------------------------------------------------------------------------------- jobs and ranks

    def add(self, stored: StoredJob, *, several: bool) -> JobView:
        """Tell of this job, too."""
        job = self._jobs[stored.uid] = self._reader.read(stored)
        view = self._views[stored.uid] = JobView(job.identity.name, namespace=job.identity.namespace)
        view.content = ", ".join(f"{part.replicas} x {part.type}" for part in job.spec.replica_specs)
        specs = [part.template.get("spec") for part in job.spec.replica_specs]
        view.unhonoured = tuple(
            dict.fromkeys(name for spec in specs if isinstance(spec, Mapping) for name in unhonoured(spec, besides=self._honoured))
        )
        self._add_ranks(stored.uid, job, several=several)
        return view

    def _add_ranks(self, uid: str, job: Job, *, several: bool) -> None:
        view = self._views[uid]
        for part in job.spec.replica_specs:
            containers = _containers(part.template)
            for number, name in enumerate(job.design.names[part.type]):
                if name in view.ranks:
                    continue
                label = name if several else f"{part.type}-{number}"
                labels = {each: label if len(containers) == 1 else f"{label}/{each}" for each in containers}
                view.ranks[name] = rank = RankView(label, labels=labels, job=view.name, type=part.type, number=number)
                self._ranks[Key(job.identity.namespace, name)] = uid, rank

    def pods(self) -> Iterator[Key]:
        """All pods that there will be, in the order of types and ranks."""
        return iter(self._ranks)

    def view(self, job: str) -> JobView | None:
        """A job by its name."""
        return next((view for view in self._views.values() if view.name == job), None)

    def stop(self) -> None:
        """The jobs are over, or somebody wants them to be."""
        for uid, view in self._views.items():
            self._judge(uid, None)
            view.over = True
            for name, rank in view.ranks.items():
                rank.stop(alive=Key(view.namespace, name) in self.alive)

    def settle(self) -> None:
        """Nothing runs any more."""
        for _, rank in self._ranks.values():
            rank.settle()

    # -------------------------------------------------------------------------------------------- pods

    def printed(self, pod: Key, container: str, data: bytes) -> None:
        """A program has printed something."""
        _, rank = self._ranks.get(pod, ("", None))
        self._show.printed(rank, pod, container, data)

    def notice(self, pod: Key, text: str) -> None:
        """The engine has something to remark about a pod."""
        _, rank = self._ranks.get(pod, ("", None))
        self._show.warn(rank.label if rank else pod.name, text)

    def pod(self, change: Change[Pod]) -> None:
        """A pod has changed."""
        pod = change.new or change.old
        if pod is None:
            return
        key = Key(pod.namespace, pod.name)
        (self.alive.discard if change.new is None or pod.phase in ENDED else self.alive.add)(key)
        uid, rank = self._ranks.get(key, ("", None))
        if rank is not None and rank.stopped and key not in self.alive:
            rank.settle()
        if rank is None or rank.stopped:
            return
        if change.new is None:
            self._gone(uid, key, rank)
        else:
            self._follow(uid, key, rank, pod)

    def _follow(self, uid: str, key: Key, rank: RankView, pod: Pod) -> None:
        if rank.uid != pod.uid:
            self._judge(uid, None, only=key)
            rank.uid, rank.phase, rank.since, rank.until = pod.uid, "Creating", time.monotonic(), None
        if rank.phase == AGAIN:
            return  # its pod has only to go
        before = rank.phase, rank.message
        # WHAT ENDS BECAUSE IT WAS DELETED has no outcome, whatever its exit code.
        going = pod.deleted is not None and rank.phase not in ENDED
        rank.phase, (rank.exit_code, rank.message) = (GOING, (None, "")) if going else (pod.phase or "Pending", end_of(pod))
        if rank.phase in ENDED:
            rank.until = rank.until or time.monotonic()
            rank.last = rank.phase, rank.exit_code, rank.message
        elif pod.phase == "Running":
            rank.last = "Stopped", None, ""
        if rank.phase != before[0]:
            self._show_phase(uid, key, rank, pod)
        self._look_for_missing(uid, key, rank, pod)
        if rank.message and rank.message != before[1] and key not in self._waiting.get(uid, {}):
            self._show.rank(rank, rank.message)

    def _show_phase(self, uid: str, key: Key, rank: RankView, pod: Pod) -> None:
        if rank.phase == GOING:
            self._show.rank(rank, "is being deleted")
        elif rank.phase == "Running":
            self._show.rank(rank, f"runs at {self._address(key)}")
        elif rank.phase == "Failed" or (rank.phase == "Succeeded" and self._policy(uid, rank).policy == "Always"):
            self._unjudged.setdefault(uid, {})[key] = pod
        elif rank.phase == "Succeeded":
            self._show.rank(rank, "succeeded")

    def _gone(self, uid: str, key: Key, rank: RankView) -> None:
        """A pod is gone. One that had ended keeps its outcome; the rank of another is without, or waits for its next."""
        self._waiting.get(uid, {}).pop(key, None)
        if rank.phase not in ENDED:
            rank.phase, rank.since, rank.message = "Creating", time.monotonic(), ""

    # -------------------------------------------------------------------------------------------- what is missing

    def _look_for_missing(self, uid: str, key: Key, rank: RankView, pod: Pod) -> None:
        """Nobody will bring a ConfigMap or Secret that is not in the file, unless somebody does so by a command."""
        waiting = self._waiting.setdefault(uid, {})
        missing = next((one.message for one in (*pod.init_containers, *pod.containers) if one.reason == MISSING), "")
        if not missing or rank.phase in ENDED:
            waiting.pop(key, None)
        elif waiting.get(key) != missing:
            waiting[key] = missing
            if f"{uid} {missing}" not in self._warned:
                self._warned.add(f"{uid} {missing}")
                self._show.warn(rank.label, f"waits for what no file has: {missing}")
        self._give_up_if_all_wait(uid)
        self._say_how_to_bring_it(uid)

    def _say_how_to_bring_it(self, uid: str) -> None:
        """Once, and only if there is time for it because somebody works."""
        view = self._views[uid]
        told = f"{uid} can be brought"
        if self._waiting[uid] and told not in self._warned and any(rank.phase == "Running" for rank in view.ranks.values()):
            self._warned.add(told)
            self._show.warn(view.name, f"while others work, `genericjob apply -f FILE{self._at(view)}` brings what is missing")

    def _give_up_if_all_wait(self, uid: str) -> None:
        """While somebody works, or is to work again, there is time to bring what is missing."""
        waiting, view = self._waiting.get(uid), self._views[uid]
        if not waiting or self._unjudged.get(uid) or self._jobs[uid].spec.paused:
            return
        if len(waiting) == sum(rank.phase not in ENDED for rank in view.ranks.values()):
            label, why = self._ranks[next(iter(waiting))][1].label, next(iter(waiting.values()))
            others = f" (and {len(waiting) - 1} more)" if len(waiting) > 1 else ""
            self.trouble = self.trouble or f"{view.name}: all ranks that have not ended wait for what no file has: {label}{others}: {why}"

    # -------------------------------------------------------------------------------------------- jobs

    def job(self, change: Change[StoredJob]) -> None:
        """A job has changed."""
        stored, known = change.new, change.new or change.old
        view = self._views.get(known.uid) if known else None
        if view is None:
            return
        if stored is not None:
            view.status = stored.status
        if view.over:
            return
        if stored is None:
            view.over, view.verdict, view.phase = True, "was deleted", "Deleted"
            self._show.job(view, "was deleted")
            return
        self._read(stored)
        status = read_status(stored)
        view.restarts, view.job_restarts = status.restarts, status.job_restarts
        self._judge(stored.uid, status)
        self._job_restarts[stored.uid] = status.job_restarts
        if status.phase not in FINAL_PHASES:
            self._give_up_if_all_wait(stored.uid)
        initialized = condition(status, "Initialized")
        if initialized and initialized.status == "False" and initialized.reason in HOPELESS:
            self.trouble = self.trouble or f"{view.name}: {initialized.message}"
        if status.phase != view.phase:
            view.phase = status.phase
            self._show_job_phase(self._jobs[stored.uid], view, status)

    def _read(self, stored: StoredJob) -> None:
        """Somebody may have changed what the job is to be."""
        before = self._jobs[stored.uid]
        if stored.generation == before.generation and stored.uid in self._warned:
            return
        job = self._jobs[stored.uid] = self._reader.read(stored)
        view = self._views[stored.uid]
        if stored.generation != before.generation:
            self._edited.add(view.name)
        self._add_ranks(stored.uid, job, several=len(self._views) > 1)
        for gone in view.ranks.keys() - {name for names in job.design.names.values() for name in names}:
            del view.ranks[gone]
        first = stored.uid not in self._warned
        self._warned.add(stored.uid)
        if job.spec.debugged and (first or not before.spec.debugged):
            how = f"Ctrl-C ends it; after `genericjob debug {view.name} --off{self._at(view)}` its next pods work"
            self._show.warn(view.name, f"it is debugged: its programs wait, and it never ends by itself; {how}")
        elif before.spec.debugged and not job.spec.debugged:
            self._show.job(view, "is debugged no more")

    def _show_job_phase(self, job: Job, view: JobView, status: GenericJobStatus) -> None:
        if view.phase in FINAL_PHASES:
            view.over, view.verdict = True, f"{view.phase.lower()}: {verdict(job, status)}"
        how = f": `genericjob resume {view.name}{self._at(view)}` lets it go on" if view.phase == "Paused" else ""
        self._show.job(view, f"{view.phase}{how}")

    def _at(self, view: JobView) -> str:
        """The options by which commands find a job of this run."""
        here = self._run.jobs[0].namespace if self._run.jobs else view.namespace
        return (f" --run {self._run.name}" if self._run.name else "") + (f" -n {view.namespace}" if view.namespace != here else "")

    def warning(self, change: Change[Warned]) -> None:
        """An event has come."""
        event = change.new
        if event is None or event.type != "Warning" or event.reason in TOLD_BETTER:
            return
        view = self.view(event.about)
        if view is not None and event.reason in JUDGED and view.name not in self._edited:
            return
        if view is None or view.phase not in FINAL_PHASES:  # of a job that has ended the verdict says it better
            self._show.warn(event.about, event.message)

    # -------------------------------------------------------------------------------------------- how ranks end

    def _judge(self, uid: str, status: GenericJobStatus | None, *, only: Key | None = None) -> None:
        """Tell how ranks ended whose end the status speaks of; without a status, of all of them."""
        ended = self._unjudged.get(uid, {})
        if not ended:
            return
        tasks = {task.type: Judged(task, self._policy_most(uid, task.type)) for task in status.tasks} if status else {}
        together = status is not None and status.job_restarts > self._job_restarts.get(uid, 0)
        final = status is None or status.phase in FINAL_PHASES or together
        for key in [key for key in ended if only in (None, key)]:
            rank = self._ranks[key][1]
            judged = tasks.get(rank.type)
            what = judged.again(rank) if judged else ""
            if what or final or (judged and judged.is_over(rank)):
                del ended[key]
                how = "succeeded" if rank.phase == "Succeeded" else f"failed with exit code {rank.exit_code}"
                self._show.rank(rank, f"{how}{what}")
                rank.phase = AGAIN if what else rank.phase

    def _policy(self, uid: str, rank: RankView) -> Any:
        return self._jobs[uid].design.replicas[rank.type].restart_policy

    def _policy_most(self, uid: str, type: str) -> int | None:
        replicas = self._jobs[uid].design.replicas.get(type)
        return replicas.restart_policy.most if replicas else None


def _containers(template: Mapping[str, Any]) -> list[str]:
    """Names of a pod's containers, in the order they run."""
    spec = template.get("spec")
    found = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())] if isinstance(spec, Mapping) else []
    return [str(each.get("name")) for each in found if isinstance(each, Mapping)]
