"""What becomes of a job and its pods once it has ended, or should have."""

from typing import Any

import msgspec

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import fails, ranks, scenario
from sim.scenarios.servers import QUOTA

MIXED = ranks(worker_0=Program(5.0), worker_1=Program(), other=Program(exit_code=None, stops=3.0, stops_with=0))
"""One decides, one has ended before, one runs on and takes its time to stop."""
FIRST = [{"worker": [0]}]


@scenario("Succeeded", MIXED, "Succeeded", "CleanedUp")
def unfinished_pods_go(cluster: Cluster) -> None:
    """The finished ones stay, with their logs."""
    cluster.submit(types={"worker": 3}, successRules=FIRST, cleanUpPolicy="Unfinished")


@scenario("Succeeded", MIXED, "Succeeded", "CleanedUp")
def all_pods_go(cluster: Cluster) -> None:
    """The outcomes stay."""
    cluster.submit(types={"worker": 3}, successRules=FIRST, cleanUpPolicy="All")


@scenario("Succeeded", MIXED, "Succeeded", "LeftRunning")
def no_pod_goes(cluster: Cluster) -> None:
    """And the user is told that one runs on."""
    cluster.submit(types={"worker": 3}, successRules=FIRST)


@scenario("Failed", ranks(worker_0=fails(3.0), other=FOREVER), "Failed", "LeftRunning", "CleanedUp")
def a_user_cleans_up_later(cluster: Cluster) -> None:
    """The policy can be changed after the end."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Failed")
    cluster.stepped.advance(30)
    cluster.edit(cleanUpPolicy="All")
    cluster.reach(lambda: not cluster.pods())


@scenario("Failed", ranks(worker_0=Program(), other=FOREVER), "DeadlineExceeded", "CleanedUp")
def a_deadline_passes(cluster: Cluster) -> None:
    """Whatever still runs is stopped, and what had ended stays."""
    cluster.submit(types={"worker": 3}, activeDeadlineSeconds=30)


@scenario("Failed", ranks(other=FOREVER), "DeadlineExceeded", "CleanedUp", "Paused", "Resuming")
def a_deadline_passes_but_not_in_a_pause(cluster: Cluster) -> None:
    """Time in which a job is paused does not count."""
    cluster.submit(types={"worker": 2}, activeDeadlineSeconds=30)
    cluster.reach_phase("Running")
    cluster.stepped.advance(10)
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.stepped.advance(100)
    cluster.resume()
    cluster.reach_phase("Running")
    cluster.stepped.advance(10)
    assert cluster.phase() == "Running"
    cluster.stepped.advance(15)
    assert cluster.phase() == "Failed"


@scenario("", ranks(other=Program()), "Succeeded", "Expired")
def a_job_expires(cluster: Cluster) -> None:
    """It goes with everything that was its own."""
    cluster.submit(types={"worker": 2}, ttlSecondsAfterFinished=60, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(40)
    assert cluster.phase() == "Succeeded"


@scenario("", ranks(other=Program()), "Succeeded", "Expired")
def a_job_expires_although_the_server_refuses_it_once(cluster: Cluster) -> None:
    """What was not deleted is not forgotten."""
    cluster.faults.refuse(ApiError(500, "InternalError", "etcdserver: leader changed", unknown=True), "delete", resource=RAW_JOBS)
    cluster.submit(types={"worker": 1}, ttlSecondsAfterFinished=20)
    cluster.reach_phase("Succeeded")
    cluster.reach(lambda: not cluster.phase())


@scenario("Succeeded", ranks(worker_0=Program(5.0), other=FOREVER), "Succeeded", "FailedCreate")
def a_pod_comes_after_the_end(cluster: Cluster) -> None:
    """Rank 1 had none when the job ended; a create that was long on its way arrives now."""
    cluster.faults.refuse(QUOTA, "create", resource=RAW_PODS, when=lambda call: b"train-worker-1" in call.body, times=10**6)
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(20)
    arrive(cluster, "train-worker-1", like="train-worker-0")
    cluster.reach(lambda: cluster.pods() == ["train-worker-0"])


@scenario("Succeeded", MIXED, "Succeeded", "CleanedUp")
def a_pod_comes_after_the_clean_up(cluster: Cluster) -> None:
    """It was deleted once, and is deleted again."""
    cluster.submit(types={"worker": 3}, successRules=FIRST, cleanUpPolicy="Unfinished")
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(20)
    arrive(cluster, "train-worker-2", like="train-worker-0")
    cluster.reach(lambda: "train-worker-2" not in cluster.pods())


@scenario("Succeeded", MIXED, "Succeeded", "LeftRunning")
def a_pod_comes_in_place_of_one_that_was_left_running(cluster: Cluster) -> None:
    """Its rank had one when the job ended. That was another one."""
    cluster.submit(types={"worker": 3}, successRules=FIRST)
    cluster.reach_phase("Succeeded")
    cluster.delete_pod("train-worker-2")
    cluster.reach(lambda: "train-worker-2" not in cluster.pods())
    cluster.stepped.advance(20)
    arrive(cluster, "train-worker-2", like="train-worker-0")
    cluster.reach(lambda: "train-worker-2" not in cluster.pods())


def arrive(cluster: Cluster, name: str, *, like: str) -> None:
    """A create that a controller sent long ago takes effect: the pod of another rank."""
    found = cluster.api.get(RAW_PODS, Key(NAMESPACE, like))
    body: dict[str, Any] = {"metadata": found["metadata"], "spec": found["spec"]}
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation"):
        body["metadata"].pop(field)
    body["spec"].pop("nodeName", None)
    cluster.api.create(RAW_PODS, msgspec.json.decode(msgspec.json.encode(body).replace(like.encode(), name.encode())), NAMESPACE)
    cluster.stepped.run(lambda: name in cluster.pods())
