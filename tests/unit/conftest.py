"""An API in memory whose clock and identities are the test's."""

from datetime import UTC, datetime, timedelta

import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.api import Api


class Clock:
    def __init__(self):
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.moment

    def forward(self, seconds):
        self.moment += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def api(clock) -> Api:
    ids = iter(range(1, 10_000))
    return MemoryApi(now=clock, new_uid=lambda: f"uid-{next(ids)}", seed=1)
