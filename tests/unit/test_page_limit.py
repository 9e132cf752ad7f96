"""How many objects are asked for at a time: few heavy ones, many light ones."""

import gc
import gzip
import re
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.reconcile.access import Access, Credentials
from genericjob.reconcile.api import Page, pages
from genericjob.reconcile.codec import codec
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.page_limit import FIRST, MOST, TOO_HEAVY_BYTES, WANTED_BYTES
from genericjob.reconcile.resources import CONFIG_MAPS
from harness.scripted import ScriptedServer, answer
from unit.walking import MAPS

USUAL, LARGE = 5_000, 1_400_000
"""Bytes of a pod, and of an object that a server hardly accepts."""


class Source:
    """A list of objects of given weights, which is served page by page."""

    def __init__(self, weights, *, weighs=True):
        self.weights, self.weighs = weights, weighs
        self.asked, self.served = [], []

    def list(self, resource, namespace="", *, labels="", fields="", limit=0, continue_token=""):
        self.asked.append(limit)
        begin = int(continue_token or 0)
        here = self.weights[begin : begin + limit]
        self.served.append(sum(here))
        token = str(begin + limit) if begin + limit < len(self.weights) else ""
        return Page(list(range(begin, begin + len(here))), "1", token, weight=self.served[-1] if self.weighs else 0)

    def read(self, **options):
        return [item for page in pages(self, CONFIG_MAPS, **options) for item in page.items]


def test_usual_objects_come_in_few_large_pages():
    source = Source([USUAL] * 5_000)
    assert source.read() == list(range(5_000))
    assert source.asked == [FIRST, *[MOST] * 10]


def test_objects_of_unknown_weight_come_in_few_large_pages():
    source = Source([LARGE] * 1_000, weighs=False)
    assert source.read() == list(range(1_000))
    assert source.asked == [FIRST, MOST, MOST]


def test_after_a_heavy_page_the_next_ones_have_the_wanted_weight():
    source = Source([LARGE] * 200)
    assert source.read() == list(range(200))
    assert source.asked[0] == FIRST
    assert max(source.served[1:]) <= WANTED_BYTES
    assert len(source.asked) == 1 + 100 // (WANTED_BYTES // LARGE)


def test_pages_grow_again_behind_heavy_objects():
    source = Source([LARGE] * 100 + [USUAL] * 2_000)
    assert source.read() == list(range(2_100))
    assert source.asked == [100, 5, 25, 125, 500, 500, 500, 500]


def test_an_object_that_is_heavier_than_a_page_comes_alone():
    source = Source([2 * WANTED_BYTES] * 104)
    assert source.read() == list(range(104))
    assert source.asked == [FIRST, 1, 1, 1, 1]


def test_no_page_has_more_objects_than_the_caller_wants():
    source = Source([USUAL] * 10)
    source.read(limit=4)
    assert source.asked == [4, 4, 4]


def test_a_page_without_objects_that_is_not_the_last_is_followed_by_the_next():
    class Sparse(Source):
        def list(self, *args, **options):
            page = super().list(*args, **options)
            return Page([], page.resource_version, page.continue_token, weight=100)

    source = Sparse([USUAL] * 700)
    assert source.read() == []
    assert source.asked == [FIRST, MOST, MOST]


class Endless:
    """A list that always has a further page."""

    def __init__(self, *, items=(), tokens=None):
        self.items, self.tokens = items, tokens
        self.asked = []

    def list(self, *_, continue_token="", **__):
        self.asked.append(continue_token)
        return Page(self.items, "1", str(len(self.asked) % self.tokens if self.tokens else len(self.asked)))


def test_a_list_whose_pages_stay_empty_is_ended():
    source = Endless()
    with pytest.raises(ApiError, match="the server's list of configmaps has no end: 100 pages in a row are empty") as caught:
        list(pages(source, CONFIG_MAPS))
    assert (caught.value.reason, len(source.asked)) == ("Unreadable", 100)


def test_a_list_whose_tokens_come_again_is_ended():
    source = Endless(items=[1], tokens=3)
    with pytest.raises(ApiError, match="has no end: a continue token came twice"):
        list(pages(source, CONFIG_MAPS))
    assert source.asked == ["", "1", "2", "0"]


@given(st.lists(st.sampled_from((100, USUAL, 100_000, LARGE)), max_size=2_000))
def test_everything_comes_once_whatever_it_weighs(weights):
    source = Source(weights)
    assert source.read() == list(range(len(weights)))
    assert all(1 <= limit <= MOST for limit in source.asked)


def test_a_page_knows_its_weight():
    text = b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}]}'
    assert codec(MAPS).page(text).weight == len(text)
    odd = b'{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":5}}]}'
    page = codec(MAPS).page(odd)
    assert (len(page.items), len(page.unreadable), page.weight) == (1, 1, len(odd))


# ------------------------------------------------------------------------------------------------ over HTTP


def a_page(number, *, size=LARGE, token="", compressed=True):
    """The answer to a list: so many objects, each of this size."""
    items = [{"metadata": {"name": f"m{n}", "uid": f"u{n}", "annotations": {"x": "x" * size}}} for n in range(number)]
    data = msgspec.json.encode({"metadata": {"resourceVersion": "9", "continue": token}, "items": items})
    return answer(200, gzip.compress(data, 1), Content_Encoding="gzip") if compressed else answer(200, data)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_page_that_is_too_heavy_is_given_up_and_asked_for_with_a_smaller_limit(compressed):
    script = [a_page(number, compressed=compressed) for number in (30, 20, 4)]
    with ScriptedServer(*script) as server:
        page = HttpApi(server.credentials()).list(MAPS, "ns", labels="a=b", limit=100, continue_token="here")
        assert [item.name for item in page.items] == ["m0", "m1", "m2", "m3"]
    asked = "GET /api/v1/namespaces/ns/configmaps?labelSelector=a%3Db&limit={}&continue=here HTTP/1.1"
    assert server.heads() == [asked.format(limit) for limit in (100, 20, 4)]


@pytest.mark.parametrize("limit", [0, 1])
def test_what_cannot_be_asked_for_in_smaller_pages_is_read_whatever_it_weighs(limit):
    with ScriptedServer(a_page(1, size=TOO_HEAVY_BYTES + 1)) as server:
        assert len(HttpApi(server.credentials()).list(MAPS, limit=limit).items) == 1


def test_an_object_without_an_end_fills_no_memory(monkeypatch):
    monkeypatch.setattr("genericjob.reconcile.http.TOO_HEAVY_BYTES", 20_000)
    monkeypatch.setattr("genericjob.reconcile.http.LARGEST_OBJECT_BYTES", 200_000)
    with ScriptedServer(*[a_page(2, size=300_000)] * 2) as server:
        with pytest.raises(ApiError, match="the server sent one object of configmaps with more than 200,000 bytes") as caught:
            HttpApi(server.credentials()).list(MAPS, limit=2)
        assert [re.search("limit=[0-9]+", head)[0] for head in server.heads()] == ["limit=2", "limit=1"]
    assert caught.value.reason == "Unreadable"


def test_a_compressed_page_whose_end_is_missing_is_an_error():
    data = gzip.compress(b'{"metadata":{"resourceVersion":"9"},"items":[]}')
    with ScriptedServer(answer(200, data[:-9], Content_Encoding="gzip")) as server, pytest.raises(Exception, match="its end is missing"):
        HttpApi(server.credentials()).list(MAPS, limit=500)


class Stored:
    """A server of large objects, which come in the order and the pages that are asked for."""

    def __init__(self, objects):
        self.server = ScriptedServer(*[self.serve] * 100)
        self.objects = objects

    def serve(self, peer):
        head = self.server.requests[-1]
        begin, limit = (int(found[1]) if (found := re.search(name + rb"=(\d+)", head)) else 0 for name in (b"continue", b"limit"))
        end = min(self.objects, begin + limit)
        return a_page(end - begin, token=str(end) if end < self.objects else "")(peer)


def peak_of_a_list(port):
    """Return how many objects a list has, and the bytes that reading it takes at most."""
    api = HttpApi(Credentials(lambda: Access("127.0.0.1", port, source="the test")))
    list(pages(api, MAPS, limit=1))  # what is loaded once
    gc.collect()
    tracemalloc.start()
    found = sum(len(page.items) for page in pages(api, MAPS))
    return found, tracemalloc.get_traced_memory()[1]


def test_a_list_of_large_objects_takes_a_bounded_part_of_memory():
    stored = Stored(40)  # 56 MB
    with stored.server, ProcessPoolExecutor(1, get_context("spawn")) as process:
        found, taken = process.submit(peak_of_a_list, stored.server.port).result()
    assert found == 40
    assert taken < 2.5 * TOO_HEAVY_BYTES
