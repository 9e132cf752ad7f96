"""An object in the making: its metadata typed, the rest as the JSON it came in.

Between two versions in the store an object is a `Draft`. Writing one gives canonical bytes: equal objects are equal bytes, so "nothing
changed" is one comparison.

THE FIRST `"resourceVersion":"` IN STORED BYTES IS THE OBJECT'S OWN: metadata is written before everything a user may name, its version
first.
"""

import math
from typing import Annotated, Any

import msgspec

from genericjob.reconcile.structs import converter


class OwnerReference(msgspec.Struct, rename="camel", omit_defaults=True):
    """Who an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    """An object's metadata; what is empty is not written, as on the real server."""

    resource_version: str = ""
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: _Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: _Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []

    @property
    def version(self) -> int:
        """The resourceVersion as the server reads it: 0 if there is none, ValueError if it is no number."""
        text = self.resource_version
        if not text:
            return 0
        if not (text.isascii() and text.isdigit()):
            raise ValueError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
        return int(text)


as_meta = converter(Meta)
KNOWN_METADATA = frozenset(field.encode_name for field in msgspec.structs.fields(Meta)) | {"selfLink", "managedFields"}


class Draft:
    """Metadata, and everything beside it."""

    __slots__ = ("meta", "rest")

    def __init__(self, meta: Meta, rest: dict[str, Any]) -> None:
        self.meta = meta
        self.rest = rest

    def section(self, name: str) -> dict[str, Any]:
        """`spec` or `status` to change; made if it is not there."""
        found = self.rest.get(name)
        if not isinstance(found, dict):
            found = self.rest[name] = {}
        return found

    def peek(self, name: str) -> dict[str, Any]:
        """`spec` or `status` to look at."""
        found = self.rest.get(name)
        return found if isinstance(found, dict) else {}

    def keep(self, name: str, old: "Draft") -> None:
        """Take a section from the old object, or its absence."""
        if name in old.rest:
            self.rest[name] = old.rest[name]
        else:
            self.rest.pop(name, None)


class _Head(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: Meta


def _number(text: str) -> float | int:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text:.20} is out of range")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


# 1.0 is stored as 1, as on the real server.
decode = msgspec.json.Decoder(float_hook=_number).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical(value: Any) -> bytes:
    """Bytes that are equal when values are (1 and true are not)."""
    return _encode(value)


def same(one: Any, other: Any) -> bool:
    """Whether two pieces of JSON say the same."""
    return bool(one == other) and _encode(one) == _encode(other)


def written(draft: Draft, api_version: str, kind: str) -> bytes:
    """The draft as it is stored."""
    head = _encode(_Head(api_version, kind, draft.meta))
    rest = {name: value for name, value in draft.rest.items() if name not in ("apiVersion", "kind")}
    return head[:-1] + b"," + _encode(rest)[1:] if rest else head


def stored(data: bytes) -> Draft:
    """Read what this store has written."""
    rest: dict[str, Any] = decode(data)
    return Draft(as_meta(rest.pop("metadata")), rest)


def restamped(data: bytes, version: int) -> bytes:
    """Stored bytes with another resourceVersion."""
    start = data.index(_VERSION) + len(_VERSION)
    return b"%b%d%b" % (data[:start], version, data[data.index(b'"', start) :])


_VERSION = b'"resourceVersion":"'
