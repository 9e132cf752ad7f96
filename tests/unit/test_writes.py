"""One write, and what becomes of it."""

from functools import partial

import msgspec
import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.local.faults import lost_answer
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.resources import PODS, RAW_PODS, SERVICES
from genericjob.reconcile.resources import partial as partial_metadata
from genericjob.reconcile.writes import Create, Delete, Sender
from unit.builders import a_map, a_pod, in_default

KEY = in_default("p")


def standing(pod):
    """Ours are those with our label."""
    if pod.labels.get("owner") != "us":
        return "foreign"
    return "wait" if pod.deleted else "ours"


@pytest.fixture
def memory():
    return MemoryApi()


@pytest.fixture
def api(memory):
    return FaultyApi(memory)


@pytest.fixture
def asked():
    return []


@pytest.fixture
def own_writes(asked):
    """What was written, as a cache is asked about it; it has never seen it."""

    def reached(resource):
        return lambda namespace, version: asked.append((resource, namespace, version)) or False

    return OwnWrites({PODS: reached("pods"), SERVICES: reached("services")})


@pytest.fixture
def send(api, own_writes):
    return Sender(api, own_writes).send


def create(name="p", **meta):
    meta = {"labels": {"owner": "us"}} | meta
    return Create(PODS, "default", name, partial(msgspec.json.encode, a_pod(name, **meta)), "job", standing)


def delete(uid, **options):
    return Delete(PODS, KEY, uid, "job", **options)


def made(memory, **meta):
    return memory.create(PODS, a_pod(**meta), "default").object


def ours(memory, **meta):
    return made(memory, labels={"owner": "us"}, **meta)


def recorded(own_writes, asked):
    asked.clear()
    own_writes.visible("job")
    return asked


def unavailable():
    return ApiError(503, "ServiceUnavailable", "later", unknown=True)


# ------------------------------------------------------------------------------------------------ creates


def test_a_create_is_done_and_brings_what_is_stored(send, memory):
    done = send(create())
    assert done.fate == "done"
    assert done.object == memory.get(PODS, KEY)
    assert done.error is None


def test_remarks_of_the_server_come_back(send):
    body = a_pod(labels={"owner": "us"})
    body["spec"]["containers"][0]["comand"] = ["sleep"]
    done = send(Create(PODS, "default", "p", partial(msgspec.json.encode, body), "job", standing))
    assert done.fate == "done"
    assert "comand" in done.warnings[0]


@pytest.mark.parametrize("body", [a_pod("other", labels={"owner": "us"}), a_pod("p", labels={"owner": "you"}), a_pod("p")])
def test_what_admission_has_changed_beyond_recognition_counts_as_refused(send, body):
    """Or it would be created again and again."""
    done = send(Create(PODS, "default", "p", partial(msgspec.json.encode, body), "job", standing))
    assert done.fate == "refused"
    assert "admission has changed the name, owner, labels or annotations of Pod p" in done.error.message


def test_a_create_is_remembered_until_caches_show_it(send, own_writes, asked):
    done = send(create())
    assert recorded(own_writes, asked) == [("pods", "default", done.object.resource_version)]


def test_a_lost_answer_of_a_create_that_happened_is_found_out(send, api, memory, own_writes, asked):
    api.lose("create")
    done = send(create())
    assert (done.fate, done.object, done.error) == ("done", memory.get(PODS, KEY), None)
    assert recorded(own_writes, asked) == [("pods", "default", done.object.resource_version)]


@pytest.mark.parametrize("error", [lost_answer(), unavailable()])
def test_a_lost_answer_of_a_create_that_did_not_happen_is_a_failure(send, api, memory, error, own_writes, asked):
    api.refuse(error, "create")
    done = send(create())
    assert (done.fate, done.object, done.error) == ("failed", None, error)
    assert memory.list(PODS).items == []
    assert recorded(own_writes, asked) == []


def test_a_create_of_which_nothing_can_be_found_out_is_a_failure(send, api):
    api.lose("create")
    api.refuse(unavailable(), "get")
    done = send(create())
    assert done.fate == "failed"
    assert done.error.unknown


def test_a_name_whose_owner_cannot_be_seen_is_a_failure_and_not_tried_again(send, api, memory):
    ours(memory)
    tries = api.delay(0, "create", times=10)
    api.refuse(unavailable(), "get")
    done = send(create())
    assert (done.fate, done.error.already_exists) == ("failed", True)
    assert tries.times == 9


def test_after_a_lost_answer_somebody_else_may_own_the_name(send, api, memory):
    made(memory)
    api.refuse(lost_answer(), "create")
    assert send(create()).fate == "foreign"


def test_what_exists_and_is_ours_is_done(send, memory, own_writes, asked):
    pod = ours(memory)
    done = send(create())
    assert (done.fate, done.object, done.error) == ("done", pod, None)
    assert recorded(own_writes, asked) == [("pods", "default", pod.resource_version)]


def test_what_exists_and_is_ending_is_waited_for(send, memory):
    ours(memory, finalizers=["example.dev/hold"])
    memory.delete(PODS, KEY, grace=0)
    done = send(create())
    assert done.fate == "waiting"
    assert done.object.deleted
    assert done.error.already_exists


def test_what_exists_and_is_foreign_is_left_alone(send, memory, own_writes, asked):
    pod = made(memory)
    done = send(create())
    assert (done.fate, done.object, done.error.already_exists) == ("foreign", pod, True)
    assert memory.get(PODS, KEY) == pod
    assert recorded(own_writes, asked) == []


def test_a_name_that_becomes_free_while_we_look_is_taken(send, api, memory):
    old = ours(memory)
    api.delay(0, "get", when=lambda call: memory.delete(PODS, KEY, grace=0) is not None)
    done = send(create())
    assert done.fate == "done"
    assert done.object.uid != old.uid


def test_a_name_that_flickers_is_not_chased_for_ever(send, api):
    taken = ApiError(409, "AlreadyExists", "taken")
    rule = api.refuse(taken, "create", times=10)
    done = send(create())
    assert (done.fate, done.error) == ("failed", taken)
    assert rule.times == 8


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (ApiError(403, "Forbidden", "exceeded quota"), "refused"),
        (ApiError(422, "Invalid", "spec.containers: Required value"), "refused"),
        (ApiError(429, "TooManyRequests", "busy"), "failed"),
        (ApiError(401, "Unauthorized", "who?"), "failed"),
        (ApiError(404, "NotFound", "no such namespace"), "failed"),
        (ApiError(409, "Conflict", "the quota was changed meanwhile"), "failed"),
        (ApiError(0, "Unreachable", "nobody there"), "failed"),
    ],
)
def test_a_create_that_certainly_did_not_happen_is_not_looked_for(send, api, error, fate):
    api.refuse(error, "create")
    rule = api.refuse(unavailable(), "get")
    done = send(create())
    assert (done.fate, done.error) == (fate, error)
    assert rule.times == 1


def test_whoever_judges_wrongly_makes_a_write_fail_and_no_more(send, memory, caplog):
    made(memory)
    done = send(Create(PODS, "default", "p", partial(msgspec.json.encode, a_pod()), "job", lambda pod: 1 / 0))
    assert done.fate == "failed"
    assert "ZeroDivisionError" in done.error.message
    assert "ZeroDivisionError" in caplog.text


# ------------------------------------------------------------------------------------------------ deletes


def test_a_delete_ends_the_pod_with_that_uid(send, memory):
    pod = ours(memory)
    done = send(delete(pod.uid))
    assert done.fate == "done"
    assert memory.list(PODS).items == []


def test_a_delete_says_how_long_the_pod_may_take(send, memory):
    pod = ours(memory)
    memory.bind(KEY, "node")
    done = send(delete(pod.uid, grace=7))
    assert done.object.deleted
    assert memory.get(RAW_PODS, KEY)["metadata"]["deletionGracePeriodSeconds"] == 7


def test_a_delete_is_remembered_until_caches_show_it(send, memory, own_writes, asked):
    pod = ours(memory)
    memory.bind(KEY, "node")
    send(delete(pod.uid))
    assert recorded(own_writes, asked) == [("pods", "default", memory.get(PODS, KEY).resource_version)]


def test_what_is_gone_already_is_done(send, own_writes, asked):
    done = send(delete("some-uid"))
    assert (done.fate, done.object) == ("done", None)
    assert recorded(own_writes, asked) == []


@pytest.mark.parametrize("verb", ["delete", "create"])
def test_a_404_of_an_ingress_says_nothing_about_an_object(send, api, memory, verb):
    pod = ours(memory)
    ingress = ApiError(404, "Unreadable", "not as a Kubernetes API server does: <html>", unknown=True)
    api.refuse(ingress, verb)
    api.refuse(ingress, "get")
    done = send(delete(pod.uid) if verb == "delete" else create())
    assert (done.fate, done.error) == ("failed", ingress)


def test_a_webhook_that_refuses_a_delete_with_404_leaves_the_object_there(send, api, memory):
    webhook = ApiError(404, "Unknown", 'admission webhook "w" denied the request')
    api.refuse(webhook, "delete")
    done = send(delete(ours(memory).uid))
    assert (done.fate, done.error) == ("failed", webhook)


def test_a_namesake_is_never_touched(send, memory):
    pod = ours(memory)
    done = send(delete("another-uid"))
    assert (done.fate, done.object) == ("done", None)
    assert memory.get(PODS, KEY) == pod


def test_a_conflict_over_the_very_pod_is_a_failure(send, api, memory):
    pod = ours(memory)
    conflict = ApiError(409, "Conflict", "some webhook does not like it")
    api.refuse(conflict, "delete")
    done = send(delete(pod.uid))
    assert (done.fate, done.error) == ("failed", conflict)


def test_a_lost_answer_of_a_delete_that_happened_is_found_out(send, api, memory, own_writes, asked):
    pod = ours(memory)
    memory.bind(KEY, "node")
    api.lose("delete")
    done = send(delete(pod.uid))
    assert done.fate == "done"
    assert done.object.deleted
    assert recorded(own_writes, asked) == [("pods", "default", done.object.resource_version)]


def test_a_lost_answer_of_a_pod_that_went_at_once_is_found_out(send, api, memory):
    pod = ours(memory)
    api.lose("delete")
    assert send(delete(pod.uid, grace=0)).fate == "done"


def test_a_lost_answer_of_a_delete_that_did_not_happen_is_a_failure(send, api, memory):
    pod = ours(memory)
    api.refuse(lost_answer(), "delete")
    done = send(delete(pod.uid))
    assert done.fate == "failed"
    assert not memory.get(PODS, KEY).deleted


def test_a_delete_of_which_nothing_can_be_found_out_is_a_failure(send, api, memory):
    pod = ours(memory)
    api.lose("delete")
    api.refuse(unavailable(), "get")
    assert send(delete(pod.uid)).fate == "failed"


def test_a_forbidden_delete_is_refused(send, api, memory):
    pod = ours(memory)
    api.refuse(ApiError(403, "Forbidden", "no"), "delete")
    assert send(delete(pod.uid)).fate == "refused"


def test_an_end_that_tells_no_version_is_done_all_the_same(send, memory):
    maps = partial_metadata("", "v1", "configmaps", "ConfigMap")
    found = memory.create(maps, a_map("p"), "default").object
    done = send(Delete(maps, KEY, found.uid, "job"))
    assert (done.fate, done.object) == ("done", None)
    assert memory.list(maps, "default").items == []


def test_a_delete_without_a_uid_cannot_even_be_written_down():
    with pytest.raises(ValueError, match="needs a UID"):
        delete("")


def test_a_delete_of_what_was_seen_leaves_alone_what_has_changed_since(memory, send):
    pod = memory.create(PODS, a_pod("p", labels={"owner": "us"}), "default").object
    memory.patch(RAW_PODS, KEY, {"metadata": {"labels": {"more": "x"}}})
    done = send(delete(pod.uid, resource_version=pod.resource_version))
    assert done.fate == "skipped"
    now = memory.get(PODS, KEY)
    assert now.deleted is None
    assert send(delete(pod.uid, resource_version=now.resource_version)).fate == "done"
