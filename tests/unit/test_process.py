"""A process from start to end, made of parts that only write down what is asked of them."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading

import pytest

from genericjob.reconcile import process as process_module
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.health import Health
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import Flag
from genericjob.reconcile.process import Process, settle_interpreter
from harness.clusters import eventually
from unit.clocks import HandClock

pytestmark = pytest.mark.processes


class Part:
    """Writes down what is asked of it, and waits where the test says so."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.clock = world.clock

    def wrote(self, what):
        self.world.journal.append(f"{self.name} {what}")


class Informer(Part):
    def __init__(self, world, name):
        super().__init__(world, name)
        self.filled = Flag(world.clock)
        self.filled.set()
        self.silent, self.away = 0.0, False
        self.heard = self.clock.monotonic()
        """When the last page of the first list came."""
        self.asked, self.unknown = 0, []
        """How often it was asked for a target, and what the next questions meet."""
        self.behind, self.targets = [], []
        """Whether the next attempts reach their target, and which targets those were."""
        self.lost = []
        """Targets that the server does not have any more."""

    @property
    def synced(self):
        return bool(self.filled)

    def start(self):
        self.wrote("start")

    def wait_synced(self, timeout):
        return self.filled.wait(timeout)

    def silence(self):
        return self.silent if self.synced else self.clock.monotonic() - self.heard

    def unexplained_silence(self):
        return 0.0 if self.away else self.silent

    def target(self):
        self.asked += 1
        if self.unknown:
            raise self.unknown.pop(0)
        return {"": str(self.asked)}

    def reach(self, target, timeout):
        self.wrote("catch up")
        self.targets.append(target)
        return self.behind.pop(0) if self.behind else True

    def reachable(self, target):
        return target not in self.lost

    def stop(self):
        self.wrote("stop")


class Controller(Part):
    def __init__(self, world, name="jobs"):
        super().__init__(world, name)
        self.done = Flag(world.clock)
        self.done.set()
        self.well = True

    def start(self):
        self.wrote("start")

    def alive(self):
        return self.well

    def stop(self, timeout):
        self.wrote("stop")
        drained = self.done.wait(timeout)
        self.wrote("drained" if drained else "gave up")
        return drained


class Sender(Part):
    def __init__(self, world, name):
        super().__init__(world, name)
        self.ends = True

    def start(self):
        self.wrote("start")

    def stop(self, timeout):
        self.wrote("stop")
        return self.ends


class Fence(Part):
    def __init__(self, world):
        super().__init__(world, "fence")
        self.quiet = True

    def shut(self, timeout):
        self.wrote("shut")
        return self.quiet


class Elector(Part):
    def __init__(self, world):
        super().__init__(world, "lease")
        self.elected, self.over = Flag(world.clock), Flag(world.clock)
        self.problem = self.refused = ""
        self.bug = False

    def run(self, started):
        self.wrote("run")
        self.elected.wait()
        if self.bug:
            raise ZeroDivisionError
        if not self.over:
            started()
            self.over.wait()

    def lose(self):
        self.over.set()

    def stop(self):
        self.wrote("stop")
        self.over.set()
        self.elected.set()

    def release(self):
        self.wrote("release")

    def complaint(self):
        return self.problem

    def refusal(self):
        return self.refused


class Server(Part):
    def __init__(self, world):
        super().__init__(world, "pages")
        self.over = Flag(world.clock)
        self.bug = False

    def serve(self):
        if self.bug:
            raise RuntimeError("a bug")
        self.wrote("serve")
        self.over.wait()

    def stop(self):
        self.wrote("stop")
        self.over.set()


class World:
    def __init__(self):
        self.clock = HandClock()
        self.journal = []
        self.metrics, self.health = Metrics(), Health()
        self.informers = {name: Informer(self, name) for name in ("pods", "genericjobs")}
        self.controller = Controller(self)
        self.writer, self.recorder = Sender(self, "writer"), Sender(self, "recorder")
        self.fence, self.elector, self.server = Fence(self), Elector(self), Server(self)
        self.process = None

    def run(self, *, elector=True, **options):
        """Start it; the list gets the exit code when there is one."""
        parts = {
            "controllers": [self.controller],
            "writer": self.writer,
            "recorder": self.recorder,
            "fence": self.fence,
            "elector": self.elector if elector else None,
            "servers": [self.server],
        }
        self.process = Process(
            informers=self.informers, primitives=self.clock, metrics=self.metrics, health=self.health, **(parts | options)
        )
        return self.clock.call(self.process.run)

    def lead(self):
        self.elector.elected.set()
        self.clock.settle()

    def stop(self):
        self.process.stop()
        self.clock.settle()

    def said(self):
        """What was written down since the last question."""
        said = self.journal[:]
        self.journal.clear()
        return said

    def live(self):
        return self.health.report("healthz").text

    def ready(self):
        return self.health.report("readyz").text


@pytest.fixture
def world():
    return World()


STARTED = ["pods start", "genericjobs start"]
STOPPED = ["pods stop", "genericjobs stop"]
CAUGHT_UP = ["genericjobs catch up", "pods catch up"]


def at_work(said):
    """The caches have caught up, in any order, and then the work began."""
    return sorted(said[:-1]) == CAUGHT_UP and said[-1] == "jobs start"


# ------------------------------------------------------------------------------------------------ the beginning


def test_caches_are_filled_before_the_election_and_catch_up_after_it(world):
    world.informers["pods"].filled = Flag(world.clock)
    code = world.run()
    assert sorted(world.said()) == sorted(["pages serve", "recorder start", *STARTED])
    assert "[-]caches failed: not filled yet: pods" in world.ready()
    world.informers["pods"].filled.set()
    world.clock.settle()
    assert world.said() == ["lease run"]
    assert world.health.report("readyz").well  # a standby is ready
    world.lead()
    assert at_work(world.said())
    assert code == []


def test_without_an_elector_work_begins_at_once(world):
    world.run(elector=False)
    assert at_work(world.said()[-3:])


def test_an_interpreter_is_settled_when_the_caches_are_full_and_before_the_election(world):
    world.run(when_filled=lambda: world.journal.append("settled"))
    assert world.said()[-2:] == ["settled", "lease run"]


def test_caches_that_cannot_be_filled_end_the_process_with_a_sentence(world, caplog):
    world.informers["pods"].filled = Flag(world.clock)
    code = world.run(when_filled=lambda: world.journal.append("settled"))
    world.clock.advance(119)
    assert code == []
    world.clock.advance(2)
    assert code == [1]
    assert world.said()[-2:] == STARTED  # and nobody was settled, nor elected
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told == (
        "the caches of pods could not be filled, nothing has arrived for 120 s: "
        "is the server there, and may this process list and watch them?"
    )


def test_the_two_minutes_are_for_all_caches_together(world):
    for informer in world.informers.values():
        informer.filled = Flag(world.clock)
    code = world.run()
    world.clock.advance(100)
    world.informers["pods"].filled.set()
    world.clock.advance(21)
    assert code == [1]


def test_caches_may_take_their_time_while_pages_arrive(world):
    pods = world.informers["pods"]
    pods.filled = Flag(world.clock)
    code = world.run()
    for _ in range(10):
        world.clock.advance(100)
        pods.heard = world.clock.monotonic()
    assert code == []
    world.clock.advance(121)
    assert code == [1]


def test_a_new_leader_does_nothing_until_every_cache_has_caught_up(world, caplog):
    world.informers["genericjobs"].behind = [False, False, True]
    world.run()
    world.lead()
    assert world.said()[-2:] == ["pods catch up", "genericjobs catch up"]
    world.clock.advance(1)
    assert world.said() == ["genericjobs catch up"]
    world.clock.advance(1)
    assert world.said() == ["genericjobs catch up", "jobs start"]
    assert "the cache of genericjobs has not caught up with the server yet" in caplog.text


def test_a_new_leader_keeps_the_target_of_its_election_over_all_tries(world, caplog):
    informer = world.informers["genericjobs"]
    informer.unknown = [ApiError(NO_ANSWER, "Unreachable", "no route to host"), RuntimeError("a bug")]
    informer.behind = [False] * 5
    world.run()
    world.lead()
    for _ in range(8):
        world.clock.advance(1)
    assert world.said()[-1] == "jobs start"
    assert informer.asked == 3  # until there was an answer, and not again
    assert informer.targets == [{"": "3"}] * 6
    assert "no route to host" in caplog.text
    assert "a bug" in caplog.text


def test_a_target_that_the_server_has_lost_is_asked_for_once_more(world):
    informer = world.informers["genericjobs"]
    informer.behind = [False] * 4
    informer.lost = [{"": "1"}]  # its store was restored from a backup
    world.run()
    world.lead()
    for _ in range(6):
        world.clock.advance(1)
    assert world.said()[-1] == "jobs start"
    assert informer.asked == 2
    assert informer.targets == [{"": "1"}] + [{"": "2"}] * 4


# ------------------------------------------------------------------------------------------------ the good end


def test_a_stop_takes_in_nothing_more_finishes_the_work_tells_and_then_releases_the_lease(world):
    world.controller.done = Flag(world.clock)
    code = world.run()
    world.lead()
    world.said()
    world.stop()
    assert world.said() == [*STOPPED, "writer stop", "jobs stop"]  # workers need not wait for all that they had planned
    assert "[-]process failed: it is stopping" in world.ready()
    world.clock.advance(9)
    assert (world.said(), code) == ([], [])  # still at work, and still the leader
    world.controller.done.set()
    world.clock.settle()
    assert world.said() == ["jobs drained", "recorder stop", "fence shut", "lease stop", "lease release", "pages stop"]
    assert code == [0]


def test_several_controllers_finish_at_the_same_time(world):
    slow, quick = Controller(world, "slow"), Controller(world, "quick")
    slow.done = Flag(world.clock)
    code = world.run(controllers=[slow, quick])
    world.lead()
    world.said()
    world.stop()
    assert set(world.said()) == {*STOPPED, "writer stop", "slow stop", "quick stop", "quick drained"}
    slow.done.set()
    world.clock.settle()
    assert code == [0]


def test_work_that_does_not_end_is_left_behind_the_fence_and_the_successor_need_not_wait_for_it(world, caplog):
    world.controller.done = Flag(world.clock)  # a create that slow admission holds up
    code = world.run()
    world.lead()
    world.stop()
    world.said()
    world.clock.advance(11)
    assert world.said() == ["jobs gave up", "recorder stop", "fence shut", "lease stop", "lease release", "pages stop"]
    assert code == [0]
    assert "work on jobs did not end within 10 s" in caplog.text


def test_a_write_that_must_not_be_late_and_is_under_way_keeps_the_lease_from_being_released(world, caplog):
    world.fence.quiet = False
    code = world.run()
    world.lead()
    world.stop()
    assert "lease release" not in world.said()
    assert code == [1]
    assert "the lease is not released" in caplog.text


def test_without_a_fence_work_that_does_not_end_keeps_the_lease_from_being_released(world):
    world.controller.done = Flag(world.clock)
    code = world.run(fence=None)
    world.lead()
    world.stop()
    world.clock.advance(11)
    assert "lease release" not in world.said()
    assert code == [1]


def test_a_request_of_the_elector_that_is_under_way_ends_before_the_release(world):
    real = world.elector.run

    def run(started):
        real(started)
        world.clock.sleep(2)
        world.elector.wrote("ended")

    world.elector.run = run
    code = world.run()
    world.lead()
    world.stop()
    assert world.said()[-1] == "lease stop"
    world.clock.advance(2)
    assert world.said() == ["lease ended", "lease release", "pages stop"]
    assert code == [0]


def test_events_that_could_not_be_told_are_no_reason_to_keep_the_lease(world):
    world.recorder.ends = False
    code = world.run()
    world.lead()
    world.stop()
    assert "lease release" in world.said()
    assert code == [0]


def test_a_standby_stops_at_once(world):
    code = world.run()
    world.said()
    world.stop()
    assert code == [0]
    assert world.said() == [*STOPPED, "writer stop", "recorder stop", "fence shut", "lease stop", "lease release", "pages stop"]


def test_a_stop_while_caches_are_being_filled_ends_the_waiting(world):
    world.informers["pods"].filled = Flag(world.clock)
    code = world.run(when_filled=lambda: world.journal.append("settled"))
    world.stop()
    world.clock.advance(1)
    assert code == [0]
    said = world.said()
    assert "lease run" not in said
    assert "settled" not in said


def test_caches_catch_up_at_the_same_time(world):
    world.informers["pods"].behind = [False] * 100
    world.run()
    world.lead()
    assert set(CAUGHT_UP) <= set(world.said())  # the second did not wait for the first


def test_a_stop_while_caches_catch_up_ends_the_waiting(world):
    world.informers["pods"].behind = [False] * 100
    code = world.run()
    world.lead()
    world.stop()
    assert code == [0]
    assert "jobs start" not in world.said()


def test_a_part_that_cannot_be_stopped_does_not_keep_the_others_from_it(world, caplog):
    def broken(*_):
        raise RuntimeError("a bug")

    world.informers["pods"].stop = world.recorder.stop = broken
    code = world.run()
    world.lead()
    world.stop()
    assert code == [0]
    assert world.said()[-2:] == ["lease release", "pages stop"]
    assert "a bug" in caplog.text


def test_a_part_that_cannot_be_started_ends_the_process(world, caplog):
    world.informers["pods"].start = lambda: 1 / 0
    assert world.run() == [1]
    assert "the controller ended unexpectedly" in caplog.text


# ------------------------------------------------------------------------------------------------ the bad end


def test_a_loss_of_the_lease_ends_everything_at_once_and_drains_nothing(world, caplog):
    world.controller.done = Flag(world.clock)
    code = world.run()
    world.lead()
    world.said()
    world.elector.lose()
    world.clock.settle()
    assert (code, world.said()) == ([1], [])
    assert "leader election lost" in caplog.text


def test_a_loss_of_the_lease_during_a_stop_ends_the_waiting_for_work(world):
    world.controller.done = Flag(world.clock)
    code = world.run()
    world.lead()
    world.stop()
    world.said()
    world.elector.lose()
    world.clock.settle()
    assert (code, world.said()) == ([1], [])


def test_a_loss_of_the_lease_while_caches_catch_up_keeps_the_work_from_beginning(world):
    world.informers["pods"].behind = [False] * 100
    code = world.run()
    world.lead()
    world.elector.lose()
    world.clock.settle()
    assert code == [1]
    assert "jobs start" not in world.said()


def test_an_elector_that_dies_is_a_lease_that_is_lost(world, caplog):
    code = world.run()
    world.elector.bug = True
    world.lead()
    assert code == [1]
    assert "the elector died" in caplog.text
    assert world.metrics.registry.get_sample_value("genericjob_thread_deaths_total", {"thread": "elector"}) == 1


def test_a_loss_of_the_lease_at_the_last_moment_is_no_good_end(world):
    def tell_for_long(timeout):
        world.elector.lose()
        world.clock.sleep(1)
        return True

    world.recorder.stop = tell_for_long
    code = world.run()
    world.lead()
    world.stop()
    world.clock.advance(1)
    assert code == [1]
    assert "lease release" not in world.said()


# ------------------------------------------------------------------------------------------------ how it is


def test_a_thread_that_keeps_dying_is_begun_again_counted_and_named_by_the_liveness_probe(world):
    world.server.bug = True
    world.run()
    assert world.health.report("healthz").well
    world.clock.advance(10)
    assert "[-]threads failed: pages keeps dying" in world.live()
    assert world.metrics.registry.get_sample_value("genericjob_thread_deaths_total", {"thread": "pages"}) >= 3
    world.server.bug = False
    world.clock.advance(100)
    assert world.health.report("healthz").well
    assert world.said()[-1] == "pages serve"


def test_a_thread_that_dies_of_the_end_is_not_begun_again(world):
    real = world.server.serve

    def serve():
        real()
        raise OSError("the socket is closed")

    world.server.serve = serve
    world.run()
    world.stop()
    world.clock.advance(60)
    assert world.said().count("pages serve") == 1


def test_threads_of_other_parts_are_watched_through_the_metrics(world):
    world.run()
    for _ in range(3):
        world.metrics.thread_died("informer pods")
    assert "[-]threads failed: informer pods keeps dying" in world.live()


def test_workers_that_are_stuck_or_gone_and_a_lease_that_is_over_fail_the_liveness_probe(world):
    silent = []
    world.metrics.queue("jobs").follow(dict, list, lambda: silent)
    world.run()
    world.lead()
    assert world.health.report("healthz").well
    silent.append(1000.0)
    world.controller.well = False
    world.elector.problem = "the lease ended 9 s ago"
    assert world.live().splitlines() == [
        "[+]threads ok",
        "[-]workers failed: threads of jobs have died",
        "[-]reconciles failed: a worker of jobs has made no progress for 1000 s",
        "[-]leadership failed: the lease ended 9 s ago",
        "[+]watches ok",
        "healthz check failed",
    ]


def test_a_process_that_may_not_have_the_lease_is_not_ready(world):
    world.run()
    assert world.health.report("readyz").well
    world.elector.refused = "the lease has been refused for 70 s"
    assert "[-]lease failed: the lease has been refused for 70 s" in world.ready()
    assert world.health.report("healthz").well


def test_a_cache_that_stands_still_is_not_ready_and_in_the_end_not_alive(world):
    world.run()
    pods = world.informers["pods"]
    pods.silent = 170.0
    assert world.health.report("readyz").well
    pods.silent = 200.0
    assert "[-]watches failed: pods has received nothing for 200 s" in world.ready()
    assert world.health.report("healthz").well
    pods.silent = 700.0
    assert "[-]watches failed: pods has received nothing for 700 s" in world.live()


def test_a_server_that_is_away_makes_nobody_restart(world):
    world.run()
    pods = world.informers["pods"]
    pods.silent, pods.away = 700.0, True
    assert not world.health.report("readyz").well
    assert world.health.report("healthz").well


def test_workers_that_were_not_started_or_were_stopped_are_not_missed(world):
    world.controller.well = False
    world.run()
    assert world.health.report("healthz").well
    world.controller.done = Flag(world.clock)
    world.lead()
    assert not world.health.report("healthz").well
    world.stop()
    assert world.health.report("healthz").well


def test_settling_freezes_what_the_caches_hold_and_shortens_turns(monkeypatch):
    frozen = []
    monkeypatch.setattr(gc, "collect", lambda: frozen.append("collected"))
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append("frozen"))
    monkeypatch.setattr(sys, "setswitchinterval", frozen.append)
    settle_interpreter()
    assert frozen == ["collected", "frozen", 0.001]


# ------------------------------------------------------------------------------------------------ signals

PROGRAM = """
import logging, sys, threading
from genericjob.reconcile.health import Health
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.process import Process, install_signals

class Worker:
    name = "jobs"
    def alive(self): return True
    def start(self): print("ready", flush=True)
    def stop(self, timeout):
        print("stopping", flush=True)
        return sys.argv[1] == "quick" or threading.Event().wait(60)

logging.basicConfig(level=logging.INFO)
process = Process(informers={}, controllers=[Worker()], primitives=System(), metrics=Metrics(), health=Health())
install_signals(process)
sys.exit(process.run())
"""


@pytest.fixture
def program():
    started = []

    def start(kind):
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen([sys.executable, "-c", PROGRAM, kind], **options))
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_well(program, number):
    running = program("quick")
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (0, "stopping\n")
    assert f"asked to stop by {number.name}" in err
    assert "Traceback" not in err


def test_a_second_signal_ends_it_at_once(program):
    running = program("slow")
    running.send_signal(signal.SIGTERM)
    assert running.stdout.readline() == "stopping\n"
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 1
    assert "asked again to stop: ending at once" in err


def test_signals_are_heard_while_the_main_thread_holds_the_lock_that_stopping_needs(world):
    """In this very thread, which is the main one: a handler that took the lock itself would wait for ever."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    left, locked = [], threading.Lock()

    class Locking:
        def stop(self):
            with locked:
                left.append("stop")

    installed = process_module.install_signals(Locking(), leave=left.append)
    try:
        with locked:
            os.kill(os.getpid(), signal.SIGUSR1)  # not about us
            os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: left == ["stop"])
        os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: left == ["stop", 1])
    finally:
        installed.close()
        signal.signal(signal.SIGUSR1, before)
