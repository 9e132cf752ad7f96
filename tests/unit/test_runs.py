"""Runs of this machine: named, found, and forgotten when they are over."""

import multiprocessing
import os
import stat
from datetime import UTC, datetime

import pytest
import yaml

from genericjob.local import runs
from genericjob.local.runs import RunError, find, reach, register

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "genericjob"


@pytest.fixture
def begin():
    begun = []

    def make(name="hello", *, announced=True, **options):
        begun.append(register(name, **options))
        if announced:
            begun[-1].announce("127.0.0.1", 4321, token="secret", namespace="team")
        return begun[-1]

    yield make
    for each in begun:
        each.close()


def test_a_run_is_found_by_its_name_or_as_the_only_one(begin, here):
    run = begin()
    assert find("hello") == find() == find("-") == run.path == here / "hello.yaml"
    assert runs.runs() == ["hello"]
    run.close()
    assert runs.runs() == []
    assert list(here.iterdir()) == []


def test_its_kubeconfig_is_nobody_elses_business(begin, here):
    path = begin().path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(here.stat().st_mode) == 0o700
    content = yaml.safe_load(path.read_text())
    assert content["current-context"] == "hello"
    assert content["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:4321/secret"


def test_our_own_client_needs_no_kubeconfig(begin):
    begin()
    reached = reach()
    access = reached.credentials.current
    assert (reached.name, reached.namespace) == ("hello", "team")
    assert (access.url, access.authorization, access.source) == ("http://127.0.0.1:4321", "Bearer secret", "run hello")


def test_a_name_that_is_taken_gets_a_number_unless_it_was_asked_for(begin):
    assert [begin().name for _ in range(3)] == ["hello", "hello-2", "hello-3"]
    with pytest.raises(RunError, match="a run with the name hello is going on already"):
        begin(exactly=True)


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a b", "x" * 101, "-"])
def test_names_stay_in_their_directory(begin, name):
    with pytest.raises(RunError, match="is no name of a run"):
        begin(name)


def test_who_asks_for_another_hears_which_there_are(begin):
    with pytest.raises(RunError, match="no run is going on on this machine: `genericjob run FILE` begins one"):
        find("hello")
    begin("one")
    with pytest.raises(RunError, match="no run hello is going on; there is: one"):
        find("hello")
    begin("two")
    with pytest.raises(RunError, match=r"which run\? there are: one, two"):
        find()


def test_a_run_that_only_begins_is_not_found_yet(begin):
    begin(announced=False)
    assert runs.runs() == []


def test_what_a_killed_run_left_behind_is_removed_and_its_name_is_free(begin, here):
    child = multiprocessing.get_context("fork").Process(target=_die)
    child.start()
    child.join()
    assert (here / "hello.yaml").exists()
    assert begin().name == "hello"
    (here / "old.yaml").write_text("left behind")
    assert runs.runs() == ["hello"]
    assert not (here / "old.yaml").exists()


def _die():
    register("hello").announce("127.0.0.1", 1, token="x", namespace="default")
    os._exit(0)


def test_a_directory_that_others_can_write_to_is_not_used(here):
    here.mkdir(mode=0o777)
    here.chmod(0o777)
    with pytest.raises(RunError, match="can be written by others"):
        runs.runs()


def test_logs_have_a_new_directory_each_and_old_ones_go(begin, here, monkeypatch):
    begin("alive")
    now = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    made = [runs.log_directory(name, now) for name in ("alive", "a", "a", "b", "c")]
    assert [path.name for path in made[:3]] == ["alive-20240102-030405", "a-20240102-030405", "a-20240102-030405-2"]
    for age, path in enumerate(reversed(made)):
        os.utime(path, (10_000 - age, 10_000 - age))
    monkeypatch.setattr(runs, "LOGS_KEPT", 2)
    last = runs.log_directory("d", now)
    assert sorted(path.name.partition("-")[0] for path in last.parent.iterdir()) == ["alive", "b", "c", "d"]
