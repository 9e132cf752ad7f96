"""`genericjob controller`: what its command line refuses, and in which words."""

import socket
import sys

import pytest
from typer.testing import CliRunner

from genericjob.cli import controller as module
from genericjob.cli.app import app
from genericjob.cli.main import main

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
    for option in ("--namespace", "--workers", "--leader-elect", "--metrics-bind", "--log-format"):
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
    ("option", "value"), [("--log-format", "xml"), ("--log-level", "loud"), ("--workers", "0"), ("--metrics-bind", "8080")]
)
def test_what_an_option_does_not_take_is_refused_by_its_name(option, value, kubeconfig, no_process):
    result = controller("--kubeconfig", kubeconfig, option, value)
    assert result.exit_code == 2
    assert option in told(result)
    assert no_process == []


def test_an_address_that_cannot_be_had_is_told_in_one_sentence_with_the_option(kubeconfig, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(sys, "argv", ["genericjob", "controller", "--kubeconfig", kubeconfig, "--metrics-bind", address])
        with pytest.raises(SystemExit) as caught:
            main()
    assert caught.value.code == (
        f"genericjob: cannot listen on {address}: another program listens there already "
        "(--metrics-bind names another address, or 0 for none)"
    )


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
