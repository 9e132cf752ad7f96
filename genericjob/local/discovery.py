"""What the API in memory tells about itself: which groups, versions and kinds it has, under which names kubectl may ask for them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from genericjob import __version__
from genericjob.reconcile.resources import Resource

from .kinds import Kind

VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
_SHORT = {
    "pods": ("po",),
    "services": ("svc",),
    "configmaps": ("cm",),
    "serviceaccounts": ("sa",),
    "events": ("ev",),
    "nodes": ("no",),
    "namespaces": ("ns",),
    "customresourcedefinitions": ("crd", "crds"),
}
_IN_ALL = frozenset(("pods", "services"))


class Column(msgspec.Struct, rename="camel"):
    """A column that a definition wants to be printed."""

    name: str
    type: str
    json_path: str
    description: str = ""
    priority: int = 0


class _Names(msgspec.Struct, rename="camel"):
    plural: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _Validation(msgspec.Struct):
    schema: dict[str, Any] = msgspec.field(default_factory=dict, name="openAPIV3Schema")


class _Version(msgspec.Struct, rename="camel"):
    name: str
    additional_printer_columns: tuple[Column, ...] = ()
    schema: _Validation = msgspec.field(default_factory=_Validation)


class _Spec(msgspec.Struct):
    group: str
    names: _Names
    versions: tuple[_Version, ...] = ()


class Definition(msgspec.Struct):
    """A CustomResourceDefinition, as far as clients are told of it."""

    spec: _Spec

    def columns(self, version: str) -> Sequence[Column]:
        """What is to be printed of an object."""
        return next((found.additional_printer_columns for found in self.spec.versions if found.name == version), ())

    def schema(self, version: str) -> Mapping[str, Any]:
        """What its objects consist of."""
        return next((found.schema.schema for found in self.spec.versions if found.name == version), {})


DEFINITIONS: Resource[Definition] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    Definition,
    lambda definition: definition,
    namespaced=False,
)

Definitions = Mapping[tuple[str, str], Definition]
"""By group and plural."""


def by_place(definitions: Iterable[Definition]) -> Definitions:
    """Definitions, where the objects are."""
    return {(found.spec.group, found.spec.names.plural): found for found in definitions}


def version() -> dict[str, str]:
    """As `/version` has it. The number is that of the server which is imitated."""
    return {"major": "1", "minor": "34", "gitVersion": f"v1.34.0+genericjob.{__version__}", "platform": "this machine"}


def core_versions() -> dict[str, Any]:
    """As `/api` has it."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def groups(kinds: Iterable[Kind]) -> dict[str, Any]:
    """As `/apis` has it."""
    known: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.group and kind.version not in known.setdefault(kind.group, []):
            known[kind.group].append(kind.version)
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, versions) for name, versions in known.items()]}


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    told = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": told, "preferredVersion": told[0]}


def group(name: str, kinds: Iterable[Kind]) -> dict[str, Any] | None:
    """As `/apis/GROUP` has it, if there is such a group."""
    versions = list(dict.fromkeys(kind.version for kind in kinds if kind.group == name))
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resources(group: str, version: str, kinds: Iterable[Kind], definitions: Definitions) -> dict[str, Any] | None:
    """As `/apis/GROUP/VERSION` has it, if there is such a version."""
    own = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not own:
        return None
    told = [told for kind in own for told in _resources(kind, definitions.get(kind.place))]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": own[0].api_version, "resources": told}


def _resources(kind: Kind, definition: Definition | None) -> Iterator[dict[str, Any]]:
    names = definition.spec.names if definition else None
    common = {"namespaced": kind.namespaced, "kind": kind.kind}
    short = (names.short_names if names else _SHORT.get(kind.plural)) or ()
    categories = names.categories if names else ("all",) if kind.plural in _IN_ALL else ()
    yield {
        "name": kind.plural,
        "singularName": (names.singular if names else "") or kind.kind.lower(),
        **common,
        "verbs": VERBS,
        **({"shortNames": short} if short else {}),
        **({"categories": categories} if categories else {}),
    }
    if kind.status:
        yield {"name": f"{kind.plural}/status", "singularName": "", **common, "verbs": ("get", "patch", "update")}
    if kind.place == ("", "pods"):
        yield {"name": "pods/log", "singularName": "", **common, "verbs": ("get",)}


# ------------------------------------------------------------------------------------------------ OpenAPI


def openapi_paths(kinds: Iterable[Kind]) -> dict[str, Any]:
    """As `/openapi/v3` has it: where the documents are."""
    places = dict.fromkeys(_root(kind.group, kind.version) for kind in kinds)
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}"} for place in places}}


def openapi(group: str, version: str, kinds: Iterable[Kind], definitions: Definitions) -> dict[str, Any] | None:
    """The document of a version, for kubectl: that this server looks for unknown fields itself, and what custom kinds consist of."""
    own = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    looks = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for kind in own:
        named = {"group": group, "version": version, "kind": kind.kind}
        told = {"responses": {}, "x-kubernetes-group-version-kind": named}
        place = f"/{_root(group, version)}{'/namespaces/{namespace}' if kind.namespaced else ''}/{kind.plural}"
        paths[place] = {"get": told}
        paths[f"{place}/{{name}}"] = {"patch": {"parameters": [looks], **told}}
        if definition := definitions.get(kind.place):
            schemas[f"{group}.{version}.{kind.kind}"] = {**definition.schema(version), "x-kubernetes-group-version-kind": [named]}
    head = {"openapi": "3.0.0", "info": {"title": "GenericJob", "version": __version__}}
    return {**head, "paths": paths, "components": {"schemas": schemas}} if own else None


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"
