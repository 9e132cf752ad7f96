"""The store: versions, indexes, and changes that tell the whole story."""

import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from genericjob.reconcile.api import Event
from genericjob.reconcile.objects import Object, Unreadable
from genericjob.reconcile.resources import Key
from genericjob.reconcile.store import Change, Store
from genericjob.reconcile.versions import newer_or_same, older_or_same


def thing(name="a", version=1, uid="u1", owner="", namespace="ns"):
    return Object(namespace, name, uid, str(version), 0, {}, {}, owner, (), None, None)


def event(type, found, version=None):
    return Event(type, found, str(version or found.resource_version))


def bookmark(version):
    return Event("BOOKMARK", None, str(version))


def a_store(*items, version=10):
    store = Store({"owner": lambda found: found.owner_uid, "name": lambda found: found.name})
    store.replace(items, str(version))
    return store


# ------------------------------------------------------------------------------------------------ versions


@pytest.mark.parametrize(
    ("have", "want", "enough"),
    [
        ("5", "5", True),
        ("6", "5", True),
        ("5", "6", False),
        ("10", "9", True),
        ("9", "10", False),
        ("99999999999999999999", "100000000000000000000", False),
        ("5", "", True),
        ("", "", True),
        ("", "5", False),
        ("", "what", False),
        ("what", "5", True),
        ("5", "what", True),
        ("5", "06", True),
        ("05", "6", True),
        ("0", "6", True),
        ("5", "²", True),
        ("-5", "6", True),
    ],
)
def test_versions_are_compared_as_numbers_and_what_is_none_never_blocks(have, want, enough):
    assert newer_or_same(have, want) is enough


def test_only_what_is_certainly_not_newer_counts_as_old():
    assert older_or_same("5", "5")
    assert older_or_same("9", "10")
    assert not older_or_same("10", "9")
    for strange in ("", "x", "007", "0"):
        assert not older_or_same(strange, "9")
        assert not older_or_same("9", strange)
        assert not older_or_same(strange, strange)


# ------------------------------------------------------------------------------------------------ lists


def test_before_the_first_list_there_is_no_version():
    store = Store({})
    assert (store.version, store.synced, len(store), list(store.values())) == ("", False, 0, [])
    store.replace([], "7")
    assert (store.version, store.synced) == ("7", True)


def test_only_what_the_first_list_brings_is_initial():
    store = Store({})
    assert store.replace([thing()], "10") == [Change(None, thing(), initial=True)]
    assert store.replace([thing(), thing("b", 11)], "12") == [Change(None, thing("b", 11))]
    assert store.apply(event("ADDED", thing("c", 13))) == [Change(None, thing("c", 13))]


def test_a_list_tells_what_went_unseen_what_changed_and_nothing_of_the_rest():
    store = a_store(thing("gone", 1), thing("changed", 2), thing("same", 3))
    changes = store.replace([thing("changed", 12), thing("same", 3), thing("new", 13)], "20")
    assert changes == [
        Change(thing("gone", 1), None, tombstone=True),
        Change(thing("changed", 2), thing("changed", 12)),
        Change(None, thing("new", 13)),
    ]
    assert store.version == "20"


def test_an_object_made_again_under_its_name_is_told_as_gone_and_new():
    store = a_store(thing("a", 1, "u1"))
    assert store.replace([thing("a", 12, "u2")], "20") == [
        Change(thing("a", 1, "u1"), None, tombstone=True),
        Change(None, thing("a", 12, "u2")),
    ]


def test_a_list_is_believed_even_if_it_is_older():
    store = a_store(thing("a", 9), version=10)
    assert store.replace([thing("a", 3)], "4") == [Change(thing("a", 9), thing("a", 3))]
    assert store.version == "4"


def test_a_list_without_a_version_is_refused_and_changes_nothing():
    store = a_store(thing())
    with pytest.raises(ValueError, match="version"):
        store.replace([], "")
    assert (len(store), store.version) == (1, "10")


def test_what_is_listed_unchanged_is_kept_once():
    have = thing("a", 3)
    store = a_store(have)
    assert store.known(thing("a", 3)) is have
    for other in (thing("a", 4), thing("a", 3, "u2"), thing("b", 3)):
        assert store.known(other) is other


# ------------------------------------------------------------------------------------------------ events


def test_the_last_state_is_told_of_what_is_deleted():
    store = a_store(thing("a", 3, owner="x"))
    last = thing("a", 11, owner="y")
    assert store.apply(event("DELETED", last)) == [Change(last, None)]
    assert store.get(Key("ns", "a")) is None
    assert store.by("owner", "x") == store.by("owner", "y") == ()


def test_a_deletion_without_a_version_of_its_own_is_one_all_the_same():
    store = a_store(thing("a", 3))
    assert store.apply(event("DELETED", thing("a", 3))) == [Change(thing("a", 3), None)]


@pytest.mark.parametrize("type", ["ADDED", "MODIFIED"])
def test_what_is_not_newer_is_ignored(type):
    store = a_store(thing("a", 9))
    assert store.apply(event(type, thing("a", 9))) == []
    assert store.apply(event(type, thing("a", 8))) == []
    assert store.get(Key("ns", "a")) == thing("a", 9)


def test_an_old_deletion_does_not_end_what_came_back():
    store = a_store(thing("a", 9, "u1"), thing("b", 9, "u2"))
    assert store.apply(event("DELETED", thing("a", 8, "u1"))) == []  # its label was taken away and given back
    assert store.apply(event("DELETED", thing("b", 8, "u1"))) == []  # it was made again
    assert store.apply(event("DELETED", thing("b", 9, "u1"))) == []
    assert len(store) == 2


def test_an_event_of_another_identity_ends_the_one_that_was_known():
    store = a_store(thing("a", 3, "u1"), thing("b", 3, "u1"))
    assert store.apply(event("MODIFIED", thing("a", 11, "u2"))) == [
        Change(thing("a", 3, "u1"), None, tombstone=True),
        Change(None, thing("a", 11, "u2")),
    ]
    assert store.apply(event("DELETED", thing("b", 12, "u2"))) == [Change(thing("b", 3, "u1"), None, tombstone=True)]
    assert [found.name for found in store.values()] == ["a"]


def test_a_deletion_of_something_unknown_is_no_change():
    assert a_store().apply(event("DELETED", thing("a", 11))) == []


def test_every_event_and_bookmark_moves_the_version_and_none_moves_it_back():
    store = a_store(thing("a", 3))
    for happening, version in (
        (event("MODIFIED", thing("a", 11)), "11"),
        (bookmark(15), "15"),
        (bookmark(14), "15"),
        (bookmark(""), "15"),
        (event("DELETED", thing("a", 100)), "100"),
        (event("DELETED", thing("unknown", 101)), "101"),
    ):
        store.apply(happening)
        assert store.version == version


def test_indexes_follow_and_leave_nothing_behind():
    store = a_store(thing("a", 1, owner="x"), thing("b", 2, owner="x"), thing("c", 3))
    assert {found.name for found in store.by("owner", "x")} == {"a", "b"}
    assert store.by("owner", "") == ()
    before = store.by("owner", "x")
    store.apply(event("MODIFIED", thing("a", 11, owner="y")))
    assert [found.name for found in store.by("owner", "x")] == ["b"]
    assert store.by("owner", "y") == [thing("a", 11, owner="y")]
    assert len(before) == 2  # a snapshot
    store.apply(event("MODIFIED", thing("a", 12)))
    store.apply(event("DELETED", thing("b", 13)))
    assert store._indexes["owner"] == {}


def test_a_value_that_cannot_be_had_leaves_everything_as_it_was():
    def picky(found):
        if found.owner_uid == "bad":
            raise LookupError
        return found.owner_uid

    store = Store({"first": lambda found: found.owner_uid, "picky": picky})
    store.replace([thing("a", 1, owner="x")], "10")
    for attempt in (lambda: store.apply(event("MODIFIED", thing("a", 11, owner="bad"))), lambda: store.replace([thing(owner="bad")], "12")):
        with pytest.raises(LookupError):
            attempt()
        assert store.by("first", "x") == store.by("picky", "x") == [thing("a", 1, owner="x")]
        assert store.by("first", "bad") == ()
        assert store.version == "10"


# ------------------------------------------------------------------------------------------------ objects that cannot be read


def lost(name="a", uid="u1", version=11):
    return Unreadable("ns", name, uid, str(version), "odd")


def odd(type, found):
    return Event(type, None, found.resource_version, unreadable=found)


@pytest.mark.parametrize("uid", ["u1", ""])
def test_what_cannot_be_read_any_more_stays_as_it_was_known_last(uid):
    store = a_store(thing(owner="o"), thing("b", uid="u2"))
    assert store.apply(odd("MODIFIED", lost(uid=uid))) == []
    assert store.version == "11"
    assert store.replace([thing("b", uid="u2")], "12", [lost(uid=uid)]) == []
    assert [found.name for found in store.by("owner", "o")] == ["a"]
    assert len(store) == 2


@pytest.mark.parametrize("uid", ["u1", ""])
def test_what_cannot_be_read_is_gone_when_the_server_says_so(uid):
    store = a_store(old := thing(owner="o"))
    assert store.apply(odd("DELETED", lost(uid=uid))) == [Change(old, None, tombstone=True)]
    assert (len(store), list(store.by("owner", "o"))) == (0, [])


def test_another_object_under_the_name_ends_the_one_that_was_known():
    store = a_store(old := thing())
    assert store.apply(odd("ADDED", lost(uid="u9"))) == [Change(old, None, tombstone=True)]
    store = a_store(old)
    assert store.replace([], "12", [lost(uid="u9")]) == [Change(old, None, tombstone=True)]


def test_the_deletion_of_another_object_under_the_name_says_nothing():
    store = a_store(thing())
    assert store.apply(odd("DELETED", lost(uid="u9"))) == []
    assert store.apply(odd("DELETED", lost(version=1))) == []  # older than what is known
    assert len(store) == 1


def test_what_was_never_known_and_cannot_be_read_is_not_there():
    store = a_store()
    assert store.apply(odd("ADDED", lost())) == []
    assert store.replace([], "12", [lost()]) == []
    assert len(store) == 0


def test_what_can_be_read_again_is_news():
    store = a_store(old := thing())
    store.apply(odd("MODIFIED", lost()))
    new = thing(version=12)
    assert store.apply(event("MODIFIED", new)) == [Change(old, new)]


# ------------------------------------------------------------------------------------------------ any history


NAMES, UIDS, VERSIONS = st.sampled_from("abc"), st.sampled_from(["u1", "u2", "u3"]), st.integers(1, 40)
TYPES = st.sampled_from(["ADDED", "MODIFIED", "DELETED"])


def as_it_was(name, version, uid):
    """A version of an object has one content and no other."""
    return thing(name, version, uid, owner=["", "x", "y"][(version + len(uid)) % 3])


class AnyHistory(RuleBasedStateMachine):
    """Whatever lists and events come, in whatever order: a dict that is scanned says what the store must hold."""

    def __init__(self):
        super().__init__()
        self.store = Store({"owner": lambda found: found.owner_uid, "name": lambda found: found.name})
        self.naive: dict[str, Object] = {}
        self.told: dict[str, Object] = {}
        self.version = 0

    @rule(data=st.lists(st.tuples(NAMES, VERSIONS, UIDS), max_size=3, unique_by=lambda each: each[0]), version=VERSIONS)
    def listed(self, data, version):
        items = [as_it_was(*each) for each in data]
        self.hear(self.store.replace(items, str(version)))
        self.naive, self.version = {item.name: item for item in items}, version

    @precondition(lambda self: self.version)
    @rule(type=TYPES, name=NAMES, version=VERSIONS, uid=UIDS)
    def happened(self, type, name, version, uid):
        found = as_it_was(name, version, uid)
        self.hear(self.store.apply(event(type, found)))
        have = self.naive.get(name)
        known = int(have.resource_version) if have else 0
        if type != "DELETED":
            if version > known:
                self.naive[name] = found
        elif have and (version > known or (version == known and uid == have.uid)):
            del self.naive[name]
        self.version = max(self.version, version)

    @precondition(lambda self: self.version)
    @rule(version=VERSIONS)
    def marked(self, version):
        assert self.store.apply(bookmark(version)) == []
        self.version = max(self.version, version)

    def hear(self, changes):
        """Replay the changes, and believe nothing that contradicts what was told before."""
        for change in changes:
            name = (change.new or change.old).name
            had = self.told.pop(name, None)
            if change.old is None:
                assert had is None
            else:
                assert had.uid == change.old.uid
                assert had == change.old or (change.new is None and not change.tombstone)
            if change.new is not None:
                assert change.old is None or change.new.uid == change.old.uid
                assert change.new != change.old
                self.told[name] = change.new

    @invariant()
    def everything_agrees(self):
        assert {found.name: found for found in self.store.values()} == self.naive == self.told
        assert len(self.store) == len(self.naive)
        assert self.store.version == (str(self.version) if self.version else "")
        assert all(self.store.get(Key("ns", name)) is found for name, found in self.naive.items())
        for index, value_of in self.store._values.items():
            again: dict[str, dict[tuple[str, str], Object]] = {}
            for found in self.naive.values():
                if value := value_of(found):
                    again.setdefault(value, {})[found.namespace, found.name] = found
            assert self.store._indexes[index] == again


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=60, stateful_step_count=30)


# ------------------------------------------------------------------------------------------------ while it is being written


class Nosy:
    """Looks at a store from inside a function of one of its indexes: in the middle of a change."""

    def __init__(self, *items):
        self.look = lambda: None
        self.store = Store({"nosy": self})
        self.store.replace(items, "10")

    def __call__(self, found):
        self.look()
        return found.name


def test_a_version_is_not_told_before_its_change_can_be_seen():
    nosy, seen = Nosy(thing("a", 1)), []
    nosy.look = lambda: seen.append(nosy.store.version)
    nosy.store.apply(event("MODIFIED", thing("a", 11)))
    nosy.store.replace([thing("a", 12)], "12")
    assert set(seen) == {"10", "11"}


def test_nobody_waits_for_a_list_and_nobody_sees_half_of_it():
    nosy, seen = Nosy(thing("a", 1), thing("b", 2)), []
    nosy.look = lambda: seen.append([found.name for found in nosy.store.values()])
    nosy.store.replace([thing("c", 11)], "12")
    assert seen == [["a", "b"]]
    assert nosy.store.values() == [thing("c", 11)]


def test_readers_wait_until_a_change_is_complete():
    nosy, seen = Nosy(thing("a", 1)), []
    reader = threading.Thread(target=lambda: seen.extend(nosy.store.values()))

    def look():
        nosy.look = lambda: None
        reader.start()
        reader.join(0.05)
        assert not seen

    nosy.look = look
    nosy.store.apply(event("MODIFIED", thing("a", 11)))
    reader.join(10)
    assert seen == [thing("a", 11)]
