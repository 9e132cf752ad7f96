"""What end-to-end tests ask for, beside a cluster: nodes."""

import pytest

from e2e.standing_in import MACHINE, history, make, status
from harness.clusters import Namespaces, eventually
from harness.kubelet import Nodes


@pytest.fixture
def nodes(cluster):
    """Stand-in nodes, none yet: `nodes.add()` makes one. They end with the test, and their pods with them."""
    with Nodes(cluster.api) as nodes:
        yield nodes


@pytest.fixture
def node(nodes):
    """A stand-in node on which nothing runs before the test says so."""
    return nodes.add()


@pytest.fixture(scope="session")
def disaster(cluster, server):
    """A lost node, a deleted one and a healthy one, and pods on the first two; it takes the control plane a minute to see."""
    with Nodes(cluster.api) as nodes, Namespaces(server).fresh() as namespace:
        lost, deleted, _ = (nodes.add(machine=MACHINE, automatic=True) for _ in range(3))
        at_once = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        tolerations = [{"operator": "Exists", "effect": "NoSchedule"}, at_once]
        left = make(server, namespace, lost, "left", tolerations=tolerations)
        patient = make(server, namespace, lost, "patient", tolerations=[{"operator": "Exists"}])
        orphan = make(server, namespace, deleted, "orphan", tolerations=tolerations)
        eventually(lambda: all(status(server, key)["phase"] == "Running" for key in (left, patient, orphan)))
        with history(server, namespace) as events:
            lost.lose()
            deleted.delete_node()
            yield nodes, lost, left, patient, orphan, events


@pytest.fixture(scope="session", autouse=True)
def begin_early(request):
    """What takes long goes on while other tests run: it begins before the first of them, if it will be asked for at all."""
    if any("disaster" in item.fixturenames for item in request.session.items):
        request.getfixturevalue("disaster")
