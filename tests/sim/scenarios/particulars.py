"""Particulars: what is easily overlooked, each with a look at the one thing that matters.

Each is here because a deliberate bug (`sim/mutants`) went unnoticed without it.
"""

from collections.abc import Callable
from itertools import pairwise

from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.passing import Call, Verb
from genericjob.reconcile.resources import RAW_PODS, RAW_SERVICES, Key
from sim.jobs import NAMESPACE, Cluster
from sim.node import FOREVER, Program
from sim.scenarios.ends import FIRST, MIXED, arrive
from sim.scenarios.gangs import SCHEDULER, install
from sim.scenarios.restarts import TOGETHER
from sim.scenarios.script import TRAIN, fails, ranks, scenario

CONFLICT = ApiError(409, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")
BROKEN = ApiError(500, "InternalError", "etcdserver: leader changed")
WORKER = Key(NAMESPACE, "train-worker-0")


def just_before(cluster: Cluster, verb: Verb, words: bytes, do: Callable[[], None]) -> None:
    """Somebody is faster than a controller: do this just before the first of its writes that has these words takes effect."""
    done = False

    def when(call: Call) -> bool:
        nonlocal done
        if not done and (not words or words in call.body):
            done = True
            do()
        return False

    cluster.faults.refuse(BROKEN, verb, when=when, times=10**6)


# ------------------------------------------------------------------------------------------------ writing at the same time


@scenario(
    "Succeeded",
    ranks(worker_0=(fails(5.0), Program(5.0)), other=(FOREVER, Program(5.0))),
    "Restarting",
    "Paused",
    "Resuming",
    "Succeeded",
    restarts=1,
    resumes=1,
    runs={"worker-0": 2},
)
def a_user_writes_at_the_same_moment(cluster: Cluster) -> None:
    """A pause comes between the look at a failure and the commit of its charge: nothing is done before that is settled."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    just_before(cluster, "replace_status", b'"chargedRestarts":{"1"', cluster.pause)
    cluster.reach_phase("Paused")
    cluster.resume()


@scenario("Paused", ranks(other=FOREVER), "Paused", creates=False, epoch=1, resumes=0)
def a_user_changes_his_mind_at_the_same_moment(cluster: Cluster) -> None:
    """The job is not resumed for a wish that was taken back before that was stored."""
    cluster.submit(types={"worker": 2}, suspend=True)
    cluster.reach_phase("Paused")
    just_before(cluster, "replace_status", b'"phase":"Resuming"', lambda: cluster.edit(suspend=True))
    cluster.edit(suspend=False)
    cluster.stepped.advance(20)


@scenario("Succeeded", ranks(other=Program()), "Succeeded")
def a_user_keeps_a_job_that_is_about_to_expire(cluster: Cluster) -> None:
    """In the last moment."""
    cluster.submit(types={"worker": 1}, ttlSecondsAfterFinished=10)
    just_before(cluster, "delete", b"", lambda: cluster.edit(ttlSecondsAfterFinished=None))
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(20)


@scenario("Succeeded", ranks(other=Program(2.0)), "Succeeded")
def the_server_fails_in_the_decisive_moment(cluster: Cluster) -> None:
    """And nothing else ever happens that would make anybody look again."""
    cluster.faults.refuse(BROKEN, "replace_status", when=lambda call: b'"phase":"Succeeded"' in call.body, times=1)
    cluster.submit(types={"worker": 2})


@scenario("Succeeded", ranks(other=Program(2.0)), "Succeeded")
def a_conflict_with_nobody(cluster: Cluster) -> None:
    """The same with a conflict that no event explains: some admission webhook made it up."""
    cluster.faults.refuse(CONFLICT, "replace_status", when=lambda call: b'"phase":"Succeeded"' in call.body, times=1)
    cluster.submit(types={"worker": 2})


@scenario("Running", ranks(other=FOREVER))
def a_look_without_a_change(cluster: Cluster) -> None:
    """Somebody puts a note on a pod: the job is looked at, and nothing is written."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.stepped.advance(30)
    written = len(cluster.stepped.trace)
    cluster.api.patch(RAW_PODS, WORKER, {"metadata": {"annotations": {"note": "mine"}}})
    cluster.stepped.advance(30)
    assert not [line for line in cluster.stepped.trace[written:] if "replace_status" in line], "7: a look without a change writes nothing"


@scenario("Succeeded", ranks(worker_0=Program(2.0), other=FOREVER), "Succeeded", "LeftRunning")
def an_ended_job_is_left_alone(cluster: Cluster) -> None:
    """Whatever its user wants of it: not even what would change nothing is sent."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    cluster.reach_phase("Succeeded")
    cluster.pause()
    cluster.stepped.advance(30)
    written = len(cluster.stepped.trace)
    cluster.stepped.advance(30)
    assert not [line for line in cluster.stepped.trace[written:] if "replace_status" in line], "7: at rest nobody writes"


@scenario("Succeeded", ranks(worker_0=Program(5.0), other=FOREVER), "Succeeded", "LeftRunning")
def nobody_acts_on_what_he_has_not_seen(cluster: Cluster) -> None:
    """The server's cache stands still just before the end is stored: who stored it waits until he sees it."""
    cluster.submit(types={"worker": 2}, successRules=FIRST)
    just_before(cluster, "replace_status", b'"phase":"Succeeded"', cluster.api.lag)
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(20)
    alone = len(cluster.assemblies) == 1
    refused = [line for line in cluster.stepped.trace if "refused replace_status" in line]
    assert not (alone and refused), "7: what was just stored is decided anew"
    cluster.api.catch_up()


@scenario("Running", ranks(other=FOREVER), "Restarting", losses=True, restarts=0, runs={"worker-0": 2})
def a_pod_goes_while_watches_are_broken(cluster: Cluster) -> None:
    """Only a new list can tell, by what it does not have."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.stepped.advance(5)
    cluster.api.lag()
    cluster.node.lose("train-worker-0")
    cluster.node.removed()
    cluster.reach(lambda: "train-worker-0" not in cluster.pods())
    cluster.api.cut_watches()
    cluster.api.compact()
    cluster.api.catch_up()
    cluster.reach(lambda: cluster.node.table.runs("train-worker-0") == 2)


# ------------------------------------------------------------------------------------------------ services


@scenario("Running", ranks(other=FOREVER))
def replicas_with_addresses(cluster: Cluster) -> None:
    """A targetPort other than the port: services have addresses, and containers no variables for them."""
    cluster.submit(types={"worker": 1}, service={"ports": [{"port": 80, "targetPort": 8080}]})
    cluster.reach_phase("Running")
    assert all(each["spec"]["clusterIP"] != "None" for each in cluster.api.list(RAW_SERVICES, NAMESPACE).items), "services need addresses"
    links = [each["spec"]["enableServiceLinks"] for each in cluster.api.list(RAW_PODS, NAMESPACE).items]
    assert links == [False], "every container has variables for every service"


@scenario("Running", ranks(other=FOREVER))
def replicas_with_names_alone(cluster: Cluster) -> None:
    """The same port on both sides: services take no address."""
    cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80, "targetPort": 80}]})
    cluster.reach_phase("Running")
    assert all(each["spec"]["clusterIP"] == "None" for each in cluster.api.list(RAW_SERVICES, NAMESPACE).items), "addresses are wasted"


# ------------------------------------------------------------------------------------------------ restarts


@scenario("Succeeded", ranks(other=(*[fails()] * 4, Program())), "Restarting", "Succeeded", restarts=4)
def each_wait_is_longer(cluster: Cluster) -> None:
    """The first restart comes at once, the others after 1, 2 and 4 seconds; whole ones, so up to one less."""
    cluster.submit(types={"worker": 1}, restart={"policy": "OnFailure", "limit": 4})
    begun: list[float] = []
    for _ in range(5):
        cluster.reach(lambda: cluster.node.table.runs("train-worker-0") > len(begun))
        begun.append(cluster.stepped.monotonic())
    waits = [later - earlier - 1.0 for earlier, later in pairwise(begun)]
    assert all(wait > least for wait, least in zip(waits, (-0.5, 0.0, 1.0, 3.0), strict=True)), f"restarts come too soon: {waits}"


@scenario("Succeeded", ranks(worker_0=(fails(), Program(3.0)), other=Program(60.0)), "Restarting", "Succeeded", restarts=1)
def a_restart_waits_for_a_pod_that_does_not_go(cluster: Cluster) -> None:
    """Nobody tries to take its name before it is free."""
    cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 1})
    cluster.reach(lambda: "train-worker-0" in cluster.pods())
    cluster.api.patch(RAW_PODS, WORKER, {"metadata": {"finalizers": ["example.com/keep"]}})
    cluster.reach(lambda: cluster.status().restarts == 1)
    cluster.stepped.advance(20)
    assert not cluster.says("PredecessorEnding"), "a name is tried before it is free"
    cluster.api.patch(RAW_PODS, WORKER, {"metadata": {"finalizers": None}})


@scenario("Running", ranks(other=FOREVER), "RestartingJob", losses=True, epoch=1, job_restarts=0, runs={"worker-0": 2, "worker-1": 2})
def a_member_vanishes(cluster: Cluster) -> None:
    """Nobody runs again alone, whoever saw it go, and if nobody did."""
    cluster.submit(types={"worker": 2}, restart=TOGETHER)
    cluster.reach_phase("Running")
    cluster.stepped.advance(5)
    cluster.node.lose("train-worker-0")
    cluster.node.removed()
    cluster.reach(lambda: cluster.node.table.runs("train-worker-1") == 2)


# ------------------------------------------------------------------------------------------------ rules and ends


@scenario("Succeeded", ranks(other=FOREVER), "Succeeded")
def success_and_failure_in_one_look(cluster: Cluster) -> None:
    """The deciding rank succeeds, a peer dies of that, and nobody could store one before the other."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0]}], failureRules=[{"worker": [1]}])
    cluster.reach_phase("Running")
    cluster.stepped.advance(5)
    cluster.faults.refuse(BROKEN, "replace_status", times=10**6)
    cluster.node.kill("train-worker-1")
    cluster.node.kill("train-worker-0", exit_code=0)
    cluster.stepped.advance(5)
    cluster.faults.heal()


@scenario("Succeeded", ranks(worker_0=Program(30.0), other=FOREVER), "Succeeded", "RuleNeverFires", "LeftRunning")
def a_rule_about_nobody(cluster: Cluster) -> None:
    """It is not true of nothing."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": []}, {"worker": [0]}], failureRules=[{"worker": []}])
    cluster.stepped.advance(20)
    assert cluster.phase() == "Running"


@scenario("Succeeded", MIXED, "Succeeded", "CleanedUp")
def finished_pods_stay(cluster: Cluster) -> None:
    """With their logs; only the unfinished one goes."""
    cluster.submit(types={"worker": 3}, successRules=FIRST, cleanUpPolicy="Unfinished")
    cluster.reach_phase("Succeeded")
    cluster.stepped.advance(20)
    assert cluster.pods() == ["train-worker-0", "train-worker-1"]


@scenario("Running", ranks(worker_0=(Program(2.0), Program(waits=10**6)), other=FOREVER), runs={"worker-0": 1})
def a_pod_comes_for_a_rank_that_has_ended(cluster: Cluster) -> None:
    """A create that was long on its way: deleted when it is seen."""
    cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
    cluster.reach(lambda: any(task.succeeded_ranks for task in cluster.status().tasks))
    cluster.delete_pod("train-worker-0")
    cluster.reach(lambda: "train-worker-0" not in cluster.pods())
    cluster.stepped.advance(5)
    arrive(cluster, "train-worker-0", like="train-worker-1")
    cluster.reach(lambda: "train-worker-0" not in cluster.pods())


# ------------------------------------------------------------------------------------------------ pauses


@scenario(
    "Succeeded",
    ranks(worker_0=(Program(), Program(4.0)), other=FOREVER),
    "Paused",
    "Resuming",
    "Succeeded",
    resumes=1,
    runs={"worker-0": 2},
)
def what_is_left_had_succeeded(cluster: Cluster) -> None:
    """A job does not end in a pause, not even by losing all ranks that had something left to do."""
    cluster.submit(types={"worker": 2})
    cluster.reach(lambda: any(task.succeeded_ranks for task in cluster.status().tasks))
    cluster.pause()
    cluster.reach_phase("Paused")
    cluster.resize(worker=1)
    cluster.stepped.advance(20)
    assert cluster.phase() == "Paused"
    cluster.resume()


@scenario(
    "Running",
    ranks(worker_1=Program(exit_code=None, stops=25.0), other=FOREVER),
    "Paused",
    "Resuming",
    epoch=1,
    runs={"worker-0": 2, "worker-1": 1},
)
def who_is_no_more_goes_last(cluster: Cluster) -> None:
    """A rank that the job does not have any more is waited for all the same."""
    cluster.submit(types={"worker": 2})
    cluster.reach_phase("Running")
    cluster.pause()
    cluster.reach_phase("Pausing")
    cluster.resize(worker=1)
    cluster.resume()
    cluster.stepped.advance(10)
    assert cluster.node.table.runs("train-worker-0") == 1
    cluster.reach_phase("Running")


# ------------------------------------------------------------------------------------------------ gangs


@scenario("Running", ranks(other=FOREVER), "NameConflict")
def a_stranger_has_our_group(cluster: Cluster) -> None:
    """Left alone, and no pod is placed by it; when it goes, ours comes."""
    install(cluster)
    body = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind, "metadata": {"name": "train"}, "spec": {"minMember": 7}}
    cluster.api.create(POD_GROUPS, body, NAMESPACE)
    cluster.submit(types={"worker": 2}, scheduler=SCHEDULER)
    cluster.stepped.advance(20)
    assert cluster.api.get(POD_GROUPS, TRAIN)["spec"]["minMember"] == 7
    assert cluster.pods() == []
    cluster.api.delete(POD_GROUPS, TRAIN)
    cluster.stepped.advance(60)
