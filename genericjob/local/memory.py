"""The API port in memory: what a real API server (v1.34) would answer, without one.

The verbs read requests, find the table of the kind and hand over: writes to `writing.py`, lists to `paging.py`, streams to `watching.py`.
One lock guards everything; objects are decoded outside it, by the same codecs that read a real server's answers.

What differs from a real cluster, on purpose: managedFields are not kept; server-side apply and dry runs do not exist; admission is the
life cycle of namespaces; CEL is not evaluated (`schema.py`), and `policies` stand for it; built-in kinds are known in outline
(`shapes.py`); an event expires when somebody reads or writes events.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address
from itertools import count
from threading import Condition, RLock
from types import MappingProxyType, TracebackType
from typing import Any, Literal, TypeVar

import msgspec

from genericjob.reconcile import warning_header
from genericjob.reconcile.api import Body, Created, FieldValidation, Operations, Page, Propagation
from genericjob.reconcile.codec import codec
from genericjob.reconcile.resources import Key, Resource

from . import bodies, builtin, custom, names, paging, patches, refusals
from .drafts import Draft, decode
from .kinds import Kind, Policy, plain
from .received import read
from .selectors import selector
from .store import HISTORY_BYTES, Store, Table, Version
from .views import presented
from .watching import Horizon, MemoryWatch
from .writing import NAMESPACES, Writer, random_uid

T = TypeVar("T")

Collecting = Literal["at once", "when asked"]

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
FIRST_ADDRESS = IPv4Address("10.96.0.10")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class MemoryApi:
    """The port, in this process. Share one between threads.

    `now`, `new_uid` and `seed` (of generated names) make runs repeatable, `condition` makes what watches wait on, `history` and
    `history_bytes` are how many changes of a kind can be watched, and `collect` says when the controller manager's work is done: after
    every write, or in `collect()`. `policies`, by group and plural, stand for rules that a definition has in CEL.
    """

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = _utc_now,
        new_uid: Callable[[], str] = random_uid,
        seed: int | None = None,
        collect: Collecting = "at once",
        history: int = 10_000,
        history_bytes: int = HISTORY_BYTES,
        condition: Callable[[Any], Condition] = Condition,
        policies: Mapping[tuple[str, str], Policy] = MappingProxyType({}),
    ) -> None:
        self._now = now
        self._lock = RLock()
        self._store = Store(history=history, history_bytes=history_bytes, condition=lambda: condition(self._lock))
        self._horizon = Horizon(lambda: self._store.version)
        self._writer = Writer(self._store, policies, now=now, new_uid=new_uid, seed=seed)
        self._writing = _Writing(self._lock, self._writer.collector.collect if collect == "at once" else lambda: None)
        addresses = count(int(FIRST_ADDRESS))
        for kind in (*builtin.kinds(lambda: str(IPv4Address(next(addresses)))), custom.definition_kind()):
            self._store.add([kind], kind.version)
        spaces = self._store.tables[NAMESPACES]
        for name in FIRST_NAMESPACES:
            self._writer.create(spaces, spaces.kind, bodies.typed({"metadata": {"name": name}}, spaces.kind)[0])

    # -------------------------------------------------------------------------------------------- the port: reading

    def get(self, resource: Resource[T], key: Key) -> T:
        """Read one object."""
        with self._lock:
            table, kind = self._find(resource)
            found = _existing(table, kind, _placed(kind, key))
        return codec(resource).one(presented(found, kind))

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
        if continue_token:
            resource_version = ""  # the token remembers its own
        # A LIST OF "0" IS ANSWERED WHOLE: the real server's cache does not page.
        limit = 0 if resource_version == "0" and not continue_token else max(0, limit)
        with self._lock:
            table, kind = self._find(resource)
            chosen = selector(labels, fields, kind.fields)
            here = paging.place(continue_token, resource_version, limit, newest=self._store.version, cached=self._horizon.version)
            found = table.listed(namespace if kind.namespaced else "", here.version, keep=limit > 0)
        return paging.page(found, kind, here, selector=chosen, limit=limit, read=codec(resource).read)

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
    ) -> MemoryWatch[T]:
        """Open a stream."""
        with self._lock:
            table, kind = self._find(resource)
            chosen = selector(labels, fields, kind.fields)
            if resource_version and not paging.is_version(resource_version):
                raise refusals.unexpected(f'resourceVersion: Invalid value: "{resource_version}"', wrote=False)
            return MemoryWatch(
                table,
                kind,
                codec(resource),
                self._horizon,
                self._now,
                namespace=namespace if kind.namespaced else "",
                selector=chosen,
                resource_version=resource_version,
                timeout=timeout,
                bookmarks=bookmarks,
                initial_events=initial_events,
            )

    # -------------------------------------------------------------------------------------------- the port: writing

    def create(
        self, resource: Resource[T], body: Body, namespace: str = "", *, field_validation: FieldValidation | None = None
    ) -> Created[T]:
        """Store a new object."""
        with self._writing:
            table, kind = self._find(resource)
            if kind.namespaced and not namespace:
                raise refusals.not_allowed(f"{kind.full_name} are created in a namespace")
            draft, remarks = bodies.sent(body, kind, _validation(field_validation))
            _settle(draft, kind, namespace)
            self._writer.admit(table, kind, namespace, draft.meta.name)
            self._writer.name(table, draft)
            found = self._writer.create(table, kind, draft)
            if kind.schema is not None:
                remarks = [*remarks, *names.finalizer_remarks(draft.meta.finalizers)]
        return Created(codec(resource).one(presented(found, kind)), warning_header.sent(remarks) if remarks else remarks)

    def replace(self, resource: Resource[T], key: Key, body: Body, *, field_validation: FieldValidation | None = None) -> T:
        """Store a new version of everything but the status."""
        return self._replace(resource, key, body, "", field_validation)

    def replace_status(self, resource: Resource[T], key: Key, body: Body) -> T:
        """Store a new status."""
        return self._replace(resource, key, body, "status")

    def _replace(self, resource: Resource[T], key: Key, body: Body, subresource: str, field_validation: FieldValidation | None = None) -> T:
        with self._writing:
            table, kind = self._find(resource, subresource)
            key = _placed(kind, key)
            draft, _ = bodies.sent(body, kind, _validation(field_validation), subresource=subresource)
            _check_name(draft, key)
            _settle(draft, kind, key.namespace)
            found = table.get(key)
            prepare = kind.creating_by_status if subresource else kind.creating
            if found is None and not (kind.create_on_update and prepare):
                raise refusals.not_found(kind.full_name, key.name)
            _check_uid(draft, found, kind)
            if found is not None:
                data = self._writer.update(found, kind, draft, subresource)
            else:
                self._writer.admit(table, kind, key.namespace, key.name)
                draft.meta.resource_version = ""
                data = presented(self._writer.create(table, kind, draft, prepare), kind)
        return codec(resource).one(data)

    def patch(
        self,
        resource: Resource[T],
        key: Key,
        patch: Body | Operations,
        *,
        subresource: Literal["", "status"] = "",
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Change some fields."""
        with self._writing:
            table, kind = self._find(resource, subresource)
            key = _placed(kind, key)
            found = _existing(table, kind, key)
            document, touched = _patched(decode(presented(found, kind)), patch)
            draft = bodies.patched(document, kind, touched, _validation(field_validation))
            _check_name(draft, key)
            _settle(draft, kind, key.namespace)
            data = self._writer.update(found, kind, draft, subresource)
        return codec(resource).one(data)

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
        with self._writing:
            table, kind = self._find(resource)
            key = _placed(kind, key)
            if kind.place == NAMESPACES and key.name in IMMORTAL:
                raise refusals.forbidden(kind, key.name, "this namespace may not be deleted")
            found = _existing(table, kind, key)
            if propagation not in (None, "Background", "Foreground", "Orphan"):
                raise refusals.bad_option("propagationPolicy", propagation)
            _check_preconditions(found, kind, uid, resource_version)
            last, gone = self._writer.delete(found, kind, grace=grace, propagation=propagation)
        return codec(resource).one(presented(last, kind)) if not gone or kind.returns_deleted else None

    # -------------------------------------------------------------------------------------------- beside the port

    def register(self, kind: Kind | Resource[Any], *, status: bool = False) -> None:
        """Serve another kind: one with rules, or a resource without any."""
        known = kind if isinstance(kind, Kind) else plain(kind, status=status)
        with self._lock:
            self._store.add([known], known.version)

    def kinds(self) -> Sequence[Kind]:
        """All that is served, in each version."""
        with self._lock:
            return [kind for table in self._store.tables.values() for kind in table.kinds.values()]

    def bind(self, key: Key, node: str) -> None:
        """Put a pod on a node: what a scheduler does through `pods/binding`."""
        with self._writing:
            table = self._store.tables["", "pods"]
            self._writer.bind(_existing(table, table.kind, key), node)

    def collect(self) -> None:
        """Do the controller manager's work until nothing is left to do."""
        with self._lock:
            self._writer.collector.collect()

    def bookmark(self) -> None:
        """Send a bookmark to every watch that takes them."""
        self._tell_watches(bookmarks=1)

    def cut_watches(self) -> None:
        """End every open watch, quietly, as a restart of the server would."""
        self._tell_watches(cuts=1)

    def tick(self) -> None:
        """Let watches look at the clock: to be called when an injected clock was moved."""
        self._tell_watches()

    def compact(self) -> None:
        """Forget the past: older resourceVersions and continue tokens expire."""
        with self._lock:
            for table in self._store.tables.values():
                table.compact(self._store.version)

    def lag(self) -> None:
        """From now on watches, and lists of "0", see nothing new: a server whose cache stands still."""
        with self._lock:
            self._horizon.held = self._store.version

    def catch_up(self) -> None:
        """End the lag."""
        with self._lock:
            self._horizon.held = None
        self._tell_watches()

    @property
    def resource_version(self) -> str:
        """The newest one."""
        return str(self._store.version)

    # -------------------------------------------------------------------------------------------- inside

    def _find(self, resource: Resource[Any], subresource: str = "") -> tuple[Table, Kind]:
        table = self._store.tables.get((resource.group, resource.plural))
        kind = table.kinds.get(resource.version) if table else None
        if table is None or kind is None or (subresource and not (subresource == "status" and kind.status)):
            raise refusals.no_such_kind(f"{resource.full_name}/{subresource}" if subresource else resource.full_name)
        if table.due:
            self._writer.expire(table)
        return table, kind

    def _tell_watches(self, *, bookmarks: int = 0, cuts: int = 0) -> None:
        with self._lock:
            self._horizon.bookmarks += bookmarks
            self._horizon.cuts += cuts
            for table in self._store.tables.values():
                table.changed.notify_all()


class _Writing:
    """The lock, and what is done before it is given back."""

    def __init__(self, lock: RLock, finish: Callable[[], None]) -> None:
        self._lock = lock
        self._finish = finish

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._finish()
        finally:
            self._lock.release()


# ------------------------------------------------------------------------------------------------ questions about a request


def _validation(asked: FieldValidation | None) -> FieldValidation:
    if asked not in (None, "Ignore", "Warn", "Strict"):
        raise refusals.bad_option("fieldValidation", asked)
    return asked or "Warn"


def _placed(kind: Kind, key: Key) -> Key:
    if not key.name:
        raise ValueError("a request for one object needs its name")
    return key if kind.namespaced else Key("", key.name)


def _existing(table: Table, kind: Kind, key: Key) -> Version:
    found = table.get(key)
    if found is None:
        raise refusals.not_found(kind.full_name, key.name)
    return found


def _settle(draft: Draft, kind: Kind, namespace: str) -> None:
    """The namespace of the body must be that of the address; it may be left out."""
    meta = draft.meta
    if not kind.namespaced:
        meta.namespace = ""
    elif meta.namespace and meta.namespace != namespace:
        raise refusals.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta.namespace = namespace


def _check_name(draft: Draft, key: Key) -> None:
    if not draft.meta.name:
        raise refusals.bad_request(f"the name of the object ({key.name} based on URL) was undeterminable: name must be provided")
    if draft.meta.name != key.name:
        raise refusals.bad_request(f"the name of the object ({draft.meta.name}) does not match the name on the URL ({key.name})")


def _check_uid(draft: Draft, found: Version | None, kind: Kind) -> None:
    """A UID in the body of a replace is a precondition, even of an object that is not there."""
    if draft.meta.uid and (found is None or draft.meta.uid != found.uid):
        why = f"Precondition failed: UID in precondition: {draft.meta.uid}, UID in object meta: {found.uid if found else ''}"
        raise refusals.conflict(kind, draft.meta.name, why)


def _check_preconditions(found: Version, kind: Kind, uid: str, resource_version: str) -> None:
    if uid and uid != found.uid:
        raise refusals.conflict(kind, found.key.name, f"the UID in the precondition ({uid}) does not match the UID in record ({found.uid})")
    if resource_version and resource_version != str(found.version):
        why = f"the ResourceVersion in the precondition ({resource_version}) does not match the ResourceVersion in record ({found.version})"
        raise refusals.conflict(kind, found.key.name, why)


def _patched(document: Any, patch: Body | Operations) -> tuple[Any, Collection[str] | None]:
    """Apply a merge patch (a mapping, or bytes) or a JSON patch; returns also which fields of the document it touched, None for all."""
    try:
        change = read(patch if isinstance(patch, bytes) else msgspec.json.encode(patch))
    except (ValueError, TypeError, RecursionError) as error:
        raise refusals.bad_request(f"error decoding patch: {error}") from None
    if isinstance(patch, bytes | Mapping):
        if not isinstance(change, dict):
            raise refusals.bad_request("error decoding patch: it is not a JSON object")
        return patches.merge(document, change), change.keys()
    if not isinstance(change, list) or not all(map(patches.is_operation, change)):
        raise refusals.bad_request("error decoding patch: it is not a list of operations")
    try:
        return patches.apply(document, change), patches.touched(change)
    except patches.PatchError as error:
        raise refusals.does_not_apply(error) from None
