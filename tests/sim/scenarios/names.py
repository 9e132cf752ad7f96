"""Names: whose a pod is, and what becomes of jobs that share them."""

from genericjob.reconcile.resources import RAW_PODS
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios.script import TRAIN, ranks, scenario


@scenario("", ranks(other=FOREVER))
def a_job_is_deleted(cluster: Cluster) -> None:
    """In the background: everything goes with it."""
    cluster.submit(types={"worker": 3}, service={"ports": [{"port": 80}]})
    cluster.stepped.advance(0.5)
    cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")


@scenario("Running", ranks(other=FOREVER))
def a_job_is_created_again_under_its_name(cluster: Cluster) -> None:
    """The new one never takes the old one's pods for its own."""
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(0.5)
    cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")
    cluster.submit(types={"worker": 2})


@scenario("Running", ranks(other=Program(exit_code=None, stops=20.0)))
def a_predecessor_takes_its_time(cluster: Cluster) -> None:
    """Its pods keep their names until they are gone."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(10)
    assert cluster.phase() != "Running"


@scenario("Running", ranks(other=FOREVER), "NameConflict")
def a_stranger_has_our_name(cluster: Cluster) -> None:
    """Left alone; when it goes, we come."""
    pod = {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [{"name": "x", "image": "i"}]}}
    cluster.api.create(RAW_PODS, pod, NAMESPACE)
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(20)
    cluster.delete_pod("train-worker-0")
    cluster.stepped.advance(60)


@scenario("Running", ranks(other=FOREVER), "NameConflict")
def two_jobs_whose_names_collide(cluster: Cluster) -> None:
    """`train-a` with `worker` and `train` with `a-worker`: the second waits until the first is gone."""
    first = cluster.submit("train-a", types={"worker": 2}, service={"ports": [{"port": 80}]})
    cluster.reach_phase("Running", "train-a")
    cluster.submit("train", types={"a-worker": 2}, service={"ports": [{"port": 80}]})
    cluster.stepped.advance(20)
    cluster.api.delete(RAW_JOBS, first, propagation="Background")
    cluster.stepped.advance(60)


@scenario("Pending", ranks(other=FOREVER), creates=False)
def another_controllers_job(cluster: Cluster) -> None:
    """Left alone, whatever it asks for."""
    cluster.submit(types={"worker": 2}, managedBy="example.com/another", suspend=True)
    cluster.stepped.advance(10)
    cluster.edit(suspend=False)
