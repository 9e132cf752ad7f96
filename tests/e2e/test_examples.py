"""The examples, as a user tries them: applied with kubectl on a real control plane, and led to the end that their first lines promise.

A stand-in node plays the kubelet, so no program of an example runs here; `ROWS` says how each program ends. What the first lines of an
example tell people to type is typed here. Examples that need nothing but a shell also run as programs of this machine: see the last test.
"""

import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from genericjob.api.names import EPOCH_ANNOTATION, KIND
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, Key
from harness import podgroups
from harness.clusters import eventually
from harness.definitions import conditions

ROOT = Path(__file__).parents[2]
FILES = {path.name: path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))}


def header(text):
    """The comment at the top of a file, line by line."""
    return re.match(r"(?:#.*\n)+", text)[0].splitlines()


def commands(text):
    """What people are told to type, word by word."""
    lines = [line[1:].strip() for line in header(text) if line.startswith("#   ")]
    return [shlex.split(line, comments=True) for line in lines]


# ------------------------------------------------------------------------------------------------ what happens to a job


class Play:
    """A job whose programs end when the test says so."""

    def __init__(self, job):
        self.job = job
        self._begun, self._over = set(), set()

    def pod(self, type, rank):
        """The pod of a rank, once there is one that has not ended."""

        def found():
            pod = self.job.pods.get(f"{self.job.name}-{type}-{rank}")
            if pod and pod["metadata"]["uid"] not in self._over and "deletionTimestamp" not in pod["metadata"]:
                return pod
            return None

        return eventually(found)

    def begins(self, type, rank):
        """Have its program run."""
        pod = self.pod(type, rank)
        uid = pod["metadata"]["uid"]
        if uid not in self._begun:
            if pod["spec"]["schedulerName"] != "default-scheduler" and "nodeName" not in pod["spec"]:
                self.job.node.bind(self.job.pod(rank, type))  # that scheduler is not here
            self.job.node.run(uid)
            self._begun.add(uid)
        return uid

    def all_begin(self):
        """Have every program run."""
        for part in self.job.body["spec"]["replicaSpecs"]:
            for rank in range(part["replicas"]):
                self.begins(part["type"], rank)

    def ends(self, type, rank, exit_code):
        """Have its program end."""
        uid = self.begins(type, rank)
        self.job.node.finish(uid, exit_code)
        self._over.add(uid)

    def has_left(self, pods):
        """Wait until these pods are left, in these phases."""
        wanted = {f"{self.job.name}-{name}": phase for name, phase in pods.items()}
        eventually(lambda: {name: pod["status"]["phase"] for name, pod in self.job.pods.items()} == wanted)


def exits(type, rank, exit_code=0):
    """A program ends."""
    return lambda play: play.ends(type, rank, exit_code)


def runs_again(type, rank):
    """The next pod of a rank runs: its restart is stored."""
    return lambda play: play.begins(type, rank)


def starts_over(epoch):
    """All pods make room for those of another run of the job."""

    def wait(play):
        eventually(lambda: play.job.status.get("epoch") == epoch)
        total = sum(part["replicas"] for part in play.job.body["spec"]["replicaSpecs"])
        eventually(lambda: {annotation(pod, EPOCH_ANNOTATION) for pod in play.job.has_pods(total).values()} == {str(epoch)})
        play.all_begin()

    return wait


def annotation(pod, name):
    return pod["metadata"]["annotations"].get(name)


def everybody(type, number, exit_code=0):
    """All programs of a type end, one after the other."""
    return tuple(exits(type, rank, exit_code) for rank in range(number))


def plays(*steps, phase="Succeeded", reason=None, restarts=0, left=None):
    """An example that is applied, whose programs then run and end. Afterwards these pods are left; without a word, all of them."""

    def play_it(stage):
        for job in stage.jobs:
            play = Play(job)
            play.all_begin()
            for step in steps:
                step(play)
            status = job.becomes(phase)
            assert status["restarts"] == restarts
            ended = job.conditions["Completed" if phase == "Succeeded" else "Failed"]
            assert ended[:2] == ("True", reason or phase)
            if left is not None:
                play.has_left(left.get(job.name, left))

    return play_it


def first_container(pod):
    """What the first container of a pod runs, and the init containers before it."""
    found = pod["spec"]["containers"][0]
    return found.get("command"), found.get("args"), [each["name"] for each in pod["spec"].get("initContainers", ())]


# ------------------------------------------------------------------------------------------------ those with a switch


def debug(stage):
    (job,) = stage.jobs
    play = Play(job)
    play.all_begin()
    job.becomes("Running")
    assert first_container(play.pod("worker", 0)) == (["sleep", "inf"], None, ["prepare"])
    play.ends("worker", 0, 0)  # it waits no more, and is there again
    play.begins("worker", 0)
    stage.types("patch")
    stage.types("delete")
    eventually(lambda: first_container(play.pod("worker", 1)) == (["echo", "I am worker 1"], None, ["prepare"]))
    eventually(lambda: first_container(play.pod("worker", 0)) == (["echo", "I am worker 0"], None, ["prepare"]))
    assert job.phase == "Running"
    for step in everybody("worker", 2):
        step(play)
    assert job.becomes("Succeeded")["restarts"] == 0


def debug_sshd(stage):
    (job,) = stage.jobs
    play = Play(job)
    play.all_begin()
    job.becomes("Running")
    assert first_container(play.pod("launcher", 0)) == (["sleep", "inf"], None, [])
    assert first_container(play.pod("worker", 1)) == (["/usr/sbin/sshd", "-D", "-e"], None, [])
    play.ends("worker", 1, 255)
    play.begins("worker", 1)
    assert job.becomes("Running")["restarts"] == 0
    stage.types("delete")
    eventually(lambda: not job.exists)


def pause(stage):
    (job,) = stage.jobs
    play = Play(job)
    play.all_begin()
    job.becomes("Running")
    assert first_container(play.pod("worker", 1))[1:] == (["--from-scratch"], ["prepare"])
    stage.types("patch", 0)
    job.becomes("Paused")
    play.has_left({})
    stage.types("patch", 1)
    assert first_container(play.pod("worker", 1))[1:] == (["--resume"], [])
    for step in everybody("worker", 2):
        step(play)
    assert job.becomes("Succeeded")["restarts"] == 0


def created_paused(stage):
    (job,) = stage.jobs
    play = Play(job)
    job.becomes("Paused")
    assert not job.pods
    stage.types("patch")
    for step in everybody("worker", 2):
        step(play)
    job.becomes("Succeeded")


def gang(stage):
    (job,) = stage.jobs
    job.has_pods(4)
    group = stage.kubectl("get", "podgroup", "gang", "--output=jsonpath={.spec.minMember} {.spec.queue} {.spec.priority}")
    assert group == "4 default 50"
    plays(exits("master", 0), *everybody("worker", 3))(stage)


def with_tf_config(play_it):
    """An example whose replicas are told by TF_CONFIG who they are and where the others are."""

    def check(stage):
        (job,) = stage.jobs
        total = sum(part["replicas"] for part in job.body["spec"]["replicaSpecs"])
        for name, pod in job.has_pods(total).items():
            (text,) = [each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "TF_CONFIG"]
            config = json.loads(text)
            assert f"{job.name}-{config['task']['type']}-{config['task']['index']}" == name
            told = [
                (f"{job.name}-{type}-{rank}:2222", address)
                for type in config["cluster"]
                for rank, address in enumerate(config["cluster"][type])
            ]
            assert all(expected == address for expected, address in told)
            assert {address.split(":")[0] for _, address in told} == set(job.services)
        play_it(stage)

    return check


def torchrun(stage):
    (job,) = stage.jobs
    pod = job.has_pods(4)["torchrun-worker-3"]["spec"]["containers"][0]
    assert pod["command"][1:3] == ["--nnodes=4", "--node_rank=3"]
    assert pod["env"][0] == {"name": "MASTER_ADDR", "value": "torchrun-worker-0"}
    plays(exits("worker", 2, 1), starts_over(1), *FOUR, restarts=1)(stage)


def ttl(stage):
    plays(*everybody("worker", 2))(stage)
    eventually(lambda: not stage.jobs[0].exists)


# ------------------------------------------------------------------------------------------------ the table

TWO = everybody("worker", 2)
FOUR = everybody("worker", 4)
RUNNING_WORKERS = {f"worker-{rank}": "Running" for rank in (1, 2, 3)}
WORKERS_DONE = {f"worker-{rank}": "Succeeded" for rank in (0, 1, 2)}
WORKER_0_DONE = {"worker-0": "Succeeded"}
FAIL_TWICE = (*everybody("worker", 2, 1), *everybody("worker", 2, 1), *TWO)

ROWS = {
    "basic.yaml": plays(exits("worker", 0), left=WORKER_0_DONE | RUNNING_WORKERS),
    "clean-up.yaml": plays(
        exits("worker", 0),
        left={"keep-everything": WORKER_0_DONE | {"worker-1": "Running"}, "keep-finished": WORKER_0_DONE, "keep-nothing": {}},
    ),
    "deadline.yaml": plays(phase="Failed", reason="DeadlineExceeded", left={}),
    "debug-sshd.yaml": debug_sshd,
    "debug.yaml": debug,
    "environment.yaml": plays(*FOUR),
    "exit-codes.yaml": plays(
        exits("worker", 0, 75), exits("worker", 0), exits("worker", 1, 1), exits("worker", 1, 2), phase="Failed", restarts=1
    ),
    "gang.yaml": gang,
    "hello.yaml": plays(exits("server", 0), *everybody("worker", 3)),
    "many-workers.yaml": plays(*everybody("worker", 12), left={f"worker-{rank}": "Succeeded" for rank in range(12)}),
    "mpi.yaml": plays(exits("launcher", 0, 1), exits("launcher", 0), restarts=1, left={"launcher-0": "Succeeded"}),
    "pause.yaml": pause,
    "paused.yaml": created_paused,
    "resources.yaml": plays(*FOUR),
    "restart-always.yaml": plays(
        exits("master", 0),
        exits("master", 0, 1),
        exits("worker", 1, 1),
        *TWO,
        restarts=3,
        left={"worker-0": "Succeeded", "worker-1": "Succeeded"},
    ),
    "restart-job.yaml": plays(exits("worker", 1, 1), starts_over(1), *everybody("worker", 3), restarts=1, left=WORKERS_DONE),
    "restart-on-failure.yaml": plays(*FAIL_TWICE, restarts=4),
    "rules.yaml": plays(*everybody("worker", 3), left=WORKERS_DONE),
    "services.yaml": plays(exits("client", 0), left={"client-0": "Succeeded"}),
    "shared-memory.yaml": plays(*FOUR),
    "suspend.yaml": created_paused,
    "tensorflow-ps.yaml": with_tf_config(
        plays(exits("worker", 0, 1), runs_again("worker", 0), exits("chief", 0), restarts=1, left={"chief-0": "Succeeded"})
    ),
    "tensorflow-workers.yaml": with_tf_config(plays(*FOUR)),
    "torchrun.yaml": torchrun,
    "ttl.yaml": ttl,
    "variables.yaml": plays(*everybody("reader", 2)),
}

HERE = {
    "basic.yaml": 0,
    "clean-up.yaml": 0,
    "deadline.yaml": 1,
    "environment.yaml": 0,
    "exit-codes.yaml": 1,
    "gang.yaml": 0,
    "hello.yaml": 0,
    "many-workers.yaml": 0,
    "resources.yaml": 0,
    "restart-always.yaml": 0,
    "restart-job.yaml": 0,
    "restart-on-failure.yaml": 0,
    "rules.yaml": 0,
    "services.yaml": 0,
    "shared-memory.yaml": 0,
    "ttl.yaml": 0,
    "variables.yaml": 0,
}
"""Examples that run as programs of this machine, and the exit code of `genericjob run`."""


# ------------------------------------------------------------------------------------------------ the tests


class Stage:
    """An example on a cluster, and the keyboard of whoever tries it."""

    def __init__(self, file, team, kubectl):
        self.kubectl = kubectl
        self._commands = [words[1:] for words in commands(FILES[file]) if words[0] == "kubectl"]
        self._apply(file)
        names = [body["metadata"]["name"] for body in yaml.safe_load_all(FILES[file]) if body["kind"] == KIND]
        self.jobs = [team.find(name) for name in names]

    def _apply(self, file):
        (words,) = [words for words in self._commands if words[0] == "apply"]
        assert words == ["apply", "-f", f"examples/{file}"]
        self.kubectl("apply", "--validate=strict", "-f", str(ROOT / "examples" / file))

    def types(self, verb, number=0):
        """One of the commands of the first lines, as it stands there."""
        self.kubectl(*[words for words in self._commands if words[0] == verb][number])


@pytest.fixture
def pod_groups(server):
    """What the T9k scheduler brings along, for as long as the test lasts."""
    key = Key("", podgroups.NAME)
    server.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())
    try:
        eventually(lambda: conditions(server, key).get("Established") == "True")
        yield
    finally:
        server.delete(CUSTOM_RESOURCE_DEFINITIONS, key)
        eventually(lambda: _is_gone(server, key))


def _is_gone(server, key):
    try:
        server.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    except ApiError as error:
        return error.not_found
    return False


@pytest.mark.parametrize("file", ROWS)
def test_an_example_ends_as_its_first_lines_promise(file, team, kubectl, request):
    if "t9kScheduler:" in FILES[file]:
        request.getfixturevalue("pod_groups")
    ROWS[file](Stage(file, team, kubectl))


def test_every_example_has_a_row_and_every_row_an_example():
    assert sorted(ROWS) == sorted(FILES)
    assert set(HERE) < set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_an_example_says_at_its_top_what_it_shows_and_how_to_apply_it(file):
    lines = header(FILES[file])
    assert 3 <= len(lines) <= 8
    assert [f"examples/{file}" in words for words in commands(FILES[file])].count(True) >= 1


def test_the_table_of_examples_has_every_one_and_tells_the_truth_about_this_machine():
    table = (ROOT / "examples" / "README.md").read_text()
    rows = {found[1]: found[2] for found in re.finditer(r"^\| \[(\S+)\]\(\1\) \|.*\| (yes|no) \|$", table, re.MULTILINE)}
    assert sorted(rows) == sorted(FILES)
    assert {file for file, here in rows.items() if here == "yes"} == set(HERE)


def test_examples_that_need_only_a_shell_run_without_a_cluster():
    def run(file):
        command = [sys.executable, "-m", "genericjob.cli", "run", f"examples/{file}"]
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    with ThreadPoolExecutor(4) as pool:
        for file, done in zip(HERE, pool.map(run, HERE), strict=True):
            assert done.returncode == HERE[file], f"{file}:\n{done.stdout}"
