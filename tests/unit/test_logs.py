"""Lines for people, JSON for machines, and never a line that somebody forged."""

import io
import json
import logging
import threading

import pytest

from genericjob.reconcile import logs

log = logging.getLogger("genericjob.test")


@pytest.fixture
def written():
    """Configure, and what was written since."""
    root, mine = logging.getLogger(), logging.getLogger("genericjob")
    before = root.level, mine.level, logging.raiseExceptions, threading.excepthook, list(root.handlers)
    stream = io.StringIO()

    def configure(*args, **options):
        logs.configure(*args, stream=stream, **options)
        return lambda: stream.getvalue().split("\n")[:-1]

    yield configure
    root.setLevel(before[0])
    mine.setLevel(before[1])
    logging.raiseExceptions, threading.excepthook = before[2], before[3]
    logging.captureWarnings(False)
    root.handlers[:] = before[4]


def failing():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        log.exception("it went wrong")


def test_a_line_says_when_how_bad_where_what_and_about_whom(written):
    lines = written("text")
    log.warning("rank %d failed", 3, extra={"job": "team/train", "uid": "u-1", "reason": "Failed"})
    (line,) = lines()
    time, rest = line.split(" ", 1)
    assert rest == "WARNING test: rank 3 failed  job=team/train uid=u-1 reason=Failed"
    assert time.endswith("Z")
    assert len(time) == len("2026-01-01T00:00:00.000Z")


def test_json_has_a_field_for_each(written):
    lines = written("json")
    log.info("rank %d failed", 3, extra={"job": "team/train", "uid": "u-1", "reason": "Failed"})
    log.info("all is well")
    first, second = map(json.loads, lines())
    time = first.pop("time")
    assert first == {
        "level": "info",
        "logger": "genericjob.test",
        "message": "rank 3 failed",
        "job": "team/train",
        "uid": "u-1",
        "reason": "Failed",
    }
    assert time.endswith("Z")
    assert set(second) == {"time", "level", "logger", "message"}


def test_a_traceback_is_part_of_its_record(written):
    lines = written("json")
    failing()
    (line,) = lines()
    assert json.loads(line)["error"].splitlines()[-1] == "ZeroDivisionError: division by zero"
    lines = written("text")
    failing()
    first, *rest = lines()[1:]
    assert first.endswith("it went wrong")
    assert rest[-1] == "    ZeroDivisionError: division by zero"
    assert all(line.startswith("    ") for line in rest)


NASTY = "a\n2026-01-01T00:00:00.000Z ERROR fake: forged\r\x1b[31m\u2028\ud800"


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_users_wrote_cannot_forge_a_line(written, format):
    lines = written(format)
    log.info("message: %s", NASTY, extra={"job": NASTY})
    try:
        int(NASTY)
    except ValueError as error:
        error.args = (NASTY,)
        log.exception("error")
    found = lines()
    assert len([line for line in found if not line.startswith("    ")]) == 2
    assert not any("\x1b" in line for line in found)


def test_text_in_any_language_is_written_as_it_is(written):
    lines = written("text")
    log.info("任務 é 🚀")
    assert lines()[0].endswith("任務 é 🚀")


def test_a_message_whose_arguments_do_not_fit_is_written_all_the_same(written):
    lines = written("json")
    log.info("rank %d of %d", "three")
    assert "rank %d of %d" in json.loads(lines()[0])["message"]


def test_the_level_is_ours_and_others_are_heard_from_warnings_on(written):
    lines = written("text", "debug")
    log.debug("ours")
    logging.getLogger("urllib3").info("theirs")
    logging.getLogger("urllib3").warning("their warning")
    assert [line.rpartition(": ")[2] for line in lines()] == ["ours", "their warning"]
    lines = written("text", "error")
    log.warning("not told")
    assert len(lines()) == 2


def test_configuring_again_replaces_what_was(written):
    written("text")
    lines = written("json")
    log.info("once")
    assert len(lines()) == 1


def test_an_unknown_format_or_level_is_refused_with_the_choices(written):
    with pytest.raises(ValueError, match="there is no log format 'xml': choose text or json"):
        written("xml")
    with pytest.raises(ValueError, match="there is no log level 'loud': choose one of debug, info, warning, error"):
        written("text", "loud")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_without_anybody_s_care_is_in_the_log(written):
    lines = written("json")
    thread = threading.Thread(target=lambda: 1 / 0, name="lonely")
    thread.start()
    thread.join()
    found = json.loads(lines()[0])
    assert (found["level"], found["message"]) == ("error", "thread lonely died")
    assert "ZeroDivisionError" in found["error"]


def test_a_reader_that_went_away_is_no_reason_to_fail(written, capsys):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    written("text")
    logs.configure("text", stream=Closed())
    log.error("nobody hears this")
    assert capsys.readouterr().err == ""
