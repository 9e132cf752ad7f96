"""What the objects of a job have in common: labels and an owner; and those of a rank: a name, and that they are compiled.

Pods and services of all ranks of a type differ in the number of the rank and in nothing else, and the number is the same text wherever it
occurs. So one object is made with a mark in its place, and cut there (`templating/stencil.py` says what a mark must be).
"""

from typing import Any

import msgspec

from genericjob.api.names import (
    API_VERSION,
    COMPONENT,
    COMPONENT_LABEL,
    COMPONENT_TYPE,
    COMPONENT_TYPE_LABEL,
    JOB_LABEL,
    KIND,
    REPLICA_LABEL,
    JobIdentity,
)
from genericjob.templating import Stencil


def mark(what: str, marker: str) -> str:
    """What stands for a value that comes later; none is a part of another, even if the markers are."""
    return f"@{what}:{marker}@"


def job_labels(job: JobIdentity) -> dict[str, str]:
    """The labels of everything that belongs to a job."""
    return {JOB_LABEL: job.name, COMPONENT_LABEL: COMPONENT, COMPONENT_TYPE_LABEL: COMPONENT_TYPE}


def labels(job: JobIdentity, name: str) -> dict[str, str]:
    """The labels of everything that belongs to a rank."""
    return {**job_labels(job), REPLICA_LABEL: name}


def selector(job: JobIdentity, name: str) -> dict[str, str]:
    """What the pod of one rank is found by. Both: two jobs can have replicas of the same name (x, a-worker and x-a, worker)."""
    return {JOB_LABEL: job.name, REPLICA_LABEL: name}


def metadata(job: JobIdentity, name: str) -> dict[str, Any]:
    """The metadata of everything that belongs to a rank."""
    return {"name": name, "namespace": job.namespace, "labels": labels(job, name), "ownerReferences": [owner(job)]}


def job_metadata(job: JobIdentity) -> dict[str, Any]:
    """The metadata of what a job has one of: the job's own name."""
    return {"name": job.name, "namespace": job.namespace, "labels": job_labels(job), "ownerReferences": [owner(job)]}


def owner(job: JobIdentity) -> dict[str, Any]:
    """The reference by which an object goes when its job does, and by which it is known to be ours."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def compiled(body: dict[str, Any], *marks: str) -> Stencil:
    """A body cut at its marks."""
    return Stencil(msgspec.json.encode(body), [msgspec.json.encode(one)[1:-1] for one in marks])
