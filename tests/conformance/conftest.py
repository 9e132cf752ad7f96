"""The two implementations of the port, side by side, and the one in memory again as it is served to others."""

from contextlib import suppress

import pytest

from conformance.kinds import DEFINITIONS, GADGETS, NODE, WIDGETS
from conformance.worlds import MemoryWorld, ServedWorld, ServerWorld
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, NODES, Key
from harness.clusters import eventually


@pytest.fixture(scope="session")
def server_with_kinds(server):
    for definition in DEFINITIONS:
        with suppress(ApiError):  # there already, on a cluster that was used before
            server.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    for resource in (WIDGETS, GADGETS):
        eventually(lambda resource=resource: server.list(resource).resource_version)
    with suppress(ApiError):
        # Pods bound to a node that does not exist would be swept away under the tests.
        server.create(NODES, {"metadata": {"name": NODE}, "spec": {"unschedulable": True}})
    yield server
    with suppress(ApiError):
        server.delete(NODES, Key("", NODE))


def memory_with_kinds():
    from genericjob.local import MemoryApi

    api = MemoryApi()
    for definition in DEFINITIONS:
        api.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    return api


@pytest.fixture
def memory_world():
    return MemoryWorld(memory_with_kinds())


@pytest.fixture
def served_world():
    from genericjob.local.serving import ApiServer
    from genericjob.reconcile.access import Access, Credentials
    from genericjob.reconcile.http import HttpApi

    memory = memory_with_kinds()
    serving = ApiServer(memory)
    serving.start()
    access = Access(serving.host, serving.port, authorization=f"Bearer {serving.token}")
    api = HttpApi(Credentials(lambda: access))
    yield ServedWorld(api, memory)
    api.close()
    serving.stop()


@pytest.fixture
def server_world(server_with_kinds, cluster, namespace):
    return ServerWorld(server_with_kinds, cluster, namespace)


@pytest.fixture(params=["memory", "served", "server"])
def world(request):
    """One implementation, and a namespace of its own in it."""
    return request.getfixturevalue(f"{request.param}_world")
