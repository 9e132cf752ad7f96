"""What the random machine sends: small pools of values, so that operations meet each other, good and bad ones alike.

For our own kinds both sides know the schema, so anything may be sent. Of built-in kinds the memory API knows the outline: only fields that
exist are sent.
"""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from conformance.kinds import GADGETS, WIDGETS, config_map, gadget, pod, service, widget
from genericjob.reconcile.resources import CONFIG_MAPS, LEASES, RAW_PODS, RAW_SERVICES

KINDS = {"Widget": WIDGETS, "Gadget": GADGETS, "ConfigMap": CONFIG_MAPS, "Pod": RAW_PODS, "Service": RAW_SERVICES, "Lease": LEASES}
OWN = ("Widget", "Gadget")
OTHER_UID = "11111111-1111-1111-1111-111111111111"

names = st.sampled_from(["a", "b"])
kinds = st.sampled_from(list(KINDS))
conditions = st.sampled_from(["", "", "current", "stale", "impossible"])
labels = st.sampled_from([None, {}, {"x": "1"}, {"x": "2", "y": ""}, {"bad key": "v"}])
finalizers = st.sampled_from([None, None, None, ["test.dev/hold"], ["test.dev/hold", "test.dev/more"], []])
words = st.sampled_from("xyz")

_SCALARS = [0, 1, 2, 50, 1000, -1, 1.5, "red", "green", "pink", "abc", "toolong", True, None]
_HOSTILE = [
    2**63,
    -(2**63) - 1,
    10**25,
    1e300,
    "\x00\x1b[2J\u2028",
    "\U0001f600" * 3,
    json.loads("[" * 300 + "]" * 300),
    {"": {"a" * 300: []}},
]
values = st.sampled_from([*_SCALARS, [], [1, 2], {}, {"deep": "x"}, {"a": "b"}, *_HOSTILE])
fields = st.sampled_from(["size", "color", "label", "nothing", "either", "open", "numbers", "words", "nested", "parts", "unknown"])
good = st.sampled_from(
    [{}, {"size": 2}, {"size": 3, "color": "green"}, {"parts": [{"name": "p"}]}, {"words": {"k": "v"}, "open": {"any": [1, {"x": None}]}}]
)
hostile = st.sampled_from(_HOSTILE).map(lambda value: {"open": {"any": value}})
specs = good | hostile | st.dictionaries(fields, values, max_size=2)
statuses = st.sampled_from([None, {}, {"phase": "Done"}, {"count": 1}, {"count": "many"}, {"other": 1}])


@st.composite
def bodies(draw: Callable[..., Any]) -> dict[str, Any]:
    """The changeable parts of an object; each kind takes what it has."""
    drawn = {"labels": labels, "finalizers": finalizers, "spec": specs, "status": statuses, "word": words}
    return {name: draw(strategy) for name, strategy in drawn.items()}


def build(kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A whole object of a kind."""
    common = {"labels": body["labels"]}
    match kind:
        case "Widget" | "Gadget":
            made = (widget if kind == "Widget" else gadget)(name, finalizers=body["finalizers"], **common)
            made["spec"] = body["spec"]
            return made if body["status"] is None else {**made, "status": body["status"]}
        case "ConfigMap":
            return config_map(name, finalizers=body["finalizers"], **common, word=body["word"])
        case "Pod":
            made = pod(name, finalizers=body["finalizers"], **common)
            made["spec"]["containers"][0]["image"] = body["word"]
            return made
        case "Service":
            return service(name, **common)
    meta = {"name": name} if body["labels"] is None else {"name": name, **common}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": {"holderIdentity": body["word"]}}


_METADATA = st.sampled_from(
    [
        {"finalizers": None},
        {"finalizers": None},
        {"finalizers": ["test.dev/hold"]},
        {"labels": {"x": "9"}},
        {"labels": {"x": None}},
        {"labels": None},
        {"annotations": {"k": "v"}},
        {"name": "other"},
        {"generation": 77},
        {"deletionTimestamp": None},
        {"uid": OTHER_UID},
    ]
)
_OWN_FIELDS = st.one_of(
    st.fixed_dictionaries({"spec": st.dictionaries(fields, values, max_size=2)}),
    st.fixed_dictionaries({"status": st.sampled_from([None, {"count": 2}, {"phase": "Failed"}, {"phase": None}])}),
    st.fixed_dictionaries({"unknown": values}),
)
_FIELDS = {
    "Widget": _OWN_FIELDS,
    "Gadget": _OWN_FIELDS,
    "ConfigMap": st.sampled_from([{"data": {"word": "w", "new": "n"}}, {"data": {"word": None}}, {"data": None}]),
    "Pod": st.sampled_from(
        [
            {"status": {"phase": "Failed", "reason": "Evicted"}},
            {"status": {"phase": "Running", "reason": None}},
            {"spec": {"activeDeadlineSeconds": 60}},
            {"spec": {"nodeName": "n2"}},
            {"spec": {"hostNetwork": True}},
        ]
    ),
    "Service": st.sampled_from([{"spec": {"ports": [{"name": "b", "port": 81}]}}, {"spec": {"ports": [{"name": "A_", "port": 81}]}}]),
    "Lease": st.sampled_from([{"spec": {"holderIdentity": "me"}}, {"spec": {"leaseDurationSeconds": 15}}, {"spec": None}]),
}


@st.composite
def changes(draw: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A kind, and a merge patch for it."""
    kind = draw(kinds)
    patch = draw(st.one_of(_FIELDS[kind], st.fixed_dictionaries({"metadata": _METADATA}), st.just({})))
    return kind, patch


_OWN_PATHS = [
    "/spec/size",
    "/spec/words",
    "/spec/words/k",
    "/spec/open/any/0",
    "/spec/numbers/-",
    "/spec/absent/x",
    "/spec",
    "/status/count",
]
_TEXTS = st.sampled_from(["", "1", "word"])
_PATHS = {
    "Widget": (_OWN_PATHS, values),
    "Gadget": (_OWN_PATHS, values),
    "ConfigMap": (["/data/word", "/data/new", "/data/absent/x"], _TEXTS),
    "Pod": (["/spec/containers/0/image", "/status/reason"], _TEXTS),
    "Service": (["/metadata/annotations/a"], _TEXTS),
    "Lease": (["/spec/holderIdentity"], _TEXTS),
}


@st.composite
def operations(draw: Callable[..., Any]) -> tuple[str, list[dict[str, Any]]]:
    """A kind, and a JSON patch for it."""
    kind = draw(kinds)
    own, content = _PATHS[kind]
    paths = st.sampled_from([*own, "/metadata/labels/x", "/metadata/labels/y"])
    removable = st.sampled_from([*own, "/metadata/labels", "/metadata/labels/x", "/metadata/finalizers", "/metadata/finalizers/0"])
    if kind not in OWN:
        removable = st.sampled_from(["/metadata/labels", "/metadata/labels/x", "/metadata/finalizers", "/metadata/finalizers/0"])
    verbs = st.sampled_from(["add", "replace", "test"])
    labelled = st.fixed_dictionaries({"op": verbs, "path": st.just("/metadata/labels/x"), "value": _TEXTS})
    valued = st.fixed_dictionaries({"op": verbs, "path": st.sampled_from(own), "value": content})
    removed = st.fixed_dictionaries({"op": st.just("remove"), "path": removable})
    moved = st.fixed_dictionaries({"op": st.sampled_from(["move", "copy"]), "from": paths, "path": paths})
    return kind, draw(st.lists(st.one_of(labelled, valued, removed, moved), min_size=1, max_size=3))
