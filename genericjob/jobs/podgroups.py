"""The PodGroup of a job that is placed by the T9k scheduler: there before the first pod, and kept for the life of the job.

The scheduler places the pods of a group together, as soon as all of them fit, so the group must know how many there are. That is the one
field that can change (while the job is paused, see `api/admission.py`); queue and priority are the job's for good. The group is never
deleted by us, not even for a restart: it goes with the job, by its owner reference.

Nobody watches PodGroups. Clusters without the scheduler do not have the kind, and a watch of a kind that does not exist would fail for
ever. So the group is looked up before pods are created, which is one request beside those of the pods, and a cluster that gets its
scheduler later is noticed at the next look.
"""

from typing import Any, Final

from genericjob.api.names import API_VERSION, KIND, POD_GROUP, SCHEDULER_GROUP, SCHEDULER_VERSION, Reason
from genericjob.api.spec import T9kScheduler
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key, Resource, raw

from . import owned
from .job import Job

POD_GROUPS: Final[Resource[dict[str, Any]]] = raw(SCHEDULER_GROUP, SCHEDULER_VERSION, "podgroups", POD_GROUP)

MISSING: Final = (
    f"spec.scheduler asks for the T9k scheduler, but this cluster has no {POD_GROUPS.full_name} of version {POD_GROUPS.version}: "
    "install the T9k scheduler with its CustomResourceDefinitions, or run the job without spec.scheduler"
)

LOOKS: Final = 3
"""How often one call looks at a name that others write to meanwhile."""

Obstacle = tuple[str, str]
"""Reason and message of what keeps pods from being created."""


class PodGroups:
    """Makes the PodGroups of jobs."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def ensure(self, job: Job) -> Obstacle | None:
        """See that the group of a job is there and right. None if it is, or if the job needs none; otherwise why no pod may be created."""
        wanted = wanted_of(job)
        if wanted is None or not job.spec.total:
            return None
        try:
            return self._ensure(job, wanted)
        except ApiError as error:
            if error.not_found:  # ONLY A CREATE COMES HERE SO: its namespace is there, or the job were not, so the kind is missing
                return Reason.SCHEDULER_MISSING, MISSING
            if error.refused:
                return Reason.FAILED_CREATE, error.message
            raise

    def _ensure(self, job: Job, wanted: T9kScheduler) -> Obstacle | None:
        for _ in range(LOOKS):
            found = self._found(job)
            if found is None:
                if self._created(job, wanted):
                    return None
            elif obstacle := _obstacle(job, found):
                return obstacle
            elif self._corrected(job, found):
                return None
        return Reason.NAME_CONFLICT, f"{_called(job)} comes and goes; somebody else writes to it"

    def _found(self, job: Job) -> dict[str, Any] | None:
        try:
            return self._api.get(POD_GROUPS, _key(job))
        except ApiError as error:
            if error.not_found:  # the group, or its whole kind: a create will tell
                return None
            raise

    def _created(self, job: Job, wanted: T9kScheduler) -> bool:
        """Whether it is made; False if somebody was faster."""
        try:
            self._api.create(POD_GROUPS, body_of(job, wanted), job.identity.namespace)
        except ApiError as error:
            if error.already_exists:
                return False
            raise
        return True

    def _corrected(self, job: Job, found: dict[str, Any]) -> bool:
        """Whether it has as many members as the job; False if it has gone meanwhile."""
        if (found.get("spec") or {}).get("minMember") == job.spec.total:
            return True
        # THE UID IS A CONDITION: a group of the same name may be another's by now.
        patch = {"metadata": {"uid": found["metadata"]["uid"]}, "spec": {"minMember": job.spec.total}}
        try:
            self._api.patch(POD_GROUPS, _key(job), patch)
        except ApiError as error:
            if error.not_found or error.conflict or any(cause.field == "metadata.uid" for cause in error.causes):
                return False
            raise
        return True


def wanted_of(job: Job) -> T9kScheduler | None:
    """What the job asks of the T9k scheduler; None if others place its pods."""
    return job.spec.scheduler.t9k_scheduler if job.spec.scheduler else None


def body_of(job: Job, wanted: T9kScheduler) -> dict[str, Any]:
    """The group, as it is sent."""
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": owned.job_metadata(job.identity),
        "spec": {"minMember": job.spec.total, "queue": wanted.queue, "priority": wanted.priority},
    }


def _obstacle(job: Job, found: dict[str, Any]) -> Obstacle | None:
    """Why a group that is there cannot be used; None if it is ours and stays."""
    meta = found["metadata"]
    owner: dict[str, Any] = next((one for one in meta.get("ownerReferences") or () if one.get("controller")), {})
    if meta.get("deletionTimestamp"):
        return Reason.PREDECESSOR_ENDING, f"{_called(job)} is being deleted; waiting until it is gone"
    if owner.get("uid") == job.identity.uid:
        return None
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == (API_VERSION, KIND, job.identity.name):
        # A PREDECESSOR of the same name was deleted and its group is on its way out: no conflict, only a wait.
        return Reason.PREDECESSOR_ENDING, f"{_called(job)} of an earlier job of this name is still there; waiting until it is gone"
    return Reason.NAME_CONFLICT, f"{_called(job)} exists and does not belong to this job; it was left alone"


def _key(job: Job) -> Key:
    return Key(job.identity.namespace, job.identity.name)


def _called(job: Job) -> str:
    return f"{POD_GROUPS.kind} {job.identity.name}"
