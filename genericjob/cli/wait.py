"""`genericjob wait`: until a job has ended, or something else has come true.

Exit codes: 0 it has, 1 it cannot any more (the job has failed, or is gone), 2 the command line is wrong, 3 it has not in time.
"""

import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Annotated

import typer

from genericjob.api.names import CONDITION_TYPES, FINAL_PHASES, PHASES
from genericjob.api.status import Condition
from genericjob.reconcile.errors import ApiError

from .failures import BAD_INPUT, TIMED_OUT, CommandError
from .following import RETRY, Contact, life_of
from .get import standing, unseen, why
from .jobs import JOBS, Job, MissingError, Names, Selector, find, key_of, plain, status_of
from .options import Context, Kubeconfig, Local, Namespace, Target, target
from .several import Several, check_choice
from .text import one_line, say

OVER = "over"
STATUSES = ("True", "False", "Unknown")
"""What a condition can be."""
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")

For = Annotated[
    str,
    typer.Option(
        "--for", metavar="WHAT", help="end (success or failure), delete, phase=PHASE or condition=TYPE, also condition=TYPE=False."
    ),
]
Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long at most: 90s, 5m, 1h30m. Default: for ever.", show_default=False)
]


def wait(
    names: Names = None,
    selector: Selector = "",
    what: For = "end",
    timeout: Timeout = "",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Wait until a job has succeeded or failed.

    Exit code 0 when it has succeeded (or what --for names is so), 1 when it has failed or was deleted, 2 when the command line is wrong,
    3 after --timeout.
    """
    check_choice(names, selector, "wait for")
    goal, seconds = parsed(what), duration(timeout)
    where = target(kubeconfig, context, namespace, run)
    deadline = time.monotonic() + seconds
    several, contact = Several(), Contact(endless=seconds < math.inf)
    patient = partial(_patient, contact=contact, local=where.local, deadline=deadline, seconds=seconds)
    jobs = [job for name in names or () for job in patient(partial(_found, where, name, goal, several))]
    jobs += patient(lambda: several.jobs(where, [], selector)) if selector else []
    if selector and not jobs and not goal.deletion:
        raise typer.Exit(1)
    for job in jobs:
        with several.each():
            good, told = reached(where, job, goal, deadline=deadline, seconds=seconds)
            say(told)
            several.code = max(several.code, 0 if good else 1)
    several.end()


def _patient(look: Callable[[], Iterable[Job]], *, contact: Contact, local: bool, deadline: float, seconds: float) -> list[Job]:
    """Return the jobs that a request finds.

    With a time-out a server that is away is waited for: exit code 1 would say that the job has failed.
    """
    while True:
        try:
            found = [*look()]
        except ApiError as error:
            if local or deadline == math.inf or not contact.bears(error):
                raise
            contact.failed(error)
            if time.monotonic() >= deadline:
                raise CommandError(f"{one_line(error.message)}; given up after {seconds:g} s", TIMED_OUT) from error
            time.sleep(min(RETRY, max(0.0, deadline - time.monotonic())))
        else:
            contact.answered()
            return found


def _found(where: Target, name: str, goal: "Goal", several: Several) -> list[Job]:
    """Return the job to wait for; one whose deletion is waited for may have been deleted already."""
    with several.each():
        try:
            return [find(where, name)]
        except MissingError:
            if not goal.deletion:
                raise
            say(f"{plain(name)} is deleted")
    return []


@dataclass(frozen=True)
class Goal:
    """What is waited for."""

    asked: Callable[[Job], bool]
    """Whether it is so."""
    words: str
    final: bool = True
    """Whether it will never come after the end of the job."""
    deletion: bool = False


def parsed(text: str) -> Goal:
    """What `--for` names."""
    kind, _, rest = text.partition("=")
    if text == "end":
        return Goal(lambda job: status_of(job).phase in FINAL_PHASES, OVER)
    if text == "delete":
        return Goal(lambda job: False, "deleted", final=False, deletion=True)
    if kind == "phase":
        if phase := next((each for each in PHASES if each.lower() == rest.lower()), None):
            return Goal(lambda job: status_of(job).phase == phase and _current(job), f"in phase {phase}")
        raise CommandError(f"{rest!r} is no phase of a job: they are {', '.join(PHASES)}", BAD_INPUT)
    if kind == "condition":
        type, given, status = rest.partition("=")
        condition = next((each for each in CONDITION_TYPES if each.lower() == type.lower()), None)
        if not condition:
            raise CommandError(f"{type!r} is no condition of a job: they are {', '.join(CONDITION_TYPES)}", BAD_INPUT)
        wanted = status.capitalize() if given else "True"
        if wanted not in STATUSES:
            near = get_close_matches(wanted, STATUSES, 1)
            hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(STATUSES)}"
            raise CommandError(f"{status!r} is no status of a condition: {hint}", BAD_INPUT)
        return Goal(lambda job: _has(job, condition, wanted), f"{condition}={wanted}")
    raise CommandError(f"--for {text!r}: write end, delete, phase=PHASE or condition=TYPE", BAD_INPUT)


def _has(job: Job, type: str, status: str) -> bool:
    return any((each.type, each.status) == (type, status) and _current(job, each) for each in status_of(job).conditions)


def _current(job: Job, condition: Condition | None = None) -> bool:
    """Whether the status, or a condition with a generation of its own, is about the spec as it is now.

    As with kubectl, a status of a controller that names no generation counts. A job that has ended stays so, whatever is edited.
    """
    status = status_of(job)
    seen = condition.observed_generation if condition and condition.observed_generation is not None else status.observed_generation
    return status.phase in FINAL_PHASES or not seen or seen >= job["metadata"].get("generation", 0)


def duration(text: str) -> float:
    """Seconds that a text like `1h30m` stands for; nothing is for ever."""
    if not text:
        return math.inf
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        raise CommandError(f"{text!r} is no length of time: write 90s, 5m or 1h30m", BAD_INPUT)
    hours, minutes, seconds = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + float(seconds or 0)


def reached(where: Target, job: Job, goal: Goal, *, deadline: float, seconds: float) -> tuple[bool, str]:
    """Wait for one job: whether all is well, and what is to be told."""
    name = key_of(job).name
    if answer := _answer(job, goal):  # however short the time is
        return answer
    contact = Contact(state=lambda: f"{name} was {standing(job)}", endless=seconds < math.inf)
    for found in life_of(where, JOBS, job, deadline=deadline, contact=contact):
        if found is None:
            return goal.deletion, f"{name} is deleted" if goal.deletion else f"{name} was deleted before it was {goal.words}"
        job = found
        if answer := _answer(job, goal):
            return answer
    state = f"it was {standing(job)}" if contact.lost else _state(job, where)
    raise CommandError(f"{name} is not {goal.words} after {seconds:g} s{contact}: {state}", TIMED_OUT)


def _state(job: Job, where: Target) -> str:
    """Say how a job is, or that no controller has seen it as it is."""
    if untouched := unseen(job, where.command):
        return untouched
    if _current(job):
        return f"it is {standing(job)}"
    return f"it was {status_of(job).phase} before its last change, which no controller has seen yet (`{where.command('check')}`)"


def _answer(job: Job, goal: Goal) -> tuple[bool, str] | None:
    name, phase = key_of(job).name, status_of(job).phase
    if goal.asked(job):
        if goal.words != OVER:
            return True, f"{name} is {goal.words}"
        return phase == "Succeeded", f"{name} {'succeeded' if phase == 'Succeeded' else 'failed'}: {why(job)}"
    if goal.final and phase in FINAL_PHASES:
        return False, f"{name} has {phase.lower()} and will not be {goal.words} any more: {why(job)}"
    return None
