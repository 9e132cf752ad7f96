"""Anything at all, given to whatever reads what others have written: no crash, no hang, and no more memory than the input is worth.

What may be said is said in one exception that callers know. `FUZZ_EXAMPLES=100000` looks longer, `HYPOTHESIS_PROFILE=fresh` elsewhere.
"""

import os
import time
import tracemalloc
from functools import partial

import kubernetes.config  # noqa: F401 - whoever reads the first kubeconfig would wait for it
import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from genericjob.api import ranges, spec
from genericjob.api.spec import InvalidSpecError
from genericjob.jobs.conditions import of_others
from genericjob.jobs.resource import JOBS, Reader, UnreadableStatusError, read_status, reported_as
from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import LEASES, PODS, RAW_PODS, SERVICES
from genericjob.templating import Scope, parse, substitute

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
SECONDS = 2.0
"""Of processor time, for one input: a thousand times what most take."""
MEGABYTE = 1024 * 1024
TRIES = 3

fuzzed = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def bounded(size, work, *, factor=200):
    """What this work returns, which takes little time, and little memory beside what its input takes.

    Threads that earlier tests have left are measured too, and a busy processor is a slow one: what is too much is so three times.
    """
    for _ in range(TRIES):
        tracemalloc.start()
        begin = time.thread_time()
        try:
            found = work()
            seconds, peak = time.thread_time() - begin, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        if seconds < SECONDS and peak < 4 * MEGABYTE + factor * size:
            return found
    raise AssertionError(f"{size:,} bytes took {seconds:.1f} s and {peak:,} bytes")


def outcome(read, refusal):
    """What was read, or why it was refused."""
    try:
        return read(), None
    except refusal as error:
        return None, error


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=12), inner, max_size=5), max_leaves=30
)


def near(shape):
    """Values like a good one, with anything at all in any place of it: what is wrong is rarely wrong everywhere."""
    if isinstance(shape, dict):
        fields = {key: st.one_of(near(value), near(value), JSON) for key, value in shape.items()}
        return st.fixed_dictionaries({}, optional=fields) | st.dictionaries(
            st.sampled_from([*shape]) | st.text(max_size=8), JSON, max_size=3
        )
    if isinstance(shape, list):
        return st.lists(near(shape[0]), max_size=3)
    return st.just(shape) | st.just(shape) | SCALARS


# ------------------------------------------------------------------------------------------------ specs

SPEC = {
    "replicaSpecs": [
        {
            "type": "worker",
            "replicas": 2,
            "restartPolicy": {"policy": "OnFailure", "limit": 3, "scope": "Job", "exitCodes": {"neverRestart": [1], "notCharged": [2]}},
            "template": {"spec": {"containers": [{"name": "main"}]}},
        }
    ],
    "successRules": [{"worker": [0, "1"]}, {"worker": ["0-1", 1]}, {"worker": ["all"]}],
    "failureRules": [{"worker": ["0"]}, {"worker": ["any"]}],
    "service": {"ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]},
    "cleanUpPolicy": "All",
    "scheduler": {"t9kScheduler": {"queue": "q", "priority": 1}},
    "runMode": {
        "debug": {"enabled": True, "replicaSpecs": [{"type": "worker", "skipInitContainer": True, "command": ["sh"]}]},
        "pause": {"enabled": True, "resumeSpecs": [{"type": "worker", "command": ["a"], "args": ["b"]}]},
    },
    "suspend": False,
    "ttlSecondsAfterFinished": 10,
    "activeDeadlineSeconds": 10,
    "managedBy": "me",
}


@fuzzed
@given(JSON | near(SPEC))
@example({"replicaSpecs": [{"type": "worker", "replicas": "9" * 5000}]})
@example({"replicaSpecs": [{"type": "worker"}], "successRules": [{"worker": ["9" * 5000]}]})
@example({"replicaSpecs": [{"type": "worker", "replicas": 1e400}]})
@example({"replicaSpecs": [{"type": "a" * 100_000}]})
def test_a_spec_is_read_or_refused(value):
    found, refused = bounded(10_000, lambda: outcome(lambda: spec.parse(value), spec.InvalidSpecError))
    assert 0 <= found.total <= spec.MAX_REPLICAS if found else str(refused).startswith("spec")


def nested(depth, inner=None):
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize("depth", [90, 110, 10_000, 200_000])
def test_a_spec_of_any_depth_is_read_or_refused(depth):
    deep = {"replicaSpecs": [{"type": "w", "template": nested(depth)}]}
    found, refused = bounded(10 * depth, lambda: outcome(lambda: spec.parse(deep), spec.InvalidSpecError))
    assert (found is not None) is (depth < spec.MAX_DEPTH)
    assert found or "nested too deeply" in str(refused)


def test_values_that_yaml_shares_are_not_visited_again_and_again():
    shared = {}
    for _ in range(90):
        shared = {"a": shared, "b": shared}
    bounded(10_000, lambda: spec.parse({"replicaSpecs": [{"type": "w", "template": shared}]}))


# ------------------------------------------------------------------------------------------------ statuses

STATUS = {
    "phase": "Running",
    "epoch": 1,
    "pauseTime": "2026-01-01T00:00:00Z",
    "tasks": [
        {
            "type": "worker",
            "restartCount": 1,
            "succeededRanks": "0-3",
            "failedRanks": "4",
            "absentRanks": "5",
            "chargedRestarts": {"1": "0"},
            "unchargedRestarts": {"2": "1-3"},
            "restartsInARow": {"1": "0"},
            "lastRestarts": {"2026-01-01T00:00:00Z": "0"},
        }
    ],
}


@fuzzed
@given((JSON | near(STATUS)).map(lambda value: msgspec.json.encode({"metadata": {"name": "j"}, "status": value})) | st.binary())
@example(b'{"status":{"tasks":[{"type":"w","chargedRestarts":{"99999999999999999999":"0-9999"}}]}}')
@example(b'{"status":{"tasks":[{"type":"w","lastRestarts":{"9999-99-99T00:00:00Z":"0"}}]}}')
@example(b'{"status":{"tasks":[{"type":"w","succeededRanks":"0-1000000"}]}}')
def test_a_stored_status_is_read_or_refused(line):
    bounded(len(line), lambda: outcome(lambda: read_status(codec(JOBS).one(line)), (ApiError, UnreadableStatusError)), factor=20_000)


# ------------------------------------------------------------------------------------------------ variables


@fuzzed
@given(
    st.text()
    | st.text(alphabet="$()[].typerankservicehostport019- ", max_size=300)
    | st.lists(
        st.sampled_from(
            [
                "$",
                "$$",
                "$(",
                "$(rank)",
                "$(type)",
                "$(replicas[",
                "$(replicas[a])",
                "$(service.",
                "$(service.a[0].host)",
                "$(service.port[p])",
                "a" * 64,
                "]",
                ")",
                "9" * 30,
            ]
        )
    ).map("".join)
)
@example("$(service.a[" + "9" * 100_000 + "].host)")
@example("$(" * 100_000)
@example("$(service." * 50_000)
@example("$(replicas[" + "a-" * 100_000)
def test_any_text_is_filled_in_and_nothing_else_of_it_changes(text):
    scope = Scope(type="t", rank="3", replicas={"a": 2}, host="{}-{}".format, ports={"p": 80})
    template = bounded(len(text), lambda: parse(text))
    assert template.text == text
    filled = bounded(len(text), lambda: substitute(template, scope))
    assert len(filled.unresolved) <= len(template.variables)
    assert template.variables or filled.text == text


# ------------------------------------------------------------------------------------------------ ranges


@fuzzed
@given(
    st.text()
    | st.text(alphabet="0123456789,-")
    | st.lists(st.tuples(st.integers(), st.integers())).map(lambda pairs: ",".join(f"{first}-{last}" for first, last in pairs))
)
@example("0-9999")
@example("0-1000000")
@example(",".join(["0-1000000"] * 200))
@example("9" * 5000)
@example("0-" + "9" * 5000)
def test_a_set_of_ranks_is_read_or_refused(text):
    found, _ = bounded(len(text), lambda: outcome(lambda: ranges.format(ranges.parse.__wrapped__(text)), ValueError))
    assert found in (None, text)


# ------------------------------------------------------------------------------------------------ what a server sends

POD = {
    "metadata": {
        "name": "p",
        "namespace": "n",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 1,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "annotations": {"batch.tensorstack.dev/epoch": "1"},
        "ownerReferences": [{"uid": "o", "controller": True, "kind": "GenericJob", "name": "j"}],
    },
    "spec": {"nodeName": "x"},
    "status": {
        "phase": "Running",
        "reason": "",
        "message": "",
        "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": ""}],
        "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}],
        "initContainerStatuses": [{"name": "first", "state": {"waiting": {"reason": "x"}}}],
    },
}
SERVICE = {
    "metadata": POD["metadata"],
    "spec": {
        "clusterIP": "None",
        "ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}],
        "selector": {"a": "b"},
        "type": "ClusterIP",
    },
    "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}},
}
CONDITION = {
    "type": "Initialized",
    "status": "True",
    "reason": "Created",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
JOB = {
    "metadata": {**POD["metadata"], "finalizers": ["test.dev/hold"], "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": "x"}}]},
    "spec": SPEC,
    "status": {**STATUS, "conditions": [CONDITION, {**CONDITION, "type": "QuotaReserved"}]},
}


def lines(shape):
    """Lines of a watch with objects like this one, some of them with a few bytes exchanged."""
    line = near({"type": "MODIFIED", "object": shape}).map(msgspec.json.encode)
    return (
        st.binary()
        | line
        | st.tuples(line, st.integers(0, 400), st.binary(max_size=3)).map(
            lambda made: made[0][: made[1]] + made[2] + made[0][made[1] + 1 :]
        )
    )


LINES = lines(POD)
WATCHED = {"jobs": (JOBS, JOB), "pods": (PODS, POD), "services": (SERVICES, SERVICE)}
"""What the controller watches, and an object of each as the server sends it."""


@fuzzed
@pytest.mark.parametrize("resource", [PODS, SERVICES, RAW_PODS, LEASES, JOBS], ids=lambda each: f"{each.plural}-{each.slim.__name__}")
@given(line=LINES)
@example(line=b'{"type":"\x80"}')
@example(line=b"[" * 100_000)
@example(line=b'{"type":"ADDED","object":' + b'{"a":' * 100_000)
@example(line=b'{"type":"ERROR","object":' + b'{"a":' * 100_000)
@example(line=b'{"type":"BOOKMARK","object":' + b"[" * 100_000)
@example(line=b'{"type":"ERROR","object":{"code":' + b"9" * 400 + b"}}")
@example(line=b'{"type":"ERROR","object":{"code":1e999}}')
@example(line=b'{"type":"BOOKMARK","object":null}')
@example(line=b'{"type":"ADDED","object":null}')
@example(line=b'{"type":"ADDED","object":{"metadata":{"resourceVersion":5}}}')
def test_a_line_of_a_watch_is_an_event_or_an_error(resource, line):
    is_read_or_refused(codec(resource), line)


@fuzzed
@pytest.mark.parametrize(("resource", "likely"), [(resource, lines(shape)) for resource, shape in WATCHED.values()], ids=WATCHED)
@given(data=st.data())
def test_a_line_about_what_is_watched_is_an_event_or_an_error(resource, likely, data):
    is_read_or_refused(codec(resource), data.draw(likely))


def is_read_or_refused(reader, line):
    for read in (reader.event, reader.one, reader.page):
        bounded(len(line), lambda read=read: outcome(partial(read, line), ApiError))


GOOD = {"metadata": {"name": "good", "namespace": "n", "uid": "g", "resourceVersion": "8"}}
DEPTHS = st.sampled_from([0, 0, 0, 50, 980, 3_000])


def buried(made):
    """An object with something in it that is nested deeply, in a place where a server would take it."""
    value, depth, place = made
    body = {**value, **({place: "@"} if depth else {})} if isinstance(value, dict) else value
    return msgspec.json.encode(body).replace(b'"@"', b"[" * depth + b"]" * depth)


def objects(shape):
    """JSON of objects like this one, some of them with bytes that are no text, and with deep values in the place of a part."""
    whole = st.tuples(JSON | near(shape), DEPTHS, st.sampled_from(["metadata", "spec", "status", "x"])).map(buried)
    return whole | st.tuples(whole, TEXTS).map(lambda made: made[0].replace(*made[1]))


TEXTS = st.tuples(
    st.sampled_from([b'"p"', b'"u"', b'"7"', b'"Running"', b'"worker"', b'"http"', b'"QuotaReserved"', b'"type"', b'"name"', b"1"]),
    st.sampled_from(
        [b'"\xff\xfe"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\\ud800"', b'"\\u0000"', b"36893488147419103232", b"1e400", b"-0.0"]
    ),
)
OBJECTS = objects(POD)


@fuzzed
@pytest.mark.parametrize("resource", [PODS, SERVICES, RAW_PODS, LEASES, JOBS], ids=lambda each: f"{each.plural}-{each.slim.__name__}")
@given(odd=OBJECTS)
@example(odd=b"[" * 9_990 + b"]" * 9_990)
@example(odd=b'{"metadata":{"name":"p","uid":"u","resourceVersion":"7","managedFields":' + b'{"f:a":' * 9_000 + b"1" + b"}" * 9_000 + b"}}")
@example(odd=b'{"metadata":{"name":"\xff","uid":"u","resourceVersion":"7"},"spec":[],"status":"\xc0"}')
@example(odd=b'{"metadata":{"name":"p","uid":"u","resourceVersion":"7","generation":' + b"9" * 400 + b"}}")
@example(odd=b'{"metadata":{"name":"p","uid":"u","resourceVersion":"7","labels":[],"ownerReferences":{},"finalizers":5}}')
def test_whatever_an_object_is_all_others_of_its_page_and_stream_are_read(resource, odd):
    """ONE TENANT'S OBJECT IS NOT ANOTHER'S TROUBLE (clause 8)."""
    costs_only_itself(codec(resource), odd)


@fuzzed
@pytest.mark.parametrize(("resource", "likely"), [(resource, objects(shape)) for resource, shape in WATCHED.values()], ids=WATCHED)
@given(data=st.data())
def test_whatever_becomes_of_what_is_watched_all_others_of_its_page_and_stream_are_read(resource, likely, data):
    odd = data.draw(likely)
    costs_only_itself(codec(resource), odd)
    found, _ = codec(resource).read(odd)
    if resource is JOBS and found is not None:
        bounded(len(odd), lambda: outcome(lambda: Reader().read(found), (InvalidSpecError, UnreadableStatusError)), factor=20_000)
        bounded(len(odd), lambda: (reported_as(found), of_others(found.status)), factor=20_000)


def costs_only_itself(reader, odd):
    good = msgspec.json.encode(GOOD)
    expected = reader.one(good)
    events = bounded(len(odd), lambda: [reader.event(b'{"type":"ADDED","object":%b}' % each) for each in (good, odd, good)])
    items = b'{"metadata":{"resourceVersion":"9","continue":"t"},"items":[%b,%b,%b]}' % (good, odd, good)
    page = bounded(len(odd), lambda: reader.page(items))
    event = bounded(len(odd), lambda: reader.event(b'{"type":"MODIFIED","object":%b}' % odd))
    assert [event.object for event in events[::2]] == [expected, expected]
    assert (page.items[0], page.items[-1]) == (expected, expected)
    assert (page.resource_version, page.continue_token) == ("9", "t")
    assert 2 <= len(page.items) <= 3
    assert len(page.unreadable) <= 1
    assert event.object is not None or event.unreadable is not None
    assert (len(page.items) == 3) is (event.object is not None)


# ------------------------------------------------------------------------------------------------ kubeconfigs

CONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "it",
    "clusters": [
        {"name": "it", "cluster": {"server": "https://localhost:6443", "certificate-authority-data": "aGVsbG8=", "proxy-url": "http://p"}}
    ],
    "users": [
        {
            "name": "it",
            "user": {"token": "t", "client-certificate": "/no/such", "client-key-data": "aGk=", "username": "u", "password": "p"},
        }
    ],
    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": "n"}}],
}
ACTING = {
    **CONFIG,
    "clusters": [{"name": "it", "cluster": {"server": "https://localhost:6443", "proxy-url": "socks5://u:p@p:1"}}],
    "users": [{"name": "it", "user": {"token": "t", "as": "a", "as-uid": "1", "as-groups": ["g"], "as-user-extra": {"k": ["v"]}}}],
}
INSECURE = {
    **CONFIG,
    "clusters": [{"name": "it", "cluster": {"server": "http://localhost:80"}}],
    "users": [{"name": "it", "user": {"token": "t"}}],
}


def document(value):
    try:
        return yaml.safe_dump(value).encode()
    except yaml.YAMLError:
        return b""


@fuzzed
@given(
    st.binary()
    | (JSON | near(CONFIG) | near(ACTING) | near(INSECURE)).map(document)
    | st.text().map(lambda text: text.encode("utf-8", "replace"))
)
@example(yaml.safe_dump(INSECURE).encode())
@example(yaml.safe_dump(ACTING).encode())
@example(b"a: &a [*a, *a]")
@example(b"\n".join(b"%c: &%c [%s]" % (name, name, b",".join([b"*%c" % (name - 1) if name > 97 else b"x"] * 9)) for name in range(97, 107)))
@example(b"[" * 2_000)
@example(b"{" * 2_000)
@example(b"!!python/object/apply:os.system ['true']")
@example(b"clusters: 5\ncontexts: 5\nusers: 5\ncurrent-context: it")
@example(b"\xff\xfe\x00")
@example(b"")
def test_a_kubeconfig_is_read_or_refused(tmp_path, data):
    file = tmp_path / "config"
    file.write_bytes(data)
    found, refused = bounded(len(data), lambda: outcome(lambda: from_kubeconfig(str(file)), ApiError), factor=2000)
    assert found.current.host if found else (refused.reason == "Configuration" and "\n" not in refused.message)
