"""Logs as they come over HTTP, and where a user means to work."""

import pytest

from genericjob.reconcile.access import from_kubeconfig, in_cluster
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
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
    assert read(stream(b"one\ntw", b"o\n", b"\nlast")) == [b"one", b"two", b"", b"last"]


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
        assert next(lines) == b"one"
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
