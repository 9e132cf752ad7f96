"""The store: one counter, tables, logs, and the past."""

from threading import Condition

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.drafts import Draft, Meta, canonical, restamped, same, stored, written
from genericjob.local.kinds import Kind
from genericjob.local.store import Store
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key

KIND = Kind(group="", version="v1", plural="things", kind="Thing")


def a_store(history=1000):
    store = Store(history=history, condition=Condition)
    store.add([KIND], "v1")
    return store, store.tables[KIND.place]


def a_draft(name, namespace="n", **rest):
    return Draft(Meta(name=name, namespace=namespace, uid=f"uid-{namespace}-{name}"), rest)


def contents(versions):
    return [(v.key.namespace, v.key.name, v.draft().rest.get("n"), v.version) for v in versions]


def test_stored_bytes_are_canonical_and_carry_their_own_version_first():
    store, table = a_store()
    tricky = a_draft("a", z=1, a={"resourceVersion": "7", "b": 1})
    tricky.meta.labels = {"resourceVersion": "9"}
    found = store.put(table, Key("n", "a"), tricky)
    assert stored(restamped(found.data, 4711)).meta.resource_version == "4711"
    assert stored(restamped(found.data, 4711)).meta.labels == {"resourceVersion": "9"}
    assert restamped(restamped(found.data, 4711), found.version) == found.data
    assert written(stored(found.data), "v1", "Thing") == found.data


def test_one_is_not_true():
    assert same({"a": [1]}, {"a": [1]})
    assert not same({"a": 1}, {"a": True})
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})


def test_every_change_has_the_next_version():
    store, table = a_store()
    first = store.put(table, Key("n", "a"), a_draft("a"))
    second = store.put(table, Key("n", "a"), a_draft("a", n=1))
    gone = store.remove(second)
    assert [first.version, second.version, gone.version] == [2, 3, 4]
    assert [(change.type, change.version) for change in table.log] == [("ADDED", 2), ("MODIFIED", 3), ("DELETED", 4)]
    assert stored(gone.data).rest["n"] == 1
    assert table.get(Key("n", "a")) is None


def test_keys_are_ordered_as_the_real_store_orders_them():
    store, table = a_store()
    for namespace, name in (("a", "x"), ("a-b", "x"), ("b", "a"), ("a", "b")):
        store.put(table, Key(namespace, name), a_draft(name, namespace))
    assert [str(one.key) for one in table.listed("", store.version)] == ["a-b/x", "a/b", "a/x", "b/a"]


def test_history_is_bounded_and_says_where_it_begins():
    store, table = a_store(history=10)
    for n in range(50):
        store.put(table, Key("n", "a"), a_draft("a", n=n))
    assert 10 <= len(table.log) < 20
    assert table.log[0].version == table.log_begins + 1
    with pytest.raises(ApiError) as caught:
        table.listed("", table.log_begins - 1)
    assert caught.value.gone
    assert len(table.listed("", table.log_begins)) == 1


def test_dependents_are_found_by_the_uid_of_any_owner():
    from genericjob.local.drafts import OwnerReference

    store, table = a_store()
    child = a_draft("c")
    child.meta.owner_references = [OwnerReference("v1", "Thing", "a", "one"), OwnerReference("v1", "Thing", "b", "two")]
    found = store.put(table, Key("n", "c"), child)
    assert store.dependents == {"one": {found.uid}, "two": {found.uid}}
    orphan = found.draft()
    orphan.meta.owner_references = orphan.meta.owner_references[1:]
    found = store.put(table, Key("n", "c"), orphan)
    assert store.dependents == {"two": {found.uid}}
    store.remove(found)
    assert store.dependents == {}
    assert store.by_uid == {}


writes = st.lists(
    st.tuples(st.sampled_from(["put", "put", "remove"]), st.sampled_from(["n", "m"]), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=40,
)


@given(writes, st.sampled_from(["", "n"]), st.integers(3, 40))
def test_the_past_is_what_the_present_was(sequence, namespace, history):
    store, table = a_store(history)
    past = {store.version: contents(table.listed(namespace, store.version))}
    for action, space, name, n in sequence:
        found = table.get(Key(space, name))
        if action == "put":
            store.put(table, Key(space, name), a_draft(name, space, n=n))
        elif found is not None:
            store.remove(found)
        past[store.version] = contents(table.listed(namespace, store.version))
    for version, state in past.items():
        if version >= table.list_begins:
            assert contents(table.listed(namespace, version, keep=version % 2 == 0)) == state
