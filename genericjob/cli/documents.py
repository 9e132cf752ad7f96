"""Manifests from files: YAML documents, read as kubectl reads them, and judged before anything starts."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from genericjob.api import names
from genericjob.api.spec import InvalidSpecError, parse
from genericjob.jobs.job import Design

TAKEN = {names.KIND: names.API_VERSION, "ConfigMap": "v1", "Secret": "v1"}
DEFAULT_NAMESPACE = "default"


class BadInputError(Exception):
    """What the user wrote cannot be used; says which field, and why."""


@dataclass(frozen=True)
class Document:
    """One object of a file."""

    body: Mapping[str, Any]
    where: str
    """For messages: which document it is."""

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.body["kind"])

    @property
    def namespace(self) -> str:
        """Where it goes."""
        return self.body["metadata"].get("namespace") or DEFAULT_NAMESPACE


def read(source: str) -> list[Document]:
    """The objects of a file, or of standard input for "-"."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text()
    except OSError as error:
        raise BadInputError(f"{source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{source}: this is not text in UTF-8") from None
    name = "standard input" if source == "-" else source
    found = [_checked(body, where) for body, where in _objects(text, name)]
    if not any(document.kind == names.KIND for document in found):
        raise BadInputError(f"{name}: there is no {names.KIND} in it")
    return found


# ------------------------------------------------------------------------------------------------ from text to objects


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc] # the quick one where there is one
    """Reads a time as the text it is: JSON knows no times."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as the class above has it
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _objects(text: str, source: str) -> Iterator[tuple[Any, str]]:
    try:
        documents = [found for found in yaml.load_all(text, _Loader) if found is not None]
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        raise BadInputError(f"{source}:{line} {error.problem or 'this is not YAML'}") from None
    except yaml.YAMLError as error:
        raise BadInputError(f"{source}: this is not YAML: {str(error).splitlines()[0]}") from None
    several = len(documents) > 1
    for number, found in enumerate(documents, 1):
        where = f"{source}, document {number}" if several else source
        if isinstance(found, dict) and found.get("kind") == "List" and isinstance(found.get("items"), list):
            for index, item in enumerate(found["items"]):
                yield item, f"{where}, items[{index}]"
        else:
            yield found, where


def _checked(body: Any, where: str) -> Document:
    if not isinstance(body, dict):
        raise BadInputError(f"{where}: this is not an object")
    kind, version = body.get("kind"), body.get("apiVersion")
    if kind not in TAKEN:
        what = "kind is missing" if kind is None else f"kind {kind!r} cannot be run on this machine"
        raise BadInputError(f"{where}: {what}: GenericJob, ConfigMap and Secret can be")
    if version != TAKEN[kind]:
        raise BadInputError(f"{where}: apiVersion of a {kind} is {TAKEN[kind]}, not {version!r}")
    meta = body.get("metadata")
    if not isinstance(meta, dict) or not (_is_text(meta.get("name")) or _is_text(meta.get("generateName"))):
        raise BadInputError(f"{where}: metadata.name is missing, or is not text")
    if meta.get("namespace") is not None and not _is_text(meta["namespace"]):
        raise BadInputError(f"{where}: metadata.namespace is not text")
    try:
        body = msgspec.json.decode(msgspec.json.encode(body))  # what JSON cannot say, the server would not understand either
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise BadInputError(f"{where}: {error}") from None
    if kind == names.KIND:
        _check_job(body, where)
    return Document(body, where)


def _check_job(body: Mapping[str, Any], where: str) -> None:
    name = body["metadata"].get("name") or f"{body['metadata']['generateName']}xxxxx"
    try:
        spec = parse(body.get("spec"))
        Design.of(name, spec)
    except InvalidSpecError as error:
        raise BadInputError(f"{where}: {error}") from None
    if spec.managed_by not in (None, names.MANAGER):
        raise BadInputError(f"{where}: spec.managedBy: {spec.managed_by} runs this job, and is not here")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
