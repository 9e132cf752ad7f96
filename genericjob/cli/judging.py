"""All that a server and the controller would say about an object, without either.

In the order in which a cluster would: what the server does not know, what its schema and its rules refuse (the API in memory has the
schema, `api/validation.py` the rules), what the controller warns about, and what becomes of the pods and services when it creates them.
Unlike a cluster it does not stop at the first.
"""

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from genericjob.api import crd, names
from genericjob.api.names import JobIdentity
from genericjob.api.spec import InvalidSpecError, parse
from genericjob.api.status import GenericJobStatus
from genericjob.api.validation import broken
from genericjob.jobs.decide import remarks
from genericjob.jobs.job import Design, Job
from genericjob.jobs.resource import JOBS
from genericjob.jobs.rules import unfireable
from genericjob.local.drafts import KNOWN_METADATA
from genericjob.local.memory import MemoryApi
from genericjob.local.names import label
from genericjob.local.schema import Schema, fill, prune
from genericjob.reconcile.errors import ApiError, Cause
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS, Resource

from . import templates
from .outlines import complaints, untyped
from .wording import ABSENT, Finding, meant, told, unknown, wrong_type

KNOWN: Mapping[str, Resource[Any]] = {JOBS.kind: JOBS, CONFIG_MAPS.kind: CONFIG_MAPS, SECRETS.kind: SECRETS}
"""The kinds that are looked at."""
DEFAULT_NAMESPACE = "default"
NO_FIELD = "<nil>"
"""Where a server says that there is more to come: that none of several conditions holds. Which one follows."""
SUFFIX = "xxxxx"
"""In the place of what a server adds to a `generateName`."""


def findings(body: Mapping[str, Any]) -> list[Finding]:
    """What is to be said of an object, each thing once: of one that a cluster takes, and that runs as it is written, nothing."""
    found = [*_identity(body)]
    if not found and body["kind"] in KNOWN:
        found = [*_object(body)]
    elif not found:
        found = [Finding("kind", f"a {body['kind']} is not looked at: {', '.join(KNOWN)} are", "warning")]
    return [*dict.fromkeys(found)]


def name_of(body: Mapping[str, Any]) -> str:
    """The name of an object, or one as the server would make up."""
    metadata = body["metadata"]
    return metadata.get("name") or f"{metadata['generateName'][:58]}{SUFFIX}"


def _identity(body: Mapping[str, Any]) -> Iterator[Finding]:
    """What every object needs."""
    for field in ("kind", "apiVersion"):
        if not body.get(field):
            yield Finding(field, "is missing")
        elif not isinstance(body[field], str):
            yield Finding(field, wrong_type(body[field], ["string"]))
    kind, version = body.get("kind"), body.get("apiVersion")
    if isinstance(kind, str) and kind in KNOWN and isinstance(version, str) and version and version != KNOWN[kind].api_version:
        yield Finding("apiVersion", f"the apiVersion of a {kind} is {KNOWN[kind].api_version}, not {version}")
    if isinstance(kind, str) and kind and kind not in KNOWN and isinstance(version, str) and version.partition("/")[0] == names.GROUP:
        yield from _of_our_group(kind, version)
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        yield Finding("metadata.name", "is missing") if metadata is None else Finding("metadata", wrong_type(metadata, ["object"]))
        return
    texts = {field: metadata.get(field) for field in ("name", "generateName", "namespace")}
    for field, value in texts.items():
        if value is not None and not isinstance(value, str):
            yield Finding(f"metadata.{field}", wrong_type(value, ["string"]))
    if not texts["name"] and not texts["generateName"]:
        yield Finding("metadata.name", "is missing")


def _of_our_group(kind: str, version: str) -> Iterator[Finding]:
    """A kind that our group does not have: no cluster does, either."""
    yield Finding("kind", f"{names.GROUP} has no kind {kind}{meant(kind, [names.KIND]) or f', only {names.KIND}'}")
    if version != names.API_VERSION:
        yield Finding("apiVersion", f"the apiVersion of {names.GROUP} is {names.API_VERSION}, not {version}")


def _object(body: Mapping[str, Any]) -> Iterator[Finding]:
    """An object of a kind that we know."""
    resource, body = KNOWN[body["kind"]], {**body, "metadata": {**body["metadata"]}}
    if (namespace := body["metadata"].pop("namespace", None)) and (why := label(namespace)):
        yield Finding("metadata.namespace", f"{namespace}: {why}")
    if body["metadata"].pop("resourceVersion", None):
        yield Finding("metadata.resourceVersion", "only an object that a server has can have one: leave it out")
    if resource is not JOBS:
        yield from complaints(MemoryApi(), resource, copy.deepcopy(body), DEFAULT_NAMESPACE)
        return
    yield from untyped(body["metadata"])
    refused = [*_refused(body)]
    yield from refused
    stored = copy.deepcopy({**body, "metadata": {**body["metadata"], "name": name_of(body)}})
    fill(stored, _schema())
    found = (*_unknown(body), *_never_restarting(body.get("spec")), *_job(stored, refused))
    yield from (one for one in found if not _told_already(one, refused))


def _told_already(found: Finding, refused: Sequence[Finding]) -> bool:
    """Whether it is only a consequence: of what is wrong as a whole the parts need not be told."""
    return any(found.field == one.field or found.field.startswith((f"{one.field}.", f"{one.field}[")) for one in refused)


# ------------------------------------------------------------------------------------------------ what the server says


@cache
def definition() -> dict[str, Any]:
    """What the API in memory is told of jobs."""
    return crd.definition()


@cache
def _schema() -> Schema:
    return Schema(definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def _unknown(job: Mapping[str, Any]) -> Iterator[Finding]:
    """Fields that a server does not know: kubectl has them refused."""
    for name in job["metadata"]:
        if name not in KNOWN_METADATA:
            yield Finding(f"metadata.{name}", unknown(name, KNOWN_METADATA))
    for path in prune(copy.deepcopy({**job}), _schema()):
        before, _, name = path.rpartition(".")
        _, schema, _ = _located(job, before)
        yield Finding(path, unknown(name, schema.properties if schema else (), _home(name)))


def _never_restarting(spec: Any) -> Iterator[Finding]:
    """Restarts that were asked for and that there are none of: the default of limit is the vendor's."""
    specs = spec.get("replicaSpecs") if isinstance(spec, Mapping) else None
    for number, one in enumerate(specs if isinstance(specs, list) else ()):
        policy = one.get("restartPolicy") if isinstance(one, Mapping) else None
        if isinstance(policy, Mapping) and policy.get("policy") == "OnFailure" and policy.get("limit") is None:
            text = "with OnFailure no replica is restarted unless limit is set, because its default is 0: set limit, or write Never"
            yield Finding(f"spec.replicaSpecs[{number}].restartPolicy.policy", text, "warning")


def _home(name: str) -> str:
    """Where in a spec a field belongs, if there is one such place."""
    found = [path for path in _paths(_schema().properties["spec"], "spec") if path.rpartition(".")[2] == name]
    return found[0].rpartition(".")[0] if len(found) == 1 else ""


def _paths(schema: Schema, path: str) -> Iterator[str]:
    for name, below in schema.properties.items():
        yield f"{path}.{name}"
        yield from _paths(below, f"{path}.{name}")
    if schema.items is not None:
        yield from _paths(schema.items, f"{path}[]")


def _refused(job: Mapping[str, Any]) -> Iterator[Finding]:
    """What the schema has against a job, and the server against its metadata."""
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    try:
        api.create(JOBS, job, DEFAULT_NAMESPACE, field_validation="Ignore")
    except ApiError as error:
        yield from (_complaint(cause, job) for cause in _once(error.causes) if cause.field != NO_FIELD)
        if not error.causes:  # IT COULD NOT EVEN BE READ, and nothing in it has been looked at
            yield _unreadable(error)
            if len(job["metadata"]) > 1:
                yield from _refused({**job, "metadata": {"name": name_of(job)}})


def _once(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Of a field of the spec its first complaint: a text that is too long matches no pattern either."""
    seen: set[str] = set()
    for cause in causes:
        if cause.field not in seen or not cause.field.startswith("spec"):
            yield cause
        seen.add(cause.field)


def _complaint(cause: Cause, job: Mapping[str, Any]) -> Finding:
    value, schema, parent = _located(job, cause.field)
    return Finding(cause.field, told(cause, value, schema, keys=parent.map_keys if parent else ()))


def _unreadable(error: ApiError) -> Finding:
    """A job whose metadata has the wrong types somewhere."""
    found = re.search(r"as a \w+: (.*) - at `\$\.?([\w.]*)", error.message)
    return Finding(f"metadata.{found[2]}".rstrip("."), found[1].replace("`", "")) if found else Finding("", error.message)


def _located(value: Any, path: str) -> tuple[Any, Schema | None, Schema | None]:
    """What stands at a path of a job, its schema, and the schema of what holds it."""
    schema: Schema | None = _schema()
    parent: Schema | None = None
    while path:
        step = _step(value, path)
        name, rest = path[: len(step)], path[len(step) :].removeprefix(".")
        parent = schema
        if name.startswith("["):
            number = int(name[1:-1])
            value = value[number] if isinstance(value, list) and number < len(value) else ABSENT
            schema = schema.items if schema else None
        else:
            value = value.get(name, ABSENT) if isinstance(value, Mapping) else ABSENT
            schema = schema.child(name) if schema else None
        path = rest
    return value, schema, parent


def _step(value: Any, path: str) -> str:
    """The first step of a path: the longest name that is there, since types that are none may have dots in their names."""
    if path.startswith("["):
        return path[: path.index("]") + 1]
    there = [name for name in value if path == name or path.startswith((f"{name}.", f"{name}["))] if isinstance(value, Mapping) else []
    return max(there, key=len, default=re.split(r"[.\[]", path, maxsplit=1)[0])


# ------------------------------------------------------------------------------------------------ what the controller says


def _job(job: Mapping[str, Any], refused: Sequence[Finding]) -> Iterator[Finding]:
    rules = [Finding(one.field, one.rule.message) for one in broken(job)]
    yield from rules
    try:
        spec = parse(job.get("spec"))
        design = Design.of(job["metadata"]["name"], spec)
    except InvalidSpecError as error:
        if not refused and not rules:  # told already, in better words
            field, _, message = str(error).partition(": ")
            yield Finding(field, message)
        yield from templates.findings_alone(job.get("spec"))
        return
    for rule in unfireable(spec):
        hint = meant(rule.type, design.names) if rule.why == "no such type" else ""
        if isinstance(rule.rank, range):
            hint = f"; did you mean {rule.rank.stop - 1}-{rule.rank.start}?"
        yield Finding(f"spec.{rule.field}[{rule.index}]", f"can never fire: {rule.reason}{hint}", "warning")
    identity = JobIdentity(DEFAULT_NAMESPACE, job["metadata"]["name"], "")
    for news in remarks(Job(identity, 1, design, GenericJobStatus())):
        if news.reason == names.Reason.UNKNOWN_TYPE:
            field, _, message = news.message.partition(": ")
            yield Finding(f"spec.{field}.type", message, "warning")
    yield from templates.findings(spec)
