"""Lines of a watch that are rare, and must be read right when they come."""

import pytest

from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import PODS


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
