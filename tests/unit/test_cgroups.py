"""Limits of containers as control groups. Where none can be made, as in most places, nothing is, and that is said."""

import io
import os

import pytest
import yaml

from genericjob.cli.documents import runnable
from genericjob.cli.run import Run
from genericjob.cli.screen import Screen
from genericjob.local import cgroups
from genericjob.local.cgroups import Cgroups, limits_of

from .test_kubelet import Machine, ended, sh

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("limits", "files"),
    [
        ({}, {}),
        ({"nvidia.com/gpu": 1, "memory": "nonsense"}, {}),
        ({"cpu": "1500m"}, {"cpu.max": "150000 100000"}),
        ({"cpu": "1m"}, {"cpu.max": "1000 100000"}),
        ({"memory": "1Gi"}, {"memory.max": "1073741824", "memory.oom.group": "1"}),
    ],
)
def test_limits_are_written_as_the_kernel_reads_them(limits, files):
    assert limits_of({"resources": {"limits": limits}}) == files
    assert limits_of({}) == {}


class Kernel:
    """A directory in the place of the kernel's control groups."""

    def __init__(self, path):
        self.mount, self.own, self.membership = path, path / "user" / "run", path / "membership"
        self.own.mkdir(parents=True)
        self.membership.write_text("4:memory:/old\n0::/user/run\n")
        (self.own / "cgroup.controllers").write_text("cpu io memory pids\n")
        (self.own / "cgroup.procs").write_text(f"{os.getpid()}\n")
        self.refused = ()

    def write(self, file, value):
        if file.name in self.refused:
            raise OSError
        file.write_text(value)

    def delegated(self):
        return Cgroups.delegated(self.mount, self.membership)


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    found = Kernel(tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "_write", found.write)
    return found


def test_a_run_that_has_a_group_to_itself_moves_aside_and_lets_others_have_limits(kernel):
    found = kernel.delegated()
    assert found.home == kernel.own / "genericjob"
    assert (found.home / "cgroup.procs").read_text() == str(os.getpid())
    assert (kernel.own / "cgroup.subtree_control").read_text() == "+cpu +memory"


def test_a_container_has_a_group_with_its_limits_and_is_known_to_have_used_up_its_memory(kernel):
    found = kernel.delegated()
    assert found.make("u.free", {}) is None
    group = kernel.own / "u.main"
    assert found.make("u.main", {"resources": {"limits": {"memory": "64Mi", "cpu": 2}}}) == str(group)
    assert {file.name: file.read_text() for file in group.iterdir()} == {
        "cpu.max": "200000 100000",
        "memory.max": "67108864",
        "memory.oom.group": "1",
    }
    assert not found.remove("u.main")
    (group / "memory.events").write_text("low 0\nmax 7\noom 1\noom_kill 2\n")
    assert found.remove("u.main")


@pytest.mark.parametrize("case", ["shell", "controllers", "version 1", "root", "read only", "refused"])
def test_where_the_kernel_or_its_owner_does_not_allow_it_there_are_none(kernel, case):
    if case == "shell":
        (kernel.own / "cgroup.procs").write_text(f"{os.getpid()}\n1\n")
    elif case == "controllers":
        (kernel.own / "cgroup.controllers").write_text("pids\n")
    elif case == "version 1":
        kernel.membership.write_text("4:memory:/user/run\n")
    elif case == "root":
        kernel.membership.write_text("0::/\n")
    elif case == "read only":
        (kernel.own / "genericjob").touch()
    elif case == "refused":
        kernel.refused = ("cgroup.subtree_control",)
    assert kernel.delegated() is None


class Prepared:
    """Groups whose files are there, as the kernel has them; each of them runs out of memory."""

    def __init__(self, path):
        self.home, self.group, self.removed = path / "home", path / "group", []
        for each in (self.home, self.group):
            each.mkdir()
            (each / "cgroup.procs").touch()

    def make(self, owner, container):
        return str(self.group) if container.get("resources") else None

    def remove(self, owner):
        self.removed.append(owner)
        return True


def test_a_program_starts_in_the_group_of_its_container_and_the_warden_goes_back(tmp_path):
    groups = Prepared(tmp_path)
    machine = Machine(cgroups=groups)
    try:
        uid = machine.create("p", sh(f"cat {tmp_path}/group/cgroup.procs; exit 3", resources={"limits": {"cpu": 1}}))["metadata"]["uid"]
        pod = machine.reaches("Failed")
        assert machine.lines() == ["0"]
        assert (groups.home / "cgroup.procs").read_text() == "0"
        assert (ended(pod)["exitCode"], ended(pod)["reason"]) == (3, "OOMKilled")
        assert groups.removed == [f"{uid}.main"]
    finally:
        assert machine.kubelet.stop()


def test_a_group_that_cannot_be_entered_fails_the_container_in_words(tmp_path):
    groups = Prepared(tmp_path)
    (groups.group / "cgroup.procs").unlink()
    machine = Machine(cgroups=groups)
    try:
        machine.create("p", sh("true", resources={"limits": {"cpu": 1}}))
        found = ended(machine.reaches("Failed"))
        why = "the control group with its limits cannot be entered: No such file or directory"
        assert (found["reason"], found["message"]) == ("StartError", f"'sh' cannot be started: {why}")
    finally:
        assert machine.kubelet.stop()


def test_limits_that_hold_are_not_among_what_is_not_honoured(kernel, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    main = {"name": "main", "image": "none", "command": ["true"], "resources": {"limits": {"cpu": 1}, "requests": {"memory": "1Gi"}}}
    part = {"type": "w", "replicas": 0, "template": {"spec": {"containers": [main]}}}
    body = {
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "GenericJob",
        "metadata": {"name": "j"},
        "spec": {"replicaSpecs": [part]},
    }
    (tmp_path / "j.yaml").write_text(yaml.safe_dump(body))

    def said():
        out = io.StringIO()
        Run(runnable([str(tmp_path / "j.yaml")]), Screen(out)).go()
        return next(line for line in out.getvalue().splitlines() if "not honoured" in line)

    monkeypatch.setattr(Cgroups, "delegated", lambda: None)
    assert said() == "j: not honoured here: image, resources.limits.cpu, resources.requests.memory"
    monkeypatch.setattr(Cgroups, "delegated", lambda: Cgroups(kernel.own, kernel.own / "genericjob"))
    assert said() == "j: not honoured here: image, resources.requests.memory"
