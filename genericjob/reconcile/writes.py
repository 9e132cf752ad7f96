"""Writes as values, and what becomes of one.

A plan says what to write, and each write ends in a fate that a controller can act on without knowing status codes:

    done      it is as wanted: written now, or found so (an answer was lost, a cache was behind)
    waiting   the name is still taken by something that is ending: when it is gone, try again
    foreign   the name belongs to somebody else, who is left alone
    refused   the server said no, and will say no again
    failed    it did not happen, or nobody can tell: look again later
    skipped   never sent, because another of the same plan was refused or failed; or the object has changed since it was looked at

Names are decided before the write. So a create can be sent twice and happens once, and whoever does not know whether it happened can look:
after a lost answer, after a 5xx, and after "already exists", the object under the name tells. Deletes name the UID: a namesake is safe.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from .api import Api
from .errors import NO_ANSWER, ApiError
from .objects import Object
from .own_writes import OwnWrites
from .resources import Key, Resource

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

Standing = Literal["ours", "wait", "foreign"]
"""What an object under our name is to us: the one we want; ours or a predecessor's but ending; somebody else's."""

Fate = Literal["done", "waiting", "foreign", "refused", "failed", "skipped"]


class Create(msgspec.Struct, Generic[T], frozen=True):
    """An object that shall exist. `accept` says what one that exists under its name already is to us.

    The body is made when it is sent, and not kept: those of a thousand large pods would take a gigabyte.
    """

    resource: Resource[T]
    namespace: str
    name: str
    body: Callable[[], bytes]
    owner_uid: str
    accept: Callable[[T], Standing]


class Delete(msgspec.Struct, Generic[T], frozen=True):
    """An object that shall end: the one with this UID, never another of its name, and if a version is given, only as it was then."""

    resource: Resource[T]
    key: Key
    uid: str
    owner_uid: str
    grace: int | None = None
    resource_version: str = ""

    def __post_init__(self) -> None:
        if not self.uid:
            raise ValueError(f"the delete of {self.key} needs a UID")


Write = Create[Any] | Delete[Any]


class Done(msgspec.Struct, frozen=True, gc=False):
    """A write, and what became of it."""

    write: Write
    fate: Fate
    object: Object | None = None
    """As it is stored: written or found."""
    warnings: Sequence[str] = ()
    error: ApiError | None = None
    """Why it is not done."""


class Sender:
    """Sends one write, finds out what became of it, and remembers what caches must show before anybody decides again."""

    def __init__(self, api: Api, own_writes: OwnWrites) -> None:
        self._api = api
        self._own_writes = own_writes

    def send(self, write: Write) -> Done:
        """Send a write; whatever happens becomes its fate."""
        try:
            return self._create(write) if isinstance(write, Create) else self._delete(write)
        except Exception as error:
            log.exception("a write ended in a way that nobody expected: %s", _told(write))
            why = f"unexpected: {type(error).__name__}: {error}"
            return Done(write, "failed", error=ApiError(NO_ANSWER, "Unexpected", why, unknown=True))

    def _create(self, write: Create[Any]) -> Done:
        for _ in range(2):
            try:
                created = self._api.create(write.resource, write.body(), write.namespace, field_validation="Warn")
            except ApiError as error:
                if not (error.already_exists or error.unknown):
                    return _not_done(write, error)
                problem = error
            else:
                if created.object.name != write.name or write.accept(created.object) != "ours":
                    return Done(write, "refused", created.object, error=_changed(write))
                return self._stored(write, created.object, created.warnings)
            try:
                found = self._api.get(write.resource, Key(write.namespace, write.name))
            except ApiError as error:
                if error.not_found and problem.already_exists:
                    continue  # it went in between: the name is free now
                if error.unreadable:
                    return Done(write, "foreign", error=error)
                return Done(write, "failed", error=problem)
            return self._met(write, found, problem)
        return Done(write, "failed", error=problem)

    def _met(self, write: Create[Any], found: Object, problem: ApiError) -> Done:
        standing = write.accept(found)
        if standing == "ours":
            return self._stored(write, found)
        return Done(write, "waiting" if standing == "wait" else "foreign", found, error=problem)

    def _delete(self, write: Delete[Any]) -> Done:
        try:
            last = self._api.delete(write.resource, write.key, uid=write.uid, resource_version=write.resource_version, grace=write.grace)
        except ApiError as error:
            if error.not_found:
                return Done(write, "done")
            if error.conflict and write.resource_version:
                return Done(write, "skipped", error=error)
            if not (error.conflict or error.unknown):
                return _not_done(write, error)
            problem = error
        else:
            return self._stored(write, last)
        try:
            found: Object = self._api.get(write.resource, write.key)
        except ApiError as error:
            return Done(write, "done") if error.not_found else Done(write, "failed", error=problem)
        if found.uid != write.uid:
            return Done(write, "done")
        return self._stored(write, found) if found.deleted else Done(write, "failed", found, error=problem)

    def _stored(self, write: Write, stored: Object | None, warnings: Sequence[str] = ()) -> Done:
        if stored is not None:
            # BEFORE THE OUTCOME IS KNOWN TO ANYBODY: who acts on it must find the caches behind.
            self._own_writes.record(write.owner_uid, write.resource, stored.namespace, stored.resource_version)
        return Done(write, "done", stored, warnings)


def _changed(write: Create[Any]) -> ApiError:
    """What to report of an object that was stored in a form in which it would not be found again, so that it would be created for ever."""
    what = f"{write.resource.kind} {write.name}"
    return ApiError(NO_ANSWER, "Changed", f"admission has changed the name, owner, labels or annotations of {what} by which it is known")


def _not_done(write: Write, error: ApiError) -> Done:
    return Done(write, "refused" if error.refused else "failed", error=error)


def _told(write: Write) -> str:
    if isinstance(write, Create):
        return f"create of {write.resource.full_name} {Key(write.namespace, write.name)}"
    return f"delete of {write.resource.full_name} {write.key}"
