"""What commands are given: durations, goals, names, files, and the list of commands itself."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genericjob.cli import app as module
from genericjob.cli.app import COMMANDS, app, loaded
from genericjob.cli.apply import merge_patch
from genericjob.cli.failures import CommandError
from genericjob.cli.jobs import plain
from genericjob.cli.options import target
from genericjob.cli.wait import duration, parsed

from .calling import genericjob


def called(*words, **environment):
    return CliRunner(env={"TERM": "dumb", "COLUMNS": "200", "NO_COLOR": "1", **environment}).invoke(app, [*words])


# ------------------------------------------------------------------------------------------------ the list of commands


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_list_says_what_the_command_says_of_itself(command):
    own = " ".join(loaded(command.name).help.split("\n\n")[0].split())
    assert own == command.help


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(command):
    result = called(command.name, "-h")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    assert not re.search(r"<\w+>|<bool|list\[|<int|\{\w|…\]?\.\.\.", result.output)


def test_help_says_what_all_this_is_and_calls_values_as_kubectl_does():
    told = called("--help").output
    assert "Distributed jobs on Kubernetes, and without it." in told
    assert "<bool>" not in told
    told = {words[0]: words[1:] for line in called("validate", "-h").output.splitlines() if (words := line.strip(" │").split())}
    assert told["Usage:"] == ["genericjob", "validate", "[OPTIONS]", "[FILE...]"]
    assert told["--output"][:2] == ["-o", "text|json"]
    told = {words[0]: words[1:] for line in called("render", "-h").output.splitlines() if (words := line.strip(" │").split())}
    assert told["--namespace"][:2] == ["-n", "NAMESPACE"]
    assert told["--resumed"][0] == "As"


def test_help_breaks_its_lines_where_the_screen_ends():
    told = called("wait", "--help", COLUMNS="300").output
    assert "2 when the command line is wrong, 3 after --timeout." in told


def test_a_value_that_is_none_of_the_choices_is_told_in_plain_words():
    result = called("get", "-o", "foo")
    assert result.exit_code == 2
    assert "'--output' / '-o': 'foo' is not one of 'wide', 'yaml', 'json', 'name', 'jsonpath=TEMPLATE'." in result.output


def test_help_needs_no_engine_and_no_client():
    code = "import sys; from genericjob.cli.app import app; app(['--help'], standalone_mode=False); sys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(f" {command.name} " in done.stdout for command in COMMANDS)
    assert not {"pydantic", "kubernetes", "genericjob.jobs.job", "genericjob.reconcile.http"} & {*done.stderr.split()}


def test_a_command_that_is_nearly_right():
    result = called("discribe")
    assert result.exit_code == 2
    assert "Did you mean 'describe'?" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_scripts_for_shells(shell):
    result = called("completion", shell)
    assert result.exit_code == 0
    assert "_COMPLETE" in result.output


def test_a_shell_that_is_not_known():
    assert called("completion", "tcsh").exit_code == 2


def test_options_come_to_the_functions():
    assert module.loaded("get").name == "get"


# ------------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("text", "seconds"), [("", math.inf), ("0", 0), ("90", 90), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5)]
)
def test_lengths_of_time(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["soon", "5 m", "-1s", "m", "1d", "s"])
def test_what_is_no_length_of_time(text):
    with pytest.raises(CommandError, match="is no length of time") as raised:
        duration(text)
    assert raised.value.code == 2


def job(phase="Running", **conditions):
    then = "2026-01-01T00:00:00Z"
    told = [
        {"type": type, "status": status, "reason": "R", "message": "m", "lastTransitionTime": then} for type, status in conditions.items()
    ]
    return {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "spec": {}, "status": {"phase": phase, "conditions": told}}


@pytest.mark.parametrize(
    ("goal", "found", "reached"),
    [
        ("end", job("Running"), False),
        ("end", job("Failed"), True),
        ("phase=paused", job("Paused"), True),
        ("phase=Paused", job("Running"), False),
        ("condition=completed", job(Completed="True"), True),
        ("condition=Completed", job(Completed="False"), False),
        ("condition=Running=false", job(Running="False"), True),
        ("condition=Running=UNKNOWN", job(Running="Unknown"), True),
        ("delete", job("Failed"), False),
    ],
)
def test_goals(goal, found, reached):
    assert parsed(goal).asked(found) is reached


@pytest.mark.parametrize("goal", ["phase=Paused", "condition=Paused"])
@pytest.mark.parametrize(
    ("why", "status", "reached"),
    [
        ("the status is about the spec as it is", {"observedGeneration": 2}, True),
        ("the status is about an earlier spec", {"observedGeneration": 1}, False),
        ("no generation is named", {}, True),
    ],
)
def test_a_status_counts_if_it_is_about_the_spec_as_it_is(why, goal, status, reached):
    found = job("Paused", Paused="True")
    found["metadata"]["generation"] = 2
    found["status"] |= status
    assert parsed(goal).asked(found) is reached, why


@pytest.mark.parametrize(("own", "of_status", "reached"), [(2, 1, True), (1, 2, False)])
def test_the_generation_of_a_condition_comes_before_that_of_the_status(own, of_status, reached):
    found = job("Paused", Paused="True")
    found["metadata"]["generation"] = 2
    found["status"]["observedGeneration"] = of_status
    found["status"]["conditions"][0]["observedGeneration"] = own
    assert parsed("condition=Paused").asked(found) is reached


@pytest.mark.parametrize("goal", ["end", "phase=Succeeded", "condition=Completed", "condition=Running=False"])
def test_a_job_that_has_ended_stays_so_whatever_is_edited(goal):
    found = job("Succeeded", Completed="True", Running="False")
    found["metadata"]["generation"] = 2
    found["status"]["observedGeneration"] = 1
    assert parsed(goal).asked(found)


@pytest.mark.parametrize("text", ["", "success", "phase=", "phase=Walking", "condition=Happy", "delete=1"])
def test_what_cannot_be_waited_for(text):
    with pytest.raises(CommandError) as raised:
        parsed(text)
    assert raised.value.code == 2


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("Flase", "'Flase' is no status of a condition: did you mean False?"),
        ("unknow", "'unknow' is no status of a condition: did you mean Unknown?"),
        ("yes", "'yes' is no status of a condition: they are True, False, Unknown"),
        ("", "'' is no status of a condition: they are True, False, Unknown"),
    ],
)
def test_a_status_that_no_condition_can_have_is_refused(status, told):
    with pytest.raises(CommandError) as raised:
        parsed(f"condition=Running={status}")
    assert (str(raised.value), raised.value.code) == (told, 2)


@pytest.mark.parametrize("name", ["gj/train", "GenericJob/train", "genericjobs.batch.tensorstack.dev/train", "train"])
def test_names_may_have_their_kind_before_them(name):
    assert plain(name) == "train"


def test_another_kind_is_part_of_a_name_that_does_not_exist():
    assert plain("pod/train") == "pod/train"


@pytest.mark.parametrize("namespace", ["", "Team", "a/b", "a" * 64])
def test_what_is_no_namespace(namespace):
    with pytest.raises(CommandError, match="is no name of a namespace"):
        target(namespace=namespace)


def test_a_run_is_no_cluster():
    with pytest.raises(CommandError, match="choose one"):
        target(context="it", run="-")


def test_a_run_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(CommandError, match="no run is going on") as raised:
        target(run="-")
    assert raised.value.code == 2


# ------------------------------------------------------------------------------------------------ what apply changes


@pytest.mark.parametrize(
    ("before", "wanted", "current", "patch"),
    [
        ({}, {"a": 1}, {"a": 1, "b": 2}, {}),
        ({}, {"a": 2}, {"a": 1, "b": 2}, {"a": 2}),
        ({"b": 2}, {"a": 1}, {"a": 1, "b": 2}, {"b": None}),
        ({"b": 2}, {"a": 1}, {"a": 1}, {}),
        ({"x": {"b": 2}}, {"x": {"a": 1}}, {"x": {"a": 1, "b": 2, "c": 3}}, {"x": {"b": None}}),
        ({"x": {"b": 2}}, {}, {"x": {"b": 2, "c": 3}}, {"x": None}),
        ({}, {"x": [1, 2]}, {"x": [1]}, {"x": [1, 2]}),
        ({"a": 1}, {"a": None}, {"a": 1}, {"a": None}),
        ({}, {"a": None}, {"b": 1}, {}),
        ({}, {"x": {"a": 1}}, {}, {"x": {"a": 1}}),
    ],
)
def test_a_patch_has_what_is_different_and_takes_away_what_was_applied_before(before, wanted, current, patch):
    assert merge_patch(before, wanted, current) == patch


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: Pod\napiVersion: v1\nmetadata: {name: a}\n", r"kind 'Pod' is not for this command"),
        ("kind: GenericJob\napiVersion: v1\nmetadata: {name: a}\n", r"apiVersion of a GenericJob is batch.tensorstack.dev/v1beta1"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {}\n", r"metadata.name: is missing"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: 5}\n", r":3: error: metadata.namespace: 5 is not text"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, namespace: a/b}\n", r":3: error: metadata.namespace: a/b: a lowercase"),
        ("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a, annotations: 5}\n", r"metadata.annotations: 5 is not an object"),
        (
            "kind: ConfigMap\napiVersion: v1\nmetadata: {}\n"
            "---\nkind: GenericJop\napiVersion: batch.tensorstack.dev/v1beta1\nmetadata: {name: a}\n",
            r"(?s)job.yaml:3: error: metadata.name: is missing.*job.yaml:5: error: kind: .*did you mean GenericJob",
        ),
        ("a: [1\n", r"job.yaml"),
        ("", r"there is nothing in"),
    ],
)
def test_files_that_no_server_needs_to_see(tmp_path, text, complaint):
    (tmp_path / "job.yaml").write_text(text)
    result = called("apply", str(tmp_path / "job.yaml"), KUBECONFIG="/nowhere")
    assert isinstance(result.exception, CommandError)
    assert result.exception.code == 2
    assert re.search(complaint, str(result.exception))


# ------------------------------------------------------------------------------------------------ the page about them


def test_every_command_has_its_place_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    table = page[: page.index("## For all of them")]
    assert [command.name for command in COMMANDS if f"`{command.name}`" not in table] == []
    titles = {line.lstrip("# ").lower().replace(" ", "-") for line in page.splitlines() if line.startswith("#")}
    assert [link for link in re.findall(r"\]\(#([^)]+)\)", page) if link not in titles] == []


def test_what_the_page_shows_of_files_is_what_is_printed(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    section = page[page.index("## Files") : page.index("## check")]
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1])
    shown = re.findall(r"```console\n\$ genericjob ([^\n|]*)(?: \| tee (\S+))?\n(.*?)```", section, re.DOTALL)
    assert [words.split()[0] for words, _, _ in shown] == ["new", "validate", "render", "explain"]
    for words, file, printed in shown:
        found = genericjob(*words.split()).out
        assert found == printed
        if file:
            Path(file).write_text(found)
