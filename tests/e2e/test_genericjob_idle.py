"""A controller with nothing to do, beside a hundred jobs that run: it keeps its lease, and that is all.

`make idle` looks on for a minute; the suite has less time.
"""

import os
import time

import pytest

from e2e.apart import LEASE, apart
from harness.audit import WRITES
from harness.clusters import eventually
from harness.controllers import USER

JOBS = 100
SECONDS = float(os.environ.get("IDLE_SECONDS", "10"))
QUIET = 3.0
"""Seconds without a write after which all is said about a beginning."""


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "idle") as world:
        yield world


def test_an_idle_controller_writes_nothing_but_its_lease(world, tmp_path, record_property):
    with world.contenders(tmp_path, number=1) as (controller,):
        namespace = world.namespace()
        jobs = [world.submit(namespace, f"job-{number}", ranks=1 + number % 2) for number in range(JOBS)]
        world.run(*jobs)
        expected = {job.name: ("Running", f"{len(job.keys)}/{len(job.keys)}") for job in jobs}
        eventually(lambda: world.statuses(namespace, "phase", "ready") == expected)
        settle(world)
        here, (before, _), began = world.audit.here, controller.usage(), time.monotonic()
        time.sleep(SECONDS)
        (after, memory), seconds = controller.usage(), time.monotonic() - began

        requests = world.audit.requests(since=here, user=USER)
        renewals = [each for each in requests if (each.verb, each.resource, each.name) == ("update", "leases", LEASE)]
        figures = {
            "seconds": round(seconds, 1),
            "processor_percent_of_a_core": round(100 * (after - before) / seconds, 2),
            "resident_megabytes": round(memory / 1e6, 1),
            "renewals": len(renewals),
            "other_requests": len(requests) - len(renewals),
        }
        for name, value in figures.items():
            record_property(name, value)
        print(f"{JOBS} running jobs: {figures}")
        assert renewals, "the log tells nothing about this controller"
        assert [each for each in requests if each.verb in WRITES] == renewals


def settle(world):
    """Return once nothing was written for a while: the last events and statuses of the beginning."""

    def quiet():
        here = world.audit.here
        time.sleep(QUIET)
        return all(each.resource == "leases" for each in world.audit.writes(since=here, user=USER))

    eventually(quiet)
