"""The whole controller with its real threads, and a crash between any two of its writes."""

import os
from typing import NamedTuple

import pytest

from sim.jobs import RAW_JOBS, Cluster
from sim.node import FOREVER
from sim.scenarios import SCENARIOS, TRAIN, ranks

SEEDS = range(1, 1 + int(os.environ.get("SIM_SEEDS", "1")))
REST = 120.0
"""Virtual seconds in which nothing more may happen."""


class Ending(NamedTuple):
    """How a run ended."""

    state: dict
    events: set
    writes: int
    """Of the first controller."""
    trace: list


def played(scenario, seed, *, crash=None):
    with Cluster(seed, scenario.programs) as cluster:
        api = cluster.kept_running()
        if crash:
            write, when, commit = crash
            api.crash_at(write, when, (lambda calls: calls) if commit else None)
        scenario.play(cluster)
        cluster.stepped.reach(lambda: cluster.phase() == scenario.phase)
        cluster.stepped.advance(REST)
        settled = cluster.api.resource_version
        cluster.stepped.advance(REST)
        assert cluster.api.resource_version == settled, "7: at rest nobody writes"
        cluster.contract.at_rest()
        return Ending(cluster.state(), cluster.events(), api.writes, cluster.stepped.trace)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_crash_at_any_write_changes_nothing_in_the_end(scenario, seed):
    expected = played(scenario, seed)
    assert expected.events == scenario.events
    for write in range(1, expected.writes + 1):
        for when, commit in (("before", False), ("before", True), ("after", False), ("after", True)):
            found = played(scenario, seed, crash=(write, when, commit))
            where = f"crash {when} write {write} of seed {seed}, what was on its way {'arrived' if commit else 'was lost'}"
            assert found.state == expected.state, where
            assert found.events <= expected.events, where


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_same_seed_gives_the_same_trace(scenario):
    crash = (2, "after", True)
    assert played(scenario, 7, crash=crash).trace == played(scenario, 7, crash=crash).trace


def test_different_seeds_give_different_traces():
    assert len({tuple(played(SCENARIOS[0], seed).trace) for seed in range(5)}) == 5


@pytest.mark.parametrize("scenario", SCENARIOS[:4], ids=str)
def test_when_nothing_goes_wrong_no_write_is_in_vain(scenario):
    for seed in range(10):
        assert not [line for line in played(scenario, seed).trace if "controller/" in line and ": refused" in line]


def test_a_job_that_is_deleted_while_it_is_created_gets_no_more_pods():
    for seed in range(5):
        with Cluster(seed, ranks(other=FOREVER)) as cluster:
            cluster.controller()
            cluster.submit(types={"worker": 100})
            cluster.stepped.reach(lambda cluster=cluster: len(cluster.pods()) >= 5)
            cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")
            cluster.stepped.advance(REST)
            created = sum(": after create pods" in line for line in cluster.stepped.trace)
            assert created < 50
            assert cluster.pods() == []


def test_nothing_is_remembered_of_a_job_that_is_gone():
    with Cluster(1) as cluster:
        cluster.controller()
        cluster.submit(types={"worker": 3})
        cluster.stepped.reach(lambda: cluster.phase() == "Succeeded")
        cluster.api.delete(RAW_JOBS, TRAIN, propagation="Background")
        cluster.stepped.advance(REST)
        (assembly,) = cluster.assemblies
        assert cluster.pods() == []
        assert len(assembly.departures) == 0
