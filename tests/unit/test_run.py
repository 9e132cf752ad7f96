"""`genericjob run`: the manifest of a cluster, on this machine."""

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from genericjob.cli import run as module
from genericjob.cli.app import app
from genericjob.cli.documents import BadInputError, read
from genericjob.cli.run import Run
from genericjob.cli.screen import MOST_ROWS, JobView, RankView, Screen

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"


class Outcome:
    def __init__(self, code, text):
        self.code, self.text = code, text
        self.lines = text.splitlines()

    def table(self):
        """Rows of the summary, as lists of words."""
        start = next(n for n, line in enumerate(self.lines) if line.startswith("RANK"))
        return [line.split() for line in self.lines[start + 1 : self.lines.index("", start)]]

    @property
    def verdict(self):
        return self.lines[-1]


@pytest.fixture
def go(tmp_path):
    """Runs documents, given as objects or text."""

    def run(*documents):
        file = tmp_path / "manifest.yaml"
        file.write_text("\n---\n".join(each if isinstance(each, str) else yaml.safe_dump(each) for each in documents))
        out = io.StringIO()
        code = Run(read(str(file)), Screen(out)).go()
        return Outcome(code, out.getvalue())

    return run


def container(script, name="main", **fields):
    return {"name": name, "image": "none", "command": ["sh", "-c", script], **fields}


def replicas(type, count, *containers, **pod):
    return {"type": type, "replicas": count, "template": {"spec": {"containers": list(containers), **pod}}}


def job(*replica_specs, name="j", **spec):
    return {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": list(replica_specs), **spec},
    }


# ------------------------------------------------------------------------------------------------ jobs that run


def test_the_example_finds_pi_together():
    out = io.StringIO()
    outcome = Outcome(Run(read(str(HELLO)), Screen(out)).go(), out.getvalue())
    assert outcome.code == 0
    for rank in range(3):
        assert f"worker-{rank} | together we found pi: 3.14159" in outcome.lines
        assert any(line.startswith(f"worker-{rank} | I am worker {rank} of 3, and my share") for line in outcome.lines)
    assert [row[:2] for row in outcome.table()[1:]] == [[f"worker-{rank}", "Succeeded"] for rank in range(3)]
    assert outcome.verdict == 'hello succeeded: the rule {"worker":[0,1,2]} is met'


def test_a_failure_rule_ends_the_job_and_is_named(go):
    worker = replicas("worker", 3, container("[ $(rank) != 1 ] || exit 7; sleep 600"))
    outcome = go(job(worker, successRules=[{"worker": [0]}], failureRules=[{"worker": [1]}]))
    assert outcome.code == 1
    assert outcome.table() == [["worker-0", "Stopped"], ["worker-1", "Failed", "7"], ["worker-2", "Stopped"]]
    assert "worker-1 * failed with exit code 7" in outcome.lines
    assert outcome.verdict == 'j failed: The job is failed with rule: {"worker":[1]}'


def test_without_rules_every_rank_must_succeed(go):
    assert go(job(replicas("a", 2, container("true")), replicas("b", 1, container("true")))).code == 0
    outcome = go(job(replicas("a", 1, container("true")), replicas("b", 1, container("exit 3"))))
    assert outcome.code == 1
    assert outcome.verdict == "j failed: The job is failed: rank 0 of type b has failed."


def test_who_still_runs_when_the_job_has_ended_is_asked_to_end(go, tmp_path):
    server = replicas("server", 1, container(f"trap 'echo bye; exit 0' TERM; touch {tmp_path}/up; while :; do sleep 600 & wait; done"))
    worker = replicas("worker", 1, container(f"until [ -e {tmp_path}/up ]; do sleep 0.01; done"))
    outcome = go(job(server, worker, successRules=[{"worker": [0]}]))
    assert outcome.code == 0
    assert "server-0 | bye" in outcome.lines
    assert outcome.table() == [["server-0", "Stopped"], ["worker-0", "Succeeded", "0"]]


def test_ranks_have_addresses_of_their_own_in_order(go):
    spec = {"service": {"ports": [{"name": "x", "port": 1}]}}
    show = container("echo I am $IP of $(service.w[1].host) $(service.w[0].host)", env=[ip()])
    outcome = go(job(replicas("w", 2, show), **spec))
    network = outcome.text.partition("runs at 127.")[2].partition(".")[0]
    hosts = f"127.{network}.0.2 127.{network}.0.1"
    assert f"w-0 | I am 127.{network}.0.1 of {hosts}" in outcome.lines
    assert f"w-1 | I am 127.{network}.0.2 of {hosts}" in outcome.lines


def ip():
    return {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def test_config_maps_and_secrets_of_the_file_are_there_whatever_the_order(go):
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "login", "key": "b"}}},
    ]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "one"}}
    login = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"b": "two"}}
    outcome = go(job(replicas("w", 1, container("echo $A $B", env=env))), settings, login)
    assert (outcome.code, "w-0 | one two" in outcome.lines) == (0, True)


def test_several_jobs_run_and_all_must_succeed(go):
    first, second = job(replicas("w", 1, container("echo hi")), name="one"), job(replicas("w", 1, container("exit 2")), name="two")
    outcome = go(first, second)
    assert outcome.code == 1
    assert "one-w-0 | hi" in outcome.lines
    assert outcome.table() == [["one-w-0", "Succeeded", "0"], ["two-w-0", "Failed", "2"]]


def test_jobs_in_other_namespaces_and_with_generated_names_run(go):
    manifest = job(replicas("w", 1, container("echo $(NAMESPACE)", env=[namespace()])))
    manifest["metadata"] = {"generateName": "try-", "namespace": "team"}
    outcome = go(manifest)
    assert (outcome.code, ["w-0", "|", "team"] in map(str.split, outcome.lines)) == (0, True)
    assert outcome.verdict.startswith("try-")


def namespace():
    return {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}


# ------------------------------------------------------------------------------------------------ what is shown


def test_containers_are_told_apart_where_there_are_several(go):
    one, two = container("echo 1", "one"), container("echo 2", "two")
    outcome = go(job(replicas("w", 1, one, two, initContainers=[container("echo 0", "first")])))
    assert {"w-0/first | 0", "w-0/one   | 1", "w-0/two   | 2"} <= set(outcome.lines)


def test_what_a_process_cannot_honour_is_said_once(go):
    fields = {"resources": {"limits": {"cpu": "1"}}, "livenessProbe": {"exec": {"command": ["true"]}}}
    outcome = go(job(replicas("a", 2, container("true", **fields)), replicas("b", 1, container("true", **fields))))
    said = [line for line in outcome.lines if "not honoured" in line]
    assert said == ["j: not honoured here: image, livenessProbe, resources"]


def test_output_is_shown_as_it_is(go):
    outcome = go(job(replicas("w", 1, container("echo '[red]:smile: {x} %s[/red] \\\\'"))))
    assert "w-0 | [red]:smile: {x} %s[/red] \\" in outcome.lines


def test_a_missing_program_says_so_where_people_look(go):
    outcome = go(job(replicas("w", 1, {"name": "main", "image": "x", "command": ["no-such-program"]})))
    assert outcome.code == 1
    assert "w-0 * main: there is no program 'no-such-program' on this machine" in outcome.lines
    assert outcome.table()[0][:3] == ["w-0", "Failed", "128"]


def test_warnings_of_the_controller_are_shown(tmp_path):
    class Reader(Screen):
        def state(self, label, text, phase=""):
            said.append((label, text))
            if text.startswith("warning"):
                os.kill(os.getpid(), signal.SIGINT)

    said = []
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job(replicas("w", 1, container("sleep 600")), failureRules=[{"nobody": [0]}])))
    assert Run(read(str(tmp_path / "j.yaml")), Reader(io.StringIO())).go() == 130
    assert ("j", "warning: failureRules[0] can never fire: there is no replica of type 'nobody'") in said


def test_programs_that_print_faster_than_the_screen_lose_nothing(go, monkeypatch):
    monkeypatch.setattr(module, "LINES_AHEAD", 10)
    script = "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done"
    outcome = go(job(replicas("w", 2, container(script))))
    assert [line for line in outcome.lines if line.startswith("w-1 |")] == [f"w-1 | {n}" for n in range(1000)]


def test_of_many_ranks_only_those_that_did_not_succeed_are_listed():
    out = io.StringIO()
    view = JobView("j", {f"w-{n}": RankView(f"w-{n}", "Failed" if n % 2 else "Succeeded", n % 2) for n in range(3 * MOST_ROWS)})
    Screen(out).summary([view])
    assert out.getvalue().count("Failed") == MOST_ROWS
    assert "120 ranks, 60 succeeded; 40 others are shown" in out.getvalue()


# ------------------------------------------------------------------------------------------------ Ctrl-C


def test_ctrl_c_asks_programs_to_end(go):
    script = "trap 'echo bye; exit 0' TERM; kill -INT $PPID; while :; do sleep 600 & wait; done"
    outcome = go(job(replicas("w", 1, container(script))))
    assert outcome.code == 130
    assert "w-0 | bye" in outcome.lines
    assert any(line.startswith("SIGINT: the programs are asked to end") for line in outcome.lines)
    assert outcome.verdict == "j was interrupted"


def test_a_second_ctrl_c_kills(go):
    script = "trap 'kill -INT $PPID' TERM; kill -INT $PPID; while :; do sleep 600 & wait; done"
    outcome = go(job(replicas("w", 1, container(script), terminationGracePeriodSeconds=600)))
    assert outcome.code == 130


def test_a_program_that_prints_without_end_is_killed_all_the_same(go, monkeypatch):
    monkeypatch.setattr(module, "LINES_AHEAD", 1)
    outcome = go(job(replicas("w", 1, container("trap 'kill -INT $PPID' TERM; kill -INT $PPID; while :; do echo on and on; done"))))
    assert outcome.code == 130
    assert "some programs could not be ended" not in outcome.lines


def test_sigterm_ends_a_run_too(go):
    outcome = go(job(replicas("w", 1, container("kill -TERM $PPID; sleep 600"))))
    assert outcome.code == 143


# ------------------------------------------------------------------------------------------------ bad input

GOOD = yaml.safe_dump(job(replicas("w", 1, container("true"))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no GenericJob in it"),
        ("a: b\nkind: }", "line 2: "),
        ("- a list", "this is not an object"),
        ("a: \x00", "this is not YAML"),
        ("apiVersion: apps/v1\nkind: Deployment\n", "kind 'Deployment' cannot be run on this machine"),
        ("metadata: {name: x}\n", "kind is missing"),
        (GOOD.replace("v1beta1", "v1"), "apiVersion of a GenericJob is batch.tensorstack.dev/v1beta1"),
        (GOOD.replace("name: j", "nam: j"), "metadata.name"),
        (GOOD.replace("replicas: 1", "replicas: -1"), r"spec\.replicaSpecs\[0\]\.replicas"),
        (GOOD.replace("replicaSpecs", "replicaSpec"), r"spec\.replicaSpecs"),
        (GOOD.replace("spec:\n  replicaSpecs", "spec:\n  sucessRules: []\n  replicaSpecs"), "sucessRules"),
        (GOOD.replace("name: j", f"name: {'j' * 62}"), "63"),
        (GOOD.replace("spec:\n  replicaSpecs", "spec:\n  managedBy: somebody/else\n  replicaSpecs"), "spec.managedBy"),
        (GOOD + "---\n" + GOOD, 'document 2: .*"j" already exists'),
        (GOOD.replace("containers", "container"), r"j: .*spec\.containers: Required value"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(go, text, words):
    with pytest.raises(BadInputError, match=words) as caught:
        go(text)
    assert "\n" not in str(caught.value)


def test_the_command_says_what_is_wrong_and_exits_with_2(tmp_path):
    result = CliRunner().invoke(app, ["run", str(tmp_path / "absent.yaml")])
    assert (result.exit_code, result.stderr) == (2, f"genericjob: {tmp_path}/absent.yaml: No such file or directory\n")


def test_standard_input_is_read():
    result = CliRunner().invoke(app, ["run", "-"], input=yaml.safe_dump(job(replicas("w", 1, container("echo hello")))))
    assert result.exit_code == 0
    assert "w-0 | hello" in result.stdout


def test_times_and_lists_are_read_as_kubectl_does(go):
    listed = {"apiVersion": "v1", "kind": "List", "items": [job(replicas("w", 1, container("echo $DAY")))]}
    listed["items"][0]["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0]["env"] = [{"name": "DAY", "value": "PLACE"}]
    outcome = go(yaml.safe_dump(listed).replace("PLACE", "2024-01-31 10:00:00"))
    assert "w-0 | 2024-01-31 10:00:00" in outcome.lines


# ------------------------------------------------------------------------------------------------ as people call it


def test_on_a_terminal_ranks_have_colours():
    terminal, screen = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm-256color", "COLUMNS": "100"}
    manifest = yaml.safe_dump(job(replicas("w", 2, container("echo hello"))))
    with subprocess.Popen(
        [sys.executable, "-m", "genericjob.cli", "run", "-"], stdin=subprocess.PIPE, stdout=screen, stderr=screen, env=environment
    ) as program:
        os.close(screen)
        program.stdin.write(manifest.encode())
        program.stdin.close()
        shown = b""
        while piece := _read(terminal):
            shown += piece
    os.close(terminal)
    assert program.returncode == 0
    assert b"\x1b[36mw-0 |\x1b[0m hello" in shown or b"\x1b[36mw-1 |\x1b[0m hello" in shown


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody has it open any more
        return b""
