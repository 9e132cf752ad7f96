"""Jobs for the T9k scheduler, on a control plane that has its kind of groups, and on one that has not yet."""

import pytest

from e2e.apart import apart
from e2e.jobs import Team, a_job, marks, owners, replicas, restarts, uid
from e2e.record import Record
from genericjob.api.names import POD_GROUP, SCHEDULER_GROUP, SCHEDULER_VERSION
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key, raw
from harness import definitions, podgroups
from harness.clusters import eventually

POD_GROUPS = raw(SCHEDULER_GROUP, SCHEDULER_VERSION, "podgroups", POD_GROUP)
GANG = {"scheduler": {"t9kScheduler": {"queue": "research", "priority": 50}}}


@pytest.fixture(scope="module")
def world(request):
    with apart(request, "scheduler") as world:
        yield world


@pytest.fixture(scope="module")
def leader(world, tmp_path_factory):
    with world.contenders(tmp_path_factory.mktemp("controller"), number=1) as (leader,):
        yield leader


class Gang(Team):
    """A namespace in which the test does the work of the T9k scheduler."""

    def __init__(self, world):
        super().__init__(world.api, world.namespace(), world.node)
        self._audit, self._since = world.audit, world.audit.here

    def place(self, job, *pods):
        for pod in pods:
            self.node.bind(Key(self.namespace, pod["metadata"]["name"]))

    def group(self, job):
        return self.server.get(POD_GROUPS, job.key)

    def record(self, job):
        return Record(self._audit, job, self._since)


@pytest.fixture
def gang(world, leader):
    return Gang(world)


def _known(api):
    try:
        api.list(POD_GROUPS)
    except ApiError as error:
        if not error.not_found:
            raise
        return False
    return True


@pytest.fixture
def with_groups(world):
    """The scheduler's kind is there."""
    if not _known(world.api):
        install(world.api)


def install(api):
    definitions.establish(api, podgroups.definition())
    eventually(lambda: _known(api))


@pytest.fixture
def without_groups(world):
    """It is not."""
    if _known(world.api):
        world.api.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", podgroups.NAME))
        eventually(lambda: not _known(world.api))


# ------------------------------------------------------------------------------------------------ with it


@pytest.mark.usefixtures("with_groups")
def test_the_group_comes_before_its_pods_and_says_how_many_there_are(gang):
    job = gang.submit(a_job("train", replicas(3), replicas(2, "server"), **GANG))
    pods = job.has_pods(5)
    group = gang.group(job)
    assert group["spec"] == {"minMember": 5, "queue": "research", "priority": 50}
    assert owners(group) == [job.uid]
    assert group["metadata"]["ownerReferences"][0]["controller"] is True
    (made,) = gang.record(job).creates("podgroups")
    assert made.code == 201
    assert made.answered <= min(each.received for each in gang.record(job).creates())

    for name, pod in pods.items():
        labels = {key.partition("/")[2]: value for key, value in pod["metadata"]["labels"].items() if key.startswith(SCHEDULER_GROUP)}
        assert labels == {"group-name": "train", "queue": "research", "role": name.split("-")[1]}
        assert pod["spec"]["schedulerName"] == "t9k-scheduler"


@pytest.mark.usefixtures("with_groups")
def test_queue_and_priority_have_defaults(gang):
    job = gang.submit(a_job("train", scheduler={"t9kScheduler": {}}))
    job.has_pods(1)
    assert gang.group(job)["spec"] == {"minMember": 1, "queue": "default", "priority": 0}


@pytest.mark.usefixtures("with_groups")
def test_the_group_is_kept_over_restarts_and_pauses(gang):
    job = gang.submit(a_job("train", replicas(2) | restarts("OnFailure", 1), **GANG))
    first, other = job.has_pods(2).values()
    group = gang.group(job)
    gang.place(job, first, other)
    job.becomes("Running")
    job.finish(0, 1)
    second = job.successor(first)
    assert marks(second)["attempt"] == "1"
    assert second["metadata"]["labels"] == first["metadata"]["labels"]
    job.pause()
    job.becomes("Paused")
    eventually(lambda: not job.pods)
    assert uid(gang.group(job)) == uid(group)

    job.edit(replicaSpecs=[replicas(5)])
    job.resume()
    job.has_pods(5)
    assert (uid(gang.group(job)), gang.group(job)["spec"]["minMember"]) == (uid(group), 5)
    (change,) = gang.record(job).writes("patch", resource="podgroups")

    def newest():
        return [each for each in gang.record(job).creates() if each.received > change.received]

    eventually(lambda: len(newest()) == 5)  # a pod is seen before it stands in the log
    assert all(each.received >= change.answered for each in newest())


@pytest.mark.usefixtures("with_groups")
def test_a_group_of_somebody_else_is_left_alone(gang):
    body = {"metadata": {"name": "train"}, "spec": {"minMember": 7, "queue": "theirs", "priority": 1}}
    theirs = gang.server.create(POD_GROUPS, body | {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUP}, gang.namespace).object
    job = gang.submit(a_job("train", **GANG))
    job.told("NameConflict")
    eventually(lambda: job.conditions["Initialized"][:2] == ("False", "NameConflict"))
    assert not job.pods
    assert gang.group(job)["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]
    gang.server.delete(POD_GROUPS, job.key)
    job.has_pods(1)
    assert owners(gang.group(job)) == [job.uid]


# ------------------------------------------------------------------------------------------------ without it


@pytest.mark.usefixtures("without_groups")
def test_a_job_waits_for_a_scheduler_that_is_not_there_and_others_do_not(gang, world):
    job = gang.submit(a_job("train", replicas(2), **GANG))
    ((_, message), *_) = job.told("SchedulerMissing")
    assert "podgroups" in message.lower()
    eventually(lambda: job.conditions["Initialized"][:2] == ("False", "SchedulerMissing"))
    assert job.phase == "Pending"
    gang.controller_is_up_to_date()
    assert not gang.record(job).creates()

    install(world.api)
    job.has_pods(2)
    eventually(lambda: job.conditions["Initialized"][0] == "True")
    assert gang.group(job)["spec"]["minMember"] == 2
