"""Pauses: no replicas for a while, and then all of them again."""

from sim.jobs import RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import TRAIN, fails, ranks, scenario

SLOW = Program(exit_code=None, stops=10.0, stops_with=0)
"""Takes its time to stop, and then claims success."""
RESUME = {"enabled": False, "resumeSpecs": [{"type": "worker", "command": ["resume", "$(rank)"]}]}


@scenario("Paused", ranks(other=SLOW), "Paused", epoch=1)
def a_pause(cluster: Cluster) -> None:
    """A program that exits 0 because it is asked to go has not succeeded."""
    cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]}, successRules=[{"worker": [0]}])
    cluster.reach_phase("Running")
    cluster.pause()


@scenario("Succeeded", ranks(other=(SLOW, Program(5.0))), "Paused", "Resuming", "Succeeded", epoch=1, resumes=1, runs={"worker-0": 2})
def a_pause_and_on(cluster: Cluster) -> None:
    """With another command from then on."""
    cluster.submit(types={"worker": 2}, runMode={"pause": RESUME})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.stepped.advance(30)
    cluster.resume()
    cluster.reach_phase("Running")
    assert cluster.commands() == {"resume"}


@scenario("Running", ranks(other=SLOW), "Paused", "Resuming", epoch=1, resumes=1, runs={"worker-0": 2, "worker-1": 2})
def a_change_of_mind_on_the_way_to_a_pause(cluster: Cluster) -> None:
    """Those that are on their way out go, all of them, before the first one comes."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach(lambda: cluster.status().pause_time is not None)
    cluster.resume()
    cluster.reach(lambda: cluster.status().resumes == 1)
    cluster.reach_phase("Running")


@scenario("Paused", ranks(other=SLOW), "Paused", "Resuming", epoch=2, resumes=1)
def a_change_of_mind_on_the_way_back(cluster: Cluster) -> None:
    """Those that have come go again."""
    cluster.submit(types={"worker": 2}, runMode={"pause": {"enabled": True}})
    cluster.reach_phase("Paused")
    cluster.resume()
    cluster.reach(lambda: cluster.status().pause_time is None)
    cluster.edit(suspend=True)


@scenario("Paused", ranks(other=FOREVER), "Paused", creates=False, epoch=1)
def created_paused(cluster: Cluster) -> None:
    """Nothing is created."""
    cluster.submit(types={"worker": 2}, suspend=True)


@scenario("Running", ranks(other=SLOW), "Paused", "Resuming", epoch=2, resumes=1, runs={"worker-0": 2})
def a_queue_admits_a_job_and_takes_it_back(cluster: Cluster) -> None:
    """Its first start is one; after a pause that ended pods it resumes."""
    cluster.submit(types={"worker": 2}, suspend=True, runMode={"pause": RESUME})
    cluster.reach_phase("Paused")
    cluster.edit(suspend=False)
    cluster.reach_running()
    assert cluster.commands() == {"run"}
    cluster.edit(suspend=True)
    cluster.reach_phase("Paused")
    cluster.edit(suspend=False)
    cluster.reach_running()
    assert cluster.commands() == {"resume"}


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1, resumes=1, runs={"worker-0": 1})
def created_with_a_pause_and_resumed(cluster: Cluster) -> None:
    """Who creates a job paused says with it how it is to start."""
    cluster.submit(types={"worker": 2}, runMode={"pause": {**RESUME, "enabled": True}})
    cluster.reach_phase("Paused")
    cluster.resume()
    cluster.reach_running()
    assert cluster.commands() == {"resume"}


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1, resumes=1)
def two_switches(cluster: Cluster) -> None:
    """Both must be off."""
    cluster.submit(types={"worker": 2}, suspend=True, runMode={"pause": {"enabled": True}})
    cluster.reach_phase("Paused")
    cluster.edit(suspend=False)
    cluster.stepped.advance(30)
    assert cluster.phase() == "Paused"
    cluster.resume()
    cluster.reach_phase("Running")


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1)
def fewer_replicas_after_a_pause(cluster: Cluster) -> None:
    """A rank goes, and its service with it."""
    cluster.submit(types={"worker": 3}, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resize(worker=2)
    cluster.stepped.advance(10)
    cluster.resume()
    cluster.reach_phase("Running")


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", epoch=1)
def more_replicas_after_a_pause(cluster: Cluster) -> None:
    """A rank comes, with its service."""
    cluster.submit(types={"ps": 1, "worker": 1}, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resize(ps=0, worker=3)
    cluster.resume()
    cluster.reach_phase("Running")


@scenario("Succeeded", ranks(worker_0=Program(), other=FOREVER), "Succeeded", "LeftRunning", epoch=0)
def a_finished_job_is_paused(cluster: Cluster) -> None:
    """Which does nothing."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}])
    cluster.reach_phase("Succeeded")
    cluster.pause()
    cluster.stepped.advance(30)


@scenario(
    "Succeeded",
    ranks(worker_0=(Program(), Program(4.0)), other=(FOREVER, Program(4.0))),
    "Paused",
    "Resuming",
    "Succeeded",
    resumes=1,
    runs={"worker-0": 2, "worker-1": 2},
)
def one_had_succeeded_before_the_pause(cluster: Cluster) -> None:
    """It runs again: the others expect it."""
    cluster.submit(types={"worker": 2})
    cluster.reach(lambda: any(task.succeeded_ranks for task in cluster.status().tasks))
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resume()
    cluster.reach(lambda: cluster.status().resumes == 1)


@scenario(
    "Failed",
    ranks(worker_0=fails(5.0), other=FOREVER),
    "Paused",
    "Resuming",
    "Restarting",
    "Failed",
    "LeftRunning",
    restarts=1,
    runs={"worker-0": 3},
)
def a_pause_between_two_failures(cluster: Cluster) -> None:
    """What was charged before stays charged, and the pause is not."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resume()


@scenario("Paused", ranks(other=SLOW), "Paused", epoch=1)
def a_pause_while_pods_are_created(cluster: Cluster) -> None:
    """Those that have come go, and the rest does not come."""
    cluster.submit(types={"worker": 4})
    cluster.reach(lambda: len(cluster.pods()) >= 2)
    cluster.pause()


@scenario("Running", ranks(other=(SLOW, FOREVER)), "Paused", "Resuming", epoch=1, runs={"worker-0": 2, "worker-2": 1})
def fewer_replicas_while_the_old_ones_still_go(cluster: Cluster) -> None:
    """A rank that is no more is waited for like any other."""
    cluster.submit(types={"worker": 3}, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resize(worker=2)
    cluster.resume()
    cluster.stepped.advance(5)
    assert cluster.node.table.runs("train-worker-0") == 1 or not cluster.node.table.running("train-worker-2")
    cluster.reach_phase("Running")


@scenario("Running", ranks(other=(SLOW, FOREVER)), "Paused", "Resuming", "RestartingJob", epoch=2, resumes=1, job_restarts=1)
def a_pause_while_all_restart(cluster: Cluster) -> None:
    """Two epochs end before one begins."""
    cluster.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3, "scope": "Job"})
    cluster.reach_running()
    cluster.node.kill("train-worker-1")
    cluster.reach(lambda: cluster.status().job_restarts == 1)
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resume()
    cluster.reach_phase("Running")


@scenario("Running", ranks(other=(SLOW, FOREVER)), "Paused", "Resuming", epoch=1, resumes=1, job_restarts=0, job_restarts_in_a_row=0)
def a_pause_of_those_who_restart_together(cluster: Cluster) -> None:
    """That they go one after the other is nobody's loss."""
    cluster.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3, "scope": "Job"})
    cluster.reach_running()
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.stepped.advance(30)
    cluster.resume()
    cluster.reach_phase("Running")


@scenario("", ranks(other=SLOW), "Paused")
def a_paused_job_is_deleted(cluster: Cluster) -> None:
    """With those that are still on their way out."""
    cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach(lambda: cluster.status().pause_time is not None)
    cluster.api.delete(RAW_JOBS, TRAIN, propagation="Foreground")
