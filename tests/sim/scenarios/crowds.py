"""Crowds: many writes on their way at the same time, of which a crash lets any number arrive."""

from sim.crashes import FEW, MOST
from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario

CROWD = 16 if FEW == MOST else 9
"""A controller begins slowly: it takes sixteen writes to have eight of them on their way."""


@scenario("Succeeded", ranks(worker_0=Program(5.0), other=FOREVER), "Succeeded", "CleanedUp", writers=8)
def a_crowd_comes_and_goes(cluster: Cluster) -> None:
    """All are created, and all are cleaned up."""
    cluster.submit(types={"worker": CROWD}, successRules=[{"worker": [0]}], cleanUpPolicy="All")


@scenario("Succeeded", ranks(other=(fails(3.0), Program(3.0))), "Succeeded", "Restarting", writers=8, restarts=4)
def a_crowd_fails_and_tries_again(cluster: Cluster) -> None:
    """All at the same time, each for itself."""
    cluster.submit(types={"worker": 4}, restart={"policy": "OnFailure", "limit": 1})


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", writers=8, epoch=1, resumes=1)
def a_crowd_pauses(cluster: Cluster) -> None:
    """And comes back in full."""
    cluster.submit(types={"worker": 5})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resume()
    cluster.reach_phase("Running")
