"""Admission that takes longer than a leader has for its other writes: pods are waited for."""

from e2e.jobs import a_job, replicas
from harness.webhook import slow_admission


def test_a_job_gets_its_pods_although_their_admission_takes_longer_than_other_writes_may(plane, server, team):
    with slow_admission(plane, server, team.namespace, seconds=5.0) as webhook:
        job, _ = team.start(a_job("train", replicas(2)))
        job.finish(0)
        job.finish(1)
        job.becomes("Succeeded")
    assert webhook.asked == 2  # each was asked for once, and waited for
    assert "FailedCreate" not in job.events
