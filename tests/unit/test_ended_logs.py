"""`genericjob logs` of a run that has ended: what its files hold."""

from itertools import count

import pytest

from genericjob.local.arrivals import SECOND
from genericjob.local.logfiles import LogFiles
from genericjob.reconcile.resources import Key
from unit.calling import genericjob


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The log files of a run `hello` that has ended: a line a second, from noon on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    seconds = count(1794830400)
    made = tmp_path / "genericjob" / "logs" / "hello-20261116-120000"
    logs = LogFiles(made, clock=lambda: next(seconds) * SECOND)
    for rank, uid, line in ((0, "a", "lost"), (0, "b", "one"), (1, "c", "two"), (0, "b", "three"), (10, "d", "four")):
        logs.write(Key("default", f"train-worker-{rank}"), uid, "main", f"{line}\n".encode())
    logs.write(Key("default", "other-worker-0"), "e", "main", b"of another job\n")
    logs.close()
    return made


def test_logs_of_a_run_that_has_ended_are_read_from_its_files_in_the_order_of_time(kept):
    done = genericjob("logs", "train", "--run", "hello")
    assert (done.code, done.err) == (0, f"genericjob: the run has ended; its log files are in {kept}\n")
    assert done.out == "worker-0  | one\nworker-1  | two\nworker-0  | three\nworker-10 | four\n"
    assert genericjob("logs", "gj/train", "--run", "-", "-f").out == done.out


@pytest.mark.parametrize(
    ("options", "out"),
    [
        (("--rank", "worker-1"), "two\n"),
        (("--rank", "0-1", "--tail", "1"), "two\nthree\n"),
        (("--previous",), "lost\n"),
        (("--rank", "10", "--timestamps"), "2026-11-16T12:00:04.000000Z four\n"),
        (("--container", "main", "--type", "worker", "--rank", "10"), "four\n"),
    ],
)
def test_options_choose_among_them(kept, options, out):
    done = genericjob("logs", "train", "--run", "hello", "--no-prefix", *options)
    assert (done.code, done.out) == (0, out)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("nobody", "--run", "hello"), "there is no log of a job of that name (nobody) in "),
        (("train", "--run", "hello", "-c", "mian"), "there is no log of a container mian: there are main"),
        (("train", "--run", "hello", "--rank", "7"), "has no rank 7"),
        (("train", "--run", "another"), "no run is going on on this machine"),
    ],
)
def test_what_is_not_there_is_told(kept, words, complaint):
    done = genericjob("logs", *words)
    assert (done.code != 0, done.out) == (True, "")
    assert complaint in done.err


def test_the_last_run_of_a_name_counts(kept):
    again = kept.with_name("hello-20261117-120000-2")
    logs = LogFiles(again)
    logs.write(Key("default", "train-worker-0"), "f", "main", b"again\n")
    logs.close()
    assert genericjob("logs", "train", "--run", "hello").out == "worker-0 | again\n"
