"""`genericjob describe`: all that is known of a job, told to a person."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Annotated, Any

import typer

from genericjob.api.names import FINAL_PHASES, PAUSE_PHASES, Reason
from genericjob.api.status import GenericJobStatus

from .get import why
from .jobs import Job, Names, Selector, kinds_of, specs_of, status_of
from .options import Context, Kubeconfig, Local, Namespace, target
from .ranks import Rank, counted, pods_of, ranks_of, table_of
from .rule_words import named_of, names_one, phases_of
from .several import Several, check_choice
from .tables import OF_PHASE, QUIET, Table, age, colourful, duration, moment, now
from .text import one_line, painted, show
from .timeline import Moment, history

INDENT = "  "
MOST_RANKS, MOST_MOMENTS, MOST_RULES, MOST_NAMED = 50, 40, 3, 5
"""What is shown of a large job, or a long story, unless all of it is asked for."""
TOGETHER = timedelta(minutes=1)
"""Time within which the same thing that happens to several ranks is told once."""
POD_WAITS = " waits: "
"""What stands between a pod and what it waits for, in the message of a condition."""
_HOLDS = {
    "Initialized": ("all replicas were created", "not all replicas were created yet"),
    "Running": ("it runs", "it does not run"),
    "ReplicaFailure": ("a replica failed", "no replica has failed"),
    "Completed": ("it has succeeded", "it has not succeeded"),
    "Failed": ("it has failed", "it has not failed"),
    "Paused": ("it is paused", "it is not paused"),
}

All = Annotated[bool, typer.Option("--all", help="All ranks, and all that happened, however many there are.")]


def describe(
    names: Names = None,
    selector: Selector = "",
    all: All = False,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Tell all about a job: its ranks, what it waits for, and what happened."""
    check_choice(names, selector, "describe")
    where = target(kubeconfig, context, namespace, run)
    several, first = Several(), True
    for job in several.jobs(where, names, selector):
        ranks = ranks_of(job, pods_of(where, job))
        moments = history(where, job, ranks)
        show([] if first else ["", ""])
        show(described(job, ranks, moments, command=where.command, everything=all, colours=colourful()))
        first = False
    several.end()


def described(
    job: Job,
    ranks: list[Rank],
    moments: list[Moment],
    *,
    command: Callable[[str], str] = "genericjob {}".format,
    everything: bool = False,
    colours: bool = False,
) -> Iterator[str]:
    """What to print."""
    status = status_of(job)
    yield from _facts(job, status, colours=colours)
    obstacles = _held_up(ranks) if status.phase not in (*FINAL_PHASES, *PAUSE_PHASES) else {}
    yield from _section("Conditions", _conditions(status, obstacles), colours)
    yield from _section("Ranks", _ranks(ranks, everything, colours, obstacles), colours)
    yield from _section("Waits for", waits_for(job, status, ranks, command), colours)
    yield from _section("What happened", _story(moments, everything), colours)


def _section(title: str, lines: Iterable[str], colours: bool) -> Iterator[str]:
    found = list(lines)
    if found:
        yield ""
        yield painted(f"{title}:", "bright_white", colours=colours)
        for line in found:
            yield f"{INDENT}{line}"


def _facts(job: Job, status: GenericJobStatus, *, colours: bool) -> Iterator[str]:
    meta, spec = job["metadata"], job["spec"]
    facts = {
        "Name": meta["name"],
        "Namespace": meta["namespace"],
        "Phase": painted(one_line(status.phase), OF_PHASE.get(status.phase, ""), colours=colours) + _since(status),
        "Ready": status.ready,
        "Replicas": kinds_of(job),
        "Restarts": f"{status.restarts}" + (f", {status.job_restarts} of the whole job" if status.job_restarts else ""),
        "Created": f"{meta.get('creationTimestamp')} ({age(moment(meta.get('creationTimestamp')))} ago)",
        "Labels": ", ".join(f"{name}={value}" for name, value in (meta.get("labels") or {}).items()),
        "Succeeds": _rules(job, "successRules", "when all replicas have succeeded", "have succeeded"),
        "Fails": _rules(job, "failureRules", "when it cannot succeed any more", "have failed"),
        "Clean-up": {"Unfinished": "unfinished pods", "All": "all pods"}.get(spec.get("cleanUpPolicy", ""), ""),
        "Deadline": f"{spec['activeDeadlineSeconds']} s" if spec.get("activeDeadlineSeconds") else "",
        "Deleted after": f"{spec['ttlSecondsAfterFinished']} s" if "ttlSecondsAfterFinished" in spec else "",
        "Run by": spec.get("managedBy") or "",
        "Modes": ", ".join(_modes(spec)),
    }
    width = max(len(title) for title in facts) + 1
    for title, text in facts.items():
        if text:
            yield f"{f'{title}:':<{width}} {text if title == 'Phase' else one_line(text)}"
    if "deletionTimestamp" in meta:
        yield f"{'Deletion:':<{width}} asked for {age(moment(meta['deletionTimestamp']))} ago"


def _since(status: GenericJobStatus) -> str:
    if status.start_time is None:
        return ""
    took = duration(((status.completion_time or now()) - status.start_time).total_seconds())
    return f" after {took}" if status.completion_time else f", {took} since it began"


def _rules(job: Job, field: str, without: str, end: str) -> str:
    rules: list[Mapping[str, list[Any]]] = job["spec"].get(field) or []
    if not rules:
        return without
    types = {part.get("type") for part in specs_of(job)}
    told = [
        " and ".join(
            f"{named_of(type, items)}{'' if type in types else ' (there is no such type)'}" for type, items in rule.items() if items
        )
        or "nobody"
        for rule in rules
    ]
    shown = [one_line(each)[:80] for each in told[:5]] + (["…"] if len(told) > 5 else [])
    return f"when {' or '.join(shown)} {end.replace('have', 'has', 1) if all(map(names_one, rules)) else end}"


def _modes(spec: Mapping[str, Any]) -> Iterator[str]:
    mode = spec.get("runMode") or {}
    for name in ("pause", "debug"):
        if (mode.get(name) or {}).get("enabled"):
            yield name
    if spec.get("suspend"):
        yield "suspend"


def _held_up(ranks: Iterable[Rank]) -> dict[str, list[str]]:
    """Return why pods do not run, each reason with the labels of its ranks: a hundred ranks mostly wait for the same."""
    found: dict[str, list[str]] = {}
    for rank in ranks:
        if rank.why and rank.phase == "Pending":
            found.setdefault(rank.why, []).append(rank.label)
    return found


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - MOST_NAMED
    return ", ".join(labels[:MOST_NAMED]) + (f" and {more} more ranks" if more > 0 else "")


def _conditions(status: GenericJobStatus, obstacles: Mapping[str, object]) -> Iterator[str]:
    table = Table("CONDITION", "SINCE", "WHY")
    for each in status.conditions:
        words = _HOLDS.get(each.type, (f"{each.type} is true", f"{each.type} is {each.status}"))
        holds = each.status == "True"
        if holds or each.reason not in (Reason.NOT_FINISHED, Reason.NOT_PAUSED, Reason.NO_FAILURE):
            pod, waits, _ = each.message.partition(POD_WAITS)
            message = f"{pod} waits, see below" if waits and obstacles else each.message
            table.add(words[0 if holds else 1], age(each.last_transition_time), f"{each.reason}: {message}")
    if table:
        yield from table.lines()


def _ranks(ranks: list[Rank], everything: bool, colours: bool, obstacles: Mapping[str, object]) -> Iterator[str]:
    """Ranks in a table. Of those that wait the reason in a word: the sentence follows below, once."""
    ranks = [replace(rank, why=rank.why.partition(":")[0]) if rank.why in obstacles else rank for rank in ranks]
    shown = ranks
    if len(ranks) > MOST_RANKS and not everything:
        unusual = [rank for rank in ranks if rank.phase not in ("Running", "Succeeded") or rank.restarts]
        shown = (unusual or ranks)[:MOST_RANKS]
    if shown:
        yield from table_of(shown).lines(colours=colours)
    if len(shown) < len(ranks):
        yield painted(f"{len(shown)} of {len(ranks)} ranks are shown, --all shows all: {counted(ranks)}", QUIET, colours=colours)


def waits_for(job: Job, status: GenericJobStatus, ranks: list[Rank], command: Callable[[str], str]) -> Iterator[str]:
    """What has to come before the job goes on, or ends."""
    if "deletionTimestamp" in job["metadata"]:
        held = ", ".join(job["metadata"].get("finalizers") or ())
        yield f"its end: {f'finalizers {held}' if held else 'it is being deleted'}"
    if not status.conditions:
        yield f"a controller: none has looked at this job yet; `{command('check')}` tells whether one runs"
    elif status.phase not in FINAL_PHASES:
        if status.observed_generation < job["metadata"].get("generation", 0):
            yield "the controller, to see the last change of the job"
        if status.phase == "Pausing":
            yield why(job)
        elif status.phase == "Paused":
            yield f"you: `{command('resume ' + job['metadata']['name'])}` lets it go on"
        else:
            yield from _obstacles(status, _held_up(ranks))
            yield from _successes(job["spec"].get("successRules"), ranks)


def _obstacles(status: GenericJobStatus, held_up: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What keeps a job from running as it should."""
    told = {each.type: each.message for each in status.conditions if each.status == "False" or "Pod[" in each.message}
    for type in ("Initialized", "Running"):
        if type in told and not (held_up and POD_WAITS in told[type]):  # a pod that is named is one that is waited for
            yield one_line(told[type])
    for cause, labels in list(held_up.items())[:MOST_NAMED]:
        yield one_line(f"{_named(labels)}: {cause}")


def _successes(rules: list[Mapping[str, list[Any]]] | None, ranks: list[Rank]) -> Iterator[str]:
    """Which ranks must still succeed for the job to: of each rule that can be met, or of all ranks."""
    phases = {(rank.type, rank.number): rank.phase for rank in ranks}
    every = {f"{type}-{number}": {phase} for (type, number), phase in phases.items()}
    wanted = (dict(phases_of(rule, phases)) for rule in rules) if rules else iter((every,))
    possible = [*islice((rule for rule in wanted if rule and all(found - {"Failed"} for found in rule.values())), MOST_RULES + 1)]
    for rule in possible[:MOST_RULES]:
        open = [name for name, found in rule.items() if "Succeeded" not in found]
        yield f"{_named(open)} to succeed{' (one of several rules)' if len(possible) > 1 else ''}"


def _story(moments: list[Moment], everything: bool) -> Iterator[str]:
    moments = moments if everything else _together(moments)
    shown = moments if everything else moments[-MOST_MOMENTS:]
    if len(shown) < len(moments):
        yield f"… {len(moments) - len(shown)} earlier, --all shows them"
    table = Table("AGE", "WHO", "WHAT")
    for each in shown:
        table.add(each.ages, each.who, each.what)
    if table:
        yield from table.lines()


def _together(moments: Iterable[Moment]) -> list[Moment]:
    """The same thing that happened to several ranks at about the same time, told once."""
    found: list[list[Moment]] = []
    last: dict[str, list[Moment]] = {}
    for each in moments:
        group = last.get(each.what)
        if group is None or each.at - group[0].at > TOGETHER or each.who in {other.who for other in group}:
            group = last[each.what] = []
            found.append(group)
        group.append(each)
    return [replace(group[0], who=group[0].who + (f" and {len(group) - 1} more" if len(group) > 1 else "")) for group in found]
