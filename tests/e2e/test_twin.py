"""The scenario catalogue over HTTP: real connections, a server that refuses, hangs and forgets, and in the end a judge who read its log.

All scenarios are played before one controller, many at the same time. Those that need the server in a state of its own, or make every watch
stand still, come in the second act.
"""

import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.apart import Contender, apart
from e2e.planted import PLANTED, Forgery
from e2e.twin import Theatre
from harness.configurations import Server
from harness.controllers import USER, account_kubeconfig
from harness.meddler import TROUBLE, Meddler, Mischief
from harness.verdicts import history, judge, judged, read
from sim.scenarios import SCENARIOS

SCALE = float(os.environ.get("TWIN_SCALE", "0.4"))
"""Seconds of the real world for one of a script."""
AT_ONCE = int(os.environ.get("TWIN_AT_ONCE", "20"))
SEED = int(os.environ.get("TWIN_SEED", "1"))
MISCHIEF = Mischief(SEED, refused=0.03, cut=0.02, lost=0.03, delayed=0.1, hung=0.004, swallowed=0.004, watches=20.0, stale=0.1)

LONG = {
    "a_node_is_lost_and_removed": 0.2,
    "a_node_is_removed_at_once": 0.2,
    "a_node_is_lost_and_comes_back": 0.25,
    "a_node_is_lost_in_a_pause": 0.25,
    "a_node_is_silent_while_a_rank_ends": 0.8,
    "an_image_cannot_be_pulled_for_a_while": 1.0,
    "no_node_has_room_for_a_while": 1.0,
    "a_job_expires": 0.4,
}
"""Those that begin first, and how much shorter they are: what has to be seen must not pass too quickly, and the control plane takes
a minute to see that a node is gone."""
LONELY = {name for name in LONG if name.startswith("a_node")}
SECOND_ACT = ("watches_break", "watches_break_in_a_restart", "watches_stand_still", "a_gang", "a_gang_changes_its_size")
"""The gangs: another scenario begins without their scheduler's kind."""
NOT_PLAYED = {
    "a_deadline_passes_but_not_in_a_pause": "looks ten seconds before its deadline and five after: shortened, that tests the machine",
}
"""Which scenarios are played at full length only (`TWIN_SCALE=1`), and why."""
PARTICULARS = "sim.scenarios.particulars"
"""Scenarios that look with the eyes of the simulation, at its trace or between two of its steps, are left to it."""
PLAYED = [each for each in SCENARIOS if each.play.__module__ != PARTICULARS and (SCALE >= 1 or str(each) not in NOT_PLAYED)]


class Evening:
    """All scenarios, played; each has its ending."""

    def __init__(self, theatre):
        self.theatre, self.endings = theatre, {}
        by_name = {str(each): each for each in PLAYED}
        first = sorted(by_name.keys() - set(SECOND_ACT), key=lambda name: (name not in LONG, name))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            futures = {name: pool.submit(self._play, by_name[name]) for name in first}
            for name in first:
                if name not in LONELY:
                    futures[name].result()
            for future in [pool.submit(self._play, by_name[name]) for name in SECOND_ACT]:
                future.result()
        theatre.proxy.calm = True

    def _play(self, scenario):
        name, begin = str(scenario), time.monotonic()
        twin = self.theatre.stage(scenario, max(SCALE, LONG.get(name, 0.0)) if SCALE >= 1 else LONG.get(name, SCALE), name in LONELY)
        try:
            scenario.play(twin)
            twin.reach_phase(scenario.phase)
            twin.reach(lambda: self._ended(scenario, twin))
            problem = ""
        except Exception:
            problem = traceback.format_exc()
            self.theatre.proxy.catch_up()  # OR ALL OTHERS would wait with it
        self.endings[name] = twin, problem
        print(f"{time.monotonic() - begin:6.1f} s  {twin.namespace}  {'ok' if not problem else 'FAILED'}  {name}")

    def _ended(self, scenario, twin):
        """What is stored in the end, and how often who ran."""
        if not scenario.phase:
            return not twin.pods()
        status = twin.status()
        runs = {rank: twin.node.table.runs(f"train-{rank}") for rank in scenario.runs}
        return {field: getattr(status, field) for field in scenario.status} == dict(scenario.status) and runs == dict(scenario.runs)


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "twin") as world:
        yield world


@pytest.fixture(scope="module")
def evening(world, tmp_path_factory):
    directory, server = tmp_path_factory.mktemp("twin"), Server(world.cluster.kubeconfig)
    config = account_kubeconfig(world.cluster, world.api, directory / "config")
    user = Server(config).admin
    with Meddler(server, MISCHIEF, token=user["token"]) as proxy:
        here = world.audit.here
        config = server.write(directory / "config", user, server=proxy.url, certificate_authority_data=None, certificate_authority=None)
        theatre = Theatre(world, proxy)
        with Contender(config, directory / "log", since=here) as controller:
            controller.wait_leading()
            try:
                evening = Evening(theatre)
                yield evening
            finally:
                theatre.close()
                print(dict(proxy.done))
                print(controller.log[-6000:])
            assert controller.terminate() == 0
            assert "Traceback" not in controller.log


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", PLAYED, ids=str)
def test_a_scenario_ends_on_a_real_server_as_in_the_simulation(evening, scenario):
    twin, problem = evening.endings[str(scenario)]
    assert not problem, problem
    assert twin.phase() == scenario.phase


def test_requests_were_meddled_with(evening):
    refused = {f"refused {code}" for code in TROUBLE}
    others = {"cut", "lost", "delayed", "hung", "swallowed", "watch cut", "watch lagged", "watch stood still"}
    assert refused | others <= set(evening.theatre.proxy.done)


def test_the_audit_log_shows_no_violation(world, evening):
    found = judge(world.plane.audit_log)
    about = {each.entries[-1].object_ref.namespace for each in found if each.entries}
    for entry in read(world.plane.audit_log).writes if found else ():
        if entry.object_ref.namespace in about:
            print(entry)
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize(("plant", "clause"), PLANTED.items(), ids=lambda each: getattr(each, "__name__", str(each)))
def test_violations_that_are_put_into_the_same_log_are_found(world, evening, plant, clause):
    log = Forgery(world.plane.audit_log, {name: twin.namespace for name, (twin, _) in evening.endings.items()})
    plant(log)
    assert clause in {each.clause for each in judged(history(log.lines))}


def test_whatever_the_controller_read_was_the_newest_state(world, evening):
    """A server may answer from a cache that is behind only if the request names a version."""
    reads = world.audit.requests(user=USER, verbs={"get", "list"})
    assert {"pods", "services", "genericjobs"} <= {each.resource for each in reads}
    assert [each.uri for each in reads if "resourceVersion" in each.uri] == []


def test_no_rank_ran_twice_at_a_time_on_any_node(world, evening):
    assert world.nodes.overlaps(lambda life: (life.owner_uid, life.key)) == []
