"""Tests that are repeated beside busy processes: which ones, how often, and what is kept of them."""

import ast
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.processes import look_up
from flaky.__main__ import _options, _told, main
from flaky.busy import busy
from flaky.packs import LONGEST_S, Case, packed, wanted
from flaky.record import Record, append, fingerprint
from harness.clusters import eventually

ROOT = Path(__file__).parents[2]

# ------------------------------------------------------------------------------------------------ which tests

SIGNS = ("multiprocessing", "pty", "signal", "subprocess", "termios")
"""Modules by which a test has to do with signals, terminals or processes."""
OWN_SIGNS = (
    "genericjob.cli.run",
    "genericjob.local.keepers",
    "genericjob.local.kubelet",
    "genericjob.local.processes",
    "genericjob.local.warden",
    "harness.commands",
    "harness.terminal",
)
NOT_ABOUT_PROCESSES = {
    "sim/test_scheduler.py": "runs a program to its end",
    "unit/test_cli_words.py": "runs a program to its end",
    "unit/test_start_up.py": "runs commands to their ends",
    "unit/test_page_limit.py": "calls functions in a process of their own",
    "unit/test_structs.py": "runs a program to its end",
    "unit/test_weighed.py": "calls functions in a process of their own",
    "e2e/test_access.py": "runs a program to its end",
    "e2e/test_examples.py": "runs programs to their ends",
    "e2e/test_hostile.py": "runs commands to their ends",
    "e2e/test_genericjob_trouble.py": "stops a component of the control plane, none of ours",
    "e2e/test_wheel.py": "runs programs to their ends",
    "e2e/test_sameness.py": "compares the ends of jobs; a run of 37 jobs is its means",
}


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_modules_that_have_to_do_with_processes_have_marked_tests():
    suspicious, marked = set(), set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        text, name = file.read_text(), file.relative_to(ROOT / "tests").as_posix()
        if set(imported(ast.parse(text))) & {*SIGNS, *OWN_SIGNS}:
            suspicious.add(name)
        if "pytest.mark.processes" in text:
            marked.add(name)
    # A module that is new here gets the marker (CONTRIBUTING.md, "Tests that fail now and then"), or a line above with the reason.
    assert suspicious - marked == set(NOT_ABOUT_PROCESSES)
    assert {"unit/test_run.py", "unit/test_warden.py", "e2e/test_commands.py"} <= marked


def test_marked_tests_run_often_and_slow_ones_less_often():
    tests = [Case("a", "", marked=True), Case("b", "", marked=False), Case("c", "", marked=True), Case("d", "", marked=False)]
    seconds = {"a": 1.0, "b": 30.0, "c": 20.0, "d": 2.0}
    assert wanted(tests, seconds, times=50, slowest=2, slow_times=10) == {"a": 50, "b": 10, "c": 50}
    assert wanted(tests, {}, times=50, slowest=2, slow_times=10) == {"a": 50, "c": 50}


def test_packs_have_one_lane_each_and_together_all_that_is_left():
    tests = [Case("a", "", marked=True), Case("b", "cluster", marked=True), Case("c", "cluster", marked=True)]
    left = {"a": 50, "b": 3, "c": 7}
    packs = packed(tests, left, {"a": LONGEST_S / 10, "b": 1.0, "c": 1.0}, most=4)
    assert [(pack.name, pack.plan) for pack in packs] == [
        ("no control plane", {"a": 13}),
        ("no control plane", {"a": 13}),
        ("no control plane", {"a": 12}),
        ("no control plane", {"a": 12}),
        ("cluster", {"b": 3, "c": 7}),
    ]
    assert packed(tests, {}, {}, most=4) == []


# ------------------------------------------------------------------------------------------------ a run

SUITE = """
import os
from pathlib import Path
import pytest

HERE = Path(__file__).parents[1]

@pytest.fixture(scope="session")
def plane():
    with (HERE / "planes").open("a") as file:
        file.write(".")

@pytest.fixture(scope="module")
def place(plane):
    with (HERE / "places").open("a") as file:
        file.write(".")

@pytest.mark.processes
def test_well(place):
    pass

@pytest.mark.processes
def test_now_and_then(place):
    with (HERE / "times").open("a+") as file:
        file.write(".")
        file.seek(0)
        print("it is the", len(file.read()))
        file.seek(0)
        assert len(file.read()) != 2

@pytest.mark.processes
def test_deadly():
    if (HERE / "deadly").exists():
        print("dying", flush=True)
        os._exit(0)

def test_other():
    pass
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A project with a few tests."""
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nmarkers = ["processes: ..."]\n')
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_some.py").write_text(SUITE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take time, and are not needed
    return tmp_path


def flaky(suite, *options):
    state = suite / "state"
    given = ("--root", suite, "--state", state, "--busy", 1, "--testers", 1, "--slowest", 0, "--times", 3)
    return main([*map(str, given), *map(str, options)])


def results(suite):
    *lines, last = (suite / "state" / "results.jsonl").read_text().split("\n")
    assert last == ""
    return [json.loads(line) for line in lines[1:]]


def test_tests_run_so_often_failures_are_kept_and_it_continues_where_it_was(suite, capsys):
    assert flaky(suite) == 1
    out = capsys.readouterr().out
    assert "tests/test_some.py      3     9       1" in out
    assert "FAILED 1 of 3: tests/test_some.py::test_now_and_then" in out
    (failed,) = (line["failed"] for line in results(suite) if line["failed"])
    kept = (suite / "state" / "failures" / failed).read_text()
    assert "it is the 2" in kept
    assert "assert 2 != 2" in kept
    assert ((suite / "planes").read_text(), (suite / "places").read_text()) == (".", "...")  # a session, three rounds
    assert flaky(suite, "--only", "well", "--times", 5) == 0
    assert len(results(suite)) == 11
    assert flaky(suite, "--only", "well", "--anew") == 0
    assert len(results(suite)) == 3


def test_results_of_other_code_are_not_continued(suite, capsys):
    Record(suite / "state", "0123")
    assert flaky(suite) == 2
    assert f"flaky: {suite / 'state'} has the results of other code" in capsys.readouterr().err


def test_the_slowest_are_found_by_running_all_once(suite, capsys):
    assert flaky(suite, "--slowest", 1, "--slow-times", 2, "--only", "other", "--times", 0) == 0
    assert [line["test"] for line in results(suite)] == ["tests/test_some.py::test_other"] * 2


def test_a_test_that_ends_its_process_has_failed_and_the_others_go_on(suite, capsys):
    (suite / "deadly").touch()
    assert flaky(suite, "--times", 1) == 1
    assert len(results(suite)) == 3
    (failed,) = (line["failed"] for line in results(suite) if line["failed"])
    assert "the process ended with 0 while this test ran" in (suite / "state" / "failures" / failed).read_text()


def test_by_default_marked_tests_run_50_times_and_the_20_slowest_10_times_beside_4_busy_processes():
    options = _options([])
    assert (options.times, options.slowest, options.slow_times, options.busy) == (50, 20, 10, 4)


class Working(NamedTuple):
    at: str


@pytest.mark.parametrize(
    ("work", "elapsed", "told"),
    [
        (50.0, 60.0, "1,200 runs left, 2 failed, about 1 min left; now test_x.py::test_y"),
        (40.0, 1200.0, "1,200 runs left, 2 failed, about 13 min left; now test_x.py::test_y"),
        (100.0, 60.0, "1,200 runs left, 2 failed, some time left; now test_x.py::test_y"),
    ],
)
def test_the_progress_line_has_what_is_left(tmp_path, work, elapsed, told):
    record = Record(tmp_path, "code")
    record.tests["one"].failures += ["a", "b"]
    assert _told(record, 1_200, work, 100.0, elapsed, [Working(""), Working("tests/unit/test_x.py::test_y")]) == told


def test_nothing_to_repeat_is_said(suite, capsys):
    assert flaky(suite, "--only", "nosuch") == 2
    assert "no test that is marked or slow has 'nosuch' in its name" in capsys.readouterr().err


def test_the_fingerprint_is_of_the_code(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "a.py").write_text("1")
    before = fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("words")
    assert fingerprint(tmp_path) == before
    (tmp_path / "tests" / "a.py").write_text("2")
    assert fingerprint(tmp_path) != before


def test_a_line_that_is_not_whole_yet_is_read_later(tmp_path):
    record = Record(tmp_path, "code")
    with record.file.open("ab") as file:
        file.write(b'{"test": "a", "seco')
    record.update()
    assert record.runs == 0
    with record.file.open("ab") as file:
        file.write(b'nds": 1.5, "failed": ""}\n')
    append(record.file, {"test": "a", "seconds": 2.5, "failed": "a-1.txt"})
    record.update()
    assert (record.runs, record.failed, record.tests["a"].usual) == (2, 1, 2.0)


# ------------------------------------------------------------------------------------------------ busy processes


def gone(pids):
    return not any(map(look_up, pids))


@pytest.mark.processes
def test_busy_processes_end_with_the_block():
    with suppress(KeyboardInterrupt), busy(2) as pids:
        assert all(map(look_up, pids))
        raise KeyboardInterrupt
    assert gone(pids)


@pytest.mark.processes
def test_busy_processes_end_with_a_program_that_is_killed():
    program = "from flaky.busy import busy\nimport time\nwith busy(2) as pids:\n print(*pids, flush=True)\n time.sleep(600)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "hack")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True) as started:
        pids = [int(pid) for pid in started.stdout.readline().split()]
        started.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    eventually(lambda: gone(pids))


@pytest.mark.processes
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_no_process(suite, number, code):
    (suite / "tests" / "test_some.py").write_text(
        "import os, pathlib, time, pytest\n@pytest.mark.processes\n"
        "def test_long():\n pathlib.Path(__file__).parents[1].joinpath('pid').write_text(str(os.getpid()))\n time.sleep(600)\n"
    )
    argv = [sys.executable, "-m", "flaky", "--root", suite, "--state", suite / "state", "--slowest", "0", "--busy", "2"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'hack'}{os.pathsep}{ROOT / 'tests'}"}
    with subprocess.Popen([*map(str, argv)], env=environment, stderr=subprocess.PIPE, text=True) as run:
        pid = suite / "pid"
        tester = int(eventually(lambda: pid.exists() and pid.read_text()))
        children = [int(child) for child in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
        run.send_signal(number)
        _, errors = run.communicate(timeout=90)
    assert run.returncode == code
    assert "Traceback" not in errors
    assert len(children) >= 3
    assert gone([tester, *children])
