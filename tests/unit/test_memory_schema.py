"""Structural schemas: pruning, defaults, refusals."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.checks import problems, repeated
from genericjob.local.schema import Schema, coerce_embedded, fill, prune

SCHEMA = Schema(
    {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"},
            "color": {"type": "string", "enum": ["red", "green"]},
            "maybe": {"type": "string", "nullable": True},
            "either": {"x-kubernetes-int-or-string": True},
            "when": {"type": "string", "format": "date-time"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": {"type": "object"}}},
            "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "down"}}},
            "bare": {"type": "object", "properties": {"deep": {"type": "string", "default": "down"}}},
            "words": {"type": "object", "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer", "default": 9}}}},
            "parts": {
                "type": "array",
                "maxItems": 2,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {"k": {"type": "string"}, "n": {"type": "integer", "default": 2}},
                },
            },
            "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "template": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        },
    }
)


def complaints(value):
    return [(cause.field, cause.reason.removeprefix("FieldValue")) for cause in (*problems(value, SCHEMA), *repeated(value, SCHEMA))]


def test_unknown_fields_are_dropped_and_told_in_order():
    value = {"apiVersion": "v1", "metadata": {"x": 1}, "zoo": 1, "nested": {"odd": 1}, "parts": [{"k": "a", "u": {"v": 1}}], "bare": {}}
    assert prune(value, SCHEMA) == ["nested.odd", "parts[0].u", "zoo"]
    assert value == {"apiVersion": "v1", "metadata": {"x": 1}, "nested": {}, "parts": [{"k": "a"}], "bare": {}}


def test_what_is_preserved_is_not_looked_into_except_where_it_is_known():
    value = {"open": {"any": {"thing": 1}, "known": {"any": 1}}, "words": {"w": {"odd": 1}}}
    assert prune(value, SCHEMA) == ["open.known.any", "words.w.odd"]
    assert value == {"open": {"any": {"thing": 1}, "known": {}}, "words": {"w": {}}}


def test_the_metadata_of_an_embedded_resource_is_typed():
    value = {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1, "labels": {}}, "spec": {"any": 1}}}
    assert prune(value, SCHEMA) == []
    assert coerce_embedded(value, SCHEMA) == ["template.metadata.odd"]
    assert value["template"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"any": 1}}


def test_defaults_fill_what_is_there_but_make_no_objects_of_their_own():
    value = {"parts": [{"k": "a"}], "words": {"w": {}}, "open": {}}
    fill(value, SCHEMA)
    assert value == {"size": 1, "nested": {"deep": "down"}, "parts": [{"k": "a", "n": 2}], "words": {"w": {"n": 9}}, "open": {}}


def test_null_means_the_default_or_nothing_unless_it_may_be():
    value = {"size": None, "name": None, "maybe": None, "nested": {"deep": None}, "open": {"x": None}, "words": {"w": None}}
    fill(value, SCHEMA)
    assert value == {"size": 1, "maybe": None, "nested": {"deep": "down"}, "open": {"x": None}, "words": {}}


def test_a_default_is_a_copy():
    one, other = {}, {}
    fill(one, SCHEMA)
    one["nested"]["deep"] = "changed"
    fill(other, SCHEMA)
    assert other["nested"] == {"deep": "down"}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"size": "x"}, [("size", "TypeInvalid")]),
        ({"size": 1.5}, [("size", "TypeInvalid")]),
        ({"size": True}, [("size", "TypeInvalid")]),
        ({"size": 2**70}, [("size", "TypeInvalid")]),
        ({"size": -1}, [("size", "Invalid")]),
        ({"size": 11}, [("size", "Invalid")]),
        ({"name": "abcde"}, [("name", "TooLong")]),
        ({"name": "a"}, [("name", "Invalid")]),
        ({"name": "ba"}, [("name", "Invalid")]),
        ({"color": "blue"}, [("color", "NotSupported")]),
        ({"maybe": None}, []),
        ({"either": 1.5}, [("either", "TypeInvalid")]),
        ({"either": "x"}, []),
        ({"when": "2026-01-01T00:00:00Z"}, []),
        ({"when": "2026-01-01"}, [("when", "TypeInvalid")]),
        ({"when": "2026-13-01T00:00:00Z"}, [("when", "TypeInvalid")]),
        ({"words": {"w": 1}}, [("words.w", "TypeInvalid")]),
        ({"parts": {}}, [("parts", "TypeInvalid")]),
        ({"parts": [{}]}, [("parts[0].k", "Required")]),
        ({"parts": [{"k": "a"}, {"k": "a", "n": 1}]}, [("parts[1]", "Duplicate")]),
        ({"parts": [{"k": "a"}, {"k": "b"}, {"k": "c"}]}, [("parts", "TooMany")]),
        ({"set": ["a", "a"]}, [("set[1]", "Duplicate")]),
        ({"template": {}}, [("template.apiVersion", "Required"), ("template.kind", "Required")]),
    ],
)
def test_refusals_name_the_field(value, found):
    assert complaints(value) == found


def test_what_has_not_changed_is_not_checked_again():
    old = {"size": 99, "parts": [{"k": "a", "n": "wrong"}, {"k": "b"}]}
    new = {"size": 99, "name": "b", "parts": [{"k": "b"}, {"k": "a", "n": "wrong"}]}
    assert [cause.field for cause in problems(new, SCHEMA, "", old)] == ["name", "name"]


fields = st.sampled_from([*SCHEMA.properties, "k", "n", "deep", "odd"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats(-2, 12) | st.text("ab", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*SCHEMA.properties, "odd"]), values, max_size=5))
def test_pruning_and_filling_are_done_after_one_time(value):
    prune(value, SCHEMA)
    fill(value, SCHEMA)
    again = copy.deepcopy(value)
    assert prune(again, SCHEMA) == []
    fill(again, SCHEMA)
    assert again == value
    list(problems(value, SCHEMA))
    assert list(problems(value, SCHEMA, "", copy.deepcopy(value))) == []
