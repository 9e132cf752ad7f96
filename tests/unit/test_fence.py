"""No write after leadership has ended."""

import msgspec
import pytest

from genericjob.local import MemoryApi
from genericjob.reconcile.api import Api
from genericjob.reconcile.fence import Fenced
from genericjob.reconcile.own_writes import OwnWrites
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
    error = refusal(write, Fenced(memory, lambda: False))
    assert (error.reason, error.unknown, error.unreachable) == ("NotLeading", False, True)
    assert memory.resource_version == before
    write(Fenced(memory, lambda: True))
    assert memory.resource_version != before


def test_reads_always_pass(memory):
    memory.create(CONFIG_MAPS, a_map(labels={"a": "b"}), "default")
    api: Api = Fenced(memory, lambda: False)
    assert api.get(CONFIG_MAPS, KEY)["data"] == {"k": "v"}
    assert len(api.list(CONFIG_MAPS, "default", labels="a=b", fields="metadata.name=c", limit=1, resource_version="0").items) == 1
    assert not api.list(CONFIG_MAPS, "default", labels="a=c").items
    with api.watch(CONFIG_MAPS, "default", labels="a=b", initial_events=True) as watch:
        assert next(iter(watch)).type == "ADDED"


def test_pages_and_streams_are_asked_for_as_given(memory):
    for name in ("a", "b", "c"):
        memory.create(CONFIG_MAPS, a_map(name), "default")
    api = Fenced(memory, lambda: False)
    first = api.list(CONFIG_MAPS, "default", limit=2)
    rest = api.list(CONFIG_MAPS, "default", limit=2, continue_token=first.continue_token)
    assert [item["metadata"]["name"] for item in (*first.items, *rest.items)] == ["a", "b", "c"]
    with api.watch(CONFIG_MAPS, "default", fields="metadata.name=b", resource_version="0", bookmarks=False, timeout=60) as watch:
        assert next(iter(watch)).object["metadata"]["name"] == "b"


def test_every_single_write_asks(memory):
    leads = Leadership(1)
    api = Fenced(memory, leads)
    api.create(CONFIG_MAPS, a_map("a"), "default")
    assert refusal(api.create, CONFIG_MAPS, a_map("b"), "default").reason == "NotLeading"


@pytest.mark.parametrize("threads", [1, 8])
@pytest.mark.parametrize("questions", [0, 1, 13])
def test_leadership_that_ends_in_the_middle_of_a_batch_ends_the_batch(memory, threads, questions):
    writer = Writer(Fenced(memory, Leadership(questions)), threads=threads, primitives=System(), own_writes=OwnWrites({}))
    names = [f"p{n}" for n in range(40)]
    done = writer.apply([Create(PODS, "default", name, msgspec.json.encode(a_pod(name)), "job", lambda pod: "ours") for name in names])
    stored = {pod.name for pod in memory.list(PODS).items}
    assert len(stored) == questions
    assert {each.write.name for each in done if each.fate == "done"} == stored
    assert {each.fate for each in done} <= {"done", "failed", "skipped"}
    assert all(each.error.reason == "NotLeading" for each in done if each.fate == "failed")
    assert any(each.fate == "skipped" for each in done)


def test_deletes_end_as_well(memory):
    pods = [memory.create(PODS, a_pod(f"p{n}"), "default").object for n in range(9)]
    writer = Writer(Fenced(memory, Leadership(4)), threads=3, primitives=System(), own_writes=OwnWrites({}))
    writer.apply([Delete(PODS, Key(pod.namespace, pod.name), pod.uid, "job", 0) for pod in pods])
    assert len(memory.list(PODS).items) == 5
