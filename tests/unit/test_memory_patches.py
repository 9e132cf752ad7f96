"""Patches: the examples of both RFCs, and where the real server does it its own way."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.patches import PatchError, apply, merge, touched

json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target, patch, result):
    assert merge(target, patch) == result


@given(json, json)
def test_merging_twice_is_merging_once(target, patch):
    once = merge(copy.deepcopy(target), copy.deepcopy(patch))
    assert merge(copy.deepcopy(once), patch) == once


@given(json)
def test_what_is_merged_into_nothing_has_no_nulls_in_objects(patch):
    def clean(value):
        return not isinstance(value, dict) or all(child is not None and clean(child) for child in value.values())

    result = merge({}, {"x": patch})
    assert clean(result)


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
        ({"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
            [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
            {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
        ),
        ({"foo": ["all", "grass", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/2"}], {"foo": ["all", "eat", "grass"]}),
        ({"baz": "qux", "foo": ["a", 2, "c"]}, [{"op": "test", "path": "/foo/1", "value": 2}], {"baz": "qux", "foo": ["a", 2, "c"]}),
        ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}], {"foo": "bar", "child": {"grandchild": {}}}),
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "q", "xyz": 1}], {"foo": "bar", "baz": "q"}),
        ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
        (
            {"a": {"b": [1]}},
            [{"op": "copy", "from": "/a/b", "path": "/c"}, {"op": "add", "path": "/c/-", "value": 2}],
            {"a": {"b": [1]}, "c": [1, 2]},
        ),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ],
)  # fmt: skip
def test_the_examples_of_rfc_6902(document, operations, result):
    assert apply(document, operations) == result


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "replace", "path": "/new", "value": 1}], {"a": [1, 2], "new": 1}),
        ([{"op": "test", "path": "/absent", "value": None}], {"a": [1, 2]}),
        ([{"op": "add", "path": "/a/-1", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "remove", "path": "/a/-1"}], {"a": [1]}),
        ([{"op": "add", "path": "/b"}], {"a": [1, 2], "b": None}),
        ([{"op": "add", "path": "ignored/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "replace", "path": "", "value": 5}], {"a": [1, 2]}),
        ([{"op": "copy", "from": "/absent", "path": "/b"}], {"a": [1, 2], "b": None}),
    ],
)
def test_the_habits_of_the_real_server(operations, result):
    assert apply({"a": [1, 2]}, operations) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a/0", "value": 2},
        {"op": "test", "path": "/a/0", "value": True},
        {"op": "remove", "path": "/absent"},
        {"op": "add", "path": "/absent/deeper", "value": 1},
        {"op": "add", "path": "/a/7", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "replace", "path": "/a/2", "value": 1},
        {"op": "move", "from": "/absent", "path": "/b"},
        {"op": "copy", "path": "/b"},
        {"op": "add", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "explode", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_what_does_not_apply(operation):
    with pytest.raises(PatchError):
        apply({"a": [1, 2]}, [operation])


@given(json, json)
def test_what_was_added_is_there_and_can_be_removed(document, value):
    before = {"x": document}
    added = apply(copy.deepcopy(before), [{"op": "add", "path": "/y", "value": value}, {"op": "test", "path": "/y", "value": value}])
    assert apply(added, [{"op": "remove", "path": "/y"}]) == before


@pytest.mark.parametrize(
    ("operations", "fields"),
    [
        ([{"op": "add", "path": "/spec/a/b", "value": 1}, {"op": "remove", "path": "/data"}], {"spec", "data"}),
        ([{"op": "move", "from": "/status/x", "path": "/a~1b~0c"}], {"status", "a/b~c"}),
        ([{"op": "replace", "path": "", "value": {}}], None),
        ([{"op": "copy", "from": "", "path": "/x"}], None),
    ],
)
def test_what_a_patch_touches(operations, fields):
    assert touched(operations) == fields
