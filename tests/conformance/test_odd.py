"""Every odd value that the random machine may send, in metadata and status, and bytes that are no JSON or no text: one by one, to both.

A value that both take must read the same afterwards. `test_random.py` draws from the same values, and what follows upon them.
"""

from contextlib import suppress

import pytest

from conformance.conftest import memory_with_kinds
from conformance.sending import (
    KINDS,
    ODD_ANNOTATIONS,
    ODD_FINALIZERS,
    ODD_LABELS,
    ODD_METADATA,
    ODD_STATUSES,
    OWN,
    build,
    odd_bytes,
    places,
    with_bytes,
)
from conformance.twins import EMPTY, view
from conformance.worlds import MemoryWorld, ServerWorld
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key


def creates(kind, body):
    return lambda world: world.api.create(KINDS[kind], body, world.namespace).object


def patches(kind, body, subresource=""):
    return lambda world: world.api.patch(KINDS[kind], Key(world.namespace, "a"), body, subresource=subresource)


def outcome(world, kind, act):
    try:
        return view(kind, act(world))
    except ApiError as error:
        return error.code, error.reason


def clear(world, kind):
    with suppress(ApiError):
        world.api.patch(KINDS[kind], Key(world.namespace, "a"), {"metadata": {"finalizers": None}})
    with suppress(ApiError):
        world.api.delete(KINDS[kind], Key(world.namespace, "a"), grace=0)


def differences(worlds, kind, cases):
    """Where the two do not answer alike; each case begins with the object that is patched, or without any."""
    for told, act in cases:
        if told.startswith("patch"):
            for world in worlds:
                world.api.create(KINDS[kind], build(kind, "a", EMPTY), world.namespace)
        memory, server = (outcome(world, kind, act) for world in worlds)
        if memory != server:
            yield f"{told[:120]}\n  memory: {memory}\n  server: {server}"
        for world in worlds:
            clear(world, kind)


def metadata_cases(kind):
    for field, values in (("labels", ODD_LABELS), ("annotations", ODD_ANNOTATIONS), ("finalizers", ODD_FINALIZERS)):
        for value in values:
            body = build(kind, "a", EMPTY)
            body["metadata"][field] = value
            yield f"create {field} {value!r}", creates(kind, body)
    for value in ODD_METADATA:
        yield f"patch metadata {value!r}", patches(kind, {"metadata": value})


def status_cases(kind):
    for value in ODD_STATUSES:
        yield f"create status {value!r}", creates(kind, build(kind, "a", {**EMPTY, "status": value}))
        yield f"patch status {value!r}", patches(kind, {"status": value})
        if kind == "Widget":
            yield f"patch /status {value!r}", patches(kind, {"status": value}, "status")


def bytes_cases(kind):
    for place in places(kind):
        for value in odd_bytes(kind, place):
            yield f"create {place} {value!r}", creates(kind, with_bytes(build(kind, "a", EMPTY), place, value))
            yield f"patch {place} {value!r}", patches(kind, with_bytes({}, place, value))


CASES = {
    "metadata": (metadata_cases, ("Widget", "Pod", "Service")),
    "status": (status_cases, OWN),
    "bytes": (bytes_cases, ("Widget", "Pod", "Service")),
}


@pytest.mark.parametrize(("cases", "kind"), [(name, kind) for name, (_, kinds) in CASES.items() for kind in kinds])
def test_odd_values_have_the_same_answers_on_both(server_with_kinds, cluster, namespace, cases, kind):
    worlds = MemoryWorld(memory_with_kinds()), ServerWorld(server_with_kinds, cluster, namespace)
    found = list(differences(worlds, kind, CASES[cases][0](kind)))
    assert not found, "\n".join(found)
