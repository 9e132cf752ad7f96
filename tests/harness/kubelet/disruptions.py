"""What others than the kubelet do to pods: the parts that tests cannot wait for the real ones to do."""

from collections.abc import Mapping

from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import NODES, RAW_PODS, Key

from .pods import STRATEGIC_MERGE_PATCH
from .status import now


def evict(api: HttpApi, key: Key, *, grace: int | None = None) -> None:
    """Ask the server to evict a pod, as `kubectl drain` does. It is a 429 while a disruption budget forbids it."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": key.name, "namespace": key.namespace}}
    options = {} if grace is None else {"deleteOptions": {"gracePeriodSeconds": grace}}
    api.request("POST", RAW_PODS.path(*key, "eviction"), body=body | options)


def preempt(api: HttpApi, key: Key) -> None:
    """Do what the scheduler does to a pod that has to make room."""
    _condemn(api, key, "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod")


def evict_by_taint(api: HttpApi, key: Key) -> None:
    """Do what the taint manager does to a pod that does not tolerate its node (any more)."""
    _condemn(api, key, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


def taint(api: HttpApi, node: str, *taints: Mapping[str, str]) -> None:
    """Taint a node; what that means for its pods the real taint manager decides."""
    api.request("PATCH", NODES.path(name=node), body={"spec": {"taints": [dict(each) for each in taints]}}, content=STRATEGIC_MERGE_PATCH)


def _condemn(api: HttpApi, key: Key, reason: str, message: str) -> None:
    pod = api.get(RAW_PODS, key)
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now(),
        "observedGeneration": pod["metadata"]["generation"],
    }
    patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
    api.request("PATCH", RAW_PODS.path(*key, "status"), body=patch, content=STRATEGIC_MERGE_PATCH)
    api.delete(RAW_PODS, key)
