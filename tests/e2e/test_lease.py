"""The lease on a real server: who follows a leader that dies, leaves, or is cut off."""

import logging
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest

from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.lease import Elector, Timings
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import LEASES, Key
from harness.clusters import PATIENCE, eventually
from harness.configurations import Server
from harness.proxy import Proxy

QUICK = Timings(lease=4.0, renew=2.5, retry=0.5)
PATIENT = Timings(lease=120.0, renew=100.0, retry=80.0)
"""Looks only every 80 s or more: what comes sooner came by watching."""


class Candidate:
    """An elector that runs in a thread of this process."""

    def __init__(self, kubeconfig, namespace, identity, timings, begin):
        self.identity = identity
        api = HttpApi(from_kubeconfig(str(kubeconfig)), timeouts=timings.timeouts())
        self.elector = Elector(api, Key(namespace, "it"), identity, primitives=System(), metrics=Metrics(), timings=timings)
        self.thread = threading.Thread(target=self.elector.run, args=(begin,), daemon=True)
        self.thread.start()

    def leads(self):
        return self.elector.leading and self.elector.may_write()

    def leave(self):
        self.elector.stop()
        self.thread.join(PATIENCE)
        self.elector.release()


@pytest.fixture
def candidate(cluster, namespace):
    made = []

    def make(identity, timings=QUICK, kubeconfig=cluster.kubeconfig, begin=lambda: None):
        made.append(Candidate(kubeconfig, namespace, identity, timings, begin))
        return made[-1]

    yield make
    for each in made:
        each.elector.stop()
        each.thread.join(PATIENCE)


@pytest.fixture
def record(server, namespace):
    return lambda: server.get(LEASES, Key(namespace, "it"))["spec"]


def moment(text):
    return datetime.fromisoformat(text)


def test_a_release_is_taken_up_within_a_moment(candidate, record, caplog):
    caplog.set_level(logging.INFO)
    first = candidate("first", PATIENT)
    eventually(first.leads)
    second = candidate("second", PATIENT)
    eventually(lambda: "first leads" in caplog.text)
    assert (record()["holderIdentity"], record()["leaseDurationSeconds"]) == ("first", 120)
    first.leave()
    eventually(second.leads, within=PATIENT.retry / 2)
    assert not first.leads()
    assert (record()["holderIdentity"], record()["leaseTransitions"]) == ("second", 1)


PROGRAM = """
import sys
from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.lease import Elector, Timings
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import Key

timings = Timings(*map(float, sys.argv[3:]))
api = HttpApi(from_kubeconfig(sys.argv[1]), timeouts=timings.timeouts())
elector = Elector(api, Key(sys.argv[2], "it"), "victim", primitives=System(), metrics=Metrics(), timings=timings)
elector.run(lambda: print("leading", flush=True))
"""


@pytest.mark.processes
def test_a_leader_that_is_killed_is_followed_when_its_time_is_over(cluster, namespace, candidate, record):
    timings = [str(seconds) for seconds in (QUICK.lease, QUICK.renew, QUICK.retry)]
    command = [sys.executable, "-c", PROGRAM, str(cluster.kubeconfig), namespace, *timings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout.readline() == "leading\n"
        heir = candidate("heir")
        first = record()["renewTime"]
        eventually(lambda: record()["renewTime"] != first)
        assert not heir.leads()
        victim.kill()
        victim.wait()
    last = moment(record()["renewTime"])
    eventually(heir.leads)
    found = record()
    assert (found["holderIdentity"], found["leaseTransitions"]) == ("heir", 1)
    assert moment(found["acquireTime"]) - last >= timedelta(seconds=QUICK.lease)


def test_a_leader_that_is_cut_off_stops_before_another_begins(cluster, tmp_path, candidate, record):
    door = Server(cluster.kubeconfig)
    with Proxy(door.port) as proxy:
        config = door.write(tmp_path / "config", door.admin, server=f"https://127.0.0.1:{proxy.port}", tls_server_name="127.0.0.1")
        lonely = candidate("lonely", kubeconfig=config)
        eventually(lonely.leads)
        both = []
        heir = candidate("heir", begin=lambda: both.append(lonely.elector.may_write()))
        proxy.black_hole()  # requests hang, and nobody says so
        eventually(lambda: lonely.elector.lost)
        eventually(heir.leads)
        assert both == [False]
        proxy.heal()
        lonely.thread.join(PATIENCE)
        lonely.elector.release()
        assert not lonely.leads()
        assert record()["holderIdentity"] == "heir"


def test_a_lease_deleted_by_an_administrator_stays_with_its_holder(server, namespace, candidate, record, caplog):
    caplog.set_level(logging.INFO)
    holder = candidate("holder")
    eventually(holder.leads)
    rival = candidate("rival")
    eventually(lambda: "holder leads" in caplog.text)
    server.delete(LEASES, Key(namespace, "it"))
    assert eventually(lambda: record()["holderIdentity"]) == "holder"
    renewed = record()["renewTime"]
    eventually(lambda: record()["renewTime"] != renewed)
    assert (holder.leads(), rival.leads(), bool(holder.elector.lost)) == (True, False, False)


def test_of_many_that_begin_together_one_leads(candidate, record):
    many = [candidate(f"candidate-{number}") for number in range(6)]
    eventually(lambda: any(each.leads() for each in many))
    leader = record()["holderIdentity"]
    for _ in range(3):
        renewed = record()["renewTime"]
        eventually(lambda renewed=renewed: record()["renewTime"] != renewed)
        assert [each.identity for each in many if each.leads()] == [leader]
