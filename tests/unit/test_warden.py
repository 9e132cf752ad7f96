"""No program outlives its container or the run, whatever it does and whoever is killed."""

import logging
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

from genericjob.local import warden
from genericjob.local.keepers import OwnChildren, UnderWarden, keeper
from genericjob.local.processes import Processes
from genericjob.local.sources import CannotStartError
from genericjob.reconcile.primitives import System
from harness.clusters import eventually

from .test_processes import Program, lives, sh

pytestmark = pytest.mark.processes

pytestmark = pytest.mark.skipif(not os.path.exists(warden.CHILDREN), reason="wardens need Linux")

DAEMON = """
import os, signal, sys
if os.fork():
    sys.exit(os.wait()[1])
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.getpid()}\\n")
signal.pause()
"""
"""A daemon as books have it: forked twice, in a session of its own, deaf to SIGTERM. It says its number through a pipe."""


@pytest.fixture
def processes():
    found = Processes(primitives=System())
    yield found
    assert found.close()


@pytest.fixture
def daemon(tmp_path):
    """The command line of a daemon, and its number once it is there."""
    pipe, file = tmp_path / "pipe", tmp_path / "daemon.py"
    os.mkfifo(pipe)
    file.write_text(DAEMON)
    return f"{sys.executable} {file} {pipe}", lambda: int(pipe.read_text())


@pytest.fixture
def mark(monkeypatch):
    """A variable that everything in a test has in its environment, and a way to see who lives with it."""
    value = str(uuid4())
    monkeypatch.setenv("WHOSE", value)
    return lambda: [pid for pid in marked(value) if pid != os.getpid()]


def marked(value):
    found = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in found if warden.environment(pid).get(b"WHOSE") == value.encode() and lives(pid)]


def write_job(file, *scripts):
    """A manifest with a rank for each script."""
    containers = [{"name": "main", "image": "none", "command": ["sh", "-c", script]} for script in scripts]
    specs = [{"type": f"t{n}", "replicas": 1, "template": {"spec": {"containers": [each]}}} for n, each in enumerate(containers)]
    api = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "metadata": {"name": "j"}}
    file.write_text(yaml.safe_dump(api | {"spec": {"replicaSpecs": specs}}))
    return file


def wardens(processes):
    """The warden and the process behind it."""
    behind = processes._keeper.pid
    (child,) = eventually(lambda: Path(f"/proc/{behind}/task/{behind}/children").read_text().split())
    return int(child), behind


# ------------------------------------------------------------------------------------------------ a container ends


def test_a_daemon_ends_with_its_program(processes, daemon):
    command, number = daemon
    program = sh(processes, f"{command}; read line; exit 3")
    pid = number()
    assert program.rest() == [3]
    assert not lives(pid)


def test_a_daemon_goes_on_while_its_program_runs_and_others_end(processes, daemon):
    command, number = daemon
    program = sh(processes, f"{command}; sleep 600")
    pid = number()
    assert sh(processes, "exit 4").rest() == [4]
    assert lives(pid)
    program.process.signal(signal.SIGTERM)
    assert program.rest() == [143]
    assert not lives(pid)


def test_a_daemon_of_a_daemon_ends_too(processes, tmp_path):
    inner = "setsid sh -c 'echo $$ > inner.new; mv inner.new inner; exec sleep 600'"
    outer = f'setsid sh -c "{inner} & echo \\$\\$ > outer.new; mv outer.new outer; exec sleep 600"'
    program = sh(processes, f"{outer} & until [ -e inner ] && [ -e outer ]; do sleep 0.01; done", directory=str(tmp_path))
    assert program.rest() == [0]
    assert not any(lives(int((tmp_path / name).read_text())) for name in ("inner", "outer"))


def test_a_group_within_the_session_that_hides_its_environment_ends_too(processes, tmp_path):
    script = "set -m; env -i sh -c 'echo $$ > new; mv new pid; exec sleep 600' & until [ -e pid ]; do sleep 0.01; done"
    assert Program(processes, "bash", "-c", script, directory=str(tmp_path)).rest() == [0]
    assert not lives(int((tmp_path / "pid").read_text()))


def test_a_daemon_that_becomes_another_program_all_the_time_ends_too(processes, tmp_path):
    (tmp_path / "daemon").write_text("#!/bin/sh\n[ -s pid ] || echo $$ > pid\nexec ./daemon\n")
    (tmp_path / "daemon").chmod(0o755)
    for _ in range(10):
        (tmp_path / "pid").unlink(missing_ok=True)
        program = sh(processes, "setsid ./daemon & until [ -s pid ]; do sleep 0.01; done", directory=str(tmp_path))
        assert program.rest() == [0]
        assert not lives(int((tmp_path / "pid").read_text()))


def test_a_daemon_that_hides_its_environment_ends_with_the_run(tmp_path):
    processes = Processes(primitives=System())
    hidden = "env -i setsid sh -c 'echo $$ > new; mv new pid; exec sleep 600'"
    program = sh(processes, f"{hidden} & until [ -e pid ]; do sleep 0.01; done", directory=str(tmp_path))
    assert program.rest() == [0]
    pid = int((tmp_path / "pid").read_text())
    assert lives(pid)  # nobody can know whose it is
    assert processes.close()
    assert not lives(pid)


def test_a_program_in_a_run_in_a_run_bears_the_marks_of_both(processes):
    mark, _ = sh(processes, f"echo ${warden.MARK}", env={warden.MARK: "outer.7"}).rest()
    assert mark.startswith("outer.7 ")
    assert mark.endswith(".0")


def test_a_run_in_a_run_ends_with_the_outer_one(processes, tmp_path):
    script = f"echo $$$$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; trap '' TERM; while :; do sleep 600; done"
    manifest = write_job(tmp_path / "inner.yaml", script)
    run = f"{sys.executable} -m genericjob.cli run {manifest}"
    program = sh(processes, f"{run} & until [ -e {tmp_path}/pid ]; do sleep 0.01; done; exit 5", env={"TMPDIR": str(tmp_path)})
    assert program.rest()[-1] == 5
    assert not lives(int((tmp_path / "pid").read_text()))


# ------------------------------------------------------------------------------------------------ the runner ends


def test_nothing_is_left_of_a_run_that_was_killed(tmp_path, daemon, mark, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command, number = daemon
    stubborn = f"trap '' TERM INT HUP; {command}; while :; do sleep 600; done"
    other = "trap '' TERM INT HUP; setsid sleep 600 & while :; do sleep 600; done"
    manifest = write_job(tmp_path / "job.yaml", stubborn, other, other)
    with subprocess.Popen([sys.executable, "-m", "genericjob.cli", "run", str(manifest)], stdout=subprocess.PIPE) as run:
        number()
        eventually(lambda: len(mark()) >= 10)  # the run, two wardens, a shell and its child for each rank, and the daemons
        run.kill()
        run.stdout.read()
    eventually(lambda: not mark())


def test_nothing_is_left_when_processes_are_closed(daemon, mark):
    command, number = daemon
    processes = Processes(primitives=System())
    sh(processes, f"trap '' TERM; {command}; while :; do sleep 600; done")
    number()
    assert processes.close()
    assert mark() == []


def test_what_ends_while_the_run_ends_is_told(processes):
    programs = [sh(processes, "trap '' TERM; echo up; while :; do sleep 600; done") for _ in range(20)]
    assert [program.line() for program in programs] == ["up"] * 20
    assert processes.close()
    assert [program.rest() for program in programs] == [[137]] * 20


# ------------------------------------------------------------------------------------------------ the warden ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_warden_does_what_the_run_says_and_not_what_a_terminal_does(processes, number):
    for pid in wardens(processes):
        os.kill(pid, number)
        assert os.getsid(pid) != os.getsid(0)
    assert sh(processes, "echo hello").rest() == ["hello", 0]


def test_when_the_warden_is_killed_its_programs_are_too_and_the_run_says_so(daemon, mark, caplog):
    command, number = daemon
    processes = Processes(primitives=System())
    programs = [sh(processes, f"trap '' TERM; {command}; while :; do sleep 600; done"), sh(processes, "sleep 600")]
    number()
    with caplog.at_level(logging.ERROR):
        os.kill(wardens(processes)[0], signal.SIGKILL)
        assert [program.rest() for program in programs] == [[137], [137]]
    assert "the warden of this run was killed: its programs, 2 at this moment, were killed with it" in caplog.text
    eventually(lambda: not mark())
    programs[0].process.signal(signal.SIGTERM)
    with pytest.raises(CannotStartError, match="the warden of this run is gone"):
        sh(processes, "echo")
    assert processes.close()


def test_the_process_behind_the_warden_is_not_needed_to_end_everything(daemon, mark):
    command, number = daemon
    processes = Processes(primitives=System())
    program = sh(processes, f"trap '' TERM; {command}; while :; do sleep 600; done")
    number()
    os.kill(wardens(processes)[1], signal.SIGKILL)
    assert processes.close()
    assert program.rest() == [137]
    eventually(lambda: not mark())


# ------------------------------------------------------------------------------------------------ small things


def test_a_warden_is_taken_where_there_can_be_one(monkeypatch):
    found = keeper()
    assert isinstance(found, UnderWarden)
    found.end_all()
    found.close()
    monkeypatch.setattr(warden, "CHILDREN", "/no/such/file")
    assert isinstance(keeper(), OwnChildren)


def test_a_runner_that_does_not_listen_does_not_hold_up_its_warden():
    found = UnderWarden()
    with open(os.devnull, "wb") as null:
        launch = Program.launch("true")
        for number in range(600):  # more ends than the socket holds
            found.start(number, launch, null.fileno())
        ends = {}
        while len(ends) < 600:
            assert select.select([found.news], [], [], 60)[0]
            ends.update(found.ends())
    assert set(ends.values()) == {0}
    found.end_all()
    found.close()


def test_programs_find_the_limit_of_open_files_as_the_runner_found_it():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, before[1]))
    try:
        processes = Processes(primitives=System())
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 500
        assert sh(processes, "ulimit -Sn").rest() == ["500", 0]
        assert processes.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
