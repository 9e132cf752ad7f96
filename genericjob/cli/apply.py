"""`genericjob apply`: what files say, put on the server.

An object that does not exist is created. One that exists is changed as kubectl would: fields of the file take the place of the server's,
and fields that the last apply had and this one has not are removed. What was applied is remembered where kubectl remembers it, so both can
be used in turn. The server is the judge. When it refuses an object, all that `validate` knows of it is reported as well, each finding once
and with its line. What it takes although no pod can come of it is reported as a warning: it looks into templates only when pods
are created.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import typer

from genericjob.api.admission import RULES
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import MERGE_PATCH
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, Key, Resource

from .applied import LAST_APPLIED, last_applied, remembering
from .documents import BadInputError, Document, Problem, problems, read
from .failures import BAD_INPUT, CommandError, misuse
from .jobs import JOBS
from .options import NAMESPACE_PATTERN, Context, Kubeconfig, Local, Namespace, Target, target
from .text import say

NOT_CHECKED = "some validation rules were not checked"
"""What a server adds when it has said what is wrong."""
CHOICES = "must validate at least one schema (anyOf)"
"""What a server says before it says of which element a list has to be without."""
RESOURCES: Mapping[str, Resource[dict[str, Any]]] = {JOBS.kind: JOBS, "ConfigMap": CONFIG_MAPS, "Secret": SECRETS}
TRIES = 3
_NOT_DECODED = "cannot be handled as"
"""What a server says of an object whose metadata has other types than metadata has: in words for the server's programmers."""
_UNKNOWN_FIELD = re.compile(r'(unknown|duplicate) field "([^"]+)"')

Body = dict[str, Any]

Files = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", metavar="FILE", help='A YAML file, "-" is standard input; may be given several times.', show_default=False
    ),
]
MoreFiles = Annotated[list[str] | None, typer.Argument(metavar="FILE", help="The same, without an option.", show_default=False)]
DryRun = Annotated[Literal["none", "server"], typer.Option("--dry-run", help="server: let the server judge, and keep nothing.")]


def apply(
    more: MoreFiles = None,
    files: Files = None,
    dry_run: DryRun = "none",
    namespace: Namespace = None,
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    run: Local = None,
) -> None:
    """Create jobs from files, or change those that exist.

    GenericJobs, ConfigMaps and Secrets. Exit code 2 when a file is wrong or the server refuses what is in it.
    """
    sources = [*(files or ()), *(more or ())]
    if not sources:
        raise CommandError("which file? genericjob apply -f FILE", BAD_INPUT)
    if dry_run == "server" and run is not None:
        raise CommandError("--dry-run needs a cluster; `genericjob validate` judges files without one", BAD_INPUT)
    try:
        documents = read(sources)
    except BadInputError as error:
        raise CommandError(str(error), BAD_INPUT) from None
    if wrong := [*_unusable(documents)]:
        raise misuse(BadInputError("\n".join(wrong)))
    where = target(kubeconfig, context, namespace, run)
    refused = False
    for document in documents:
        try:
            say(_Application(where, document, namespace, dry=dry_run == "server").go())
            for problem in problems(document):  # A SERVER THAT TOOK IT has not looked into its templates
                say(document.told(replace(problem, severity="warning")), err=True)
        except BadInputError as error:
            say(str(error), err=True)
            refused = True
    if refused:
        raise typer.Exit(BAD_INPUT)


def _unusable(documents: Sequence[Document]) -> Iterator[str]:
    """What is wrong with documents for which a server need not be asked; of each all that is known, in the words of `validate`."""
    for document in documents:
        try:
            _check(document)
        except BadInputError as error:
            yield from [document.told(one) for one in problems(document) if one.severity == "error"] or [str(error)]


def _check(document: Document) -> None:
    """What has to be right before a server can be asked."""
    known = RESOURCES.get(document.kind)
    if known is None:
        raise BadInputError(f"{document.where}: kind {document.kind!r} is not for this command: it takes {', '.join(RESOURCES)}")
    if document.body.get("apiVersion") != known.api_version:
        raise BadInputError(
            f"{document.where}: apiVersion of a {known.kind} is {known.api_version}, not {document.body.get('apiVersion')!r}"
        )
    meta = document.body.get("metadata")
    if not isinstance(meta, dict) or not (meta.get("name") or meta.get("generateName")):
        raise BadInputError(f"{document.where}: metadata.name is missing")
    namespace = meta.get("namespace")
    if namespace is not None and not (isinstance(namespace, str) and NAMESPACE_PATTERN.fullmatch(namespace or "default")):
        raise _wrong(document, "metadata.namespace", f"{namespace!r} is not the name of a namespace")
    if not isinstance(meta.get("annotations") or {}, dict):
        raise _wrong(document, "metadata.annotations", "this is not an object")


def _wrong(document: Document, field: str, text: str) -> BadInputError:
    return BadInputError(document.told(Problem(field, text, document.line(field), "error")))


class _Application:
    """One object on its way to the server."""

    def __init__(self, where: Target, document: Document, namespace: str | None, *, dry: bool) -> None:
        self._where, self._api, self._document, self._dry = where, where.api, document, dry
        self._resource = RESOURCES[document.kind]
        meta = document.body["metadata"]
        given = meta.get("namespace")
        if given and namespace and given != namespace:
            raise BadInputError(f"{document.where}: metadata.namespace is {given}, and --namespace {namespace}: which one?")
        self._namespace = given or where.namespace
        self._name = str(meta.get("name") or "")
        self._body = remembering({**document.body, "metadata": {**meta, "namespace": self._namespace}})

    def go(self) -> str:
        """Put it there; returns what was done."""
        for _ in range(TRIES):
            try:
                return self._create()
            except ApiError as error:
                if not (error.already_exists and self._name):
                    raise self._refusal(error) from None
            try:
                return self._change()
            except ApiError as error:
                if not error.not_found:  # else it was deleted this moment
                    raise self._refusal(error) from None
        raise CommandError(f"{self._title(self._name)} comes and goes: somebody else creates and deletes it")

    def _title(self, name: str) -> str:
        return f"{self._resource.kind.lower()}/{name}"

    def _query(self) -> dict[str, str]:
        return {"fieldValidation": "Strict", "dryRun": "All" if self._dry else ""}

    def _create(self) -> str:
        answer = self._api.request("POST", self._resource.path(self._namespace), self._query(), self._body)
        return self._said(msgspec.json.decode(answer.data), "created")

    def _change(self) -> str:
        key = Key(self._namespace, self._name)
        current = self._api.get(self._resource, key)
        patch = merge_patch(last_applied(current), self._body, current)
        if not patch:
            return self._said(current, "unchanged")
        answer = self._api.request("PATCH", self._resource.path(*key), self._query(), patch, content=MERGE_PATCH)
        stored = msgspec.json.decode(answer.data)
        # DEFAULTS ARE FILLED IN BY THE SERVER, in lists as well: only it can tell whether something has become different.
        return self._said(stored, "unchanged" if _essence(stored) == _essence(current) else "changed")

    def _said(self, stored: Body, what: str) -> str:
        return f"{self._title(stored['metadata']['name'])} {what}{' (dry run)' if self._dry else ''}"

    def _refusal(self, error: ApiError) -> Exception:
        """Return all that is wrong with the document: what `validate` knows, and what only the server does."""
        if error.code not in (400, 422):
            return error
        known = problems(self._document)
        wrong = {one.field for one in known if one.severity == "error"}
        fields = list(_fields(error))
        found = [Problem(field, text, self._document.line(field), "error") for field, text in fields if _is_news(field, text, wrong)]
        lines = [self._document.told(one) for one in sorted((*known, *found), key=lambda one: one.line or 0)]
        if not fields and not (wrong and _NOT_DECODED in error.message):
            lines.append(f"{self._document.where}: {error.message}")
        return BadInputError("\n".join((*lines, *self._hints(error.message))))

    def _hints(self, message: str) -> Iterator[str]:
        if "cannot be changed" in message:
            how = self._where.command(f"delete {self._name}", self._namespace)
            yield f"genericjob: to have it otherwise, delete the job and apply it again: {how}"
        elif "only while the job is paused" in message:
            yield f"genericjob: pause it before: {self._where.command(f'pause {self._name}', self._namespace)}"


def _is_news(field: str, text: str, wrong: Collection[str]) -> bool:
    """Whether only the server can know what it says of a field: it does not stand in the file, or is about what the object was before."""
    return field not in wrong or any(rule.asked == "at a change" and rule.message in text for rules in RULES.values() for rule in rules)


def _fields(error: ApiError) -> Iterator[tuple[str, str]]:
    for cause in error.causes:
        if (cause.field or cause.message) and NOT_CHECKED not in cause.message and CHOICES not in cause.message:
            yield cause.field.strip("<>"), cause.message
    if not error.causes:
        for how, field in _UNKNOWN_FIELD.findall(error.message):
            yield field, f"{how} field"


def _essence(body: Body) -> Body:
    """An object but for what changes by itself."""
    meta = {name: value for name, value in body["metadata"].items() if name not in ("resourceVersion", "generation", "managedFields")}
    notes = {name: value for name, value in (meta.pop("annotations", None) or {}).items() if name != LAST_APPLIED}
    return {name: value for name, value in body.items() if name != "status"} | {"metadata": meta, "annotations": notes}


def merge_patch(before: Mapping[str, Any], wanted: Mapping[str, Any], current: Mapping[str, Any]) -> Body:
    """What makes `wanted` of `current`, and takes away what was applied before and is not wanted any more."""
    patch: Body = {name: None for name in before if name in current and wanted.get(name) is None}
    for name, value in wanted.items():
        there = current.get(name)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            inner = before.get(name)
            if below := merge_patch(inner if isinstance(inner, Mapping) else {}, value, there):
                patch[name] = below
        elif value != there and value is not None:
            patch[name] = value
    return patch
