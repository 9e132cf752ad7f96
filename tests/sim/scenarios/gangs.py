"""Gangs: pods that the T9k scheduler places together."""

from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS
from harness import podgroups
from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario

SCHEDULER = {"t9kScheduler": {"queue": "night", "priority": 7}}


def install(cluster: Cluster) -> None:
    """The scheduler's own kind."""
    cluster.api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())


@scenario("Succeeded", ranks(worker_0=(fails(), Program(3.0)), other=Program(5.0)), "Restarting", "Succeeded", restarts=1)
def a_gang(cluster: Cluster) -> None:
    """Its group is there before its pods, and outlives a restart."""
    install(cluster)
    cluster.submit(types={"worker": 3}, scheduler=SCHEDULER, restart={"policy": "OnFailure", "limit": 1})


@scenario("Running", ranks(other=FOREVER), "SchedulerMissing")
def the_scheduler_comes_later(cluster: Cluster) -> None:
    """No pod before its group; the job waits and says for what."""
    cluster.submit(types={"worker": 2}, scheduler=SCHEDULER)
    cluster.stepped.advance(20)
    assert cluster.pods() == []
    install(cluster)
    cluster.stepped.advance(100)


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1)
def a_gang_changes_its_size(cluster: Cluster) -> None:
    """The group follows."""
    install(cluster)
    cluster.submit(types={"worker": 2}, scheduler=SCHEDULER)
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resize(worker=3)
    cluster.resume()
    cluster.reach_phase("Running")
