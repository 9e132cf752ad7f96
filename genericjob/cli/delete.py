"""`genericjob delete`: jobs, and what belongs to them."""

import time
from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from genericjob.reconcile.api import Propagation
from genericjob.reconcile.errors import ApiError

from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import life_of
from .jobs import JOBS, Job, MissingError, complete, everything, find, key_of, missing, plain
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .text import say
from .wait import Timeout, duration

POLICIES: Mapping[str, Propagation] = {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}

DeleteNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names of jobs; gj/NAME is fine, too.", autocompletion=complete, show_default=False),
]
Cascade = Annotated[
    Literal["background", "foreground", "orphan"],
    typer.Option("--cascade", help="Delete pods and services after the job, before it, or not at all."),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return when the jobs are gone.")]
Selector = Annotated[str, typer.Option("--selector", "-l", help="All jobs with these labels: team=red,tier!=test.", show_default=False)]
Every = Annotated[bool, typer.Option("--all", help="All jobs of the namespace.")]
Ignore = Annotated[bool, typer.Option("--ignore-not-found", help="A job that does not exist is no failure.")]


def delete(
    names: DeleteNames = None,
    every: Every = False,
    selector: Selector = "",
    cascade: Cascade = "background",
    wait: Wait = True,
    timeout: Timeout = "",
    ignore_not_found: Ignore = False,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Delete jobs, and everything that they made."""
    if sum((bool(names), every, bool(selector))) != 1:
        raise CommandError("name jobs to delete, or --all, or --selector: one of the three", BAD_INPUT)
    seconds = duration(timeout)
    where = target(kubeconfig, context, namespace, run)
    deadline = time.monotonic() + seconds
    problems: list[str] = []
    jobs = _named(where, names or [], problems, ignore=ignore_not_found) if names else everything(where, labels=selector)[0]
    if not jobs and not problems and not names:
        say(f"There are no jobs to delete in namespace {where.namespace} ({where.where}).", err=True)
    # WHO NAMES NO JOB wants none of them to be there: one that another took along is no failure.
    gone = [] if ignore_not_found or not names else problems
    going = [job for job in jobs if _delete(where, job, POLICIES[cascade], gone)]
    for job in going if wait else ():
        if not any(state is None for state in life_of(where, JOBS, job, deadline=deadline)):
            raise CommandError(f"{key_of(job).name} is still there after {seconds:g} s: {_held(where, job)}", TIMED_OUT)
    if problems:
        raise CommandError("; ".join(problems))


def _named(where: Target, names: list[str], problems: list[str], *, ignore: bool) -> list[Job]:
    """The jobs of these names; those that do not exist become problems, and keep nobody from deleting the others."""
    found = []
    for name in names:
        try:
            found.append(find(where, name))
        except MissingError as error:
            if not ignore:
                problems.append(str(error))
    return found


def _delete(where: Target, job: Job, propagation: Propagation, problems: list[str]) -> bool:
    """Whether it was there; if not, that is one of the problems."""
    key = key_of(job)
    try:
        where.api.delete(JOBS, key, uid=job["metadata"]["uid"], propagation=propagation)
    except ApiError as error:
        if not error.not_found:
            raise
        problems.append(missing(where, plain(key.name)))
        return False
    say(f"{key.name} deleted")
    return True


def _held(where: Target, job: Job) -> str:
    try:
        meta = where.api.get(JOBS, key_of(job))["metadata"]
    except ApiError:
        return "it may be gone by now"
    finalizers = ", ".join(meta.get("finalizers") or ())
    return f"its finalizers hold it ({finalizers})" if finalizers else "it was not deleted"
