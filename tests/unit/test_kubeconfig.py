"""Kubeconfig files: merged, checked, and never printed. `tests/e2e/test_identity.py` compares with kubectl."""

import base64
import os

import pytest
import yaml

from genericjob.reconcile import access as module
from genericjob.reconcile import kubeconfig
from genericjob.reconcile.access import find, from_kubeconfig
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.impersonation import Impersonation


def config(current="it", *, server="https://127.0.0.1:1", user="me", namespace=None, cluster=None, **fields):
    """A kubeconfig with one context; keywords are fields of its user."""
    return {
        "current-context": current,
        "clusters": [{"name": "it", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": user, "user": {name.rstrip("_").replace("_", "-"): value for name, value in fields.items()}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": user, "namespace": namespace}}],
    }


@pytest.fixture
def write(tmp_path):
    """`write(name, content)`: a file, and its path."""

    def written(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return written


def complaint(*paths, context=""):
    with pytest.raises(ApiError) as caught:
        from_kubeconfig(paths, context)
    assert "\n" not in caught.value.message
    return caught.value.message


# ------------------------------------------------------------------------------------------------ which files


def test_the_option_wins_then_the_variable_then_the_home_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", "a::b:a:~/c")
    assert kubeconfig.files("x:y") == ["x:y"]
    assert kubeconfig.files() == ["a", "b", "~/c"]
    monkeypatch.setenv("KUBECONFIG", ":")
    assert kubeconfig.files() == []
    monkeypatch.setenv("KUBECONFIG", "")
    assert kubeconfig.files() == [str(tmp_path / ".kube" / "config")]


def test_a_user_without_a_home_has_no_file_there(monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
    assert kubeconfig.files() == []


@pytest.fixture
def pod(monkeypatch, tmp_path):
    """The service account of a pod, without a home or $KUBECONFIG."""
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    for name, text in {"token": "of-the-pod\n", "namespace": "team\n", "ca.crt": ""}.items():
        (mounted / name).write_text(text)
    monkeypatch.setattr(module, "SERVICE_ACCOUNT", mounted)
    for name, value in {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    for name in ("KUBECONFIG", "POD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    return mounted


def test_a_kubeconfig_comes_before_the_service_account_but_for_the_controller(pod, write, monkeypatch):
    assert find().current.authorization == "Bearer of-the-pod"
    monkeypatch.setenv("KUBECONFIG", write("c", config(token="mine")))
    assert find().current.authorization == "Bearer mine"
    assert find(pod_first=True).current.authorization == "Bearer of-the-pod"
    assert find(write("d", config(token="named")), pod_first=True).current.authorization == "Bearer named"
    assert find(context="it", pod_first=True).current.authorization == "Bearer mine"


def test_files_that_choose_nothing_leave_the_service_account(pod, write, monkeypatch):
    for paths in ("nowhere", write("c", config(current="")), write("d", "")):
        monkeypatch.setenv("KUBECONFIG", paths)
        assert find().current.source == f"service account in {pod}"
    monkeypatch.setenv("KUBECONFIG", write("e", "a: ["))
    with pytest.raises(ApiError, match="is not YAML"):
        find()


def test_the_pod_is_where_commands_work_unless_the_context_says_otherwise(pod, write, monkeypatch):
    assert (find().current.namespace, find().current.authority) == ("team", "[fd00::1]:443")
    assert from_kubeconfig(write("c", config())).current.namespace == "team"
    assert from_kubeconfig(write("c", config(namespace="default"))).current.namespace == "default"
    monkeypatch.setenv("POD_NAMESPACE", "elsewhere")
    assert find().current.namespace == "elsewhere"
    (pod / "token").unlink()
    assert from_kubeconfig(write("c", config())).current.namespace == ""


@pytest.mark.parametrize(("name", "text", "words"), [("token", " ", "its token is empty"), ("ca.crt", "none", "certificate")])
def test_a_service_account_that_cannot_be_used(pod, name, text, words):
    (pod / name).write_text(text)
    with pytest.raises(ApiError, match=words):
        find()


def test_options_to_impersonate_hold_in_a_pod_too(pod):
    assert find(impersonate=Impersonation("bob")).current.impersonation == (("Impersonate-User", "bob"),)
    with pytest.raises(ApiError, match="without a user"):
        find(impersonate=Impersonation(groups=["a"]))


# ------------------------------------------------------------------------------------------------ merging


def test_the_first_file_decides_each_entry_as_a_whole_and_the_context(write):
    one = write("one", config(token="one"))
    two = write("two", config("other", server="https://127.0.0.1:2", token="two", as_="bob"))
    access = from_kubeconfig([one, "missing", two]).current
    assert (access.port, access.authorization, access.impersonation, access.context) == (1, "Bearer one", (), "it")
    assert access.source == f"kubeconfig {one}:{two}"
    assert from_kubeconfig([two, one], "it").current.authorization == "Bearer two"


def test_relative_paths_are_relative_to_their_own_files(write, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    one, two = write("one", {**config(), "users": None}), write("sub/two", config(tokenFile="token"))
    write("sub/token", "t\n")
    assert from_kubeconfig([one, two]).current.authorization == "Bearer t"
    user = kubeconfig.read([write("sub/c", config(client_certificate="a", client_key="/b", exec={"command": "./c"}))]).choose().user
    assert (user.client_certificate, user.client_key, user.exec["command"]) == (f"{tmp_path}/sub/a", "/b", f"{tmp_path}/sub/./c")
    user = kubeconfig.read([write("sub/c", config(exec={"command": "aws"}))]).choose().user
    assert user.exec["command"] == "aws"


def test_a_token_file_wins_over_a_token_as_long_as_it_can_be_read(write):
    path = write("c", config(token="old", tokenFile="token"))
    assert from_kubeconfig(path).current.authorization == "Bearer old"
    write("token", "\n")
    assert from_kubeconfig(path).current.authorization == "Bearer old"
    write("token", "new\n")
    assert from_kubeconfig(path).current.authorization == "Bearer new"


def test_what_is_null_is_absent(write):
    assert from_kubeconfig(write("c", config(token="t", as_=None, as_groups=None, exec=None))).current.authorization == "Bearer t"


# ------------------------------------------------------------------------------------------------ refused


def test_what_a_context_names_must_be_there(write):
    assert "names a user 'ghost' that is not there" in complaint(write("c", {**config(user="ghost"), "users": None}))
    assert "names a cluster 'it' that is not there" in complaint(write("c", {**config(), "clusters": None}))
    assert "names no cluster" in complaint(write("c", {**config(), "contexts": [{"name": "it", "context": {}}]}))
    assert "no context is chosen" in complaint(write("c", config(current="")))
    assert "there is no kubeconfig at 'a:b'" in complaint("a", "b")


WRONG_TYPES = [
    {"as_": 7},
    {"as_": ["s3cret"]},
    {"as_": "bob", "as_groups": "s3cret"},
    {"as_": "bob", "as_groups": ["a", 7]},
    {"as_": "bob", "as_user_extra": ["s3cret"]},
    {"as_": "bob", "as_user_extra": {"a": "s3cret"}},
    {"as_": "bob", "as_uid": True},
    {"token": {"s3cret": 1}},
    {"exec": "s3cret"},
    {"cluster": {"insecure-skip-tls-verify": "false"}},
    {"cluster": {"proxy-url": 7}},
    {"server": 7},
    {"namespace": 7},
]


@pytest.mark.parametrize("fields", WRONG_TYPES, ids=repr)
def test_a_value_of_another_type_is_refused_with_its_place_and_not_printed(write, fields):
    text = complaint(path := write("c", config(**fields)))
    assert path in text
    assert "is not valid: Expected `" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"users": [{"name": 7, "user": {"token": "s3cret"}}]}, "expected users with a name and a user"),
        ({"users": [{"name": "me", "user": "s3cret"}]}, "expected users with a name and a user"),
        ({"users": ["s3cret"]}, "Expected `object`"),
        ({"users": "s3cret"}, "Expected `array | null`"),
        ({"current-context": 7}, "Expected `str | null`"),
        ({"users": [{"name": "me"}, {"name": "me"}]}, "it has two users with the name 'me'"),
        ("users: [{user: {token: s3cret, x}]\n b", "is not YAML"),
        ("users:\n- {user: {token: s3cret}\n  'x", "(line "),
        ("s3cret", "expected a mapping"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_refused_without_its_content(write, content, words):
    text = complaint(write("c", content))
    assert words in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"token": "t", "username": "u"}, "both a token and a password"),
        ({"exec": {"command": "x"}, "auth_provider": {"name": "oidc"}}, "both exec and auth-provider"),
        ({"client_certificate_data": base64.b64encode(b"x").decode()}, "without its key"),
        ({"client_certificate_data": "s3cret!"}, "is not base64"),
        ({"tokenFile": "nowhere"}, "cannot be read"),
        ({"tokenFile": "a\0b"}, "cannot be read"),
        ({"exec": {"command": "/nowhere"}}, "the credential plugin of the kubeconfig"),
        ({"exec": {"command": "true"}}, "the credential plugin of the kubeconfig"),
        ({"exec": {"command": "true", "apiVersion": "v1", "args": [7]}}, "the credential plugin of the kubeconfig"),
        ({"auth_provider": {"name": "unknown"}}, "neither a token nor a certificate"),
        ({"as_groups": ["a"]}, "without a user"),
        ({"cluster": {"insecure-skip-tls-verify": True, "certificate-authority-data": "eA=="}}, "insecure-skip-tls-verify"),
        ({"server": "https://me:s3cret@127.0.0.1:1"}, "has a user in it"),
        ({"server": "ftp://me:s3cret@127.0.0.1:1"}, "'ftp://***@127.0.0.1:1'"),
        ({"server": "https://a b:1"}, "is not an http(s) address"),
        ({"server": "https://кластер:1"}, "is not an http(s) address"),
        ({"server": "https://[::1:1"}, "bad host or port"),
    ],
)
def test_what_cannot_be_used_is_refused(write, fields, words):
    text = complaint(write("c", config(**fields)))
    assert words in text
    assert "s3cret" not in text


# ------------------------------------------------------------------------------------------------ secrets


@pytest.mark.parametrize("server", ["http://127.0.0.1:1/s3cret", "HTTP://127.0.0.1:1"])
def test_without_tls_no_secret_is_sent_and_no_plugin_is_run(write, server):
    access = from_kubeconfig(write("c", config(server=server, token="s3cret", as_="bob"))).current
    assert access.headers == [("Impersonate-User", "bob")]
    assert "s3cret" not in access.url
    assert from_kubeconfig(write("c", config(server=server, exec={"command": "/nowhere"}))).current.headers == []


def test_nothing_that_is_printed_has_a_secret_in_it(write):
    path = write("c", config(token="s3cret", as_="bob", cluster={"proxy-url": "http://me:s3cret@p"}))
    access = from_kubeconfig(path).current
    choice = kubeconfig.read([path]).choose()
    assert access.proxy.password == choice.user.token == "s3cret"
    assert "s3cret" not in f"{access} {access!r} {access.described} {choice!r} {kubeconfig.read([path])!r}"


def test_what_is_read_again_is_the_same_server_and_the_same_user(write):
    """A context that was switched meanwhile is for the next command."""
    path = write("c", config(token="one", as_="bob"))
    credentials = from_kubeconfig(path)
    for changed in (
        config(token="two", as_="bob", server="https://127.0.0.1:2"),
        config(token="two"),
        config(token="two", as_="bob", as_groups=["system:masters"]),
        config(token="two", as_="bob", user="admin"),
    ):
        write("c", changed)
        assert not credentials.replace(credentials.current)
        assert credentials.current.authorization == "Bearer one"
    write("c", config(token="two", as_="bob"))
    assert credentials.replace(credentials.current)
    assert credentials.current.authorization == "Bearer two"


def test_another_current_context_is_not_for_a_process_that_works_already(write):
    """Nor are new credentials of its own context lost because of it."""

    def switched(current, token):
        return {
            "current-context": current,
            "clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "viewer", "user": {"token": token}}, {"name": "admin", "user": {"token": "ADMIN"}}],
            "contexts": [{"name": user, "context": {"cluster": "it", "user": user}} for user in ("viewer", "admin")],
        }

    credentials = from_kubeconfig(write("c", switched("viewer", "one")))
    write("c", switched("admin", "one"))
    assert not credentials.replace(credentials.current)
    write("c", switched("admin", "two"))
    assert credentials.replace(credentials.current)
    assert credentials.current.authorization == "Bearer two"


@pytest.mark.parametrize(
    "text",
    [
        "password: !s3cret-1",
        "token: *s3cret",
        "a: &s3cret 1\nb: &s3cret 2",
        'token: "s3cret\\q"',
        "token: 's3cret",
        "token: s3cret: s3cret",
        "s3cret: [1,",
    ],
)
def test_what_is_not_yaml_is_reported_without_its_text(write, text):
    path = write("c", text)
    problem = complaint(path)
    assert "s3cret" not in problem
    assert "line" in problem or "context" in problem
