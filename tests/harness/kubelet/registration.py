"""The objects by which a node is known: the Node and its Lease, as a kubelet writes them."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from genericjob.reconcile.resources import Key

from .status import now

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
ZONE_LABEL = "topology.kubernetes.io/zone"

HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


@dataclass(frozen=True)
class Machine:
    """What a node has to offer, and how it wants to be known."""

    cpu: int = 64
    memory: str = "256Gi"
    pods: int = 110
    extended: Mapping[str, str] = field(default_factory=dict)
    """Other resources, such as devices."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()


def lease_key(name: str) -> Key:
    """Where a node's lease is."""
    return Key(LEASE_NAMESPACE, name)


def lease(name: str, node_uid: str) -> dict[str, Any]:
    """A lease that goes when its node goes."""
    return {
        "metadata": {"name": name, "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renew_time()},
    }


def renew_time() -> str:
    """The present, as precisely as leases know it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def node(name: str, machine: Machine, *, ip: str, zone: str, door: int = 0) -> dict[str, Any]:
    """A node at its registration, healthy from the start; `door` is the port where it answers, if it does."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    known = {"hostname": name, "os": "linux", "arch": architecture}
    resources = {"cpu": str(machine.cpu), "memory": machine.memory, "pods": str(machine.pods), "ephemeral-storage": "1Ti"} | dict(
        machine.extended
    )
    return {
        "metadata": {
            "name": name,
            "labels": {f"kubernetes.io/{label}": value for label, value in known.items()} | {ZONE_LABEL: zone} | dict(machine.labels),
        },
        "spec": {"taints": [dict(taint) for taint in machine.taints]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            # WITH A DOOR THE ADDRESS ALONE: the API server would go to the host name first, which nobody knows.
            "addresses": [{"type": "InternalIP", "address": ip}, *([] if door else [{"type": "Hostname", "address": name}])],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": door or 10250}},
            "conditions": conditions({}),
            "nodeInfo": {
                "machineID": uuid5(NAMESPACE_DNS, name).hex,
                "systemUUID": str(uuid5(NAMESPACE_DNS, name)),
                "bootID": str(uuid5(NAMESPACE_DNS, f"boot.{name}")),
                "kernelVersion": platform.release(),
                "osImage": "stand-in without processes",
                "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.34.4",
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": architecture,
            },
        },
    }


def conditions(found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A healthy node's conditions; one that was healthy before keeps the time since when."""
    moment = now()
    made = []
    for type, (status, reason, message) in HEALTHY.items():
        before = found.get(type, {})
        since = before["lastTransitionTime"] if before.get("status") == status else moment
        made.append(
            {"type": type, "status": status, "reason": reason, "message": message, "lastHeartbeatTime": moment, "lastTransitionTime": since}
        )
    return made
