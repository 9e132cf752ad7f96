"""A cluster in memory, and processes that talk to it under the seeded scheduler.

Every call of a process to the API is two scheduling points: before it takes effect, and after. There lies everything that can happen while
a request or its answer is on its way. A process can be made to crash at one of its writes, just before or just after it took effect; what
its other threads have sent at that moment reaches the server or does not, as the test decides.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, cast

import msgspec

from genericjob.local.memory import MemoryApi
from genericjob.reconcile.api import Api, Event, Watch
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.passing import WRITES, Call, Passing
from genericjob.reconcile.resources import Key, Resource
from sim.processes import Process, SteppedThread
from sim.scheduler import Stepped

T = TypeVar("T")

OWNED = frozenset(("pods", "services", "podgroups"))
"""What jobs own, and admission may take long to let in."""
Commit = Callable[[list[Call]], Iterable[Call]]
"""Which of the writes on their way reach the server although their sender is dead, and in which order."""


class World:
    """A cluster and its processes, decided by a seed."""

    def __init__(self, seed: int) -> None:
        self.stepped = stepped = Stepped(seed)
        self.api = MemoryApi(now=stepped.now, new_uid=stepped.new_uid, seed=seed, collect="at once", condition=stepped.bell)

    def process(self, name: str, *, api: Api | None = None) -> "tuple[Process, SteppedApi]":
        """A new process, and its way to the API, which may lead through another one, such as one with faults."""
        process = self.stepped.process(name)
        return process, SteppedApi(api or self.api, process)

    def close(self) -> None:
        """End all threads."""
        self.stepped.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class SteppedApi(Passing):
    """The API, as one process sees it."""

    def __init__(self, api: Api, process: Process) -> None:
        super().__init__(api)
        self.writes = 0
        """How many writes reached the server, or were about to when the process crashed."""
        self.latency = 0.0
        """Seconds that a write is on its way at most. With some of it, whoever may send several at a time does."""
        self.admission = 0.0
        """Seconds that a create of what a job owns is on its way at most, where that is longer."""
        self.reading = 0.0
        """Seconds that the answer to a read is on its way, at most: it is old when it arrives."""
        self._process = process
        self._under_way: dict[SteppedThread, tuple[Call, Callable[[], Any]]] = {}
        self._crash_at: tuple[int, Literal["before", "after"], Commit | None] | None = None

    def crash_at(self, write: int, when: Literal["before", "after"], commit: Commit | None = None) -> None:
        """Crash the process at its write of this number (the first is 1), before or after it takes effect."""
        self._crash_at = write, when, commit

    def crash(self, commit: Commit | None = None) -> None:
        """Crash the process now."""
        me = self._process.stepped.me()  # "before" a write means that this one does not arrive
        under_way = [write for thread, write in self._under_way.items() if thread is not me]
        for chosen in commit([call for call, _ in under_way]) if commit else ():
            do = next(do for call, do in under_way if call is chosen)
            self._process.stepped.note(f"arrives {_words(chosen)}")
            with suppress(ApiError):
                do()
        self._process.crash()

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Two scheduling points, and between them the call."""
        call = _named(call)
        answer: Any = self._stepped(call, do)
        return cast(T, SteppedWatch(answer, call.resource, self._process) if call.verb == "watch" else answer)

    def _stepped(self, call: Call, do: Callable[[], T]) -> T:
        process, words = self._process, _words(call)
        number = self._depart(call, do, words) if call.verb in WRITES else 0
        if not number:
            process.pause(f"before {words}")
        try:
            answer = do()
        except ApiError as error:
            self._crash_if(number, "after")
            process.pause(f"refused {words}: {error.code} {error.reason}")
            raise
        self._crash_if(number, "after")
        if self.reading and not number:
            process.sleep(self.reading * process.random())
        process.pause(f"after {words}")
        return answer

    def _depart(self, call: Call, do: Callable[[], Any], words: str) -> int:
        """Send a write on its way; its number, once it is about to take effect."""
        thread = self._process.stepped.me()
        self._under_way[thread] = call, do
        try:
            self._process.pause(f"before {words}")
            if latency := max(self.latency, self.admission if call.verb == "create" and call.resource.plural in OWNED else 0.0):
                self._process.sleep(latency * (0.5 + 0.5 * self._process.random()))
            self.writes = number = self.writes + 1
            self._crash_if(number, "before")
        finally:
            del self._under_way[thread]
        return number

    def _crash_if(self, write: int, when: Literal["before", "after"]) -> None:
        if self._crash_at is not None and self._crash_at[:2] == (write, when):
            self.crash(self._crash_at[2])
            self._process.check()


class SteppedWatch(Generic[T]):
    """A stream: before each event another thread may go on, and who waits for one stands still in virtual time."""

    def __init__(self, watch: Watch[T], resource: Resource[T], process: Process) -> None:
        self._watch, self._resource, self._process = watch, resource, process

    @property
    def resource_version(self) -> str:
        """Where the stream stands."""
        return self._watch.resource_version

    def __iter__(self) -> Iterator[Event[T]]:
        events = iter(self._watch)
        while True:
            self._process.pause()
            event = next(events, None)
            if event is None:
                return
            self._process.stepped.note(f"event {event.type} {self._resource.plural} {_about(event.object)}@{event.resource_version}")
            yield event

    def close(self) -> None:
        """End the stream."""
        self._watch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _words(call: Call) -> str:
    return f"{call.verb} {call.resource.plural} {call.key}"


def _named(call: Call) -> Call:
    """A create by the name in its body; one that the server will generate ends in a dash."""
    if call.verb != "create":
        return call
    meta = (msgspec.json.decode(call.body) if isinstance(call.body, bytes) else call.body).get("metadata", {})
    return msgspec.structs.replace(call, key=Key(call.key.namespace, meta.get("name") or meta.get("generateName") or ""))


def _about(found: Any) -> str:
    if found is None:
        return ""
    if isinstance(found, dict):
        meta = found["metadata"]
        return str(Key(meta.get("namespace", ""), meta["name"]))
    return str(Key(found.namespace, found.name))
