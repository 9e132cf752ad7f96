"""`genericjob exec`: a command in the container of a rank, with its input, its output, its exit code and, on a terminal, its screen."""

import math
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from genericjob.reconcile.resources import RAW_PODS, Key

from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import Contact, follow
from .get import why
from .jobs import JOBS, Job, Name, find, key_of, rank_of_pod, status_of, whole
from .options import Context, Kubeconfig, Local, Namespace, Target, interactive, target
from .ranks import Pod, Rank, Types, belongs, complete_ranks, containers_of, one_rank, pods_of, ranks_of
from .text import say

SHELL = "/bin/sh"

RankOption = Annotated[
    str, typer.Option("--rank", metavar="RANK", help="Which rank: 0, or worker-0.", autocompletion=complete_ranks, show_default=False)
]
Container = Annotated[str, typer.Option("--container", "-c", help="Container of the rank. Default: its first.", show_default=False)]
Words = Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="What to run, behind two dashes.", show_default=False)]
Tty = Annotated[
    bool | None, typer.Option("--tty/--no-tty", "-t/-T", help="Give it a terminal. Default: if you sit at one.", show_default=False)
]
Stdin = Annotated[bool | None, typer.Option("--stdin/--no-stdin", "-i/-I", help="Give it your input. Default: with a terminal.")]


def execute(
    name: Name,
    command: Words = None,
    types: Types = None,
    rank: RankOption = "",
    container: Container = "",
    stdin: Stdin = None,
    terminal: Tty = None,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Run a command in a rank of a job.

    The exit code is that of the command. On a cluster only: what a run runs are processes of this machine.

    Example: genericjob exec train --rank worker-0 -- nvidia-smi
    """
    if not command:
        raise CommandError("what is to be run? write it behind two dashes: genericjob exec NAME --rank worker-0 -- COMMAND", BAD_INPUT)
    where = target(kubeconfig, context, namespace, run)
    job = whole(find(where, name))
    chosen = one_rank(job, pods_of(where, job), types or [], rank or rank_of_pod(job, name))
    raise typer.Exit(enter(where, chosen, container, command, stdin=stdin, terminal=terminal))


def enter(
    where: Target, rank: Rank, container: str, command: Sequence[str], *, stdin: bool | None = None, terminal: bool | None = None
) -> int:
    """Run a command in the pod of a rank; returns its exit code."""
    from .channels import Session  # a quarter of a second that no other command needs to wait for

    if rank.pod is None:
        raise CommandError(f"{rank.label} has no pod{': it has ' + rank.phase.lower() if rank.phase in ('Succeeded', 'Failed') else ''}")
    running = [each["name"] for each in containers_of(rank.pod) if (each.get("state") or {}).get("running")]
    names = [each["name"] for each in rank.pod["spec"]["containers"]]
    if container and container not in [*names, *(each["name"] for each in rank.pod["spec"].get("initContainers") or ())]:
        raise CommandError(f"{rank.label} has no container {container}: there are {', '.join(names)}", BAD_INPUT)
    chosen = container or next((each for each in names if each in running), names[0])
    if chosen not in running:
        phase = f"it has {rank.phase.lower()}" if rank.phase in ("Succeeded", "Failed") else f"it is {rank.phase}"
        raise CommandError(f"container {chosen} of {rank.label} does not run: {phase}{f' ({rank.why})' if rank.why else ''}")
    terminal = interactive() if terminal is None else terminal
    if terminal and not sys.stdin.isatty():
        raise CommandError("--tty needs a terminal, and your input is none", BAD_INPUT)
    pod = Key(rank.pod["metadata"]["namespace"], rank.name)
    session = Session(where.credentials.current, pod, chosen, command, stdin=terminal if stdin is None else stdin, terminal=terminal)
    return session.run()


def until_running(where: Target, job: Job, rank: Rank, *, deadline: float = math.inf, seconds: float = math.inf) -> Rank:
    """Wait until the pod of a rank runs, and tell a person what it waits for."""
    meta, told, contact = job["metadata"], "", Contact()
    fields = f"metadata.name={rank.name}"
    for news, pod in follow(where, RAW_PODS, meta["namespace"], fields=fields, deadline=deadline, contact=contact):
        present = news == "PRESENT" and belongs(pod, meta["uid"]) and not pod["metadata"].get("deletionTimestamp")
        if present and _runs(pod):
            return next(each for each in ranks_of(job, {rank.name: pod}) if each.name == rank.name)
        if news == "COMPLETE" or present:
            held = _held(where, job, rank, pod if present else None)
            if held != told:
                say(f"genericjob: {held}", err=True)
                told = held
    raise CommandError(f"{rank.label} does not run after {seconds:g} s{contact}", TIMED_OUT)


def _runs(pod: Pod) -> bool:
    status: Any = pod.get("status") or {}
    return status.get("phase") == "Running" and any((each.get("state") or {}).get("running") for each in containers_of(pod))


def _held(where: Target, job: Job, rank: Rank, pod: Pod | None) -> str:
    job = where.api.get(JOBS, key_of(job))
    now = next((each for each in ranks_of(job, {rank.name: pod} if pod else {}) if each.name == rank.name), rank)
    if now.phase in ("Succeeded", "Failed") or status_of(job).phase in ("Succeeded", "Failed"):
        raise CommandError(f"{rank.label} will not run any more: it has {now.phase.lower()}")
    return f"waiting for {rank.label}: {now.why or why(job) or now.phase}"
