"""A scheduler and a world with a fixed seed, and the promise that they leave no thread behind."""

import threading

import pytest

from sim.crashes import TALLY
from sim.scheduler import Stepped
from sim.world import World


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.fixture
def stepped(no_thread_is_left):
    with Stepped(1) as stepped:
        yield stepped


@pytest.fixture
def world(no_thread_is_left):
    with World(1) as world:
        yield world


def pytest_terminal_summary(terminalreporter):
    if TALLY.points:
        terminalreporter.write_line(f"simulation: {TALLY}")
