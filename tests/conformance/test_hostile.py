"""Bodies that nobody sends by accident: deep, huge, or not quite text. And what a page and a watch tell of such objects."""

import json
from itertools import islice

import msgspec
import pytest

from conformance.asking import BAD_REQUEST, refusal
from conformance.kinds import GADGETS, gadget
from genericjob.local.received import MAX_DEPTH
from genericjob.reconcile.resources import Key


def body(name, value):
    return msgspec.json.encode(gadget(name, x="@")).replace(b'"@"', value)


def nested(depth):
    return b"[" * depth + b"]" * depth


KEPT = {
    "nested": (nested(400), json.loads(nested(400))),
    "the largest number of 64 bits": (b"9223372036854775807", 9223372036854775807),
    "a number of more bits": (b"9223372036854775808", 9223372036854776000),
    "a negative one": (b"-9223372036854775809", -9223372036854776000),
    "a number of many digits": (b"99999999999999999999999", 1e23),
    "a number with an exponent": (b"1e25", 1e25),
    "bytes that are no UTF-8": (b'"\xff\xfe"', "\ufffd\ufffd"),
    "the beginning of a character": (b'"\xe2\x82 "', "\ufffd\ufffd "),
    "a character that is written too long": (b'"\xc0\x80"', "\ufffd\ufffd"),
    "one half of a pair": (b'"\\ud800"', "\ufffd"),
    "the other half": (b'"\\udc00\\ud83d\\ude00"', "\ufffd\U0001f600"),
    "a backslash before what looks like one": (b'"\\\\ud800"', "\\ud800"),
    "the character 0": (b'"\\u0000"', "\x00"),
    "an escape sequence": (b'"\\u001b[2J"', "\x1b[2J"),
    "a name that is no UTF-8": (b'{"\xff":1}', {"\ufffd": 1}),
    "a name that is empty": (b'{"":1}', {"": 1}),
    "a name that comes twice": (b'{"a":1,"a":2}', {"a": 2}),
}
REFUSED = {
    "nested beyond the limit": nested(11_000),
    "a number beyond all limits": b"1e400",
    "a number of too many digits": b"1" + b"0" * 400,
    "a control character": b'"\x01"',
}


@pytest.mark.parametrize(("sent", "kept"), KEPT.values(), ids=KEPT)
def test_odd_values_are_kept_as_the_server_reads_them(world, sent, kept):
    assert world.api.create(GADGETS, body("a", sent), world.namespace).object["spec"] == {"x": kept}
    assert world.api.get(GADGETS, Key(world.namespace, "a"))["spec"] == {"x": kept}
    patched = world.api.patch(GADGETS, Key(world.namespace, "a"), b'{"spec":{"y":%b}}' % sent)
    assert patched["spec"] == {"x": kept, "y": kept}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
def test_values_that_are_none_are_refused(world, sent):
    assert refusal(world.api.create, GADGETS, body("a", sent), world.namespace) == BAD_REQUEST


def test_the_server_in_memory_takes_fewer_levels_than_a_real_one_and_says_so(memory_world):
    """A difference on purpose: Python's readers recurse."""
    with pytest.raises(Exception, match=f"nested too deeply, {MAX_DEPTH} levels are the most here"):
        memory_world.api.create(GADGETS, body("a", nested(MAX_DEPTH + 1)), memory_world.namespace)


def test_an_object_that_is_nested_too_deeply_to_be_decoded_costs_a_page_and_a_watch_only_itself(server_world):
    api, namespace = server_world.api, server_world.namespace
    start = api.list(GADGETS, namespace).resource_version
    for name, value in (("a", b"1"), ("deep", nested(5_000)), ("z", b"1")):
        api.request("POST", GADGETS.path(namespace), body=body(name, value))
    page = api.list(GADGETS, namespace)
    assert [found["metadata"]["name"] for found in page.items] == ["a", "z"]
    assert [str(lost) for lost in page.unreadable] == [f"{namespace}/deep"]
    with api.watch(GADGETS, namespace, resource_version=start, timeout=60) as watch:
        events = list(islice(watch, 3))
    assert [event.object and event.object["metadata"]["name"] for event in events] == ["a", None, "z"]
    assert str(events[1].unreadable) == f"{namespace}/deep"
    assert all(event.resource_version for event in events)
