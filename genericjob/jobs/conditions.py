"""Conditions that other writers keep in the status of a job.

A queueing system or a platform adds conditions of its own types. Decisions do not see them: they are
neither compared nor a reason to write. A status that is stored carries them on as they are in the version
that it replaces, so that nothing of them is lost by being decoded and encoded again.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, structs

from genericjob.api.names import CONDITION_TYPES
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.codec import UNREADABLE
from genericjob.reconcile.structs import decoder

OWN = frozenset((*CONDITION_TYPES, "Initializing"))
"""Types that this controller writes, and the one that an earlier version wrote in the place of `Initialized`."""
MOST_BYTES = 64 * 1024
"""Of all conditions of others that are carried on: a job needs the rest of its object for its own status."""


class _Conditions(msgspec.Struct, gc=False):
    conditions: tuple[Raw, ...] | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str


_conditions, _condition, _fields = decoder(_Conditions), decoder(_Condition), decoder(dict[str, Raw])


def own(status: GenericJobStatus) -> GenericJobStatus:
    """Return a status without the conditions of others."""
    if all(found.type in OWN for found in status.conditions):
        return status
    return structs.replace(status, conditions=tuple(found for found in status.conditions if found.type in OWN))


def without_others(status: bytes) -> bytes:
    """Return the JSON of a status without the conditions of others. Raises what a decoder raises."""
    mine = [raw for type, raw in _each(status) if type in OWN]
    return msgspec.json.encode({**_fields.decode(status), "conditions": mine})


def of_others(status: bytes) -> list[Raw]:
    """Return the conditions of others in the JSON of a status, in their order: one of each type, as far as they fit."""
    kept: dict[str, Raw] = {}
    room = MOST_BYTES
    try:
        for type, raw in _each(status) if status else ():
            if type not in OWN and type not in kept and len(bytes(raw)) <= room:
                kept[type] = raw
                room -= len(bytes(raw))
    except UNREADABLE:
        return []  # a status that is not even JSON, or whose conditions are none
    return list(kept.values())


def _each(status: bytes) -> Iterator[tuple[str, Raw]]:
    """Conditions that are objects with a type."""
    for raw in _conditions.decode(status).conditions or ():
        try:
            yield _condition.decode(raw).type, raw
        except UNREADABLE:
            continue
