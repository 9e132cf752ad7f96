"""`genericjob render FILE…`: the pods and services that the controller would make of a job, made by its own code."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import typer
import yaml

from genericjob.api.names import JobIdentity, Rank
from genericjob.jobs.bodies import Bodies, bare_name
from genericjob.jobs.job import Job
from genericjob.jobs.podgroups import body_of, wanted_of
from genericjob.jobs.resource import JOBS, PODS, Reader
from genericjob.local.memory import MemoryApi
from genericjob.local.writing import random_uid
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS

from .documents import BadInputError, Document, jobs_of
from .failures import misuse
from .judging import DEFAULT_NAMESPACE, definition
from .lines import Dumper
from .ranks import Rank as Shown
from .ranks import Ranks, Types, chosen
from .text import say, say_json, say_yaml

UID = "00000000-0000-0000-0000-000000000000"
"""In the place of the job's, which only a server can give."""
COMMENT = f"# As the controller would create them. {UID} stands for the UID of the job, which it gets from the server.\n"

Files = Annotated[list[str], typer.Argument(metavar="FILE", help='YAML files with GenericJobs; "-" is standard input.')]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of jobs that name none.")]
Resumed = Annotated[bool, typer.Option("--resumed", help="As they are after a pause: with the commands and arguments of resumeSpecs.")]
Format = Annotated[Literal["yaml", "json"], typer.Option("--output", "-o", help="YAML documents, or a List in JSON.")]


def render(
    files: Files,
    type: Types = None,
    rank: Ranks = "",
    resumed: Resumed = False,
    namespace: Namespace = DEFAULT_NAMESPACE,
    output: Format = "yaml",
) -> None:
    """Print the pods and services that the controller would make of a job.

    In the order in which it makes them: the PodGroup if there is one, services, pods. Variables are replaced, labels and owners there.

    Example: genericjob render job.yaml --type worker --rank 0
    """
    try:
        documents = jobs_of(files, pods=True)
    except BadInputError as error:
        raise misuse(error) from None
    found = [
        body for document in documents for body in rendered(document, namespace=namespace, types=type or (), ranks=rank, resumed=resumed)
    ]
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": found}
        say_json(listed)
    else:
        say(COMMENT.rstrip("\n"))
        say_yaml(partial(yaml.dump_all, found, Dumper=_Dumper, sort_keys=False, width=140))


def rendered(
    document: Document, *, namespace: str = DEFAULT_NAMESPACE, types: Sequence[str] = (), ranks: str = "", resumed: bool = False
) -> list[dict[str, Any]]:
    """The objects of a job, or those of some of its ranks."""
    job = _stored(document, namespace)
    all = [Shown(type, number, name, "") for type, found in job.design.names.items() for number, name in enumerate(found)]
    wanted = [Rank(one.type, one.number) for one in chosen(all, types, ranks)]
    return [*(_group(job) if len(wanted) == len(all) else ()), *_bodies(job, wanted, resumed=resumed)]


def _stored(document: Document, namespace: str) -> Job:
    """A job as it comes back from a server: with all defaults filled in."""
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    kept = {
        name: value for name, value in document.body["metadata"].items() if name not in ("generateName", "namespace", "resourceVersion")
    }
    made = api.create(JOBS, {**document.body, "metadata": {**kept, "name": document.name}}, DEFAULT_NAMESPACE)
    where = document.body["metadata"].get("namespace") or namespace
    return replace(Reader().read(made.object), identity=JobIdentity(where, document.name, UID))


def _group(job: Job) -> Iterator[dict[str, Any]]:
    wanted = wanted_of(job)
    if wanted and job.spec.total:
        yield body_of(job, wanted)


def _bodies(job: Job, ranks: Sequence[Rank], *, resumed: bool) -> Iterator[dict[str, Any]]:
    bodies = Bodies(pods=PODS, host=bare_name, new_id=random_uid).of(job, resumed=resumed)
    if job.spec.service and job.spec.service.ports:
        yield from (msgspec.json.decode(bodies.service(rank).body()) for rank in ranks)
    for rank in ranks:
        yield msgspec.json.decode(bodies.pod(rank, epoch=0, attempt=0, charged=0).body())


class _Dumper(Dumper):
    """Writes long texts as people do, and nothing twice by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        """Whatever it is."""
        return True


def _text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    node: yaml.ScalarNode = dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)
    return node


_Dumper.add_representer(str, _text)
