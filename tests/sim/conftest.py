"""A scheduler and a world with a fixed seed, and the promise that they leave no thread behind."""

import os
import threading
from dataclasses import asdict

import pytest

from sim.cores import one_core
from sim.crashes import TALLY
from sim.scheduler import Stepped
from sim.world import World


@pytest.fixture(autouse=True)
def on_one_core():
    with one_core(int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))):
        yield


@pytest.fixture(autouse=True)
def no_thread_is_left(on_one_core):
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


def pytest_sessionfinish(session):
    """Tell the process that started this one, if there is one, what was played here."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["simulation"] = asdict(TALLY)
