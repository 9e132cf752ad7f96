"""Scenarios, played until nobody has anything left to do, and compared."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from genericjob.api.status import GenericJobStatus
from sim.crashes import Crash, Tally, chosen, crash_at
from sim.jobs import Cluster
from sim.rest import at_rest
from sim.scenarios import Scenario

LATENCY = 0.05
"""Seconds that writes take on their way, at most; with every other seed they take none."""
REST = 120.0
"""Virtual seconds in which nothing more may happen."""


class Ending(NamedTuple):
    """How a run ended."""

    state: dict[str, Any]
    events: set[str]
    writes: int
    """Of the first controller."""
    runs: dict[str, int]
    status: GenericJobStatus
    trace: list[str]


def played(scenario: Scenario, seed: int, *crashes: Crash, leaders: int = 1, losses: bool = False) -> Ending:
    """Play a scenario to its end. With `losses` nobody counts what not everybody has seen (see `Cluster.state`)."""
    with Cluster(seed, scenario.programs) as cluster:
        cluster.contract.one_leads = leaders == 1
        options = {"writers": scenario.writers, "latency": LATENCY * (seed % 2)}
        api, *_ = [cluster.kept_running(*crashes, **options) for _ in range(leaders)]
        scenario.play(cluster)
        cluster.reach_phase(scenario.phase)
        cluster.stepped.advance(REST)
        settled = cluster.api.resource_version, cluster.written
        cluster.stepped.advance(REST)
        assert (cluster.api.resource_version, cluster.written) == settled, "7: at rest nobody writes"
        assert cluster.phase() == scenario.phase
        at_rest(cluster.api)
        assert api.crashed is bool(crashes)
        runs = {rank: cluster.node.table.runs(f"train-{rank}") for rank in scenario.runs}
        state = cluster.state(losses=losses or scenario.losses)
        return Ending(state, cluster.events(), api.writes, runs, cluster.status(), cluster.stepped.trace)


def compare(expected: Ending, scenario: Scenario, seed: int, *crashes: Crash) -> None:
    """Play a scenario with crashes, and see that it ends as without."""
    where = f"seed {seed}, {'; '.join(map(str, crashes))}"
    try:
        found = played(scenario, seed, *crashes)
    except Exception as error:
        error.add_note(f"{scenario}, {where}")
        raise
    differ = list(differences(found.state, expected.state))
    assert not differ, f"{scenario}, {where}: it ends differently:\n" + "\n".join(differ)
    assert found.events <= expected.events, f"{scenario}, {where}: it tells {sorted(found.events - expected.events)}"


def differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """Where two states differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            yield from differences(found.get(key), expected.get(key), f"{path}/{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif found != expected:
        yield f"{path}: {found!r}, expected {expected!r}"


def crash_everywhere(expected: Ending, scenario: Scenario, seed: int) -> Tally:
    """Play a scenario with every crash, or with those that `SIM_EVERY` leaves."""
    tally = crash_at(chosen(expected.writes, str(scenario)), lambda crash: compare(expected, scenario, seed, crash))
    tally.scenarios = 1
    return tally
