"""`genericjob run FILE`: the manifest of a cluster, on this machine.

Everything that happens comes as news to one thread, which shows it: lines of programs, changes of pods and jobs, Ctrl-C. When the jobs have
ended, or Ctrl-C was pressed, what still runs is deleted as kubectl would, and the run waits for it; another Ctrl-C kills it.
"""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Semaphore
from types import FrameType
from typing import Annotated, Any

import typer

from genericjob.api.names import FINAL_PHASES, Reason
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.job import Job
from genericjob.jobs.resource import Reader, StoredJob, read_status
from genericjob.jobs.rules import Ranks, written
from genericjob.jobs.status import condition
from genericjob.local.containers import unhonoured
from genericjob.reconcile.objects import Container, Pod
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import Key
from genericjob.reconcile.store import Change

from .documents import BadInputError, Document, read
from .engine import Engine, Warned
from .screen import JobView, RankView, Screen

LINES_AHEAD = 10_000
"""Lines that programs may be ahead of the screen; then they wait, as they would for a slow terminal."""
HOPELESS = (Reason.FAILED_CREATE, Reason.INVALID_SPEC, Reason.NAME_CONFLICT, Reason.PAUSED)
"""Troubles that pass on a cluster, where people mend things; here nobody can."""
OVER = ("Succeeded", "Failed")

File = Annotated[str, typer.Argument(metavar="FILE", help='A YAML file with GenericJobs, ConfigMaps and Secrets; "-" is standard input.')]


def run(file: File) -> None:
    """Run jobs on this machine: no cluster, and programs in place of containers.

    Exit code 0 when all jobs have succeeded, 1 when one has failed, 2 when the file is wrong, 130 after Ctrl-C.
    """
    logging.basicConfig(level=logging.ERROR, format="genericjob: %(message)s")  # what is less is on the screen, as news of the job
    try:
        code = Run(read(file), Screen()).go()
    except BadInputError as error:
        typer.echo(f"genericjob: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(code)


class Run:
    """One run, from the first line to the exit code."""

    def __init__(self, documents: Sequence[Document], screen: Screen) -> None:
        self._screen = screen
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._room = Semaphore(LINES_AHEAD)
        self._reading = True
        self._engine = Engine(output=self._printed, primitives=System())
        try:
            reader = Reader()
            self._stored = {stored.uid: stored for stored in self._engine.apply(documents)}
            self._jobs: Mapping[str, Job] = {uid: reader.read(stored) for uid, stored in self._stored.items()}
        except BaseException:
            self._engine.stop()
            raise
        self._views = {uid: self._view(job) for uid, job in self._jobs.items()}
        self._alive: set[Key] = set()
        """Pods that have not ended."""
        self._trouble = ""
        self._signals: list[int] = []

    def go(self) -> int:
        """Run the jobs; returns the exit code."""
        self._introduce()
        self._follow()
        try:
            with self._listening_to_signals():
                self._engine.start()
                self._until(
                    lambda: bool(self._trouble or self._signals) or all(view.phase in FINAL_PHASES for view in self._views.values())
                )
                interrupted = bool(self._signals)
                self._wind_down()
        finally:
            self._reading = False
            self._room.release()  # nobody reads for a while, and nobody may wait for that
            left = not self._engine.stop()
        while not self._news.empty():
            self._news.get()()
        return self._conclude(interrupted=interrupted, left=left)

    # -------------------------------------------------------------------------------------------- the story

    def _introduce(self) -> None:
        ranks = [rank for view in self._views.values() for rank in view.ranks.values()]
        labels = {label for rank in ranks for label in (rank.label, *rank.containers.values())}
        self._screen.set_width(labels | {view.name for view in self._views.values()})
        for job in self._jobs.values():
            types = ", ".join(f"{part.replicas} x {part.type}" for part in job.spec.replica_specs)
            self._screen.say(f"{job.identity.name}: {types}, as programs on this machine")
            specs = [part.template.get("spec") for part in job.spec.replica_specs]
            ignored = dict.fromkeys(name for spec in specs if isinstance(spec, dict) for name in unhonoured(spec))
            if ignored:
                self._screen.say(f"{job.identity.name}: not honoured here: {', '.join(ignored)}")
        self._screen.flush()

    def _follow(self) -> None:
        controller = self._engine.controller
        controller.pods.on_change(lambda change: self._news.put(partial(self._show_pod, change)))
        controller.jobs.on_change(lambda change: self._news.put(partial(self._show_job, change)))
        self._engine.warnings.on_change(lambda change: self._news.put(partial(self._show_warning, change)))

    def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._news.get()()
            if self._news.empty():
                self._screen.flush()

    def _wind_down(self) -> None:
        """Delete what still runs, and wait until it has ended or must be killed."""
        for view in self._views.values():
            for rank in view.ranks.values():
                rank.stop()
        if self._alive:
            for stored in self._stored.values():
                self._engine.delete(stored)
            self._until(lambda: not self._alive or len(self._signals) > 1)

    def _conclude(self, *, interrupted: bool, left: bool) -> int:
        if left:
            self._screen.say("some programs could not be ended")
        if self._trouble:
            raise BadInputError(self._trouble)
        views = list(self._views.values())
        if interrupted:
            for view in views:
                view.verdict = view.verdict or "was interrupted"
        self._screen.summary(views)
        self._screen.flush()
        if interrupted:
            return 128 + self._signals[0]
        return 0 if all(view.phase == "Succeeded" for view in views) else 1

    # -------------------------------------------------------------------------------------------- news, from other threads

    def _printed(self, pod: Key, container: str, text: str) -> None:
        if self._reading:
            self._room.acquire()
        self._news.put(partial(self._show_line, pod, container, text))

    @contextmanager
    def _listening_to_signals(self) -> Iterator[None]:
        # ONLY A PUT, which this kind of queue allows at any moment: a handler runs in the middle of anything, even of taking a lock.
        def heard(number: int, frame: FrameType | None) -> None:
            self._news.put(partial(self._interrupt, number))

        wanted = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if not _is_nohup(number)]
        before: dict[int, Any] = {number: signal.signal(number, heard) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -------------------------------------------------------------------------------------------- news, as they are shown

    def _show_line(self, pod: Key, container: str, text: str) -> None:
        self._room.release()
        rank = self._rank(pod)
        self._screen.line(rank.containers.get(container, rank.label) if rank else pod.name, text)

    def _show_pod(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        if pod is None:
            return
        key = Key(pod.namespace, pod.name)
        if change.new is None or pod.phase in OVER:
            self._alive.discard(key)
        else:
            self._alive.add(key)
        rank = self._rank(key)
        if change.new is None or rank is None or rank.stopped:
            return
        before = rank.phase, rank.message
        rank.phase, (rank.exit_code, rank.message) = pod.phase, _end(pod)
        if rank.phase != before[0] and (text := self._phase(key, rank)):
            self._screen.state(rank.label, text, rank.phase)
        if rank.message and rank.message != before[1]:
            self._screen.state(rank.label, rank.message)

    def _phase(self, key: Key, rank: RankView) -> str:
        if rank.phase == "Failed":
            return f"failed with exit code {rank.exit_code}"
        return {"Running": f"runs at {self._engine.addresses.of(key)}", "Succeeded": "succeeded"}.get(rank.phase, "")

    def _show_job(self, change: Change[StoredJob]) -> None:
        stored = change.new
        view = self._views.get(stored.uid) if stored else None
        if stored is None or view is None:
            return
        status = read_status(stored)
        initialized = condition(status, "Initialized")
        if initialized and initialized.status == "False" and initialized.reason in HOPELESS:
            self._trouble = f"{view.name}: {initialized.message}"
        if status.phase != view.phase and view.phase not in FINAL_PHASES:
            view.phase = status.phase
            if view.phase in FINAL_PHASES:
                view.verdict = f"{view.phase.lower()}: {self._verdict(self._jobs[stored.uid], status)}"
            self._screen.state(view.name, view.phase, view.phase)

    def _show_warning(self, change: Change[Warned]) -> None:
        event = change.new
        if event is None or event.type != "Warning" or event.reason in HOPELESS:
            return
        if not any(view.name == event.about and view.phase in FINAL_PHASES for view in self._views.values()):  # the verdict says it better
            self._screen.state(event.about, f"warning: {event.message}")

    def _interrupt(self, number: int) -> None:
        self._signals.append(number)
        if len(self._signals) == 1:
            self._screen.say(f"{signal.Signals(number).name}: the programs are asked to end; the next one kills them")

    # -------------------------------------------------------------------------------------------- jobs and ranks

    def _view(self, job: Job) -> JobView:
        several = len(self._jobs) > 1
        view = JobView(job.identity.name)
        for part in job.spec.replica_specs:
            containers = _containers(part.template)
            for rank, name in enumerate(job.design.names[part.type]):
                self._engine.addresses.of(Key(job.identity.namespace, name))  # in the order of ranks, not of questions
                label = name if several else f"{part.type}-{rank}"
                labels = {each: label if len(containers) == 1 else f"{label}/{each}" for each in containers}
                view.ranks[name] = RankView(label, containers=labels)
        return view

    def _rank(self, pod: Key) -> RankView | None:
        for uid, job in self._jobs.items():
            if job.identity.namespace == pod.namespace and pod.name in self._views[uid].ranks:
                return self._views[uid].ranks[pod.name]
        return None

    def _verdict(self, job: Job, status: GenericJobStatus) -> str:
        """Why a job has ended, with the rule."""
        ended = condition(status, "Completed" if status.phase == "Succeeded" else "Failed")
        message = ended.message if ended else ""
        if status.phase != "Succeeded" or not job.design.rules.explicit_success:
            return message
        met = next((rule for rule in job.design.rules.success if self._all_succeeded(job, rule)), None)
        return f"the rule {written(met)} is met" if met else message

    def _all_succeeded(self, job: Job, rule: Ranks) -> bool:
        names, ranks = job.design.names, self._views[job.identity.uid].ranks
        return all(ranks[names[type][rank]].phase == "Succeeded" for type, numbers in rule.items() for rank in numbers)


def _containers(template: Mapping[str, Any]) -> list[str]:
    """Names of a pod's containers, in the order they run."""
    spec = template.get("spec")
    found = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())] if isinstance(spec, Mapping) else []
    return [str(each.get("name")) for each in found if isinstance(each, Mapping)]


def _end(pod: Pod) -> tuple[int | None, str]:
    """The exit code that tells how a pod ended, and what is to be said of its containers."""
    containers: tuple[Container, ...] = (*pod.init_containers, *pod.containers)
    ended = [one for one in containers if one.exit_code is not None]
    if pod.phase not in OVER or not ended:
        return None, next((f"{one.name}: {one.message}" for one in containers if one.message), "")
    told = next((one for one in ended if one.exit_code), ended[-1])
    return told.exit_code, f"{told.name}: {told.message}" if told.message else ""


def _is_nohup(number: int) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
