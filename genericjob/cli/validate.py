"""`genericjob validate FILE…`: all that a cluster would say about manifests, before one has seen them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from .documents import Document, Problem, UnreadableError, problems, read, repeated
from .failures import BAD_INPUT, CommandError
from .text import say, say_json

Files = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE", help='YAML files with GenericJobs, ConfigMaps and Secrets; "-" is standard input.', show_default=False),
]
Named = Annotated[
    list[str] | None,
    typer.Option("--filename", "-f", metavar="FILE", help="The same, as for apply; may be given several times.", show_default=False),
]
Strict = Annotated[bool, typer.Option("--strict", help="Take warnings for errors.")]
Format = Annotated[Literal["text", "json"], typer.Option("--output", "-o", help="Lines for people and editors, or JSON.")]


@dataclass(frozen=True)
class Remark:
    """One line of the report: a problem, and the file it is in."""

    file: str
    problem: Problem

    def __str__(self) -> str:
        place = f"{self.file}:{self.problem.line}" if self.problem.line else self.file
        return f"{place}: {self.problem}"


def validate(files: Files = None, named: Named = None, strict: Strict = False, output: Format = "text") -> None:
    """Say all that a cluster would say about manifests, without one.

    What the API server would refuse, what the controller would warn about, and what would become of the pods: with file, line and field.

    Exit code 0 when all is well, warnings or not; 2 when there are errors, and with --strict also when there are warnings.

    Example: genericjob validate job.yaml
    """
    sources = [*(named or ()), *(files or ())]
    if not sources:
        raise CommandError("which file? genericjob validate FILE", BAD_INPUT)
    documents, remarks = judged(sources)
    errors = sum(remark.problem.severity == "error" for remark in remarks)
    warnings = len(remarks) - errors
    good = not errors and not (strict and warnings)
    if output == "json":
        report = {"valid": good, "documents": len(documents), "problems": [{"file": one.file, **asdict(one.problem)} for one in remarks]}
        say_json(report)
    else:
        for remark in remarks:
            say(str(remark))
        say(_summary(documents, errors, warnings, good=good))
    if not good:
        raise typer.Exit(BAD_INPUT)


def judged(files: Sequence[str]) -> tuple[list[Document], list[Remark]]:
    """What is in files, and all there is to say of it, by file and line.

    A file that cannot be read does not hide what is wrong with the others.
    """
    documents: list[Document] = []
    remarks: list[Remark] = []
    order: dict[str, int] = {}
    for number, file in enumerate(files):
        try:
            found = read([file])
        except UnreadableError as error:
            order.setdefault(error.file, number)
            remarks.append(Remark(error.file, Problem("", error.why, error.line, "error")))
            continue
        order.setdefault(found[0].file, number)
        documents += found
        remarks += [Remark(document.file, problem) for document in found for problem in problems(document)]
    wrong = [one.problem.field for one in remarks if one.problem.severity == "error"]
    if not any(field.startswith(("kind", "metadata")) for field in wrong):  # otherwise not all have a name
        remarks += [Remark(document.file, problem) for document, problem in repeated(documents, elsewhere="warning")]
    return documents, sorted(remarks, key=lambda one: (order[one.file], one.problem.line or 0))


def _summary(documents: Sequence[Document], errors: int, warnings: int, *, good: bool) -> str:
    told = ", ".join(_counted(number, what) for number, what in ((errors, "error"), (warnings, "warning")) if number)
    if good:
        return f"OK: {_counted(len(documents), 'document')}{f', {told}' if told else ''}"
    return told


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
