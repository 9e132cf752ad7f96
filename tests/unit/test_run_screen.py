"""The table below the lines of a run: what is in it, that it stays where it belongs, and how seldom it is drawn."""

import io
import os
import re

import pytest
from rich.cells import cell_len
from rich.style import Style

from genericjob.cli.live import Live, ranks_table
from genericjob.cli.screen import AGES, EVERY, Screen
from genericjob.cli.views import JobView, RankView, RunView
from harness.terminal import Terminal

pytestmark = pytest.mark.processes


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
        screen.line(None, "p", "main", str(number))
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
        screen.line(None, "p", "main", "x" * 96)
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
    screen.line(None, "p", "main", printed)
    screen.refresh(busy=False)
    assert screen.drawn == [[f"p | {seen}"]]


def test_what_is_said_about_a_run_is_one_line_each_time(screen):
    screen.say("one\ntwo\x1b[2J")
    screen.warn("p", "three\r\nfour\x07")
    screen.rank(RankView("w-0"), "five\u2028six")
    screen.refresh(busy=False)
    assert screen.drawn == [["one two^[[2J", "p * warning: three four^G", "w-0 * five six"]]
