"""Manifests from files: YAML documents, read as kubectl reads them, and judged before anything starts.

read         files become documents, whatever is in them
problems     all that a server and the controller would say of one, with lines (`judging.py`)
runnable     both, for those who can only go on with what is right
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from genericjob.api import names

from .judging import DEFAULT_NAMESPACE, KNOWN, findings, name_of
from .lines import NotYamlError, Parsed, parse
from .text import one_line
from .wording import Severity

STANDARD_INPUT = "-"


class BadInputError(Exception):
    """What the user wrote cannot be used: a line of text for each thing that is wrong, with its place."""


class UnreadableError(BadInputError):
    """A file that cannot be read, or in which something is no object."""

    def __init__(self, file: str, why: str, line: int | None = None) -> None:
        why = one_line(why)
        super().__init__(f"{file}:{line}: error: {why}" if line else f"{file}: {why}")
        self.file, self.why, self.line = file, why, line


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a document, or may be."""

    field: str
    message: str
    line: int | None
    """In its file, if it is in a line."""
    severity: Severity

    def __str__(self) -> str:
        return one_line(f"{self.severity}: {self.field}: {self.message}" if self.field else f"{self.severity}: {self.message}")


@dataclass(frozen=True)
class Document:
    """One object of a file."""

    body: Mapping[str, Any]
    where: str
    """For messages: which document it is."""
    file: str
    source: Parsed

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.body.get("kind"))

    @property
    def namespace(self) -> str:
        """Where it goes."""
        metadata = self.body.get("metadata")
        return (metadata.get("namespace") if isinstance(metadata, Mapping) else None) or DEFAULT_NAMESPACE

    @property
    def name(self) -> str:
        """How it is called, if its problems do not say that it has no name; a made-up name ends with xxxxx."""
        return name_of(self.body)

    def line(self, field: str) -> int:
        """The line of a field in its file; of one that is not there, of the nearest that would hold it."""
        return self.source.line(field)

    def told(self, problem: Problem) -> str:
        """A problem as it is printed, by every command in the same way."""
        return f"{self.file}:{problem.line}: {problem}"


def read(sources: Sequence[str]) -> list[Document]:
    """The objects of files, "-" being standard input; raises UnreadableError where there is no text, YAML or object, or nothing."""
    if sources.count(STANDARD_INPUT) > 1:
        raise UnreadableError("standard input", "can be read only once")
    found = [document for source in sources for document in _documents(source)]
    if not found:
        raise UnreadableError(", ".join(map(_called, sources)), "there is nothing in it")
    return found


def problems(document: Document) -> list[Problem]:
    """All that is wrong with a document, by line."""
    found = [Problem(one.field, one.message, document.line(one.field), one.severity) for one in findings(document.body)]
    return sorted(found, key=lambda problem: problem.line or 0)


def repeated(documents: Sequence[Document], *, elsewhere: Severity = "error") -> Iterator[tuple[Document, Problem]]:
    """Objects that were there before under the same name. All must have one, or the server makes it up.

    `elsewhere` is how bad it is if the other one is in another file: both may be there to choose from.
    """
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        if document.body["metadata"].get("name"):
            key = document.kind, document.namespace, document.name
            if first := seen.get(key):
                text = f"{document.kind} {document.name} is there already, at {first.file}:{first.line('metadata.name')}"
                severity = "error" if document.file == first.file else elsewhere
                if severity == "warning":
                    text += ": of files that are applied together the last one wins"
                yield document, Problem("metadata.name", text, document.line("metadata.name"), severity)
            seen.setdefault(key, document)


def runnable(sources: Sequence[str], change: Callable[[Sequence[Document]], list[Document]] = list) -> list[Document]:
    """The objects of files for a run on this machine, after this `change`; raises BadInputError with all that is wrong with them."""
    documents = change(read(sources))
    wrong = [document.told(problem) for document in documents for problem in _obstacles(document)]
    wrong += [document.told(problem) for document, problem in repeated(documents)] if not wrong else []
    if wrong:
        raise BadInputError("\n".join(wrong))
    _check_for_jobs(documents, sources)
    return documents


def remarks(documents: Sequence[Document]) -> list[str]:
    """What people should know of documents that can be run, before anything runs."""
    return [document.told(problem) for document in documents for problem in problems(document)]


def jobs_of(sources: Sequence[str], *, pods: bool) -> list[Document]:
    """The GenericJobs of files; raises BadInputError with all that is wrong with them, of their `pods` only where those matter."""
    documents = [document for document in read(sources) if document.kind == names.KIND]
    found = [(document, problem) for document in documents for problem in problems(document) if problem.severity == "error"]
    wrong = [document.told(problem) for document, problem in found if pods or ".template." not in problem.field]
    if wrong:
        raise BadInputError("\n".join(wrong))
    _check_for_jobs(documents, sources)
    return documents


def _check_for_jobs(documents: Sequence[Document], sources: Sequence[str]) -> None:
    if not any(document.kind == names.KIND for document in documents):
        raise BadInputError(f"{', '.join(map(_called, sources))}: there is no {names.KIND} in it")


def _obstacles(document: Document) -> Iterator[Problem]:
    """What keeps a document from being used on this machine."""
    errors = [problem for problem in problems(document) if problem.severity == "error"]
    yield from errors
    if errors:
        return
    if document.kind not in KNOWN:
        yield Problem("kind", f"{document.kind!r} cannot be run on this machine: {', '.join(KNOWN)} can be", document.line("kind"), "error")
    manager = document.body.get("spec", {}).get("managedBy") if document.kind == names.KIND else None
    if manager not in (None, names.MANAGER):
        yield Problem("spec.managedBy", f"{manager} runs this job, and is not here", document.line("spec.managedBy"), "error")


# ------------------------------------------------------------------------------------------------ from files to documents


def _documents(source: str) -> Iterator[Document]:
    file = _called(source)
    try:
        text = _text(source)
    except OSError as error:
        raise UnreadableError(file, error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise UnreadableError(file, "this is not text in UTF-8") from None
    yield from parsed(text, file)


def parsed(text: str, file: str) -> Iterator[Document]:
    """The objects of a text, which messages call by the name of a file; raises UnreadableError."""
    try:
        found = parse(text)
    except NotYamlError as error:
        raise UnreadableError(file, str(error), error.line) from None
    several = len(found) > 1
    for number, one in enumerate(found, 1):
        where = f"{file}, document {number}" if several else file
        if isinstance(one.value, dict) and one.value.get("kind") == "List" and isinstance(one.value.get("items"), list):
            for index, item in enumerate(one.items("items")):
                yield _document(item, f"{where}, items[{index}]", file)
        else:
            yield _document(one, where, file)


def _document(source: Parsed, where: str, file: str) -> Document:
    if not isinstance(source.value, dict):
        raise UnreadableError(file, "this is not an object", source.line(""))
    try:
        body = msgspec.json.decode(msgspec.json.encode(source.value))  # what JSON cannot say, the server would not understand either
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise UnreadableError(file, str(error), source.line("")) from None
    return Document(body, where, file, source)


def _text(source: str) -> str:
    if source != STANDARD_INPUT:
        return Path(source).read_text(encoding="utf-8")
    if sys.stdin is None:
        raise UnreadableError(_called(source), "is closed")
    return sys.stdin.buffer.read().decode()


def _called(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else source
