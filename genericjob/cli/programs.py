"""Containers that cannot become programs of this machine: those that leave it to their image what to run.

Whoever has no image does not know its entry point. That is certain before anything starts, and no restart would change it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from genericjob.api import names
from genericjob.api.spec import parse
from genericjob.jobs.modes import mode_of

from .documents import BadInputError, Document, Problem


def check_programs(documents: Sequence[Document]) -> None:
    """Raise BadInputError with all containers of jobs that name no program."""
    jobs = (document for document in documents if document.kind == names.KIND)
    wrong = [document.told(problem) for document in jobs for problem in _without_program(document)]
    if wrong:
        raise BadInputError("\n".join(wrong))


def _without_program(document: Document) -> Iterator[Problem]:
    spec = parse(document.body["spec"])
    for number, part in enumerate(spec.replica_specs):
        # AS THE FIRST PODS WILL BE: a job that is debugged waits instead of working, and one that begins paused is resumed before it runs.
        template = mode_of(spec, type=part.type, resumed=spec.paused).applied(part.template)
        for place, container in _containers(template["spec"]) if part.replicas else ():
            if not container.get("command"):
                field = f"spec.replicaSpecs[{number}].template.spec.{place}"
                image = container.get("image") or "the image"
                text = f"is missing, and what {image} runs by itself is not known here: write the program into it"
                yield Problem(f"{field}.command", text, document.line(field), "error")


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(name) or ()):
            yield f"{name}[{number}]", container
