"""The reflector: when it lists, when it watches, and how long it waits in between."""

from dataclasses import replace

import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.errors import NO_ANSWER, ApiError, Cause
from genericjob.reconcile.objects import slim_object
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from unit.walking import CUT, GONE, MAPS, REFUSED, Rig, during, lost_history, nothing, put, remove, told, touch

FIRST_WAIT = pytest.approx(0.8 * 1.5)
MOMENT = 0.5


@pytest.fixture
def api():
    return MemoryApi()


# ------------------------------------------------------------------------------------------------ all is well


def test_it_lists_once_and_watches_from_there(api):
    put(api, "a", "b")
    version = api.resource_version
    rig = Rig(api, nothing, lambda: put(api, "c"))
    rig.run()
    assert rig.calls == ["list", f"watch {version}"]
    assert told(rig.changes) == ["+a", "+b", "+c"]
    assert [change.initial for change in rig.changes] == [True, True, False]
    assert rig.waits == []


def test_what_it_asks_for(api):
    rig = Rig(api, nothing, nothing, labels="x=y")
    rig.run()
    listed, watched = rig.steps.options[:2]
    assert listed == {"labels": "x=y", "fields": "", "limit": 100}  # no version: the store itself is asked
    assert watched == {"labels": "x=y", "timeout": 450.0}  # bookmarks are sent unless they are refused


def test_the_store_knows_before_anybody_is_told_and_the_version_moves_with_it(api):
    put(api, "a")
    rig, seen = Rig(api, nothing, lambda: put(api, "b")), []
    rig.reflector._changed = lambda change: seen.append(
        (rig.store.get(Key("default", change.new.name)) is change.new, rig.reflector.listed)
    )
    rig.reflector._advanced = lambda: seen.append((rig.store.version, rig.reflector.listed))
    first = api.resource_version
    rig.run()
    assert seen == [(True, False), (first, True), (True, True), (api.resource_version, True)]


def test_a_list_comes_in_pages(api):
    put(api, *(f"m{n}" for n in range(1001)))
    rig = Rig(api, nothing, nothing, nothing)
    rig.run()
    assert rig.calls == ["list", "continue", "continue"]
    assert len(rig.changes) == len(rig.store) == 1001


def test_a_list_that_goes_on_while_others_write_is_of_its_first_moment(api):
    put(api, *(f"m{n}" for n in range(600)))
    version = api.resource_version
    rig = Rig(api, nothing, lambda: put(api, "late"), nothing)
    rig.run()
    assert rig.calls == ["list", "continue", f"watch {version}"]
    assert told(rig.changes)[600:] == ["+late"]


def test_pages_that_are_newer_than_the_first_do_not_let_the_watch_skip_anything(api):
    put(api, *(f"m{n}" for n in range(600)))
    version = api.resource_version
    rig = Rig(api, nothing, lambda: put(api, "late"), nothing)
    honest = rig.steps.list

    def newer(*args, **options):
        page = honest(*args, **options)
        return page if page.continue_token else type(page)(page.items, api.resource_version)

    rig.steps.list = newer
    rig.run()
    assert rig.calls[-1] == f"watch {version}"
    assert told(rig.changes)[600:] == ["+late"]


def test_a_watch_that_ends_is_followed_by_another_from_where_it_stood(api):
    rig = Rig(api, nothing, lambda: put(api, "a"), lambda: remove(api, "a"), nothing)
    rig.run()
    last = int(api.resource_version)
    assert rig.calls == ["list", f"watch {last - 2}", f"watch {last - 1}", f"watch {last}"]
    assert told(rig.changes) == ["+a", "-a"]
    assert rig.ends("timeout") == 2


def test_bookmarks_move_the_place_where_the_next_watch_begins(api):
    def a_long_quiet_watch():
        api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
        api.bookmark()
        rig.walk.time += 300

    rig = Rig(api, nothing, during(a_long_quiet_watch), nothing)
    rig.run()
    assert rig.store.version == api.resource_version
    assert rig.calls[-1] == f"watch {api.resource_version}"
    assert rig.changes == []


# ------------------------------------------------------------------------------------------------ a new list


@pytest.mark.parametrize("told_as", ["event", "status"])
def test_what_the_server_forgot_is_listed_and_the_difference_told(api, told_as):
    put(api, "again", "changes", "goes", "stays")
    version = api.resource_version
    before = {}

    def forget():
        before.update((found.name, found) for found in rig.store.values())
        lost_history(api)
        return GONE if told_as == "status" else None  # else the API in memory accepts the watch, and says so in the stream

    rig = Rig(api, nothing, forget, nothing)
    rig.run()
    assert rig.calls == ["list", f"watch {version}", "list"]
    assert told(rig.changes)[4:] == ["-again", "-goes", "+again", "~changes", "+comes"]
    assert {change.old.name for change in rig.changes if change.tombstone} == {"again", "goes"}
    assert not any(change.initial for change in rig.changes[4:])
    assert rig.store.get(Key("default", "stays")) is before["stays"]  # what has not changed is not kept twice
    assert rig.waits == [MOMENT]
    assert rig.ends("expired") == 1


def test_a_list_whose_history_is_forgotten_half_way_begins_again(api):
    put(api, *(f"m{n}" for n in range(590)))

    def forget():
        put(api, "late", "later")
        api.compact()

    rig = Rig(api, nothing, forget, nothing, nothing)
    rig.run()
    assert rig.calls == ["list", "continue", "list", "continue"]
    assert len(rig.store) == 592
    assert rig.waits == [MOMENT]


def test_after_an_outage_what_the_server_forgot_is_listed_at_once(api):
    """The first answer after a minute of refused connections is a 410; nobody waits for what that minute has added up to."""
    rig = Rig(api, nothing, *[REFUSED] * 6, GONE, nothing)
    rig.run()
    assert rig.verbs == ["list", *["watch"] * 7, "list"]
    assert rig.waits[5:] == [pytest.approx(38.4), MOMENT]


def test_a_list_that_fails_after_all_is_tried_again_with_short_waits_first(api):
    rig = Rig(api, nothing, *[REFUSED] * 6, GONE, REFUSED, REFUSED, nothing)
    rig.run()
    assert rig.waits[6:] == [MOMENT, pytest.approx(1.2), pytest.approx(2.4)]


def test_a_server_that_forgets_everything_at_once_is_not_listed_without_end(api):
    rig = Rig(api, nothing, *[GONE, nothing] * 9)
    rig.run()
    assert rig.verbs == ["list", *["watch", "list"] * 9]
    assert rig.waits == [MOMENT, *(pytest.approx(wait) for wait in (1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0))]


def test_events_between_do_not_excuse_a_server_that_keeps_forgetting(api):
    def forgets():
        put(api, api.resource_version)
        rig.walk.time += 2
        return GONE

    rig = Rig(api, nothing, *[during(forgets), nothing] * 4)
    rig.run()
    assert rig.waits == [MOMENT, *(pytest.approx(wait) for wait in (1.2, 2.4, 4.8))]


def test_a_list_half_of_which_is_forgotten_every_time_is_not_begun_without_end(api):
    put(api, *(f"m{n}" for n in range(600)))
    rig = Rig(api, *[nothing, GONE] * 4)
    rig.run()
    assert rig.verbs == ["list", "continue"] * 4
    assert rig.waits == [MOMENT, *(pytest.approx(wait) for wait in (1.2, 2.4, 4.8))]


def test_what_is_forgotten_now_and_then_is_always_listed_at_once(api):
    def forgets_later():
        rig.walk.time += 121
        return GONE

    rig = Rig(api, nothing, *[during(forgets_later), nothing] * 4)
    rig.run()
    assert rig.waits == [MOMENT] * 4


@pytest.mark.parametrize(
    "error",
    [
        ApiError(504, "Timeout", "Too large resource version", causes=[Cause("", "", "ResourceVersionTooLarge")]),
        ApiError(404, "NotFound", "no such kind"),
        ApiError(400, "BadRequest", "no such version"),
        ApiError(NO_ANSWER, "Silent", "no event and no bookmark"),
        ApiError(NO_ANSWER, "Unreadable", "a line that is no event"),
    ],
    ids=lambda error: error.reason,
)
@pytest.mark.parametrize("after", [0.0, 90.0])
def test_answers_that_the_same_version_would_meet_again_lead_to_a_list(api, error, after):
    def breaks():
        rig.walk.time += after
        return error

    rig = Rig(api, nothing, error, nothing, during(breaks), nothing)
    rig.run()
    assert rig.verbs == ["list", "watch", "list", "watch", "list"]
    assert rig.waits == [pytest.approx(1.2), pytest.approx(2.4)]
    assert rig.ends("error") == 2


def test_a_list_that_fails_is_tried_again_and_takes_nothing_away(api):
    put(api, "a")
    rig = Rig(api, nothing, GONE, REFUSED, ApiError(NO_ANSWER, "Unreadable", "?"), ApiError(500, "InternalError", "etcd"), nothing)
    rig.run()
    assert rig.verbs == ["list", "watch", "list", "list", "list", "list"]
    assert rig.names == ["a"]
    assert len(rig.waits) == 4


def test_an_empty_answer_is_not_an_empty_cluster(api):
    """A proxy that answers `{}` to everything must not end every job."""
    put(api, "a")
    rig = Rig(api, nothing, GONE, nothing, nothing, nothing)
    honest, lies = rig.steps.list, iter([False, True, True, False])

    def sometimes_empty(*args, **options):
        page = honest(*args, **options)
        return type(page)([], "") if next(lies, False) else page

    rig.steps.list = sometimes_empty
    rig.run()
    assert rig.verbs == ["list", "watch", "list", "list", "list"]
    assert told(rig.changes) == ["+a"]
    assert len(rig.waits) == 3


# ------------------------------------------------------------------------------------------------ the same version again


@pytest.mark.parametrize(
    "error",
    [REFUSED, *(ApiError(code, "Reason", "no") for code in (401, 403, 429, 500, 503))],
    ids=lambda error: str(error.code),
)
def test_a_watch_that_cannot_be_opened_is_tried_again_from_the_same_version(api, error):
    version = api.resource_version
    rig = Rig(api, nothing, error, error, lambda: put(api, "a"))
    rig.run()
    assert rig.calls == ["list", *[f"watch {version}"] * 3]
    assert rig.waits == [pytest.approx(1.2), pytest.approx(2.4)]
    assert told(rig.changes) == ["+a"]
    assert rig.ends("error") == 2


def test_a_server_that_keeps_failing_to_watch_is_asked_for_a_list(api):
    broken = ApiError(500, "InternalError", "the watch cache is confused")
    rig = Rig(api, nothing, *[broken] * 4, lambda: put(api, "a"), *[broken] * 5, nothing)
    rig.run()
    assert rig.verbs == ["list", *["watch"] * 10, "list"]


def test_a_busy_server_says_how_long_to_wait_but_not_for_ever(api):
    busy, absurd = (ApiError(429, "TooManyRequests", "later", retry_after=seconds) for seconds in (7.0, 86400.0))
    rig = Rig(api, nothing, busy, absurd)
    rig.run()
    assert rig.waits == [7.0, 30.0]


def test_waiting_times_double_up_to_a_limit_with_jitter_on_top(api):
    rig = Rig(api, *[REFUSED] * 8)
    rig.run()
    assert rig.waits == pytest.approx([1.2, 2.4, 4.8, 9.6, 19.2, 38.4, 45.0, 45.0])


def test_a_watch_that_is_over_in_no_time_has_failed(api):
    version = api.resource_version
    rig = Rig(api, nothing, nothing, during(api.bookmark), lambda: put(api, "a"), nothing)
    rig.run()
    assert rig.calls == ["list", *[f"watch {version}"] * 3, f"watch {int(version) + 1}"]
    assert rig.waits == [pytest.approx(wait) for wait in (1.2, 2.4, 1.2)]  # not after the one that brought something: it began anew
    assert (rig.ends("short"), rig.ends("timeout")) == (3, 1)


def test_a_stream_that_is_cut_after_a_while_is_taken_up_at_once(api):
    def cut_after(seconds):
        def cut():
            rig.walk.time += seconds
            return CUT

        return during(cut)

    rig = Rig(api, nothing, cut_after(1.0), cut_after(0.9), nothing)
    rig.run()
    assert rig.verbs == ["list", "watch", "watch", "watch"]
    assert rig.waits[0] == FIRST_WAIT
    assert rig.ends("error") == 2
    assert len(rig.waits) == 2  # the second for the last watch, which brought nothing


def test_events_before_a_cut_are_kept_and_not_told_again(api):
    def cut():
        put(api, "a", "b")
        return CUT

    rig = Rig(api, nothing, during(cut), lambda: put(api, "c"))
    rig.run()
    assert rig.calls[-1] == f"watch {int(api.resource_version) - 1}"
    assert told(rig.changes) == ["+a", "+b", "+c"]


@pytest.mark.parametrize("how", ["brought something", "lasted", "lasted and was cut", "lasted and was refused"])
def test_after_a_watch_that_worked_waiting_begins_anew(api, how):
    def works():
        if how == "brought something":
            put(api, "a")
            return REFUSED
        rig.walk.time += 20
        return {"lasted and was cut": CUT, "lasted and was refused": ApiError(500, "InternalError", "etcd")}.get(how)

    rig = Rig(api, nothing, *[REFUSED] * 3, during(works), REFUSED, REFUSED)
    rig.run()
    first = how in ("brought something", "lasted and was refused")  # itself a failure, the first one
    assert rig.waits == pytest.approx([1.2, 2.4, 4.8, 1.2, 2.4, *([4.8] if first else [])])


def test_after_a_list_that_worked_waiting_begins_anew(api):
    rig = Rig(api, *[REFUSED] * 3, nothing, REFUSED, REFUSED)
    rig.run()
    assert rig.waits == pytest.approx([1.2, 2.4, 4.8, 1.2, 2.4])


def test_an_unexpected_error_is_raised_and_the_next_run_goes_on(api):
    def bug():
        raise LookupError

    rig = Rig(api, nothing, during(bug), lambda: put(api, "a"))
    with pytest.raises(LookupError):
        rig.run()
    rig.run()
    assert rig.verbs == ["list", "watch", "watch"]
    assert told(rig.changes) == ["+a"]


# ------------------------------------------------------------------------------------------------ objects that cannot be decoded


def refusing(wire):
    """Reads config maps, except those whose name begins with `bad`."""
    found = slim_object(wire)
    if found.name.startswith("bad"):
        raise ValueError(f"odd in version {found.labels.get('version')}")
    return found


ODD_MAPS = replace(MAPS, slim=refusing)


def counted(rig):
    return rig.metrics.registry.get_sample_value("genericjob_unreadable_objects_total", {"resource": "configmaps"})


def test_an_object_that_cannot_be_decoded_is_reported_once_and_all_others_are_read(api, caplog):
    put(api, "a", "bad", "c")
    reported = []
    rig = Rig(
        api,
        nothing,
        lambda: (put(api, "d"), touch(api, "bad"), put(api, "e"), None)[-1],
        GONE,
        nothing,
        resource=ODD_MAPS,
        unreadable=reported.append,
    )
    rig.run()
    assert told(rig.changes) == ["+a", "+c", "+d", "+e"]
    assert [str(lost) for lost in reported] == ["default/bad"]
    assert [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()] == [
        "configmaps in default: default/bad cannot be read: odd in version None"
    ]
    assert counted(rig) == 3  # the first list, the event, the second list


def test_it_is_reported_again_when_the_reason_or_the_object_changes(api):
    put(api, "bad")
    reported = []

    def change():
        api.patch(CONFIG_MAPS, Key("default", "bad"), {"metadata": {"labels": {"version": "2"}}})

    def replace_it():
        remove(api, "bad")
        put(api, "bad")

    rig = Rig(api, nothing, change, replace_it, resource=ODD_MAPS, unreadable=reported.append)
    rig.run()
    assert [lost.problem for lost in reported] == ["odd in version None", "odd in version 2", "odd in version None"]
    assert reported[0].uid != reported[2].uid
    assert rig.calls[0] == "list"
    assert not any(call == "list" for call in rig.calls[1:])


@pytest.mark.parametrize("away", [REFUSED, ApiError(503, "ServiceUnavailable", "no"), ApiError(429, "TooManyRequests", "no")], ids=repr)
def test_a_server_that_is_away_explains_silence_and_one_that_answers_nonsense_does_not(api, away):
    nonsense = ApiError(NO_ANSWER, "Unreadable", "odd")
    rig = Rig(api, nothing, away, nonsense, nothing)
    seen, wait = [], rig.walk.waits
    rig.walk.waits = Seen(wait, lambda: seen.append((rig.reflector.cut_off, rig.reflector.silence)))
    rig.run()
    assert seen == [(True, 0.0), (False, wait[0])]
    assert (rig.reflector.cut_off, rig.reflector.silence) == (False, 0.0)  # listed again


class Seen(list):
    """Waits, and what there is to see at the beginning of each."""

    def __init__(self, waits, look):
        self._waits, self._look = waits, look

    def append(self, seconds):
        self._look()
        self._waits.append(seconds)
