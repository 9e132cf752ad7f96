"""Trouble with pods and nodes: they go, they wait, they do not go."""

from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import ranks, scenario

SLOW = Program(exit_code=None, stops=20.0, stops_with=0)
FIRST = [{"worker": [0]}]


@scenario(
    "Succeeded",
    ranks(other=FOREVER),
    "Succeeded",
    "Restarting",
    "LeftRunning",
    losses=True,
    restarts=0,
    runs={"worker-1": 2},
)
def a_running_pod_is_deleted(cluster: Cluster) -> None:
    """Somebody preempts rank 1: it runs again, and is charged to nobody."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_running()
    cluster.delete_pod("train-worker-1")
    cluster.reach(lambda: cluster.node.table.runs("train-worker-1") == 2)
    cluster.node.kill("train-worker-0", 0)


@scenario("Running", ranks(worker_0=(SLOW, FOREVER), other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2})
def a_deleted_pod_takes_its_time_and_claims_success(cluster: Cluster) -> None:
    """Its name is taken until it is gone, and how it ends says nothing."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_running()
    cluster.delete_pod("train-worker-0")
    cluster.stepped.advance(10)
    assert cluster.node.table.runs("train-worker-0") == 1
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


@scenario("Running", ranks(worker_0=(SLOW, FOREVER), other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2})
def a_node_is_drained(cluster: Cluster) -> None:
    """Evicted through the API: the condition comes first, then the deletion, then a final phase."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Never"}, failureRules=FIRST)
    cluster.reach_running()
    cluster.node.disrupt("train-worker-0")
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


@scenario("Succeeded", ranks(worker_0=Program(2.0), other=Program(30.0)), "Succeeded", runs={"worker-0": 1})
def a_finished_pod_is_deleted(cluster: Cluster) -> None:
    """Once its outcome is stored a rank is never run again."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
    cluster.reach(lambda: any(task.succeeded_ranks for task in cluster.status().tasks))
    cluster.delete_pod("train-worker-0")


@scenario("Running", ranks(other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2, "worker-1": 1})
def a_node_is_lost_and_comes_back(cluster: Cluster) -> None:
    """The pod stays on its way out for as long as nobody knows whether it runs."""
    cluster.submit(types={"worker": 2})
    cluster.reach_running()
    cluster.node.lose("train-worker-0")
    cluster.delete_pod("train-worker-0")
    cluster.stepped.advance(120)
    assert cluster.node.table.runs("train-worker-0") == 1
    assert cluster.node.table.running("train-worker-0")
    cluster.reach(lambda: cluster.says("still there", "train-worker-0"))
    cluster.node.back()
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


@scenario("Running", ranks(other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2})
def a_node_is_lost_and_removed(cluster: Cluster) -> None:
    """Asked to go first, and gone with its node: no outcome, although it did its work."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_running()
    cluster.node.lose("train-worker-0")
    cluster.delete_pod("train-worker-0")
    cluster.node.kill("train-worker-0", 0)
    cluster.stepped.advance(60)
    cluster.node.removed()
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


@scenario("Running", ranks(other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2})
def a_node_is_removed_at_once(cluster: Cluster) -> None:
    """Kubernetes writes that the pod has failed, for the sake of others, and removes it in the same breath."""
    cluster.submit(types={"worker": 2}, restart={"policy": "Never"}, failureRules=FIRST)
    cluster.reach_running()
    cluster.node.lose("train-worker-0")
    cluster.node.removed()
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


@scenario("Succeeded", ranks(other=FOREVER), "Succeeded", "LeftRunning", runs={"worker-0": 1})
def a_node_is_silent_while_a_rank_ends(cluster: Cluster) -> None:
    """Nobody had asked the pod to go: when the node is back its end counts."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_running()
    cluster.node.lose("train-worker-0")
    cluster.node.kill("train-worker-0", 0)
    cluster.stepped.advance(60)
    assert cluster.phase() == "Running"
    cluster.node.back()


@scenario("Succeeded", ranks(worker_0=Program(waits=30.0), other=Program(40.0)), "Succeeded")
def an_image_cannot_be_pulled_for_a_while(cluster: Cluster) -> None:
    """Somebody pushes it."""
    cluster.submit(types={"worker": 2})
    cluster.reach(lambda: cluster.says("ImagePullBackOff"))


@scenario("Succeeded", ranks(worker_1=Program(waits=30.0, why="Unschedulable"), other=Program(40.0)), "Succeeded")
def no_node_has_room_for_a_while(cluster: Cluster) -> None:
    """Somebody adds one."""
    cluster.submit(types={"worker": 2})
    cluster.reach(lambda: cluster.says("Unschedulable"))


@scenario("Paused", ranks(worker_0=Program(waits=10**6), worker_1=Program(waits=10**6, why="Unschedulable"), other=FOREVER), "Paused")
def pods_that_never_ran_are_paused(cluster: Cluster) -> None:
    """They go like all others."""
    cluster.submit(types={"worker": 3})
    cluster.reach(lambda: cluster.says("ImagePullBackOff"))
    cluster.pause()


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1, resumes=1, runs={"worker-0": 2, "worker-1": 2})
def a_node_is_lost_in_a_pause(cluster: Cluster) -> None:
    """Nobody is started before the last of the old ones is known to be gone."""
    cluster.submit(types={"worker": 2})
    cluster.reach_running()
    cluster.node.lose("train-worker-1")
    cluster.pause()
    cluster.reach_phase("Pausing")
    cluster.resume()
    cluster.stepped.advance(120)
    cluster.reach(lambda: cluster.says("still there", "train-worker-1"))
    assert cluster.pods() == ["train-worker-1"]
    cluster.node.back()
    cluster.reach_phase("Running")
