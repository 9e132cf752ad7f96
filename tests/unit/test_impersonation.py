"""Impersonation: the headers that name another user, and what cannot be said in them."""

import pytest

from genericjob.reconcile.access import Access
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.impersonation import Impersonation
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from harness.scripted import ScriptedServer, answer, stream


def test_nobody_else_needs_no_header():
    assert Impersonation().headers("x") == ()


def test_every_part_has_its_header():
    made = Impersonation("bob", "7", ["b", "a"], {"scopes": ["y", "x"]})
    assert made.headers("x") == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Extra-scopes", "y"),
        ("Impersonate-Extra-scopes", "x"),
    )


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("Acme.com/Project", "acme.com%2fproject"),
        ("a b%", "a%20b%25"),
        ("ü", "%c3%bc"),
        ("a\r\nb:", "a%0d%0ab%3a"),
        ("!#$&'*+-.^_`|~", None),
    ],
)
def test_keys_become_names_of_headers_as_client_go_writes_them(key, name):
    assert Impersonation("bob", extra={key: ["1"]}).headers("x")[1] == (f"Impersonate-Extra-{name or key}", "1")


@pytest.mark.parametrize("made", [Impersonation(uid="7"), Impersonation(groups=["a"]), Impersonation(extra={"a": []})], ids=str)
def test_parts_without_a_user_are_refused(made):
    with pytest.raises(ApiError, match="without a user: name one"):
        made.headers("kubeconfig x")


ODD = ["a\nb", "a\r\nX-Evil: 1", "a\0", "a\x7f", "a\x85", " a", "a ", "\t", "\ud800"]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_what_a_header_cannot_hold_is_refused_everywhere(odd):
    for made in (
        Impersonation(odd),
        Impersonation("bob", odd),
        Impersonation("bob", groups=["fine", odd]),
        Impersonation("bob", extra={"a": [odd]}),
    ):
        with pytest.raises(ApiError, match=r"in kubeconfig x has characters that no HTTP header can hold") as caught:
            made.headers("kubeconfig x")
        assert caught.value.message.isprintable()


def test_a_key_that_is_not_text_is_refused():
    with pytest.raises(ApiError, match="is not text"):
        Impersonation("bob", extra={"\ud800": ["1"]}).headers("x")


def test_options_replace_the_parts_that_they_name():
    configured = Impersonation("bob", "7", ["a"], {"k": ["v"]})
    assert configured.overridden_by(Impersonation()) == configured
    assert configured.overridden_by(Impersonation("eve", groups=("b",))) == Impersonation("eve", "7", ("b",), {"k": ["v"]})


def test_every_request_names_the_user():
    """Reads, writes, streams and logs, in the bytes that the API server expects."""
    with ScriptedServer(answer(200, {}), answer(201, {}), answer(200, {}), answer(200, {}), stream(), stream(b"log\n")) as server:
        token = server.credentials("t").current
        headers = Impersonation("jürgen", groups=["a", "b"]).headers("x")
        api = HttpApi(type(server.credentials())(lambda: Access(token.host, token.port, authorization="Bearer t", impersonation=headers)))
        key = Key("team", "x")
        api.get(CONFIG_MAPS, key)
        api.create(CONFIG_MAPS, {}, "team")
        api.patch(CONFIG_MAPS, key, {})
        api.delete(CONFIG_MAPS, key)
        list(api.watch(CONFIG_MAPS, "team"))
        list(api.text("/log"))
    assert len(server.requests) == 6
    for request in server.requests:
        head = request.partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert [line for line in head if line.lower().startswith((b"authorization", b"impersonate"))] == [
            b"Authorization: Bearer t",
            "Impersonate-User: jürgen".encode(),
            b"Impersonate-Group: a",
            b"Impersonate-Group: b",
        ]
