"""Restarts: of one rank and of the whole job, charged and uncharged."""

from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario

DISRUPTED = Program(2.0, 137, taken="Disrupted")
EVICTED = Program(2.0, 137, taken="Evicted")


@scenario("Succeeded", ranks(worker_0=(fails(), fails(), Program()), other=Program(9.0)), "Succeeded", "Restarting", restarts=2)
def within_the_limit(cluster: Cluster) -> None:
    """The third try of rank 0 goes well."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 2})


@scenario("Failed", ranks(worker_0=fails(), other=Program(30.0)), "Failed", "Restarting", "LeftRunning", restarts=2, runs={"worker-0": 3})
def beyond_the_limit(cluster: Cluster) -> None:
    """Two restarts are charged, and the third failure is the last."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 2})


@scenario("Succeeded", ranks(worker_2=Program(3.0), other=(fails(), Program())), "Succeeded", "Restarting", restarts=2)
def two_ranks_fail_at_the_same_time(cluster: Cluster) -> None:
    """Each is charged with its own."""
    cluster.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 1}, service={"ports": [{"port": 80}]})


@scenario("Failed", ranks(worker_0=fails(), other=FOREVER), "Failed", "LeftRunning", restarts=0, runs={"worker-0": 1})
def never_means_never(cluster: Cluster) -> None:
    """Whatever the limit says."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Never", "limit": 3})


@scenario("Succeeded", ranks(other=(fails(), Program(), Program())), "Succeeded", "Restarting", restarts=4, runs={"worker-1": 3})
def always_until_the_limit(cluster: Cluster) -> None:
    """The last exit decides, and it is a good one."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Always", "limit": 2})


@scenario("Failed", ranks(worker_0=(Program(), Program(), fails()), other=FOREVER), "Failed", "Restarting", "LeftRunning", restarts=2)
def always_until_a_bad_end(cluster: Cluster) -> None:
    """The last exit decides, and it is a bad one."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Always", "limit": 2}, failureRules=[{"worker": [0]}])


@scenario(
    "Succeeded",
    ranks(ps_0=(Program(), fails(), Program(), FOREVER), other=FOREVER),
    "Succeeded",
    "Restarting",
    "LeftRunning",
    restarts=3,
)
def a_server_without_limit_beside_a_worker(cluster: Cluster) -> None:
    """It never ends, and the worker decides."""
    cluster.submit(types={"ps": 1, "worker": 1}, restart={"ps": {"policy": "Always"}})
    cluster.reach(lambda: cluster.node.table.runs("train-ps-0") == 4)
    cluster.node.kill("train-worker-0", 0)


@scenario("Succeeded", ranks(worker_0=(DISRUPTED, Program()), other=Program(5.0)), "Succeeded", "Restarting", restarts=0)
def a_disruption_is_not_charged(cluster: Cluster) -> None:
    """Not even under Never."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Never"})


@scenario("Failed", ranks(worker_0=EVICTED, other=FOREVER), "Failed", "Restarting", "LeftRunning", restarts=1, runs={"worker-0": 2})
def an_eviction_by_its_own_fault_is_charged(cluster: Cluster) -> None:
    """Without the condition DisruptionTarget it is a failure like any other."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})


@scenario(
    "Succeeded",
    ranks(worker_0=(fails(exit_code=42), fails(exit_code=42), Program()), other=Program(9.0)),
    "Succeeded",
    "Restarting",
    restarts=0,
)
def an_exit_code_that_is_not_charged(cluster: Cluster) -> None:
    """It asks to be started again."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Never", "exitCodes": {"notCharged": [42]}})


@scenario("Failed", ranks(worker_0=(fails(), fails(exit_code=3)), other=FOREVER), "Failed", "Restarting", "LeftRunning", restarts=1)
def an_exit_code_after_which_nothing_helps(cluster: Cluster) -> None:
    """Whatever is left of the limit."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 5, "exitCodes": {"neverRestart": [3]}})


# ------------------------------------------------------------------------------------------------ all together

TOGETHER = {"policy": "OnFailure", "limit": 1, "scope": "Job"}


@scenario(
    "Succeeded",
    ranks(worker_1=(fails(2.0), Program(3.0)), other=(FOREVER, Program(3.0))),
    "Succeeded",
    "RestartingJob",
    job_restarts=1,
    epoch=1,
    runs={"worker-0": 2, "worker-1": 2, "worker-2": 2},
)
def all_restart_together(cluster: Cluster) -> None:
    """One fails, and nobody is spared."""
    cluster.submit(types={"worker": 3}, restart=TOGETHER)


@scenario("Failed", ranks(worker_1=fails(2.0), other=FOREVER), "Failed", "RestartingJob", "LeftRunning", job_restarts=1, epoch=1)
def all_restart_too_often(cluster: Cluster) -> None:
    """The job's limit, not the rank's."""
    cluster.submit(types={"worker": 2}, restart=TOGETHER)


@scenario(
    "Succeeded",
    ranks(worker_0=Program(), worker_1=(fails(5.0), Program())),
    "Succeeded",
    "RestartingJob",
    job_restarts=1,
    runs={"worker-0": 2, "worker-1": 2},
)
def one_had_succeeded_when_all_restart(cluster: Cluster) -> None:
    """It runs again: the others expect it."""
    cluster.submit(types={"worker": 2}, restart=TOGETHER)


@scenario(
    "Succeeded",
    ranks(worker_0=(DISRUPTED, Program(3.0)), other=(FOREVER, Program(3.0))),
    "Succeeded",
    "RestartingJob",
    job_restarts=0,
    epoch=1,
    runs={"worker-1": 2},
)
def all_restart_and_nobody_is_charged(cluster: Cluster) -> None:
    """A disruption of one is a restart of all, and on the house."""
    cluster.submit(types={"worker": 2}, restart=TOGETHER)


@scenario(
    "Succeeded",
    ranks(other=(FOREVER, Program(3.0))),
    "Succeeded",
    "RestartingJob",
    job_restarts=0,
    epoch=1,
    runs={"worker-0": 2, "worker-1": 2, "worker-2": 2},
)
def all_restart_for_one_that_was_deleted(cluster: Cluster) -> None:
    """Whether anybody saw it go or not."""
    cluster.submit(types={"worker": 3}, restart=TOGETHER)
    cluster.reach_running()
    cluster.delete_pod("train-worker-2")


@scenario(
    "Succeeded",
    ranks(ps_0=(fails(2.0), FOREVER), worker_1=(fails(8.0), Program(3.0)), other=(FOREVER, Program(3.0))),
    "Succeeded",
    "Restarting",
    "RestartingJob",
    "LeftRunning",
    job_restarts=1,
    restarts=2,
)
def one_alone_and_then_all_together(cluster: Cluster) -> None:
    """Each type by its own scope."""
    cluster.submit(types={"ps": 1, "worker": 2}, restart={"ps": {"policy": "Always"}, "worker": TOGETHER})


@scenario("Failed", ranks(worker_0=fails(5.0), other=FOREVER), "Failed", "Restarting", "LeftRunning", restarts=1, runs={"worker-0": 2})
def a_limit_is_lowered(cluster: Cluster) -> None:
    """What was charged stays charged, and the next failure is the last."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 5})
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)
    cluster.restart_policy(policy="OnFailure", limit=0)
