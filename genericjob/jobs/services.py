"""The services of a type: one per rank, under the pod's own name, compiled as pods are.

Headless, and published before pods are ready: replicas look for each other while they start. A headless service is only a name, so it
cannot lead one port to another. A job that asks for that (`targetPort` other than `port`) gets ordinary services with an address.
"""

from dataclasses import dataclass
from typing import Any

from genericjob.api.names import JobIdentity, replica_name
from genericjob.api.spec import Service, ServicePort
from genericjob.templating import Stencil

from . import owned


@dataclass(frozen=True)
class ServiceBodies:
    """The bodies of a type's services."""

    stencil: Stencil

    def body(self, rank: int) -> bytes:
        """The service of a rank, as it is sent."""
        return self.stencil.fill(b"%d" % rank)


def compile_services(*, job: JobIdentity, service: Service, type: str, marker: str) -> ServiceBodies:
    """Make the services of a type, all but the numbers; the marker must be new and unguessable (see `templating/stencil.py`)."""
    rank = owned.mark("rank", marker)
    name = replica_name(job.name, type, rank)
    spec: dict[str, Any] = {
        "selector": owned.selector(job, name),
        "publishNotReadyAddresses": True,
        "ports": [_port(port) for port in service.ports],
    }
    if not any(_leads_elsewhere(port) for port in service.ports):
        spec["clusterIP"] = "None"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": owned.metadata(job, name), "spec": spec}
    return ServiceBodies(owned.compiled(body, rank))


def _leads_elsewhere(port: ServicePort) -> bool:
    """Whether it is not the pod's own port; of a named one nobody knows the number before the pod is there."""
    return port.target_port not in (None, 0, "", port.port)


def _port(port: ServicePort) -> dict[str, Any]:
    """As the user wrote it; the rest is for the API server to fill in."""
    return port.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
