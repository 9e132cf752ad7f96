"""The whole controller with its real threads, and a crash between any two of its writes."""

import os
import random

import pytest

from sim.crashes import EVERY, FEW, MOST, TALLY, WHEN, Crash, chosen
from sim.jobs import RAW_JOBS, Cluster
from sim.node import FOREVER
from sim.runs import REST, Ending, compare, crash_everywhere, differences, played
from sim.scenarios import SCENARIOS, TRAIN, ranks, rules

SEEDS = range(1, 1 + int(os.environ.get("SIM_SEEDS", "1")))
PLAIN = [scenario for scenario in SCENARIOS if scenario.play.__module__ == rules.__name__]


def see_that_it_ended_well(ending: Ending, scenario):
    assert ending.events == scenario.events
    assert ending.runs == scenario.runs
    assert {field: getattr(ending.status, field) for field in scenario.status} == scenario.status


@pytest.mark.timeout(1800 if FEW == MOST else 300)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_a_crash_at_any_write_changes_nothing_in_the_end(scenario, seed):
    expected = played(scenario, seed)
    see_that_it_ended_well(expected, scenario)
    tally = crash_everywhere(expected, scenario, seed)
    if EVERY == 1:
        assert tally.points == 2 * expected.writes
    TALLY.add(tally)


def test_where_not_every_write_is_played_scenarios_crash_at_different_ones():
    assert [*chosen(5, "any", every=1)] == [1, 2, 3, 4, 5]
    assert {chosen(16, str(scenario), every=8)[0] for scenario in SCENARIOS} == {*range(1, 9)}
    assert all(len(chosen(16, str(scenario), every=8)) == 2 for scenario in SCENARIOS)
    assert all(len(chosen(2, str(scenario), every=8)) == 1 for scenario in SCENARIOS)
    assert not chosen(0, "any", every=8)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_controllers_that_die_one_after_the_other_change_nothing_in_the_end(scenario):
    for seed in SEEDS:
        expected, chance = played(scenario, seed), random.Random(seed)
        if expected.writes:
            first = Crash(chance.randint(1, expected.writes), chance.choice(WHEN))
            others = [Crash(chance.randint(1, 3), chance.choice(WHEN), (0, 2)) for _ in range(4)]
            compare(expected, scenario, seed, first, *others)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_two_controllers_that_both_believe_that_they_lead_end_as_one(scenario):
    for seed in SEEDS:
        one, two = played(scenario, seed, losses=True), played(scenario, seed, leaders=2, losses=True)
        assert list(differences(two.state, one.state)) == [], f"seed {seed}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_same_seed_gives_the_same_trace(scenario):
    crashes = [Crash(2, "after")] if played(scenario, 7).writes > 1 else []
    assert played(scenario, 7, *crashes).trace == played(scenario, 7, *crashes).trace


def test_different_seeds_give_different_traces():
    assert len({tuple(played(PLAIN[0], seed).trace) for seed in range(5)}) == 5


@pytest.mark.parametrize("scenario", PLAIN, ids=str)
def test_when_nothing_goes_wrong_no_write_is_in_vain(scenario):
    for seed in range(10):
        assert not [line for line in played(scenario, seed).trace if "controller/" in line and ": refused" in line]


def test_a_job_that_expires_is_deleted_once():
    """Its pods go as well, and the news of that may come before the news of the job."""
    (expiring,) = (scenario for scenario in SCENARIOS if str(scenario) == "a_job_expires")
    for seed in range(30):
        trace = played(expiring, seed).trace
        assert sum("controller/" in line and ": before delete genericjobs" in line for line in trace) == 1, f"seed {seed}"


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
