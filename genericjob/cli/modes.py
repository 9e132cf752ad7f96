"""`genericjob pause`, `resume` and `debug`: ways to run other than at once."""

import math
import time
from typing import Annotated, Any

import typer

from genericjob.api.names import DEBUG_ANNOTATION, FINAL_PHASES, JOB_LABEL, PAUSE_PHASES
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS

from .exec import SHELL, Container, enter, until_running
from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import Contact, follow, life_of
from .get import standing, why
from .jobs import JOBS, Job, Name, Names, Selector, find, key_of, status_of, whole
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .ranks import Pod, belongs, one_rank, pods_of
from .several import Several, check_choice
from .text import say
from .wait import Timeout, duration

REPORT_EVERY_S = 5.0
"""Seconds between two lines about pods that still terminate."""
MOST_NAMED = 5
"""Pods that a message names."""

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return when all pods are gone.")]
Off = Annotated[bool, typer.Option("--off", help="Turn debug mode off: pods that are created from now on run the command of the job.")]
EnterRank = Annotated[
    str, typer.Option("--rank", metavar="RANK", help="Wait for this rank (worker-0) and open a shell in it.", show_default=False)
]
Shell = Annotated[str, typer.Option("--shell", help="The shell to open.")]


def pause(
    names: Names = None,
    selector: Selector = "",
    wait: Wait = True,
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Have no replicas for a while.

    Returns when all of their pods are gone; what the programs have not stored themselves is lost.
    """
    check_choice(names, selector, "pause")
    seconds = duration(timeout)
    where = target(kubeconfig, context, namespace, run)
    deadline = time.monotonic() + seconds
    several, changed = Several(), []
    for job in several.jobs(where, names, selector):
        with several.each():
            changed.append(_patched(where, _open(job, "paused"), {"runMode": {"pause": {"enabled": True}}}))
    for job in changed:
        with several.each():
            if wait:
                _until_paused(where, job, deadline, seconds)
            say(f"{key_of(job).name} {'is paused' if wait else 'is being paused'}")
    several.end()


def resume(
    names: Names = None,
    selector: Selector = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Let jobs go on after a pause."""
    check_choice(names, selector, "resume")
    where = target(kubeconfig, context, namespace, run)
    several = Several()
    for job in several.jobs(where, names, selector):
        with several.each():
            _resume(where, _open(job, "resumed"))
    several.end()


def _resume(where: Target, job: Job) -> None:
    name, spec = key_of(job).name, job["spec"]
    held = _held(job)
    if not held and not spec.get("suspend"):
        say(f"{name} is not paused")
        return
    change: dict[str, Any] = {"suspend": False} if spec.get("suspend") else {}
    if held:
        change["runMode"] = {"pause": {"enabled": False}}
    _patched(where, job, change)
    say(f"{name} is being resumed")


def debug(
    name: Name,
    rank: EnterRank = "",
    off: Off = False,
    container: Container = "",
    shell: Shell = SHELL,
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Let a job's replicas wait to be debugged, and enter one of them.

    Pods that are created from now on have their image, volumes and variables, but wait instead of working. Pods that exist go on working:
    pause and resume the job to have new ones.
    """
    if off and rank:
        raise CommandError("--off goes without --rank", BAD_INPUT)
    if rank and run is not None:  # BEFORE THE SWITCH IS TURNED: a rank that waits is of no use to whoever cannot enter it
        raise CommandError("--rank opens a shell in a container, and ranks of a run are ordinary processes of this machine", BAD_INPUT)
    seconds = duration(timeout)
    where = target(kubeconfig, context, namespace, run)
    job = _open(find(where, name), "debugged")
    chosen = one_rank(job, pods_of(where, job), [], rank) if rank else None
    before = bool(((job["spec"].get("runMode") or {}).get("debug") or {}).get("enabled"))
    if before == off:
        job = _patched(where, job, {"runMode": {"debug": {"enabled": not off}}})
    called = key_of(job).name
    say(f"{called}: debug is {'off' if off else 'on'}", err=chosen is not None)
    unchanged = sum(_waits(pod) == off for pod in pods_of(where, job).values())
    if unchanged:
        what = "wait to be debugged" if off else "work already"
        how = " and ".join(f"`{where.command(f'{word} {called}')}`" for word in ("pause", "resume"))
        say(f"pods that {what}: {unchanged}; {how} replace them", err=True)
    if chosen:
        if status_of(job).phase in PAUSE_PHASES:
            raise CommandError(f"{called} is {status_of(job).phase.lower()}: `{where.command(f'resume {called}')}` brings its pods back")
        running = until_running(where, job, chosen, deadline=time.monotonic() + seconds, seconds=seconds)
        raise typer.Exit(enter(where, running, container, [shell]))


def _waits(pod: Pod) -> bool:
    found: str = (pod["metadata"].get("annotations") or {}).get(DEBUG_ANNOTATION, "")
    return found == "true"


def _held(job: Job) -> bool:
    """Whether the switch for a pause is on."""
    return bool(((job["spec"].get("runMode") or {}).get("pause") or {}).get("enabled"))


def _open(job: Job, what: str) -> Job:
    phase = status_of(whole(job)).phase
    if phase in FINAL_PHASES:
        raise CommandError(f"{key_of(job).name} has {phase.lower()}: a job that has ended cannot be {what}")
    return job


def _patched(where: Target, job: Job, spec: dict[str, Any]) -> Job:
    """A changed job. ITS UID GOES ALONG: another one may have the name by now."""
    return where.api.patch(JOBS, key_of(job), {"metadata": {"uid": job["metadata"]["uid"]}, "spec": spec})


def _until_paused(where: Target, job: Job, deadline: float, seconds: float) -> None:
    name, reported, unseen = key_of(job).name, -math.inf, ""
    contact = Contact(state=lambda: f"{name} was {standing(job)}")
    while True:
        for state in life_of(where, JOBS, job, deadline=min(deadline, time.monotonic() + REPORT_EVERY_S), contact=contact):
            if state is None:
                raise CommandError(f"{name} was deleted before it was paused")
            job = state
            status = status_of(job)
            phase = status.phase
            current = status.observed_generation >= job["metadata"].get("generation", 0)  # otherwise it may be that of an earlier pause
            if phase == "Paused" and current:
                return _until_no_pod_is_left(where, job, deadline, seconds)
            if phase == "Pausing" and current and time.monotonic() >= reported + REPORT_EVERY_S:
                reported = time.monotonic()
                say(f"{name}: {why(job)}", err=True)
            if phase in FINAL_PHASES:
                raise CommandError(f"{name} has {phase.lower()} before it could be paused")
            if not (_held(job) or job["spec"].get("suspend")):
                raise CommandError(f"{name} was resumed by somebody else before it was paused")
        before, unseen = unseen, "" if current or contact.lost else f"no controller has seen the change yet (`{where.command('check')}`)"
        if time.monotonic() >= deadline:
            break
        if unseen and not before:
            say(f"{name}: {unseen}", err=True)
    told = unseen or why(job)
    raise CommandError(f"{name} is not paused after {seconds:g} s{contact}{told and f': {told}'}", TIMED_OUT)


def _until_no_pod_is_left(where: Target, job: Job, deadline: float, seconds: float) -> None:
    """Wait for the pods themselves: a controller of an earlier version says Paused as soon as all of them were asked to end."""
    meta, left, complete = job["metadata"], set[str](), False
    contact = Contact(state=lambda: f"{meta['name']} was {standing(job)}")
    labels = f"{JOB_LABEL}={meta['name']}"
    try:
        for news, pod in follow(where, RAW_PODS, meta["namespace"], labels=labels, deadline=deadline, contact=contact):
            if news == "COMPLETE":
                complete = True
            elif belongs(pod, meta["uid"]):
                (left.add if news == "PRESENT" else left.discard)(pod["metadata"]["name"])
            if complete and not left:
                return
    except ApiError as error:
        if error.refused:  # a user who may not see pods has to rely on the status
            return
        raise
    told = f"{len(left)} {'pod is' if len(left) == 1 else 'pods are'} still terminating: {', '.join(sorted(left)[:MOST_NAMED])}"
    raise CommandError(f"{meta['name']} is not paused after {seconds:g} s{contact}: {told}", TIMED_OUT)
