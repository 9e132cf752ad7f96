"""A controller that is killed in the middle of everything, and the one that comes after it: nothing is forgotten, nothing is done twice."""

from datetime import UTC, datetime

import pytest

from e2e.apart import apart
from e2e.jobs import Team, a_job, marks, replicas, restarts, uid
from e2e.record import Record
from harness.clusters import eventually

LEFT = 5
"""Seconds until a deadline passes, while nobody is there."""


class Orphans(Team):
    """Jobs, each in the middle of something when their controller dies."""

    def __init__(self, world):
        super().__init__(world.api, world.namespace(), world.node)
        self.since = world.audit.here
        self.restarting, (first,) = self.start(a_job("restarting", replicas() | restarts("OnFailure", 2)))
        self.second = self.restarting.fails_again(first)
        self.pausing, self.paused_pods = self.start(a_job("pausing", replicas(2)))
        self.late, _ = self.start(a_job("late", replicas(2), activeDeadlineSeconds=3600))
        self.ended, _ = self.start(a_job("ended", replicas(2), successRules=[{"worker": [0]}], cleanUpPolicy="Unfinished"))

    def stop_in_the_middle(self):
        """The last that the first controller sees."""
        self.restarting.cling(0)
        self.restarting.finish(0, 1)
        eventually(lambda: "deletionTimestamp" in self.restarting.pods["restarting-worker-0"]["metadata"])
        self.pausing.node.hold(self.pausing.pod(1))
        self.pausing.pause()
        eventually(lambda: list(self.pausing.pods) == ["pausing-worker-1"])
        active = datetime.now(UTC) - datetime.fromisoformat(self.late.status["startTime"])
        self.late.edit(activeDeadlineSeconds=round(active.total_seconds()) + LEFT)
        eventually(lambda: self.late.status["observedGeneration"] == 2)

    def go_on_alone(self):
        """What happens while there is no controller."""
        self.restarting.release(0)
        self.pausing.resume()
        self.ended.finish(0)


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "successor") as world:
        yield world


@pytest.fixture(scope="module")
def orphans(world, tmp_path_factory):
    with world.contenders(tmp_path_factory.mktemp("first"), number=1) as (first,):
        orphans = Orphans(world)
        orphans.stop_in_the_middle()
        first.kill()
    orphans.go_on_alone()
    with world.contenders(tmp_path_factory.mktemp("second"), number=1):
        yield orphans


def test_a_pod_that_was_deleted_and_not_made_again_is_made_with_its_charge(world, orphans):
    job = orphans.restarting
    last = job.run_again(orphans.second)
    assert marks(last) == {"epoch": "0", "attempt": "2", "charged-restarts": "2"}
    job.finish(0, 1)
    job.becomes("Failed")
    assert job.task()["restartCount"] == 2
    assert [each.code for each in Record(world.audit, job, orphans.since).creates()] == [201, 201, 201]


def test_a_change_of_mind_that_nobody_heard_does_not_bring_the_old_pods_back(world, orphans):
    job, (_, held) = orphans.pausing, orphans.paused_pods
    eventually(lambda: job.phase == "Resuming")
    assert list(job.pods) == ["pausing-worker-1"]
    assert len(Record(world.audit, job, orphans.since).creates()) == 2
    job.node.let_go(uid(held))
    new = [job.run_again(pod) for pod in orphans.paused_pods]
    assert {marks(pod)["epoch"] for pod in new} == {"1"}
    assert job.becomes("Running")["resumes"] == 1


def test_a_deadline_that_passed_meanwhile_counts(orphans):
    job = orphans.late
    job.becomes("Failed")
    assert job.conditions["Failed"][1] == "DeadlineExceeded"
    eventually(lambda: not job.pods)


def test_an_end_that_nobody_saw_is_stored_and_cleaned_up_after(world, orphans):
    job = orphans.ended
    job.becomes("Succeeded")
    eventually(lambda: list(job.pods) == ["ended-worker-0"])
    record = Record(world.audit, job, orphans.since)
    (delete,) = record.deletes()
    assert record.known_at(delete)["phase"] == "Succeeded"
