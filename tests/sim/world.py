"""A cluster in memory, and processes that talk to it under the seeded scheduler.

Every call of a process to the API is two scheduling points: before it takes effect, and after. There lies everything that can happen while
a request or its answer is on its way. A process can be made to crash at one of its writes, just before or just after it took effect; what
its other threads have sent at that moment reaches the server or does not, as the test decides.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import msgspec

from genericjob.local.faults import WRITES, Call
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.api import Api, Body, Created, Event, FieldValidation, Operations, Page, Propagation, Watch
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key, Resource
from sim.processes import Process, SteppedThread
from sim.scheduler import Stepped

T = TypeVar("T")

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


class SteppedApi:
    """The API, as one process sees it."""

    def __init__(self, api: Api, process: Process) -> None:
        self.api = api
        self.writes = 0
        """How many writes reached the server, or were about to when the process crashed."""
        self._process = process
        self._under_way: dict[SteppedThread, tuple[Call, Callable[[], Any]]] = {}
        self._crash_at: tuple[int, Literal["before", "after"], Commit | None] | None = None

    def crash_at(self, write: int, when: Literal["before", "after"], commit: Commit | None = None) -> None:
        """Crash the process at its write of this number (the first is 1), before or after it takes effect."""
        self._crash_at = write, when, commit

    def crash(self, commit: Commit | None = None) -> None:
        """Crash the process now."""
        under_way = list(self._under_way.values())
        for chosen in commit([call for call, _ in under_way]) if commit else ():
            do = next(do for call, do in under_way if call is chosen)
            self._process.stepped.note(f"arrives {_words(chosen)}")
            with suppress(ApiError):
                do()
        self._process.crash()

    def _through(self, call: Call, do: Callable[[], T]) -> T:
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
        process.pause(f"after {words}")
        return answer

    def _depart(self, call: Call, do: Callable[[], Any], words: str) -> int:
        """Send a write on its way; its number, once it is about to take effect."""
        thread = self._process.stepped.me()
        self._under_way[thread] = call, do
        try:
            self._process.pause(f"before {words}")
        finally:
            del self._under_way[thread]
        self.writes = number = self.writes + 1
        self._crash_if(number, "before")
        return number

    def _crash_if(self, write: int, when: Literal["before", "after"]) -> None:
        if self._crash_at is not None and self._crash_at[:2] == (write, when):
            self.crash(self._crash_at[2])
            self._process.check()

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
    ) -> "SteppedWatch[T]":
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
        return SteppedWatch(watch, resource, self._process)

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        return self._through(
            Call("create", resource, Key(namespace, _name(body)), body),
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


def _name(body: Body) -> str:
    """The name in a body that is about to be created; one that the server will generate ends in a dash."""
    meta = (msgspec.json.decode(body) if isinstance(body, bytes) else body).get("metadata", {})
    return meta.get("name") or meta.get("generateName") or ""


def _about(found: Any) -> str:
    if found is None:
        return ""
    if isinstance(found, dict):
        meta = found["metadata"]
        return str(Key(meta.get("namespace", ""), meta["name"]))
    return str(Key(found.namespace, found.name))
