"""An API in front of another: every call passes one place.

A fence asks there for permission, faults happen there, a simulation stops there. The eight verbs are written out once, here; whoever wants
to stand between a caller and a server overrides `through`.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec

from .api import Api, Body, Created, FieldValidation, Operations, Page, Propagation, Watch
from .resources import Key, Resource

T = TypeVar("T")

Verb = Literal["get", "list", "watch", "create", "replace", "replace_status", "patch", "delete"]
WRITES: frozenset[Verb] = frozenset(("create", "replace", "replace_status", "patch", "delete"))


class Call(msgspec.Struct, frozen=True, gc=False):
    """A request on its way. The key of a list, watch or create has no name."""

    verb: Verb
    resource: Resource[Any]
    key: Key
    body: Any = None


class Passing:
    """Hands every call on."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Where every call passes: `do` sends it on."""
        return do()

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object."""
        return self.through(Call("get", resource, key), lambda: self.api.get(resource, key))

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
        return self.through(
            Call("list", resource, Key(namespace, "")),
            lambda: self.api.list(
                resource,
                namespace,
                labels=labels,
                fields=fields,
                limit=limit,
                continue_token=continue_token,
                resource_version=resource_version,
            ),
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
        return self.through(
            Call("watch", resource, Key(namespace, "")),
            lambda: self.api.watch(
                resource,
                namespace,
                resource_version=resource_version,
                labels=labels,
                fields=fields,
                timeout=timeout,
                bookmarks=bookmarks,
                initial_events=initial_events,
            ),
        )

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        return self.through(
            Call("create", resource, Key(namespace, ""), body),
            lambda: self.api.create(resource, body, namespace, field_validation=field_validation),
        )

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status."""
        return self.through(Call("replace", resource, key, body), lambda: self.api.replace(resource, key, body))

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status."""
        return self.through(Call("replace_status", resource, key, body), lambda: self.api.replace_status(resource, key, body))

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields."""
        return self.through(Call("patch", resource, key, patch), lambda: self.api.patch(resource, key, patch, subresource=subresource))

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
        """Ask for an object's end."""
        return self.through(
            Call("delete", resource, key),
            lambda: self.api.delete(resource, key, uid=uid, resource_version=resource_version, grace=grace, propagation=propagation),
        )
