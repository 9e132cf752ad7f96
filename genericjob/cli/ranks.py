"""The ranks of a job as people see them: what its status and its pods say, put together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import typer

from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES, JOB_LABEL, replica_name
from genericjob.api.status import Failure, GenericJobStatus, RanksBy, Task
from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS

from .failures import BAD_INPUT, CommandError
from .jobs import MOST_PROPOSED, Job, find, specs_of, status_of, target_of
from .options import Target
from .tables import Table, age, moment

TERMINATING = "Terminating"
ENDED = ("Succeeded", "Failed")
_SET = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*")
_NAMED = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?-\d{1,5}")
"""One rank as everything that is printed calls it."""

Pod = dict[str, Any]


def complete_types(ctx: typer.Context, incomplete: str) -> list[str]:
    """Types of the job that the command line names, for a shell."""
    return [type for type in _replicas(ctx) if type.startswith(incomplete)]


def complete_ranks(ctx: typer.Context, incomplete: str) -> list[str]:
    """Ranks of the job that the command line names, for a shell."""
    labels = (f"{type}-{rank}" for type, count in _replicas(ctx).items() for rank in range(count))
    return [*islice((label for label in labels if label.startswith(incomplete)), MOST_PROPOSED)]


def _replicas(ctx: typer.Context) -> dict[str, int]:
    name = ctx.params.get("name") or next(iter(ctx.args), "")  # before an option without its value words are not understood yet
    try:
        job = find(target_of(ctx), name, pods=False)
    except (ApiError, CommandError, OSError):
        return {}
    return {part["type"]: part.get("replicas", 1) for part in specs_of(job)}


Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type", help="Only replicas of this type; may be given several times.", autocompletion=complete_types, show_default=False
    ),
]
Ranks = Annotated[
    str, typer.Option("--rank", help="Only these ranks: 0, 0-3,7 or worker-0.", autocompletion=complete_ranks, show_default=False)
]


@dataclass(frozen=True)
class Rank:
    """One rank."""

    type: str
    number: int
    name: str
    """Of its pod."""
    phase: str
    restarts: int = 0
    exit_code: int | None = None
    why: str = ""
    """Why it waits, or how it failed."""
    node: str = ""
    since: datetime | None = None
    pod: Pod | None = None
    failure: Failure | None = None
    """How it last failed."""

    @property
    def label(self) -> str:
        """As people call it."""
        return f"{self.type}-{self.number}"


def pods_of(where: Target, job: Job) -> dict[str, Pod]:
    """The pods of a job by their names."""
    meta = job["metadata"]
    found = pages(where.api, RAW_PODS, meta["namespace"], labels=f"{JOB_LABEL}={meta['name']}")
    return {pod["metadata"]["name"]: pod for page in found for pod in page.items if belongs(pod, meta["uid"])}


def belongs(pod: Pod, uid: str) -> bool:
    """Whether a pod is one of the job with that UID, and not of an earlier one of the same name."""
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())


def ranks_of(job: Job, pods: Mapping[str, Pod]) -> list[Rank]:
    """All ranks of a job, in the order of its spec."""
    status = status_of(job)
    tasks = {task.type: task for task in status.tasks}
    found: list[Rank] = []
    for spec in specs_of(job):
        type = str(spec.get("type"))
        teller = _Teller(job["metadata"]["name"], type, status, tasks.get(type) or Task(type))
        found += [teller.rank(number, pods) for number in range(spec.get("replicas", 1))]
    return found


class _Teller:
    """Knows what the status says of one type."""

    def __init__(self, job: str, type: str, status: GenericJobStatus, task: Task) -> None:
        self._job, self._type = job, type
        self._over = status.phase in FINAL_PHASES
        self._succeeded, self._failed = _set(task.succeeded_ranks), _set(task.failed_ranks)
        self._failures = {failure.rank: failure for failure in task.failures}
        self._restarts = _counts(task.charged_restarts, task.uncharged_restarts)
        self._replicas = {replica.name: replica for replica in task.replicas}

    def rank(self, number: int, pods: Mapping[str, Pod]) -> Rank:
        """One rank, with its pod if it has one."""
        name = replica_name(self._job, self._type, number)
        pod = pods.get(name)
        phase = self._phase(number, name, pod)
        failure = self._failures.get(number)
        exit_code, why = _told(pod) if pod else (None, "")
        known = self._replicas.get(name)
        if exit_code is None and phase in ENDED and known:
            exit_code = next((each.exit_code for each in known.containers if each.exit_code is not None), None)
        if phase == "Failed" and failure:
            exit_code = failure.exit_code if exit_code is None else exit_code
            why = why or how_it_failed(failure)
        return Rank(
            type=self._type,
            number=number,
            name=name,
            phase=phase,
            restarts=self._restarts.get(number, 0),
            exit_code=0 if exit_code is None and phase == "Succeeded" else exit_code,
            why=why,
            node=(pod["spec"].get("nodeName") or "") if pod else (failure.node if failure and phase == "Failed" else ""),
            since=moment(pod["metadata"].get("creationTimestamp")) if pod else None,
            pod=pod,
            failure=failure,
        )

    def _phase(self, number: int, name: str, pod: Pod | None) -> str:
        if number in self._succeeded:
            return "Succeeded"
        if number in self._failed:
            return "Failed"
        if pod:
            return TERMINATING if pod["metadata"].get("deletionTimestamp") else str((pod.get("status") or {}).get("phase") or "Pending")
        known = self._replicas.get(name)
        return "Deleted" if self._over or (known and known.phase == "Deleted") else "Creating"


def _set(text: str) -> frozenset[int]:
    try:
        return ranges.parse(text)
    except ValueError:  # what another version has written
        return frozenset()


def _counts(*books: RanksBy) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, ranks in ((number, ranks) for book in books for number, ranks in book.items()):
        for rank in _set(ranks) if number.isdigit() else ():
            found[rank] = found.get(rank, 0) + int(number)
    return found


def containers_of(pod: Pod) -> list[dict[str, Any]]:
    """What is known of a pod's containers, in the order they run."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _told(pod: Pod) -> tuple[int | None, str]:
    """The exit code that tells how a pod ended, and why it failed or waits."""
    ends = [end for each in containers_of(pod) if (end := (each.get("state") or {}).get("terminated"))]
    status = pod.get("status") or {}
    if status.get("phase") in ENDED:
        bad = next((end for end in ends if end.get("exitCode")), None)
        told = bad or (ends[-1] if ends else None)
        reason = status.get("reason") or (bad.get("reason") if bad else "") or ""
        message = (bad.get("message") if bad else "") or status.get("message") or ""
        return (told.get("exitCode") if told else None), _words("" if reason == "Error" else reason, message)
    for each in containers_of(pod):
        waiting = (each.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            return None, _words(waiting["reason"], waiting.get("message") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return None, _words(condition.get("reason") or "", condition.get("message") or "")
    return None, ""


def _words(reason: str, message: str) -> str:
    return ": ".join(part for part in (reason, message) if part)


def how_it_failed(failure: Failure) -> str:
    """A failure in words, but for its exit code."""
    return _words("" if failure.reason == "Error" else failure.reason, failure.message)


# ------------------------------------------------------------------------------------------------ which ranks


def chosen(ranks: Sequence[Rank], types: Sequence[str], numbers: str) -> list[Rank]:
    """The ranks that options name; all, if they name none."""
    known = dict.fromkeys(rank.type for rank in ranks)
    type, dash, last = numbers.rpartition("-")
    if dash and type in known and last.isdigit():  # worker-0
        types, numbers = [*types, type], last
    elif _NAMED.fullmatch(numbers):
        raise CommandError(f"the job has no type {type}: there are {', '.join(known)}", BAD_INPUT)
    for wanted in types:
        if wanted not in known:
            raise CommandError(f"the job has no type {wanted}: there are {', '.join(known)}", BAD_INPUT)
    found = [rank for rank in ranks if not types or rank.type in types]
    if not numbers:
        return found
    wanted_ranks = parsed(numbers)
    kept = [rank for rank in found if rank.number in wanted_ranks]
    if absent := sorted(wanted_ranks - {rank.number for rank in kept}):
        among = f"type {types[0]}" if len(types) == 1 else "the job"
        highest = max((rank.number for rank in found), default=-1)
        there_are = f"they are 0 to {highest}" if highest >= 0 else "it has none"
        raise CommandError(f"{among} has no rank {absent[0]}: {there_are}", BAD_INPUT)
    return kept


def parsed(text: str) -> frozenset[int]:
    """Ranks as people write them: `0-3,7`, in any order."""
    found: set[int] = set()
    if not _SET.fullmatch(text):
        raise CommandError(f"{text!r} names no ranks: write 0, 0-3,7 or worker-0", BAD_INPUT)
    for part in text.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise CommandError(f"{part} is no range of ranks: write the lower one first", BAD_INPUT)
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def one_rank(job: Job, pods: Mapping[str, Pod], types: Sequence[str], number: str) -> Rank:
    """The only rank that options name."""
    found = chosen(ranks_of(job, pods), types, number)
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandError("the job has no ranks", BAD_INPUT)
    some = ", ".join(rank.label for rank in found[:5])
    raise CommandError(f"which rank? --rank names one of {some}{' …' if len(found) > 5 else ''}", BAD_INPUT)


# ------------------------------------------------------------------------------------------------ as a table


def table_of(ranks: Iterable[Rank]) -> Table:
    """Ranks under each other; a column that would be empty is left out."""
    shown = list(ranks)
    why = any(rank.why for rank in shown)
    table = Table("RANK", "PHASE", "RESTARTS", "EXIT CODE", "NODE", "AGE", *(["WHY"] if why else []))
    for rank in shown:
        code = "" if rank.exit_code is None else str(rank.exit_code)
        since = age(rank.since) if rank.since else ""
        table.add(rank.label, rank.phase, str(rank.restarts), code, rank.node, since, *([rank.why] if why else []))
    return table


def counted(ranks: Iterable[Rank]) -> str:
    """How many ranks are in which phase: `3 Running, 1 Pending`."""
    counts: dict[str, int] = {}
    for rank in ranks:
        counts[rank.phase] = counts.get(rank.phase, 0) + 1
    return ", ".join(f"{number} {phase}" for phase, number in sorted(counts.items(), key=lambda each: -each[1]))
