"""What happens to jobs, as small scripts: users, programs and faults.

Each is confluent: however a controller dies on the way, it ends the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program, Script

TRAIN = Key(NAMESPACE, "train")
QUOTA = ApiError(403, "Forbidden", 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0')


@dataclass(frozen=True)
class Scenario:
    """A script, what the programs in it do, and how it must end."""

    play: Callable[[Cluster], None]
    programs: Script
    phase: str
    """Of the job `train` at the end; empty if there is none."""
    events: frozenset[str]
    """Reasons of all events that a controller without a crash tells."""

    def __str__(self) -> str:
        return self.play.__name__


SCENARIOS: list[Scenario] = []


def scenario(phase: str, programs: Script, *events: str) -> Callable[[Callable[[Cluster], None]], None]:
    """Register a script."""

    def register(play: Callable[[Cluster], None]) -> None:
        SCENARIOS.append(Scenario(play, programs, phase, frozenset(("SuccessfulCreate", *events))))

    return register


def ranks(**programs: Program) -> Script:
    """Programs by the end of a pod's name: `ranks(worker_0=Program(), other=FOREVER)`."""

    def script(name: str, before: int) -> Program:
        return programs.get("_".join(name.split("-")[-2:]), programs.get("other", Program()))

    return script


@scenario("Succeeded", ranks(worker_0=Program(2.0), other=FOREVER), "Succeeded")
def rank_zero_decides(cluster: Cluster) -> None:
    """The seed's first example, in small."""
    cluster.submit(types={"worker": 3}, successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}, {"worker": [1]}])


@scenario("Failed", ranks(worker_1=Program(2.0, 3), other=FOREVER), "Failed")
def rank_one_fails(cluster: Cluster) -> None:
    """Its second half."""
    cluster.submit(types={"worker": 3}, successRules=[{"worker": [0]}], failureRules=[{"worker": [0]}, {"worker": [1]}])


@scenario("Succeeded", ranks(ps_0=Program(4.0), other=Program(2.0)), "Succeeded")
def two_types_with_services(cluster: Cluster) -> None:
    """No rules: all must succeed."""
    cluster.submit(types={"ps": 1, "worker": 2}, service={"ports": [{"name": "http", "port": 80}]})


@scenario("Failed", ranks(worker_0=Program(2.0, 1), other=Program(3.0)), "NoSuccessRuleReachable")
def no_rule_can_be_met(cluster: Cluster) -> None:
    """One failure is too many."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])


@scenario("Succeeded", ranks(worker_0=Program(20.0), other=FOREVER), "Succeeded")
def a_running_pod_is_deleted(cluster: Cluster) -> None:
    """Somebody preempts rank 1: it runs again, and is charged to nobody."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}])
    cluster.stepped.reach(lambda: cluster.node.table.runs("train-worker-1") == 1 and cluster.phase() == "Running")
    cluster.delete_pod("train-worker-1")


@scenario("Succeeded", ranks(worker_0=Program(2.0), other=Program(30.0)), "Succeeded")
def a_finished_pod_is_deleted(cluster: Cluster) -> None:
    """Once its outcome is stored a rank is never run again."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
    cluster.stepped.reach(lambda: "succeededRanks" in str(cluster.api.get(RAW_JOBS, TRAIN).get("status")))
    cluster.delete_pod("train-worker-0")


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


@scenario("Running", ranks(other=FOREVER), "FailedCreate")
def a_quota_is_raised(cluster: Cluster) -> None:
    """Refused for a while, and all the more patient."""
    cluster.faults.refuse(QUOTA, "create", resource=RAW_PODS, times=10**6)
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(20)
    cluster.faults.heal()
    cluster.stepped.advance(60)


@scenario("Running", ranks(other=FOREVER), "NameConflict")
def a_stranger_has_our_name(cluster: Cluster) -> None:
    """Left alone; when it goes, we come."""
    pod = {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [{"name": "x", "image": "i"}]}}
    cluster.api.create(RAW_PODS, pod, NAMESPACE)
    cluster.submit(types={"worker": 2})
    cluster.stepped.advance(20)
    cluster.delete_pod("train-worker-0")
    cluster.stepped.advance(60)


@scenario("Running", ranks(other=FOREVER))
def answers_are_lost(cluster: Cluster) -> None:
    """Whether it happened is unknown, three times."""
    cluster.faults.lose("create", resource=RAW_PODS, times=2)
    cluster.faults.lose("replace_status", times=1)
    cluster.submit(types={"worker": 3})
    cluster.stepped.advance(30)


@scenario("Succeeded", ranks(worker_0=Program(40.0), other=FOREVER), "Succeeded")
def watches_break(cluster: Cluster) -> None:
    """And the past is forgotten: 410, and a new list."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}])
    cluster.stepped.advance(5)
    cluster.api.cut_watches()
    cluster.api.compact()
    cluster.stepped.advance(5)
    cluster.faults.cut_watches()
