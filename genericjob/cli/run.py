"""`genericjob run FILE…`: the manifest of a cluster, on this machine.

Everything that happens comes as news to one thread, which tells it: output of programs, changes of pods and jobs, Ctrl-C.
When the jobs have ended, or Ctrl-C was pressed, or nobody takes what is printed any more, what still runs is deleted as
kubectl would, and the run waits for it; another Ctrl-C kills it, and from then on nothing keeps the run from tidying up.

Meanwhile the run's API is served on loopback, so that it can be looked at and changed like any cluster: `genericjob get --run NAME`.
"""

import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Semaphore
from typing import Annotated, Any, Literal

import typer

from genericjob.api.names import KIND
from genericjob.local import runs
from genericjob.local.cgroups import HONOURED, Cgroups
from genericjob.local.gpus import RESOURCE, Gpus
from genericjob.local.logfiles import LogFiles
from genericjob.local.runs import Registration, RunError
from genericjob.local.serving import ApiServer
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import Key
from genericjob.reconcile.signals import Signals

from .documents import BadInputError, Document, remarks, runnable
from .engine import Engine
from .overrides import overridden
from .programs import ask_for_gpus, check_gpus, check_programs, have_limits, script_remarks
from .records import Records
from .screen import Screen
from .show import Show
from .telling import Teller
from .text import say
from .views import RunView

CHUNKS_AHEAD = 256
"""What programs may be ahead of the screen, in pieces of up to 64 KiB; then they wait, as they would for a slow terminal."""

SIGNALLED = 128
"""What is added to a signal to make the exit code of whom it has ended."""
HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

ALWAYS_LET_PASS = ("image",)
"""A manifest has to name an image, and no process honours one: if that were refused, everything would be."""

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help='YAML files with GenericJobs, ConfigMaps and Secrets; "-" is standard input.', show_default=False),
]
MoreFiles = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE", help="The same, as an option; may be given several times.", show_default=False),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="replicas.TYPE=N", help="Run another number of replicas of a type; may be given several times.", show_default=False
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="Set a variable in all containers; may be given several times.", show_default=False),
]
Chdir = Annotated[
    str | None,
    typer.Option(
        "--chdir",
        metavar="DIR",
        help="The directory in which programs start, and to which their relative paths refer. Default: that of the shell.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Option("--name", help="Name of the run, for --run of other commands. Default: that of its first job.")]
Logs = Annotated[
    Path | None,
    typer.Option(
        "--logs", metavar="DIR", help="Where to keep what ranks print: a file for each rank, attempt and container.", show_default=False
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse a manifest with fields, besides the image, that a process cannot honour.")]
Plain = Annotated[bool, typer.Option("--plain", "--no-table", help="Lines only: no table of ranks below them on a terminal.")]
Output = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="Lines for people, or a JSON object on each line.")]


def run(
    files: Files = None,
    more: MoreFiles = None,
    settings: Set = None,
    env: Env = None,
    chdir: Chdir = None,
    name: Name = "",
    logs: Logs = None,
    strict: Strict = False,
    plain: Plain = False,
    output: Output = "text",
) -> None:
    """Run jobs on this machine: no cluster, and programs in place of containers.

    Exit code 0 when all jobs have succeeded, 1 when one has failed or nobody reads what is printed, 2 when a file is wrong, 130 after
    Ctrl-C.

    Example: genericjob run job.yaml secrets.yaml
    """
    logging.basicConfig(level=logging.ERROR, format="genericjob: %(message)s")  # what is less is on the screen, as news of the job
    show = Records() if output == "json" else Screen(table=not plain)
    try:
        documents = runnable(_sources(files, more), partial(overridden, settings=settings or (), env=env or ()))
        logs = logs and logs.absolute()
        if chdir is not None:  # AFTER ALL OTHER PATHS: those are relative to the shell
            _enter(chdir)
        code = Run(documents, show, name=name, logs=logs, strict=strict).go()
    except BadInputError as error:
        for line in str(error).splitlines():
            say(f"genericjob: {line}", err=True)
        raise typer.Exit(2) from None
    if code > SIGNALLED:
        for number in HEARD:  # THE PROCESS ENDS NOW: another signal in this moment would change its exit code
            signal.signal(number, signal.SIG_IGN)
    raise typer.Exit(code)


def _sources(*given: list[str] | None) -> list[str]:
    found = [file for files in given for file in files or ()]
    if not found:
        raise BadInputError("which file? genericjob run FILE")
    return found


def _enter(directory: str) -> None:
    if not directory:  # a variable of a shell that is not set
        raise BadInputError("--chdir '': it is empty: leave the option out for the directory of the shell")
    try:
        os.chdir(directory)
    except OSError as error:
        raise BadInputError(f"--chdir {directory}: {error.strerror}") from None


class Run:
    """One run, from the first line to the exit code."""

    def __init__(
        self,
        documents: Sequence[Document],
        show: Show,
        *,
        name: str = "",
        logs: Path | None = None,
        strict: bool = False,
        gpus: Gpus | None = None,
    ) -> None:
        check_programs(documents)
        self._gpus = gpus or Gpus()
        honoured: set[str] = set()
        if ask_for_gpus(documents) and self._gpus.all:  # TO ASK THE DRIVER TAKES A WHILE
            check_gpus(documents, self._gpus.all)
            honoured |= {f"resources.{kind}.{RESOURCE}" for kind in ("limits", "requests")}
        self._show = show
        self._news: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._room = Semaphore(CHUNKS_AHEAD)
        self._reading = True
        self._signals: list[int] = []
        self._winding_down = self._killing = self._closing = False
        self._primitives = System()
        self._view = RunView()
        self._remarks = [*remarks(documents), *script_remarks(documents)]
        with ExitStack() as made:
            self._registration = self._register(documents, name)
            if self._registration:
                made.callback(self._registration.close)
            self._cgroups = Cgroups.delegated() if have_limits(documents) else None
            if self._cgroups:
                made.callback(self._cgroups.close)
                honoured |= {f"resources.limits.{name}" for name in HONOURED}
            self._logs = self._log_files(logs, self._registration.name if self._registration else "run")
            made.callback(self._drop_empty_logs)
            self._engine = Engine(
                output=self._printed,
                notice=self._noticed,
                logs=self._logs,
                gpus=self._gpus,
                cgroups=self._cgroups,
                primitives=self._primitives,
            )
            made.callback(self._engine.stop)
            self._stored = self._engine.apply(documents)
            self._teller = Teller(show, self._view, address=self._engine.addresses.of, honoured=honoured)
            self._view.jobs = [self._teller.add(stored, several=len(self._stored) > 1) for stored in self._stored]
            self._engine.addresses.reserve(self._teller.pods())  # in the order of ranks, not of questions
            if strict:
                self._refuse_what_is_not_honoured()
            self._server = ApiServer(self._engine.api, find_log=self._find_log, primitives=self._primitives)
            made.pop_all()

    def go(self) -> int:
        """Run the jobs; returns the exit code. Raises what the output was lost by, unless something else has ended the run."""
        heard = [number for number in HEARD if not _is_nohup(number)]
        with Signals(heard, self._heard):  # AROUND ALL OF IT: an impatient user must not keep the run from tidying up
            return self._go()

    def _go(self) -> int:
        self._follow()
        try:
            self._announce()
            self._show.begin(self._view)
            for remark in self._remarks:
                self._show.say(remark)
            self._engine.start()
            self._until(lambda: self._must_end or all(view.over for view in self._view.jobs))
            interrupted = bool(self._signals)
            self._wind_down()
        finally:
            left = not self._close()
        while not self._news.empty():
            self._news.get()()
        return self._conclude(interrupted=interrupted, left=left)

    # -------------------------------------------------------------------------------------------- the story

    def _follow(self) -> None:
        controller, tell = self._engine.controller, self._teller
        controller.pods.on_change(lambda change: self._news.put(partial(tell.pod, change)))
        controller.jobs.on_change(lambda change: self._news.put(partial(tell.job, change)))
        self._engine.warnings.on_change(lambda change: self._news.put(partial(tell.warning, change)))

    def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            wait = self._show.refresh(busy=not self._news.empty())
            with suppress(Empty):
                self._news.get(timeout=wait)()

    @property
    def _must_end(self) -> bool:
        return bool(self._teller.trouble or self._signals or self._show.lost)

    def _wind_down(self) -> None:
        """Delete what still runs, and wait until it has ended or must be killed."""
        self._winding_down = True
        self._teller.stop()
        if not self._teller.alive:
            return
        if self._show.lost and not self._signals:
            lost = self._show.lost.strerror
            say(f"genericjob: the output is lost ({lost}): {self._request()}; Ctrl-C kills them", err=True)
        self._engine.delete_all()
        self._until(lambda: not self._teller.alive or self._killing)

    def _close(self) -> bool:
        """End everything; whether no program is left."""
        self._closing = True
        self._reading = False
        self._room.release()  # nobody reads for a while, and nobody may wait for that
        with ExitStack() as others:  # WHATEVER CANNOT BE STOPPED, the rest is
            if self._cgroups:
                others.callback(self._cgroups.close)
            if self._logs:
                others.callback(self._logs.close)
            if self._registration:
                others.callback(self._registration.close)
            others.callback(self._server.stop)
            return self._engine.stop()

    def _conclude(self, *, interrupted: bool, left: bool) -> int:
        self._teller.settle()
        if left:
            self._show.say("some programs could not be ended")
        code = 0 if all(view.phase == "Succeeded" for view in self._view.jobs) else 1
        if interrupted:
            code = SIGNALLED + self._signals[0]
        elif self._teller.trouble:
            code = 2
        for view in self._view.jobs:
            view.verdict = view.verdict or ("was interrupted" if interrupted else "was given up")
        self._drop_empty_logs()
        self._show.end(self._view, code)
        if code == 2:
            raise BadInputError(self._teller.trouble)
        if self._show.lost and not interrupted:
            raise self._show.lost
        return code

    def _drop_empty_logs(self) -> None:
        """Nobody looks for what was never printed. A directory that somebody named is theirs, and stays."""
        if self._logs and self._made_logs:
            with suppress(OSError):
                self._logs.directory.rmdir()
                self._view.logs = None

    # -------------------------------------------------------------------------------------------- before it begins

    def _register(self, documents: Sequence[Document], name: str) -> Registration | None:
        """Take a name. A run that cannot have one goes on without: nobody can talk to it then."""
        try:
            return runs.register(name or _first_name(documents), exactly=bool(name))
        except (RunError, OSError) as error:
            if name:
                raise BadInputError(_why(error)) from None
            self._remarks.append(f"nobody can talk to this run: {_why(error)}")
            return None

    def _log_files(self, wanted: Path | None, name: str) -> LogFiles | None:
        self._made_logs = wanted is None
        try:
            if wanted is not None:
                wanted.mkdir(parents=True, exist_ok=True)
                if any(wanted.iterdir()):
                    raise BadInputError(f"--logs {wanted}: the directory is not empty, and lines of two runs would be mixed in its files")
            self._view.logs = wanted or runs.log_directory(name, self._primitives.now().astimezone())
        except (RunError, OSError) as error:
            if wanted is not None:
                raise BadInputError(f"--logs {wanted}: {error.strerror if isinstance(error, OSError) else error}") from None
            self._remarks.append(f"what ranks print is not kept: {_why(error)}")
            return None
        return LogFiles(self._view.logs)

    def _refuse_what_is_not_honoured(self) -> None:
        found = {view.name: [name for name in view.unhonoured if name not in ALWAYS_LET_PASS] for view in self._view.jobs}
        told = [f"{name}: not honoured by a process: {', '.join(fields)}" for name, fields in found.items() if fields]
        if told:
            raise BadInputError("\n".join(told))

    def _announce(self) -> None:
        self._server.start()
        if self._registration:
            namespace = self._view.jobs[0].namespace
            self._registration.announce(self._server.host, self._server.port, token=self._server.token, namespace=namespace)
            self._view.name = self._registration.name

    # -------------------------------------------------------------------------------------------- news, from other threads

    def _printed(self, pod: Key, container: str, data: bytes) -> None:
        if self._reading:
            self._room.acquire()
        self._news.put(partial(self._show_printed, pod, container, data))

    def _show_printed(self, pod: Key, container: str, data: bytes) -> None:
        self._room.release()
        self._teller.printed(pod, container, data)

    def _noticed(self, pod: Key, text: str) -> None:
        self._news.put(partial(self._teller.notice, pod, text))

    def _find_log(self, pod: Key, uid: str, container: str) -> Path | None:
        return self._logs.path_of(pod, uid, container) if self._logs else None

    def _heard(self, number: int) -> None:
        self._news.put(partial(self._interrupt, number))

    def _interrupt(self, number: int) -> None:
        if self._killing or self._closing:
            return  # there is nothing left to ask for
        self._signals.append(number)
        typed = number == signal.SIGINT
        name = "Ctrl-C" if typed else signal.Signals(number).name
        if self._winding_down:
            self._killing = True
            self._show.say(f"{name}: the programs are killed")
        elif request := self._request():
            self._show.say(f"{name}: {request}; {'press it again to kill them' if typed else 'another one kills them'}")
        else:
            self._show.say(f"{name}: the run ends before any program runs")

    def _request(self) -> str:
        """What is asked of programs, if there are any."""
        grace = self._engine.grace()
        return "" if grace is None else f"the programs are asked to end, within {grace} s (their grace period)"


def _first_name(documents: Sequence[Document]) -> str:
    meta: Mapping[str, Any] = next((document.body["metadata"] for document in documents if document.kind == KIND), {})
    return str(meta.get("name") or str(meta.get("generateName") or "run").strip("-.")) or "run"


def _why(error: RunError | OSError) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


def _is_nohup(number: int) -> bool:
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN
