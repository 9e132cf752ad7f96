"""Rules: when a job ends, and how."""

from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import ranks, scenario


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


@scenario("Failed", ranks(worker_0=Program(2.0, 1), other=Program(3.0)), "NoSuccessRuleReachable", "LeftRunning")
def no_rule_can_be_met(cluster: Cluster) -> None:
    """One failure is too many."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
