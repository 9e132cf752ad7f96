"""What a job waits for, in words that name the rank: an image, a node, a configuration, a pod that does not go."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from genericjob.api.names import Reason
from genericjob.reconcile.objects import Pod

from .observe import Observation

PATIENCE = timedelta(seconds=5)
"""How long after its time a pod may still be there before it is worth a word."""

_USUAL = frozenset(("", "ContainerCreating", "PodInitializing"))
_TURNS = {"ErrImagePull": "ImagePullBackOff", "ImagePullBackOff": "ImagePullBackOff"}
"""Reasons that take turns, each with words of its own: nobody wants a status that changes every other second."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One pod that is waited for, and how many others are."""

    reason: str
    message: str
    others: int = 0

    def __str__(self) -> str:
        return f"{self.message} (and {self.others} more)" if self.others else self.message


def told_as(reason: str) -> str:
    """A container's reason as a status tells it: the same for all that take turns."""
    return _TURNS.get(reason, reason)


def waiting(seen: Observation, now: datetime) -> Waiting | None:
    """The first pod in the order of ranks that keeps the job waiting, if one does."""
    found = _each(seen, now)
    first = next(found, None)
    return Waiting(first.reason, first.message, sum(1 for _ in found)) if first else None


def next_look(seen: Observation, now: datetime) -> datetime | None:
    """When a pod that is going will have been going for too long."""
    times = [pod.deleted + PATIENCE for pod in _all(seen) if pod.deleted is not None]
    return min((moment for moment in times if moment > now), default=None)


def _all(seen: Observation) -> Iterator[Pod]:
    return chain(seen.current_pods(), seen.old_pods())


def _each(seen: Observation, now: datetime) -> Iterator[Waiting]:
    for pod in _all(seen):
        if pod.deleted is not None:
            if now >= pod.deleted + PATIENCE:
                yield _stuck(pod)
        elif pod.phase in ("Pending", "") and (why := _held_up(pod)):
            yield why


def _stuck(pod: Pod) -> Waiting:
    where = f" on node {pod.node}" if pod.node else ""
    what = f" (finalizers: {', '.join(pod.finalizers)})" if pod.finalizers else ""
    text = f"Pod[{pod.name}]{where} was to be gone by {pod.deleted:%Y-%m-%dT%H:%M:%SZ} and is still there{what}"
    return Waiting(Reason.STUCK_TERMINATING, f"{text}; its name is free when it is gone.")


def _held_up(pod: Pod) -> Waiting | None:
    for container in (*pod.init_containers, *pod.containers):
        if container.state == "waiting" and container.reason not in _USUAL:
            reason = told_as(container.reason)
            detail = f": {container.message}" if container.message and container.reason not in _TURNS else ""
            return Waiting(reason, f"Pod[{pod.name}] waits: {reason} of container {container.name}{detail}")
    for condition in pod.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason:
            detail = f": {condition.message}" if condition.message else ""
            return Waiting(condition.reason, f"Pod[{pod.name}] waits: {condition.reason}{detail}")
    return None
