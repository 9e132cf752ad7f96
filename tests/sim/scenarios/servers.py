"""Trouble with the server: refusals, lost answers, broken watches."""

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS
from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario

QUOTA = ApiError(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0')


@scenario("Running", ranks(other=FOREVER), "FailedCreate")
def a_quota_is_raised(cluster: Cluster) -> None:
    """Refused for a while, and all the more patient."""
    cluster.faults.refuse(QUOTA, "create", resource=RAW_PODS, times=10**6)
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(20)
    cluster.faults.heal()
    cluster.stepped.advance(60)


@scenario("Running", ranks(other=FOREVER))
def answers_are_lost(cluster: Cluster) -> None:
    """Whether it happened is unknown, three times."""
    cluster.faults.lose("create", resource=RAW_PODS, times=2)
    cluster.faults.lose("replace_status", times=1)
    cluster.submit(types={"worker": 3})
    cluster.stepped.advance(30)


@scenario("Succeeded", ranks(worker_0=(fails(), Program(3.0)), other=Program(5.0)), "Restarting", "Succeeded", restarts=1)
def answers_are_lost_in_a_restart(cluster: Cluster) -> None:
    """The charge, the delete and the create may each have happened, or not."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 1)
    cluster.faults.lose("replace_status", times=1)
    cluster.faults.lose("delete", times=1)
    cluster.faults.lose("create", resource=RAW_PODS, times=1)


@scenario("Succeeded", ranks(worker_0=Program(40.0), other=FOREVER), "Succeeded", "LeftRunning")
def watches_break(cluster: Cluster) -> None:
    """And the past is forgotten: 410, and a new list."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}])
    cluster.stepped.advance(5)
    cluster.api.cut_watches()
    cluster.api.compact()
    cluster.stepped.advance(5)
    cluster.faults.cut_watches()


@scenario("Succeeded", ranks(worker_0=(fails(6.0), Program(20.0)), other=Program(30.0)), "Restarting", "Succeeded", restarts=1)
def watches_break_in_a_restart(cluster: Cluster) -> None:
    """The old pod and the new one have the same name, and nobody saw one go and the other come."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    cluster.reach(lambda: cluster.status().restarts == 1)
    cluster.api.cut_watches()
    cluster.api.compact()


@scenario("Succeeded", ranks(worker_0=(fails(6.0), Program(20.0)), other=Program(90.0)), "Restarting", "Succeeded", restarts=1)
def watches_stand_still(cluster: Cluster) -> None:
    """The server's cache lags behind its store: what was written is not seen for a while."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    cluster.reach(lambda: cluster.status().restarts == 1)
    cluster.api.lag()
    cluster.stepped.advance(20)
    cluster.api.catch_up()


@scenario("Succeeded", ranks(other=(FOREVER, Program(20.0))), "Succeeded", epoch=1, resumes=1, runs={"worker-0": 2})
def answers_are_lost_in_a_pause(cluster: Cluster) -> None:
    """Of its beginning, of its deletes, and of its end. Of what is stored without an answer no event tells."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.faults.lose("replace_status", times=1)
    cluster.faults.lose("delete", times=2)
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.faults.lose("replace_status", times=1)
    cluster.faults.lose("create", resource=RAW_PODS, times=2)
    cluster.resume()
