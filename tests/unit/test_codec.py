"""Lines of a watch that are rare, and must be read right when they come."""

from dataclasses import replace

import pytest
from msgspec import structs

from genericjob.jobs.resource import JOBS, reported_as
from genericjob.reconcile import pieces
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Unreadable
from genericjob.reconcile.resources import PODS, pods


@pytest.mark.parametrize(("annotation", "end"), [(b'"true"', True), (b'"false"', False), (b"null", False)])
def test_the_end_of_initial_events_is_said_in_so_many_words(annotation, end):
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":%s}}}}' % annotation
    assert codec(PODS).event(line).initial_events_end is end


def test_an_error_without_a_code_is_the_servers_fault_and_not_a_reason_to_list_again():
    with pytest.raises(ApiError) as caught:
        codec(PODS).event(b'{"type":"ERROR","object":{"kind":"Status","message":"oh"}}')
    assert (caught.value.code, caught.value.message) == (500, "oh")


def test_a_container_that_has_ended_has_ended_whatever_else_is_said():
    data = b'{"status":{"containerStatuses":[{"name":"m","state":{"running":{},"waiting":{},"terminated":{"exitCode":1}}}]}}'
    assert codec(PODS).one(data).containers[0].state == "terminated"


# ------------------------------------------------------------------------------------------------ objects that cannot be decoded

DEEP = b"[" * 5_000 + b"]" * 5_000
META = b'"metadata":{"name":"bad","namespace":"ns","uid":"u","resourceVersion":"7"}'
BAD = Unreadable("ns", "bad", "u", "7", "")

HOSTILE = {
    "nested deeply": b"{%b,%b}" % (META, b'"spec":{"nodeName":"n","x":' + DEEP + b"}"),
    "nested deeply in managed fields": b"{%b}" % META.replace(b'"name"', b'"managedFields":[{"fieldsV1":%b}],"name"' % DEEP),
    "a number out of range": b"{%b}" % META.replace(b'"name"', b'"generation":1e400,"name"'),
    "text in place of a number": b"{%b}" % META.replace(b'"name"', b'"generation":"one","name"'),
    "a list in place of labels": b"{%b}" % META.replace(b'"name"', b'"labels":["a"],"name"'),
    "bytes that are no UTF-8": b"{%b}" % META.replace(b'"name"', b'"labels":{"a":"\xff\xfe"},"name"'),
    "a status of another type": b'{%b,"status":[{"phase":5}]}' % META,
    "a phase of another type": b'{%b,"status":{"phase":{"new":true}}}' % META,
}
GOOD = b'{"metadata":{"name":"good","namespace":"ns","uid":"g","resourceVersion":"8"}}'


PLAIN_PODS = replace(PODS, salvage=None)


def known(lost):
    return structs.replace(lost, problem="")


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def hostile(request):
    return request.param


def test_one_object_that_cannot_be_decoded_costs_a_page_only_itself(hostile):
    page = codec(PLAIN_PODS).page(b'{"metadata":{"resourceVersion":"9","continue":"more"},"items":[%b,%b,%b]}' % (GOOD, hostile, GOOD))
    assert [pod.name for pod in page.items] == ["good", "good"]
    assert [known(lost) for lost in page.unreadable] == [BAD]
    assert (page.resource_version, page.continue_token) == ("9", "more")


def test_one_object_that_cannot_be_decoded_costs_a_watch_one_event(hostile):
    event = codec(PLAIN_PODS).event(b'{"type":"MODIFIED","object":%b}' % hostile)
    assert (event.type, event.object, event.resource_version) == ("MODIFIED", None, "7")
    assert known(event.unreadable) == BAD
    assert event.unreadable.problem


@pytest.mark.parametrize(
    "form", [b'{"type": "MODIFIED", "object": %b}', b'{"object":%b,"type":"MODIFIED"}', b'{"type":"MODIFIED","object":%b} ']
)
def test_an_event_is_read_in_pieces_however_it_is_written(hostile, form):
    event = codec(PLAIN_PODS).event(form % hostile)
    assert (event.type, event.resource_version, known(event.unreadable)) == ("MODIFIED", "7", BAD)


def test_a_deep_object_of_an_event_is_read_no_further_than_its_identity(monkeypatch):
    furthest, honest = [0], pieces._end_of_value

    def watched(data, position):
        furthest.append(honest(data, position))
        return furthest[-1]

    monkeypatch.setattr(pieces, "_end_of_value", watched)
    deep = b"[" * 9_000 + b"1," * 100_000 + b"1" + b"]" * 9_000
    event = codec(PODS).event(b'{"type":"MODIFIED","object":{%b,"spec":%b}}' % (META, deep))
    assert known(event.unreadable) == BAD
    assert max(furthest) <= len(META) + 1


def test_asking_for_an_object_that_cannot_be_decoded_is_an_error_that_names_it(hostile):
    with pytest.raises(ApiError, match=r"pods ns/bad cannot be read: .+") as caught:
        codec(PLAIN_PODS).one(hostile)
    assert caught.value.unreadable
    assert not caught.value.unreachable


@pytest.mark.parametrize("item", [b"null", b"5", b'"text"', b"[]", b'{"metadata":null,"spec":5}', b'{"metadata":"\xff","status":5}'])
def test_what_is_no_object_at_all_has_no_identity_and_costs_nothing_else(item):
    page = codec(PLAIN_PODS).page(b'{"metadata":{"resourceVersion":"9"},"items":[%b,%b]}' % (item, GOOD))
    assert [pod.name for pod in page.items] == ["good"]
    assert [known(lost) for lost in page.unreadable] == [Unreadable("", "", "", "", "")]
    assert str(page.unreadable[0]) == "an object without a readable name"


@pytest.mark.parametrize("page", [b"", b"[", b"null", b'{"items":', b'{"items":5}', b'{"metadata":{"resourceVersion":5},"items":[]}'])
def test_what_is_no_page_is_an_error(page):
    with pytest.raises(ApiError, match="cannot be read") as caught:
        codec(PLAIN_PODS).page(page)
    assert caught.value.reason == "Unreadable"


def test_a_bookmark_says_how_far_the_stream_has_come_whatever_else_is_in_it():
    line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"},"status":5}}'
    assert codec(PLAIN_PODS).event(line).resource_version == "5"


def test_a_job_that_cannot_be_decoded_is_salvaged_for_its_controller():
    status = b'{"phase":"Running"}'
    job = b'{%b,"spec":{"x":%b},"status":%b}' % (META, DEEP, status)
    page = codec(JOBS).page(b'{"metadata":{"resourceVersion":"9"},"items":[%b]}' % job)
    assert [known(lost) for lost in page.unreadable] == [BAD]
    for found in (page.items[0], codec(JOBS).one(job), codec(JOBS).event(b'{"type":"ADDED","object":%b}' % job).object):
        assert (found.namespace, found.name, found.uid, found.resource_version) == ("ns", "bad", "u", "7")
        assert found.unreadable == "it is nested too deeply"
        assert reported_as(found).status == status


@pytest.mark.parametrize("missing", [b'"name":"bad",', b'"uid":"u",', b',"resourceVersion":"7"'])
def test_nothing_is_salvaged_of_a_job_without_an_identity(missing):
    """A status written without uid and version could be written over that of another job."""
    event = codec(JOBS).event(b'{"type":"ADDED","object":{%b,"spec":%b}}' % (META.replace(missing, b""), DEEP))
    assert event.object is None
    assert event.unreadable


@pytest.mark.parametrize(
    ("manager", "ours"), [(b"null", True), (b'"batch.tensorstack.dev/genericjob-controller"', True), (b'"kueue.x-k8s.io/x"', False)]
)
def test_a_job_that_cannot_be_decoded_may_be_anothers(manager, ours):
    job = codec(JOBS).one(b'{%b,"spec":{"managedBy":%b,"x":%b}}' % (META, manager, DEEP))
    assert (reported_as(job) is not None) is ours


@pytest.mark.parametrize("odd", [b'"managedFields":[{"fieldsV1":%b}]' % DEEP, b'"finalizers":["\xff"]', b'"generation":"one"'])
def test_a_pod_belongs_to_its_job_whatever_else_its_metadata_has(odd):
    """A successor that does not know the pod would take it for gone, and start its whole gang again."""
    owner = b'"annotations":{"e":"1"},"labels":{"a":"b"},"ownerReferences":[{"uid":"o","controller":true}]'
    pod = codec(pods(annotations=frozenset(("e",)))).one(b"{%b}" % META.replace(b'"name"', b'%b,%b,"name"' % (odd, owner)))
    assert (pod.name, pod.owner_uid, pod.labels, pod.annotations, pod.reason) == ("bad", "o", {"a": "b"}, {"e": "1"}, "Unreadable")


@pytest.mark.parametrize("odd", [b'"labels":["a"]', b'"annotations":{"a":5}', b'"ownerReferences":{}', b'"deletionTimestamp":5'])
def test_nothing_is_salvaged_of_a_pod_that_may_belong_to_anybody(odd):
    event = codec(PODS).event(b'{"type":"MODIFIED","object":{%b}}' % META.replace(b'"name"', b'%b,"name"' % odd))
    assert event.object is None
    assert known(event.unreadable) == BAD


def test_of_a_pod_whose_metadata_can_be_decoded_it_is_not_known_what_it_does():
    meta = META.replace(b'"name"', b'"labels":{"a":"b"},"ownerReferences":[{"uid":"o","controller":true}],"name"')
    for rest in (b'"spec":%b' % DEEP, b'"status":{"phase":{"new":true}}'):
        event = codec(PODS).event(b'{"type":"MODIFIED","object":{%b,%b}}' % (meta, rest))
        assert known(event.unreadable) == BAD
        pod = event.object
        assert (pod.name, pod.uid, pod.owner_uid, pod.labels, pod.phase, pod.reason) == (
            "bad",
            "u",
            "o",
            {"a": "b"},
            "Unknown",
            "Unreadable",
        )


def test_a_pod_whose_labels_cannot_be_decoded_is_left_out():
    for name in ("a list in place of labels", "bytes that are no UTF-8"):
        assert codec(PODS).event(b'{"type":"ADDED","object":%b}' % HOSTILE[name]).object is None
