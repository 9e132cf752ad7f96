"""Jobs as the commands look for them: by name, whole, with the names of others where there is none."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any

import msgspec
import typer

from genericjob.api import names
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Unreadable
from genericjob.reconcile.pieces import decodable, members
from genericjob.reconcile.resources import Key, raw
from genericjob.reconcile.structs import converter

from .failures import CommandError
from .main import NO_DEFINITION
from .options import Target, target
from .text import say

INCOMPLETE = "\0incomplete"
"""In the place of a field of a job that could not be decoded as a whole: why. No object has such a field."""


def _salvage(lost: Unreadable, data: bytes) -> dict[str, Any]:
    """What can be shown of a job that cannot be decoded: enough to describe and to delete it."""
    meta = next((value for name, value in members(data) if name == "metadata"), b"{}")
    known = {"namespace": lost.namespace, "name": lost.name, "uid": lost.uid, "resourceVersion": lost.resource_version}
    return {"spec": {}} | decodable(data) | {"metadata": decodable(meta) | known, INCOMPLETE: lost.problem}


JOBS = replace(raw(names.GROUP, names.VERSION, names.PLURAL, names.KIND), salvage=_salvage)
PREFIXES = ("gj", names.KIND.lower(), names.PLURAL, f"{names.PLURAL}.{names.GROUP}", f"{names.KIND.lower()}.{names.GROUP}")
"""How kubectl's users call the kind before a slash."""
POD_PREFIXES = ("po", "pod", "pods")
"""How kubectl's users call a pod."""
NEAR = 3
"""How many names are proposed in the place of a wrong one."""
MOST_PROPOSED = 500

Job = dict[str, Any]

_as_status = converter(GenericJobStatus)


class MissingError(CommandError):
    """There is no such job."""


def complete(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs that begin as what was typed, for a shell: without them if anything is in the way."""
    kind, slash, begun = incomplete.rpartition("/")
    try:
        names = [job["metadata"]["name"] for job in known_jobs(target_of(ctx)) or ()]
        return [f"{kind}{slash}{name}" for name in names if name.startswith(begun)]
    except (ApiError, CommandError, OSError):
        return []


def target_of(ctx: typer.Context) -> Target:
    """Where a command line that is not finished yet is to look for jobs."""
    return target(**{name: value for name in ("kubeconfig", "context", "namespace", "run") if (value := ctx.params.get(name))})


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the job; gj/NAME is fine, too.", autocompletion=complete)]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names of jobs; gj/NAME is fine, too.", autocompletion=complete, show_default=False),
]
Selector = Annotated[str, typer.Option("--selector", "-l", help="Jobs with these labels: team=red,tier!=test.", show_default=False)]


def plain(name: str) -> str:
    """A name without its kind: `gj/train` is `train`."""
    kind, slash, rest = name.rpartition("/")
    return rest if slash and kind.lower() in PREFIXES else name


def find(where: Target, name: str, *, pods: bool = True) -> Job:
    """Return the job of that name or, with `pods`, the one that has a pod of that name; says which others there are if there is none."""
    kind, slash, rest = (name := plain(name)).partition("/")
    if not name:
        raise CommandError("the name of the job is empty", 2)
    pod = slash and kind.lower() in POD_PREFIXES
    try:
        if not pod:
            return where.api.get(JOBS, where.key(name))
    except ApiError as error:
        if not (error.not_found and NO_DEFINITION not in error.message):
            raise
    name = rest if pod else name
    known = known_jobs(where)
    job = next((each for each in known or () if rank_of_pod(each, name)), None)
    if job is None:
        raise MissingError(missing(where, name, known))
    owner = key_of(job).name
    if not pods:
        raise MissingError(f"{name} is a pod of the job {owner}: name the job if all of it is meant")
    say(f"genericjob: {name} is a pod of the job {owner}", err=True)
    return job


def rank_of_pod(job: Job, name: str) -> str:
    """Return the rank whose pod has this name: `worker-0`; empty if no pod of the job has it."""
    begun, name = f"{job['metadata']['name']}-", name.rpartition("/")[2]
    if not name.startswith(begun):
        return ""
    type, _, number = name.removeprefix(begun).rpartition("-")
    of_type = next((each for each in specs_of(job) if each.get("type") == type), None)
    there = of_type is not None and number.isdecimal() and int(number) < of_type.get("replicas", 1)
    return f"{type}-{number}" if there else ""


def known_jobs(where: Target) -> Sequence[Job] | None:
    """Return the jobs that may have been meant, not all of very many; None if they cannot be listed."""
    try:
        return where.api.list(JOBS, where.namespace, limit=MOST_PROPOSED).items
    except ApiError:
        return None


def missing(where: Target, name: str, jobs: Sequence[Job] | None) -> str:
    """Say that there is no job of that name, and which of those that there are may have been meant."""
    told = f"there is no job {name} in namespace {where.namespace} ({where.where})"
    if jobs is None:
        return told
    if not jobs:
        return f"{told}: it has no jobs at all"
    near = get_close_matches(name, [each["metadata"]["name"] for each in jobs], NEAR)
    return f"{told}: did you mean {' or '.join(near)}?" if near else f"{told}: `{where.command('get')}` lists those that exist"


def everything(where: Target, *, everywhere: bool = False, labels: str = "") -> tuple[list[Job], str]:
    """All jobs of the namespace, or of all of them, and the version they were read at."""
    found: list[Job] = []
    version = ""
    for page in pages(where.api, JOBS, "" if everywhere else where.namespace, labels=labels):
        found += page.items
        for lost in page.unreadable:
            report_unreadable(lost)
        version = page.resource_version
    return found, version


def report_unreadable(lost: Unreadable) -> None:
    """Name a job that cannot be decoded."""
    say(f"genericjob: the job {lost} cannot be read: {lost.problem}", err=True)


def whole(job: Job) -> Job:
    """Return a job whose spec was decoded; raises CommandError for one that was not, because nothing is known of its modes and ranks."""
    if INCOMPLETE in job:
        name = key_of(job).name
        raise CommandError(
            f"{name} cannot be decoded: {job[INCOMPLETE]}; the controller does not run it: apply it again without that, or delete it"
        )
    return job


def key_of(job: Job) -> Key:
    """Which job it is."""
    return Key(job["metadata"]["namespace"], job["metadata"]["name"])


def status_of(job: Job) -> GenericJobStatus:
    """What is known of a job; one whose status another program has written in other words is in the phase Unknown."""
    status = job.get("status") or {}
    for known in (status, _without_others(status)):
        with suppress(msgspec.ValidationError):
            return _as_status(known)
    return GenericJobStatus(phase="Unknown")


def _without_others(status: Any) -> Any:
    """The same without conditions of other writers: one of them may have a time that Python cannot represent."""
    if not isinstance(status, dict) or not isinstance(found := status.get("conditions"), list):
        return status
    own = [each for each in found if isinstance(each, dict) and each.get("type") in names.CONDITION_TYPES]
    return {**status, "conditions": own}


def specs_of(job: Job) -> list[dict[str, Any]]:
    """Its types of replicas, as the server has stored them: with their defaults."""
    return [each for each in job["spec"].get("replicaSpecs") or () if isinstance(each, dict)]


def kinds_of(job: Job) -> str:
    """How many replicas of which type: `1 server, 3 worker`."""
    return ", ".join(f"{each.get('replicas', 1)} {each.get('type')}" for each in specs_of(job))


def total_of(job: Job) -> int:
    """Replicas of all types."""
    return sum(each.get("replicas", 1) for each in specs_of(job))
