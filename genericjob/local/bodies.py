"""Reading requests: bytes or dicts become drafts, or are refused.

Two doors with two ways of saying no, as on the real server: what a create or replace sends and cannot be read is a bad request, what a
patch makes and cannot be read is invalid.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from genericjob.reconcile.api import Body, FieldValidation
from genericjob.reconcile.codec import encode

from . import refusals
from .drafts import KNOWN_METADATA, Draft, Meta, as_meta
from .kinds import Kind
from .received import as_text, read
from .schema import coerce_embedded, prune

REQUEST_LIMIT = 3 * 1024 * 1024


def sent(body: Body, kind: Kind, validation: FieldValidation = "Warn", *, subresource: str = "") -> tuple[Draft, Sequence[str]]:
    """The object of a create or replace, and the remarks on it."""
    rest = _json(body)
    _check_type(rest, kind, subresource)
    remarks = _duplicates(body) if kind.schema is not None and validation != "Ignore" else []
    try:
        draft, unknown = typed(rest, kind)
    except msgspec.ValidationError as error:
        raise refusals.bad_request(f"{kind.kind} cannot be handled as a {kind.kind}: {error}") from None
    if validation == "Ignore":
        return draft, ()
    remarks += [f'unknown field "{path}"' for path in unknown]
    if validation == "Strict":
        _refuse(remarks, kind)
    return draft, remarks


def _refuse(remarks: Sequence[str], kind: Kind) -> None:
    if remarks:
        raise refusals.bad_request(f"{kind.kind} cannot be handled as a {kind.kind}: strict decoding error: {', '.join(remarks)}")


def patched(rest: Any, kind: Kind, touched: Collection[str] | None, validation: FieldValidation = "Warn") -> Draft:
    """The object that a patch has made, of which only the fields that it touched need to be looked at."""
    if not isinstance(rest, dict):
        raise refusals.unreadable_patch("it is not an object")
    for field, wanted in (("kind", kind.kind), ("apiVersion", kind.api_version)):
        found = rest.get(field)
        if kind.schema is None and not found:
            continue
        if not found or (kind.schema is None and found != wanted):
            raise refusals.unreadable_patch(f"{field} {found!r} is not {wanted}")
        if found != wanted:
            raise refusals.invalid(kind, _called(rest), [refusals.wrong(field, found, f"must be {wanted}")])
    try:
        draft, unknown = typed(rest, kind, touched)
    except msgspec.ValidationError as error:
        raise refusals.unreadable_patch(error) from None
    if validation == "Strict":
        _refuse([f'unknown field "{path}"' for path in unknown], kind)
    return draft


def typed(rest: dict[str, Any], kind: Kind, touched: Collection[str] | None = None) -> tuple[Draft, list[str]]:
    """Type the metadata, prune and fill in the rest; returns the paths of unknown fields. What nobody touched fits already."""
    found = rest.pop("metadata", None)
    meta = _metadata({} if found is None else found)
    draft = Draft(meta, rest)
    unknown: list[str] = []
    if kind.schema is not None:
        unknown += [f"metadata.{name}" for name in found or () if name not in KNOWN_METADATA]
        unknown += prune(rest, kind.schema)
        unknown += coerce_embedded(rest, kind.schema)
    elif kind.shape is not None:
        unknown += [f"metadata.{name}" for name in found or () if name not in KNOWN_METADATA]
        unknown += kind.shape.fit(rest, touched)
    kind.fill(draft)
    return draft, unknown


def _json(body: Body) -> dict[str, Any]:
    try:
        data = encode(body)
        if len(data) > REQUEST_LIMIT:
            raise refusals.too_large(REQUEST_LIMIT)
        found = read(data)
    except (ValueError, TypeError, RecursionError) as error:
        raise refusals.bad_request(f"the object provided is unrecognized: {error}") from None
    if not isinstance(found, dict):
        raise refusals.bad_request("the object provided is unrecognized: it is not a JSON object")
    return found


def _check_type(rest: dict[str, Any], kind: Kind, subresource: str) -> None:
    """The kind that a body claims must be that of its address; built-in kinds need not claim one."""
    api_version, name = rest.get("apiVersion"), rest.get("kind")
    if kind.schema is not None and not (name and api_version):
        raise refusals.bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): apiVersion or kind is missing")
    if api_version and api_version != kind.api_version:
        text = f"the API version in the data ({api_version}) does not match the expected API version ({kind.api_version})"
        raise refusals.bad_request(text)
    if name and name != kind.kind:
        if kind.schema is None:
            raise refusals.bad_request(f"{name} cannot be handled as a {kind.kind}")
        if subresource:
            return  # of a custom resource's status nothing else is looked at
        raise refusals.invalid(kind, _called(rest), [refusals.wrong("kind", name, f"must be {kind.kind}")])


def _called(rest: dict[str, Any]) -> str:
    meta = rest.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""


def _metadata(found: Any) -> Meta:
    try:
        meta = as_meta(found)
    except msgspec.ValidationError:
        if not isinstance(found, dict):
            raise
        meta = as_meta(_without_nulls(found))
    for moment in (meta.creation_timestamp, meta.deletion_timestamp):
        if moment is not None and not _MOMENT.fullmatch(moment):
            raise msgspec.ValidationError(f"{moment!r} is not a time")
    return meta


_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def _without_nulls(found: dict[str, Any]) -> dict[str, Any]:
    """Null counts as absent, and as an empty value in labels, annotations, finalizers and owners."""
    kept = {name: value for name, value in found.items() if value is not None}
    for name in ("labels", "annotations"):
        if isinstance(kept.get(name), dict):
            kept[name] = {key: "" if value is None else value for key, value in kept[name].items()}
    for name, empty in (("finalizers", ""), ("ownerReferences", {})):
        if isinstance(kept.get(name), list):
            kept[name] = [empty if value is None else value for value in kept[name]]
    return kept


# ------------------------------------------------------------------------------------------------ fields named twice


class _Pairs(list[tuple[str, Any]]):
    """A JSON object that keeps a name as often as it comes."""


def _duplicates(body: Body) -> list[str]:
    if not isinstance(body, bytes):
        return []
    return [f'duplicate field "{path}"' for path in _twice(json.loads(as_text(body), object_pairs_hook=_Pairs), "")]


def _twice(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, child in value:
            here = f"{path}.{name}" if path else name
            if name in seen:
                yield here
            seen.add(name)
            yield from _twice(child, here)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _twice(child, f"{path}[{index}]")
