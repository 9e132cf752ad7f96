"""Which names, labels and other metadata the server accepts."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

from genericjob.reconcile.errors import Cause

from .drafts import Meta, OwnerReference
from .refusals import denied, missing, wrong

NameRule = Callable[[str], str]
"""Says what is wrong with a name, or nothing."""

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_STANDARD_FINALIZERS = frozenset((ORPHAN, FOREGROUND, "kubernetes"))

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_ANNOTATIONS_LIMIT = 256 * 1024


@lru_cache(maxsize=4096)
def subdomain(name: str) -> str:
    """DNS-1123 subdomain: most kinds."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return (
        ""
        if _SUBDOMAIN.fullmatch(name)
        else "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
    )


def label(name: str) -> str:
    """DNS-1123 label, as the name of a namespace."""
    return "must not contain dots" if "." in name else dns_label(name)


@lru_cache(maxsize=4096)
def dns_label(name: str) -> str:
    """DNS-1123 label: ports, containers."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return "" if _DNS_LABEL.fullmatch(name) else "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"


def label_1035(name: str) -> str:
    """DNS-1035 label: services."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return (
        ""
        if _DNS_1035.fullmatch(name)
        else "a DNS-1035 label must start with a letter and consist of lower case alphanumeric characters or '-'"
    )


def path_segment(name: str) -> str:
    """Anything that fits into an address: events, roles."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{character}'" for character in "/%" if character in name), "")


@lru_cache(maxsize=4096)
def qualified(name: str) -> str:
    """`name` or `prefix.example/name`: keys of labels and annotations, finalizers."""
    prefix, slash, rest = name.partition("/")
    if not slash:
        prefix, rest = "", name
    elif not prefix:
        return "prefix part must be non-empty"
    elif "/" in rest:
        return "a qualified name must consist of alphanumeric characters, '-', '_' or '.', with an optional DNS subdomain prefix and '/'"
    elif why := subdomain(prefix):
        return f"prefix part {why}"
    if not rest:
        return "name part must be non-empty"
    if len(rest) > 63:
        return "name part must be no more than 63 characters"
    return "" if _NAME_PART.fullmatch(rest) else "name part must consist of alphanumeric characters, '-', '_' or '.'"


@lru_cache(maxsize=16384)
def label_value(value: str) -> str:
    """What a label may say."""
    if len(value) > 63:
        return "must be no more than 63 characters"
    return "" if not value or _NAME_PART.fullmatch(value) else "a valid label must consist of alphanumeric characters, '-', '_' or '.'"


def problems(meta: Meta, rule: NameRule, *, namespaced: bool, core: bool = False) -> list[Cause]:
    """What is wrong with an object's metadata; the core group is stricter about finalizers."""
    found = _naming_problems(meta, rule, namespaced=namespaced)
    if meta.generation < 0:
        found.append(wrong("metadata.generation", meta.generation, "must be greater than or equal to 0"))
    if meta.labels:
        found.extend(_label_problems(meta.labels))
    if meta.annotations:
        found.extend(_annotation_problems(meta.annotations))
    if meta.owner_references:
        found.extend(_owner_problems(meta.owner_references))
    if meta.finalizers:
        found.extend(_finalizer_problems(meta.finalizers))
        if core:
            found.extend(_unqualified(meta.finalizers))
    return found


def _naming_problems(meta: Meta, rule: NameRule, *, namespaced: bool) -> list[Cause]:
    found: list[Cause] = []
    if meta.generate_name and (why := rule(_as_prefix(meta.generate_name))):
        found.append(wrong("metadata.generateName", meta.generate_name, why))
    if not meta.name:
        found.append(missing("metadata.name", "name or generateName is required"))
    elif why := rule(meta.name):
        found.append(wrong("metadata.name", meta.name, why))
    if namespaced and (why := label(meta.namespace)):
        found.append(wrong("metadata.namespace", meta.namespace, why))
    return found


def update_problems(new: Meta, old: Meta) -> list[Cause]:
    """What an update may not do to metadata."""
    found: list[Cause] = []
    if old.deletion_timestamp and (added := [name for name in new.finalizers if name not in old.finalizers]):
        found.append(denied("metadata.finalizers", f"no new finalizers can be added if the object is being deleted, found {added}"))
    for field, one, other in (
        ("uid", new.uid, old.uid),
        ("deletionTimestamp", new.deletion_timestamp, old.deletion_timestamp),
        ("deletionGracePeriodSeconds", new.deletion_grace_period_seconds, old.deletion_grace_period_seconds),
    ):
        if one != other:
            found.append(wrong(f"metadata.{field}", one, "field is immutable"))
    return found


def _as_prefix(name: str) -> str:
    return name[:-1] + "a" if name.endswith("-") else name


def _label_problems(labels: Mapping[str, str]) -> Iterator[Cause]:
    for key, value in labels.items():
        if why := qualified(key):
            yield wrong("metadata.labels", key, why)
        if why := label_value(value):
            yield wrong("metadata.labels", value, why)


def _annotation_problems(annotations: Mapping[str, str]) -> Iterator[Cause]:
    for key in annotations:
        if why := qualified(_lower(key)):
            yield wrong("metadata.annotations", key, why)
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield Cause("metadata.annotations", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes", "FieldValueTooLong")


def _lower(key: str) -> str:
    """Lower case as the server has it, one character for each: Python makes two of U+0130."""
    return key.replace("\u0130", "i").lower()


def _owner_problems(owners: Sequence[OwnerReference]) -> Iterator[Cause]:
    for owner in owners:
        if not owner.api_version.rpartition("/")[2]:
            yield wrong("metadata.ownerReferences.apiVersion", owner.api_version, "version must not be empty")
        for field, value in (("kind", owner.kind), ("name", owner.name), ("uid", owner.uid)):
            if not value:
                yield wrong(f"metadata.ownerReferences.{field}", value, "must not be empty")
        if owner.api_version == "v1" and owner.kind == "Event":
            yield wrong("metadata.ownerReferences", owner.kind, "is disallowed from being an owner")
    controllers = [f"{owner.kind}/{owner.name}" for owner in owners if owner.controller]
    for other in controllers[1:]:
        why = f"Only one reference can have Controller set to true. Found in {controllers[0]} and {other}"
        yield wrong("metadata.ownerReferences", controllers, why)


def _unqualified(finalizers: Sequence[str]) -> Iterator[Cause]:
    for index, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            yield wrong(f"metadata.finalizers[{index}]", name, "name is neither a standard finalizer name nor is it fully qualified")


def finalizer_remarks(finalizers: Sequence[str]) -> list[str]:
    """What the server has to say about the finalizers of a custom resource."""
    advice = "to avoid accidental conflicts with other finalizer writers"
    return [
        f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name {"including a path (/) " if "." in name else ""}{advice}'
        for name in sorted(set(finalizers))
        if "/" not in name and name not in _STANDARD_FINALIZERS
    ]


def _finalizer_problems(finalizers: Sequence[str]) -> Iterator[Cause]:
    for name in finalizers:
        if why := qualified(name):
            yield wrong("metadata.finalizers", name, why)
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        yield wrong("metadata.finalizers", list(finalizers), f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set")
