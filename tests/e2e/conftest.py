"""What end-to-end tests ask for, beside a cluster: nodes, our kind of jobs, and the controller that runs them."""

import os
from itertools import count

import pytest

from e2e.calamity import Calamity
from e2e.jobs import FINALIZER, Team, a_job, replicas
from e2e.record import Record
from e2e.standing_in import MACHINE, make, status
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, Key
from harness.audit import Audit
from harness.clusters import Namespaces, eventually, started
from harness.controllers import ControllerProcess, account_kubeconfig, grant
from harness.definitions import GENERIC_JOBS, install
from harness.kubelet import Machine, Nodes
from harness.lanes import lane

LINES = 60
"""How much of the controller's log is shown with a test that failed."""


@pytest.fixture(scope="session")
def fragile(request):
    """A control plane to be killed and brought back; who does so leaves it running for the next."""
    if request.config.getoption("kubeconfig"):
        pytest.skip("needs a control plane of its own; --kubeconfig names a cluster that belongs to others")
    with started(f"fragile-{os.getpid()}", audit=False) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def genericjobs(server):
    """The kind GenericJob, put on the cluster as `manifests/crd` defines it."""
    install(server)
    return GENERIC_JOBS


@pytest.fixture(scope="session")
def controller(cluster, server, genericjobs, tmp_path_factory):
    """The controller of all tests: a process of its own, with the shipped roles. It looks after every namespace."""
    grant(server)
    directory = tmp_path_factory.mktemp("controller")
    config = account_kubeconfig(cluster, server, directory / "config")
    with ControllerProcess(config, directory / "log", "--leader-elect") as process:
        yield process.wait_leading()
        assert process.terminate() == 0, process.log
        assert "Traceback" not in process.log, process.log


@pytest.fixture(scope="session")
def collector(server, genericjobs):
    """The garbage collector, once it knows our kind: it looks for new ones every 30 s. Seen by jobs that take a ConfigMap along."""
    with Namespaces(server).fresh() as namespace:
        numbers = count(1)

        def collects():
            """ONE AFTER THE OTHER: what it cannot understand it tries again ever more rarely."""
            name = f"known-{next(numbers)}"
            job = server.create(genericjobs, a_job(name, replicas(0)), namespace).object["metadata"]
            owner = {"apiVersion": genericjobs.api_version, "kind": genericjobs.kind, "name": name, "uid": job["uid"]}
            server.create(CONFIG_MAPS, {"metadata": {"name": name, "ownerReferences": [owner]}}, namespace)
            server.delete(genericjobs, Key(namespace, name))
            return eventually(lambda: not server.list(CONFIG_MAPS, namespace, fields=f"metadata.name={name}").items, within=1.0)

        eventually(collects)


@pytest.fixture
def audit(plane, server):
    """What the server was asked, by whom, and what came of it."""
    return Audit(plane.audit_log, server)


@pytest.fixture
def record(audit):
    """`record(job)`: what the controller does for a job from now on."""
    here = audit.here
    return lambda job: Record(audit, job, here)


@pytest.fixture
def kubectl(plane, namespace):
    """kubectl in the test's namespace."""
    return lambda *args, **more: plane.kubectl("--namespace", namespace, *args, **more)


@pytest.fixture(scope="module")
def ground(cluster):
    """A node for the jobs of a module: the only one without a taint, so that jobs run on it without asking for it."""
    with Nodes(cluster.api) as nodes:
        yield nodes.add(machine=Machine(pods=1000, extended={"example.com/gpu": "8"}))


@pytest.fixture
def team(server, controller, namespace, ground):
    """A namespace whose jobs are run."""
    return Team(server, namespace, ground)


def pytest_collection_modifyitems(items):
    """Tests with the controller come last: others make jobs of 10,000 replicas that nobody is to run. The collector needs time, too."""
    items.sort(key=lambda item: sum(name in getattr(item, "fixturenames", ()) for name in ("controller", "collector")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show what the controller said."""
    report = yield
    controller = getattr(item, "funcargs", {}).get("controller")
    if report.failed and controller:
        report.sections.append((f"the controller, {controller.log_file}", "\n".join(controller.log.splitlines()[-LINES:])))
    return report


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
        server.patch(RAW_PODS, orphan, {"metadata": {"finalizers": [FINALIZER]}})  # keeps its last state readable
        lost.lose()
        deleted.lose()  # a kubelet that is reachable would see the deletion and report how its containers ended
        deleted.delete_node()
        yield nodes, lost, deleted, left, patient, orphan


@pytest.fixture(scope="session")
def calamity(cluster, server, controller):
    """Jobs whose nodes are gone; it takes the control plane a minute to see, and longer to clean up."""
    with Nodes(cluster.api) as nodes, Namespaces(server).fresh() as namespace:
        yield Calamity(server, namespace, nodes)


@pytest.fixture(autouse=True)
def begin_early(request):
    """What takes long goes on while other tests run: it begins with the first on the same control plane, if anybody will ask for it."""
    slow = {"cluster": "disaster", "controller": "calamity"}.get(lane(request.node))
    if slow and any(slow in item.fixturenames for item in request.session.items):
        request.getfixturevalue(slow)
