"""Fixtures of every level of tests. The cluster starts when the first test asks for it."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from harness.clusters import Cluster, Namespaces, started
from harness.lanes import lane
from sim.crashes import TALLY, Tally

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("fresh", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

SECONDS = {}
"""How long each test took, in this session."""


def pytest_configure():
    """Shells start background jobs deaf to Ctrl-C, and deafness is inherited; tests that press it need programs that listen."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Several processes may run tests (`-n 3 --dist loadgroup`): who shares a control plane goes to one of them.

    xdist finds groups at the end of names, and its own way to put them there does not reach the names that pytest has since version 9.
    """
    if hasattr(config, "workerinput"):
        for item in items:
            if found := lane(item):
                item._id = type(item._id).parse(f"{item.nodeid}@{found}")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """One of several processes has run its tests."""
    TALLY.add(Tally(**getattr(node, "workeroutput", {}).get("simulation", {})))


def pytest_terminal_summary(terminalreporter):
    if TALLY.points:
        terminalreporter.write_line(f"simulation: {TALLY}")


def pytest_runtest_logreport(report):
    """Note how long each test takes: `hack/flaky` repeats the slowest."""
    SECONDS[report.nodeid] = SECONDS.get(report.nodeid, 0.0) + report.duration


def pytest_sessionfinish(session):
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("genericjob/seconds", cache.get("genericjob/seconds", {}) | {test: round(took, 2) for test, took in SECONDS.items()})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """What is sent from process to process has to be text that can be sent; some tests print what is not."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
def cluster(request):
    """A Kubernetes cluster: the one named by --kubeconfig, else a control plane of our own."""
    existing = request.config.getoption("kubeconfig")
    if existing:
        yield Cluster(Path(existing).expanduser())
        return
    with started(f"test-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture
def plane(cluster):
    """A control plane whose processes and store are ours to treat badly; others share it, so leave it running."""
    if cluster.plane is None:
        pytest.skip("needs a control plane of its own; --kubeconfig names a cluster that belongs to others")
    return cluster.plane


@pytest.fixture(scope="session")
def server(cluster):
    """The API port, as administrator."""
    return cluster.api()


@pytest.fixture
def namespace(server):
    """A fresh namespace."""
    with Namespaces(server).fresh() as name:
        yield name
