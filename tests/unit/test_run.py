"""`genericjob run`: the manifest of a cluster, on this machine."""

import io
import math
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from genericjob.cli import run as module
from genericjob.cli.app import app
from genericjob.cli.documents import BadInputError, runnable
from genericjob.cli.programs import check_programs, script_remarks
from genericjob.cli.run import Run
from genericjob.cli.screen import MOST_ROWS, Screen
from genericjob.cli.views import JobView, RankView, RunView
from harness.clusters import eventually

pytestmark = pytest.mark.processes

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


@pytest.fixture(autouse=True)
def own_directories(tmp_path, monkeypatch):
    """Runs are found, and leave their logs, in directories of the test."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def go(tmp_path):
    """Runs documents, given as objects or text."""

    def run(*documents, **options):
        file = tmp_path / "manifest.yaml"
        file.write_text("\n---\n".join(each if isinstance(each, str) else yaml.safe_dump(each) for each in documents))
        out = io.StringIO()
        code = Run(runnable([str(file)]), Screen(out), **options).go()
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
    outcome = Outcome(Run(runnable([str(HELLO)]), Screen(out)).go(), out.getvalue())
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
    assert outcome.verdict == 'j failed: the rule {"worker":[1]} is met'


def test_without_rules_every_rank_must_succeed(go):
    assert go(job(replicas("a", 2, container("true")), replicas("b", 1, container("true")))).code == 0
    outcome = go(job(replicas("a", 1, container("true")), replicas("b", 1, container("exit 3"))))
    assert outcome.code == 1
    assert outcome.verdict == "j failed: rank 0 of type b has failed."


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
    assert said == ["j: not honoured here: image, livenessProbe, resources.limits.cpu"]


def test_what_a_template_was_hardly_meant_to_say_is_told(go):
    outcome = go(job(replicas("w", 1, container("true", args=["$(rnk)"], arg=[]))))
    (fields, variable) = (line for line in outcome.lines if "manifest.yaml" in line)
    assert "warning: spec.replicaSpecs[0].template.spec.containers[0].arg: there is no such field; did you mean args?" in fields
    assert "$(rnk) is no variable and stays as it is; did you mean $(rank)?" in variable
    assert outcome.code == 0


def test_output_is_shown_as_it_is(go):
    outcome = go(job(replicas("w", 1, container("echo '[red]:smile: {x} %s[/red] \\\\'"))))
    assert "w-0 | [red]:smile: {x} %s[/red] \\" in outcome.lines


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": ["$(PROGRAM)"]}, "there is no program 'no-such-program' on this machine"),
        ({"command": ["true"], "workingDir": "DATA/sub"}, "workingDir /"),
    ],
)
def test_a_program_or_directory_that_turns_out_to_be_missing_fails_its_rank_at_once(go, tmp_path, fields, words):
    mounts = [{"name": "v", "mountPath": f"{tmp_path}/data"}]
    fields = {name: value.replace("DATA", f"{tmp_path}/data") if name == "workingDir" else value for name, value in fields.items()}
    missing = container("", **fields, env=[{"name": "PROGRAM", "value": "no-such-program"}], volumeMounts=mounts)
    part = replicas("w", 1, missing, volumes=[{"name": "v", "emptyDir": {}}])
    outcome = go(job(part | {"restartPolicy": {"policy": "OnFailure", "limit": 5}}))
    assert outcome.code == 1
    assert any(line.startswith(f"w-0 * main: {words}") for line in outcome.lines)
    assert "restart" not in outcome.text
    assert outcome.table()[0][:3] == ["w-0", "Failed", "128"]
    assert words.split()[0] in outcome.table()[0]


def test_what_is_odd_about_a_manifest_is_said_once_with_its_line_before_anything_runs(go):
    worker = replicas("worker", 1, container("echo $(replicas[nobody])", comand="x"), restartPolicy="Always") | {
        "restartPolicy": {"policy": "OnFailure"}
    }
    odd = job(worker, failureRules=[{"wroker": [0]}])
    outcome = go(odd | {"spec": odd["spec"] | {"runMode": {"debug": {"replicaSpecs": [{"type": "boss"}]}}}})
    before = outcome.lines[: next(number for number, line in enumerate(outcome.lines) if "runs at" in line)]
    for words in (
        "warning: spec.failureRules[0]: can never fire: there is no replica of type 'wroker'; did you mean worker?",
        "warning: spec.replicaSpecs[0].template.spec.containers[0].command[2]: $(replicas[nobody]) means nothing here and stays as it is",
        "warning: spec.replicaSpecs[0].template.spec.containers[0].comand: there is no such field; did you mean command?",
        "warning: spec.replicaSpecs[0].template.spec.restartPolicy: ",
        "warning: spec.replicaSpecs[0].restartPolicy.policy: with OnFailure no replica is restarted",
        "warning: spec.runMode.debug.replicaSpecs[0].type: there is no replica of type 'boss'",
    ):
        assert [bool(re.search(rf"manifest.yaml:[0-9]+: {re.escape(words)}", line)) for line in before].count(True) == 1
    assert [outcome.text.count(word) for word in ("wroker", "boss", "$(replicas[nobody])", "template.spec.restartPolicy", ".comand")] == [
        1
    ] * 5
    assert "unknown field" not in outcome.text


def test_programs_that_print_faster_than_the_screen_lose_nothing(go, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_AHEAD", 10)
    script = "i=0; while [ $i -lt 1000 ]; do echo $i; i=$((i+1)); done"
    outcome = go(job(replicas("w", 2, container(script))))
    assert [line for line in outcome.lines if line.startswith("w-1 |")] == [f"w-1 | {n}" for n in range(1000)]


def test_of_many_ranks_only_those_that_did_not_succeed_are_listed():
    out = io.StringIO()
    view = JobView("j", {f"w-{n}": RankView(f"w-{n}", "Failed" if n % 2 else "Succeeded", n % 2) for n in range(3 * MOST_ROWS)})
    Screen(out).end(RunView(jobs=[view]), 1)
    assert out.getvalue().count("Failed") == MOST_ROWS
    assert "120 ranks, 60 succeeded; 40 others are shown" in out.getvalue()


def test_that_a_job_was_started_again_as_a_whole_is_told_in_the_end():
    for restarts, told in ((1, "j was started again as a whole, once"), (3, "j was started again as a whole, 3 times")):
        out = io.StringIO()
        Screen(out).end(RunView(jobs=[JobView("j", {"w-0": RankView("w-0", "Succeeded", 0)}, job_restarts=restarts)]), 0)
        assert told in out.getvalue().splitlines()


# ------------------------------------------------------------------------------------------------ Ctrl-C


def test_ctrl_c_asks_programs_to_end(go):
    script = f"trap 'echo bye; exit 0' TERM; kill -INT {os.getpid()}; while :; do sleep 600 & wait; done"
    outcome = go(job(replicas("w", 1, container(script))))
    assert outcome.code == 130
    assert "w-0 | bye" in outcome.lines
    assert "Ctrl-C: the programs are asked to end, within 30 s (their grace period); press it again to kill them" in outcome.lines
    assert outcome.verdict == "j was interrupted"


def test_a_second_ctrl_c_kills(go):
    script = f"trap 'kill -INT {os.getpid()}' TERM; kill -INT {os.getpid()}; while :; do sleep 600 & wait; done"
    outcome = go(job(replicas("w", 1, container(script), terminationGracePeriodSeconds=600)))
    assert outcome.code == 130
    assert "Ctrl-C: the programs are asked to end, within 600 s (their grace period); press it again to kill them" in outcome.lines
    assert "Ctrl-C: the programs are killed" in outcome.lines


def test_a_ctrl_c_that_does_not_wake_the_main_thread_is_heard(tmp_path):
    """A signal may arrive just before the run sleeps in a system call, which then goes on. One that arrives in another thread is alike."""

    class Timed(Screen):
        refreshed = math.inf

        def refresh(self, *, busy):
            self.refreshed = time.monotonic()
            return super().refresh(busy=busy)

    def press():
        eventually(lambda: (tmp_path / "up").exists() and time.monotonic() > screen.refreshed + 1)  # it sleeps by now
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    script = f"touch {tmp_path}/up; sleep 30; touch {tmp_path}/unheard"
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job(replicas("w", 1, container(script)))))
    screen = Timed(io.StringIO())
    run = Run(runnable([str(tmp_path / "j.yaml")]), screen)
    threading.Thread(target=press).start()
    assert run.go() == 130
    assert not (tmp_path / "unheard").exists()


def test_when_the_job_has_ended_one_ctrl_c_kills_who_still_runs(go, tmp_path):
    stubborn = f"trap 'kill -INT {os.getpid()}' TERM; touch {tmp_path}/up; while :; do sleep 600 & wait; done"
    server = replicas("server", 1, container(stubborn), terminationGracePeriodSeconds=600)
    worker = replicas("worker", 1, container(f"until [ -e {tmp_path}/up ]; do sleep 0.01; done"))
    outcome = go(job(server, worker, successRules=[{"worker": [0]}]))
    assert outcome.code == 0
    assert "Ctrl-C: the programs are killed" in outcome.lines
    assert outcome.table() == [["server-0", "Stopped"], ["worker-0", "Succeeded", "0"]]


def test_a_program_that_prints_without_end_is_killed_all_the_same(go, monkeypatch):
    monkeypatch.setattr(module, "CHUNKS_AHEAD", 1)
    script = f"trap 'kill -INT {os.getpid()}' TERM; kill -INT {os.getpid()}; while :; do echo on and on; done"
    outcome = go(job(replicas("w", 1, container(script))))
    assert outcome.code == 130
    assert "some programs could not be ended" not in outcome.lines


def test_sigterm_ends_a_run_too(go):
    outcome = go(job(replicas("w", 1, container(f"kill -TERM {os.getpid()}; sleep 600"))))
    assert outcome.code == 143
    assert "SIGTERM: the programs are asked to end, within 30 s (their grace period); another one kills them" in outcome.lines


def test_a_rank_is_stopping_until_its_pod_is_gone(tmp_path):
    class Looking(Screen):
        def refresh(self, *, busy):
            if "w-0 | asked" in out.getvalue() and not (tmp_path / "go").exists():
                seen.append(self._run.jobs[0].ranks["j-w-0"].phase)
                (tmp_path / "go").touch()
            return super().refresh(busy=busy)

    seen, out = [], io.StringIO()
    patient = f"trap 'echo asked; until [ -e {tmp_path}/go ]; do sleep 0.05; done; exit 0' TERM"
    script = f"{patient}; kill -INT {os.getpid()}; while :; do sleep 600 & wait; done"
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job(replicas("w", 1, container(script)))))
    assert Run(runnable([str(tmp_path / "j.yaml")]), Looking(out)).go() == 130
    assert seen == ["Stopping"]
    assert Outcome(130, out.getvalue()).table() == [["w-0", "Stopped"]]


# ------------------------------------------------------------------------------------------------ bad input

GOOD = yaml.safe_dump(job(replicas("w", 1, container("true"))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is nothing in it"),
        ("a: b\nkind: }", "yaml:2: error: "),
        ("- a list", "this is not an object"),
        ("a: \x00", "this is not YAML"),
        ("apiVersion: apps/v1\nkind: Deployment\n", "metadata.*: is missing"),
        ("metadata: {name: x}\n", "kind: is missing"),
        (GOOD.replace("v1beta1", "v1"), "apiVersion of a GenericJob is batch.tensorstack.dev/v1beta1"),
        (GOOD.replace("name: j", "nam: j"), "metadata.name"),
        (GOOD.replace("replicas: 1", "replicas: -1"), r"spec\.replicaSpecs\[0\]\.replicas"),
        (GOOD.replace("replicaSpecs", "replicaSpec"), r"spec\.replicaSpecs"),
        (GOOD.replace("spec:\n  replicaSpecs", "spec:\n  sucessRules: []\n  replicaSpecs"), "sucessRules"),
        (GOOD.replace("name: j", f"name: {'j' * 62}"), "63"),
        (GOOD.replace("spec:\n  replicaSpecs", "spec:\n  managedBy: somebody/else\n  replicaSpecs"), "spec.managedBy"),
        (GOOD + "---\n" + GOOD, "yaml:22: error: metadata.name: GenericJob j is there already"),
        (GOOD.replace("containers", "container"), r"yaml:9: error: .*spec\.containers: is missing"),
    ],
)
def test_bad_input_is_refused_and_says_where(go, text, words):
    with pytest.raises(BadInputError, match=words) as caught:
        go(text)
    assert all("manifest.yaml:" in line for line in str(caught.value).splitlines())


def without_command(**spec):
    silent = {"name": "main", "image": "busybox"}
    first = container("true", "first")
    return job(replicas("w", 1, container("true")), replicas("v", 1, silent, initContainers=[first]), **spec)


def test_a_container_that_leaves_its_program_to_its_image_is_refused_with_its_line(go, tmp_path):
    with pytest.raises(BadInputError) as caught:
        go(without_command())
    line = (tmp_path / "manifest.yaml").read_text().splitlines().index("        - image: busybox") + 1
    assert str(caught.value) == (
        f"{tmp_path}/manifest.yaml:{line}: error: spec.replicaSpecs[1].template.spec.containers[0].command: is missing, "
        "and what busybox runs by itself is not known here: write the program into it"
    )
    assert list((tmp_path / "runtime").rglob("*")) == []


def refused(tmp_path, **fields):
    """What is said of a container before anything starts, without the place."""
    part = fields.pop("part", None) or replicas("w", 1, container("", **fields), volumes=[{"name": "v", "emptyDir": {}}])
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job(part)))
    try:
        check_programs(runnable([str(tmp_path / "j.yaml")]))
    except BadInputError as error:
        return str(error).partition(": error: spec.replicaSpecs[0].template.spec.")[2]
    return ""


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"command": ["no-such-program"]},
            "command: there is no program 'no-such-program' on this machine: it is in no directory of $PATH",
        ),
        ({"command": ["/no/such/program"]}, "command: there is no program '/no/such/program' on this machine"),
        (
            {"command": ["./x"]},
            "command: there is no program './x' on this machine (relative to HERE; --chdir DIR changes that)",
        ),
        ({"command": ["./x"], "workingDir": "/"}, "command: there is no program './x' on this machine"),
        ({"workingDir": "/no/such"}, "workingDir: /no/such does not exist on this machine"),
        ({"workingDir": "/no/$(rank)"}, "workingDir: /no/$(rank) does not exist on this machine"),
        ({"workingDir": "/etc/passwd"}, "workingDir: /etc/passwd is not a directory on this machine"),
        (
            {"workingDir": "sub"},
            "workingDir: sub does not exist on this machine (relative to HERE; --chdir DIR changes that)",
        ),
        ({"command": ["sh"], "workingDir": "/tmp"}, ""),
        ({"command": ["$(P)"]}, ""),
        ({"command": ["x"], "env": [{"name": "PATH", "value": "/mine"}]}, ""),
        ({"command": ["x"], "envFrom": [{"configMapRef": {"name": "settings"}}]}, ""),
        ({"command": ["/data/run"], "volumeMounts": [{"name": "v", "mountPath": "/data/"}]}, ""),
        ({"workingDir": "/data/sub", "command": ["./run"], "volumeMounts": [{"name": "v", "mountPath": "/data"}]}, ""),
    ],
)
def test_a_program_or_directory_that_does_not_exist_is_refused_before_anything_starts(tmp_path, fields, said):
    said = said.replace("HERE", os.getcwd())
    assert refused(tmp_path, **fields) == (f"containers[0].{said}" if said else "")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("#!/no/interp\n", 0o755, "there is no '/no/interp' on this machine, the interpreter that its first line names"),
        ("#!/bin/sh\n", 0o644, "it is not executable: `chmod +x ./run.sh`, or name its interpreter before it"),
        ("#!/bin/sh\n", 0o755, ""),
        ("#!python\n", 0o755, "there is no 'python' on this machine, the interpreter that its first line names"),
        ("of a kind that this machine may know\n", 0o755, ""),
    ],
)
def test_a_file_that_cannot_be_started_is_refused_before_anything_starts(tmp_path, monkeypatch, content, mode, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.sh").write_text(content)
    (tmp_path / "run.sh").chmod(mode)
    said = f"containers[0].command: './run.sh' cannot be started: {why}" if why else ""
    assert refused(tmp_path, command=["./run.sh"]) == said


def test_a_path_that_is_right_beside_the_manifest_is_found_by_the_hint(tmp_path):
    (tmp_path / "train.sh").touch()
    hint = f"(relative to {os.getcwd()}; --chdir {tmp_path} changes that)"
    assert refused(tmp_path, command=["./train.sh"]).endswith(f"there is no program './train.sh' on this machine {hint}")


@pytest.mark.parametrize(
    ("command", "args", "script"),
    [
        (["python3", "train.py"], [], "train.py"),
        (["python3", "-u"], ["sub/train.py", "--rank=0"], "sub/train.py"),
        (["bash", "-x", "/no/such.sh"], [], "/no/such.sh"),
        (["python3", "-m", "train.py"], [], ""),
        (["sh", "-ec", "x.sh"], [], ""),
        (["sh", "-c"], ["exec x.sh"], ""),
        (["python3", "-W", "ignore", "train.py"], [], ""),
        (["python3", "$(SCRIPT).py"], [], ""),
        (["python3", __file__], [], ""),
        (["echo", "train.py"], [], ""),
        (["python3"], [], ""),
    ],
)
def test_a_script_that_does_not_exist_is_remarked_before_its_interpreter_says_so(tmp_path, command, args, script):
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(job(replicas("w", 1, container("", command=command, args=args)))))
    found = script_remarks(runnable([str(tmp_path / "j.yaml")]))
    hint = "" if script.startswith("/") else f" (relative to {os.getcwd()}; --chdir DIR changes that)"
    assert [each.partition(".command: ")[2] for each in found] == ([f"there is no file {script!r} on this machine{hint}"] if script else [])


def test_what_an_init_container_may_bring_is_not_judged(tmp_path):
    missing, first = container("", command=["/no/such/program"]), container("true", "first")
    assert refused(tmp_path, part=replicas("w", 1, missing, initContainers=[first])) == ""
    wrong = refused(tmp_path, part=replicas("w", 1, first, initContainers=[missing]))
    assert wrong == "initContainers[0].command: there is no program '/no/such/program' on this machine"


def test_a_program_that_does_not_exist_is_refused_with_its_line_and_nothing_has_begun(go, tmp_path):
    with pytest.raises(BadInputError) as caught:
        go(job(replicas("w", 1, container("", command=["no-such-program"]))))
    line = (tmp_path / "manifest.yaml").read_text().splitlines().index("        - command:") + 1
    assert str(caught.value).startswith(f"{tmp_path}/manifest.yaml:{line}: error: spec.replicaSpecs[0]")
    assert list((tmp_path / "runtime").rglob("*")) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"runMode": {"debug": {"enabled": True}}},
        {"runMode": {"pause": {"enabled": True, "resumeSpecs": [{"type": "v", "command": ["true"]}]}}},
    ],
    ids=["debugged", "resumed"],
)
def test_a_container_that_gets_its_program_by_a_mode_may_run(tmp_path, spec):
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(without_command(**spec)))
    check_programs(runnable([str(tmp_path / "j.yaml")]))


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--name", "no/name"], "'no/name' is no name of a run"),
        (["--logs", "/proc/nothing"], "--logs /proc/nothing: "),
        (["-o", "yaml"], "'yaml' is not one of"),
    ],
)
def test_bad_options_are_refused(arguments, words):
    result = CliRunner().invoke(app, ["run", "-", *arguments], input=GOOD)
    assert result.exit_code == 2
    assert words in result.stderr


def test_strict_lets_pass_what_only_names_an_image(go):
    assert go(GOOD, strict=True).code == 0


def test_a_run_goes_on_where_nothing_can_be_kept(go, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    outcome = go(GOOD)
    assert outcome.code == 0
    assert any(line.startswith("nobody can talk to this run: /dev/null/genericjob: ") for line in outcome.lines)
    assert any(line.startswith("what ranks print is not kept: /dev/null/genericjob") for line in outcome.lines)
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr(Path, "home", no_home)
    assert "nobody can talk to this run: there is no home directory, and $HOME names none" in go(GOOD).lines


def no_home():
    raise RuntimeError


def test_what_was_never_printed_leaves_no_directory(go, tmp_path):
    outcome = go(GOOD)
    assert "what they printed" not in outcome.text
    assert list((tmp_path / "state").rglob("j-*")) == []
    (tmp_path / "mine").mkdir()
    assert go(GOOD, logs=tmp_path / "mine").code == 0
    assert (tmp_path / "mine").is_dir()
