"""Credentials: kept up to date, and refused where they could not be sent."""

import pytest

from genericjob.reconcile.access import Access, Credentials, from_kubeconfig, unauthorized_hint
from genericjob.reconcile.errors import ApiError

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: {user}}}}}]
clusters: [{{name: it, cluster: {{server: "{server}"}}}}]
users: [{{name: me, user: {{token: "{token}"}}}}]
"""


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def tokens(*found):
    """Credentials that find one token after the other; an exception stands for a file that cannot be read."""
    left = list(found)

    def load():
        token = left.pop(0)
        if isinstance(token, Exception):
            raise token
        return Access("127.0.0.1", 1, authorization=token)

    return load


def test_a_mounted_token_is_read_again_when_it_has_become_old():
    clock = Clock()
    credentials = Credentials(tokens("one", "two"), max_age=60, clock=clock)
    clock.now = 60
    assert credentials.current.authorization == "one"
    clock.now = 61
    assert credentials.current.authorization == "two"


def test_a_token_that_cannot_be_read_just_now_leaves_the_old_one():
    clock = Clock()
    credentials = Credentials(tokens("one", ApiError(0, "Configuration", "being replaced"), "two"), max_age=60, clock=clock)
    clock.now = 61
    assert credentials.current.authorization == "one"
    assert credentials.replace(credentials.current)
    assert credentials.current.authorization == "two"


def test_credentials_that_another_thread_replaced_are_tried_and_not_read_again():
    credentials = Credentials(tokens("one", "two"))
    old = credentials.current
    assert credentials.replace(old)
    assert credentials.replace(old)  # a third reading would find nothing


def written(path, *, user="me", server="https://127.0.0.1:1", token="t"):
    path.write_text(KUBECONFIG.format(user=user, server=server, token=token))
    return str(path)


def complaint(path, context=""):
    with pytest.raises(ApiError) as caught:
        from_kubeconfig(path, context)
    assert "\n" not in caught.value.message
    return caught.value.message


def test_a_kubeconfig_is_read(tmp_path):
    access = from_kubeconfig(written(tmp_path / "config", server="https://[::1]:6443/k8s/one/")).current
    assert (access.host, access.port, access.prefix, access.authorization) == ("::1", 6443, "/k8s/one", "Bearer t")
    assert access.url == "https://[::1]:6443/k8s/one"


@pytest.mark.parametrize("token", ["a\\r\\nX-Evil: 1", "\u043a\u043b\u044e\u0447", "a\\nb"])
def test_a_token_that_would_break_out_of_its_header_is_refused(tmp_path, token):
    assert "no HTTP header can hold" in complaint(written(tmp_path / "config", token=token))


def test_a_context_that_is_not_there_is_named_with_those_that_are(tmp_path):
    assert "there is no context 'other'" in (text := complaint(written(tmp_path / "config"), "other"))
    assert "it has: it" in text


def test_a_user_that_is_not_there_is_not_nobody(tmp_path):
    assert "names a user 'ghost' that is not there" in complaint(written(tmp_path / "config", user="ghost"))


@pytest.mark.parametrize("server", ["ftp://x", "nothing", "https://", "https://x:port"])
def test_an_address_that_is_none_is_refused(tmp_path, server):
    assert "address" in complaint(written(tmp_path / "config", server=server))


def test_a_401_is_explained():
    assert "no credentials" in unauthorized_hint(Access("h", 1, source="x"))
    assert "does not accept the token in x" in unauthorized_hint(Access("h", 1, authorization="Bearer t", source="x"))
