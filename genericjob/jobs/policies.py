"""What a server refuses of jobs by the rules of their definition, for an API that does not evaluate CEL."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from genericjob.api.validation import NEW, broken
from genericjob.reconcile.errors import Cause

from .resource import JOBS

TOLD = {"FieldValueInvalid": "Invalid value", "FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}


def refused(job: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Cause]:
    """What is wrong with a new job, or with a change."""
    for field, rule in broken(job, NEW if old is None else old):
        yield Cause(field, f"{TOLD[rule.reason]}: {rule.message}", rule.reason)


POLICIES: Mapping[tuple[str, str], Callable[[Mapping[str, Any], Mapping[str, Any] | None], Iterator[Cause]]] = {
    (JOBS.group, JOBS.plural): refused
}
