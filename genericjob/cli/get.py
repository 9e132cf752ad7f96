"""`genericjob get`: jobs in a table, or as they are."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import typer

from genericjob.api.names import GROUP, KIND

from .failures import BAD_INPUT, CommandError
from .following import follow
from .jobs import (
    INCOMPLETE,
    JOBS,
    Job,
    Selector,
    complete,
    everything,
    find,
    key_of,
    kinds_of,
    plain,
    report_unreadable,
    status_of,
    total_of,
)
from .options import JSONPATH, Context, Kubeconfig, Local, Namespace, Output, Target, target
from .several import Several
from .tables import Table, age, colourful, duration, moment, now
from .text import one_line, say, say_json, say_yaml, show

GetNames = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME", help="Names of jobs; without any, all are listed.", autocompletion=complete, show_default=False),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Jobs of all namespaces.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on, and print what changes.")]


def get(
    names: GetNames = None,
    everywhere: Everywhere = False,
    selector: Selector = "",
    watch: Watch = False,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """List jobs, or show one."""
    # kubectl's users write the kind, too: `get gj`, `get gj NAME`, `get gj/NAME`.
    wanted = [plain(name) for name in names or () if name.lower() not in ("gj", "genericjob", "genericjobs")]
    if wanted and (selector or everywhere):
        raise CommandError("names go neither with --selector nor with --all-namespaces", BAD_INPUT)
    printer = Printer(output, everywhere=everywhere)
    where = target(kubeconfig, context, namespace, run)
    printer.command = where.command
    if watch:
        _watch(where, wanted, printer, everywhere=everywhere, selector=selector)
    elif wanted:
        _show_named(where, wanted, printer)
    else:
        found, _ = everything(where, everywhere=everywhere, labels=selector)
        if not found and (output in (None, "wide", "name")):
            place = "" if everywhere else f" in namespace {where.namespace}"
            say(f"There are no jobs{' with these labels' if selector else ''}{place} ({where.where}).", err=True)
        else:
            printer.show(found, several=True)


def _show_named(where: Target, names: Sequence[str], printer: "Printer") -> None:
    found, several = [], Several()
    for name in names:
        with several.each():
            found.append(find(where, name))
    if found:
        printer.show(found, several=len(names) > 1)
    several.end()


def _watch(where: Target, names: Sequence[str], printer: "Printer", *, everywhere: bool, selector: str) -> None:
    names = [key_of(find(where, name)).name for name in names]
    place = "" if everywhere else where.namespace
    fields = f"metadata.name={names[0]}" if len(names) == 1 else ""
    first: list[Job] | None = []
    for news, job in follow(where, JOBS, place, fields=fields, labels=selector, unreadable=report_unreadable):
        if news == "COMPLETE":
            if first:
                printer.show(first, several=False)
            first = None
        elif names and job["metadata"]["name"] not in names:
            continue
        elif first is not None:
            first.append(job)
        else:
            printer.show([job], several=False, deleted=news == "DELETED")


class Printer:
    """Shows jobs in the form that was asked for."""

    def __init__(self, output: str | None, *, everywhere: bool) -> None:
        self._output = output
        self._template = _template(output.removeprefix(JSONPATH)) if output and output.startswith(JSONPATH) else None
        self._everywhere = everywhere
        self.command: Callable[[str], str] = "genericjob {}".format
        """Makes commands that are proposed."""
        titles = ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
        if everywhere:
            titles.insert(0, "NAMESPACE")
        if output == "wide":
            titles += ["TOOK", "REPLICAS", "WHY"]
        self._table = Table(*titles)

    def show(self, jobs: Sequence[Job], *, several: bool, deleted: bool = False) -> None:
        """Print jobs; rows of a table go on under the titles of the first."""
        if self._output == "name":
            show(f"{KIND.lower()}.{GROUP}/{job['metadata']['name']}" for job in jobs)
        elif self._output in ("yaml", "json") or self._template:
            self._show_objects(jobs, several=several)
        else:
            for job in jobs:
                self._table.add(*self._row(job, deleted=deleted))
            show(self._table.fresh_lines(colours=colourful()))

    def _show_objects(self, jobs: Sequence[Job], *, several: bool) -> None:
        """Print whole objects. What is incomplete must not be taken for one: applied again, it would lose its spec."""
        incomplete = [job for job in jobs if INCOMPLETE in job]
        bodies = [_shown(job) for job in jobs if INCOMPLETE not in job]
        if bodies or several:
            body = {"apiVersion": "v1", "kind": "List", "items": bodies} if several else bodies[0]
            if self._template:
                say(self._template(body), end="")
            elif self._output == "yaml":
                _say_yaml(body)
            else:
                say_json(body, indent=4)
        form = (self._output or "").partition("=")[0]
        for job in incomplete:
            say(f"genericjob: the job {key_of(job).name} cannot be shown as {form}: {job[INCOMPLETE]}; kubectl shows it", err=True)
        if incomplete:
            raise typer.Exit(1)

    def _row(self, job: Job, *, deleted: bool) -> list[str]:
        status, created = status_of(job), moment(job["metadata"].get("creationTimestamp"))
        leaving = deleted or "deletionTimestamp" in job["metadata"]
        phase = "Deleted" if deleted else ("Terminating" if leaving else status.phase)
        row = [key_of(job).name, phase, status.ready or f"0/{total_of(job)}", str(status.restarts), age(created)]
        if self._everywhere:
            row.insert(0, key_of(job).namespace)
        if self._output == "wide":
            row += [_took(job), kinds_of(job), why(job) or unseen(job, self.command)]
        return row


def _template(text: str) -> Callable[[Any], str]:
    from .jsonpath import TemplateError, template

    try:
        return template(text)
    except TemplateError as error:
        raise CommandError(f"--output jsonpath: {error}", BAD_INPUT) from None


def _took(job: Job) -> str:
    status = status_of(job)
    return "" if status.start_time is None else duration(((status.completion_time or now()) - status.start_time).total_seconds())


def why(job: Job) -> str:
    """What there is to say about a job's phase, in a sentence."""
    status = status_of(job)
    told = {each.type: each for each in status.conditions}
    best = {"Succeeded": "Completed", "Failed": "Failed", "Pausing": "Paused", "Paused": "Paused"}.get(status.phase, "Running")
    first = told.get("Initialized")
    if first and first.status == "False" and best == "Running":
        return one_line(first.message)
    return one_line(told[best].message) if best in told else ""


def unseen(job: Job, command: Callable[[str], str]) -> str:
    """Say that no controller has looked at a job; empty if one has."""
    if status_of(job).conditions:
        return ""
    return f"no controller has looked at this job yet; `{command('check')}` tells whether one runs"


def standing(job: Job) -> str:
    """Return the phase of a job, and what there is to say about it."""
    told = why(job)
    return f"{status_of(job).phase}{told and f' ({told})'}"


def _shown(job: Job) -> dict[str, Any]:
    """What people want to see of an object: not who wrote which field."""
    return job | {"metadata": {name: value for name, value in job["metadata"].items() if name != "managedFields"}}


def _say_yaml(body: Any) -> None:
    import yaml

    from .lines import Dumper

    say_yaml(partial(yaml.dump, body, Dumper=Dumper, sort_keys=False))
