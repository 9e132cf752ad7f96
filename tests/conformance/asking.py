"""Small words the conformance tests share."""

import pytest

from genericjob.reconcile.errors import ApiError


def refusal(call, *args, **kwargs):
    """The (code, reason) that a call is refused with."""
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value.code, caught.value.reason


def version(thing):
    return int(thing["metadata"]["resourceVersion"])


def uid(thing):
    return thing["metadata"]["uid"]


def names(page):
    return [item["metadata"]["name"] for item in page.items]


NOT_FOUND = (404, "NotFound")
CONFLICT = (409, "Conflict")
EXISTS = (409, "AlreadyExists")
INVALID = (422, "Invalid")
BAD_REQUEST = (400, "BadRequest")
EXPIRED = (410, "Expired")
