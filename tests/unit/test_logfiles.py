"""Files of what programs print."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from genericjob.local.arrivals import Arrivals, beside, stamp
from genericjob.local.logfiles import LogFiles, attempt_before
from genericjob.reconcile.resources import Key

from .test_kubelet import Machine, sh

POD = Key("default", "train-worker-0")


@pytest.fixture
def logs(tmp_path):
    found = LogFiles(tmp_path / "logs", most_open=3)
    yield found
    found.close()


def test_a_line_is_in_its_file_at_once(logs):
    path = logs.path_of(POD, "u-1", "main")
    assert path == logs.directory / "train-worker-0" / "1" / "main.log"
    assert not path.exists()
    logs.write(POD, "u-1", "main", b"hello\n")
    assert path.read_text() == "hello\n"
    logs.write(POD, "u-1", "main", b"wor")
    assert path.read_text() == "hello\nwor"


def test_a_file_holds_the_very_bytes_that_a_program_has_printed(logs):
    machine = Machine(logs=logs)
    exact = b"caf\xe9 \xff\0\r\n" + b"x" * 300_000 + b"\n\r 50%\r100%\r\n\n no newline"
    try:
        (logs.directory.parent / "exact").write_bytes(exact)
        machine.create("p", sh(f"cat {logs.directory.parent}/exact"))
        uid = machine.reaches("Succeeded")["metadata"]["uid"]
        assert logs.path_of(Key("default", "p"), uid, "main").read_bytes() == exact
    finally:
        assert machine.kubelet.stop()


def test_every_attempt_has_files_of_its_own(logs):
    assert [logs.begin(POD, uid) for uid in ("u-1", "u-2", "u-1")] == [1, 2, 1]
    logs.write(POD, "u-2", "main", b"again\n")
    assert logs.path_of(POD, "u-2", "main") == logs.directory / "train-worker-0" / "2" / "main.log"
    assert os.listdir(logs.directory / "train-worker-0") == ["2"]


def test_the_attempt_before_the_first_is_none(logs):
    first, second = (logs.path_of(POD, uid, "main") for uid in ("u-1", "u-2"))
    assert (attempt_before(second), attempt_before(first)) == (first, None)


def test_pods_of_other_namespaces_are_told_apart(logs):
    assert logs.path_of(Key("team", POD.name), "u-3", "main").parts[-3] == "team_train-worker-0"


def test_more_files_than_may_be_open_are_written_in_turn(logs):
    pods = [Key("default", f"w-{n}") for n in range(50)]
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(4) as threads:
        for turn in range(3):
            list(threads.map(lambda pod, turn=turn: logs.write(pod, pod.name, "main", f"line {turn}\n".encode()), pods))
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    assert {logs.path_of(pod, pod.name, "main").read_text() for pod in pods} == {"line 0\nline 1\nline 2\n"}


def test_lines_that_cannot_be_written_are_shown_all_the_same_and_that_is_said_once(tmp_path):
    (tmp_path / "file").touch()
    machine = Machine(logs=LogFiles(tmp_path / "file"))
    try:
        machine.create("p", sh("echo one; echo two"))
        machine.reaches("Succeeded")
        assert machine.lines() == ["one", "two"]
        assert machine.noticed == [("p", f"what programs print cannot be written to {tmp_path}/file: Not a directory")]
    finally:
        assert machine.kubelet.stop()


def test_the_kubelet_writes_what_programs_print(logs):
    machine = Machine(logs=logs)
    try:
        machine.create("p", sh("true"))
        machine.reaches("Succeeded")
        machine.deleted()
        machine.create("p", sh("echo one; echo two", "main"), init=[sh("echo zero", "first")])
        uid = machine.reaches("Succeeded")["metadata"]["uid"]
        second = logs.directory / "p" / "2"  # the first one had nothing to say
        assert logs.path_of(Key("default", "p"), uid, "main") == second / "main.log"
        assert ((second / "main.log").read_text(), (second / "first.log").read_text()) == ("one\ntwo\n", "zero\n")
        assert len(machine.printed) == 3
    finally:
        assert machine.kubelet.stop()


# ------------------------------------------------------------------------------------------------ when lines came


@pytest.fixture
def timed(tmp_path):
    """Log files whose clock stands where `timed.now` says, in milliseconds."""

    class Timed(LogFiles):
        now = 1000.0

    found = Timed(tmp_path / "timed", clock=lambda: int(found.now * 1_000_000))
    yield found
    found.close()


def times_of(path):
    arrivals, begin, found = Arrivals(path), 0, []
    for line in path.read_bytes().splitlines(keepends=True):
        found.append(arrivals.of(begin) / 1_000_000)
        begin += len(line)
    arrivals.close()
    return found


def test_every_line_has_the_time_at_which_it_came(timed):
    for timed.now, line in ((1000, "one"), (1500, "two"), (1500.1, "with two"), (1502, "three")):
        timed.write(POD, "u-1", "main", line.encode() + b"\n")
    path = timed.path_of(POD, "u-1", "main")
    assert times_of(path) == [1000, 1500, 1500, 1502]
    assert path.read_text() == "one\ntwo\nwith two\nthree\n"


def test_lines_of_several_logs_keep_their_order_however_close_they_are(timed):
    other = Key("default", "train-worker-1")
    for timed.now, pod in ((1000.1, POD), (1000.2, other), (1000.3, POD)):
        timed.write(pod, pod.name, "main", b"it\n")
    assert times_of(timed.path_of(POD, POD.name, "main")) == [1000.1, 1000.3]
    assert times_of(timed.path_of(other, other.name, "main")) == [1000.2]


def test_times_come_with_the_lines_of_a_log_that_grows(timed):
    path = timed.path_of(POD, "u-1", "main")
    timed.write(POD, "u-1", "main", b"one\n")
    arrivals = Arrivals(path)
    assert arrivals.of(0) == 1000_000_000
    timed.now = 2000
    timed.write(POD, "u-1", "main", b"two\n")
    assert arrivals.of(4) == 2000_000_000
    arrivals.close()


def test_the_time_of_a_line_is_that_of_its_first_byte(timed):
    for timed.now, data in ((1000, b"one\nhalf"), (1500, b" and half\nthree\n")):
        timed.write(POD, "u-1", "main", data)
    assert times_of(timed.path_of(POD, "u-1", "main")) == [1000, 1000, 1500]


def test_a_time_that_a_full_disk_has_cut_is_passed_over(timed):
    timed.write(POD, "u-1", "main", b"one\n")
    path = timed.path_of(POD, "u-1", "main")
    with beside(path).open("ab") as file:
        file.write(b"4 14 2000000000\n8 3000000000\n9 40")
    arrivals = Arrivals(path)
    assert [arrivals.of(begin) for begin in (0, 4, 8, 9)] == [1_000_000_000, 1_000_000_000, 3_000_000_000, 3_000_000_000]
    arrivals.close()


def test_a_stamp_has_nine_digits_and_a_space():
    assert stamp(1794830400_000000120) == b"2026-11-16T12:00:00.000000120Z "
