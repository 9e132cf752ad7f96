"""`genericjob delete`: jobs, and what belongs to them."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Literal

import typer

from genericjob.reconcile.api import Propagation
from genericjob.reconcile.errors import ApiError

from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import Contact, life_of
from .jobs import JOBS, Job, MissingError, Selector, complete, everything, find, key_of, known_jobs, missing
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .several import Several
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
    several = Several()
    jobs = _named(where, names, several, ignore=ignore_not_found) if names else everything(where, labels=selector)[0]
    if not jobs and not names:
        say(f"There are no jobs to delete in namespace {where.namespace} ({where.where}).", err=True)
    # A job that was not named and that another client has deleted meanwhile is no failure: the user wants it to be gone.
    ignore = ignore_not_found or not names
    deleted = []
    for job in jobs:
        with several.each(), suppress(*[MissingError] if ignore else []):
            deleted.append(_delete(where, job, POLICIES[cascade]))
    for job in deleted if wait else ():
        with several.each():
            _until_deleted(where, job, deadline, seconds)
    several.end()


def _named(where: Target, names: list[str], several: Several, *, ignore: bool) -> list[Job]:
    """Return the jobs of these names."""
    found = []
    for name in names:
        with several.each(), suppress(*[MissingError] if ignore else []):
            found.append(find(where, name, pods=False))
    return found


def _delete(where: Target, job: Job, propagation: Propagation) -> Job:
    """Delete a job and return it; raises MissingError if another client has deleted it."""
    key = key_of(job)
    try:
        where.api.delete(JOBS, key, uid=job["metadata"]["uid"], propagation=propagation)
    except ApiError as error:
        if not error.not_found:
            raise
        raise MissingError(missing(where, key.name, known_jobs(where))) from None
    say(f"{key.name} deleted")
    return job


def _until_deleted(where: Target, job: Job, deadline: float, seconds: float) -> None:
    contact = Contact()
    if not any(state is None for state in life_of(where, JOBS, job, deadline=deadline, contact=contact)):
        held = "it may be gone by now" if contact.lost else _held(where, job)
        raise CommandError(f"{key_of(job).name} is still there after {seconds:g} s{contact}: {held}", TIMED_OUT)


def _held(where: Target, job: Job) -> str:
    try:
        meta = where.api.get(JOBS, key_of(job))["metadata"]
    except ApiError:
        return "it may be gone by now"
    finalizers = ", ".join(meta.get("finalizers") or ())
    return f"its finalizers hold it ({finalizers})" if finalizers else "it was not deleted"
