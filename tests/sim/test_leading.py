"""What a controller does that leads no more: nothing. Who leads is said by the test, or by an election of whole processes."""

import pytest

from genericjob.jobs.assembly import Assembly
from genericjob.jobs.resource import JOBS
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.health import Health
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.process import Process
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, Key
from genericjob.reconcile.timeouts import CREATE_S
from sim.chance.schedules import Schedule
from sim.chance.trial import play
from sim.contract import attempt
from sim.jobs import NAMESPACE, Cluster, Watched
from sim.node import FOREVER, PODS, Program
from sim.scenarios import ranks

ALWAYS = 10**6
UNAVAILABLE = ApiError(503, "ServiceUnavailable", "the server cannot store anything now")


def test_who_leads_no_more_sends_nothing():
    for seed in range(5):
        with Cluster(seed, ranks(other=FOREVER)) as cluster:
            process, leads = cluster.stepped.process("controller"), [True]
            api = Watched(cluster.faults, process)
            api.contract = cluster.contract
            fenced = Fenced(api, Fence(lambda leads=leads: leads[0], process))
            assembly = Assembly(api, writes=fenced, primitives=process, metrics=Metrics(), workers=2, writers=3, processor_time=lambda: 0.0)
            process.start("main", assembly.start)
            cluster.submit(types={"worker": 6})
            cluster.stepped.reach(lambda cluster=cluster: len(cluster.pods()) >= 3)
            leads[0] = False
            cluster.stepped.run()  # what was let through arrives
            sent = api.writes
            cluster.delete_pod("train-worker-0")
            cluster.pause()
            cluster.submit("another", types={"worker": 1})
            cluster.stepped.advance(120)
            assert api.writes == sent, "10: who leads no more sends nothing"
            leads[0] = True
            cluster.reach_phase("Paused")


def pauses_unheard(run):
    """A job that still wants pods is paused, and the standby has not heard of it."""
    run.refuse(code=403, verb="create", resource="pods", times=2)
    run.submit(types={"worker": 2})
    run.wait(seconds=0.5)
    run.lag(resource="genericjobs", seconds=20.0, who="standby")
    run.edit(runMode={"pause": {"enabled": True}})
    run.until(mode="Paused")


def test_who_takes_over_knows_first_what_its_predecessor_knew():
    def script(run):
        run.standby()
        pauses_unheard(run)
        run.switch()
        run.wait(seconds=30.0)

    for seed in range(5):
        assert not play(Schedule(seed, ()), script=script).failure


def test_a_new_leader_begins_although_lists_take_longer_than_a_try_and_the_server_moves_on():
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        process, others, metrics = cluster.stepped.process("controller"), cluster.stepped.process("others"), Metrics()
        api = Watched(cluster.faults, process)
        api.contract = cluster.contract
        made = Assembly(api, primitives=process, metrics=metrics, workers=2, writers=3, processor_time=lambda: 0.0)

        def slow() -> None:
            cluster.api.lag()  # a watch that tells no progress
            cluster.faults.delay(20.0, "list", resource=RAW_PODS, times=ALWAYS, after=True)
            others.start("others", write)
            process.sleep(1.0)

        def write() -> None:
            for number in range(600):
                cluster.api.create(CONFIG_MAPS, {"metadata": {"name": f"other-{number}"}}, NAMESPACE)
                others.sleep(1.0)

        cluster.submit(types={"worker": 2})
        program = Process(
            informers={"genericjobs": made.jobs, "pods": made.pods, "services": made.services},
            controllers=[made.controller],
            primitives=process,
            metrics=metrics,
            health=Health(),
            when_filled=slow,
        )
        process.start("main", program.run)
        cluster.reach(lambda: len(cluster.pods()) == 2, within=300.0)
        lists = sum("controller/" in line and ": after list pods" in line for line in cluster.stepped.trace)
        assert lists == 3, "10: one list fills the cache, one tells the target, one reaches it"


@pytest.mark.parametrize("policy", ["All", "Unfinished"])
def test_a_standby_forgets_pods_that_a_stored_status_accounts_for(policy):
    for seed in range(5):
        with Cluster(seed, ranks(worker_0=Program(3.0), worker_1=(Program(1.0, 1), Program(0.5)), other=FOREVER)) as cluster:
            cluster.controller(leads=False)
            cluster.controller()
            restart = {"policy": "OnFailure", "limit": 2}
            for number in range(3):
                cluster.submit(f"job-{number}", types={"worker": 6}, restart=restart, successRules=[{"worker": [0]}], cleanUpPolicy=policy)
            cluster.stepped.advance(60)
            assert [cluster.phase(f"job-{number}") for number in range(3)] == ["Succeeded"] * 3
            assert len(cluster.pods()) == (0 if policy == "All" else 6)
            assert [assembly.departures.size for assembly in cluster.assemblies] == [0, 0]


def test_who_takes_over_remembers_ends_that_its_predecessor_could_not_store():
    for seed in range(5):
        with Cluster(seed, ranks(worker_0=Program(1.0), other=FOREVER)) as cluster:
            leader, standby = cluster.controller(), cluster.controller(leads=False)
            cluster.submit(types={"worker": 2}, successRules=[{"worker": [0, 1]}])
            cluster.reach_running()
            cluster.faults.refuse(UNAVAILABLE, "replace_status", times=ALWAYS)
            cluster.reach(lambda cluster=cluster: "Succeeded" in phases(cluster))
            cluster.delete_pod("train-worker-0")
            cluster.stepped.advance(1)
            leader.crash()
            cluster.faults.heal()
            assert not standby.crashed
            cluster.assemblies[1].recorder.start()
            cluster.assemblies[1].controller.start()
            cluster.stepped.advance(60)
            assert cluster.node.table.runs("train-worker-0") == 1, "3: an end that was seen counts"
            assert [task.succeeded_ranks for task in cluster.status().tasks] == ["0"]
            assert cluster.assemblies[1].departures.size == 0


def phases(cluster):
    return [pod["status"].get("phase") for pod in cluster.api.list(RAW_PODS).items]


def elected(script, faults, *, seeds=5):
    """Play with processes that hold an election; these faults are met, and no others that cost a lease."""
    for seed in range(seeds):
        trial = play(Schedule(seed, latency=0.05, elected=True), script=script)
        assert not trial.failure, f"seed {seed}: {trial.failure}"
        assert {fault for _, fault in trial.hits} >= faults
        assert "lease lost" in faults or "lease lost" not in {fault for _, fault in trial.hits}


def test_nobody_takes_a_lease_that_is_held():
    def script(run):
        run.submit(types={"worker": 2})
        run.until(mode="Running")
        first = run.leader
        run.wait(seconds=60.0)
        assert run.leader is first
        run.kill(name="train-worker-0", exit_code=0)

    elected(script, {"program ended"})


def test_who_slept_for_too_long_sends_nothing_when_it_wakes_up():
    def script(run):
        run.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3})
        run.until(mode="Running")
        first = run.leader
        run.freeze(seconds=25.0, writes=1)
        for rank in range(3):
            run.kill(name=f"train-worker-{rank}", exit_code=1)
        run.wait(seconds=20.0)
        assert not first.crashed
        assert run.leader is not first
        run.wait(seconds=10.0)
        assert first.crashed

    elected(script, {"stands still", "lease lost"}, seeds=20)


def test_who_is_cut_off_gives_up_before_another_begins():
    def script(run):
        run.submit(types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3})
        run.until(mode="Running")
        first = run.leader
        run.cut_off(seconds=40.0, arrive=(0, 1), late=4.0)
        for rank in range(3):
            run.kill(name=f"train-worker-{rank}", exit_code=1)
        run.wait(seconds=12.0)
        assert first.crashed
        assert not run.led()
        run.wait(seconds=12.0)
        assert run.led()

    elected(script, {"cut off", "lease lost"})


def test_who_is_asked_to_stop_hands_over_at_once():
    def script(run):
        run.submit(types={"worker": 3})
        run.until(mode="Running")
        first = run.leader
        run.kill(name="train-worker-0", exit_code=0)
        run.terminate()
        run.wait(seconds=3.0)
        assert first.crashed
        assert run.led()
        run.edit(runMode={"pause": {"enabled": True}})
        run.until(mode="Paused")

    elected(script, {"asked to stop", "hand-over"})


def test_who_is_asked_to_stop_keeps_the_lease_until_its_writes_have_arrived():
    def script(run):
        run.submit(types={"worker": 2}, restart={"policy": "OnFailure", "limit": 3})
        run.until(mode="Running")
        run.slow(seconds=4.0)
        run.kill(name="train-worker-0", exit_code=1)
        run.wait(seconds=1.0)
        run.terminate()
        run.wait(seconds=10.0)

    elected(script, {"hand-over"})


def test_who_takes_over_a_process_knows_first_what_its_predecessor_knew():
    def script(run):
        pauses_unheard(run)
        run.terminate()
        run.wait(seconds=30.0)

    elected(script, {"hand-over"})


# ------------------------------------------------------------------------------------------------ creates that are late


def sends_a_create_at_the_last_moment(run):
    """A rank fails, its restart is stored, and it waits for 8 s. Then the leader is cut off, and sends the create when its time is
    nearly over; the server gets it half a minute later, when another process has led for long."""
    run.submit(types={"worker": 1}, restart={"policy": "OnFailure", "limit": 9}, cleanUpPolicy="All")
    run.until(mode="Running")
    for seconds in (2.0, 3.0, 4.0, 6.0):  # each time it waits longer
        run.kill(name="train-worker-0", exit_code=1)
        run.wait(seconds=seconds)
    run.kill(name="train-worker-0", exit_code=1)
    run.wait(seconds=0.8)
    run.cut_off(seconds=60.0, arrive=(0, 1, 2, 3), late=CREATE_S)
    run.wait(seconds=20.0)
    assert run.led()
    assert run.node.table.running("train-worker-0")  # started by the successor, in the same attempt
    assert not creates(run)


def creates(run):
    """When late creates of pods arrived, in seconds after the last election."""
    return [at - run.elections[-1] for at, call in run.arrivals if call.verb == "create" and call.resource.plural == "pods"]


def comes_late(run):
    """Wait for the late create, and until somebody has seen what it made."""
    run.wait(seconds=25.0)
    (late,) = creates(run)
    assert late > 20.0, f"it arrived {late:.1f} s after the election"


def test_a_create_that_arrives_long_after_an_election_finds_the_pod_of_the_successor():
    def script(run):
        sends_a_create_at_the_last_moment(run)
        comes_late(run)
        assert run.cluster.pods() == ["train-worker-0"]
        assert run.node.table.runs("train-worker-0") == 6

    elected(script, {"cut off", "lease lost", "late write"})


def test_a_create_that_arrives_long_after_an_election_and_a_pause_makes_a_pod_that_is_deleted():
    def script(run):
        sends_a_create_at_the_last_moment(run)
        run.edit(runMode={"pause": {"enabled": True}})
        run.until(mode="Paused")
        comes_late(run)
        assert run.node.table.runs("train-worker-0") == 7
        assert run.cluster.pods() == []
        assert run.cluster.phase() == "Paused"

    elected(script, {"cut off", "lease lost", "late write"})


def test_a_create_that_arrives_long_after_an_election_and_the_end_makes_a_pod_that_is_deleted():
    def script(run):
        sends_a_create_at_the_last_moment(run)
        run.kill(name="train-worker-0", exit_code=0)
        run.until(mode="Succeeded")
        comes_late(run)
        assert run.node.table.runs("train-worker-0") == 7
        assert run.cluster.pods() == []
        assert run.cluster.status().tasks[0].succeeded_ranks == "0"

    elected(script, {"cut off", "lease lost", "late write"})


def test_a_create_that_arrives_long_after_an_election_and_another_restart_makes_a_pod_that_is_replaced():
    def script(run):
        sends_a_create_at_the_last_moment(run)
        run.kill(name="train-worker-0", exit_code=1)  # it waits for 16 s now, and the name is free
        comes_late(run)
        (pod,) = run.api.list(PODS).items
        assert attempt(pod) == 6

    elected(script, {"cut off", "lease lost", "late write"})


def test_a_create_that_arrives_long_after_an_election_is_not_the_next_job_s():
    def script(run):
        sends_a_create_at_the_last_moment(run)
        run.delete()
        run.wait(seconds=1.0)
        run.refuse(code=403, verb="create", resource="pods", times=1)
        run.submit(types={"worker": 1})
        comes_late(run)
        run.wait(seconds=5.0)
        assert [pod.owner_uid for pod in run.api.list(PODS).items] == [run.api.get(JOBS, Key("default", "train")).uid]

    elected(script, {"cut off", "lease lost", "late write"})


def test_who_is_asked_to_stop_hands_over_although_admission_holds_up_its_creates():
    def script(run):
        run.slow_admission(seconds=25.0)
        run.submit(types={"worker": 2})
        run.wait(seconds=1.0)
        first = run.leader
        run.terminate(arrive=(0, 1), late=CREATE_S)
        run.slow_admission(seconds=0.0)
        run.wait(seconds=12.0)
        assert first.crashed
        assert run.led()
        run.edit(runMode={"pause": {"enabled": True}})
        run.until(mode="Paused")
        run.wait(seconds=30.0)
        assert run.cluster.pods() == []

    elected(script, {"asked to stop", "hand-over", "late write"})


def test_who_is_asked_to_stop_keeps_the_lease_while_a_status_is_on_its_way():
    """There is more to store than the process has time for, so that work ends in the middle of something."""
    names = [f"job-{number}" for number in range(10)]

    def script(run):
        for name in names:
            run.submit(name=name, types={"worker": 1})
        run.wait(seconds=5.0)
        run.slow(seconds=4.0)
        for name in names:
            run.edit(name=name, ttlSecondsAfterFinished=1000)
        run.wait(seconds=0.1)
        run.terminate(arrive=(0, 1, 2, 3), late=4.0)
        run.wait(seconds=20.0)

    elected(script, {"asked to stop", "hand-over"})
