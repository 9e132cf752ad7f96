"""No write after leadership has ended.

A leader that could not renew its lease in time must take it for lost, although nobody told it so: a successor may be at work already. The
fence stands between everything that writes and the server, and asks before each single request. A write that was let through and is still
under way ends by its own timeout, which is shorter than the time that a successor waits.
"""

from collections.abc import Callable
from typing import Literal, TypeVar

from .api import Api, Body, Created, FieldValidation, Operations, Page, Propagation, Watch
from .errors import NO_ANSWER, ApiError
from .resources import Key, Resource

T = TypeVar("T")

NOT_LEADING = "NotLeading"


class Fenced:
    """An API whose writes need permission. Reads always pass."""

    def __init__(self, api: Api, allowed: Callable[[], bool]) -> None:
        self._api = api
        self._allowed = allowed

    def _ask(self, verb: str, resource: Resource[T]) -> None:
        if not self._allowed():
            # NOT UNKNOWN: nothing was sent, so nothing has happened.
            raise ApiError(NO_ANSWER, NOT_LEADING, f"{verb} of {resource.full_name} not sent: this process does not lead (any more)")

    # -------------------------------------------------------------------------------------------- reading

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object."""
        return self._api.get(resource, key)

    def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """Read one page."""
        return self._api.list(
            resource,
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )

    def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str = "",
        labels: str = "",
        fields: str = "",
        timeout: float = 300.0,
        bookmarks: bool = True,
        initial_events: bool = False,
    ) -> Watch[T]:
        """Open a stream."""
        return self._api.watch(
            resource,
            namespace,
            resource_version=resource_version,
            labels=labels,
            fields=fields,
            timeout=timeout,
            bookmarks=bookmarks,
            initial_events=initial_events,
        )

    # -------------------------------------------------------------------------------------------- writing

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object, if allowed."""
        self._ask("create", resource)
        return self._api.create(resource, body, namespace, field_validation=field_validation)

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status, if allowed."""
        self._ask("replace", resource)
        return self._api.replace(resource, key, body)

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status, if allowed."""
        self._ask("replace_status", resource)
        return self._api.replace_status(resource, key, body)

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields, if allowed."""
        self._ask("patch", resource)
        return self._api.patch(resource, key, patch, subresource=subresource)

    def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
    ) -> T | None:
        """Ask for an object's end, if allowed."""
        self._ask("delete", resource)
        return self._api.delete(resource, key, uid=uid, resource_version=resource_version, grace=grace, propagation=propagation)
