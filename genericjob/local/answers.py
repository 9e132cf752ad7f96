"""The API in memory as a server answers for it: from the address and body of a request to a status and bytes.

Sockets are another's business (`serving.py`). The verbs are those of the port, and what the port does not know is refused in one sentence:
server-side apply, dry runs, deleting a whole collection, and strategic merge patches that are more than a merge.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import msgspec

from genericjob.reconcile.api import Event
from genericjob.reconcile.codec import INITIAL_EVENTS_END
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key, Resource

from . import discovery, refusals
from .arrivals import SECOND, nanoseconds
from .discovery import DEFINITIONS, Definitions
from .kinds import Kind
from .memory import MemoryApi
from .outputs import Outputs, Wanted
from .printing import BUILT_IN, Printer, printer
from .requests import (
    INTO_PODS,
    PROTOBUF,
    TEXT,
    Answer,
    Preconditions,
    Request,
    answered,
    delete_options,
    patch_in,
    refusal,
    reviewed,
    status_of,
    target_in,
)
from .watching import MemoryWatch

LONGEST_WATCH = 3600.0
"""Seconds of a watch that names none."""
_PROBES = frozenset(("readyz", "healthz", "livez"))
_OF_NAMESPACES = frozenset(("status", "finalize"))


class Answers:
    """Answers requests. Share one between threads."""

    def __init__(self, api: MemoryApi, outputs: Outputs, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._api, self._outputs, self._now = api, outputs, now
        self._resources: dict[tuple[str, str, str], Resource[bytes]] = {}

    def to(self, request: Request) -> Answer:
        """The answer to a request, a refusal included."""
        try:
            return self._route(request, [unquote(part) for part in request.path.strip("/").split("/")])
        except ApiError as error:
            return refusal(error)

    # -------------------------------------------------------------------------------------------- addresses

    def _route(self, request: Request, parts: Sequence[str]) -> Answer:
        if request.body and request.content.startswith(PROTOBUF):
            raise ApiError(415, "UnsupportedMediaType", "a run on this machine reads JSON, not protobuf")
        match parts:
            case [probe, *_] if probe in _PROBES:
                return Answer(body=b"ok", content=TEXT)
            case ["api", version, _, *_]:
                return self._objects(request, "", version, parts[2:])
            case ["apis", "authentication.k8s.io" | "authorization.k8s.io", "v1", review]:
                return reviewed(request, review)
            case ["apis", group, version, _, *_]:
                return self._objects(request, group, version, parts[3:])
        found = self._told(parts)
        if found is None:
            raise refusals.no_such_kind(request.path)
        if request.method != "GET":
            raise refusals.not_allowed("this can only be read")
        return answered(found)

    def _told(self, parts: Sequence[str]) -> Mapping[str, Any] | None:
        """What the server says of itself."""
        match parts:
            case ["version"]:
                return discovery.version()
            case ["api"]:
                return discovery.core_versions()
            case ["apis"]:
                return discovery.groups(self._api.kinds())
            case ["api", version]:
                return discovery.resources("", version, self._api.kinds(), self._definitions())
            case ["openapi", "v3"]:
                return discovery.openapi_paths(self._api.kinds())
            case ["openapi", "v3", "api", version]:
                return discovery.openapi("", version, self._api.kinds(), self._definitions())
            case ["openapi", "v3", "apis", group, version]:
                return discovery.openapi(group, version, self._api.kinds(), self._definitions())
            case ["apis", group]:
                return discovery.group(group, self._api.kinds())
            case ["apis", group, version]:
                return discovery.resources(group, version, self._api.kinds(), self._definitions())
        return None

    def _objects(self, request: Request, group: str, version: str, rest: Sequence[str]) -> Answer:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
            namespace, rest = rest[1], rest[2:]
        plural, name, section, *more = (*rest, "", "")
        places = (kind for kind in self._api.kinds() if (kind.group, kind.version, kind.plural) == (group, version, plural))
        kind = next(places, None)
        if kind is None or any(more) or (namespace and not kind.namespaced) or (name and kind.namespaced and not namespace):
            raise refusals.no_such_kind(request.path)
        if request.query.get("dryRun"):
            raise refusals.bad_request("a run on this machine knows no dry runs")
        key = Key(namespace, name)
        if section and section != "status":
            return self._section(request, kind, key, section)
        return self._one(request, kind, key, section) if name else self._many(request, kind, namespace)

    def _resource(self, kind: Kind) -> Resource[bytes]:
        """A kind whose objects stay the bytes they are."""
        place = kind.group, kind.version, kind.plural
        found = self._resources.get(place)
        if found is None:
            found = Resource(*place, kind.kind, msgspec.Raw, bytes, kind.namespaced)
            self._resources[place] = found
        return found

    def _definitions(self) -> Definitions:
        return discovery.by_place(self._api.list(DEFINITIONS).items)

    # -------------------------------------------------------------------------------------------- one object

    def _one(self, request: Request, kind: Kind, key: Key, section: str) -> Answer:
        resource, status = self._resource(kind), section == "status"
        match request.method:
            case "GET":
                found = self._api.get(resource, key)
                return self._table(kind, [found], {}, request) if request.wants_table else Answer(body=found)
            case "PUT" if status:
                return Answer(body=self._api.replace_status(resource, key, request.body))
            case "PUT":
                return Answer(body=self._api.replace(resource, key, request.body, field_validation=request.validation))
            case "PATCH":
                patch = patch_in(request, custom=kind.schema is not None)
                changed = self._api.patch(resource, key, patch, subresource="status" if status else "", field_validation=request.validation)
                return Answer(body=changed)
            case "DELETE" if not status:
                return self._delete(resource, key, request)
        raise refusals.not_allowed(f"{request.method} is not known here")

    def _delete(self, resource: Resource[bytes], key: Key, request: Request) -> Answer:
        options = delete_options(request)
        if options.dry_run:
            raise refusals.bad_request("a run on this machine knows no dry runs")
        conditions = options.preconditions or Preconditions()
        last = self._api.delete(
            resource,
            key,
            uid=conditions.uid or "",
            resource_version=conditions.resource_version or "",
            grace=options.grace_period_seconds,
            propagation=options.propagation_policy or None,
        )
        if last is not None:
            return Answer(body=last)
        details = {"name": key.name, "group": resource.group, "kind": resource.plural}
        return answered({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})

    def _section(self, request: Request, kind: Kind, key: Key, section: str) -> Answer:
        """What pods have besides themselves."""
        if kind.place == ("", "pods") and key.name:
            if section == "log" and request.method == "GET":
                printed = self._outputs.read(
                    key,
                    Wanted(request.number("tailLines"), self._since(request), request.says("timestamps")),
                    container=request.query.get("container", ""),
                    previous=request.says("previous"),
                    follow=request.says("follow"),
                )
                return Answer(content=TEXT, stream=printed, stop=printed.stop)
            if section == "binding" and request.method == "POST":
                self._api.bind(key, target_in(request.body))
                return answered({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
            if section in INTO_PODS:
                self._api.get(self._resource(kind), key)
                why = "the rank's programs are ordinary processes of this machine"
                raise ApiError(501, "NotImplemented", f"{section} is not possible in a local run: {why}")
        raise refusals.no_such_kind(f"{kind.full_name}/{section}")

    def _since(self, request: Request) -> int | None:
        """From when on lines of a log are wanted, in nanoseconds."""
        seconds, text = request.number("sinceSeconds"), request.query.get("sinceTime", "")
        if seconds is not None and text:
            raise refusals.bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified")
        if seconds is not None:
            return nanoseconds(self._now()) - seconds * SECOND
        if not text:
            return None
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise refusals.bad_request(f"sinceTime: {text!r} is no time") from None
        return nanoseconds(found if found.tzinfo else found.replace(tzinfo=UTC))

    # -------------------------------------------------------------------------------------------- many objects

    def _many(self, request: Request, kind: Kind, namespace: str) -> Answer:
        resource = self._resource(kind)
        if request.method == "POST":
            created = self._api.create(resource, request.body, namespace, field_validation=request.validation)
            return Answer(201, created.object, warnings=created.warnings)
        if request.method != "GET":
            raise refusals.not_allowed(f"{request.method} is not known here for all {kind.plural} at once")
        if request.says("watch"):
            return self._watch(request, kind, namespace)
        page = self._api.list(
            resource,
            namespace,
            labels=request.query.get("labelSelector", ""),
            fields=request.query.get("fieldSelector", ""),
            limit=request.number("limit") or 0,
            continue_token=request.query.get("continue", ""),
            resource_version=request.query.get("resourceVersion", ""),
        )
        meta: dict[str, Any] = {"resourceVersion": page.resource_version}
        if page.continue_token:
            meta["continue"] = page.continue_token
        if page.remaining is not None:
            meta["remainingItemCount"] = page.remaining
        if request.wants_table:
            return self._table(kind, page.items, meta, request)
        head = msgspec.json.encode({"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": meta})
        return Answer(body=head[:-1] + b',"items":[' + b",".join(page.items) + b"]}")

    def _watch(self, request: Request, kind: Kind, namespace: str) -> Answer:
        def open(version: str) -> MemoryWatch[bytes]:
            return self._api.watch(
                self._resource(kind),
                namespace,
                resource_version=version,
                labels=request.query.get("labelSelector", ""),
                fields=request.query.get("fieldSelector", ""),
                timeout=float(request.number("timeoutSeconds") or LONGEST_WATCH),
                bookmarks=request.says("allowWatchBookmarks"),
                initial_events=request.says("sendInitialEvents"),
            )

        watching = _Watching(open, request.query.get("resourceVersion", ""))
        show = self._shown(kind, request) if request.wants_table else bytes
        return Answer(stream=_lines(watching.events(), kind, show), stop=watching.stop)

    # -------------------------------------------------------------------------------------------- tables

    def _printer(self, kind: Kind) -> Printer:
        if kind.place in BUILT_IN:
            return BUILT_IN[kind.place]
        definition = self._definitions().get(kind.place)
        return printer(definition.columns(kind.version) if definition else ())

    def _table(self, kind: Kind, objects: Iterable[bytes], metadata: Mapping[str, Any], request: Request) -> Answer:
        whole = request.query.get("includeObject") == "Object"
        return answered(self._printer(kind).table(map(msgspec.json.decode, objects), metadata, self._now(), whole=whole))

    def _shown(self, kind: Kind, request: Request) -> Callable[[bytes], bytes]:
        columns, whole = self._printer(kind), request.query.get("includeObject") == "Object"

        def show(data: bytes) -> bytes:
            found = msgspec.json.decode(data)
            meta = {"resourceVersion": found["metadata"]["resourceVersion"]}
            return msgspec.json.encode(columns.table([found], meta, self._now(), whole=whole))

        return show


# ------------------------------------------------------------------------------------------------ streams


class _Watching:
    """A watch that tells everything up to the moment it is stopped: how a job ended is often the last thing that a run says."""

    def __init__(self, open: Callable[[str], MemoryWatch[bytes]], version: str) -> None:
        self._open = open
        self._watch = open(version)
        self._stopped = False

    def stop(self) -> None:
        """Tell what has happened, and no more; from any thread."""
        self._stopped = True
        self._watch.close()

    def events(self) -> Iterator[Event[bytes]]:
        """What happens."""
        with self._watch:
            yield from self._watch
        if self._stopped:
            with self._open(self._watch.resource_version) as rest:
                yield from rest.ready()


def _lines(events: Iterator[Event[bytes]], kind: Kind, show: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Events as the lines of a stream; an error is the last one."""
    try:
        for event in events:
            if event.object is not None:
                yield _line(event.type, show(event.object))
            else:
                ended = {"annotations": {INITIAL_EVENTS_END: "true"}} if event.initial_events_end else {}
                meta = {"resourceVersion": event.resource_version, **ended}
                yield _line("BOOKMARK", msgspec.json.encode({"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}))
    except ApiError as error:
        yield _line("ERROR", msgspec.json.encode(status_of(error)))


def _line(type: str, object: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type.encode(), object)
