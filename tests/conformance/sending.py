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
words = st.sampled_from("xyz")

UNUSUAL = "\x00\x1b[2J\u2028\u202e\ufffd\U0001f600"
"""Text that is valid, and that no program expects."""


def usually(good: list[Any], odd: list[Any]) -> st.SearchStrategy[Any]:
    """Most often one of the good values: an operation that is refused tells nothing of what comes after it."""
    return st.sampled_from(range(16)).flatmap(lambda number: st.sampled_from(odd if number == 15 else good))


ODD_LABELS = [
    {"bad key": "v"}, {"x": UNUSUAL}, {"\u00e9": "v"}, {"x": "1\n"}, {"x": "\uff11"}, {"x": "a" * 64}, {"": "v"}, {"x": 5}, {"x": True},
    {"x": None}, {"x": 2**64}, {"x": ["1"]}, ["x"], "x", 5,
]  # fmt: skip
ODD_ANNOTATIONS = [
    {"k": UNUSUAL}, {"k": "v" * 100_000}, {"k": "v" * 300_000}, {"k": "\U0001f600" * 65_536}, {"\u0130": "v"}, {"\u212a": "v"},
    {"bad key": "v"}, {"k": 5}, {"k": None}, {"k": {"deep": 1}}, {"k": 10**25}, ["k"], "k", 5,
]  # fmt: skip
ODD_FINALIZERS = [
    ["test.dev/\u00e9"], ["test.dev/hold", "test.dev/hold"], ["hold"], ["test.dev/"], ["/hold"], [""], [UNUSUAL], [5], [None], [["hold"]],
    "test.dev/hold", {"test.dev/hold": 1}, 5,
]  # fmt: skip
labels = usually([None, {}, {"x": "1"}, {"x": "2", "y": ""}], ODD_LABELS)
annotations = usually([None, {}, {"k": "v"}], ODD_ANNOTATIONS)
finalizers = usually([None, None, None, ["test.dev/hold"], ["test.dev/hold", "test.dev/more"], []], ODD_FINALIZERS)

_SCALARS = [0, 1, 2, 50, 1000, -1, 1.5, "red", "green", "pink", "abc", "toolong", True, None]
_HOSTILE = [
    2**63,
    -(2**63) - 1,
    10**25,
    1e300,
    UNUSUAL,
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
ODD_STATUSES: list[Any] = [
    *({"count": value} for value in ("many", 1.5, 2**63 - 1, 2**63, -(2**63), 10**25, True, [1], None)),
    *({"phase": value} for value in (UNUSUAL, "", 5, None, {"Done": 1}, ["Done"])),
    *({"other": value} for value in _HOSTILE),
    *({"conditions": value} for value in ([{"type": UNUSUAL, "status": 5}], {"type": "Ready"}, "Ready")),
    *([], [{}], "Done", 5, True),
]
statuses = usually([None, {}, {"phase": "Done"}, {"count": 1}, {"other": 1}], ODD_STATUSES)


@st.composite
def bodies(draw: Callable[..., Any]) -> dict[str, Any]:
    """The changeable parts of an object; each kind takes what it has."""
    drawn = {
        "labels": labels,
        "annotations": annotations,
        "finalizers": finalizers,
        "spec": specs,
        "status": statuses,
        "word": words,
    }
    return {name: draw(strategy) for name, strategy in drawn.items()}


def build(kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """A whole object of a kind."""
    made = _built(kind, name, body)
    if body.get("annotations") is not None:
        made["metadata"]["annotations"] = body["annotations"]
    return made


def _built(kind: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
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


ODD_METADATA: list[Any] = [
    *({"labels": value} for value in ODD_LABELS),
    *({"annotations": value} for value in ODD_ANNOTATIONS),
    *({"finalizers": value} for value in ODD_FINALIZERS),
    *({"generation": value} for value in (2**63 - 1, 2**63, -1, 1.5, "one", None, [])),
    *(
        {"ownerReferences": value}
        for value in ([{}], [5], [None], [{"uid": None}], {}, "me", [{"uid": 5}], [{"uid": UNUSUAL, "controller": "yes"}])
    ),
    *({"deletionGracePeriodSeconds": value} for value in (2**63, 2**64, -1, "30")),
    *({"creationTimestamp": value} for value in (5, "yesterday", "0000-01-01T00:00:00Z", {})),
    *({"uid": value} for value in (5, "", UNUSUAL, None)),
    {"unknown": json.loads("[" * 300 + "]" * 300)},
]
_METADATA = usually(
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
    ],
    ODD_METADATA,
)
_OWN_FIELDS = st.one_of(
    st.fixed_dictionaries({"spec": st.dictionaries(fields, values, max_size=2)}),
    st.fixed_dictionaries({"status": st.sampled_from([None, {"count": 2}, {"phase": "Failed"}, {"phase": None}]) | statuses}),
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


# ------------------------------------------------------------------------------------------------ bytes

_BYTES = [
    b'"\xff\xfe"', b'"\xe2\x82 "', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\\ud800"', b'"\\udc00\\ud83d\\ude00"',
    b'"\\u0000"', b'"\x01"', b'"\\x"', b"1e400", b"-0", b"36893488147419103232", b"1e25", b"01", b"NaN", b'{"\xff":1}', b'{"a":1,"a":2}',
    b"[" * 300 + b"]" * 300, b"\xef\xbb\xbf1", b"", b"\xff",
]  # fmt: skip
_COMMON_PLACES = [
    ("metadata", "annotations", "k"),
    ("metadata", "labels", "x"),
    ("metadata", "finalizers"),
    ("metadata", "unknown"),
    ("unknown",),
]
_PLACES = {
    "Widget": [("spec", "open", "any"), ("spec", "label"), ("status", "phase"), ("status", "count")],
    "Gadget": [("spec", "any"), ("status", "any"), ("status",)],
    "ConfigMap": [("data", "word")],
}


@st.composite
def raw(draw: Callable[..., Any]) -> tuple[str, tuple[str, ...], bytes]:
    """A kind, a place in its objects, and bytes to put there, which need not be JSON."""
    kind = draw(kinds)
    place = draw(st.sampled_from(places(kind)))
    return kind, place, draw(st.sampled_from(odd_bytes(kind, place)))


def places(kind: str) -> list[tuple[str, ...]]:
    """Where bytes are put."""
    return [*_COMMON_PLACES, *_PLACES.get(kind, [])]


def odd_bytes(kind: str, place: tuple[str, ...]) -> list[bytes]:
    """What is put there."""
    # What a built-in kind does not have its server skips unread. The one in memory reads it, and refuses what is no number.
    skipped = kind not in OWN and place[-1] == "unknown"
    return [value for value in _BYTES if not (skipped and value == b"1e400")]


def with_bytes(body: dict[str, Any], place: tuple[str, ...], value: bytes) -> bytes:
    """The JSON of a body with these bytes in a place of it."""
    made = json.loads(json.dumps(body))
    inner = made
    for name in place[:-1]:
        inner = inner.setdefault(name, {})
    inner[place[-1]] = "@"
    return json.dumps(made).encode().replace(b'"@"', value)
