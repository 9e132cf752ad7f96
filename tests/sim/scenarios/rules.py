"""Rules: when a job ends, and how."""

from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import ranks, scenario

SERVED = {"successRules": [{"worker": ["all"]}], "failureRules": [{"server": ["any"]}, {"worker": ["any"]}]}


@scenario("Succeeded", ranks(worker_0=Program(2.0), other=FOREVER), "Succeeded", "LeftRunning")
def rank_zero_decides(cluster: Cluster) -> None:
    """The seed's first example, in small."""
    cluster.submit(types={"worker": 3}, successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}, {"worker": [1]}])


@scenario("Failed", ranks(worker_1=Program(2.0, 3), other=FOREVER), "Failed", "LeftRunning")
def rank_one_fails(cluster: Cluster) -> None:
    """Its second half."""
    cluster.submit(types={"worker": 3}, successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}, {"worker": [1]}])


@scenario("Succeeded", ranks(ps_0=Program(4.0), other=Program(2.0)), "Succeeded")
def two_types_with_services(cluster: Cluster) -> None:
    """No rules: all must succeed."""
    cluster.submit(types={"ps": 1, "worker": 2}, service={"ports": [{"name": "http", "port": 80}]})


@scenario("Succeeded", ranks(server_0=FOREVER, other=Program(2.0)), "Succeeded", "LeftRunning")
def all_workers_beside_a_server_that_never_ends(cluster: Cluster) -> None:
    """One line per rule, however many workers there are."""
    cluster.submit(types={"server": 1, "worker": 4}, **SERVED)


@scenario("Failed", ranks(worker_2=Program(2.0, 3), other=FOREVER), "Failed", "LeftRunning")
def any_worker_fails(cluster: Cluster) -> None:
    """Its other half."""
    cluster.submit(types={"server": 1, "worker": 4}, **SERVED)


@scenario("Succeeded", ranks(worker_2=Program(5.0), worker_3=Program(1.0, 1), other=Program(2.0)), "Succeeded")
def a_range_of_workers_decides(cluster: Cluster) -> None:
    """Ranges beside numbers: the job waits for the last of them, and the one between may fail."""
    cluster.submit(types={"worker": 5}, successRules=[{"worker": ["0-2", 4]}], failureRules=[{"worker": ["0-4"]}])


@scenario("Succeeded", ranks(worker_0=Program(1.0), other=Program(3.0)), "Succeeded", "Paused", "Resuming", ready="3/3")
def all_means_the_replicas_of_today(cluster: Cluster) -> None:
    """A job that is paused gets two more workers, and the rule counts them."""
    cluster.submit(types={"worker": 1}, suspend=True, successRules=[{"worker": ["all"]}])
    cluster.reach_phase("Paused")
    cluster.resize(worker=3)
    cluster.edit(suspend=False)


@scenario("Failed", ranks(worker_0=Program(2.0, 1), other=Program(3.0)), "NoSuccessRuleReachable", "LeftRunning")
def no_rule_can_be_met(cluster: Cluster) -> None:
    """One failure is too many."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
