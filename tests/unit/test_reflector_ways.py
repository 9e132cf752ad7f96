"""The reflector's other ways: to begin with a watch, to hurry, and to end."""

import logging
import threading
from dataclasses import replace

import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.api import Page
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.objects import slim_object
from genericjob.reconcile.primitives import System
from genericjob.reconcile.reflector import Reflector, Timings
from genericjob.reconcile.resources import CONFIG_MAPS
from genericjob.reconcile.store import Store
from unit.walking import GONE, MAPS, REFUSED, Rig, during, lost_history, nothing, put, remove, told


@pytest.fixture
def api():
    return MemoryApi()


# ------------------------------------------------------------------------------------------------ watch-list


def test_a_watch_list_brings_the_first_state_and_goes_on(api):
    put(api, "a", "b")
    rig = Rig(api, nothing, lambda: put(api, "d"), watch_list=True)
    rig.reflector._advanced = lambda: None if rig.names != ["a", "b"] else put(api, "c")  # the very moment the list is there
    rig.run()
    assert rig.calls == ["watch-list", f"watch {int(api.resource_version) - 1}"]
    assert told(rig.changes) == ["+a", "+b", "+c", "+d"]
    assert [change.initial for change in rig.changes] == [True, True, False, False]


def test_a_watch_list_tells_the_difference_like_any_list(api):
    put(api, "again", "changes", "goes", "stays")
    rig = Rig(api, nothing, lambda: lost_history(api), nothing, watch_list=True)
    rig.run()
    assert rig.verbs == ["watch-list", "watch", "watch-list"]
    assert told(rig.changes)[4:] == ["-again", "-goes", "+again", "~changes", "+comes"]


def odd(wire):
    raise ValueError(f"{wire.metadata.name} is odd")


@pytest.mark.parametrize("watch_list", [False, True])
def test_what_is_salvaged_of_an_object_is_in_the_first_state(api, watch_list):
    put(api, "a")
    resource = replace(MAPS, slim=odd, salvage=lambda lost, data: slim_object(codec(MAPS)._one.decode(data)))
    reported = []
    rig = Rig(api, nothing, nothing, resource=resource, unreadable=reported.append, watch_list=watch_list)
    rig.run()
    assert told(rig.changes) == ["+a"]
    assert [lost.problem for lost in reported] == ["a is odd"]


NOT_KNOWN = ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
DISABLED = ApiError(500, "InternalError", "RequestWatchProgress is disabled")


@pytest.mark.parametrize("how", ["refused", "broken", "ended", "ignored"])
def test_a_server_that_cannot_do_it_is_listed_from_then_on(api, how):
    put(api, "a")
    answer = {"refused": NOT_KNOWN, "broken": during(lambda: DISABLED), "ended": nothing, "ignored": during(api.bookmark)}[how]
    rig = Rig(api, answer, nothing, GONE, nothing, watch_list=True)
    honest = rig.steps.watch

    def without_an_end(*args, **options):
        stream = honest(*args, **options)
        stream.watch._says_when_initial_events_end = False
        return stream

    rig.steps.watch = without_an_end
    rig.run()
    assert rig.verbs == ["watch-list", "list", "watch", "list"]
    assert told(rig.changes) == ["+a"]
    assert rig.waits == [0.5]  # for the 410: a server that merely cannot do it needs no rest


def test_a_watch_list_that_has_worked_is_tried_again(api):
    rig = Rig(api, nothing, GONE, REFUSED, nothing, watch_list=True)
    rig.run()
    assert rig.verbs == ["watch-list", "watch", "watch-list", "watch-list"]


# ------------------------------------------------------------------------------------------------ getting there soon


def test_a_quiet_store_reaches_a_version_by_a_watch_that_ends_soon(api):
    def hurry():
        api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
        rig.reflector.reach(api.resource_version)

    def ends_soon():
        api.bookmark()
        rig.walk.time += 3

    rig = Rig(api, nothing, during(hurry), during(ends_soon), nothing)
    rig.run()
    version = int(api.resource_version)
    assert rig.calls == ["list", f"watch {version - 1}", f"watch {version - 1}", f"watch {version}"]
    assert [options.get("timeout") for options in rig.steps.options[:4]] == [None, 450.0, 3.0, 450.0]
    assert rig.ends("short") == 1  # the last one only: being hurried is no failure


def test_what_happens_meanwhile_is_not_lost_by_hurrying(api):
    put(api, "a")

    def hurry():
        remove(api, "a")
        api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
        rig.reflector.reach(api.resource_version)

    rig = Rig(api, nothing, during(hurry), nothing, nothing)
    rig.run()
    assert rig.verbs == ["list", "watch", "watch", "list"]  # nothing was said of the version, so a list says it
    assert told(rig.changes) == ["+a", "-a"]
    assert not rig.changes[1].tombstone  # it was seen to go
    assert rig.store.version == api.resource_version


def test_who_is_there_is_not_disturbed(api):
    def ask():
        rig.reflector.reach(rig.store.version)
        put(api, "a")

    rig = Rig(api, nothing, during(ask), nothing)
    rig.run()
    assert rig.calls == ["list", f"watch {int(api.resource_version) - 1}", f"watch {api.resource_version}"]


def test_who_hurries_already_is_not_disturbed_by_the_same_wish(api):
    def hurry():
        api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
        rig.reflector.reach(api.resource_version)

    def again():
        rig.reflector.reach(api.resource_version)
        api.bookmark()
        rig.walk.time += 3

    rig = Rig(api, nothing, during(hurry), during(again))
    rig.run()
    assert rig.store.version == api.resource_version
    assert rig.waits == []


def test_a_request_to_hurry_that_comes_while_a_watch_is_opened_is_not_lost(api):
    def opening():
        api.create(CONFIG_MAPS, {"metadata": {"name": "elsewhere"}}, "kube-system")
        rig.reflector.reach(api.resource_version)

    rig = Rig(api, nothing, opening, nothing, nothing)
    rig.run()
    assert [options.get("timeout") for options in rig.steps.options[:3]] == [None, 450.0, 3.0]


BEYOND = "999999"
"""A version that the server had before its store was restored from a backup."""


@pytest.mark.parametrize("watch_list", [False, True])
def test_a_version_that_the_server_has_lost_is_given_up_after_one_list(api, watch_list, caplog):
    def hurry():
        rig.reflector.reach(BEYOND)

    def quiet():
        rig.walk.time += 3

    def again():
        rig.reflector.reach(BEYOND)
        quiet()

    rig = Rig(api, nothing, during(hurry), during(quiet), nothing, during(again), during(quiet), during(quiet), watch_list=watch_list)
    rig.run()
    listed = "watch-list" if watch_list else "list"
    assert [call for call in rig.verbs if call == listed] == [listed] * 2
    assert rig.reflector.unreachable == BEYOND
    assert [options["timeout"] for options in rig.steps.options if "timeout" in options].count(3.0) == 1  # one hurried watch
    assert f"the server is at version {api.resource_version}, and was at {BEYOND} before" in caplog.text


def test_a_list_that_began_before_a_version_was_wanted_says_nothing_about_it(api):
    put(api, "a")

    def late():
        put(api, "b")
        rig.reflector.reach(api.resource_version)

    rig = Rig(api, nothing, nothing)
    honest = rig.steps.list

    def overtaken(*args, **options):
        page = honest(*args, **options)
        late()
        return page

    rig.steps.list = overtaken
    rig.run()
    assert rig.reflector.unreachable == ""
    assert rig.reflector._wanted == api.resource_version


# ------------------------------------------------------------------------------------------------ measured


def test_it_is_measured(api):
    def happens_later():
        rig.walk.time += 7
        put(api, "b", "c")

    put(api, "a")
    rig = Rig(api, nothing, during(happens_later))
    assert rig.sample("reflector_events_total") == 0
    assert [rig.ends(reason) for reason in ("timeout", "expired", "short", "error")] == [0, 0, 0, 0]
    rig.run()
    rig.walk.time += 5
    assert rig.sample("reflector_list_duration_seconds_count") == 1
    assert rig.sample("reflector_events_total") == 2
    assert rig.sample("genericjob_store_objects") == 3
    assert rig.sample("genericjob_watch_silence_seconds") == 5


def test_a_server_that_is_away_is_worth_a_warning_and_a_busy_or_forgetful_one_is_not(api, caplog):
    rig = Rig(api, nothing, ApiError(429, "TooManyRequests", "later"), GONE, nothing, REFUSED)
    with caplog.at_level(logging.INFO):
        rig.run()
    assert [(record.levelname, record.args[1]) for record in caplog.records] == [
        ("INFO", "watched"),
        ("INFO", "listed"),
        ("WARNING", "watched"),
    ]


# ------------------------------------------------------------------------------------------------ the end


class Threaded:
    """A reflector in a thread of its own, on a real clock."""

    def __init__(self, api, **options):
        self.changed = threading.Event()
        self.reflector = Reflector(
            api,
            MAPS,
            Store({}),
            changed=lambda change: self.changed.set(),
            primitives=System(),
            metrics=Metrics().reflector("configmaps"),
            **options,
        )
        self.thread = threading.Thread(target=self.reflector.run, daemon=True)
        self.thread.start()

    def stop(self):
        self.reflector.stop()
        self.thread.join(10)
        return not self.thread.is_alive()


def test_a_watch_that_waits_is_ended_from_another_thread(api):
    threaded = Threaded(api)
    put(api, "a")
    assert threaded.changed.wait(10)
    assert threaded.stop()


def test_a_reflector_that_backs_off_is_ended_from_another_thread():
    class Away:
        asked = threading.Event()

        def list(self, *args, **options):
            self.asked.set()
            raise REFUSED

    threaded = Threaded(Away(), timings=Timings(backoff=600.0, longest_backoff=600.0))
    assert Away.asked.wait(10)
    assert threaded.stop()


def test_a_watch_that_is_being_opened_when_the_end_comes_is_closed_at_once(api):
    class Slow:
        opening, go_on, opened = threading.Event(), threading.Event(), []

        def list(self, *args, **options):
            return api.list(*args, **options)

        def watch(self, *args, **options):
            self.opening.set()
            self.go_on.wait(10)
            self.opened.append(api.watch(*args, **options))
            return self.opened[0]

    threaded = Threaded(Slow())
    assert Slow.opening.wait(10)
    threaded.reflector.stop()
    Slow.go_on.set()
    threaded.thread.join(10)
    assert not threaded.thread.is_alive()
    assert list(Slow.opened[0]) == []


def test_a_long_list_is_ended_after_its_page(api):
    put(api, *(f"m{n}" for n in range(1001)))
    rig = Rig(api, nothing, nothing, nothing)
    rig.steps.steps = iter([nothing, rig.reflector.stop])
    rig.run()
    assert rig.steps.calls == ["list", "continue"]
    assert not rig.reflector.listed


def test_a_list_that_never_gets_beyond_its_first_page_is_no_sign_of_life(api):
    put(api, *(f"m{n}" for n in range(1001)))
    silences = []

    def slow():
        silences.append(rig.reflector.silence)
        rig.walk.time += 100

    rig = Rig(api, slow, GONE, slow, GONE, slow)
    rig.run()
    assert rig.verbs[:5] == ["list", "continue", "list", "continue", "list"]
    assert silences[1] >= 100
    assert silences[2] >= 200


def test_every_page_of_a_long_list_is_a_sign_of_life(api):
    put(api, *(f"m{n}" for n in range(1001)))
    silences = []

    def slow():
        rig.walk.time += 100
        silences.append(rig.reflector.silence)

    rig = Rig(api, slow, slow, slow, nothing)
    rig.run()
    assert rig.verbs == ["list", "continue", "continue", "watch"]
    assert silences == [100, 100, 100]


def test_empty_pages_are_no_sign_of_life(api):
    silences = []

    def empty(*args, continue_token="", **options):
        rig.walk.time += 100
        silences.append(rig.reflector.silence)
        if len(silences) == 3:
            rig.reflector.stop()
        return Page([], "1", f"{continue_token}x")

    rig = Rig(api)
    rig.steps.list = empty
    rig.run()
    assert silences == [100, 200, 300]


def test_an_error_at_the_end_is_nobodys_concern(api):
    def ends():
        rig.reflector.stop()
        return GONE

    rig = Rig(api, nothing, ends)
    rig.run()
    assert rig.waits == []
    assert rig.ends("expired") == 0
