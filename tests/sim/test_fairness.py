"""How long a small job waits beside large ones: in virtual time, and in writes of the others.

Eight workers and eight writers, as in a real process. The server takes its time for the pods of the large jobs, and for nothing else.
"""

from contextlib import contextmanager

import pytest

from genericjob.local.faults import Rule
from genericjob.reconcile.health import STUCK
from genericjob.reconcile.resources import NAMESPACES, RAW_PODS, Key
from sim.jobs import RAW_JOBS, Cluster
from sim.node import FOREVER
from sim.scenarios import ranks

WORKERS = WRITERS = 8
RANKS = 300
SLOW = 0.25
"""Seconds that admission takes for a pod."""
PATIENCE = 2.0
"""Seconds within which a small job has its pod."""


@contextmanager
def world(teams: int = 1, *, workers: int = WORKERS, writers: int = WRITERS, begun: bool = True):
    """Namespaces, `team-0` and so on and `small`, and a controller at work, unless it is to begin later."""
    with Cluster(1, ranks(other=FOREVER)) as cluster:
        for name in ("small", *(f"team-{number}" for number in range(teams))):
            cluster.api.create(NAMESPACES, {"metadata": {"name": name}})
        if begun:
            cluster.controller(workers=workers, writers=writers)
            cluster.stepped.advance(1)
        yield cluster


@contextmanager
def crowd(jobs: int, ranks_each: int = RANKS, *, apart: bool = True, seconds: float = SLOW):
    """Large jobs behind slow admission: each in a namespace of its own, or all in one."""
    with world(teams=jobs if apart else 1) as cluster:
        slow(cluster, seconds, "create")
        submit(cluster, jobs, ranks_each, apart=apart)
        yield cluster


def submit(cluster: Cluster, jobs: int, ranks_each: int, *, apart: bool = True) -> None:
    for number in range(jobs):
        cluster.submit(f"large-{number}", f"team-{number if apart else 0}", types={"worker": ranks_each})


def slow(cluster: Cluster, seconds: float, verb: str) -> Rule:
    return cluster.faults.delay(seconds, verb, resource=RAW_PODS, when=lambda call: call.key.namespace.startswith("team"), times=10**9)


def wait_of_a_small_job(cluster: Cluster) -> tuple[float, int]:
    """Create a job of one rank; the seconds until it has its pod, and how many pods of others were written meanwhile."""
    since, before = cluster.stepped.monotonic(), touched(cluster)
    cluster.submit("small", "small", types={"worker": 1})
    cluster.reach(lambda: bool(cluster.api.list(RAW_PODS, "small").items))
    return cluster.stepped.monotonic() - since, touched(cluster) - before


def touched(cluster: Cluster) -> int:
    """The creates and deletes of pods that controllers have sent and that were answered."""
    answered = [line for line in cluster.stepped.trace if ": after create pods team" in line or ": after delete pods team" in line]
    return sum("controller" in line for line in answered)


@pytest.mark.parametrize("apart", [True, False])
def test_twelve_large_jobs_that_came_at_the_same_moment(apart):
    with crowd(12, 1_000, apart=apart) as cluster:
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= PATIENCE
        assert writes <= PATIENCE / SLOW * WRITERS


@pytest.mark.parametrize("apart", [True, False])
def test_twelve_large_jobs_that_are_at_work(apart):
    with crowd(12, apart=apart) as cluster:
        cluster.stepped.advance(5)
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= SLOW
        assert writes <= WRITERS


def test_the_large_ones_go_on_at_the_full_rate_and_none_is_left_out():
    with crowd(12) as cluster:
        cluster.stepped.advance(10)
        found = [pod["metadata"]["namespace"] for pod in cluster.api.list(RAW_PODS).items]
        assert len(found) >= 0.8 * 10 / SLOW * WRITERS
        assert {found.count(f"team-{number}") for number in range(12)} <= set(range(10, 60))


def test_a_hundred_large_jobs_of_one_namespace():
    with crowd(100, 20, apart=False, seconds=1.0) as cluster:
        cluster.stepped.advance(0.5)
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= PATIENCE
        assert writes <= PATIENCE * WRITERS


def test_admission_that_takes_longer_than_a_turn():
    with crowd(12, seconds=20.0) as cluster:
        cluster.stepped.advance(100)
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= SLOW
        assert writes <= WRITERS


def test_a_single_large_job_is_not_interrupted():
    with crowd(1) as cluster:
        cluster.stepped.advance(10)
        assert len(cluster.api.list(RAW_PODS).items) >= 0.9 * 10 / SLOW * WRITERS


def test_a_large_job_whose_reconciles_compute_all_the_time_rests_between_them():
    with world(begun=False) as cluster:
        slow(cluster, 0.01, "create")
        cluster.controller(workers=WORKERS, writers=WRITERS, processor_time=cluster.stepped.monotonic)
        submit(cluster, 1, 1_010)
        cluster.stepped.advance(10)
        assert len(cluster.pods()) == 1_000  # written in 1.25 s
        cluster.stepped.advance(10)
        assert len(cluster.pods()) == 1_010


def test_large_jobs_that_are_paused():
    with world(teams=12) as cluster:
        submit(cluster, 12, 40)
        cluster.stepped.advance(10)
        assert len(cluster.api.list(RAW_PODS).items) == 480
        slow(cluster, SLOW, "delete")
        for number in range(12):
            cluster.api.patch(RAW_JOBS, Key(f"team-{number}", f"large-{number}"), {"spec": {"suspend": True}})
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= PATIENCE
        assert writes <= PATIENCE / SLOW * WRITERS


def test_a_reconcile_that_gets_on_is_not_stuck_however_long_it_takes():
    with world(workers=1, writers=1) as cluster:
        slow(cluster, 20.0, "create")
        submit(cluster, 1, 100)
        (assembly,) = cluster.assemblies
        cluster.stepped.advance(STUCK + 100)
        assert max(assembly.queue.working()) > STUCK
        assert max(assembly.queue.silent()) <= 20.0


def test_small_jobs_of_one_namespace_behind_admission_that_takes_long():
    with crowd(100, 1, apart=False, seconds=20.0) as cluster:
        cluster.stepped.advance(25)
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= SLOW
        assert writes <= WRITERS


@pytest.mark.parametrize(
    ("jobs", "ranks_each", "after"), [(8, 1, 0.5), (16, 1, 0.5), (16, 1, 25), (20, 1, 0.5), (12, RANKS, 5), (12, RANKS, 25)]
)
def test_jobs_of_many_namespaces_that_came_at_the_same_moment_behind_admission_that_takes_long(jobs, ranks_each, after):
    """Each worker hangs in a write of another namespace: reliefs take their places."""
    with crowd(jobs, ranks_each, seconds=20.0) as cluster:
        cluster.stepped.advance(after)
        seconds, writes = wait_of_a_small_job(cluster)
        assert seconds <= PATIENCE
        assert writes <= jobs


def test_jobs_that_were_there_before_the_controller_beside_one_namespace_whose_admission_takes_long():
    """After a start or an election every job is looked at with low priority: those that hang must not keep the others waiting."""
    with world(teams=1, begun=False) as cluster:
        slow(cluster, 25.0, "create")
        submit(cluster, 12, 50, apart=False)
        for number in range(30):
            cluster.submit(f"small-{number}", "small", types={"worker": 1})
        since = cluster.stepped.monotonic()
        cluster.controller(workers=WORKERS, writers=WRITERS)
        cluster.reach(lambda: len(cluster.api.list(RAW_PODS, "small").items) == 30)
        assert cluster.stepped.monotonic() - since <= PATIENCE


def test_what_is_due_later_is_not_forgotten_while_all_workers_hang():
    with world(teams=2, workers=1, writers=1) as cluster:
        cluster.submit("late", "small", types={"worker": 1}, activeDeadlineSeconds=10)
        cluster.stepped.advance(1)
        slow(cluster, 30.0, "create")
        cluster.submit("large", "team-0", types={"worker": 1})
        cluster.reach(lambda: cluster.api.get(RAW_JOBS, Key("small", "late"))["status"]["phase"] == "Failed")
        assert not cluster.api.list(RAW_PODS, "team-0").items
