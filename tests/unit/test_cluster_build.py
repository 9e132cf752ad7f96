"""The parts of hack/cluster that need no control plane: what is built, by which Go, and how processes are told apart.

Whole builds run here with a `go` of our own on PATH, a script that behaves like Go as far as the build looks.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import ClusterError, build, components, plane, processes, toolchain
from cluster.layout import Layout
from cluster.lock import locked
from cluster.progress import Progress
from cluster.state import Component, State

pytestmark = pytest.mark.processes

PROGRAM = Path(build.__file__).parent

FAKE_GO = """\
import os, pathlib, subprocess, sys, time
mode, command = os.environ.get("FAKE_GO", ""), sys.argv[1]
if command == "version":
    print("go version go1.99.1 linux/amd64")
elif command == "list":
    assert os.environ["GOFLAGS"] == "-mod=readonly -modcacherw -buildvcs=false", "GOFLAGS came from outside"
    assert "GOARCH" not in os.environ, "GOARCH came from outside"
    assert os.environ["GOPROXY"] == "https://proxy.invalid", "GOPROXY got lost"
    print("one\\ntwo")
elif mode == "fail":
    sys.exit("two: does not compile")
else:
    print("one", file=sys.stderr, flush=True)
    out = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
    (out / "kubectl").write_text("half of it")
    if mode == "hang":
        subprocess.run(["sleep", "600"])  # a compiler
    for name in ("server", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "certs"):
        (out / name).write_text(name)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a Go of our own on PATH, and an environment with settings good and bad."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(f"#!{sys.executable}\n{FAKE_GO}")
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GENERICJOB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOFLAGS", "-race")
    monkeypatch.setenv("GOARCH", "mips")
    monkeypatch.setenv("GOPROXY", "https://proxy.invalid")
    monkeypatch.setattr(build, "DISK_NEEDED", 0)
    return tmp_path / "cache"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.24.3 linux/amd64", (1, 24, 3)),
        ("go version go1.25 linux/arm64", (1, 25, 0)),
        ("go version go1.24rc2 linux/amd64", (1, 24, -1)),
        ("go version devel go1.27-0a1b2c linux/amd64", (1, 27, 0)),
        ("go version go1.26.0 X:nocoverageredesign linux/amd64", (1, 26, 0)),
        ("go 1.24.0", (1, 24, 0)),
        ("go 1.24", (1, 24, 0)),
        ("command not found", None),
    ],
)
def test_version_of_go_is_read_from_what_it_says(text: str, version: toolchain.Version | None) -> None:
    assert toolchain.parse_version(text) == version


def test_release_candidate_is_older_than_its_release() -> None:
    early, late = (toolchain.parse_version(text) or (0, 0, 0) for text in ("go1.24rc1", "go1.24.0"))
    assert (1, 23, 99) < early < late


def test_go_mod_says_which_versions_are_wanted() -> None:
    assert build.wanted_go() >= (1, 24, 0)
    assert build.kubernetes_version().startswith("v1.")
    assert f"gitVersion={build.kubernetes_version()} " in " ".join(build._build_flags())


def test_own_go_is_used_when_it_is_new_enough(cache: Path) -> None:
    assert toolchain.find_go((1, 99, 1), cache=cache, say=pytest.fail) == cache.parent / "bin" / "go"


def test_missing_venv_module_is_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said: list[str] = []
    with pytest.raises(ClusterError, match=r"^Python's venv module is missing [^\n]+$"):
        toolchain.find_go((2, 0, 0), cache=cache, say=said.append)
    assert "is 1.99.1 and 2.0.0 is needed" in said[0]


def test_key_changes_with_each_thing_that_is_built_from(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    files = {"go.mod": "go 1.24\nrequire (\n\tk8s.io/kubernetes v1.34.4\n)\n", "go.sum": "sums\n", "certs/main.go": "package main\n"}

    def key(**changed: str) -> str:
        for name, text in (files | changed).items():
            (tmp_path / name).write_text(text)
        return build.key(tmp_path)

    keys = [key(), *(key(**{name: text + "\n// more\n"}) for name, text in files.items())]
    assert len(set(keys)) == 4
    assert key() == keys[0]


def test_key_changes_with_flags_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {build.key()}
    monkeypatch.setitem(build.SETTINGS, "CGO_ENABLED", "1")
    keys.add(build.key())
    monkeypatch.setattr(build, "_build_flags", lambda source: ["-race"])
    keys.add(build.key())
    monkeypatch.setattr(build.platform, "machine", lambda: "pdp11")
    keys.add(build.key())
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GENERICJOB_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/genericjob"),
        ({"HOME": "/c"}, "/c/.cache/genericjob"),
    ],
)
def test_cache_is_where_the_user_wants_it(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GENERICJOB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert build.cache_directory() == Path(expected)


def test_build_publishes_all_programs_and_removes_what_it_needed(cache: Path) -> None:
    finished = build.ensure()
    assert finished == build.published() == cache / "programs" / build.key()
    assert {path.name for path in finished.iterdir()} == set(build.PROGRAMS)
    assert {path.name for path in cache.iterdir()} == {"programs"}
    before = finished.stat()
    assert build.ensure().stat() == before


def test_failed_build_publishes_nothing_keeps_its_caches_and_shows_what_go_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO", "fail")
    with pytest.raises(ClusterError, match=r"`go build` failed with exit code 1(.|\n)*two: does not compile"):
        build.ensure()
    assert build.published() is None
    assert not (cache / "programs").exists()
    assert (cache / "unfinished").exists()


def test_interrupted_build_ends_go_and_its_compilers_and_the_next_one_works(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO", "hang")
    run = "import sys; from cluster import build, __main__; build.DISK_NEEDED = 0; sys.exit(__main__.main(['build']))"
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM.parent))
    with subprocess.Popen([sys.executable, "-c", run], stderr=subprocess.PIPE, text=True) as command:
        until(lambda: "sleep" in programs_of(cache))
        command.send_signal(signal.SIGINT)
        _, errors = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Traceback" not in errors
    assert programs_of(cache) == []
    assert build.published() is None

    monkeypatch.setenv("FAKE_GO", "")
    assert (build.ensure() / "kubectl").read_text() == "kubectl"


def test_second_build_says_that_it_waits(cache: Path) -> None:
    with locked(cache):
        command = subprocess.Popen([sys.executable, str(PROGRAM), "build"], stderr=subprocess.PIPE, text=True)
        assert command.stderr is not None
        assert "waiting" in command.stderr.readline()
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    assert command.returncode == 130


def test_too_little_disk_is_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "DISK_NEEDED", 10**18)
    with pytest.raises(ClusterError, match=r"^the build needs \d+ GB of free disk in [^\n]+$"):
        build.ensure()


def test_too_little_memory_is_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "available_memory", lambda: 10**9)
    with pytest.raises(ClusterError, match=r"^the build needs 2 GB of available memory and 1\.0 GB are[^\n]+$"):
        build.ensure()


def test_progress_in_a_log_comes_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    progress = Progress()
    for now in range(25):
        monkeypatch.setattr(time, "monotonic", lambda begin=progress._begin, now=now: begin + now)
        progress.show(f"packages: {now} of 100")
    assert capsys.readouterr().err == "[0:10] packages: 10 of 100\n[0:20] packages: 20 of 100\n"


def test_process_with_a_recycled_pid_is_another_and_is_not_ended() -> None:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        now = processes.look_up(sleeper.pid)
        assert now is not None
        earlier = processes.Process(now.pid, now.started - 1)
        assert now.alive
        assert not earlier.alive
        processes.end([earlier], grace=1)
        assert sleeper.poll() is None
        sleeper.kill()
    assert not now.alive


def test_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["sleep", "600"])
    process = processes.look_up(child.pid)
    assert process is not None
    child.kill()
    until(lambda: not process.alive)  # nobody has waited for it yet
    assert child.wait() == -signal.SIGKILL


def test_process_whose_first_thread_ended_is_alive_as_long_as_another_holds_its_ports() -> None:
    # A killed program passes through this state; here it stays in it. Only the C library can end one thread and not the process.
    script = (
        "import ctypes, platform, threading, time\n"
        "threading.Thread(target=time.sleep, args=[600]).start()\n"
        "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as child:
        until(lambda: ") Z" in Path(f"/proc/{child.pid}/stat").read_text())
        process = processes.look_up(child.pid)
        assert process is not None
        assert process.alive
        processes.end([process], grace=0)
        until(lambda: not process.alive)


def test_settings_of_the_callers_shell_do_not_reach_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCD_NAME", "mine")
    monkeypatch.setenv("KUBECONFIG", "mine")
    script = "import os; print([name for name in os.environ if name.startswith(('ETCD_', 'KUBE'))], flush=True)"
    process = processes.start([sys.executable, "-c", script], log=tmp_path / "log", mark=tmp_path)
    until(lambda: not process.alive)
    assert (tmp_path / "log").read_text() == "[]\n"


def test_process_is_found_by_its_mark_and_ended_although_it_ignores_sigterm(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    log = tmp_path / "log"
    process = processes.start([sys.executable, "-c", stubborn], log=log, mark=tmp_path)
    until(lambda: "deaf" in log.read_text())
    assert processes.marked(tmp_path) == [process]
    processes.end([process], grace=0.1)
    assert processes.marked(tmp_path) == []
    assert processes.exit_code(process) == -signal.SIGKILL


def test_listeners_of_a_process_are_its_own() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        found = {(str(address), port) for address, port in processes.listeners(processes.this_process())}
        assert {("127.0.0.1", server.getsockname()[1]), ("::1", other.getsockname()[1])} <= found
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        process = processes.look_up(sleeper.pid)
        assert process is not None
        assert processes.listeners(process) == set()
        sleeper.kill()


def test_state_comes_back_as_it_was(tmp_path: Path) -> None:
    component = Component(argv=["etcd"], port=1, process=processes.Process(2, 3))
    state = State(programs="/p", audit=True, starter=processes.this_process(), ports={"etcd": 1}, components={"etcd": component})
    state.save(tmp_path / "state.json")
    assert State.load(tmp_path / "state.json") == state
    assert State.load(tmp_path / "none.json") is None
    (tmp_path / "state.json").write_text('{"components": {}}')
    with pytest.raises(ClusterError, match="cannot be understood"):
        State.load(tmp_path / "state.json")


def test_cluster_is_abandoned_when_its_owner_is_gone_or_its_start_was_cut_short() -> None:
    here, gone = processes.this_process(), processes.Process(os.getpid(), 1)
    assert not State(programs="", audit=False, starter=here).abandoned
    assert State(programs="", audit=False, starter=gone).abandoned
    assert not State(programs="", audit=False, starter=gone, phase="up").abandoned
    assert not State(programs="", audit=False, starter=gone, phase="up", owner=here).abandoned
    assert State(programs="", audit=False, starter=here, phase="up", owner=gone).abandoned


def test_ports_are_free_distinct_and_promised_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        start = busy.getsockname()[1] - 1
        candidates = range(start, start + 40)
        monkeypatch.setattr(components, "PORTS", candidates)
        ports = components.choose_ports(taken=[start])
    assert set(ports) == set(components.LISTENERS)
    assert len(set(ports.values())) == len(ports)
    assert not {start, start + 1} & set(ports.values())
    assert set(ports.values()) <= set(candidates)


def test_every_program_binds_to_loopback_and_keeps_its_files_in_its_directory(tmp_path: Path) -> None:
    ports = dict.fromkeys(components.LISTENERS, 1)
    lines = components.command_lines(Layout(tmp_path), programs=Path("/programs"), ports=ports, audit=True)
    assert list(lines) == list(components.COMPONENTS)
    assert all("--bind-address=127.0.0.1" in argv for name, argv in lines.items() if name != "etcd")
    paths = [value for argv in lines.values() for flag in argv[1:] if (value := flag.partition("=")[2]).startswith("/")]
    assert all(Path(path).is_relative_to(tmp_path) for path in paths)


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "-a", "a" * 64])
def test_name_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="no name for a cluster"):
        plane.Plane(name)


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.02)


def programs_of(cache: Path) -> list[str]:
    """The names of all programs that were started by a build in this cache."""
    names = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"GOCACHE={cache}/".encode() in (entry / "environ").read_bytes():
                names.append((entry / "comm").read_text().strip())
        except OSError:
            continue
    return names
