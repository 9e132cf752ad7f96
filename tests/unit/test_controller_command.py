"""`genericjob controller`: what its command line refuses, and in which words."""

import socket
import sys

import pytest
from typer.testing import CliRunner

from genericjob.cli import controller as module
from genericjob.cli.app import app
from genericjob.cli.main import main
from genericjob.cli.options import lease_name
from genericjob.reconcile.resources import Key
from genericjob.reconcile.timeouts import Timeouts

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: me}}]
clusters: [{name: it, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: t}}]
"""


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return str(path)


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    """What would have been run; logs and signals stay as they are."""
    runs = []

    class Process:
        def __init__(self, **parts):
            self.parts = parts

        def run(self):
            runs.append(self.parts)
            return 0

    monkeypatch.setattr(module, "Process", Process)
    monkeypatch.setattr(module, "install_signals", lambda process: None)
    monkeypatch.setattr(module.logs, "configure", lambda *how: None)
    return runs


def controller(*options):
    return CliRunner(env={"TERM": "dumb", "COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["controller", *options])


def told(result):
    """All that was printed, without frames and line breaks."""
    return " ".join(result.output.replace("│", " ").split())


def test_help_names_every_option():
    result = controller("--help")
    assert result.exit_code == 0
    for option in ("--namespace", "--workers", "--create-timeout", "--leader-elect", "--lease-name", "--metrics-bind", "--log-format"):
        assert option in result.output


@pytest.mark.parametrize("name", ["", " ", "Team", "team_a", "-team", "team-", "a.b", "team/a", "a,b", "team\n", "t" * 64, "é"], ids=repr)
def test_what_cannot_be_a_namespace_is_refused(name, kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", "--namespace", "fine", "--namespace", name)
    assert result.exit_code == 2
    assert "--namespace" in told(result)
    assert "is no name of a namespace" in told(result)
    assert no_process == []


def test_an_unset_variable_of_the_shell_does_not_mean_all_namespaces(kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", "-n", "")
    assert result.exit_code == 2
    assert "leave the option out to watch all of them" in told(result)
    assert no_process == []


@pytest.mark.parametrize("options", [(), ("-n", "team-a"), ("-n", "0", "--namespace", "t" * 63)], ids=len)
def test_all_namespaces_or_some_may_be_watched(options, kubeconfig, no_process):
    assert controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", *options).exit_code == 0
    assert len(no_process) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [("--log-format", "xml"), ("--log-level", "loud"), ("--workers", "0"), ("--metrics-bind", "8080"), ("--create-timeout", "60")],
)
def test_what_an_option_does_not_take_is_refused_by_its_name(option, value, kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, option, value)
    assert result.exit_code == 2
    assert option in told(result)
    assert no_process == []


def test_an_address_that_cannot_be_had_is_told_in_one_sentence_with_the_option(kubeconfig, monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(sys, "argv", ["genericjob", "controller", "--kubeconfig", kubeconfig, "--metrics-bind", address])
        with pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        f"genericjob: cannot listen on {address}: another program listens there already "
        "(--metrics-bind names another address, or 0 for none)\n"
    )


@pytest.fixture
def ports(monkeypatch):
    """What ports to a server were made with."""
    made, real = [], module.HttpApi

    def port(credentials, **options):
        made.append(options)
        return real(credentials, **options)

    monkeypatch.setattr(module, "HttpApi", port)
    return made


@pytest.mark.parametrize(("options", "seconds"), [((), 30.0), (("--create-timeout", "12.5"), 12.5)], ids=["default", "given"])
def test_creates_have_a_timeout_of_their_own_and_the_lease_has_none_that_is_longer(options, seconds, ports, kubeconfig):
    assert controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", "--leader-elect", *options).exit_code == 0
    (lease,) = [made["timeouts"] for made in ports if "may_write" not in made]
    (work,) = [made["timeouts"] for made in ports if "may_write" in made]
    assert (work.create, work.write, lease.create) == (seconds, Timeouts().write, None)


@pytest.mark.parametrize("options", [(), ("--leader-elect",)], ids=["alone", "elected"])
def test_what_a_process_shuts_is_the_fence_that_its_port_asks(options, ports, no_process, kubeconfig):
    assert controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", *options).exit_code == 0
    (parts,), (may_write,) = no_process, [made["may_write"] for made in ports if "may_write" in made]
    assert may_write() == (not options)  # nobody has been elected yet
    assert parts["fence"].shut(0)
    assert not may_write()


def test_options_reach_what_they_are_for(monkeypatch, no_process, kubeconfig):
    made, configured = {}, []
    real = module.Assembly

    def assembly(api, **options):
        made.update(options)
        return real(api, **options)

    monkeypatch.setattr(module, "Assembly", assembly)
    monkeypatch.setattr(module.logs, "configure", lambda *how: configured.append(how))
    options = [
        "--namespace",
        "a",
        "-n",
        "b",
        "--workers",
        "3",
        "--writers",
        "5",
        "--log-format",
        "json",
        "--log-level",
        "debug",
        "--leader-elect",
    ]
    result = controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", "--lease-namespace", "home", *options)
    assert result.exit_code == 0, result.output
    assert (list(made["namespaces"]), made["workers"], made["writers"]) == (["a", "b"], 3, 5)
    assert configured == [("json", "debug")]
    (parts,) = no_process
    assert parts["elector"] is not None
    assert list(parts["servers"]) == []
    assert made["writes"] is not None


# ------------------------------------------------------------------------------------------------ which lease

MANY = [f"team-{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("namespaces", "name"),
    [
        ([], "genericjob-controller"),
        (["a"], "genericjob-controller.a"),
        (["b", "a"], "genericjob-controller.a.b"),
        (["a", "b", "a"], "genericjob-controller.a.b"),
        (["a-b"], "genericjob-controller.a-b"),
        (["t" * 63, "u" * 63, "v" * 63], f"genericjob-controller.{'t' * 63}.{'u' * 63}.{'v' * 63}"),
    ],
)
def test_controllers_of_the_same_namespaces_share_a_lease_and_others_do_not(namespaces, name):
    assert lease_name(namespaces) == name
    assert len(name) <= 253


def test_a_lease_of_many_namespaces_has_a_short_name_that_depends_on_all_of_them():
    names = {lease_name(MANY), lease_name(MANY[:-1]), lease_name([*MANY, "another"])}
    assert len(names) == 3
    assert {len(name) for name in names} == {len("genericjob-controller.") + 64}  # longer than the name of any namespace
    assert lease_name(MANY) == lease_name(list(reversed(MANY)))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ((), "genericjob-controller"),
        (("-n", "b", "-n", "a"), "genericjob-controller.a.b"),
        (("--lease-name", "mine"), "mine"),
        (("-n", "a", "--lease-name", "genericjob-controller"), "genericjob-controller"),
    ],
)
def test_the_lease_is_that_of_the_namespaces_or_the_one_that_is_named(options, name, kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, "--metrics-bind", "0", "--leader-elect", "--lease-namespace", "home", *options)
    assert result.exit_code == 0, result.output
    assert no_process[0]["elector"]._key == Key("home", name)


@pytest.mark.parametrize("name", [" ", "Mine", "a_b", "a..b", ".a", "a.", "a/b", "l" * 254, "é"], ids=repr)
def test_what_cannot_be_a_lease_is_refused(name, kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, "--leader-elect", "--lease-name", name)
    assert result.exit_code == 2
    assert "--lease-name" in told(result)
    assert "is no name of a lease" in told(result)
    assert no_process == []
