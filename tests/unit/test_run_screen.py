"""The table below the lines of a run: what is in it, that it stays where it belongs, and how seldom it is drawn."""

import io
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.style import Style

from genericjob.cli.live import Live, ranks_table
from genericjob.cli.printed import LONGEST_LINE
from genericjob.cli.records import Records
from genericjob.cli.screen import AGES, EVERY, Screen
from genericjob.cli.views import JobView, RankView, RunView
from genericjob.reconcile.resources import Key
from harness.terminal import Terminal

pytestmark = pytest.mark.processes

POD = Key("default", "p")


def ranks(count, type="w", **fields):
    return {
        f"j-{type}-{n}": RankView(f"{type}-{n}", type=type, number=n, since=0.0, **{"phase": "Running", **fields}) for n in range(count)
    }


def a_run(*groups):
    merged = {name: rank for group in groups for name, rank in group.items()}
    return RunView("j", [JobView("j", merged, phase="Running", since=0.0)])


def shown(run, *, columns=80, rows=24, now=75.0):
    return ["".join(text for text, _ in line).rstrip() for line in ranks_table(run, columns=columns, rows=rows, now=now)]


# ------------------------------------------------------------------------------------------------ what is in it


def test_a_few_ranks_are_listed_with_all_there_is_to_know():
    run = a_run(ranks(1), ranks(1, "v", phase="Failed", exit_code=3, restarts=2, message="main: no such file", until=12.0))
    assert shown(run) == [
        "─" * 79,
        "j   Running   0 of 2 succeeded   75s",
        "RANK   PHASE     RESTARTS   EXIT CODE   AGE   WHY",
        "w-0    Running   0                      75s",
        "v-0    Failed    2          3           12s   main: no such file",
    ]


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (80, ["RANK", "PHASE", "RESTARTS", "EXIT CODE", "AGE"]),
        (40, ["RANK", "PHASE", "RESTARTS", "EXIT CODE"]),
        (30, ["RANK", "PHASE", "EXIT CODE"]),
        (20, ["RANK", "PHASE"]),
        (5, ["RANK", "PHASE"]),
    ],
)
def test_columns_without_room_are_left_out(columns, titles):
    assert re.split("  +", shown(a_run(ranks(1)), columns=columns)[2]) == titles


@pytest.mark.parametrize("rows", [2, 6, 10, 24, 50])
def test_a_table_takes_half_of_the_screen_at_most(rows):
    for run in (a_run(ranks(200)), a_run(*(ranks(3, f"t{n}", phase="Failed") for n in range(40))), a_run(ranks(5))):
        assert len(shown(run, rows=rows)) <= max(3, rows // 2)


def test_of_many_ranks_their_number_is_told_and_those_worth_a_look_are_listed():
    many = ranks(200)
    many["j-w-7"].phase, many["j-w-7"].exit_code = "Failed", 1
    many["j-w-8"].restarts = 1
    many["j-w-9"].message = "main: Secret 'x' not found"
    many["j-w-10"].phase = "Succeeded"
    table = shown(a_run(many))
    assert table[2] == "200 x w: 198 running, 1 failed, 1 succeeded"
    assert [line.split()[0] for line in table[4:]] == ["w-7", "w-9", "w-8"]


def test_a_paused_job_has_paused_ranks():
    run = a_run(ranks(1, phase="Creating"))
    run.jobs[0].phase = "Paused"
    assert shown(run)[3].split()[:2] == ["w-0", "Paused"]


# ------------------------------------------------------------------------------------------------ where it stays


class Fake(io.StringIO):
    """A terminal's file, of a size that can change."""

    def __init__(self, columns, rows):
        super().__init__()
        self.size = os.terminal_size((columns, rows))

    def fileno(self):
        return 1


class Sized(Live):
    def __init__(self, file):
        super().__init__(file, lambda text, style: text)

    def size(self):
        return self._file.size


def lines(*texts):
    return [[(text, Style())] for text in texts]


def test_lines_scroll_above_and_the_table_is_drawn_in_its_place():
    file, terminal = Fake(20, 8), Terminal(20, 8)
    live = Sized(file)
    for number in range(12):
        live.draw([f"line {number}"], lines("table", f"of {number}"))
    terminal.feed(file.getvalue().replace("\n", "\r\n"))  # as a terminal gets it
    assert terminal.seen == [*(f"line {number}" for number in range(7, 12)), "table", "of 11", ""]
    assert terminal.scrolled == [f"line {number}" for number in range(7)]


def test_long_lines_of_the_table_are_cut_and_those_of_programs_are_not():
    file, terminal = Fake(10, 8), Terminal(10, 8)
    live = Sized(file)
    for _ in range(2):
        live.draw(["x" * 25], lines("y" * 25))
    terminal.feed(file.getvalue().replace("\n", "\r\n"))  # as a terminal gets it
    assert terminal.all == ["x" * 10, "x" * 10, "x" * 5, "x" * 10, "x" * 10, "x" * 5, "y" * 9, ""]


def test_a_window_that_became_narrower_is_cleared_all_the_same():
    file = Fake(40, 10)
    live = Sized(file)
    live.draw([], lines("z" * 39, "z" * 10))
    file.truncate(0)
    file.seek(0)
    file.size = os.terminal_size((20, 10))
    live.draw([], ())
    assert file.getvalue() == "\r\x1b[3A\x1b[J"  # 39 characters are two lines of 20 by now


def test_wide_letters_take_the_places_that_they_take():
    why = "main: 没有这样的文件"
    file = Fake(60, 8)
    live = Sized(file)
    run = a_run(ranks(1, phase="Failed", message=why * 3), ranks(1, "v", message="你"))
    live.draw([], ranks_table(run, columns=60, rows=24, now=75.0))
    drawn = file.getvalue().splitlines()
    assert max(map(cell_len, drawn)) == 59
    assert drawn[3].index("main") == drawn[2].index("WHY") == drawn[4].index("你")
    file.truncate(0)
    file.seek(0)
    live.draw([], ())
    assert file.getvalue() == "\r\x1b[5A\x1b[J"


# ------------------------------------------------------------------------------------------------ how often


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def screen(monkeypatch):
    """A screen with a table whose pictures are counted."""
    clock = Clock()
    screen = Screen(io.StringIO(), clock=clock)
    drawn = []

    class Counting(Sized):
        def draw(self, scrolled, table):
            drawn.append(list(scrolled))

    screen._live = Counting(Fake(80, 24))
    screen.clock, screen.drawn = clock, drawn
    return screen


def test_pictures_are_rare_however_much_is_printed(screen):
    for number in range(1000):
        screen.printed(None, POD, "main", b"%d\n" % number)
        assert screen.refresh(busy=True) > 0
        screen.clock.now += 0.001
    assert 5 <= len(screen.drawn) <= 6
    screen.clock.now += EVERY
    screen.refresh(busy=False)
    assert [line for picture in screen.drawn for line in picture] == [f"p | {number}" for number in range(1000)]


def test_when_nothing_happens_only_ages_are_drawn_anew(screen):
    screen.refresh(busy=False)
    assert screen.refresh(busy=False) == AGES
    screen.clock.now += AGES / 2
    screen.refresh(busy=False)
    assert len(screen.drawn) == 1
    screen.clock.now += AGES / 2
    screen.refresh(busy=False)
    assert len(screen.drawn) == 2


def test_what_waits_for_the_next_picture_has_a_limit(screen, monkeypatch):
    monkeypatch.setattr("genericjob.cli.screen.MOST_HELD", 1000)
    screen.refresh(busy=False)
    for _ in range(100):
        screen.printed(None, POD, "main", b"x" * 96 + b"\n")
        screen.refresh(busy=True)
    assert len(screen.drawn) == 11


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ("plain [red]text[/red]", "plain [red]text[/red]"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("a\x1b[2Jb\x1b[1;1Hc", "abc"),
        ("10%\r 50%\r100%", "100%"),
        ("done\r", "done"),
        ("\x1b]0;title\x07x", "x"),
        ("bell\x07 tab\there", "bell tab\there"),
        ("\x1bM up \x1b7", " up "),
    ],
)
def test_below_lines_of_programs_the_cursor_stays_ours(screen, printed, seen):
    screen.printed(None, POD, "main", printed.encode() + b"\n")
    screen.refresh(busy=False)
    assert screen.drawn == [[f"p | {seen}"]]


def test_what_is_said_about_a_run_is_one_line_each_time(screen):
    screen.say("one\ntwo\x1b[2J")
    screen.warn("p", "three\r\nfour\x07")
    screen.rank(RankView("w-0"), "five\u2028six")
    screen.refresh(busy=False)
    assert screen.drawn == [["one two^[[2J", "p * warning: three four^G", "w-0 * five six"]]


# ------------------------------------------------------------------------------------------------ what is no line, and what is no text


@pytest.fixture
def plain():
    """A screen without a table, and what is on it."""
    out, clock = io.StringIO(), Clock()
    screen = Screen(out, clock=clock)
    screen.out, screen.clock = out, clock
    return screen


def show(screen, *printed):
    """What is on a screen after things were printed, a number being seconds of silence."""
    for each in printed:
        if isinstance(each, bytes):
            screen.printed(None, POD, "main", each)
        else:
            screen.clock.now += each
        screen.refresh(busy=False)
    return screen.out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ([b"one\ntwo\r\n\nthree\n"], ["p | one", "p | two", "p | ", "p | three"]),
        ([b"ha", b"lf\n"], ["p | half"]),
        ([b"ends without", b""], ["p | ends without"]),
        ([b"Loading...", 1.0, b" done\n", b"next\n"], ["p | Loading...", "p +  done", "p | next"]),
        ([b"Loading...", 1.0, b"\n", b"next\n"], ["p | Loading...", "p | next"]),
        ([b"Loading...", 1.0, b"\r\nnext\n"], ["p | Loading...", "p | next"]),
        ([b"Loading...", 1.0, b""], ["p | Loading..."]),
        ([b"\r 10%\r 20%", 1.0, b"\r 30%", 2.0, b"\r100%\nend\n"], ["p |  20%", "p |  30%", "p | 100%", "p | end"]),
        ([b"10%\r20%\r", 1.0, b"30%\r", 0.5, b"40%\n"], ["p | 20%", "p | 40%"]),
        ([b"\r", 1.0, b"x\n"], ["p | \rx"]),
        (["ä".encode()[:1], 1.0, "ä".encode()[1:] + b"\n"], ["p | ä"]),
    ],
)
def test_a_line_that_is_not_finished_is_shown_after_a_while_and_its_rest_is_marked(plain, printed, seen):
    # AS A FILE HAS IT: splitlines takes a lone carriage return for an end.
    show(plain, *printed)
    assert plain.out.getvalue().split("\n")[:-1] == seen


def test_a_line_that_goes_on_and_on_is_shown_ever_less_often(plain):
    for number in range(1000):
        show(plain, b"\r%d%%" % number, 0.125)
    assert [line.removeprefix("p | ") for line in plain.out.getvalue().splitlines()] == [
        f"{number}%" for number in (7, 23, 55, 119, 247, 503, 983)
    ]


def test_whoever_waits_for_news_is_told_when_to_look_again(plain):
    assert plain.refresh(busy=False) is None
    plain.printed(None, POD, "main", b"half")
    assert plain.refresh(busy=False) == 1.0
    plain.clock.now += 1.0
    assert plain.refresh(busy=False) is None


def test_a_line_that_is_too_long_is_shown_in_pieces_with_marks(plain):
    length = 2 * LONGEST_LINE + 10
    seen = show(plain, *[b"x" * 65536] * (length // 65536), b"x" * (length % 65536) + b"\nnext\n")
    assert [line[:4] for line in seen] == ["p | ", "p + ", "p + ", "p | "]
    assert sum(len(line) - 4 for line in seen[:3]) == length


def test_a_line_of_300_000_characters_is_one(plain):
    assert show(plain, *[b"x" * 60_000] * 5, b"\n") == ["p | " + "x" * 300_000]


def test_bytes_that_are_not_utf_8_are_shown_by_their_numbers_and_that_is_said_once(plain):
    plain.begin(RunView(jobs=[], logs=Path("/logs")))
    assert show(plain, b"caf\xe9\n\xff\xfe\nplain\n", b"\xe9\n") == [
        r"p | caf\xe9",
        r"p | \xff\xfe",
        "p | plain",
        r"p * warning: prints bytes that are not UTF-8: they are shown as \xNN; its log file has them as they are",
        r"p | \xe9",
    ]


def test_output_of_several_programs_is_kept_apart(plain):
    for pod, data in (("a", b"one "), ("b", b"two "), ("a", b"ends\n"), ("b", b"ends\n")):
        plain.printed(None, Key("default", pod), "main", data)
    assert plain.out.getvalue() == "a | one ends\nb | two ends\n"


def test_progress_bars_move_above_the_table_and_scroll_when_they_end(monkeypatch):
    file, clock = Fake(30, 16), Clock()
    screen = Screen(io.StringIO(), clock=clock)
    screen._live = Sized(file)
    screen.begin(a_run(ranks(1)))
    (rank,) = screen._run.jobs[0].ranks.values()
    rank.labels = {"main": "w-0"}
    for number in range(5):
        screen.printed(rank, Key("default", "j-w-0"), "main", b"\r\x1b[32m%d%%\x1b[0m" % (20 * number))
        clock.now += AGES
        screen.refresh(busy=False)
    terminal = Terminal(30, 16)
    terminal.feed(file.getvalue().replace("\n", "\r\n"))
    (bar,) = (number for number, line in enumerate(terminal.seen) if "%" in line)
    assert terminal.seen[bar] == "w-0 | 80%"
    assert terminal.seen[bar + 1].startswith("───")
    screen.printed(rank, Key("default", "j-w-0"), "main", b"\r100%\n")
    clock.now += AGES
    screen.refresh(busy=False)
    terminal = Terminal(30, 16)
    terminal.feed(file.getvalue().replace("\n", "\r\n"))
    assert [line for line in terminal.seen if "%" in line] == ["w-0 | 100%"]


def test_lines_that_are_not_finished_leave_room_for_the_table(screen):
    for number in range(100):
        screen.printed(None, Key("default", f"p-{number}"), "main", b"half")
    screen.clock.now += AGES
    assert len(screen._unfinished(24)) == 6


def test_a_line_that_ends_soon_is_not_shown_before(screen):
    screen.printed(None, POD, "main", b"ha")
    screen.clock.now += 0.1
    assert screen._unfinished(24) == []


# ------------------------------------------------------------------------------------------------ for machines


def records(*printed):
    out = io.StringIO()
    show = Records(out)
    for data in printed:
        show.printed(None, POD, "main", data)
    return [
        {key: found[key] for key in ("text", "bytes", "continued") if key in found}
        for found in map(json.loads, out.getvalue().splitlines())
    ]


def test_records_say_what_they_replaced_and_what_they_go_on_with():
    assert records(b"one\n\ntw", b"o\r\ncaf\xe9\na\0b", b"") == [
        {"text": "one"},
        {"text": ""},
        {"text": "two"},
        {"text": "caf\ufffd", "bytes": "Y2Fm6Q=="},
        {"text": "a\0b"},
    ]
    first, second = records(b"x" * LONGEST_LINE, b"yz\n")
    assert (len(first["text"]), first.get("continued")) == (LONGEST_LINE, None)
    assert second == {"text": "yz", "continued": True}


def test_a_record_of_output_says_whose_it_is():
    out = io.StringIO()
    rank = RankView("w-0", job="j", type="w", number=0)
    Records(out, now=lambda: datetime(2026, 1, 1, tzinfo=UTC)).printed(rank, POD, "main", b'say "hi"\n')
    assert out.getvalue() == (
        '{"event":"line","time":"2026-01-01T00:00:00.000Z","job":"j","type":"w","rank":0,"container":"main","text":"say \\"hi\\""}\n'
    )
