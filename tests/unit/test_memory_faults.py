"""Faults on demand."""

import threading

import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, Key

KEY = Key("default", "a")
BODY = {"metadata": {"name": "a"}}


@pytest.fixture
def slept():
    return []


@pytest.fixture
def api(slept):
    return FaultyApi(MemoryApi(), sleep=slept.append)


def busy():
    return ApiError(429, "TooManyRequests", "come back later", retry_after=2.0)


def refusal(call, *args, **kwargs):
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_it_is_an_api_and_lets_through_what_no_rule_matches(api):
    port: Api = api
    made = port.create(CONFIG_MAPS, BODY, "default").object
    assert port.get(CONFIG_MAPS, KEY) == made
    assert len(port.list(CONFIG_MAPS, "default").items) == 1
    port.patch(CONFIG_MAPS, KEY, {"data": {"a": "b"}})
    port.replace(CONFIG_MAPS, KEY, BODY)
    assert refusal(port.replace_status, CONFIG_MAPS, KEY, BODY).not_found
    assert port.delete(CONFIG_MAPS, KEY) is None


def test_a_refused_call_does_not_happen_and_the_next_one_does(api):
    api.refuse(busy(), "create")
    assert refusal(api.create, CONFIG_MAPS, BODY, "default").throttled
    assert refusal(api.get, CONFIG_MAPS, KEY).not_found
    api.create(CONFIG_MAPS, BODY, "default")


def test_a_lost_answer_is_of_something_that_happened(api):
    api.lose("create")
    error = refusal(api.create, CONFIG_MAPS, BODY, "default")
    assert (error.unknown, error.unreachable) == (True, True)
    assert api.get(CONFIG_MAPS, KEY)["metadata"]["name"] == "a"


def test_only_writes_are_lost_unless_others_are_named(api):
    api.lose()
    api.list(CONFIG_MAPS)
    assert refusal(api.create, CONFIG_MAPS, BODY, "default").unknown


def test_rules_count_skip_and_choose(api):
    rule = api.refuse(busy(), "get", resource=CONFIG_MAPS, key=KEY, times=2, skip=1)
    api.create(CONFIG_MAPS, BODY, "default")
    assert refusal(api.get, SECRETS, KEY).not_found
    assert refusal(api.get, CONFIG_MAPS, Key("default", "b")).not_found
    api.get(CONFIG_MAPS, KEY)
    assert [refusal(api.get, CONFIG_MAPS, KEY).code for _ in range(2)] == [429, 429]
    api.get(CONFIG_MAPS, KEY)
    assert rule.times == 0


def test_a_rule_may_ask_the_call(api):
    api.refuse(busy(), when=lambda call: call.verb == "create" and call.body["metadata"]["name"] == "b", times=10)
    api.create(CONFIG_MAPS, BODY, "default")
    assert refusal(api.create, CONFIG_MAPS, {"metadata": {"name": "b"}}, "default").throttled


def test_a_delay_sleeps_first(api, slept):
    api.delay(1.5, "list")
    api.list(CONFIG_MAPS)
    api.list(CONFIG_MAPS)
    assert slept == [1.5]


def test_healing_forgets_the_rules(api):
    api.refuse(busy(), times=100)
    api.heal()
    api.list(CONFIG_MAPS)


def test_watches_can_be_refused_and_cut(api):
    api.refuse(busy(), "watch")
    assert refusal(api.watch, CONFIG_MAPS).throttled
    watch = api.watch(CONFIG_MAPS, resource_version="1")
    api.cut_watches()
    assert list(watch) == []


def test_threads_share_a_count(api):
    api.create(CONFIG_MAPS, BODY, "default")
    api.refuse(busy(), "get", times=50)
    refused: list[int] = []

    def ask():
        for _ in range(100):
            try:
                api.get(CONFIG_MAPS, KEY)
            except ApiError as error:
                refused.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [429] * 50
