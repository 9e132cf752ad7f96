"""Ways into a real server, and clear words for the ways that are closed."""

import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

from genericjob.cli.channels import Session
from genericjob.reconcile.access import find, from_kubeconfig, in_cluster
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS, Key
from harness.clusters import eventually, who
from harness.configurations import Server


@pytest.fixture
def door(cluster):
    return Server(cluster.kubeconfig)


@pytest.fixture
def account(server, namespace):
    """A service account that may read ConfigMaps of its namespace, and a way to get tokens for it."""
    server.create(SERVICE_ACCOUNTS, {"metadata": {"name": "worker"}}, namespace)
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    server.request("POST", f"{rbac}/roles", body={"metadata": {"name": "reader"}, "rules": rules})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "worker", "namespace": namespace}],
    }
    server.request("POST", f"{rbac}/rolebindings", body=binding)
    return Account(server, namespace)


class Account:
    def __init__(self, server, namespace):
        self.server, self.namespace = server, namespace
        self.user = f"system:serviceaccount:{namespace}:worker"

    def token(self, secret):
        """A token that lives as long as a Secret does."""
        made = self.server.create(SECRETS, {"metadata": {"name": secret}}, self.namespace).object
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret, "uid": made["metadata"]["uid"]}
        path = SERVICE_ACCOUNTS.path(self.namespace, "worker", "token")
        answer = self.server.request("POST", path, body={"spec": {"boundObjectRef": bound, "expirationSeconds": 3600}})
        return msgspec.json.decode(answer.data)["status"]["token"]

    def revoke(self, secret):
        self.server.delete(SECRETS, Key(self.namespace, secret))


def entered(kubeconfig):
    return who(HttpApi(from_kubeconfig(str(kubeconfig))))


# ------------------------------------------------------------------------------------------------ ways in


def test_a_client_certificate_in_data(cluster, door):
    assert "client-certificate-data" in door.admin
    assert entered(cluster.kubeconfig)


def test_a_client_certificate_in_files(plane, door, tmp_path):
    made = plane.issue_certificate("alice", ("team",))
    user = {"client-certificate": str(made.certificate), "client-key": str(made.key)}
    assert entered(door.write(tmp_path / "config", user)) == "alice"


def test_a_token(account, door, tmp_path):
    assert entered(door.write(tmp_path / "config", {"token": account.token("one")})) == account.user


def test_a_token_file(account, door, tmp_path):
    (tmp_path / "token").write_text(account.token("one") + "\n")
    assert entered(door.write(tmp_path / "config", {"tokenFile": str(tmp_path / "token")})) == account.user


def test_an_exec_plugin(account, door, tmp_path):
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": account.token("one")}}
    plugin = tmp_path / "plugin"
    plugin.write_text(f"#!{sys.executable}\nprint('''{msgspec.json.encode(credential).decode()}''')\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}
    assert entered(door.write(tmp_path / "config", user)) == account.user


def test_a_service_account_as_pods_have_it(account, door, tmp_path, monkeypatch):
    mount(account, door, tmp_path, monkeypatch, "one")
    assert who(HttpApi(in_cluster(tmp_path))) == account.user


def test_another_user_without_the_rights_of_ones_own(door, tmp_path, namespace, server):
    """An administrator who works with less rights: nothing is read, deleted or run in a container with those of the administrator."""
    server.create(CONFIG_MAPS, {"metadata": {"name": "kept"}}, namespace)
    config = door.write(tmp_path / "config", {**door.admin, "as": "nobody", "as-groups": ["viewers"], "as-user-extra": {"a/B": ["c"]}})
    credentials = from_kubeconfig(str(config))
    api = HttpApi(credentials)
    assert who(api) == "nobody"
    for refused in (
        lambda: api.delete(CONFIG_MAPS, Key(namespace, "kept")),
        lambda: next(iter(api.watch(CONFIG_MAPS, namespace))),
        lambda: Session(credentials.current, Key(namespace, "none"), "c", ["true"], stdin=False, terminal=False),
    ):
        with pytest.raises(ApiError, match='User "nobody" cannot') as caught:
            refused()
        assert caught.value.code == 403
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    user = msgspec.json.decode(answer.data)["status"]["userInfo"]
    assert (user["groups"], user["extra"]) == (["viewers", "system:authenticated"], {"a/b": ["c"]})


def test_the_configuration_is_found_where_kubectl_finds_it(cluster, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    assert str(cluster.kubeconfig) in find().current.source


def mount(account, door, directory, monkeypatch, secret):
    (directory / "token").write_text(account.token(secret))
    (directory / "ca.crt").write_bytes(door.authority())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(door.port))


# ------------------------------------------------------------------------------------------------ replaced while running


def test_tokens_in_files_are_replaced_while_running(account, door, tmp_path, monkeypatch, namespace):
    """The mounted token of a pod, and the token file of a kubeconfig, bound to a Secret that is deleted."""
    mount(account, door, tmp_path, monkeypatch, "one")
    files = from_kubeconfig(str(door.write(tmp_path / "config", {"tokenFile": str(tmp_path / "token")})))
    apis = [HttpApi(in_cluster(tmp_path)), HttpApi(files)]
    watches = [api.watch(CONFIG_MAPS, namespace, timeout=30) for api in apis]
    account.revoke("one")
    for api in apis:
        eventually(lambda api=api: shut_out(api, namespace))  # the server remembers a good token for ten seconds
    (tmp_path / "token").write_text(account.token("two"))
    for api, watch in zip(apis, watches, strict=True):
        assert api.list(CONFIG_MAPS, namespace).items
        assert next(iter(watch)).type == "ADDED"  # a stream goes on with the token it was opened with
        watch.close()


def shut_out(api, namespace):
    try:
        api.list(CONFIG_MAPS, namespace)
    except ApiError as error:
        return error.unauthorized
    return False


# ------------------------------------------------------------------------------------------------ closed ways


def check(kubeconfig):
    """What `genericjob check` says, as a user sees it."""
    return subprocess.run(
        [sys.executable, "-m", "genericjob.cli", "check", "--kubeconfig", str(kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def complaint(kubeconfig):
    done = check(kubeconfig)
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr  # one sentence, no traceback
    return done.stderr


def test_a_cluster_that_can_be_reached_is_described(cluster, genericjobs):
    done = check(cluster.kubeconfig)
    assert done.returncode == 0, done.stderr
    assert "v1." in done.stdout


def test_no_cluster_there(door, tmp_path):
    assert "Connection refused" in complaint(door.write(tmp_path / "config", door.admin, server="https://127.0.0.1:1"))


def test_a_wrong_token(door, tmp_path):
    text = complaint(door.write(tmp_path / "config", {"token": "wrong"}))
    assert "does not accept the token" in text
    assert str(tmp_path / "config") in text


def test_an_expired_client_certificate(plane, door, tmp_path):
    made = plane.issue_certificate("alice", valid=timedelta(hours=-1))
    user = {"client-certificate": str(made.certificate), "client-key": str(made.key)}
    assert "expired on" in complaint(door.write(tmp_path / "config", user))


def test_a_server_whose_certificate_is_not_trusted(door, tmp_path):
    config = door.write(tmp_path / "config", door.admin, certificate_authority_data=None, certificate_authority=None)
    assert "is not trusted" in complaint(config)


def test_a_server_that_is_somebody_else(door, tmp_path):
    assert "is not trusted" in complaint(door.write(tmp_path / "config", door.admin, tls_server_name="elsewhere.example"))


def test_a_kubeconfig_that_is_not_yaml(tmp_path):
    (tmp_path / "config").write_text("a: [1,\nb: }")
    assert "is not YAML" in complaint(tmp_path / "config")


@pytest.mark.parametrize(
    "content", ["", "3", "[]", "a: b", "current-context: x", "apiVersion: v1\nclusters: 3\ncurrent-context: x\ncontexts: [3]"]
)
def test_a_kubeconfig_that_is_none(tmp_path, content):
    (tmp_path / "config").write_text(content)
    assert "kubeconfig" in complaint(tmp_path / "config")


def test_a_kubeconfig_that_is_not_there(tmp_path):
    assert "there is no kubeconfig at" in complaint(tmp_path / "config")


def test_an_exec_plugin_that_fails(door, tmp_path):
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "absent"), "interactiveMode": "Never"}}
    assert "credential" in complaint(door.write(tmp_path / "config", user))
