"""The reflector: keeps a store equal to a resource on the server.

It lists once and then watches. A watch that ends is followed by another from the version that the store has reached, so nothing is lost
and nothing comes twice. A new list is needed only when the server does not know that version any more (410, told as a status or as an
event), or when the answers make no sense; its difference from the store becomes changes like any others.

    list ──▶ watch ──▶ ended by the server's timeout, or cut after a while ──▶ watch at once
      ▲        │
      │        ├─ no connection, 429, 401, 403, 5xx, over in no time ──▶ back off ──▶ watch from the same version
      ├────────┼─ 410 ──▶ a moment ──▶ list
      └────────┴─ 410 again and again, a version "too large", 404, silence, unreadable ──▶ back off ──▶ list

Two back-offs, because they end for different reasons. Requests that fail wait ever longer until one succeeds. Lists that a watch leads to
wait ever longer until none was needed for a while: a list that succeeds proves nothing about the watch after it, and lists are what costs.
A 410 is the word of a healthy server, typically the first one after an outage: nobody waits then for what the outage had added up to.

Lists ask the server's store, never a cache that may be behind ("" and not "0"), in pages that are bounded by weight: none keeps other
threads from running for more than a moment, and objects that have not changed are not kept twice. A watch that tells the present state
first (watch-list) would do without pages, but costs twice the processor time (5,000 pods: 0.38 s against 0.19 s) to save 4 MB for a
moment: it has to be asked for.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from .api import Api, Event, Watch, pages
from .errors import NO_ANSWER, ApiError
from .metrics import ReflectorMetrics
from .objects import Object, Unreadable
from .primitives import Backoff, Flag, Primitives
from .resources import Resource
from .store import Change, Store
from .versions import newer_or_same

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

SENSELESS = frozenset(("Silent", "Unreadable"))
"""Errors without an answer that the next watch from the same version would meet again."""

SHORT, TOO_LARGE, FORBIDDEN = "ShortWatch", "ResourceVersionTooLarge", 403


@dataclass(frozen=True)
class Timings:
    """How patient a reflector is, in seconds."""

    backoff: float = 0.8
    longest_backoff: float = 30.0
    watch: tuple[float, float] = (300.0, 600.0)
    """The server ends a watch after a random time between these: informers that began together do not come back together."""
    shortest_watch: float = 1.0
    """A watch that is over sooner and brought nothing has failed, or we would ask for the next one a thousand times a second."""
    hurried_watch: float = 3.0
    """The server says how far a watch came two seconds before it ends; so one of three seconds soon knows."""
    broken_watches: int = 5
    """So many times in a row the server may fail to open a watch (5xx) before a list is tried."""
    moment: float = 1.0
    """Before the list after a 410, at most; random, because all informers meet it at once."""
    gone_again: float = 120.0
    """A 410 so soon after another one is no accident. More than the longest back-off with its jitter, or that one would be forgotten."""


class Reflector(Generic[T]):
    """Lists and watches one resource, in one namespace or in all, into a store.

    `changed` is called on the reflector's thread, after the store was updated, and must not block; `advanced` after every step, when
    the store's version may have moved and everybody was told. `unreadable` is called once for each object that cannot be decoded,
    and again when the reason changes.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        store: Store[T],
        *,
        namespace: str = "",
        labels: str = "",
        changed: Callable[[Change[T]], None],
        advanced: Callable[[], None] = lambda: None,
        unreadable: Callable[[Unreadable], None] = lambda _: None,
        primitives: Primitives,
        metrics: ReflectorMetrics,
        timings: Timings = Timings(),  # noqa: B008 - frozen
        watch_list: bool = False,
    ) -> None:
        self._api, self._resource, self._store = api, resource, store
        self._namespace, self._labels = namespace, labels
        self._changed, self._advanced, self._unreadable = changed, advanced, unreadable
        self._reported: dict[tuple[str, str], Unreadable] = {}
        """Objects that cannot be decoded and were reported."""
        self._primitives, self._metrics, self._timings = primitives, metrics, timings
        self._backoff = Backoff(primitives, first=timings.backoff, limit=timings.longest_backoff)
        """Between requests that fail; any success ends it."""
        self._list_backoff = Backoff(primitives, first=timings.backoff, limit=timings.longest_backoff)
        """Between lists that watches lead to; only time ends it."""
        self._last_gone = float("-inf")
        self._stopping = Flag(primitives)
        self._name = f"{resource.full_name} in {namespace or 'all namespaces'}"
        self._open: Watch[T] | None = None
        self._wanted = ""
        self._must_list = True
        self._watch_list, self._watch_list_works = watch_list, False
        self._broken = 0
        self._alive = primitives.monotonic()
        self.listed = False
        """Whether the first list is in the store and `changed` has seen all of it."""
        self.cut_off = False
        """Whether the last request failed because the server could not be reached or could not serve."""
        self.unreachable = ""
        """A version that was asked for and that the server does not have: a list that began later is older."""
        metrics.follow(store.__len__, lambda: self.silence)

    @property
    def silence(self) -> float:
        """Seconds since the last page of a list, event or bookmark."""
        return self._primitives.monotonic() - self._alive

    def run(self) -> None:
        """Follow the server until `stop()`. Failed requests are met here; anything else is raised, and this may be called again."""
        while not self._stopping:
            try:
                if self._must_list:
                    self._list()
                else:
                    self._watch()
            except ApiError as error:
                self._recover(error)

    def stop(self) -> None:
        """End `run()`, from any thread: a watch or a wait is over at once, a request that is under way when it is answered."""
        self._stopping.set()
        self._interrupt()

    def reach(self, version: str) -> None:
        """Get to a version soon, although nothing may happen here: by a watch that ends soon and says how far it came, or by a list."""
        if version not in (self._wanted, self.unreachable) and not newer_or_same(self._store.version, version):
            self._wanted = version
            self._interrupt()

    def _interrupt(self) -> None:
        watch = self._open
        if watch is not None:
            watch.close()

    def _interrupted(self, wanted: str) -> bool:
        return bool(self._stopping) or self._wanted != wanted

    # -------------------------------------------------------------------------------------------- listing

    def _list(self) -> None:
        if self._watch_list:
            try:
                self._list_by_watching()
            except ApiError as error:
                if self._watch_list_works:
                    raise
                # A server that cannot do it says so in many ways; a list will show whether it was that.
                self._watch_list = False
                log.info("%s: will be listed, not watched from the beginning: %s", self._name, error)
            else:
                return
        began, wanted = self._primitives.monotonic(), self._wanted
        items: list[T] = []
        unreadable: list[Unreadable] = []
        version = ""
        alive = self._alive
        try:
            for page in pages(self._api, self._resource, self._namespace, labels=self._labels):
                if self._stopping:
                    return
                if page.items or page.unreadable:
                    self._alive = self._primitives.monotonic()
                items += map(self._store.known, page.items)
                unreadable += page.unreadable
                version = version or page.resource_version
        except ApiError:
            self._alive = alive  # first pages alone, again and again, do not move the cache
            raise
        self._replace(items, unreadable, version, began)
        self._give_up_if_older(version, wanted)

    def _list_by_watching(self) -> None:
        """Take the present state from the beginning of a watch (watch-list), and go on with that watch."""
        began, wanted = self._primitives.monotonic(), self._wanted
        with self._watching("", self._watch_time(), wanted, initial_events=True) as events:
            found: dict[tuple[str, str], T] = {}
            unreadable: dict[tuple[str, str], Unreadable] = {}
            for event in events:
                about = event.unreadable or event.object
                if about is None:
                    break
                place = (about.namespace, about.name)
                unreadable.pop(place, None)
                if event.type == "DELETED":
                    found.pop(place, None)
                    continue
                if event.unreadable is not None:
                    unreadable[place] = event.unreadable
                if event.object is not None:  # read, or salvaged
                    found[place] = self._store.known(event.object)
            else:
                if self._interrupted(wanted):
                    return
                raise ApiError(NO_ANSWER, "Unreachable", "the watch ended before its initial events did")
            if not event.initial_events_end:
                raise ApiError(NO_ANSWER, "Unreadable", "the server does not say where the initial events end")
            self._replace(found.values(), [*unreadable.values()], event.resource_version, began)
            self._watch_list_works = True
            self._give_up_if_older(event.resource_version, wanted)
            self._follow(events, wanted)

    def _replace(self, items: Iterable[T], unreadable: Sequence[Unreadable], version: str, began: float) -> None:
        # AN EMPTY ANSWER OF SOME PROXY IS NOT AN EMPTY CLUSTER: a list has a version.
        if not version:
            raise ApiError(NO_ANSWER, "Unreadable", "the server sent a list without a version")
        for change in self._store.replace(items, version, unreadable):
            self._changed(change)
        known, self._reported = self._reported, {}
        for lost in unreadable:
            self._report(lost, known.get((lost.namespace, lost.name)))
        self._alive = self._primitives.monotonic()
        self._metrics.listed(self._alive - began)
        self._must_list, self.listed, self.cut_off = False, True, False
        self._backoff.reset()
        self._advanced()

    def _give_up_if_older(self, version: str, wanted: str) -> None:
        """A list from the server's store has everything that was there when it began, unless that store was restored from a backup."""
        if self._wanted == wanted and not newer_or_same(version, wanted):
            log.warning("%s: the server is at version %s, and was at %s before: was its store restored?", self._name, version, wanted)
            self._wanted, self.unreachable = "", wanted

    # -------------------------------------------------------------------------------------------- watching

    def _watch(self) -> None:
        wanted = self._wanted
        hurried = not newer_or_same(self._store.version, wanted)
        seconds = self._timings.hurried_watch if hurried else self._watch_time()
        with self._watching(self._store.version, seconds, wanted) as events:
            self._follow(events, wanted)
        # NOT BEFORE: a list does not tell how objects ended that it no longer has.
        if hurried and not newer_or_same(self._store.version, wanted):
            self._must_list = True

    @contextmanager
    def _watching(self, version: str, seconds: float, wanted: str, *, initial_events: bool = False) -> Iterator[Iterator[Event[T]]]:
        with self._api.watch(
            self._resource,
            self._namespace,
            resource_version=version,
            labels=self._labels,
            timeout=seconds,
            initial_events=initial_events,
        ) as watch:
            self._open = watch
            try:
                # WHO INTERRUPTS SAYS SO FIRST AND LOOKS FOR A WATCH THEN; here it is the other way round, so one of both closes it.
                if self._interrupted(wanted):
                    watch.close()
                yield iter(watch)
            finally:
                self._open = None

    def _follow(self, events: Iterator[Event[T]], wanted: str) -> None:
        began, brought = self._primitives.monotonic(), False
        try:
            for event in events:
                for change in self._store.apply(event):
                    self._changed(change)
                if self._reported or event.unreadable:
                    self._note_readability(event)
                if event.object is not None and not brought:
                    brought = True
                    self._backoff.reset()
                self._broken, self.cut_off = 0, False
                self._alive = self._primitives.monotonic()
                self._metrics.event()
                self._advanced()
        except ApiError as error:
            if not self._lasted(began) or not _is_cut(error):
                raise
            log.info("%s: %s", self._name, error)
            self._metrics.watch_ended("error")
            return
        if self._interrupted(wanted):
            return
        if not self._lasted(began) and not brought:
            raise ApiError(NO_ANSWER, SHORT, "the watch was over in no time and brought nothing")
        self._metrics.watch_ended("timeout")

    def _note_readability(self, event: Event[T]) -> None:
        found: T | Unreadable | None = event.unreadable or event.object
        if found is not None:
            before = self._reported.pop((found.namespace, found.name), None)
            if isinstance(found, Unreadable) and event.type != "DELETED":
                self._report(found, before)

    def _report(self, lost: Unreadable, before: Unreadable | None) -> None:
        """Count an object that cannot be decoded; log and pass on what was not reported before."""
        self._metrics.unreadable()
        self._reported[lost.namespace, lost.name] = lost
        if before is None or (before.uid, before.problem) != (lost.uid, lost.problem):
            log.warning("%s: %s cannot be read: %s", self._name, lost, lost.problem)
            self._unreadable(lost)

    def _lasted(self, began: float) -> bool:
        """Whether the watch was one, however it ended."""
        if self._primitives.monotonic() - began < self._timings.shortest_watch:
            return False
        self._backoff.reset()
        return True

    def _watch_time(self) -> float:
        shortest, longest = self._timings.watch
        return shortest + (longest - shortest) * self._primitives.random()

    # -------------------------------------------------------------------------------------------- failing

    def _recover(self, error: ApiError) -> None:
        if self._stopping:
            return
        self.cut_off = _is_cut(error) or error.throttled or error.code >= 500
        watched = not self._must_list
        if watched:
            self._metrics.watch_ended("expired" if error.gone else "short" if error.reason == SHORT else "error")
            self._broken = self._broken + 1 if error.code >= 500 else 0
            self._must_list = not _can_go_on(error) or self._broken >= self._timings.broken_watches
        seconds = max(self._pause(error, relist=watched and self._must_list), min(error.retry_after or 0.0, self._timings.longest_backoff))
        level = logging.INFO if error.throttled or error.gone else logging.WARNING  # those two are a server's daily business
        log.log(level, "%s: will be %s again in %.1f s: %s", self._name, "listed" if self._must_list else "watched", seconds, error)
        self._stopping.wait(seconds)

    def _pause(self, error: ApiError, *, relist: bool) -> float:
        if not error.gone:
            return (self._list_backoff if relist else self._backoff).next()
        self._backoff.reset()  # the server is there
        now = self._primitives.monotonic()
        again, self._last_gone = now - self._last_gone < self._timings.gone_again, now
        # NOT TWICE: a server that has forgotten everything it just said would be listed without end.
        return self._list_backoff.next() if again else self._timings.moment * self._primitives.random()


def _is_cut(error: ApiError) -> bool:
    """Whether there was no connection, or one that broke, and nothing else is wrong."""
    return error.unreachable and error.reason not in SENSELESS


def _can_go_on(error: ApiError) -> bool:
    """Whether a watch from the same version may do better next time."""
    if any(cause.reason == TOO_LARGE for cause in error.causes):
        return False
    return _is_cut(error) or error.throttled or error.unauthorized or error.code == FORBIDDEN or error.code >= 500
