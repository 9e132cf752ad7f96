"""`genericjob logs`: what all ranks print, each line with the rank before it.

What has been printed comes in the order of its times (`merged_logs.py`); what is followed, as it arrives. A rank that is started again has
a new pod, and on a cluster the log of the old one goes with it: what is still known of that is how it ended, and that is told. A run keeps
the files of all.
"""

import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from genericjob.api.names import FINAL_PHASES, JOB_LABEL
from genericjob.local.runs import kept_logs
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS

from .ended_logs import EndedLog, ended_logs, in_order, parts
from .failures import BAD_INPUT, CommandError
from .following import LISTEN, OUTAGE, RETRY, Contact, Happening, Newsroom, follow, life_of, passes
from .get import standing, why
from .jobs import JOBS, Job, Name, find, key_of, plain, rank_of_pod, status_of
from .loglines import Line, Source, labelled, lines_of, sources_of
from .merged_logs import MAX_OPEN, merged
from .options import Context, Kubeconfig, Local, Namespace, NoRunError, Target, target
from .printed import CONTINUED, FIRST, LineCutter, Piece, last_state, text_of
from .ranks import ENDED, Pod, Rank, Ranks, Types, belongs, chosen, containers_of, how_it_failed, pods_of, ranks_of
from .tables import PREFIXES, age, colourful
from .text import one_line, painted, say

MOST_FOLLOWED = 128
"""Each takes a connection and a thread."""

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job has ended, with pods that are yet to come.")]
Container = Annotated[
    str,
    typer.Option("--container", "-c", help="Only this container. Default: all, and init containers while they run.", show_default=False),
]
Tail = Annotated[int, typer.Option("--tail", metavar="LINES", min=-1, help="The last lines of each log only; -1 for all.")]
Previous = Annotated[
    bool,
    typer.Option("--previous", "-p", help="Of a run: the logs of the pods before. On a cluster they are gone: tell how those pods ended."),
]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="Put the time before each line.")]
Prefix = Annotated[bool, typer.Option("--prefix/--no-prefix", help="Put the rank before each line.")]


def logs(
    name: Name,
    follow: Follow = False,
    types: Types = None,
    rank: Ranks = "",
    container: Container = "",
    tail: Tail = -1,
    previous: Previous = False,
    timestamps: Timestamps = False,
    prefix: Prefix = True,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Print what the ranks of a job print.

    Ranks whose pods are gone are told on standard error, with their exit codes.
    """
    try:
        where = target(kubeconfig, context, namespace, run)
    except NoRunError:
        if run is None or (kept := kept_logs(run)) is None:
            raise
        say(f"genericjob: the run has ended; its log files are in {kept}", err=True)
        _print_ended(ended_logs(kept, plain(name), previous=previous, container=container), types or [], rank, tail, prefix, timestamps)
        return
    job = find(where, name)
    ranks = chosen(ranks_of(job, pods_of(where, job)), types or [], rank or rank_of_pod(job, name))
    if container:
        _check_container(job, ranks, container)
    printer = _Printer(ranks, prefix=prefix, timestamps=timestamps)
    if previous and where.local:
        _print_previous(where, ranks, container, tail, printer)
    elif previous:
        _tell_previous(ranks)
    elif follow:
        _Following(where, job, ranks, container, tail, printer).go()
    elif not _print_all(where, ranks, container, tail, printer):
        raise typer.Exit(1)


def _check_container(job: Job, ranks: Sequence[Rank], name: str) -> None:
    types = {rank.type for rank in ranks}
    known: dict[str, None] = {}
    for spec in job["spec"]["replicaSpecs"]:
        if spec["type"] in types:
            template = spec["template"].get("spec") or {}
            known |= dict.fromkeys(each["name"] for kind in ("initContainers", "containers") for each in template.get(kind) or ())
    if name not in known:
        raise CommandError(f"there is no container {name}: there are {', '.join(known)}", BAD_INPUT)


# ------------------------------------------------------------------------------------------------ what has been printed


def _print_all(where: Target, ranks: Sequence[Rank], container: str, tail: int, printer: "_Printer") -> bool:
    """Print all that there is, by time; whether every log could be read."""
    sources = [source for rank in ranks for source in sources_of(rank, container)]
    printer.expect(sources)
    problems: list[str] = []

    def note(source: Source, error: ApiError) -> None:
        problems.append(f"the log of {source.label} cannot be read: {error.message}")

    for line in merged(where, sources, tail=tail, on_error=note, on_part=printer.part):
        printer.line(line)
    for rank in ranks:
        if not sources_of(rank, container):
            printer.remark(without_log(rank, kept=where.local))
    for problem in problems:
        printer.remark(problem)
    return not problems


def _print_ended(logs: list[EndedLog], types: Sequence[str], rank: str, tail: int, prefix: bool, timestamps: bool) -> None:
    """Print what the ranks of a run that has ended have printed, by time."""
    ranks = [Rank(log.type, log.number, log.source.pod.name, "") for log in logs]
    wanted = {each.label for each in chosen(list(dict.fromkeys(ranks)), types, rank)}
    logs = [log for log, each in zip(logs, ranks, strict=True) if each.label in wanted]
    printer = _Printer(ranks, prefix=prefix, timestamps=timestamps)
    printer.expect([log.source for log in logs])
    left = len(logs)
    for part in parts(logs, MAX_OPEN):
        if left < len(logs):
            printer.part(left, len(logs))
        for line in in_order(part, tail):
            printer.line(line)
        left -= len(part)


def without_log(rank: Rank, *, kept: bool = False) -> str:
    """What is to be told of a rank that has no log, on a server that has `kept` those of pods that are gone in files."""
    gone = "its log is among the files of the run" if kept else "the log with it"
    if rank.pod is not None:
        return f"{rank.label} has not begun{f': {rank.why}' if rank.why else f': it is {rank.phase}'}"
    if rank.phase == "Succeeded":
        return f"{rank.label} succeeded with exit code 0; its pod is gone, and {gone}"
    if rank.phase == "Failed":
        return f"{rank.label} failed{_end(rank)}; its pod is gone, and {gone}"
    lost = gone if kept else "its log is gone"
    if rank.failure:
        return f"{rank.label} has no pod now; the last one failed{_end(rank)}, and {lost}"
    return f"{rank.label} has no pod{f' any more, and {lost}' if rank.phase == 'Deleted' else ' yet'}"


def _end(rank: Rank) -> str:
    code = rank.exit_code if rank.exit_code is not None else (rank.failure.exit_code if rank.failure else None)
    why = how_it_failed(rank.failure) if rank.failure else rank.why
    return f"{f' with exit code {code}' if code is not None else ''}{f' ({why})' if why else ''}"


def _print_previous(where: Target, ranks: Sequence[Rank], container: str, tail: int, printer: "_Printer") -> None:
    """Print what the pods before have printed, of ranks that were started again."""

    first: list[Source] = []

    def note(source: Source, error: ApiError) -> None:
        if error.code not in (400, 404):  # this is the first one, or it is gone this moment
            raise error
        first.append(source)

    sources = [
        source
        for rank in ranks
        if rank.pod
        for source in labelled(rank, rank.pod, [container] if container else [each["name"] for each in rank.pod["spec"]["containers"]])
    ]
    printer.expect(sources)
    for line in merged(where, sources, tail=tail, previous=True, on_error=note, on_part=printer.part):
        printer.line(line)
    for rank in ranks:
        if rank.pod is None:
            printer.remark(without_log(rank, kept=True))
    if sources and len(first) == len(sources):
        printer.remark("none of these ranks was started again")


def _tell_previous(ranks: Sequence[Rank]) -> None:
    say("genericjob: a rank that is started again has a new pod, and the old log is gone; how ranks last failed:", err=True)
    told = False
    for rank in ranks:
        if failure := rank.failure:
            told = True
            code = f" with exit code {failure.exit_code}" if failure.exit_code is not None else ""
            words = how_it_failed(failure)
            node = f" on {failure.node}" if failure.node else ""
            say(one_line(f"{rank.label} failed {age(failure.time)} ago{code}{node}{f': {words}' if words else ''}"))
    if not told:
        say("genericjob: none of these ranks has failed", err=True)


# ------------------------------------------------------------------------------------------------ what is being printed


@dataclass
class _Followed:
    """A log that is being followed."""

    source: Source
    over: bool = False


class _Following:
    """All logs of a job, until it has ended and they have been read."""

    def __init__(self, where: Target, job: Job, ranks: Sequence[Rank], container: str, tail: int, printer: "_Printer") -> None:
        self._where, self._job, self._container, self._tail, self._printer = where, job, container, tail, printer
        self._names = {rank.name for rank in ranks}
        self._pods: dict[str, Pod] = {rank.name: rank.pod for rank in ranks if rank.pod}
        self._logs: dict[tuple[str, str], _Followed] = {}
        self._room = Newsroom()
        self._contact = Contact(state=lambda: f"{key_of(self._job).name} was {standing(self._job)}")
        self._over = False
        """The job has ended, or is gone."""

    def go(self) -> None:
        """Print until the end."""
        key = key_of(self._job)
        labels = f"{JOB_LABEL}={key.name}"
        self._room.listen("job", lambda: life_of(self._where, JOBS, self._job, contact=self._contact))
        self._room.listen("pods", lambda: follow(self._where, RAW_PODS, key.namespace, labels=labels, contact=self._contact))
        while not (self._over and all(log.over or self._goes_on(log) for log in self._logs.values())):
            news = self._room.next(min(LISTEN, self._printer.overdue()))
            if news is None or (news.over and not isinstance(news.source, Source)):
                continue
            if isinstance(news.source, Source):
                self._hear(news.source, news.item, over=news.over)
            elif news.source == "job":
                self._see_job(news.item)
            else:
                self._see_pod(news.item)
        self._conclude()

    def _hear(self, source: Source, item: Line | str | None, *, over: bool) -> None:
        if over:
            self._logs[source.uid, source.container].over = True
            self._printer.end(source)
        elif isinstance(item, Line):
            self._printer.line(item, follow=True)
        elif item:
            self._printer.remark(item)

    def _see_job(self, job: Job | None) -> None:
        if job is not None:
            self._job = job
        if not self._over and (job is None or status_of(job).phase in FINAL_PHASES):
            self._over = True
            if job is not None:  # THE TWO WATCHES ARE NOT IN STEP: what the job has seen of its pods is seen here before the end
                for pod in pods_of(self._where, job).values():
                    self._see_pod(Happening("PRESENT", pod))

    def _see_pod(self, happening: Happening) -> None:
        pod, uid = happening.object, self._job["metadata"]["uid"]
        if happening.news == "COMPLETE" or pod["metadata"]["name"] not in self._names or not belongs(pod, uid):
            return
        name = pod["metadata"]["name"]
        self._pods[name] = pod
        rank = next(rank for rank in ranks_of(self._job, {name: pod}) if rank.name == name)
        for source in sources_of(rank, self._container):
            if (source.uid, source.container) not in self._logs and happening.news == "PRESENT":
                self._begin(source)

    def _begin(self, source: Source) -> None:
        if sum(not log.over for log in self._logs.values()) >= MOST_FOLLOWED:
            raise CommandError(f"more than {MOST_FOLLOWED} logs cannot be followed at once: choose some with --type or --rank")
        self._logs[source.uid, source.container] = _Followed(source)
        self._printer.expect([source])
        self._room.listen(source, lambda: self._read(source))

    def _read(self, source: Source) -> Iterator[Line | str]:
        """Yield the lines of a log as they come; one that a server has cut which went away goes on where it ended."""
        last, shown, tail = None, 0, self._tail
        while True:
            try:
                repeated = shown
                for line in lines_of(self._where, source, tail=tail, follow=True, since=last):
                    # IN WHOLE SECONDS: a server repeats what has come in the one that is asked for, cut into other parts.
                    if last is not None and line.at < last:
                        continue
                    if line.at == last and repeated:
                        fresh = line.data[repeated:]
                        repeated -= len(line.data) - len(fresh)
                        if not fresh:
                            continue
                        line = line._replace(data=fresh)
                    shown = len(line.data) + (shown if line.at == last else 0)
                    last, tail = line.at, -1
                    yield line
            except ApiError as error:
                if error.not_found:  # a pod that is gone meanwhile has said all that it had to say
                    return
                if not passes(error) or self._where.local or self._contact.failed(error) > OUTAGE:
                    yield f"the log of {source.label} cannot be followed: {error.message}"
                    return
                time.sleep(RETRY)
            else:
                return

    def _goes_on(self, log: _Followed) -> bool:
        """Whether a container outlives the job."""
        pod = self._pods.get(log.source.pod.name)
        if pod is None or pod["metadata"]["uid"] != log.source.uid or (pod.get("status") or {}).get("phase") in ENDED:
            return False
        states = {each["name"]: each.get("state") or {} for each in containers_of(pod)}
        return "running" in states.get(log.source.container, {}) and "deletionTimestamp" not in pod["metadata"]

    def _conclude(self) -> None:
        name, phase = key_of(self._job).name, status_of(self._job).phase
        self._printer.remark(f"{name} {phase.lower()}: {why(self._job)}" if phase in FINAL_PHASES else f"{name} was deleted")
        if left := sorted(log.source.label for log in self._logs.values() if not log.over):
            self._printer.remark(f"still running, although the job has ended: {', '.join(left)}")


# ------------------------------------------------------------------------------------------------ on the screen


class _Printer:
    """Lines with prefixes in colours, and remarks beside them.

    What cannot be shown as it is has the same marks as in a run (`screen.py`).
    """

    def __init__(self, ranks: Iterable[Rank], *, prefix: bool, timestamps: bool) -> None:
        self._prefix, self._timestamps = prefix, timestamps
        self._colours = colourful()
        self._width = max((len(rank.label) for rank in ranks), default=0)
        self._prefixes: dict[tuple[str, str], str] = {}
        self._cutter: LineCutter[Source] = LineCutter()
        self._at: dict[Source, datetime] = {}
        """When the last line of each log came."""
        self._replaced: set[str] = set()

    def expect(self, sources: Sequence[Source]) -> None:
        """Make room for labels that are to come."""
        wider = max((len(source.label) for source in sources), default=0)
        if wider > self._width:
            self._width = wider
            self._prefixes.clear()

    def line(self, line: Line, *, follow: bool = False) -> None:
        """A line of a log, or a part of one: if more is to `follow`, that is shown when it has been unfinished for a while."""
        self._at[line.source] = line.at
        for piece in self._cutter.feed(line.source, line.data):
            self._show(line.source, piece)
        if not follow:
            for piece in self._cutter.part(line.source):
                self._show(line.source, piece)

    def end(self, source: Source) -> None:
        """A log is over."""
        for piece in self._cutter.feed(source, b""):
            self._show(source, piece)

    def overdue(self) -> float:
        """Show what has been unfinished for a while; returns after how many seconds to call again."""
        for source, piece in self._cutter.overdue():
            self._show(source, piece)
        wait = self._cutter.wait()
        return math.inf if wait is None else wait

    def _show(self, source: Source, piece: Piece) -> None:
        text, replaced = text_of(piece.data)
        line = text.removesuffix("\n").removesuffix("\r")
        mark = CONTINUED if piece.continued and "\r" not in line else FIRST  # what is written over does not go on
        if piece.continued or not text.endswith("\n"):
            line = last_state(line)
        at = f"{self._at[source]:%Y-%m-%dT%H:%M:%S.%fZ} " if self._timestamps else ""
        typer.echo(f"{self._of(source.label, mark)}{at}{line}", color=True)  # noqa: TID251 - what programs print is theirs
        if replaced and source.label not in self._replaced:
            self._replaced.add(source.label)
            self.remark(f"{source.label} prints bytes that are not UTF-8: they are shown as \\xNN")

    def part(self, left: int, total: int) -> None:
        """Say that the order of time begins again."""
        self.remark(f"{left} of {total} logs follow: at most {MAX_OPEN} large logs are put in the order of time at once")

    def remark(self, text: str) -> None:
        """Something about the logs, which is no part of them."""
        sys.stdout.flush()
        say(f"genericjob: {one_line(text)}", err=True)

    def _of(self, label: str, mark: str) -> str:
        if not self._prefix:
            return ""
        if (label, mark) not in self._prefixes:
            colour = PREFIXES[sum(map(ord, label)) % len(PREFIXES)]
            self._prefixes[label, mark] = painted(f"{label:<{self._width}} {mark} ", colour, colours=self._colours)
        return self._prefixes[label, mark]
