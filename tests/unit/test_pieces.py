"""JSON in pieces: the same members and elements that a decoder finds, at any depth."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.reconcile import pieces
from genericjob.reconcile.pieces import decodable, elements, members, members_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
LAYOUTS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}])


@given(
    st.dictionaries(st.text(alphabet=st.characters(exclude_characters='"\\', exclude_categories=["Cs"], min_codepoint=32)), JSON), LAYOUTS
)
def test_members_are_those_that_a_decoder_finds(value, layout):
    found = list(members(json.dumps(value, ensure_ascii=False, **layout).encode()))
    assert [(name, json.loads(data)) for name, data in found] == list(value.items())


@given(st.lists(JSON), LAYOUTS)
def test_elements_are_those_that_a_decoder_finds(value, layout):
    assert [json.loads(data) for data in elements(json.dumps(value, **layout).encode())] == value


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()[:-1]))
def test_what_is_no_json_is_refused_by_one_kind_of_error(data):
    for read in (members, elements):
        with suppress(ValueError):
            list(read(data))


@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}"), (b"[1,", b"]"), (b'[{"a":', b"}]")])
def test_depth_does_not_matter_within_what_a_server_takes(brackets):
    opening, closing = brackets
    deep = opening * 9_900 + b"1" + closing * 9_900
    assert dict(members(b'{"name":"x","deep":%b,"after":[2]}' % deep)) == {"name": b'"x"', "deep": deep, "after": b"[2]"}
    assert list(elements(b"[1,%b,2]" % deep)) == [b"1", deep, b"2"]


@pytest.mark.parametrize("broken", [b'"never closed', b"", b'"a":1,"never closed'])
def test_what_is_broken_is_not_searched_for_a_place_where_it_goes_on(broken):
    with pytest.raises(ValueError, match="ends too early"):
        list(elements(b"[[" + broken))
    assert pieces._STEP.match(broken), "a search from each position would be quadratic"


def test_what_is_deeper_than_any_server_takes_is_refused_early():
    with pytest.raises(ValueError, match="nested deeper than"):
        list(members(b'{"deep":' + b"[1," * 100_000))


def test_nothing_behind_the_last_member_that_is_asked_for_is_read():
    found = members(b'{"metadata":{"name":"x"},"spec":{"never closed')
    assert next(found) == ("metadata", b'{"name":"x"}')


def test_members_of_a_member_are_read_no_further_than_asked():
    found = members_of("metadata", b'{"kind":"x","other":{"metadata":{"name":"no"}},"metadata" : {"name":"x","deep":[1,{never closed')
    assert next(found) == ("name", b'"x"')
    assert list(members_of("metadata", b'{"kind":"x","spec":{"metadata":{"name":"no"}}}')) == []
    assert list(members_of("metadata", b'{"metadata":{},"metadata":{"name":"no"}}')) == []
    with pytest.raises(ValueError, match="does not begin with"):
        list(members_of("metadata", b'{"metadata":null}'))


def test_members_that_cannot_be_decoded_are_left_out():
    data = b'{"deep":%b,"bytes":"\xff","number":1e999,"good":[1]}' % (b"[" * 5000 + b"]" * 5000)
    assert {"good": [1]}.items() <= decodable(data).items()
    assert not {"deep", "bytes"} & decodable(data).keys()
    assert decodable(b"[1]") == {}
