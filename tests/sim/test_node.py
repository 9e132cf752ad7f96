"""The simulated node: what its programs do, what it reports, and what it knows that nobody else does."""

import pytest

from genericjob.reconcile.resources import RAW_PODS, Key
from sim.jobs import NAMESPACE, Cluster
from sim.node import FOREVER, Program
from sim.processes import ThreadDiedError
from sim.scenarios import ranks

NAME = "train-worker-0"


def alone(program):
    """A node with one pod, and nobody who cares for it."""
    cluster = Cluster(1, ranks(other=program))
    body = {"metadata": {"name": NAME}, "spec": {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}}
    cluster.api.create(RAW_PODS, body, NAMESPACE)
    cluster.stepped.run()
    return cluster


def status(cluster):
    return cluster.api.get(RAW_PODS, Key(NAMESPACE, NAME))["status"]


def test_a_program_runs_and_exits():
    with alone(Program(2.0, 3)) as cluster:
        assert status(cluster)["phase"] == "Running"
        assert cluster.node.table.running(NAME)
        cluster.stepped.advance(2)
        assert status(cluster)["phase"] == "Failed"
        assert status(cluster)["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert not cluster.node.table.running(NAME)


@pytest.mark.parametrize("code", [0, 7])
def test_a_program_that_is_asked_to_go_takes_its_time_and_its_last_phase_is_told_before_it_is_gone(code):
    with alone(Program(exit_code=None, stops=5.0, stops_with=code)) as cluster:
        version = cluster.api.resource_version
        cluster.delete_pod(NAME)
        cluster.stepped.advance(4)
        assert status(cluster)["phase"] == "Running"
        cluster.stepped.advance(2)
        assert cluster.pods() == []
        with cluster.api.watch(RAW_PODS, resource_version=version, timeout=0, bookmarks=False) as watch:
            *_, last, gone = list(watch)
        assert (last.type, gone.type) == ("MODIFIED", "DELETED")
        assert last.object["status"]["phase"] == ("Failed" if code else "Succeeded")
        assert last.object["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(("taken", "conditions"), [("Disrupted", ["DisruptionTarget"]), ("Evicted", [])])
def test_a_pod_can_be_taken_away_for_the_sake_of_others_or_through_its_own_fault(taken, conditions):
    with alone(Program(1.0, 137, taken=taken)) as cluster:
        cluster.stepped.advance(1)
        assert status(cluster)["phase"] == "Failed"
        assert [found["type"] for found in status(cluster).get("conditions") or ()] == conditions


@pytest.mark.parametrize("why", ["ErrImagePull", "Unschedulable"])
def test_a_pod_can_wait(why):
    with alone(Program(exit_code=None, waits=10.0, why=why)) as cluster:
        cluster.stepped.advance(9)
        assert status(cluster)["phase"] == "Pending"
        assert why in str(status(cluster))
        assert cluster.node.table.runs(NAME) == 0
        cluster.stepped.advance(1)
        assert status(cluster)["phase"] == "Running"
        assert why not in str(status(cluster))


def test_a_node_that_is_lost_says_nothing_and_its_programs_go_on():
    with alone(Program(5.0)) as cluster:
        cluster.node.lose(NAME)
        cluster.stepped.advance(10)
        assert status(cluster)["phase"] == "Running"
        assert not cluster.node.table.running(NAME)
        cluster.node.back()
        cluster.stepped.run()
        assert status(cluster)["phase"] == "Succeeded"


def test_a_pod_on_a_lost_node_goes_when_the_node_is_back_or_removed():
    for end in ("back", "removed"):
        with alone(FOREVER) as cluster:
            cluster.node.lose(NAME)
            cluster.delete_pod(NAME)
            cluster.stepped.advance(600)
            assert cluster.pods() == [NAME]
            assert cluster.node.table.running(NAME)
            getattr(cluster.node, end)()
            cluster.stepped.run()
            assert cluster.pods() == []
            assert not cluster.node.table.running(NAME)


def test_the_table_knows_of_a_program_that_everybody_else_has_forgotten():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 1})
        cluster.reach_running()
        cluster.node.lose(NAME)
        cluster.api.delete(RAW_PODS, Key(NAMESPACE, NAME), grace=0)  # by force: what nobody should do
        with pytest.raises(ThreadDiedError, match="1: two instances of train-worker-0"):
            cluster.stepped.advance(60)
