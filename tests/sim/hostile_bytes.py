"""Bytes of objects that no program expects: nested deeply, huge, with wrong types, numbers beyond 64 bits, or no text at all.

Each kind is an edit of the JSON of an object, which is made of what a controller keeps of it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from genericjob.jobs.resource import StoredJob
from genericjob.reconcile.objects import Container, Object, Pod, Service

PLAIN = "plain"
"""Cannot be decoded for no particular reason; the metadata of pods can be read."""
STRANGER = "stranger"
"""Can be read, and beside it is an object of which not even the name can be read."""
NAMELESS = b'{"metadata":{"name":5,"namespace":["default"],"uid":{},"resourceVersion":1e999,"labels":"\xff"}}'

_DEEP = b"[" * 4_000 + b"]" * 4_000
_NO_TEXT = b'"\xff\xfe\xe2\x82"'
_LONG_NUMBER = b"36893488147419103232"

EDITS: Mapping[str, Mapping[str, bytes]] = {
    "deep": {"metadata.managedFields": b'[{"fieldsV1":%b}]' % _DEEP},
    "deep status": {"status": b'{"phase":"Running","conditions":%b}' % _DEEP},
    "long number": {"metadata.deletionGracePeriodSeconds": _LONG_NUMBER},
    "long generation": {"metadata.generation": _LONG_NUMBER},
    "huge": {"metadata.managedFields": b'"%b"' % (b"x" * 100_000), "metadata.finalizers": b"7"},
    "no text": {"metadata.finalizers": b"[%b]" % _NO_TEXT},
    "wrong spec": {"spec": b'{"nodeName":7,"clusterIP":[],"ports":{},"replicaSpecs":"none","managedBy":null}'},
    "wrong status": {"status": b'{"phase":5,"conditions":{"type":"Ready"},"tasks":{"type":[]},"containerStatuses":"none"}'},
    "wrong metadata": {"metadata.labels": b'["a","b"]', "metadata.ownerReferences": b'{"uid":5}'},
    "no text in labels": {"metadata.labels": b'{"app":%b}' % _NO_TEXT, "metadata.annotations": b'{"\xff":"\xc0\x80"}'},
}
"""What is put in which place of an object."""
UNSALVAGEABLE = frozenset(("wrong metadata", "no text in labels"))
"""Kinds of which not even the owner of a pod can be read."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "pods": (PLAIN, STRANGER, *EDITS),
    "services": (PLAIN, STRANGER, *(how for how in EDITS if "status" not in how)),
    "genericjobs": (PLAIN, STRANGER, *(how for how in EDITS if how != "long generation")),
}
"""Which of them are drawn, by resource. The generation of a job is one that the server has counted: what it says is believed."""


def hostile(found: Object, how: str) -> bytes:
    """Return the JSON of an object with everything that a controller keeps, spoiled in this way."""
    meta, rest = _metadata(found), _rest(found)
    for place, value in EDITS[how].items():
        above, _, name = place.partition(".")
        (meta if name else rest)[name or above] = msgspec.Raw(value)
    return msgspec.json.encode({"metadata": meta, **rest})


def _metadata(found: Object) -> dict[str, Any]:
    return {
        "namespace": found.namespace,
        "name": found.name,
        "uid": found.uid,
        "resourceVersion": found.resource_version,
        "generation": found.generation,
        "labels": dict(found.labels),
        "annotations": dict(found.annotations),
        "ownerReferences": [{"uid": found.owner_uid, "controller": True}] if found.owner_uid else [],
        "finalizers": list(found.finalizers),
        "creationTimestamp": found.created,
        "deletionTimestamp": found.deleted,
    }


def _rest(found: Object) -> dict[str, Any]:
    """Spec and status."""
    if isinstance(found, StoredJob):
        return {"spec": msgspec.Raw(found.spec or b"null"), "status": msgspec.Raw(found.status or b"null")}
    if isinstance(found, Service):
        ports = [{"name": port.name, "port": port.port, "targetPort": port.target} for port in found.ports]
        return {"spec": {"clusterIP": found.cluster_ip, "ports": ports}}
    if not isinstance(found, Pod):
        return {}
    status = {
        "phase": found.phase,
        "reason": found.reason,
        "message": found.message,
        "conditions": found.conditions,
        "initContainerStatuses": [*map(_container, found.init_containers)],
        "containerStatuses": [*map(_container, found.containers)],
    }
    return {"spec": {"nodeName": found.node}, "status": status}


def _container(found: Container) -> dict[str, Any]:
    end = {"exitCode": found.exit_code, "finishedAt": found.finished, "startedAt": found.started}
    state = {"reason": found.reason, "message": found.message, **end}
    return {"name": found.name, "restartCount": found.restarts, "state": {found.state: state} if found.state else {}}
