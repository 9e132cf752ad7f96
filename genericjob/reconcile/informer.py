"""The informer: a cache of one resource that keeps itself up to date, and tells what changes.

A controller may watch the whole cluster or some namespaces. Each of these scopes has a store and a reflector with a thread of its own;
lookups choose the scope by namespace.

Handlers are told of every change after the store has it, on the scope's thread, and must not block: they put keys into queues. The cache is
synced when every scope was listed and every handler has seen all of it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Generic, TypeVar

from .api import Api
from .errors import NO_ANSWER, ApiError
from .metrics import Metrics
from .objects import Object, Unreadable
from .primitives import Backoff, Flag, Primitives, Thread
from .reflector import Reflector, Timings
from .resources import Key, Resource
from .store import Change, Store
from .versions import newer_or_same

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

Handler = Callable[[Change[T]], None]
Target = Mapping[str, str]
"""Versions by namespace."""


@dataclass(frozen=True)
class _Scope(Generic[T]):
    store: Store[T]
    reflector: Reflector[T]


class Informer(Generic[T]):
    """The objects of a resource that match the labels, in some namespaces or ("") in all."""

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        *,
        namespaces: Sequence[str] = ("",),
        labels: str = "",
        indexes: Mapping[str, Callable[[T], str]] | None = None,
        primitives: Primitives,
        metrics: Metrics,
        timings: Timings = Timings(),  # noqa: B008 - frozen
        watch_list: bool = False,
    ) -> None:
        self._api, self._resource = api, resource
        self._primitives, self._metrics, self._timings = primitives, metrics, timings
        self._handlers: list[Handler[T]] = []
        self._reporters: list[Callable[[Unreadable], None]] = []
        self._stopping = Flag(primitives)
        self._moved = primitives.condition()
        self._waiting = 0
        self._threads: list[Thread] = []
        measured = metrics.reflector(resource.full_name)

        def scope(namespace: str) -> _Scope[T]:
            store = Store(indexes or {})
            reflector = Reflector(
                api,
                resource,
                store,
                namespace=namespace,
                labels=labels,
                changed=self._tell,
                advanced=self._wake,
                unreadable=self._report,
                primitives=primitives,
                metrics=measured,
                timings=timings,
                watch_list=watch_list,
            )
            return _Scope(store, reflector)

        self._scopes = {namespace: scope(namespace) for namespace in ([""] if "" in namespaces else namespaces)}
        self._everywhere = self._scopes.get("")

    def on_change(self, handler: Handler[T]) -> None:
        """Tell this handler of every change. Before `start()` only: nobody may miss the beginning."""
        if self._threads:
            raise RuntimeError("handlers are added before the informer is started")
        self._handlers.append(handler)

    def on_unreadable(self, report: Callable[[Unreadable], None]) -> None:
        """Call this for every object that cannot be decoded, once, on the scope's thread. Before `start()` only."""
        self._reporters.append(report)

    def start(self) -> None:
        """Begin to list and watch, each scope in a thread of its own."""
        for namespace, scope in self._scopes.items():
            name = f"informer {self._resource.full_name}{f' in {namespace}' if namespace else ''}"
            self._threads.append(self._primitives.start(name, partial(self._follow, name, scope.reflector)))

    def stop(self, timeout: float = 0.0) -> bool:
        """End all watches and waits, now; whether the threads have ended within so long."""
        self._stopping.set()
        for scope in self._scopes.values():
            scope.reflector.stop()
        with self._moved:
            self._moved.notify_all()
        deadline = self._primitives.monotonic() + timeout
        return all(thread.join(max(0.0, deadline - self._primitives.monotonic())) for thread in self._threads)

    # -------------------------------------------------------------------------------------------- reading

    def get(self, key: Key) -> T | None:
        """One object, as far as the cache knows."""
        scope = self._scope(key.namespace)
        return scope.store.get(key) if scope else None

    def by(self, index: str, value: str, *, namespace: str) -> Sequence[T]:
        """The objects with that value in an index. The namespace says where to look, no more: values are to be unique, as UIDs are."""
        scope = self._scope(namespace)
        return scope.store.by(index, value) if scope else ()

    def values(self) -> Sequence[T]:
        """All objects."""
        return list(chain.from_iterable(scope.store.values() for scope in self._scopes.values()))

    def version(self, namespace: str) -> str:
        """How far the cache has come there; empty before the first list."""
        scope = self._scope(namespace)
        return scope.store.version if scope else ""

    def reached(self, namespace: str, version: str) -> bool:
        """Whether the cache has everything up to a version. Where nobody looks there is nothing to wait for."""
        scope = self._scope(namespace)
        return scope is None or newer_or_same(scope.store.version, version)

    def _scope(self, namespace: str) -> _Scope[T] | None:
        return self._everywhere or self._scopes.get(namespace)

    # -------------------------------------------------------------------------------------------- waiting

    def silence(self) -> float:
        """Seconds since the scope that has been silent for longest received a page of a list, an event or a bookmark."""
        return max(scope.reflector.silence for scope in self._scopes.values())

    def unexplained_silence(self) -> float:
        """Return the same of the scopes whose last request has not failed for want of a server, or 0.0 if there is none."""
        return max((scope.reflector.silence for scope in self._scopes.values() if not scope.reflector.cut_off), default=0.0)

    @property
    def synced(self) -> bool:
        """Whether every scope was listed and every handler has seen it."""
        return all(scope.reflector.listed for scope in self._scopes.values())

    def wait_synced(self, timeout: float) -> bool:
        """Wait for that, so long at most; whether it is so."""
        return self._wait(lambda: self.synced, self._primitives.monotonic() + timeout)

    def target(self) -> Target:
        """Ask the server for its newest version, by namespace. Raises ApiError.

        The request has no label selector: with one the server would search all objects for the first that matches.
        """
        found = {namespace: self._api.list(self._resource, namespace, limit=1).resource_version for namespace in self._scopes}
        if not all(found.values()):
            raise ApiError(NO_ANSWER, "Unreadable", "the server sent a list without a version")
        return found

    def reach(self, target: Target, timeout: float) -> bool:
        """Return whether the cache has reached the target within `timeout` seconds. May be called again with the same target."""
        for namespace, version in target.items():
            self._scopes[namespace].reflector.reach(version)
        return self._wait(lambda: all(self.reached(*each) for each in target.items()), self._primitives.monotonic() + timeout)

    def reachable(self, target: Target) -> bool:
        """Return whether the server still has the target, as far as the last lists tell: a store that was restored may be older."""
        return all(self._scopes[namespace].reflector.unreachable != version for namespace, version in target.items())

    def _wait(self, holds: Callable[[], bool], deadline: float) -> bool:
        with self._moved:
            self._waiting += 1
            try:
                while not holds() and not self._stopping and (left := deadline - self._primitives.monotonic()) > 0:
                    self._moved.wait(left)
                return holds()
            finally:
                self._waiting -= 1

    # -------------------------------------------------------------------------------------------- on the threads of the scopes

    def _wake(self) -> None:
        # WHO WAITS COUNTS FIRST AND LOOKS AT THE STORE THEN: nobody is missed, and an event that nobody waits for costs nothing.
        if self._waiting:
            with self._moved:
                self._moved.notify_all()

    def _tell(self, change: Change[T]) -> None:
        for handler in self._handlers:
            try:
                handler(change)
            except Exception:
                # ITS LOSS, NOBODY ELSE'S: the others are told, and the stream goes on.
                log.exception("a handler of %s failed", self._resource.full_name)

    def _report(self, lost: Unreadable) -> None:
        for report in self._reporters:
            try:
                report(lost)
            except Exception:
                log.exception("a handler of unreadable %s failed", self._resource.full_name)

    def _follow(self, name: str, reflector: Reflector[T]) -> None:
        backoff = Backoff(self._primitives, first=self._timings.backoff, limit=self._timings.longest_backoff)
        while not self._stopping:
            try:
                reflector.run()
            except Exception:
                seconds = backoff.next()
                log.exception("thread %s died; it goes on in %.1f s", name, seconds)
                self._metrics.thread_died(name)
                self._stopping.wait(seconds)
