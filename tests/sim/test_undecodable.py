"""Objects that the controller cannot decode cost nobody but themselves (clause 8), and nothing is done in ignorance."""

import pytest

from genericjob.api.names import MANAGER
from genericjob.reconcile.resources import EVENTS, RAW_PODS, RAW_SERVICES, Key
from sim.hostile_bytes import EDITS, PLAIN, STRANGER, UNSALVAGEABLE
from sim.jobs import NAMESPACE, RAW_JOBS, Cluster
from sim.node import FOREVER, Program
from sim.scenarios import ranks

UNREADABLE = "The job cannot be read: it is odd"


def running(cluster, name="train"):
    return cluster.phase(name) == "Running"


def initialized(cluster, name="train"):
    status = cluster.api.get(RAW_JOBS, Key(NAMESPACE, name)).get("status") or {}
    return next(((each["reason"], each["message"]) for each in status.get("conditions", ()) if each["type"] == "Initialized"), None)


def events(cluster, reason):
    return {
        (each["involvedObject"]["kind"], each["involvedObject"]["name"])
        for each in cluster.api.list(EVENTS).items
        if each["reason"] == reason
    }


def spoil(cluster, resource, name, how=PLAIN):
    assert cluster.undecodable.spoil(resource, Key(NAMESPACE, name), how)


def test_a_job_that_cannot_be_decoded_is_told_so_and_everybody_else_is_served():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.submit("odd", types={"worker": 2})
        spoil(cluster, RAW_JOBS, "odd")
        cluster.controller()
        cluster.submit("train", types={"worker": 2})
        cluster.stepped.reach(lambda: running(cluster) and initialized(cluster, "odd") is not None)
        assert initialized(cluster, "odd") == ("InvalidSpec", UNREADABLE)
        cluster.stepped.advance(5)
        assert ("GenericJob", "odd") in events(cluster, "InvalidSpec")
        assert cluster.pods() == ["train-worker-0", "train-worker-1"]
        cluster.undecodable.mend()
        cluster.stepped.reach(lambda: running(cluster, "odd"))


def test_a_job_that_cannot_be_decoded_any_more_is_left_alone_and_forgets_nothing():
    with Cluster(1, ranks(worker_0=Program(3.0), other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 3}, successRules=[{"worker": [2]}])
        cluster.reach(lambda: cluster.status().tasks and cluster.status().tasks[0].succeeded_ranks == "0")
        spoil(cluster, RAW_JOBS, "train")
        cluster.stepped.reach(lambda: initialized(cluster) == ("InvalidSpec", UNREADABLE))
        cluster.delete_pod("train-worker-1")
        cluster.stepped.advance(60)
        assert cluster.pods() == ["train-worker-0", "train-worker-2"]
        assert cluster.status().tasks[0].succeeded_ranks == "0"
        cluster.undecodable.mend()
        cluster.stepped.reach(lambda: "train-worker-1" in cluster.pods() and running(cluster))
        assert cluster.node.table.runs("train-worker-0") == 1


def test_a_job_of_another_controller_is_left_alone_although_it_cannot_be_decoded():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.submit("ours", types={"worker": 1}, managedBy=MANAGER)
        cluster.submit("theirs", types={"worker": 1}, managedBy="kueue.x-k8s.io/multikueue")
        for name in ("ours", "theirs"):
            spoil(cluster, RAW_JOBS, name)
        cluster.controller()
        cluster.stepped.reach(lambda: initialized(cluster, "ours") is not None)
        cluster.stepped.advance(60)
        assert initialized(cluster, "theirs") is None


def test_a_pod_that_cannot_be_decoded_when_the_controller_begins_is_reported():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        controller = cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.reach_running()
        controller.crash()
        spoil(cluster, RAW_PODS, "train-worker-1")
        cluster.controller()
        cluster.stepped.advance(30)
        assert events(cluster, "Unreadable") == {("Pod", "train-worker-1")}


def test_a_pod_that_cannot_be_decoded_is_waited_for_and_reported():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 3})
        cluster.reach_running()
        spoil(cluster, RAW_PODS, "train-worker-1")
        cluster.stepped.reach(lambda: cluster.status().aggregate.unknown == 1)
        cluster.stepped.advance(5)
        assert events(cluster, "Unreadable") == {("Pod", "train-worker-1")}
        cluster.node.kill("train-worker-1", 1)  # nobody can read that it has failed
        cluster.stepped.advance(60)
        assert cluster.node.table.runs("train-worker-1") == 1
        cluster.undecodable.mend()
        cluster.stepped.reach(lambda: cluster.node.table.runs("train-worker-1") == 2)
        assert cluster.status().tasks[0].restart_count == 1


def test_no_new_epoch_begins_beside_a_pod_that_was_never_decoded():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        first = cluster.controller()
        cluster.submit(types={"worker": 2}, runMode={"pause": {"enabled": False}})
        cluster.reach_running()
        first.crash()
        cluster.node.lose("train-worker-1")  # it will not go when it is asked to
        spoil(cluster, RAW_PODS, "train-worker-1")
        cluster.controller()
        cluster.edit(runMode={"pause": {"enabled": True}})
        cluster.stepped.advance(30)
        cluster.edit(runMode={"pause": {"enabled": False}})
        cluster.stepped.advance(60)
        assert cluster.pods() == ["train-worker-1"]


def test_a_service_that_cannot_be_decoded_is_not_made_again():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        first = cluster.controller()
        cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]})
        cluster.reach_running()
        first.crash()
        spoil(cluster, RAW_SERVICES, "train-worker-1")
        before = cluster.api.get(RAW_SERVICES, Key(NAMESPACE, "train-worker-1"))
        cluster.controller()
        cluster.stepped.advance(60)
        assert cluster.api.get(RAW_SERVICES, Key(NAMESPACE, "train-worker-1")) == before
        assert cluster.pods() == ["train-worker-0", "train-worker-1"]
        assert events(cluster, "NameConflict") == {("GenericJob", "train")}


def test_a_service_that_is_deleted_while_it_cannot_be_decoded_is_made_again():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]})
        cluster.reach_running()
        key = Key(NAMESPACE, "train-worker-1")
        before = cluster.api.get(RAW_SERVICES, key)["metadata"]["uid"]
        spoil(cluster, RAW_SERVICES, "train-worker-1")
        cluster.stepped.advance(5)
        cluster.api.delete(RAW_SERVICES, key)
        cluster.stepped.reach(lambda: cluster.api.list(RAW_SERVICES, fields=f"metadata.name={key.name}").items)
        assert cluster.api.get(RAW_SERVICES, key)["metadata"]["uid"] != before


def test_a_pod_that_has_ended_and_cannot_be_decoded_any_more_stays():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.reach_running()
        cluster.node.kill("train-worker-0", 0)
        cluster.reach(lambda: cluster.status().aggregate.succeeded == 1)
        spoil(cluster, RAW_PODS, "train-worker-0")
        cluster.stepped.advance(5)
        assert cluster.pods() == ["train-worker-0", "train-worker-1"]
        assert cluster.status().tasks[0].succeeded_ranks == "0"


@pytest.mark.parametrize("how", sorted(UNSALVAGEABLE))
def test_a_pod_whose_owner_cannot_be_read_stays_as_it_was_known_until_it_is_deleted(how):
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.reach_running()
        spoil(cluster, RAW_PODS, "train-worker-1", how)
        cluster.node.kill("train-worker-0", 0)
        cluster.reach(lambda: cluster.status().aggregate.succeeded == 1)
        assert cluster.status().aggregate.running == 1
        cluster.delete_pod("train-worker-1")
        cluster.stepped.reach(lambda: cluster.node.table.runs("train-worker-1") == 2)
        assert cluster.node.table.runs("train-worker-0") == 1


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("resource", [RAW_JOBS, RAW_PODS, RAW_SERVICES], ids=lambda resource: resource.plural)
def test_whatever_an_object_is_its_neighbours_run(resource, how):
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        first = cluster.controller()
        cluster.submit("odd", types={"worker": 2}, service={"ports": [{"port": 80}]})
        cluster.reach(lambda: running(cluster, "odd"))
        spoil(cluster, resource, "odd" if resource is RAW_JOBS else "odd-worker-1", how)
        cluster.stepped.advance(5)
        first.crash()
        cluster.controller()
        cluster.submit(types={"worker": 2})
        cluster.stepped.reach(lambda: running(cluster))
        assert [cluster.node.table.runs(f"odd-worker-{rank}") for rank in range(2)] == [1, 1]


def test_an_object_without_a_name_costs_its_neighbours_nothing():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        first = cluster.controller()
        cluster.submit(types={"worker": 2}, service={"ports": [{"port": 80}]})
        cluster.reach_running()
        for resource, name in ((RAW_JOBS, "train"), (RAW_PODS, "train-worker-0"), (RAW_SERVICES, "train-worker-0")):
            spoil(cluster, resource, name, STRANGER)
        cluster.stepped.advance(5)
        first.crash()
        cluster.controller()
        cluster.node.kill("train-worker-0", 0)
        cluster.reach(lambda: cluster.status().aggregate.succeeded == 1)
        assert cluster.status().aggregate.running == 1
