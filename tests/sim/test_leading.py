"""What a controller does that leads no more: nothing."""

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


def test_who_takes_over_knows_first_what_its_predecessor_knew():
    def script(run):
        run.standby()
        run.refuse(code=403, verb="create", resource="pods", times=2)
        run.submit(types={"worker": 2})
        run.wait(seconds=0.5)
        run.lag(resource="genericjobs", seconds=20.0, who="standby")
        run.edit(runMode={"pause": {"enabled": True}})
        run.until(mode="Paused")
        run.switch()
        run.wait(seconds=30.0)

    for seed in range(5):
        assert not play(Schedule(seed, ()), script=script).failure
