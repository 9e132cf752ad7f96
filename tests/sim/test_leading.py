"""What a controller does that leads no more: nothing. Who leads is said by the test, or by an election of whole processes."""

from genericjob.jobs.assembly import Assembly
from genericjob.reconcile.fence import Fenced
from genericjob.reconcile.metrics import Metrics
from sim.chance.schedules import Schedule
from sim.chance.trial import play
from sim.jobs import Cluster, Watched
from sim.node import FOREVER
from sim.scenarios import ranks


def test_who_leads_no_more_sends_nothing():
    for seed in range(5):
        with Cluster(seed, ranks(other=FOREVER)) as cluster:
            process, leads = cluster.stepped.process("controller"), [True]
            api = Watched(cluster.faults, process)
            api.contract = cluster.contract
            fenced = Fenced(api, lambda leads=leads: leads[0])
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
