"""A manifest ends the same way on this machine and on a cluster.

Every job of the catalogue runs twice at the same time: under `genericjob run`, which is asked by the API that it serves, and on a real
control plane with a node that runs programs (`harness/machine.py`). The whole status is compared, but for what is of its nature
different: times and UIDs.

Where it matters in which order programs end, they wait at a gate (a FIFO that nobody has opened for writing) until the test has seen all of
them run in both worlds.
"""

import difflib
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import yaml

from e2e.jobs import a_job
from genericjob.api import ranges
from genericjob.api.names import FINAL_PHASES
from genericjob.local.kubelet import NODE
from genericjob.local.runs import RunError, reach
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS, RAW_SERVICES, SECRETS, Key
from harness.clusters import PATIENCE, Namespaces, eventually
from harness.definitions import GENERIC_JOBS
from harness.machine import Machine, alone

ROOT = Path(__file__).parents[2]
GATE = ': < "$GATES/$JOB"\n'
EVER = "exec sleep 1000"
NAMES = {"JOB": "metadata.labels['genericjob']", "EPOCH": "metadata.annotations['batch.tensorstack.dev/epoch']"}
NAMES["ATTEMPT"] = "metadata.annotations['batch.tensorstack.dev/attempt']"


# ------------------------------------------------------------------------------------------------ manifests


def container(script, name="main", env=(), **fields):
    known = [{"name": each, "valueFrom": {"fieldRef": {"fieldPath": path}}} for each, path in NAMES.items()]
    return {"name": name, "image": "app:1", "command": ["sh", "-c", script], "env": [*known, *env], **fields}


def part(number, script, *more, type="worker", restart=None, **pod):
    """A type of replicas; `more` are further containers beside the one with this script."""
    first = container(script) if isinstance(script, str) else script
    template = {"spec": {"containers": [first, *more], "terminationGracePeriodSeconds": 5, **pod}}
    return {"type": type, "replicas": number, "template": template} | ({"restartPolicy": restart} if restart else {})


def by_rank(**scripts):
    """A script for each rank: `r0`, `r1`…"""
    return "\n".join(['case "$(rank)" in', *(f"{rank[1:]}) {script};;" for rank, script in scripts.items()), "esac"])


def on_failure(limit, **more):
    return {"policy": "OnFailure", "limit": limit, **more}


def value_of(kind, name, key):
    return {"name": key.upper(), "valueFrom": {kind: {"name": name, "key": key}}}


SETTINGS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "green", "size": "3"}}
PASSWORD = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "stringData": {"word": "swordfish"}}
OBJECTS = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}

MEETING = """\
import socket, sys, time
own, peer, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def reach(host):
    while True:
        try:
            return socket.create_connection((host, port))
        except OSError:
            time.sleep(0.1)
with socket.create_server((own, port)) as door:
    with reach(peer) as there, door.accept()[0] as here:
        there.sendall(b"hello")
        sys.exit(here.recv(5) != b"hello")
"""
MEET = {
    "name": "main",
    "image": "python:3.13-slim",
    "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
    "command": ["python3", "-c", MEETING, "$(IP)"],
}
MEET_PORT = "$(service.port[door])"


def meets(type, peer):
    return part(1, {**MEET, "args": [f"$(service.{peer}[0].host)", MEET_PORT]}, type=type)


# ------------------------------------------------------------------------------------------------ what is done to jobs


def open_gate(pair):
    """Let programs go on, once all of them run in both worlds."""
    pair.both(lambda job: set(job.phases.values()) == {"Running"})
    pair.open_gate()


def was_restarted(pair):
    pair.both(lambda job: job.status.get("restarts") == 1)


def pause(pair):
    pair.both(lambda job: set(job.phases.values()) == {"Running"})
    pair.edit(runMode={"pause": {"enabled": True}})
    pair.is_same("Paused")
    pair.both(lambda job: not job.pods)


def resume(pair):
    pair.is_same("Paused")
    pair.edit(runMode={"pause": {"enabled": False}}, suspend=None)


def delete_pod(pair):
    """Somebody deletes the pod of rank 0, and it is started again without a charge."""
    before = pair.both(lambda job: set(job.phases.values()) == {"Running"} and job.pods)
    for job, pods in zip(pair.jobs, before, strict=True):
        name = f"{job.key.name}-worker-0"
        job.api.delete(RAW_PODS, Key(job.key.namespace, name))
        eventually(partial(has_successor, job, pods[name]))


def has_successor(job, pod):
    found = job.pods.get(pod["metadata"]["name"])
    return found and found["metadata"]["uid"] != pod["metadata"]["uid"] and job.phases[pod["metadata"]["name"]] == "Running"


def end_debugging(pair):
    pair.both(lambda job: set(job.phases.values()) == {"Running"})
    pair.is_same("Running")
    pair.edit(runMode={"debug": {"enabled": False}})
    for job in pair.jobs:
        for name in job.pods:
            job.api.delete(RAW_PODS, Key(job.key.namespace, name))


def delete_job(pair):
    pair.is_same("Running")
    for job in pair.jobs:
        job.api.delete(GENERIC_JOBS, job.key, propagation="Foreground")


# ------------------------------------------------------------------------------------------------ the catalogue


@dataclass
class Entry:
    """A job, what is done to it, and how it ends.

    `codes` are the exit codes of failures, with their numbers; `pods` are those that are left, None stands for as many as there were.
    """

    parts: tuple
    phase: str = "Succeeded"
    reason: str = ""
    restarts: int = 0
    codes: dict = field(default_factory=dict)
    pods: int | None = None
    acts: tuple = ()
    spec: dict = field(default_factory=dict)


def entry(*parts, **more):
    known = {name: more.pop(name) for name in ("phase", "reason", "restarts", "codes", "pods", "acts") if name in more}
    return Entry(parts, **known, spec=more)


GATED = (open_gate,)
STARTED_AGAIN = '[ "$ATTEMPT" != 0 ]'

CATALOGUE = {
    # ends without rules, and by rules
    "all-well": entry(part(3, "exit 0")),
    "one-fails": entry(part(3, GATE + by_rank(r1="exit 3", r0=EVER, r2=EVER)), codes={3: 1}, phase="Failed", acts=GATED),
    "success-rule": entry(
        part(2, GATE + by_rank(r0="exit 0", r1=EVER)), part(1, EVER, type="ps"), successRules=[{"worker": [0]}], acts=GATED
    ),
    "rule-of-two-types": entry(
        part(2, GATE + by_rank(r0="exit 0", r1=EVER)),
        part(1, GATE, type="chief"),
        successRules=[{"worker": [1]}, {"worker": [0], "chief": [0]}],
        failureRules=[{"worker": [0, 1]}],
        acts=GATED,
    ),
    "failure-rule": entry(
        part(3, GATE + by_rank(r0=EVER, r1="exit 7", r2=EVER)), failureRules=[{"worker": [1]}], codes={7: 1}, phase="Failed", acts=GATED
    ),
    "no-way-to-success": entry(
        part(2, GATE + by_rank(r0="exit 4", r1=EVER)),
        successRules=[{"worker": [0]}],
        codes={4: 1},
        phase="Failed",
        reason="NoSuccessRuleReachable",
        acts=GATED,
    ),
    "no-replicas": entry(part(0, "exit 0")),
    # restarts
    "never": entry(part(1, "exit 9", restart={"policy": "Never"}), codes={9: 1}, phase="Failed"),
    "within-the-limit": entry(
        part(2, f'[ "$ATTEMPT" = 2 ] || exit {"$((3 + $ATTEMPT))"}', restart=on_failure(2)), codes={3: 2, 4: 2}, restarts=4
    ),
    "beyond-the-limit": entry(part(1, "exit 5", restart=on_failure(1)), codes={5: 2}, phase="Failed", restarts=1),
    "always": entry(part(1, "exit 0", restart={"policy": "Always", "limit": 2}), restarts=2),
    "always-without-end": entry(
        part(1, f"{STARTED_AGAIN} || exit 0\n{EVER}", type="ps", restart={"policy": "Always"}),
        part(1, GATE),
        restarts=1,
        acts=(was_restarted, open_gate),
    ),
    "never-again": entry(
        part(1, f"{STARTED_AGAIN} || exit 1\nexit 2", restart=on_failure(3, exitCodes={"neverRestart": [2]})),
        codes={1: 1, 2: 1},
        phase="Failed",
        restarts=1,
    ),
    "not-charged": entry(part(1, f"{STARTED_AGAIN} || exit 75", restart=on_failure(0, exitCodes={"notCharged": [75]})), codes={75: 1}),
    "whole-job": entry(
        part(2, GATE + f'[ "$EPOCH" = 1 ] && exit 0\n{by_rank(r0=EVER, r1="exit 6")}', restart=on_failure(2, scope="Job")),
        codes={6: 1},
        restarts=1,
        acts=GATED,
    ),
    "deleted-by-others": entry(
        part(1, f"{STARTED_AGAIN} && exec sh -c '{GATE}'\n{EVER}"), part(1, GATE, type="peer"), acts=(delete_pod, open_gate)
    ),
    # what is left, and when
    "keep-unfinished": entry(
        part(2, GATE + by_rank(r0="exit 0", r1=EVER)), successRules=[{"worker": [0]}], cleanUpPolicy="Unfinished", pods=1, acts=GATED
    ),
    "keep-nothing": entry(
        part(2, GATE + by_rank(r0="exit 0", r1=EVER)), successRules=[{"worker": [0]}], cleanUpPolicy="All", pods=0, acts=GATED
    ),
    "deaf": entry(
        part(2, f"trap '' TERM\n{GATE}{by_rank(r0='exit 0', r1='while :; do sleep 0.2; done')}", terminationGracePeriodSeconds=1),
        successRules=[{"worker": [0]}],
        cleanUpPolicy="Unfinished",
        pods=1,
        acts=GATED,
    ),
    "deadline": entry(part(2, EVER), activeDeadlineSeconds=6, phase="Failed", reason="DeadlineExceeded", pods=0),
    "expired": entry(part(1, "exit 0"), ttlSecondsAfterFinished=0, phase=""),
    # containers
    "init": entry(
        part(
            1,
            '[ "$JOB" = init ]',
            initContainers=[container("exit 0", "one"), container("sleep 0.1", "two")],
        )
    ),
    "init-fails": entry(
        part(1, "exit 0", initContainers=[container("exit 0", "one"), container("exit 4", "two"), container("exit 0", "three")]),
        codes={4: 1},
        phase="Failed",
    ),
    "two-containers": entry(part(1, GATE + "exit 0", container(GATE + "exit 5", "other")), codes={5: 1}, phase="Failed", acts=GATED),
    "killed": entry(part(1, "kill -9 $$$$"), codes={137: 1}, phase="Failed"),
    "terminated": entry(part(1, "kill -TERM $$$$"), codes={143: 1}, phase="Failed"),
    "no-such-program": entry(
        part(1, {**container("", env=[{"name": "PROGRAM", "value": "/no/such/program"}]), "command": ["$(PROGRAM)"]}),
        codes={128: 1},
        phase="Failed",
    ),
    "variables": entry(
        part(
            2,
            container(
                """[ "$*" = "worker 2 $RANK "'$$(rank) $(UNKNOWN) variables' ]""",
                env=[{"name": "RANK", "value": "$(rank)"}],
                args=["sh", "$(type)", "$(replicas[worker])", "$(rank)", "$$(rank)", "$(UNKNOWN)", "$(JOB)"],
            ),
        )
    ),
    "values": entry(
        part(
            1,
            container(
                '[ "$COLOUR $WORD $size $BOTH" = "green swordfish 3 green-swordfish" ]',
                env=[
                    value_of("configMapKeyRef", "settings", "colour"),
                    value_of("secretKeyRef", "password", "word"),
                    {"name": "BOTH", "value": "$(COLOUR)-$(WORD)"},
                ],
                envFrom=[{"configMapRef": {"name": "settings"}}],
            ),
        )
    ),
    "waits-for-a-secret": entry(
        part(1, container("exit 0", env=[value_of("secretKeyRef", "nobody-made-this", "word")])),
        part(1, EVER, type="other"),  # and with it the run, which would give up a job that only waits
        phase="Running",
        acts=(lambda pair: pair.both(lambda job: "CreateContainerConfigError" in job.conditions["Running"][2]),),
    ),
    "meeting": entry(meets("one", "other"), meets("other", "one"), service={"ports": [{"name": "door", "port": 29518}]}),
    # modes
    "paused": entry(
        part(2, 'test "$1" = again || exec sleep 1000'),
        runMode={"pause": {"enabled": False, "resumeSpecs": [{"type": "worker", "args": ["sh", "again"]}]}},
        acts=(pause, resume),
    ),
    "suspended": entry(part(2, "exit 0"), suspend=True, acts=(resume,)),
    "debugged": entry(part(2, '[ "$ATTEMPT" = 1 ]'), runMode={"debug": {"enabled": True}}, acts=(end_debugging,)),
    "deleted": entry(part(2, EVER), phase="", acts=(delete_job,)),
}


# ------------------------------------------------------------------------------------------------ two worlds


class TheJob:
    """A job in one of the worlds."""

    def __init__(self, api, key):
        self.api, self.key = api, key

    @property
    def status(self):
        """None when the job is gone."""
        try:
            return self.api.get(GENERIC_JOBS, self.key).get("status", {})
        except ApiError as error:
            if not error.not_found:
                raise
        return None

    @property
    def phases(self):
        return {each["name"]: each["phase"] for task in (self.status or {}).get("tasks", ()) for each in task["replicas"]}

    @property
    def conditions(self):
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in self.status["conditions"]}

    @property
    def pods(self):
        found = self.api.list(RAW_PODS, self.key.namespace, labels=f"genericjob={self.key.name}").items
        return {each["metadata"]["name"]: each for each in found}

    @property
    def services(self):
        found = self.api.list(RAW_SERVICES, self.key.namespace, labels=f"genericjob={self.key.name}").items
        return sorted(each["metadata"]["name"] for each in found)

    @property
    def course(self):
        """All that is known of it, but for times and UIDs."""
        pods = {name: [pod["status"].get("phase"), "deletionTimestamp" in pod["metadata"]] for name, pod in self.pods.items()}
        return [timeless(self.status), pods, self.services]


TIMES = {"lastTransitionTime", "startTime", "completionTime", "pauseTime", "pausedSeconds", "lastJobRestart", "time", "uid"}


def timeless(value):
    """A status without what is of its nature different."""
    if isinstance(value, list):
        return [timeless(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: timeless(each) for name, each in value.items() if name not in TIMES}
    if kept.get("phase") == "Deleted":
        del kept["containers"]  # it is chance whether the controller saw how a pod that had to go ended before it was gone
    if "lastRestarts" in kept:  # ranks by time
        kept["lastRestarts"] = sorted(rank for ranks in kept["lastRestarts"].values() for rank in ranges.parse(ranks))
    return kept


def differences(here, there):
    """For people: what stands in one of two courses only."""
    texts = [yaml.safe_dump(each).splitlines() for each in (here, there)]
    return "\n".join(difflib.unified_diff(*texts, "this machine", "the cluster", lineterm=""))


class Pair:
    """A job in both worlds."""

    def __init__(self, name, here, there, gates):
        self.jobs = [TheJob(api, Key(namespace, name)) for api, namespace in (here, there)]
        self._gates, self._name = gates, name

    def both(self, ask):
        """Wait for something in both."""
        return [eventually(partial(ask, job)) for job in self.jobs]

    def edit(self, **spec):
        for job in self.jobs:
            job.api.patch(GENERIC_JOBS, job.key, {"spec": spec})

    def open_gate(self):
        self._gates.open(self._name)

    def is_same(self, phase, pods=None):
        """Wait until the job has reached a phase in both worlds and all that is known of it is the same; returns its status."""

        def same():
            here, there = (job.course for job in self.jobs)
            assert (here[0] or {}).get("phase", "") == phase
            assert not differences(here, there)
            assert pods is None or len(here[1]) == pods
            return here[0] or {"gone": True}

        return eventually(same)


class Gates:
    """FIFOs by name: whoever opens one for reading waits until `open`."""

    def __init__(self, directory, names):
        self.directory = directory
        self._open = []
        for name in names:
            os.mkfifo(directory / name)

    def open(self, name):
        self._open.append(os.open(self.directory / name, os.O_RDWR))

    def close(self):
        for each in self._open:
            os.close(each)


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    found = Gates(tmp_path_factory.mktemp("gates"), CATALOGUE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GATES", str(found.directory))  # programs have the environment of whoever started them
        yield found
    found.close()


@pytest.fixture(scope="module")
def bodies():
    return [SETTINGS, PASSWORD, *(a_job(name, *each.parts, **each.spec) for name, each in CATALOGUE.items())]


@pytest.fixture(scope="module")
def here(bodies, gates, tmp_path_factory):
    """`genericjob run`, and the API that it serves."""
    directory, name = tmp_path_factory.mktemp("here"), f"sameness-{os.getpid()}"
    file, output = directory / "all.yaml", directory / "output"
    file.write_text(yaml.safe_dump_all(bodies))
    command = [sys.executable, "-m", "genericjob.cli", "run", str(file), "--name", name, "--logs", str(directory / "logs")]

    def reached():
        assert run.poll() is None, output.read_text()
        with suppress(RunError):  # not yet
            return reach(name)

    with output.open("wb") as out, subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT) as run:
        try:
            found = eventually(reached)
            yield HttpApi(found.credentials), found.namespace
        finally:
            run.send_signal(signal.SIGINT)
            assert run.wait(PATIENCE) == 130, output.read_text()


@pytest.fixture(scope="module")
def there(cluster, server, controller, collector, bodies, gates, tmp_path_factory):
    """A cluster."""
    if cluster.plane is None:
        pytest.skip("needs a control plane of its own: on a cluster that belongs to others a node of ours would take everybody's pods")
    if not alone():
        pytest.skip(
            "a node that runs programs needs an /etc/hosts of its own, and this user may not have mounts of his own (unshare --mount)"
        )
    with Machine(cluster, tmp_path_factory.mktemp("there")), Namespaces(server).fresh() as namespace:
        for body in bodies:
            server.create(OBJECTS.get(body["kind"], GENERIC_JOBS), body, namespace)
        yield server, namespace


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_job_ends_here_as_on_a_cluster(name, here, there, gates):
    wanted, pair = CATALOGUE[name], Pair(name, here, there, gates)
    for act in wanted.acts:
        act(pair)
    total = sum(each["replicas"] for each in wanted.parts) if wanted.phase else 0
    status = pair.is_same(wanted.phase, total if wanted.pods is None else wanted.pods)
    assert status.get("restarts", 0) == wanted.restarts
    told = [task.get("failedExitCodes", {}) for task in status.get("tasks", ())]
    assert {code: number for codes in told for code, number in codes.items()} == {
        str(code): number for code, number in wanted.codes.items()
    }
    if wanted.phase in FINAL_PHASES:
        ended = {each["type"]: each for each in status["conditions"]}["Completed" if wanted.phase == "Succeeded" else "Failed"]
        assert (ended["status"], ended["reason"]) == ("True", wanted.reason or wanted.phase)


def test_every_failure_names_this_machine(here, there, gates):
    """The comparison would not notice if both forgot where a program failed."""
    status = Pair("beyond-the-limit", here, there, gates).is_same("Failed")
    ((failure,),) = [task["failures"] for task in status["tasks"]]
    assert (failure["node"], failure["exitCode"], failure["attempt"]) == (NODE, 5, 1)
