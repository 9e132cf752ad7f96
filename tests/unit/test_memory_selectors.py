"""Selectors: the grammar of the real server, told by its own answers."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.selectors import Field, requirements, selector, terms
from genericjob.reconcile.errors import ApiError

FIELDS = {"metadata.name": Field(("metadata.name",)), "spec.on": Field(("spec.on",), "false"), "from": Field(("a.b", "c"))}
OBJECTS = {
    "web": {"metadata": {"name": "web", "labels": {"tier": "web", "i": "3"}}, "spec": {"on": True}},
    "db": {"metadata": {"name": "db", "labels": {"tier": "db", "i": "2", "empty": ""}}, "a": {"b": "x"}},
    "bare": {"metadata": {"name": "bare"}, "c": "x"},
}


def chosen(labels="", fields=""):
    ask = selector(labels, fields, FIELDS)
    return [name for name, thing in OBJECTS.items() if ask is None or ask(msgspec.json.encode(thing))]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ("", "web db bare"),
        (" ", "web db bare"),
        ("tier", "web db"),
        ("!tier", "bare"),
        ("tier=web", "web"),
        ("tier==web", "web"),
        ("tier = web", "web"),
        ("tier!=web", "db bare"),
        ("tier in (web, db)", "web db"),
        ("tier in(web)", "web"),
        ("tier notin (web)", "db bare"),
        ("empty=", "db"),
        ("empty in ()", "db"),
        ("empty in (,x)", "db"),
        ("i>2", "web"),
        ("i<3", "db"),
        ("tier,i>1", "web db"),
        ("tier=in", ""),
        ("in notin (in)", "web db bare"),
        ("tier in (web),i=3", "web"),
        ("tier in (web),!i", ""),
    ],
)
def test_label_selectors_choose(labels, names):
    assert chosen(labels) == names.split()


@pytest.mark.parametrize(
    "labels",
    [
        "a in (x", "a=b=c", ",", "a,,b", "a,", "a b", "-a", "a=-b", "!a=b", "=b", "a in x", "a in", "a gt 3", "a>b", "a>", "a>-1",
        "!", "!!a", "()",
        "a in ((b)", "a in (b))", "a/b/c", "a=b c", "ä=1", "a=ä", "a!b", "x" * 64, "a=" + "x" * 64,
    ],
)  # fmt: skip
def test_malformed_label_selectors_are_bad_requests(labels):
    with pytest.raises(ApiError) as caught:
        selector(labels, "", FIELDS)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ("metadata.name=db", "db"),
        ("metadata.name==db", "db"),
        ("metadata.name!=db", "web bare"),
        ("metadata.name=db,", "db"),
        (",", "web db bare"),
        ("metadata.name=", ""),
        ("metadata.name=d\\,b", ""),
        ("metadata.name=db,metadata.name=web", ""),
        ("spec.on=true", "web"),
        ("spec.on=false", "db bare"),
        ("from=x", "db bare"),
        ("from=", "web"),
    ],
)
def test_field_selectors_choose(fields, names):
    assert chosen(fields=fields) == names.split()


@pytest.mark.parametrize(
    "fields", ["metadata.name", "spec.x=1", "a=b=c", "metadata.name in (a)", "metadata.name=c\\x", "metadata.name=\\", "=a"]
)
def test_malformed_and_unknown_field_selectors_are_bad_requests(fields):
    with pytest.raises(ApiError) as caught:
        selector("", fields, FIELDS)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")


def test_a_field_of_another_shape_counts_as_absent():
    ask = selector("", "spec.on=false", FIELDS)
    assert ask is not None
    assert ask(b'{"metadata":{"name":"x"},"spec":[]}')


words = st.from_regex(r"[a-z]([a-z0-9.]{0,5}[a-z0-9])?", fullmatch=True)


@given(labels=st.dictionaries(words, words, max_size=3), key=words, values=st.lists(words, min_size=1, max_size=3))
def test_a_set_and_its_complement_divide_everything(labels, key, values):
    data = msgspec.json.encode({"metadata": {"labels": labels}})
    inside = selector(f"{key} in ({','.join(values)})", "", {})
    outside = selector(f"{key} notin ({','.join(values)})", "", {})
    assert inside is not None
    assert outside is not None
    assert inside(data) != outside(data)
    assert inside(data) == (labels.get(key) in values)


@given(st.text(max_size=20))
def test_any_text_is_a_selector_or_a_bad_request(text):
    codes = []
    for read in (requirements, terms):
        try:
            read(text)
        except ApiError as error:
            codes.append(error.code)
    assert set(codes) <= {400}
