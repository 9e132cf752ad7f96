"""Events about objects: what `kubectl describe` shows at the end.

Events are for people and may be lost; work may not wait for them. Whoever tells one puts it into a bounded queue and goes on; a thread
sends them. A controller that repeats itself must not drown the server, so what is told is condensed first:

    again       the same words about the same object raise the count of the Event that exists
    similar     after ten different messages with one reason about one object within ten minutes, further ones share a single Event
    too many    an object that keeps producing them gets 25, then one in five minutes

Namespaces take turns. One whose Events are refused for now, or take long, rests, and delays no other; where there is no room any more,
the namespace with the most loses the latest.

The thread alone remembers what was told; a restart forgets it, and begins new Events.
"""

import logging
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from cachetools import LRUCache

from .api import Api
from .errors import ApiError
from .metrics import Metrics
from .primitives import Flag, Primitives, Thread
from .resources import EVENTS, Key
from .turns import Turns

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
EventFate = Literal["sent", "failed", "dropped"]

QUEUE = 1000
REMEMBERED = 4096
MESSAGE = 1024
"""Characters; the newer events API takes no more."""
COMBINED = "(combined from similar events): "
SIMILAR, SIMILAR_WITHIN = 10, 600.0
BURST, REFILL = 25, 300.0
TRIES, RETRY = 12, 10.0
SLOW, REST = 1.0, 9.0
"""Seconds from which on an Event took long, and how many times as long its namespace rests then: it has a tenth of the thread at most."""
NAME = 253
"""The longest name of an object."""


class Reference(msgspec.Struct, frozen=True):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Told(NamedTuple):
    """One event, as it was told."""

    about: Reference
    type: EventType
    reason: str
    message: str
    at: datetime


class Series:
    """One Event object, and how often it was told."""

    __slots__ = ("count", "exists", "first", "message", "name")

    def __init__(self, name: str, first: datetime) -> None:
        self.name = name
        self.first = first
        self.message = ""
        self.count = 0
        self.exists = False


class Sending:
    """One event on its way."""

    __slots__ = ("series", "told", "tries")

    def __init__(self, told: Told) -> None:
        self.told = told
        self.series: Series | None = None
        """Known from the first try on."""
        self.tries = 0

    @property
    def namespace(self) -> str:
        """Where the Event is stored."""
        return self.told.about.namespace or "default"


class Memory:
    """What was told before, and so what becomes of the next. Belongs to one thread."""

    def __init__(self, primitives: Primitives) -> None:
        self._primitives = primitives
        self._series: LRUCache[tuple[Reference, str, str, str], Series] = LRUCache(REMEMBERED)
        self._similar: LRUCache[tuple[Reference, str, str], tuple[set[int], float]] = LRUCache(REMEMBERED)
        """Hashes of messages: ten long texts for each of thousands of objects would be too much to keep."""
        self._budgets: LRUCache[Reference, tuple[float, float]] = LRUCache(REMEMBERED)

    def series(self, told: Told) -> Series:
        """The Event that this one belongs to, with this one counted."""
        combined = self._combined(told)
        key = (told.about, told.type, told.reason, COMBINED if combined else told.message)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(self._new_name(told.about), told.at)
        series.count += 1
        series.message = (COMBINED + told.message)[:MESSAGE] if combined else told.message
        return series

    def affords(self, about: Reference) -> bool:
        """Whether another request may be spent on this object; spends it."""
        now = self._primitives.monotonic()
        left, since = self._budgets.get(about, (float(BURST), now))
        left = min(float(BURST), left + (now - since) / REFILL)
        enough = left >= 1.0
        self._budgets[about] = (left - 1.0 if enough else left, now)
        return enough

    def _new_name(self, about: Reference) -> str:
        """A name for an Event, which begins with that of its object."""
        id = self._primitives.new_id()
        return f"{about.name[: NAME - 1 - len(id)].rstrip('.-')}.{id}"

    def _combined(self, told: Told) -> bool:
        now = self._primitives.monotonic()
        key = told.about, told.type, told.reason
        messages, last = self._similar.get(key, (set(), now))
        if now - last > SIMILAR_WITHIN:
            messages = set()
        message = hash(told.message)
        new = message not in messages
        if new and len(messages) < SIMILAR:
            messages.add(message)
            new = False
        self._similar[key] = messages, now
        return new


class Recorder:
    """Tells events. Share one between all workers."""

    def __init__(self, api: Api, *, component: str = "genericjob", primitives: Primitives, metrics: Metrics) -> None:
        self._api = api
        self._component = component
        self._primitives = primitives
        self._metrics = metrics
        self._memory = Memory(primitives)
        self._changed = primitives.condition()
        self._waiting: Turns[Sending] = Turns(lambda sending: sending.namespace)
        self._resting: dict[str, float] = {}
        """Namespaces whose turn is not before some moment."""
        self._ending = Flag(primitives)
        self._give_up_at = float("inf")
        self._thread: Thread | None = None

    def event(self, about: Reference, type: EventType, reason: str, message: str) -> None:
        """Tell something about an object. Returns at once; what cannot be kept is dropped and counted."""
        sending = Sending(Told(about, type, reason, message[:MESSAGE], self._primitives.now()))
        with self._changed:
            kept = not self._ending
            if kept:
                self._waiting.add(sending, self._primitives.monotonic())
                if len(self._waiting) > QUEUE:
                    self._waiting.remove(self._waiting.crowd())
                    kept = False
                self._changed.notify()
        if not kept:
            self._metrics.event("dropped")

    def start(self) -> None:
        """Begin to send."""
        self._thread = self._primitives.start("recorder", self._run)

    def stop(self, timeout: float) -> bool:
        """Send what is waiting, for so long at most; whether everything was tried. Later events are dropped."""
        self._give_up_at = self._primitives.monotonic() + timeout
        self._ending.set()
        with self._changed:
            self._changed.notify_all()
        return (self._thread is None or self._thread.join(timeout)) and not self._waiting

    # -------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        while (sending := self._next()) is not None:
            begin = self._primitives.monotonic()
            try:
                fate, rest = self._try(sending)
            except Exception:
                log.exception("an event could not be told: %s %s", sending.told.reason, sending.told.message)
                fate, rest = "failed", 0.0
            now = self._primitives.monotonic()
            if now - begin >= SLOW:
                rest += REST * (now - begin)
            with self._changed:
                if rest:
                    self._resting[sending.namespace] = now + rest
                if fate is None:
                    self._waiting.put_back(sending, now)
            if fate is not None:
                self._metrics.event(fate)

    def _next(self) -> Sending | None:
        """The next event, as soon as there is one whose namespace does not rest; None at the end, when nobody rests."""
        with self._changed:
            while (now := self._primitives.monotonic()) < self._give_up_at and (self._waiting or not self._ending):
                self._resting = {namespace: until for namespace, until in self._resting.items() if until > now}
                if found := self._waiting.next(() if self._ending else self._resting):
                    self._waiting.take(found[0])
                    return found[0]
                self._changed.wait(min(self._resting.values()) - now if self._waiting else None)
            left = len(self._waiting)
        for _ in range(left):
            self._metrics.event("dropped")
        return None

    def _try(self, sending: Sending) -> tuple[EventFate | None, float]:
        """Send an event. Returns what has become of it, None if it is to be tried again, and how long its namespace rests."""
        told = sending.told
        if sending.series is None:
            sending.series = self._memory.series(told)
            if not self._memory.affords(told.about):
                return "dropped", 0.0
        try:
            self._send(told, sending.series)
        except ApiError as error:
            sending.tries += 1
            passing = error.unreachable or error.throttled or error.code == 503
            if not passing or sending.tries == TRIES or self._ending:
                log.warning("event about %s %s not recorded: %s", told.about.kind, _place(told.about), error)
                return "failed", 0.0
            # THE FIRST WAIT IS RANDOM: when a server comes back, not everybody shall come at once.
            return None, RETRY * (self._primitives.random() if sending.tries == 1 else 1.0)
        return "sent", 0.0

    def _send(self, told: Told, series: Series) -> None:
        if series.exists:
            series.exists = self._update(told, series)  # Events expire, after an hour mostly; then it is made again and counts on
        if not series.exists and not self._create(told, series):
            self._update(told, series)

    def _create(self, told: Told, series: Series) -> bool:
        """Make the Event; False if it exists, because the answer to an earlier try was lost."""
        key = Key(told.about.namespace or "default", series.name)
        try:
            self._api.create(EVENTS, self._body(told, series, key), key.namespace)
        except ApiError as error:
            series.exists = error.already_exists
            if not series.exists:
                raise
            return False
        series.exists = True
        return True

    def _update(self, told: Told, series: Series) -> bool:
        """Say in the Event that it happened again; False if it is gone."""
        key = Key(told.about.namespace or "default", series.name)
        try:
            self._api.patch(EVENTS, key, {"count": series.count, "lastTimestamp": _time(told.at), "message": series.message})
        except ApiError as error:
            if not error.not_found:
                raise
            return False
        return True

    def _body(self, told: Told, series: Series, key: Key) -> dict[str, Any]:
        about = told.about
        return {
            "metadata": {"name": key.name, "namespace": key.namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": told.type,
            "reason": told.reason,
            "message": series.message,
            "count": series.count,
            "firstTimestamp": _time(series.first),
            "lastTimestamp": _time(told.at),
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }


def _place(about: Reference) -> Key:
    return Key(about.namespace, about.name)


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
