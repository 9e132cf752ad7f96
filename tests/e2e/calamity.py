"""Jobs whose nodes are lost and deleted. It takes the control plane a minute to react, so their story begins early and is told late."""

from e2e.jobs import Team, a_job, replicas
from e2e.standing_in import OURS
from harness.kubelet import Machine

TOLERATIONS = [{"operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]


def on(pool):
    """A worker for one of some nodes."""
    found = replicas()
    found["template"]["spec"] |= {"nodeSelector": {"pool": pool}, "tolerations": TOLERATIONS, "terminationGracePeriodSeconds": 1}
    return found


class Calamity(Team):
    """Two jobs, the nodes that they ran on, and others on which they could go on."""

    def __init__(self, server, namespace, nodes):
        super().__init__(server, namespace, None)
        self.nodes = nodes
        self.lost, self.on_lost, self.lost_pod = self._begin("lost")
        self.deleted, self.on_deleted, self.deleted_pod = self._begin("deleted")
        self.lost.lose()
        self.deleted.lose()
        self.deleted.delete_node()
        for pool in ("lost", "deleted"):
            self._add(pool)

    def _add(self, pool):
        return self.nodes.add(machine=Machine(labels={"pool": f"{self.namespace}-{pool}"}, taints=(OURS,)), automatic=True)

    def _begin(self, pool):
        node = self._add(pool)
        job = self.submit(a_job(pool, on(f"{self.namespace}-{pool}")))
        job.becomes("Running")
        (pod,) = job.pods.values()
        return node, job, pod
