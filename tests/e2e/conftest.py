"""What end-to-end tests ask for, beside a cluster: nodes."""

import pytest

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
