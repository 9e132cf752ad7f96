"""When to try again after the server said no."""

import math

from genericjob.jobs.refusals import LONGEST, Refusals


def test_each_refusal_waits_twice_as_long_up_to_a_limit():
    refusals, now, waits = Refusals(), 100.0, []
    for _ in range(12):
        waits.append(refusals.note("job", 1, now))
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, LONGEST, LONGEST, LONGEST]


def test_nothing_is_tried_before_the_wait_is_over():
    refusals = Refusals()
    refusals.note("job", 1, 100.0)
    assert refusals.wait("job", 1, 100.25) == 0.75
    assert refusals.wait("job", 1, 101.0) == 0
    assert refusals.wait("another", 1, 100.0) == 0


def test_a_changed_spec_is_tried_at_once_and_begins_anew():
    refusals = Refusals()
    for _ in range(5):
        refusals.note("job", 1, 100.0)
    assert refusals.wait("job", 2, 100.0) == 0
    assert refusals.note("job", 2, 100.0) == 1


def test_what_was_given_up_is_never_tried_again():
    refusals = Refusals()
    refusals.give_up("job", 1)
    assert refusals.wait("job", 1, 1e9) == math.inf


def test_success_begins_anew():
    refusals = Refusals()
    refusals.note("job", 1, 100.0)
    refusals.forget("job")
    assert refusals.wait("job", 1, 100.0) == 0
    assert refusals.note("job", 1, 100.0) == 1
