"""Leaders that lose their lease in the middle of everything, and a judge who has read the audit log afterwards.

While jobs come, fail, restart, pause and end, the leader is cut off, or sleeps, for longer than its lease lasts. Another one takes over
and has its hands full; the old one comes back, finds that its time is over, and ends. That nothing was written after the loss, and that
no rank had two instances, is told by nobody who took part.
"""

import signal
import threading

import pytest

from e2e.apart import Contender, apart
from e2e.jobs import a_job, replicas, restarts
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import LEASES, RAW_PODS, Key
from harness.clusters import eventually
from harness.configurations import Server
from harness.controllers import NAMESPACE, ControllerProcess, account_kubeconfig
from harness.definitions import GENERIC_JOBS
from harness.proxy import Proxy
from harness.verdicts import judge
from harness.webhook import slow_admission

pytestmark = pytest.mark.processes

RANKS, MOST = 3, 30
BEAT = 0.5


class Bustle:
    """Jobs to which something happens all the time: each rank of the odd ones fails once, the others are paused and resumed."""

    def __init__(self, world):
        self.world, self.namespace, self.jobs = world, world.namespace(), []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._stir, daemon=True)
        self._thread.start()

    def _stir(self):
        beat = 0
        while not self._over.wait(BEAT):
            beat += 1
            for deed in (self._submit, self._fail, self._pause, self._take):
                try:
                    deed(beat)
                except (ApiError, AssertionError, ValueError):
                    continue  # what it was about has just gone

    def _submit(self, beat):
        if beat % 2 == 0 and len(self.jobs) < MOST:
            body = a_job(f"job-{beat}", replicas(RANKS) | restarts("OnFailure", 2))
            self.world.api.create(GENERIC_JOBS, body, self.namespace)
            self.jobs.append(f"job-{beat}")

    def _fail(self, beat):
        running = sorted(self.world.running(self.namespace), key=lambda key: key.name)
        if running:
            self.world.node.finish(running[beat % len(running)], beat % 2)

    def _pause(self, beat):
        if self.jobs and beat % 3 == 0:
            key = Key(self.namespace, self.jobs[beat // 3 % len(self.jobs)])
            paused = self.world.api.get(GENERIC_JOBS, key)["spec"].get("suspend", False)
            self.world.api.patch(GENERIC_JOBS, key, {"spec": {"suspend": not paused}})

    def _take(self, beat):
        running = sorted(self.world.running(self.namespace), key=lambda key: key.name)
        if running and beat % 5 == 0:
            self.world.api.delete(RAW_PODS, running[-1])

    def stop(self):
        self._over.set()
        self._thread.join()


class Partition:
    """The leader's network loses its way, and finds it again."""

    def __init__(self, leader, proxy):
        self._proxy = proxy
        self.begin = proxy.black_hole

    def end(self):
        self._proxy.cut()  # OR WHAT WAS HELD would arrive now, long after its sender has given it up
        self._proxy.heal()


class Sleep:
    """The leader's process stands still, and goes on."""

    def __init__(self, leader, proxy):
        self.begin = lambda: leader.signal(signal.SIGSTOP)
        self.end = lambda: leader.signal(signal.SIGCONT)


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "leaders") as world:
        yield world


@pytest.mark.parametrize("absence", [Partition, Sleep], ids=lambda each: each.__name__.lower())
def test_a_leader_that_was_away_for_long_has_written_nothing_after_its_loss(world, tmp_path, absence):
    here = world.audit.here
    with Proxy(Server(world.cluster.kubeconfig).port) as proxy:
        lonely, other = (account_kubeconfig(world.cluster, world.api, tmp_path / name) for name in ("lonely", "other"))
        lonely.write_text(lonely.read_text().replace(f":{Server(lonely).port}", f":{proxy.port}"))
        with Contender(lonely, tmp_path / "leader", since=here) as leader:
            leader.wait_leading()
            with Contender(other, tmp_path / "heir", since=here) as heir:
                heir.wait_ready()
                away_in_the_middle(world, leader, heir, absence(leader, proxy))
                assert heir.terminate() == 0
                assert not any("Traceback" in each.log for each in (leader, heir))
    assert [str(each) for each in judge(world.plane.audit_log, since=here)] == []
    assert not world.nodes.overlaps(lambda life: (life.owner_uid, life.key))


def away_in_the_middle(world, leader, heir, absence):
    bustle = Bustle(world)
    eventually(lambda: len(bustle.jobs) > 5)
    absence.begin()
    eventually(lambda: heir.leads)  # no sooner than the lease has ended
    before = len(world.writes(heir))
    eventually(lambda: len(world.writes(heir)) > before + 20)  # it has a lot to do
    absence.end()
    assert eventually(lambda: leader.exit_code) == 1
    assert "leader election lost" in leader.log
    bustle.stop()
    assert world.writes(leader)


def test_controllers_of_different_namespaces_lead_beside_each_other_and_those_of_the_same_do_not(world, tmp_path):
    one, other = world.namespace(), world.namespace()

    def controller(number, namespace):
        options = ("--leader-elect", "--namespace", namespace)
        return ControllerProcess(world.cluster.kubeconfig, tmp_path / f"log-{number}", *options)

    with controller(0, one) as first, controller(1, other) as second:
        jobs = [world.submit(namespace, "train", 2) for namespace in (one, other)]
        for each in (first, second):
            each.wait_leading()
        for job in jobs:
            world.run(job)
        with controller(2, one) as third:
            third.wait_ready()
            assert first.terminate() == 0
            third.wait_leading()  # it waited for this lease, and not for the other one
            assert second.metric("leader_election_master_status") == 1
            assert {each.terminate() for each in (second, third)} == {0}
    names = {f"genericjob-controller.{namespace}" for namespace in (one, other)}
    assert names <= {lease["metadata"]["name"] for lease in world.api.list(LEASES, NAMESPACE).items}


def test_a_leader_that_is_asked_to_stop_hands_over_although_admission_holds_up_its_creates(world, tmp_path):
    here, namespace = world.audit.here, world.namespace()
    with world.contenders(tmp_path) as (leader, heir), slow_admission(world.plane, world.api, namespace, seconds=30, timeout=30) as webhook:
        job = world.submit(namespace, "train", 2)
        eventually(lambda: webhook.asked)
        assert leader.terminate() == 0
        assert "released the lease" in leader.log
        webhook.seconds = 0.0
        eventually(lambda: heir.leads)
        world.run(job)
        world.end(job.keys).kept()
        job.becomes("Succeeded")
    assert [str(each) for each in judge(world.plane.audit_log, since=here)] == []
    instances = world.instances(namespace)
    assert [len(instances[key.name]) for key in job.keys] == [1, 1]
