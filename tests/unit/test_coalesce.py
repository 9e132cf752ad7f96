"""One cosmetic status write per job and second."""

import pytest

from genericjob.reconcile.coalesce import Coalescer
from genericjob.reconcile.primitives import System


class Ticking(System):
    def __init__(self):
        self.time = 100.0

    def monotonic(self):
        return self.time


@pytest.fixture
def clock():
    return Ticking()


@pytest.fixture
def coalescer(clock):
    return Coalescer(primitives=clock)


def test_the_first_update_is_written_at_once(coalescer):
    assert coalescer.due("job") == 0


def test_the_next_one_waits_for_the_rest_of_the_second(coalescer, clock):
    coalescer.wrote("job")
    clock.time += 0.25
    assert coalescer.due("job") == pytest.approx(0.75)
    clock.time += 0.75
    assert coalescer.due("job") == 0
    clock.time += 7
    assert coalescer.due("job") == 0


def test_asking_costs_nothing(coalescer):
    assert [coalescer.due("job") for _ in range(3)] == [0, 0, 0]


def test_a_commit_in_between_puts_the_next_one_off(coalescer, clock):
    coalescer.wrote("job")
    clock.time += 0.9
    coalescer.wrote("job")
    clock.time += 0.9
    assert coalescer.due("job") == pytest.approx(0.1)


def test_jobs_do_not_wait_for_each_other(coalescer):
    coalescer.wrote("one")
    assert coalescer.due("other") == 0


def test_a_forgotten_job_does_not_wait(coalescer):
    coalescer.wrote("job")
    coalescer.forget("job")
    coalescer.forget("job")
    assert coalescer.due("job") == 0


def test_the_interval_can_be_chosen(clock):
    coalescer = Coalescer(primitives=clock, interval=5)
    coalescer.wrote("job")
    assert coalescer.due("job") == 5


def test_only_the_last_second_is_remembered(coalescer, clock):
    for n in range(1000):
        coalescer.wrote(f"job-{n}")
        coalescer.wrote("busy")
        clock.time += 0.125
    assert len(coalescer) <= 9
    assert coalescer.due("busy") == 0.875
