"""`genericjob check`: who runs the jobs of a namespace."""

from datetime import timedelta

import pytest

from genericjob.cli.check import _controller
from genericjob.cli.options import HOME
from genericjob.cli.tables import now
from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import LEASES, NAMESPACES

ALL, TEAM, OTHERS = "genericjob-controller", "genericjob-controller.team", "genericjob-controller.others"
NEEDS_NONE = f"nobody has the lease {HOME}/{ALL}; a controller that runs without --leader-elect needs none"


def api(**leases):
    """A server with leases: name, and for how many seconds nobody has renewed it."""
    memory = MemoryApi()
    memory.create(NAMESPACES, {"metadata": {"name": HOME}})
    for name, silent in leases.items():
        renewed = (now() - timedelta(seconds=silent)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": f"holder of {name}", "leaseDurationSeconds": 15, "renewTime": renewed}
        memory.create(LEASES, {"metadata": {"name": name}, "spec": spec}, HOME)
    return memory


@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ({}, NEEDS_NONE),
        ({ALL: 1}, f"holder of {ALL} leads"),
        ({ALL: 1, TEAM: 1}, f"holder of {ALL} leads"),
        ({TEAM: 1}, f"holder of {TEAM} leads, in namespace team only"),
        ({ALL: 60, TEAM: 1}, f"holder of {TEAM} leads, in namespace team only"),
        ({TEAM: 60}, NEEDS_NONE),
        ({OTHERS: 1}, NEEDS_NONE),
    ],
)
def test_a_controller_of_all_namespaces_or_of_this_one_is_found(leases, told):
    assert _controller(api(**leases), "team") == told


def test_a_lease_that_is_not_renewed_is_reported():
    assert f"holder of {ALL} had the lease {HOME}/{ALL}, and has not renewed it for" in _controller(api(**{ALL: 60}), "team")


def test_a_user_who_may_not_read_leases_is_told_so():
    faulty = FaultyApi(api())
    faulty.refuse(ApiError(403, "Forbidden", "no"), "get", times=2)
    assert _controller(faulty, "team") == f"unknown: you may not read the lease {HOME}/{ALL}"
