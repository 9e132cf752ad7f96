"""Objects that controllers cannot decode: their server has stored something that this program does not expect.

Whether an object can be decoded depends on its bytes, and so on its version. An object is spoiled by a change, and
mended by another one. Judges, nodes and users read the server itself, and see nothing of it.

What a controller is sent instead is one of several kinds of bytes (`hostile_bytes.py`), read by the codec of the program.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from genericjob.jobs.resource import JOBS, StoredJob
from genericjob.local.memory import MemoryApi
from genericjob.reconcile.api import Created, Event, Page, Watch
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import NO_ANSWER, UNREADABLE_OBJECT, ApiError
from genericjob.reconcile.objects import Object, Pod, Unreadable
from genericjob.reconcile.passing import WRITES, Call, Passing
from genericjob.reconcile.resources import Key, Resource
from sim.hostile_bytes import NAMELESS, PLAIN, STRANGER, hostile

T = TypeVar("T")

ANNOTATION = "test.dev/odd"
PROBLEM = "it is odd"
UNUSUAL = "\x1b[2J\u2028\u202e\ufffd\U0001f600"
"""Text that is valid, and that no program expects in metadata."""


class Undecodable(Passing):
    """The API as controllers read it."""

    def __init__(self, api: MemoryApi) -> None:
        super().__init__(api)
        self._spoiled: dict[str, list[tuple[int, int | None, str]]] = {}
        """First version that cannot be decoded, the first that can be again, and how it is spoiled, by UID."""
        self._open: dict[str, tuple[Resource[Any], Key]] = {}

    def spoil(self, resource: Resource[Any], key: Key, how: str = PLAIN) -> bool:
        """Change an object so that it cannot be decoded any more; returns whether it was there."""
        try:
            meta = self.api.patch(resource, key, {"metadata": {"annotations": {ANNOTATION: f"{how} {UNUSUAL}"}}})["metadata"]
        except ApiError:
            return False
        if meta["uid"] not in self._open:
            self._open[meta["uid"]] = resource, key
            self._spoiled.setdefault(meta["uid"], []).append((int(meta["resourceVersion"]), None, how))
        return True

    def mend(self) -> None:
        """Change all of them again, so that they can be decoded."""
        for uid, (resource, key) in list(self._open.items()):
            first, _, how = self._spoiled[uid].pop()
            version = self._changed_back(resource, key, uid)
            self._spoiled[uid].append((first, version, how))
            del self._open[uid]

    def _changed_back(self, resource: Resource[Any], key: Key, uid: str) -> int | None:
        with suppress(ApiError):
            if self.api.get(resource, key)["metadata"]["uid"] == uid:
                return int(self.api.patch(resource, key, {"metadata": {"annotations": {ANNOTATION: None}}})["metadata"]["resourceVersion"])
        return None  # it is gone

    # -------------------------------------------------------------------------------------------- what is read

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass, and read its answer."""
        answer: Any = do()
        if call.verb == "watch":  # ALWAYS: it may be open for long when something is spoiled
            return cast(T, _Stream(answer, call.resource, self))
        if not self._spoiled:
            return cast(T, answer)
        if call.verb == "list":
            return cast(T, self._page(answer, call.resource))
        found, lost = self._read(answer.object if isinstance(answer, Created) else answer, call.resource)
        if lost is not None and found is None:
            raise ApiError(NO_ANSWER, UNREADABLE_OBJECT, f"{lost} cannot be read: {PROBLEM}", unknown=call.verb in WRITES)
        return cast(T, Created(found, answer.warnings) if isinstance(answer, Created) else found)

    def _page(self, page: Page[Any], resource: Resource[Any]) -> Page[Any]:
        read = [each for item in page.items for each in self._found(item, resource)]
        items, unreadable = [item for item, _ in read if item is not None], [lost for _, lost in read if lost is not None]
        return structs.replace(page, items=items, unreadable=unreadable)

    def events(self, event: Event[Any], resource: Resource[Any]) -> Iterator[Event[Any]]:
        """An event as a controller reads it, and the one of a stranger beside it if there is one."""
        for found, lost in self._found(event.object, resource):
            if lost is None:
                yield event if found is event.object else structs.replace(event, object=found)
            else:
                yield structs.replace(event, object=found, unreadable=lost, resource_version=lost.resource_version)

    def _found(self, found: Any, resource: Resource[Any]) -> Iterator[tuple[Any, Unreadable | None]]:
        """An object as it is read, and before it a stranger of which nothing can be read."""
        if isinstance(found, Object) and self._how(found) == STRANGER:
            yield codec(resource).read(NAMELESS)
            yield found, None
        else:
            yield self._read(found, resource)

    def _read(self, found: Any, resource: Resource[Any]) -> tuple[Any, Unreadable | None]:
        how = self._how(found) if isinstance(found, Object) else None
        if how in (None, STRANGER):
            return found, None
        if how != PLAIN:
            return codec(resource).read(hostile(found, how))
        lost = Unreadable(found.namespace, found.name, found.uid, found.resource_version, PROBLEM)
        return _salvaged(found, lost), lost

    def _how(self, found: Object) -> str | None:
        version = int(found.resource_version)
        spoiled = self._spoiled.get(found.uid, ())
        return next((how for first, end, how in spoiled if first <= version and (end is None or version < end)), None)


def _salvaged(found: Object, lost: Unreadable) -> Object | None:
    """What the readers of pods and jobs make of an object that they cannot decode; of services they make nothing."""
    if isinstance(found, Pod):
        nothing = {"conditions": (), "init_containers": (), "containers": ()}
        return structs.replace(found, node="", phase="Unknown", reason="Unreadable", message=lost.problem, **nothing)
    if isinstance(found, StoredJob):
        meta = msgspec.json.encode({"name": found.name})
        assert JOBS.salvage is not None
        return JOBS.salvage(lost, b'{"metadata":%b,"spec":%b,"status":%b}' % (meta, found.spec, found.status or b"null"))
    return None


class _Stream:
    """A watch, as a controller reads it."""

    def __init__(self, watch: Watch[Any], resource: Resource[Any], api: Undecodable) -> None:
        self._watch, self._resource, self._api = watch, resource, api

    @property
    def resource_version(self) -> str:
        """Where the stream stands."""
        return self._watch.resource_version

    def __iter__(self) -> Iterator[Event[Any]]:
        return (read for event in self._watch for read in self._api.events(event, self._resource))

    def close(self) -> None:
        """End the stream."""
        self._watch.close()
