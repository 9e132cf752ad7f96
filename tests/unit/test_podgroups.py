"""The group of a job that the T9k scheduler places: made before pods, corrected, and never taken from others."""

import pytest

from genericjob.api.names import API_VERSION, KIND, JobIdentity, Reason
from genericjob.api.spec import parse
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.job import Design, Job
from genericjob.jobs.podgroups import POD_GROUPS, PodGroups
from genericjob.reconcile.errors import ApiError, Cause
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key
from harness import podgroups

T9K = {"t9kScheduler": {"queue": "research", "priority": 7}}
KEY = Key("default", "train")


def a_job(*, scheduler=T9K, uid="job-uid", **types):
    replicas = [{"type": type, "replicas": count} for type, count in (types or {"worker": 3, "ps": 2}).items()]
    spec = parse({"replicaSpecs": replicas, "scheduler": scheduler})
    return Job(JobIdentity("default", "train", uid), 1, Design.of("train", spec), GenericJobStatus())


def a_group(owner=None, **meta):
    references = [{"apiVersion": API_VERSION, "kind": KIND, "name": "train", "uid": "job-uid", "controller": True} | owner] if owner else []
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": "train", "ownerReferences": references, **meta},
        "spec": {"minMember": 99, "queue": "theirs"},
    }


@pytest.fixture
def cluster(api):
    """One that has the scheduler."""
    api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())
    return api


class Around:
    """An API around another, where something happens first: `Around(api, get=lambda: ...)`, once for each that is given."""

    def __init__(self, api, **first):
        self._api = api
        self._first = {verb: list(acts) for verb, acts in first.items()}
        self.asked = []

    def __getattr__(self, verb):
        def ask(*given, **named):
            self.asked.append(verb)
            if self._first.get(verb):
                self._first[verb].pop(0)()
            return getattr(self._api, verb)(*given, **named)

        return ask


def failing(code, reason="", message="no", causes=()):
    def fail():
        raise ApiError(code, reason, message, causes=causes)

    return fail


def ensured(api, job=None):
    return PodGroups(api).ensure(job or a_job())


# ------------------------------------------------------------------------------------------------ made, kept, corrected


@pytest.mark.parametrize("scheduler", [None, {}, {"t9kScheduler": None}])
def test_a_job_of_another_scheduler_needs_none(api, scheduler):
    seen = Around(api)
    assert ensured(seen, a_job(scheduler=scheduler)) is None
    assert seen.asked == []


def test_a_job_without_replicas_needs_none(api):
    assert ensured(api, a_job(worker=0)) is None


def test_the_whole_group(cluster):
    assert ensured(cluster) is None
    found = cluster.get(POD_GROUPS, KEY)
    assert (found["apiVersion"], found["kind"]) == ("scheduler.tensorstack.dev/v1beta1", "PodGroup")
    assert found["spec"] == {"minMember": 5, "queue": "research", "priority": 7}
    assert found["metadata"]["labels"] == {
        "genericjob": "train",
        "tensorstack.dev/component": "genericjob",
        "tensorstack.dev/component-type": "user",
    }
    assert found["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "name": "train",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def test_queue_and_priority_have_defaults(cluster):
    assert ensured(cluster, a_job(scheduler={"t9kScheduler": {}})) is None
    assert cluster.get(POD_GROUPS, KEY)["spec"] == {"minMember": 5, "queue": "default", "priority": 0}


def test_a_group_that_is_right_is_only_looked_at(cluster):
    ensured(cluster)
    seen = Around(cluster)
    assert ensured(seen) is None
    assert seen.asked == ["get"]


def test_a_job_that_has_another_size_now_changes_that_and_nothing_else(cluster):
    ensured(cluster)
    cluster.patch(POD_GROUPS, KEY, {"metadata": {"labels": {"note": "x"}}, "spec": {"priority": 9}})
    before = cluster.get(POD_GROUPS, KEY)
    assert ensured(cluster, a_job(worker=8)) is None
    after = cluster.get(POD_GROUPS, KEY)
    assert after["spec"] == before["spec"] | {"minMember": 8}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


# ------------------------------------------------------------------------------------------------ what keeps pods from being created


def test_a_cluster_without_the_scheduler(api):
    reason, message = ensured(api)
    assert reason == Reason.SCHEDULER_MISSING
    assert "podgroups.scheduler.tensorstack.dev of version v1beta1" in message
    assert "install the T9k scheduler" in message


def test_a_scheduler_that_is_installed_later_is_noticed(api):
    groups = PodGroups(api)
    assert groups.ensure(a_job())
    api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())
    assert groups.ensure(a_job()) is None


@pytest.mark.parametrize(
    ("why", "owner", "reason"),
    [
        ("nobody owns it", None, Reason.NAME_CONFLICT),
        ("we are mentioned, and somebody else is in charge", {"controller": False}, Reason.NAME_CONFLICT),
        ("it belongs to a job of another name", {"name": "other", "uid": "x"}, Reason.NAME_CONFLICT),
        ("it belongs to another kind of job", {"kind": "PyTorchTrainingJob", "uid": "x"}, Reason.NAME_CONFLICT),
        ("it belongs to a kind of the same name", {"apiVersion": "example.dev/v1", "uid": "x"}, Reason.NAME_CONFLICT),
        ("it belongs to an earlier job of our name", {"uid": "earlier"}, Reason.PREDECESSOR_ENDING),
    ],
)
def test_a_group_that_is_not_ours_is_left_alone(cluster, why, owner, reason):
    cluster.create(POD_GROUPS, a_group(owner), "default")
    before = cluster.get(POD_GROUPS, KEY)
    found = ensured(cluster)
    assert found is not None, why
    assert found[0] == reason, why
    assert "PodGroup train" in found[1]
    assert cluster.get(POD_GROUPS, KEY) == before


@pytest.mark.parametrize("owner", [{"uid": "job-uid"}, {"uid": "earlier"}, None], ids=["ours", "of an earlier job", "nobody's"])
def test_a_group_on_its_way_out_is_waited_for(cluster, owner):
    cluster.create(POD_GROUPS, a_group(owner, finalizers=["example.dev/slow"]), "default")
    cluster.delete(POD_GROUPS, KEY)
    assert ensured(cluster) == (Reason.PREDECESSOR_ENDING, "PodGroup train is being deleted; waiting until it is gone")
    cluster.patch(POD_GROUPS, KEY, {"metadata": {"finalizers": None}})
    assert ensured(cluster) is None
    assert cluster.get(POD_GROUPS, KEY)["spec"]["minMember"] == 5


@pytest.mark.parametrize("verb", ["get", "create"])
@pytest.mark.parametrize(("code", "message"), [(403, "exceeded quota: groups"), (422, "spec.queue: no such queue"), (400, "denied")])
def test_a_refusal_is_told_in_the_words_of_the_server(cluster, verb, code, message):
    assert ensured(Around(cluster, **{verb: [failing(code, message=message)]})) == (Reason.FAILED_CREATE, message)


def test_a_correction_that_is_refused_is_told_too(cluster):
    ensured(cluster)
    refusing = Around(cluster, patch=[failing(403, "Forbidden", "may not patch")])
    assert ensured(refusing, a_job(worker=8)) == (Reason.FAILED_CREATE, "may not patch")


@pytest.mark.parametrize("verb", ["get", "create"])
@pytest.mark.parametrize("code", [0, 401, 429, 500, 503])
def test_a_server_in_trouble_is_no_obstacle_of_the_job(cluster, verb, code):
    with pytest.raises(ApiError) as trouble:
        ensured(Around(cluster, **{verb: [failing(code)]}))
    assert trouble.value.code == code
    assert ensured(cluster) is None


# ------------------------------------------------------------------------------------------------ races


def test_a_create_whose_answer_was_lost_is_found_at_the_next_look(cluster):
    class Lossy(Around):
        def create(self, *given):
            cluster.create(*given)
            raise ApiError(0, "Timeout", "no answer", unknown=True)

    with pytest.raises(ApiError):
        ensured(Lossy(cluster))
    seen = Around(cluster)
    assert ensured(seen) is None
    assert seen.asked == ["get"]


def test_somebody_was_faster_with_our_own_group(cluster):
    seen = Around(cluster, create=[lambda: ensured(cluster)])
    assert ensured(seen) is None
    assert seen.asked == ["get", "create", "get"]


def test_somebody_was_faster_with_his_own(cluster):
    foreign = Around(cluster, create=[lambda: cluster.create(POD_GROUPS, a_group(), "default")])
    assert ensured(foreign)[0] == Reason.NAME_CONFLICT


def test_a_group_that_went_before_it_was_corrected_is_made_again(cluster):
    ensured(cluster)
    seen = Around(cluster, patch=[lambda: cluster.delete(POD_GROUPS, KEY)])
    assert ensured(seen, a_job(worker=8)) is None
    assert seen.asked == ["get", "patch", "get", "create"]
    assert cluster.get(POD_GROUPS, KEY)["spec"]["minMember"] == 8


def test_a_group_that_became_another_s_before_it_was_corrected_is_left_alone(cluster):
    def replace():
        cluster.delete(POD_GROUPS, KEY)
        cluster.create(POD_GROUPS, a_group(), "default")

    ensured(cluster)
    assert ensured(Around(cluster, patch=[replace]), a_job(worker=8))[0] == Reason.NAME_CONFLICT
    assert cluster.get(POD_GROUPS, KEY)["spec"]["minMember"] == 99


@pytest.mark.parametrize(
    "answer", [failing(409, "Conflict"), failing(422, "Invalid", causes=[Cause("metadata.uid", "field is immutable", "FieldValueInvalid")])]
)
def test_servers_have_two_ways_to_say_that_the_uid_is_another(cluster, answer):
    ensured(cluster)
    seen = Around(cluster, patch=[answer])
    assert ensured(seen, a_job(worker=8)) is None
    assert seen.asked == ["get", "patch", "get", "patch"]


def test_a_name_that_is_fought_over_is_given_up_for_now(cluster):
    ensured(cluster)
    seen = Around(cluster, patch=[failing(409, "Conflict")] * 10)
    assert ensured(seen, a_job(worker=8))[0] == Reason.NAME_CONFLICT
    assert len(seen.asked) == 6
