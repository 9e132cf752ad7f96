"""What the command line of a run changes in its manifests: `--set replicas.worker=2` and `--env NAME=VALUE`.

Both are put into the objects before they are judged, so that rules, variables and `get -o yaml` know nothing else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from genericjob.api import names
from genericjob.api.spec import MAX_REPLICAS

from .documents import BadInputError, Document

REPLICAS = "replicas."
_NAME = re.compile(r"[A-Za-z_.-][A-Za-z0-9_.-]*")


def overridden(documents: Sequence[Document], *, settings: Sequence[str] = (), env: Sequence[str] = ()) -> list[Document]:
    """Return the documents with these settings; raises BadInputError for one that means nothing in them."""
    replicas = dict(map(_replicas, settings))
    variables = dict(map(_variable, env))
    known = {part["type"] for document in documents for part in _parts(document.body) if isinstance(part.get("type"), str)}
    for type in replicas:
        if type not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "there are none"
            raise BadInputError(f"--set {REPLICAS}{type}: there is no replica type {type!r} in the files: {there}")
    if not replicas and not variables:
        return list(documents)
    return [replace(document, body=_changed(document.body, replicas, variables)) for document in documents]


def _replicas(setting: str) -> tuple[str, int]:
    name, equals, value = setting.rpartition("=")
    if not equals or not name.startswith(REPLICAS) or name == REPLICAS or not value.isascii() or not value.isdigit():
        raise BadInputError(f"--set {setting}: only numbers of replicas can be set, such as --set {REPLICAS}worker=2")
    digits = value.lstrip("0") or "0"
    if len(digits) > len(str(MAX_REPLICAS)) or int(digits) > MAX_REPLICAS:  # PYTHON READS NO NUMBER with thousands of digits
        raise BadInputError(f"--set {setting}: a job has at most {MAX_REPLICAS} replicas in sum")
    return name.removeprefix(REPLICAS), int(digits)


def _variable(written: str) -> tuple[str, str]:
    name, equals, value = written.partition("=")
    if not equals or not _NAME.fullmatch(name):
        raise BadInputError(f"--env {written}: a variable is written as NAME=VALUE")
    return name, value


def _parts(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The replica specs of a job. NOBODY HAS JUDGED IT YET: anything may be anywhere."""
    found = _at(body, "spec", "replicaSpecs") if body.get("kind") == names.KIND else None
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _at(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _changed(body: Mapping[str, Any], replicas: Mapping[str, int], variables: Mapping[str, str]) -> Mapping[str, Any]:
    if not _parts(body):
        return body
    specs = [_part(part, replicas, variables) if isinstance(part, dict) else part for part in body["spec"]["replicaSpecs"]]
    return {**body, "spec": {**body["spec"], "replicaSpecs": specs}}


def _part(part: Mapping[str, Any], replicas: Mapping[str, int], variables: Mapping[str, str]) -> Mapping[str, Any]:
    type = part.get("type")
    changed = {**part, "replicas": replicas[type]} if isinstance(type, str) and type in replicas else dict(part)
    pod = _at(part, "template", "spec")
    if not variables or not isinstance(pod, Mapping):
        return changed
    groups = {name: pod[name] for name in ("initContainers", "containers") if isinstance(pod.get(name), list)}
    own = {name: [_container(each, variables) if isinstance(each, dict) else each for each in group] for name, group in groups.items()}
    return {**changed, "template": {**part["template"], "spec": {**pod, **own}}}


def _container(container: Mapping[str, Any], variables: Mapping[str, str]) -> Mapping[str, Any]:
    before = container.get("env") or []
    if not isinstance(before, list):
        return container
    left = dict(variables)
    kept = [{"name": each["name"], "value": left.pop(each["name"])} if _at(each, "name") in left else each for each in before]
    # FIRST, so that other variables can refer to it.
    return {**container, "env": [*({"name": name, "value": value} for name, value in left.items()), *kept]}
