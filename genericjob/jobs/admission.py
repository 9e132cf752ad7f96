"""What a server refuses of jobs by the rules of their definition, for an API that does not evaluate CEL."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from genericjob.api.validation import NEW, Broken, broken
from genericjob.reconcile.errors import Cause

from .resource import JOBS


def refused(job: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Cause]:
    """What is wrong with a new job, or with a change."""
    for each in broken(job, NEW if old is None else old):
        yield Cause(each.field, f"{_told(each)}: {each.rule.message}", each.rule.reason)


def _told(each: Broken) -> str:
    """How the server begins."""
    if each.rule.reason == "FieldValueInvalid":
        return f'Invalid value: "{"array" if isinstance(each.value, list) else "object"}"'
    return {"FieldValueForbidden": "Forbidden", "FieldValueRequired": "Required value"}[each.rule.reason]


POLICIES: Mapping[tuple[str, str], Callable[[Mapping[str, Any], Mapping[str, Any] | None], Iterator[Cause]]] = {
    (JOBS.group, JOBS.plural): refused
}
