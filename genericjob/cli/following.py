"""What there is on a server, and what happens to it from then on."""

import errno
import math
import os
import select
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from queue import Empty, Queue
from threading import Thread
from typing import Any, Literal, NamedTuple

from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import Resource

from .failures import CommandError
from .options import Target

OUTAGE = 60.0
"""Seconds for which a server may be away while it is watched: it is being restarted."""
RETRY = 1.0
LONGEST = 300.0
"""Seconds of one watch; the next goes on where it ended."""
LISTEN = 1.0
"""Seconds after which one who waits for news looks whether anybody reads them."""
AHEAD = 10_000
"""News that sources may be ahead of their reader; then they wait, as they would for a slow terminal."""


class Happening(NamedTuple):
    """An object as it is now, or one that is gone. COMPLETE, with no object, says that all that there was has been told."""

    news: Literal["PRESENT", "DELETED", "COMPLETE"]
    object: dict[str, Any]


def follow(
    where: Target,
    resource: Resource[dict[str, Any]],
    namespace: str,
    *,
    fields: str = "",
    labels: str = "",
    deadline: float = math.inf,
) -> Iterator[Happening]:
    """Tell of everything until a moment of monotonic time. A watch that ends is followed by another, and a short outage is waited for."""
    stream = _Stream(where.api, resource, namespace, fields, labels)
    away_since = 0.0
    while time.monotonic() < deadline:
        try:
            for happening in stream.go_on(min(LONGEST, max(1.0, deadline - time.monotonic()))):
                away_since = 0.0
                yield happening
        except ApiError as error:
            if error.gone:
                stream.version = ""
                continue
            if where.local and error.unreachable:
                raise CommandError(f"the {where.where} has ended") from None
            away_since = away_since or time.monotonic()
            if not stream.begun or not _passes(error) or time.monotonic() - away_since > OUTAGE:
                raise
            time.sleep(RETRY)


def _passes(error: ApiError) -> bool:
    return error.unreachable or error.throttled or error.code >= 500


class _Stream:
    """One list and the watches after it."""

    def __init__(self, api: HttpApi, resource: Resource[dict[str, Any]], namespace: str, fields: str, labels: str) -> None:
        self._api, self._resource, self._namespace = api, resource, namespace
        self._fields, self._labels = fields, labels
        self._known: dict[str, dict[str, Any]] = {}
        self.version = ""
        self.begun = False

    def go_on(self, seconds: float) -> Iterator[Happening]:
        """All that there is, if that is not known, and what happens within some seconds."""
        if not self.version:
            yield from self._list()
        with self._api.watch(
            self._resource, self._namespace, resource_version=self.version, fields=self._fields, labels=self._labels, timeout=seconds
        ) as watch:
            for event in watch:
                self.version = watch.resource_version
                if event.object is not None:
                    yield self._happened(event.object, gone=event.type == "DELETED")
            self.version = watch.resource_version

    def _list(self) -> Iterator[Happening]:
        listed = list(pages(self._api, self._resource, self._namespace, fields=self._fields, labels=self._labels))
        found = {each["metadata"]["uid"]: each for page in listed for each in page.items}
        lost = [each for uid, each in self._known.items() if uid not in found]
        self._known, self.version, self.begun = found, listed[-1].resource_version, True
        for each in lost:
            yield Happening("DELETED", each)
        for each in found.values():
            yield Happening("PRESENT", each)
        yield Happening("COMPLETE", {})

    def _happened(self, found: dict[str, Any], *, gone: bool) -> Happening:
        uid = found["metadata"]["uid"]
        if gone:
            self._known.pop(uid, None)
            return Happening("DELETED", found)
        self._known[uid] = found
        return Happening("PRESENT", found)


def life_of(
    where: Target, resource: Resource[dict[str, Any]], found: dict[str, Any], *, deadline: float = math.inf
) -> Iterator[dict[str, Any] | None]:
    """One object as it is now and each time it has changed, and None at its end, even if another has taken its name."""
    meta, seen = found["metadata"], False
    for news, each in follow(where, resource, meta["namespace"], fields=f"metadata.name={meta['name']}", deadline=deadline):
        if news == "COMPLETE":
            if not seen:
                yield None
                return
        elif each["metadata"]["uid"] == meta["uid"]:
            seen = True
            yield each if news == "PRESENT" else None
            if news == "DELETED":
                return


# ------------------------------------------------------------------------------------------------ several things at once


class News(NamedTuple):
    """Something that one of several sources has told, or that it has no more to tell."""

    source: Hashable
    item: Any
    over: bool = False


def unheard() -> bool:
    """Whether what is printed goes into a pipe that nobody reads any more: `| head` has seen enough."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(what & select.POLLERR for _, what in poll.poll(0))
    except (OSError, ValueError):  # it is no file at all
        return False


class Newsroom:
    """Listens to several sources, each in a thread of its own, and hands on what they tell, one after the other."""

    def __init__(self) -> None:
        self._news: Queue[News | BaseException] = Queue(AHEAD)

    def listen(self, source: Hashable, tell: Callable[[], Iterable[Any]]) -> None:
        """Begin to listen. What goes wrong there is raised here."""
        # NOBODY WAITS FOR THESE THREADS: they sit in reads that end with this process.
        Thread(target=self._read, args=(source, tell), name=f"news of {source}", daemon=True).start()

    def _read(self, source: Hashable, tell: Callable[[], Iterable[Any]]) -> None:
        try:
            for item in tell():
                self._news.put(News(source, item))
        except Exception as error:
            self._news.put(error)
        else:
            self._news.put(News(source, None, over=True))

    def next(self, within: float = LISTEN) -> News | None:
        """The next news, or None when there are none within some seconds. Raises BrokenPipeError when nobody reads what is printed."""
        if unheard():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        try:
            found = self._news.get(timeout=within)
        except Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        return found
