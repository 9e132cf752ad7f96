"""Logs as they come over HTTP, and where a user means to work."""

import re
from types import SimpleNamespace

import pytest

from genericjob.cli.loglines import Source, lines_of
from genericjob.reconcile.access import from_kubeconfig, in_cluster
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import Key
from harness.scripted import ScriptedServer, answer, stream

KUBECONFIG = """
current-context: one
contexts:
  - {name: one, context: {cluster: it, namespace: team}}
  - {name: two, context: {cluster: it}}
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
"""


def read(*steps):
    with ScriptedServer(*steps) as server:
        return list(HttpApi(server.credentials()).text("/api/v1/namespaces/n/pods/p/log", {"follow": "true"}))


def test_lines_are_put_together_from_pieces():
    assert read(stream(b"one\ntw", b"o\n", b"\nlast")) == [b"one\n", b"two\n", b"\n", b"last"]


def test_parts_of_lines_come_as_they_are_sent_if_that_is_wanted():
    with ScriptedServer(stream(b"one\ntw", b"o\n", b"\r 10%", b"\r 20%")) as server:
        parts = list(HttpApi(server.credentials()).text("/log", whole=False))
    assert b"".join(parts) == b"one\ntwo\n\r 10%\r 20%"
    assert all(b"\n" not in part[:-1] for part in parts)


STAMPED = b"2026-11-16T12:00:00.000000001Z "


@pytest.mark.parametrize(
    ("sent", "lines"),
    [
        ([STAMPED + b"one\n", STAMPED + b"two\n"], [b"one\n", b"two\n"]),
        ([STAMPED[:9], STAMPED[9:] + b"half", b" done\n"], [b"half", b" done\n"]),
        ([STAMPED + b"\r 10%", b"\r 20%", b"\n" + STAMPED + b"two\n"], [b"\r 10%", b"\r 20%", b"\n", b"two\n"]),
        ([STAMPED + b"a ", STAMPED + b"of its own\n"], [b"a ", STAMPED + b"of its own\n"]),
        ([STAMPED + STAMPED + b"x\n"], [STAMPED + b"x\n"]),
        ([b"no time\n", b"2026"], [b"no time\n", b"2026"]),
    ],
)
def test_a_time_is_taken_away_only_where_a_line_begins(sent, lines):
    """Whatever the pieces are: each of these is what came at a time."""

    class Server:
        def text(self, path, query, *, whole):
            assert not whole
            return iter([part for data in sent for part in re.findall(rb"[^\n]*\n|[^\n]+", data)])

    source = Source("worker-0", Key("n", "p"), "u-1", "main")
    found = list(lines_of(SimpleNamespace(api=Server()), source, follow=True))
    assert [line.data for line in found] == lines


def test_a_log_that_is_cut_is_no_log_that_has_ended():
    with pytest.raises(ApiError, match="the answer was cut"):
        read(stream(b"one\n", end=False))


def test_a_log_that_is_refused():
    with pytest.raises(ApiError, match="container is waiting") as raised:
        read(answer(400, {"message": "container is waiting"}))
    assert raised.value.code == 400


def test_a_log_can_be_closed_while_somebody_waits_for_more():
    with ScriptedServer(stream(b"one\n")) as server:
        text = HttpApi(server.credentials()).text("/log")
        lines = iter(text)
        assert next(lines) == b"one\n"
        text.close()
        assert list(lines) == []


def test_the_context_says_where(tmp_path):
    (tmp_path / "config").write_text(KUBECONFIG)
    found = from_kubeconfig(str(tmp_path / "config")).current
    assert (found.context, found.namespace) == ("one", "team")
    found = from_kubeconfig(str(tmp_path / "config"), "two").current
    assert (found.context, found.namespace) == ("two", "")


def test_a_pod_works_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("none")
    (tmp_path / "namespace").write_text("home\n")
    monkeypatch.setattr("genericjob.reconcile.access._tls", lambda *given: None)
    assert in_cluster(tmp_path).current.namespace == "home"
