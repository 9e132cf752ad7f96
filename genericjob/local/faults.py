"""Things that go wrong between a controller and its server, on demand.

`FaultyApi` stands before any API and lets calls through, except those that a rule matches: they are refused, delayed, or done and their
answer lost, which is the fault that finds the most. Rules are asked in the order in which they were made; each counts down and then is
spent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, Literal, TypeVar
from weakref import WeakValueDictionary

from genericjob.reconcile.api import Api, Body, Created, FieldValidation, Operations, Page, Propagation, Watch
from genericjob.reconcile.errors import NO_ANSWER, ApiError
from genericjob.reconcile.resources import Key, Resource

T = TypeVar("T")

Verb = Literal["get", "list", "watch", "create", "replace", "replace_status", "patch", "delete"]
WRITES = frozenset(("create", "replace", "replace_status", "patch", "delete"))


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way. The key of a list, watch or create has no name."""

    verb: Verb
    resource: Resource[Any]
    key: Key
    body: Any = None


@dataclass(slots=True)
class Rule:
    """Which calls are hit, how often, and by what."""

    verbs: frozenset[str]
    resource: Resource[Any] | None
    key: Key | None
    when: Callable[[Call], bool]
    times: int
    skip: int
    error: ApiError | None
    delay: float
    after: bool

    def hits(self, call: Call) -> bool:
        """Whether this call is meant; counts it if so."""
        if self.times <= 0 or (self.verbs and call.verb not in self.verbs) or not self._about(call) or not self.when(call):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True

    def _about(self, call: Call) -> bool:
        if self.resource is not None and (self.resource.group, self.resource.plural) != (call.resource.group, call.resource.plural):
            return False
        return self.key is None or self.key == call.key


def lost_answer() -> ApiError:
    """The connection broke before the answer came."""
    return ApiError(NO_ANSWER, "Unanswered", "the answer was lost; whether it happened is unknown", unknown=True)


class FaultyApi:
    """An API with faults. Deterministic: the same calls in the same order meet the same faults."""

    def __init__(self, api: Api, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.api = api
        self._sleep = sleep
        self._lock = Lock()
        self._rules: list[Rule] = []
        self._opened = count()
        self._watches: WeakValueDictionary[int, Any] = WeakValueDictionary()

    # -------------------------------------------------------------------------------------------- making faults

    def refuse(self, error: ApiError, *verbs: Verb, **which: Any) -> Rule:
        """Answer matching calls with an error; they do not reach the server."""
        return self._rule(verbs, error=error, **which)

    def lose(self, *verbs: Verb, error: ApiError | None = None, **which: Any) -> Rule:
        """Let matching calls happen, then lose the answer."""
        return self._rule(verbs or tuple(sorted(WRITES)), error=error or lost_answer(), after=True, **which)

    def delay(self, seconds: float, *verbs: Verb, **which: Any) -> Rule:
        """Let matching calls wait before they reach the server."""
        return self._rule(verbs, delay=seconds, **which)

    def cut_watches(self) -> None:
        """End every open watch, quietly, in the order in which they were opened."""
        for watch in list(self._watches.values()):
            watch.close()

    def heal(self) -> None:
        """Forget all rules."""
        with self._lock:
            self._rules.clear()

    def _rule(
        self,
        verbs: tuple[Any, ...],
        *,
        resource: Resource[Any] | None = None,
        key: Key | None = None,
        when: Callable[[Call], bool] = lambda call: True,
        times: int = 1,
        skip: int = 0,
        error: ApiError | None = None,
        delay: float = 0.0,
        after: bool = False,
    ) -> Rule:
        rule = Rule(frozenset(verbs), resource, key, when, times, skip, error, delay, after)
        with self._lock:
            self._rules.append(rule)
        return rule

    def _through(self, call: Call, do: Callable[[], T]) -> T:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.hits(call)), None)
        if rule is None:
            return do()
        if rule.delay:
            self._sleep(rule.delay)
        if rule.error is not None and not rule.after:
            raise rule.error
        answer = do()
        if rule.error is not None:
            raise rule.error
        return answer

    # -------------------------------------------------------------------------------------------- the port

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object."""
        return self._through(Call("get", resource, key), lambda: self.api.get(resource, key))

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
        return self._through(
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
        watch = self._through(
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
        self._watches[next(self._opened)] = watch
        return watch

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        return self._through(
            Call("create", resource, Key(namespace, ""), body),
            lambda: self.api.create(resource, body, namespace, field_validation=field_validation),
        )

    def replace(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new version of everything but the status."""
        return self._through(Call("replace", resource, key, body), lambda: self.api.replace(resource, key, body))

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status."""
        return self._through(Call("replace_status", resource, key, body), lambda: self.api.replace_status(resource, key, body))

    def patch(self, resource: Resource[T], key: Key, patch: Body | Operations, *, subresource: Literal["", "status"] = "") -> T:
        """Change some fields."""
        return self._through(Call("patch", resource, key, patch), lambda: self.api.patch(resource, key, patch, subresource=subresource))

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
        return self._through(
            Call("delete", resource, key),
            lambda: self.api.delete(resource, key, uid=uid, resource_version=resource_version, grace=grace, propagation=propagation),
        )
