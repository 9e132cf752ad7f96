"""Stored versions as readers see them: in the version they ask for, under the schema of today."""

from .bodies import typed
from .drafts import Draft, decode, written
from .kinds import Kind
from .store import Version


def presented(found: Version, kind: Kind) -> bytes:
    """An object's bytes. Nearly always those that are stored."""
    table = found.table
    if kind.version == table.storage_version and found.version > table.coerced_until:
        return found.data
    return written(_coerced(found, kind), kind.api_version, kind.kind)


def drafted(found: Version, kind: Kind) -> Draft:
    """An object to work on."""
    return found.draft() if found.version > found.table.coerced_until else _coerced(found, kind)


def _coerced(found: Version, kind: Kind) -> Draft:
    draft, _ = typed(decode(found.data), kind)
    return draft
