"""A kubelet stand-in: nodes for a control plane that has none.

It does to the server what kubelet 1.34 does, in the same order and with the same words, and leaves everything else to the real programs:
the scheduler binds pods to its nodes, the node lifecycle controller gives a lost one up, the taint manager and the pod garbage collector
delete pods, the API server guards disruption budgets.

    with Nodes(cluster.api) as nodes:
        node = nodes.add()                          # a test decides; `automatic=True` runs every pod at once
        node.run(key)
        node.finish(key, 1, message="out of luck")

Imitated: registration, lease and status of nodes; the statuses of starting, running, waiting, finished, evicted and deleted pods with
their conditions, times and generations; the order of writes (ContainerCreating before Running; ended containers before the terminal phase;
the terminal phase before the final delete, which has grace 0 and the UID as precondition); putting statuses right that others changed;
nodes that are cut off and come back; pods that are force-deleted while they run. `Nodes.running` is the process table: it knows instances
that the server has forgotten, and `Nodes.overlaps` tells of two that ran at the same time.

Logs and commands, for nodes with a door (`Nodes(…, certificate=…)`): a log is what `node.prints(key, "a line")` says, and a command
runs as a process of this machine (see `door.py`).

Not imitated: processes, probes (a container is ready when it runs, unless told otherwise), in-place restarts (such pods are
refused), sidecars (refused), readiness gates, volumes, static pods, resource checks at admission, events, and a kubelet's own restart.

`brisk` nodes fold successive statuses into one write. That is for benchmarks: real kubelets do not.
"""

from .fleet import Nodes
from .instance import Life, Shutdown
from .node import Node
from .pods import Which
from .registration import Machine

__all__ = ["Life", "Machine", "Node", "Nodes", "Shutdown", "Which"]
