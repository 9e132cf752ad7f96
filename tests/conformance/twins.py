"""The same operations on the real server and on the one in memory: whatever one answers, the other must answer, too.

Identities and versions differ by value, so an operation names them by order ("the version before the last of widget a"), and answers are
compared with the order in their place. At the end the watch streams of both are compared, from the beginning and from a version in between.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from conformance.kinds import NODE
from conformance.sending import (
    KINDS,
    ODD_STATUSES,
    OTHER_UID,
    OWN,
    bodies,
    build,
    changes,
    conditions,
    kinds,
    names,
    operations,
    raw,
    with_bytes,
)
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key

LAST_NAME = "zzz"
"""Created in every kind at the very end: when a watch has told it, it has told everything."""

EMPTY = {"labels": {"x": "1"}, "finalizers": None, "spec": {}, "status": None, "word": "x"}


class Sighting(NamedTuple):
    uid: str
    version: str


class Side:
    """One implementation, and what has been seen of it."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.api = world.api
        self.namespace: str = world.namespace
        self.order: dict[str, int] = {}
        self.sightings: dict[tuple[str, str], list[Sighting]] = {}
        self.last: dict[tuple[str, str], dict[str, Any]] = {}
        self.watches = {kind: world.watch(resource, resource_version=self.now(resource)) for kind, resource in KINDS.items()}

    def now(self, resource: Any) -> str:
        return str(self.api.list(resource, self.namespace).resource_version)

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def see(self, kind: str, thing: dict[str, Any]) -> dict[str, Any]:
        """Note an object that was answered, and return what must be the same on both sides."""
        meta = thing["metadata"]
        sighting = Sighting(meta["uid"], meta["resourceVersion"])
        seen = self.sightings.setdefault((kind, meta["name"]), [])
        self.last[kind, meta["name"]] = thing
        if not seen or seen[-1] != sighting:
            seen.append(sighting)
        return {**view(kind, thing), "uid": self.index(sighting.uid), "version": self.index(sighting.version)}

    def index(self, value: str) -> int:
        return self.order.setdefault(value, len(self.order))

    def rebuild(self, kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """An object to replace what is there. Pods carry fields that a real server filled in, so they are changed as they were read."""
        made, last = build(kind, name, body), self.last.get((kind, name))
        if kind != "Pod" or last is None:
            return made
        spec = {**last["spec"], "containers": [{**last["spec"]["containers"][0], "image": body["word"]}]}
        return {**made, "spec": spec, "status": last["status"]}

    def past(self, kind: str, name: str, back: int) -> Sighting:
        """What was seen of an object `back` sightings ago; something impossible if it was never seen."""
        seen = self.sightings.get((kind, name), [])
        return seen[-back] if len(seen) >= back else Sighting(OTHER_UID, "1")


def view(kind: str, thing: dict[str, Any]) -> dict[str, Any]:
    """The part of an object that does not depend on who serves it."""
    meta = thing["metadata"]
    same = {
        name: meta.get(name)
        for name in ("name", "labels", "annotations", "finalizers", "generation", "deletionGracePeriodSeconds", "ownerReferences")
    }
    same["dying"] = "deletionTimestamp" in meta
    spec = thing.get("spec", {})
    match kind:
        case "Widget" | "Gadget":
            same |= {"spec": thing.get("spec"), "status": thing.get("status")}
        case "ConfigMap":
            same |= {"data": thing.get("data")}
        case "Pod":
            same |= {"phase": thing["status"].get("phase"), "reason": thing["status"].get("reason"), "node": spec.get("nodeName")}
            same |= {"image": spec["containers"][0]["image"], "grace": spec.get("terminationGracePeriodSeconds", 30)}
        case "Service":
            same |= {"ports": [(port.get("name"), port["port"]) for port in spec.get("ports") or ()], "ip": spec["clusterIP"]}
        case "Lease":
            same |= {"spec": thing.get("spec")}
    return same


# ------------------------------------------------------------------------------------------------ the machine


class Twins(RuleBasedStateMachine):
    """Both sides do the same, and must answer the same."""

    sent = 0
    """How many operations each side got, over all runs."""
    agreed = 0
    """How many of them both sides accepted; the others both refused."""

    def __init__(self, worlds: Callable[[], tuple[Any, Any]]) -> None:
        super().__init__()
        self.sides = [Side(world) for world in worlds()]

    def both(self, kind: str, act: Callable[[Side], Any]) -> None:
        Twins.sent += 1
        memory, server = (self.outcome(side, kind, act) for side in self.sides)
        assert memory == server, f"memory: {memory}\nserver: {server}"
        Twins.agreed += not isinstance(memory, tuple)

    def outcome(self, side: Side, kind: str, act: Callable[[Side], Any]) -> Any:
        try:
            answer = act(side)
        except ApiError as error:
            return error.code, error.reason
        return side.see(kind, answer) if isinstance(answer, dict) and "metadata" in answer else answer

    @initialize()
    def begin(self) -> None:
        """Something to work on, or most operations would meet nothing."""
        for kind in KINDS:
            body = {"labels": {"x": "1"}, "finalizers": None, "spec": {"size": 1}, "status": None, "word": "x"}
            self.create(kind, "a", body, None)

    @rule(kind=kinds, name=names, body=bodies(), validation=st.sampled_from([None, "Ignore", "Warn", "Strict"]))
    def create(self, kind: str, name: str, body: dict[str, Any], validation: Any) -> None:
        def act(side: Side) -> Any:
            made = side.api.create(KINDS[kind], build(kind, name, body), side.namespace, field_validation=validation)
            return {**side.see(kind, made.object), "warnings": sorted(made.warnings)}

        self.both(kind, act)

    @rule(kind=kinds, name=names, body=bodies(), version=conditions, uid=conditions)
    def replace(self, kind: str, name: str, body: dict[str, Any], version: str, uid: str) -> None:
        if ignored(kind, body["status"]):
            body = {**body, "status": None}
        self.both(
            kind,
            lambda side: side.api.replace(
                KINDS[kind], side.key(name), self.conditional(side, kind, name, side.rebuild(kind, name, body), version, uid)
            ),
        )

    @rule(kind=kinds, name=names, body=bodies(), version=conditions)
    def replace_status(self, kind: str, name: str, body: dict[str, Any], version: str) -> None:
        status = {"phase": {"x": "Running", "y": "Failed", "z": "Pending"}[body["word"]]} if kind == "Pod" else body["status"]
        if kind not in OWN and is_odd(status):
            status = None  # of the statuses of built-in kinds the memory API knows the outline: it does not read what is in conditions

        def act(side: Side) -> Any:
            # A REAL SERVER NOTES WHO WRITES WHICH FIELD, even where the write is ignored, and may count that as a change.
            # Others cannot see why: so a status is written onto what was read, as controllers do.
            sent = dict(side.last.get((kind, name)) or build(kind, name, body))
            sent["metadata"] = {key: value for key, value in sent["metadata"].items() if key != "resourceVersion"}
            sent.pop("status", None)
            if status is not None:
                sent["status"] = status
            return side.api.replace_status(KINDS[kind], side.key(name), self.conditional(side, kind, name, sent, version, ""))

        self.both(kind, act)

    @rule(change=changes(), name=names, version=conditions, subresource=st.sampled_from(["", "", "status"]))
    def merge(self, change: tuple[str, dict[str, Any]], name: str, version: str, subresource: Any) -> None:
        kind, patch = change
        if subresource and "status" not in patch:
            subresource = ""  # as above: what status writes ignore must not be in them
        if ignored(kind, patch.get("status")):
            subresource = "status"
        self.both(
            kind,
            lambda side: side.api.patch(
                KINDS[kind], side.key(name), self.conditional(side, kind, name, patch, version, ""), subresource=subresource
            ),
        )

    @rule(change=operations(), name=names, subresource=st.sampled_from(["", "", "status"]))
    def json_patch(self, change: tuple[str, list[dict[str, Any]]], name: str, subresource: Any) -> None:
        kind, patch = change
        if any(not operation["path"].startswith("/status") for operation in patch):
            subresource = ""
        self.both(kind, lambda side: side.api.patch(KINDS[kind], side.key(name), patch, subresource=subresource))

    @rule(sent=raw(), name=names, patched=st.booleans())
    def send_bytes(self, sent: tuple[str, tuple[str, ...], bytes], name: str, patched: bool) -> None:
        kind, place, value = sent

        def act(side: Side) -> Any:
            if patched:
                where: Any = "status" if kind == "Widget" and place[0] == "status" else ""
                return side.api.patch(KINDS[kind], side.key(name), with_bytes({}, place, value), subresource=where)
            return side.api.create(KINDS[kind], with_bytes(build(kind, name, EMPTY), place, value), side.namespace).object

        self.both(kind, act)

    @rule(kind=kinds, name=names, uid=conditions, version=conditions, grace=st.sampled_from([None, 0, 1, 30]))
    def delete(self, kind: str, name: str, uid: str, version: str, grace: int | None) -> None:
        def act(side: Side) -> Any:
            at, who = self.sighting(side, kind, name, version), self.sighting(side, kind, name, uid)
            return side.api.delete(
                KINDS[kind], side.key(name), uid=who.uid if uid else "", resource_version=at.version if version else "", grace=grace
            )

        self.both(kind, act)

    @rule(kind=kinds, name=names)
    def get(self, kind: str, name: str) -> None:
        self.both(kind, lambda side: side.api.get(KINDS[kind], side.key(name)))

    @rule(name=names)
    def bind(self, name: str) -> None:
        self.both("Pod", lambda side: side.world.bind(side.key(name)))

    @rule(name=names, phase=st.sampled_from(["Running", "Succeeded", "Failed"]))
    def progress(self, name: str, phase: str) -> None:
        self.both("Pod", lambda side: side.api.patch(RAW_PODS, side.key(name), {"status": {"phase": phase}}, subresource="status"))

    @rule(
        kind=kinds,
        labels=st.sampled_from(["", "x", "!x", "x=1", "x!=1", "x in (1,2)", "y notin (z)", "x=", "a in"]),
        fields=st.sampled_from(
            ["", "", "metadata.name=a", "metadata.name!=a", f"spec.nodeName={NODE}", "status.phase=Running", "spec.color=red"]
        ),
        limit=st.sampled_from([0, 0, 1, 2]),
    )
    def list(self, kind: str, labels: str, fields: str, limit: int) -> None:
        def act(side: Side) -> Any:
            options: dict[str, Any] = {"labels": labels, "fields": fields, "limit": limit}
            page = side.api.list(KINDS[kind], side.namespace, **options)
            found = [list(page.items)]
            while page.continue_token:
                page = side.api.list(KINDS[kind], side.namespace, **options, continue_token=page.continue_token)
                found.append(list(page.items))
            # Every namespace of a real cluster has a ConfigMap of its own; it may also fill a page.
            items = [item for part in found for item in part if item["metadata"]["name"] in ("a", "b")]
            return [side.see(kind, item) for item in items]

        self.both(kind, act)

    def conditional(self, side: Side, kind: str, name: str, body: dict[str, Any], version: str, uid: str) -> dict[str, Any]:
        meta = dict(body.get("metadata") or {})
        if version:
            meta["resourceVersion"] = self.sighting(side, kind, name, version).version
        if uid:
            meta["uid"] = self.sighting(side, kind, name, uid).uid
        return {**body, "metadata": meta} if meta else body

    def sighting(self, side: Side, kind: str, name: str, which: str) -> Sighting:
        return side.past(kind, name, {"current": 1, "stale": 2}.get(which, 10**6))

    def teardown(self) -> None:
        """Compare the streams."""
        for kind, resource in KINDS.items():
            for side in self.sides:
                side.api.create(resource, build(kind, LAST_NAME, EMPTY), side.namespace)
        try:
            for kind in KINDS:
                memory, server = (told(side, kind, side.watches[kind]) for side in self.sides)
                assert memory == server, "\n".join([f"watch of {kind} differs", "memory:", *map(str, memory), "server:", *map(str, server)])
            for kind in KINDS:
                self.compare_again(kind, middle=True)
                self.compare_again(kind, middle=False, labels="x=1")
        finally:
            for side in self.sides:
                for watch in side.watches.values():
                    watch.close()
                side.world.clear(KINDS.values())

    def compare_again(self, kind: str, *, middle: bool, **selectors: str) -> None:
        """A watch from the first version of an object, or from one in the middle of its life: the past as it is told afterwards."""
        lives = [side.sightings[kind, "a"] for side in self.sides]
        starts = [life[len(life) // 2 if middle else 0].version for life in lives]
        watches = [
            side.world.watch(KINDS[kind], resource_version=start, **selectors) for side, start in zip(self.sides, starts, strict=True)
        ]
        memory, server = (told(side, kind, watch) for side, watch in zip(self.sides, watches, strict=True))
        for watch in watches:
            watch.close()
        assert memory == server, f"watch of {kind} differs afterwards ({selectors})\nmemory: {memory}\nserver: {server}"


def ignored(kind: str, status: Any) -> bool:
    """Whether a status has wrong types, and a write of anything else ignores it.

    A real server then forgets who wrote which field, which counts as a change that others cannot see.
    """
    return kind == "Widget" and is_odd(status)


def is_odd(status: Any) -> bool:
    """Whether a status is one of the odd ones."""
    return json.dumps(status) in map(json.dumps, ODD_STATUSES)


def told(side: Side, kind: str, watcher: Any) -> list[Any]:
    """What a watch told, up to the last object, in comparable form; versions must only ever grow."""
    watcher.until(LAST_NAME)
    events = [event for event in watcher.events if event.type != "BOOKMARK" and event.object["metadata"]["name"] in ("a", "b")]
    versions = [int(event.resource_version) for event in events]
    assert versions == sorted(set(versions)), f"versions of a watch do not grow: {versions}"
    return [(event.type, {**view(kind, event.object), "version": side.order.get(event.resource_version)}) for event in events]
