"""What there is on a server, and what happens to it from then on."""

import errno
import math
import os
import select
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, Literal, NamedTuple

from genericjob.reconcile.api import pages
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.objects import Unreadable
from genericjob.reconcile.resources import Resource

from .failures import CommandError
from .options import Target
from .text import one_line, say

OUTAGE = 60.0
"""Seconds for which a server may be away while it is watched: it is being restarted."""
RETRY = 1.0
LONGEST, LONGEST_OF_RUN = 5.0, 300.0
"""Seconds of one watch; the next one continues where it ended. A server that has vanished without a word does not end its watch in time."""
REPORT_AFTER_S = 3.0
"""Seconds without an answer after which the user is told."""
LISTEN = 1.0
"""Seconds after which one who waits for news looks whether anybody reads them."""
AHEAD = 10_000
"""News that sources may be ahead of their reader; then they wait, as they would for a slow terminal."""


class Happening(NamedTuple):
    """An object as it is now, or one that is gone. COMPLETE, with no object, says that all that there was has been told."""

    news: Literal["PRESENT", "DELETED", "COMPLETE"]
    object: dict[str, Any]


def _report(text: str) -> None:
    say(f"genericjob: {text}", err=True)


class Contact:
    """Whether a server answers, for all that a command follows there. An outage is reported once, and so is its end."""

    def __init__(self, report: Callable[[str], None] = _report, *, state: Callable[[], str] = str, endless: bool = False) -> None:
        self._report, self._state, self._endless = report, state, endless
        self.heard = False
        """Whether the server has answered at all."""
        self._lock = Lock()
        self._heard = time.monotonic()
        self._lost: float | None = None
        """Since when no request was answered, in monotonic time."""
        self._reported = False

    def answered(self) -> None:
        """Note an answer."""
        with self._lock:
            if self._reported:
                self._report("the server answers again")
            self.heard, self._heard, self._lost, self._reported = True, time.monotonic(), None, False

    def bears(self, error: ApiError, *, begun: bool = False) -> bool:
        """Return whether to try again after this error: the server has answered before, or is waited for without end."""
        lasting = error.reason in ("Configuration", "Certificate", "Unreadable")
        return passes(error) and (begun or self.heard or (self._endless and not lasting))

    def failed(self, error: ApiError) -> float:
        """Note a request without an answer; returns the seconds since the first of them, or 0 if there is no limit to them."""
        with self._lock:
            now = time.monotonic()
            if self._lost is None:
                self._lost = self._heard if error.silent else now
            since = now - self._lost
            if since >= REPORT_AFTER_S and not self._reported:
                why = one_line(error.message).removeprefix("cannot reach the server ")
                self._report(f"cannot reach the server, trying again: {why}")
                self._reported = True
            return 0.0 if self._endless else since

    def given_up(self, error: ApiError) -> ApiError:
        """Return the error with which a command ends that has waited for the server for long enough: with what was known last."""
        told = [one_line(error.message), f"given up after {OUTAGE:g} s", *filter(None, [self._state()])]
        return ApiError(error.code, error.reason, "; ".join(told))

    @property
    def lost(self) -> bool:
        """Whether the server does not answer at present."""
        return self._lost is not None

    def __str__(self) -> str:
        """For the message of a time-out: empty while the server answers."""
        return "" if self._lost is None else f", and the server has not answered for the last {time.monotonic() - self._lost:.0f} s"


def follow(
    where: Target,
    resource: Resource[dict[str, Any]],
    namespace: str,
    *,
    fields: str = "",
    labels: str = "",
    deadline: float = math.inf,
    contact: Contact | None = None,
    unreadable: Callable[[Unreadable], None] = lambda _: None,
) -> Iterator[Happening]:
    """Yield what there is, even after the deadline, and what happens until then.

    A short outage of a server that has answered is waited for.
    """
    stream, contact = _Stream(where, resource, namespace, fields, labels), contact or Contact()
    stream.unreadable = unreadable
    while not stream.begun or time.monotonic() < deadline:
        try:
            for happening in stream.go_on(deadline, contact.answered):
                contact.answered()
                yield happening
        except ApiError as error:
            if error.gone:
                stream.version = ""
                continue
            if where.local and error.unreachable:
                raise CommandError(f"the {where.where} has ended") from None
            if not contact.bears(error, begun=stream.begun):
                raise
            if contact.failed(error) > OUTAGE:
                raise contact.given_up(error) from error
            if time.monotonic() >= deadline:
                return
            time.sleep(min(RETRY, max(0.0, deadline - time.monotonic())))


def passes(error: ApiError) -> bool:
    """Return whether an error is one that a server has for a while, such as when it restarts."""
    return error.unreachable or error.throttled or error.code >= 500


class _Stream:
    """One list and the watches after it."""

    def __init__(self, where: Target, resource: Resource[dict[str, Any]], namespace: str, fields: str, labels: str) -> None:
        self._api, self._resource, self._namespace = where.api, resource, namespace
        self._longest = LONGEST_OF_RUN if where.local else LONGEST
        self._fields, self._labels = fields, labels
        self._known: dict[str, dict[str, Any]] = {}
        self._reported: set[tuple[str, str]] = set()
        self.unreadable: Callable[[Unreadable], None] = lambda _: None
        """Called for each object that cannot be decoded, once per reason."""
        self.version = ""
        self.begun = False

    def go_on(self, deadline: float, connected: Callable[[], None]) -> Iterator[Happening]:
        """Yield all that there is, if that is not known, and what happens before the deadline, for some time."""
        if not self.version:
            yield from self._list()
        left = deadline - time.monotonic()
        if left <= 0:
            return
        with self._api.watch(
            self._resource,
            self._namespace,
            resource_version=self.version,
            fields=self._fields,
            labels=self._labels,
            timeout=min(self._longest, max(1.0, left)),
        ) as watch:
            connected()
            for event in watch:
                self.version = watch.resource_version
                if event.unreadable is not None and event.type != "DELETED":
                    self._report(event.unreadable)
                if event.object is not None:
                    yield self._happened(event.object, gone=event.type == "DELETED")
            self.version = watch.resource_version

    def _list(self) -> Iterator[Happening]:
        listed = list(pages(self._api, self._resource, self._namespace, fields=self._fields, labels=self._labels))
        found = {each["metadata"]["uid"]: each for page in listed for each in page.items}
        lost = [each for uid, each in self._known.items() if uid not in found]
        self._known, self.version, self.begun = found, listed[-1].resource_version, True
        for page in listed:
            for unreadable in page.unreadable:
                self._report(unreadable)
        for each in lost:
            yield Happening("DELETED", each)
        for each in found.values():
            yield Happening("PRESENT", each)
        yield Happening("COMPLETE", {})

    def _report(self, lost: Unreadable) -> None:
        if (about := (str(lost), lost.problem)) not in self._reported:
            self._reported.add(about)
            self.unreadable(lost)

    def _happened(self, found: dict[str, Any], *, gone: bool) -> Happening:
        uid = found["metadata"]["uid"]
        if gone:
            self._known.pop(uid, None)
            return Happening("DELETED", found)
        self._known[uid] = found
        return Happening("PRESENT", found)


def life_of(
    where: Target,
    resource: Resource[dict[str, Any]],
    found: dict[str, Any],
    *,
    deadline: float = math.inf,
    contact: Contact | None = None,
) -> Iterator[dict[str, Any] | None]:
    """One object as it is now and each time it has changed, and None at its end, even if another has taken its name."""
    meta, seen = found["metadata"], False
    fields = f"metadata.name={meta['name']}"
    for news, each in follow(where, resource, meta["namespace"], fields=fields, deadline=deadline, contact=contact):
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
