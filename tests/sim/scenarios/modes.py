"""Debug: the environment without the work."""

from sim.jobs import Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario

DEBUG = {"debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "command": ["/usr/bin/sshd"]}]}}


@scenario("Running", ranks(worker_0=(Program(), fails(), FOREVER), other=FOREVER), "Restarting", restarts=0, runs={"worker-0": 3})
def a_debugged_program_exits(cluster: Cluster) -> None:
    """It is started again, is charged nothing, and no rule is asked, however it ends."""
    cluster.submit(types={"worker": 2}, runMode=DEBUG, successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}])
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 3)
    cluster.reach_phase("Running")


@scenario("Running", ranks(other=FOREVER), "Paused", "Resuming", resumes=1, epoch=1)
def debug_and_pause(cluster: Cluster) -> None:
    """Pause wins; then debug wins over how to resume."""
    resume = [{"type": "worker", "command": ["resume"]}]
    cluster.submit(types={"worker": 2}, runMode={**DEBUG, "pause": {"enabled": True, "resumeSpecs": resume}})
    cluster.reach_phase("Paused")
    cluster.stepped.advance(10)
    assert cluster.pods() == []
    cluster.resume()
    cluster.reach_phase("Running")
    assert cluster.commands() == {"/usr/bin/sshd"}


@scenario("Succeeded", ranks(other=(FOREVER, Program(3.0))), "Paused", "Resuming", "Succeeded", resumes=1)
def the_debugging_is_over(cluster: Cluster) -> None:
    """After a pause the work begins."""
    cluster.submit(types={"worker": 2}, runMode=DEBUG)
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.edit(runMode={"debug": {"enabled": False}, "pause": {"enabled": False}})
    cluster.reach_phase("Running")
    assert cluster.commands() == {"run"}


@scenario("Succeeded", ranks(other=(FOREVER, Program(5.0))), "Restarting", "Succeeded", restarts=0, runs={"worker-0": 2})
def the_debugging_is_over_without_a_pause(cluster: Cluster) -> None:
    """What was made to be debugged says nothing when it ends; what comes after it does the work."""
    cluster.submit(types={"worker": 2}, runMode=DEBUG)
    cluster.reach_running()
    cluster.edit(runMode={"debug": {"enabled": False}})
    cluster.stepped.advance(20)
    for rank in range(2):
        cluster.node.kill(f"train-worker-{rank}", exit_code=0)
    cluster.reach(lambda: cluster.commands() == {"run"})


@scenario("Failed", ranks(other=FOREVER), "DeadlineExceeded", "CleanedUp", "Restarting", restarts=0)
def a_debugged_job_has_a_deadline(cluster: Cluster) -> None:
    """Somebody forgot it."""
    cluster.submit(types={"worker": 2}, runMode=DEBUG, activeDeadlineSeconds=60)
    cluster.reach_running()
    cluster.node.kill("train-worker-0")
