"""`--cluster`, `--user`, `--as`, `--as-uid` and `--as-group` of commands, and as whom commands in containers are run."""

import logging

import pytest
import yaml

from genericjob.cli.acting import Acting
from genericjob.cli.app import COMMANDS, loaded
from genericjob.cli.channels import Session
from genericjob.reconcile import access
from genericjob.reconcile.access import Access
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.impersonation import Impersonation
from genericjob.reconcile.resources import Key
from harness.scripted import ScriptedServer, answer
from unit.calling import genericjob

WITHOUT = {"run", "validate", "render", "new", "controller", "completion"}
OPTIONS = ("--as", "bob", "--as-uid", "7", "--as-group", "a b", "--as-group", "c")


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    monkeypatch.setattr(Acting, "chosen", Impersonation())
    monkeypatch.setattr(Acting, "cluster", "")
    monkeypatch.setattr(Acting, "user", "")


@pytest.fixture
def reach(tmp_path, monkeypatch):
    """`reach(server)`: $KUBECONFIG for a server."""

    def reached(server, **user):
        config = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me"}}],
            "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
            "users": [{"name": "me", "user": user}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    return reached


def identity(request):
    lines = request.decode().split("\r\n")
    return [line.removeprefix("Impersonate-") for line in lines if line.startswith(("Impersonate", "Authorization"))]


def test_every_command_that_talks_to_a_cluster_has_the_options():
    have = {each.name for each in COMMANDS if "as_user" in {param.name for param in loaded(each.name).params}}
    assert have == {each.name for each in COMMANDS} - WITHOUT


def test_options_say_as_whom(reach):
    with ScriptedServer(answer(200, {"metadata": {}, "items": []}), answer(200, {"metadata": {}, "items": []})) as server:
        reach(server)
        assert genericjob("get", *OPTIONS).code == 0
        assert genericjob("get").code == 0
    assert [*map(identity, server.requests)] == [["User: bob", "Uid: 7", "Group: a b", "Group: c"], []]


def test_the_kubeconfig_says_as_whom_for_every_command(reach, monkeypatch):
    refusal = answer(403, {"message": "no", "reason": "Forbidden"})
    of_a_job = [(name, "x") for name in ("describe", "logs", "wait", "watch", "pause", "resume", "debug", "delete", "explain")]
    for command in [("get",), *of_a_job, ("exec", "x", "--", "true"), ("delete", "--all"), ("check",)]:
        with ScriptedServer(*[refusal] * 20) as server:
            reach(server, **{"as": "viewer", "as-groups": ["readers"]})
            assert genericjob(*command).code == 1, command
        assert server.requests, command
        assert {tuple(identity(request)) for request in server.requests} == {("User: viewer", "Group: readers")}, command


def test_commands_that_are_proposed_are_of_the_same_user(reach):
    absent = answer(404, {"kind": "Status", "message": "x not found", "reason": "NotFound"})
    others = {"metadata": {}, "items": [{"metadata": {"name": "other"}}]}
    with ScriptedServer(absent, answer(200, others)) as server:
        reach(server)
        told = genericjob("describe", "x", *OPTIONS).err
    assert "`genericjob get --as bob --as-uid 7 --as-group 'a b' --as-group c` lists those that exist" in told


def test_other_entries_of_the_kubeconfig_than_those_of_the_context(tmp_path, monkeypatch):
    """The server of one context, the user of another, and the namespace of the current one."""
    listed = answer(200, {"metadata": {}, "items": []})
    with ScriptedServer() as first, ScriptedServer(listed, listed) as second:
        names = {"first": first, "second": second}
        config = {
            "current-context": "first",
            "contexts": [{"name": "first", "context": {"cluster": "first", "user": "first", "namespace": "team"}}],
            "clusters": [{"name": name, "cluster": {"server": f"http://127.0.0.1:{server.port}"}} for name, server in names.items()],
            "users": [{"name": name, "user": {"as": f"user of {name}"}} for name in names],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        assert genericjob("get", "--cluster", "second", "--user", "second").err == "There are no jobs in namespace team (cluster second).\n"
        (tmp_path / "config").write_text(yaml.safe_dump(config | {"current-context": ""}))
        assert genericjob("get", "--cluster", "second").err == "There are no jobs in namespace default (cluster second).\n"
        assert "there is no cluster 'third' in the kubeconfig" in genericjob("get", "--cluster", "third").err
        assert "there is no user 'third' in the kubeconfig" in genericjob("get", "--user", "third").err
    assert (first.requests, [*map(identity, second.requests)]) == ([], [["User: user of second"], []])


@pytest.mark.parametrize("option", ["--cluster", "--user", "--as", "--as-uid", "--as-group"])
def test_an_empty_user_is_mostly_a_variable_that_is_not_set(reach, option):
    with ScriptedServer() as server:
        reach(server)
        called = genericjob("get", option, "")
    assert called.code == 2
    assert option in called.err
    assert server.requests == []


def test_a_user_that_cannot_be_sent_is_refused(reach):
    with ScriptedServer() as server:
        reach(server)
        assert "no HTTP header can hold" in genericjob("get", "--as", "bob\nX-Evil: 1").err
        assert "without a user" in genericjob("get", "--as-group", "system:masters").err
    assert server.requests == []


def test_a_run_knows_no_other_users():
    called = genericjob("get", "--run", "-", "--as", "bob")
    assert (called.code, "choose one" in called.err) == (2, True)


def test_a_shell_completes_names_as_the_same_user(reach, monkeypatch, capfd):
    with ScriptedServer(answer(200, {"metadata": {}, "items": [{"metadata": {"name": "train"}}]})) as server:
        reach(server)
        words = "genericjob describe --as bob tr"
        for name, value in {"COMP_WORDS": words, "COMP_CWORD": "4", "_GENERICJOB_COMPLETE": "complete_bash"}.items():
            monkeypatch.setenv(name, value)
        assert genericjob().out.split() == ["train"]
    assert [*map(identity, server.requests)] == [["User: bob"]]


def test_a_command_in_a_container_is_run_as_the_same_user():
    headers = Impersonation("jürgen", "7", ["a", "b"], {"k": ["v"]}).headers("x")
    with ScriptedServer(answer(403, {"message": "no", "reason": "Forbidden"})) as server:
        found = Access("127.0.0.1", server.port, authorization="Bearer t", impersonation=headers, source="test")
        with pytest.raises(ApiError, match="no"):
            Session(found, Key("n", "p"), "c", ["true"], stdin=False, terminal=False)
    assert identity(server.requests[0]) == ["Authorization: Bearer t", "User: jürgen", "Uid: 7", "Group: a", "Group: b", "Extra-k: v"]


# ------------------------------------------------------------------------------------------------ the controller


@pytest.fixture
def controller(caplog, monkeypatch):
    """`controller(*options)`: the line of its log that says which cluster it works for. It does not work."""
    from genericjob.cli import controller as module

    class Process:
        def __init__(self, **parts):
            pass

        def run(self):
            return 0

    monkeypatch.setattr(module, "Process", Process)
    monkeypatch.setattr(module, "install_signals", lambda process: None)
    monkeypatch.setattr(module.logs, "configure", lambda *how: None)

    def called(*options):
        caplog.clear()
        with caplog.at_level(logging.INFO, "genericjob"):
            assert genericjob("controller", "--metrics-bind", "0", *options).code == 0
        [line] = [each.getMessage() for each in caplog.records if "the cluster is" in each.getMessage()]
        return line

    return called


def test_the_controller_logs_which_cluster_it_works_for_and_as_whom(reach, controller):
    with ScriptedServer() as server:
        reach(server, **{"as": "robot"})
        line = controller()
        assert line.startswith(f"the cluster is http://127.0.0.1:{server.port}, configured by the kubeconfig ")
    assert line.endswith("/config, acting as 'robot'")


def test_in_a_pod_the_controller_takes_its_service_account_unless_options_say_otherwise(reach, controller, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("")
    monkeypatch.setattr(access, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    with ScriptedServer() as server:
        reach(server)
        assert controller() == f"the cluster is https://127.0.0.1:1, configured by the service account in {tmp_path}"
        for option in (("--kubeconfig", str(tmp_path / "config")), ("--context", "it")):
            assert "configured by the kubeconfig" in controller(*option)
