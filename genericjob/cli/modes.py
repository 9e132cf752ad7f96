"""`genericjob pause`, `resume` and `debug`: ways to run other than at once."""

import time
from typing import Annotated, Any

import typer

from genericjob.api.names import DEBUG_ANNOTATION, FINAL_PHASES

from .exec import SHELL, Container, enter, until_running
from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import life_of
from .get import why
from .jobs import JOBS, Job, Name, Names, find, key_of, status_of, whole
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .ranks import Pod, one_rank, pods_of
from .text import say
from .wait import Timeout, duration

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Return when it is so.")]
Off = Annotated[bool, typer.Option("--off", help="Go over to work: pods that are created from now on do.")]
EnterRank = Annotated[
    str, typer.Option("--rank", metavar="RANK", help="Wait for this rank (worker-0) and open a shell in it.", show_default=False)
]
Shell = Annotated[str, typer.Option("--shell", help="The shell to open.")]


def pause(
    names: Names,
    wait: Wait = True,
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Have no replicas for a while.

    Returns when their pods are gone; what they have not stored themselves is lost.
    """
    seconds = duration(timeout)
    where = target(kubeconfig, context, namespace, run)
    deadline = time.monotonic() + seconds
    jobs = [_open(find(where, name), "paused") for name in names]
    changed = [_patched(where, job, {"runMode": {"pause": {"enabled": True}}}) for job in jobs]
    for job in changed:
        if wait:
            _until_paused(where, job, deadline, seconds)
        say(f"{key_of(job).name} {'is paused' if wait else 'is being paused'}")


def resume(
    names: Names,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Let jobs go on after a pause."""
    where = target(kubeconfig, context, namespace, run)
    for job in [_open(find(where, name), "resumed") for name in names]:
        name, spec = key_of(job).name, job["spec"]
        held = _held(job)
        if not held and not spec.get("suspend"):
            say(f"{name} is not paused")
            continue
        change: dict[str, Any] = {"suspend": False} if spec.get("suspend") else {}
        if held:
            change["runMode"] = {"pause": {"enabled": False}}
        _patched(where, job, change)
        say(f"{name} goes on")


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
        if status_of(job).phase == "Paused":
            raise CommandError(f"{called} is paused and has no pods: `{where.command(f'resume {called}')}` brings them back")
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
    name = key_of(job).name
    for state in life_of(where, JOBS, job, deadline=deadline):
        if state is None:
            raise CommandError(f"{name} was deleted before it was paused")
        job = state
        phase = status_of(job).phase
        # OF THIS PAUSE: the status may still speak of an earlier one, from which the job was just resumed.
        if phase == "Paused" and status_of(job).observed_generation >= job["metadata"].get("generation", 0):
            return
        if phase in FINAL_PHASES:
            raise CommandError(f"{name} has {phase.lower()} before it could be paused")
        if not (_held(job) or job["spec"].get("suspend")):
            raise CommandError(f"{name} was resumed by somebody else before it was paused")
    raise CommandError(f"{name} is not paused after {seconds:g} s: {why(job)}", TIMED_OUT)
