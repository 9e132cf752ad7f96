"""CustomResourceDefinitions: an object that is a kind."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from genericjob.reconcile.errors import Cause
from genericjob.reconcile.structs import converter

from .checks import embedded_problems, problems, repeated
from .drafts import Draft, same
from .kinds import NAMED, Kind
from .refusals import missing, wrong
from .schema import Schema, fill
from .selectors import Field

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""


def definition_kind() -> Kind:
    """The kind of definitions."""
    return Kind(
        group="apiextensions.k8s.io",
        version="v1",
        plural="customresourcedefinitions",
        kind="CustomResourceDefinition",
        namespaced=False,
        status=True,
        unconditional_update=False,
        fields={"metadata.name": NAMED["metadata.name"]},
        fill=_read_definition,
        creating=_create_definition,
        updating=_update_definition,
        check=_check_definition,
    )


def kinds_of(definition: Draft) -> Iterator[Kind]:
    """The kinds a definition makes, one for each version that is served."""
    spec = definition.peek("spec")
    for version in spec.get("versions") or ():
        if version.get("served"):
            yield custom_kind(spec, version)


def place_of(definition: Draft) -> tuple[str, str]:
    """Where the objects of a definition are stored."""
    spec = definition.peek("spec")
    return str(spec.get("group") or ""), str((spec.get("names") or {}).get("plural") or "")


def storage_version(definition: Draft) -> str:
    """The version in which objects are kept."""
    versions = definition.peek("spec").get("versions") or ()
    return next((str(version["name"]) for version in versions if version.get("storage")), "")


def custom_kind(spec: dict[str, Any], version: dict[str, Any]) -> Kind:
    """A kind with a schema."""
    schema = Schema((version.get("schema") or {}).get("openAPIV3Schema") or {})
    status = "status" in (version.get("subresources") or {})
    namespaced = spec.get("scope") != "Cluster"
    fields = dict(NAMED) if namespaced else {"metadata.name": NAMED["metadata.name"]}
    for selectable in version.get("selectableFields") or ():
        path = str(selectable.get("jsonPath") or "").removeprefix(".")
        fields[path] = Field((path,))
    return Kind(
        group=spec["group"],
        version=version["name"],
        plural=spec["names"]["plural"],
        kind=spec["names"]["kind"],
        namespaced=namespaced,
        status=status,
        unconditional_update=False,
        fields=fields,
        schema=schema,
        fill=lambda draft: fill(draft.rest, schema),
        creating=_create_with_status if status else _create,
        updating=_update_with_status if status else _update,
        updating_status=_update_status,
        check=lambda new, old: _check(schema, new, old),
        check_status=lambda new, old: _check_status(schema, new, old),
    )


# ------------------------------------------------------------------------------------------------ custom resources


def _create(draft: Draft) -> None:
    draft.meta.generation = 1


def _create_with_status(draft: Draft) -> None:
    draft.rest.pop("status", None)
    draft.meta.generation = 1


def _update(new: Draft, old: Draft) -> None:
    if not same(_content(new), _content(old)):
        new.meta.generation = old.meta.generation + 1


def _update_with_status(new: Draft, old: Draft) -> None:
    new.keep("status", old)
    _update(new, old)


def _content(draft: Draft) -> dict[str, Any]:
    return {name: value for name, value in draft.rest.items() if name not in ("apiVersion", "kind")}


def _update_status(new: Draft, old: Draft) -> None:
    """Everything but the status stays, the metadata too."""
    status = new.rest.get("status")
    version = new.meta.resource_version
    new.rest = dict(old.rest)
    new.meta = old.meta
    new.meta.resource_version = version
    if status is not None:
        new.rest["status"] = status
    else:
        new.rest.pop("status", None)


def _check(schema: Schema, new: Draft, old: Draft | None) -> Iterator[Cause]:
    content = _content(new)
    before = _content(old) if old else None
    for name in schema.required:
        if name not in content and name not in ("apiVersion", "kind", "metadata"):
            yield missing(name)
    for name, value in content.items():
        below = schema.child(name)
        if below is not None:
            yield from problems(value, below, name, before[name]) if before and name in before else problems(value, below, name)
    if "metadata" in schema.properties:
        yield from problems(msgspec.to_builtins(new.meta), schema.properties["metadata"], "metadata")
    yield from embedded_problems(content, schema)
    if before is None or not any(repeated(before, schema)):
        yield from repeated(content, schema)


def _check_status(schema: Schema, new: Draft, old: Draft) -> Iterator[Cause]:
    below = schema.child("status")
    if below is None or "status" not in new.rest:
        return
    status, before = new.rest["status"], old.rest.get("status")
    yield from problems(status, below, "status", before) if "status" in old.rest else problems(status, below, "status")
    if not any(repeated(before, below, "status")):
        yield from repeated(status, below, "status")


# ------------------------------------------------------------------------------------------------ definitions


class _Schema(msgspec.Struct, rename={"additional": "additionalProperties", "list_type": "x-kubernetes-list-type"}):
    """The types of a schema's fields, as far as they are read here."""

    type: str | None = None
    properties: dict[str, "_Schema"] | None = None
    items: "_Schema | None" = None
    additional: "bool | _Schema | None" = None
    required: list[str] | None = None
    enum: list[Any] | None = None
    pattern: str | None = None
    format: str | None = None
    list_type: str | None = None
    map_keys: list[str] | None = msgspec.field(default=None, name="x-kubernetes-list-map-keys")
    least: float | None = msgspec.field(default=None, name="minimum")
    most: float | None = msgspec.field(default=None, name="maximum")
    step: float | None = msgspec.field(default=None, name="multipleOf")
    shortest: int | None = msgspec.field(default=None, name="minLength")
    longest: int | None = msgspec.field(default=None, name="maxLength")
    fewest_items: int | None = msgspec.field(default=None, name="minItems")
    most_items: int | None = msgspec.field(default=None, name="maxItems")
    fewest_properties: int | None = msgspec.field(default=None, name="minProperties")
    most_properties: int | None = msgspec.field(default=None, name="maxProperties")


class _Validation(msgspec.Struct):
    schema: _Schema | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(msgspec.Struct):
    name: str
    served: bool = False
    storage: bool = False
    schema: _Validation | None = None
    subresources: dict[str, Any] | None = None
    selectable: list[dict[str, str]] | None = msgspec.field(default=None, name="selectableFields")


class _Names(msgspec.Struct):
    plural: str = ""
    kind: str = ""
    singular: str = ""


class _Spec(msgspec.Struct):
    group: str = ""
    scope: str = ""
    names: _Names | None = None
    versions: list[_Version] | None = None


_as_spec = converter(_Spec | None)  # type: ignore[arg-type] # a union is no type to mypy


def _read_definition(draft: Draft) -> None:
    """A definition that cannot be read is refused like any other object."""
    _as_spec(draft.rest.get("spec"))


def _create_definition(draft: Draft) -> None:
    """Here a definition is established at once; the real server takes a moment."""
    draft.meta.generation = 1
    spec = draft.section("spec")
    given = spec.get("names") if isinstance(spec.get("names"), dict) else {}
    kind = str((given or {}).get("kind") or "")
    names = {"singular": kind.lower(), "listKind": f"{kind}List", **(given or {})}
    spec["names"] = names
    spec.setdefault("conversion", {"strategy": "None"})
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
    ]
    draft.rest["status"] = {"conditions": conditions, "acceptedNames": names, "storedVersions": [storage_version(draft)]}
    if CLEANUP not in draft.meta.finalizers:
        draft.meta.finalizers = [*draft.meta.finalizers, CLEANUP]


def _update_definition(new: Draft, old: Draft) -> None:
    new.keep("status", old)
    spec, before = new.section("spec"), old.peek("spec")
    spec["names"] = {**before.get("names", {}), **(spec.get("names") or {})}
    spec.setdefault("conversion", before.get("conversion"))
    if not same(spec, before):
        new.meta.generation = old.meta.generation + 1


def _check_definition(new: Draft, old: Draft | None) -> Iterator[Cause]:
    spec = new.peek("spec")
    names = spec.get("names") or {}
    for path, value in (
        ("spec.group", spec.get("group")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
    ):
        if not value:
            yield missing(path)
    if new.meta.name != f"{names.get('plural')}.{spec.get('group')}":
        yield wrong("metadata.name", new.meta.name, "must be spec.names.plural+'.'+spec.group")
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        yield missing("spec.scope")
    versions = spec.get("versions") or ()
    if sum(1 for version in versions if version.get("storage")) != 1:
        yield wrong("spec.versions", len(versions), "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield missing(path, "schemas are required")
            continue
        try:
            Schema(schema)
        except re.error as error:
            yield wrong(path, error.pattern, f"must be a regular expression: {error}")
    if old is not None and (spec.get("group"), spec.get("scope")) != (old.peek("spec").get("group"), old.peek("spec").get("scope")):
        yield wrong("spec.scope", spec.get("scope"), "field is immutable")
