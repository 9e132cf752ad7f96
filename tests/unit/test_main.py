"""What becomes of failures that no command has words for: one sentence, and exit code 1."""

import pytest

from genericjob.cli import explain

from .calling import genericjob


@pytest.fixture
def broken(monkeypatch):
    def read(sources, *, pods):
        raise RuntimeError("one\ntwo")

    monkeypatch.setattr(explain, "jobs_of", read)


def test_a_failure_of_the_system_names_the_file(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    called = genericjob("get", "--run", "-")
    assert (called.code, called.err) == (1, "genericjob: /dev/null/genericjob: Not a directory\n")


def test_a_bug_is_told_as_one(broken):
    called = genericjob("explain", "job.yaml")
    assert (called.code, called.err) == (1, "genericjob: this is a bug in genericjob: RuntimeError: one two; --debug shows where\n")


def test_where_a_bug_is_can_be_seen(broken):
    called = genericjob("--debug", "explain", "job.yaml")
    assert called.code == 1
    assert "in read\n" in called.err
