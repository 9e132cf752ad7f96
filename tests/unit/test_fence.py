"""No write after leadership has ended."""

import threading
from functools import partial

import msgspec
import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.api import Api
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.own_writes import OwnWrites
from genericjob.reconcile.passing import WRITES as WRITING
from genericjob.reconcile.passing import Passing
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import CONFIG_MAPS, PODS, RAW_PODS, Key
from genericjob.reconcile.writer import Create, Delete, Writer
from unit.builders import a_map, a_pod, in_default, refusal


class Leadership:
    """Lasts for so many questions."""

    def __init__(self, questions=10**9):
        self.left = questions

    def __call__(self):
        self.left -= 1
        return self.left >= 0


def fenced(api, allowed=lambda: True):
    return Fenced(api, Fence(allowed, System()))


@pytest.fixture
def memory():
    return MemoryApi()


KEY = in_default("c")

WRITES = [
    lambda api: api.create(CONFIG_MAPS, a_map("new"), "default"),
    lambda api: api.replace(CONFIG_MAPS, KEY, a_map() | {"data": {}}),
    lambda api: api.replace_status(RAW_PODS, in_default("p"), a_pod() | {"status": {"phase": "Failed"}}),
    lambda api: api.patch(CONFIG_MAPS, KEY, {"data": {"k": "w"}}),
    lambda api: api.patch(RAW_PODS, in_default("p"), {"status": {"phase": "Running"}}, subresource="status"),
    lambda api: api.delete(CONFIG_MAPS, KEY, uid=api.get(CONFIG_MAPS, KEY)["metadata"]["uid"]),
]


@pytest.mark.parametrize("write", WRITES)
def test_no_write_passes_without_permission_and_every_one_with_it(memory, write):
    memory.create(CONFIG_MAPS, a_map(), "default")
    memory.create(RAW_PODS, a_pod(), "default")
    before = memory.resource_version
    error = refusal(write, fenced(memory, lambda: False))
    assert (error.reason, error.unknown, error.unreachable) == ("NotLeading", False, True)
    assert memory.resource_version == before
    write(fenced(memory, lambda: True))
    assert memory.resource_version != before


def test_reads_always_pass(memory):
    memory.create(CONFIG_MAPS, a_map(labels={"a": "b"}), "default")
    api: Api = fenced(memory, lambda: False)
    assert api.get(CONFIG_MAPS, KEY)["data"] == {"k": "v"}
    assert len(api.list(CONFIG_MAPS, "default", labels="a=b", fields="metadata.name=c", limit=1, resource_version="0").items) == 1
    assert not api.list(CONFIG_MAPS, "default", labels="a=c").items
    with api.watch(CONFIG_MAPS, "default", labels="a=b", initial_events=True) as watch:
        assert next(iter(watch)).type == "ADDED"


def test_pages_and_streams_are_asked_for_as_given(memory):
    for name in ("a", "b", "c"):
        memory.create(CONFIG_MAPS, a_map(name), "default")
    api = fenced(memory, lambda: False)
    first = api.list(CONFIG_MAPS, "default", limit=2)
    rest = api.list(CONFIG_MAPS, "default", limit=2, continue_token=first.continue_token)
    assert [item["metadata"]["name"] for item in (*first.items, *rest.items)] == ["a", "b", "c"]
    with api.watch(CONFIG_MAPS, "default", fields="metadata.name=b", resource_version="0", bookmarks=False, timeout=60) as watch:
        assert next(iter(watch)).object["metadata"]["name"] == "b"


def test_every_single_write_asks(memory):
    leads = Leadership(1)
    api = fenced(memory, leads)
    api.create(CONFIG_MAPS, a_map("a"), "default")
    assert refusal(api.create, CONFIG_MAPS, a_map("b"), "default").reason == "NotLeading"


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("questions", [0, 1, 13])
def test_leadership_that_ends_in_the_middle_of_a_batch_ends_the_batch(memory, threads, questions):
    writer = Writer(fenced(memory, Leadership(questions)), threads=threads, primitives=System(), own_writes=OwnWrites({}))
    names = [f"p{n}" for n in range(40)]
    creates = [Create(PODS, "default", name, partial(msgspec.json.encode, a_pod(name)), "job", lambda pod: "ours") for name in names]
    done = writer.apply(creates)
    stored = {pod.name for pod in memory.list(PODS).items}
    assert len(stored) == questions
    assert {each.write.name for each in done if each.fate == "done"} == stored
    assert {each.fate for each in done} <= {"done", "failed", "skipped"}
    assert all(each.error.reason == "NotLeading" for each in done if each.fate == "failed")
    assert any(each.fate == "skipped" for each in done)


def test_deletes_end_as_well(memory):
    pods = [memory.create(PODS, a_pod(f"p{n}"), "default").object for n in range(9)]
    writer = Writer(fenced(memory, Leadership(4)), threads=3, primitives=System(), own_writes=OwnWrites({}))
    writer.apply([Delete(PODS, Key(pod.namespace, pod.name), pod.uid, "job", 0) for pod in pods])
    assert len(memory.list(PODS).items) == 5


# ------------------------------------------------------------------------------------------------ the end of a leader


class Stuck(Passing):
    """An API whose writes wait until the test lets them through."""

    def __init__(self, api):
        super().__init__(api)
        self.sent, self.arrive = threading.Event(), threading.Event()

    def through(self, call, do):
        if call.verb not in WRITING:
            return do()
        self.sent.set()
        assert self.arrive.wait(30)
        return do()


def under_way(api, write):
    """Send a write in another thread, and wait until it is on its way."""
    thread = threading.Thread(target=write, args=(api,), daemon=True)
    thread.start()
    assert api.api.sent.wait(30)
    return thread


def behind_a_fence(memory):
    memory.create(CONFIG_MAPS, a_map(), "default")
    memory.create(RAW_PODS, a_pod(), "default")
    fence = Fence(lambda: True, System())
    return fence, Fenced(Stuck(memory), fence)


@pytest.mark.parametrize("write", WRITES[1:])
def test_a_fence_is_quiet_when_the_last_write_that_must_not_be_late_has_ended(memory, write):
    fence, api = behind_a_fence(memory)
    thread = under_way(api, write)
    assert not fence.shut(0.05)
    threading.Timer(0.05, api.api.arrive.set).start()
    assert fence.shut(30)
    thread.join(30)


def test_a_create_does_not_keep_a_fence_from_being_quiet(memory):
    fence, api = behind_a_fence(memory)
    thread = under_way(api, WRITES[0])
    assert fence.shut(0)
    api.api.arrive.set()
    thread.join(30)
    assert memory.get(CONFIG_MAPS, in_default("new"))  # it was late, and that is all


@pytest.mark.parametrize("write", WRITES)
def test_nothing_passes_a_fence_that_was_shut_although_this_process_still_leads(memory, write):
    fence, api = behind_a_fence(memory)
    api.api.arrive.set()
    assert fence.shut(0)
    assert not fence.is_open()
    assert refusal(write, api).reason == "NotLeading"


def test_a_write_that_failed_is_not_under_way_any_more(memory):
    fence = Fence(lambda: True, System())
    assert refusal(Fenced(memory, fence).delete, CONFIG_MAPS, KEY).not_found
    assert fence.shut(0)


def test_a_write_that_was_not_allowed_is_not_under_way(memory):
    fence = Fence(lambda: False, System())
    refusal(Fenced(memory, fence).delete, CONFIG_MAPS, KEY)
    assert fence.shut(0)
