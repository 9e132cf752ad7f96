"""`genericjob explain FILE|NAME`: which rules of a job can still fire, and what they wait for."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from genericjob.api.names import JobIdentity
from genericjob.api.spec import InvalidSpecError, parse
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.job import Design, Job
from genericjob.jobs.resource import JOBS, Reader, UnreadableStatusError
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError

from .acting import Acting
from .documents import BadInputError, Document, jobs_of
from .failures import BAD_INPUT, CommandError, misuse
from .jobs import PREFIXES, complete, find, whole
from .options import Context, Kubeconfig, Local, Namespace, target
from .outlook import Outlook, Standing, outlook
from .tables import OF_PHASE, Table, colourful, now
from .text import painted, say_json, show

SUFFIXES = (".yaml", ".yml", ".json")

What = Annotated[
    str, typer.Argument(metavar="FILE|NAME", help='A YAML file, "-" for standard input, or the name of a job.', autocompletion=complete)
]
Format = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="Text for people, or JSON.")]


def explain(
    what: What,
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
    output: Format = "text",
) -> None:
    """Tell which rules of a job can still fire, and what they wait for.

    Of a file: which rules there are, those included that nobody writes, and which can never fire.

    Of a job on a cluster, or in a run: also which ranks have ended, which are waited for, and when those that failed start again.

    Examples: genericjob explain job.yaml; genericjob explain train; genericjob explain train --run -
    """
    chosen = namespace is not None or context or kubeconfig or run is not None or Acting.options()
    try:
        if not chosen and is_file(what):
            jobs = [(_new(document), False) for document in jobs_of([what], pods=False)]  # of pods no rule knows anything
        else:
            jobs = [(_from_server(what, kubeconfig, context, namespace, run), True)]
    except (BadInputError, InvalidSpecError) as error:
        raise misuse(error) from None
    except UnreadableStatusError as error:
        raise CommandError(f"{what}: {error}") from None
    found = [(job.identity.name, outlook(job, now(), stored=stored)) for job, stored in jobs]
    if output == "json":
        told = [{"name": name, **msgspec.to_builtins(one)} for name, one in found]
        say_json(told)
        return
    for number, (name, one) in enumerate(found):
        show(["", *explained(name, one)] if number else explained(name, one))


def is_file(what: str) -> bool:
    """Whether a word means a file: names of jobs have no slashes, and seldom such ends."""
    kind, slash, _ = what.rpartition("/")
    if what == "-" or Path(what).is_file() or what.endswith(SUFFIXES):
        return True
    return bool(slash) and kind.lower() not in PREFIXES


def _new(document: Document) -> Job:
    design = Design.of(document.name, parse(document.body["spec"]))
    return Job(JobIdentity(document.namespace, document.name, ""), 1, design, GenericJobStatus())


def _from_server(name: str, kubeconfig: str, context: str, namespace: str | None, run: str | None) -> Job:
    try:
        found = whole(find(target(kubeconfig, context, namespace, run), name))
    except (ApiError, CommandError) as error:
        # ONLY THEN: a job may well have the name of a directory.
        if Path(name).is_dir():
            raise CommandError(f"{name} is a directory: name a file in it ({error})", BAD_INPUT) from None
        raise
    return Reader().read(codec(JOBS).one(msgspec.json.encode(found)))


# ------------------------------------------------------------------------------------------------ as text


def explained(name: str, found: Outlook, *, colours: bool | None = None) -> Iterator[str]:
    """What to print."""
    colours = colourful() if colours is None else colours
    yield f"{name}: {painted(found.phase, OF_PHASE.get(found.phase, ''), colours=colours)}" if found.phase else f"{name}, before it runs"
    yield ""
    yield "It succeeds when one of these rules is met (all that the rule names has succeeded):"
    yield from _table(found.success)
    yield ""
    yield "It fails when one of these rules is met (all that the rule names has failed for good):"
    yield from _table(found.failure)
    if found.notes:
        yield ""
        yield from found.notes


def _table(standings: Sequence[Standing]) -> Iterator[str]:
    table = Table("RULE", "RANKS", "STATE", "WHY")
    for one in standings:
        table.add(one.rule, one.ranks, one.state, one.why)
    return table.lines(indent="  ")
