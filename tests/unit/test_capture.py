"""Pictures of a terminal: what a command leaves on one is what is drawn."""

import sys
import xml.etree.ElementTree as ElementTree

import pytest

from capture.__main__ import main
from capture.picture import svg
from capture.screen import Screen
from capture.terminal import sent

pytestmark = pytest.mark.processes

GREEN, PLAIN = "\x1b[32m", "\x1b[0m"


def screen(text, columns=20):
    found = Screen(columns)
    found.write(text)
    return found.lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("one\r\n\r\n\r\n", ["one"]),
        ("12345678901234567890and more", ["12345678901234567890", "and more"]),
        ("old\rnew", ["new"]),
        ("older\rnew\x1b[K", ["new"]),
        ("a\tb", ["a       b"]),
        ("ab\b\x1b[Kc", ["ac"]),
        ("log\r\ntable 1\r\ntable 2\r\n\r\x1b[2A\x1b[Jmore\r\ntable\r\n", ["log", "more", "table"]),
        ("\x1b[2Cx\x1b[1Gy", ["y x"]),
        ("\x1b[?25lhidden\x1b]0;title\x07 cursor\x1b[?25h", ["hidden cursor"]),
        (f"{GREEN}green{PLAIN} plain", [f"{PLAIN}{GREEN}green{PLAIN} plain"]),
        (f"{GREEN}one\r\ntwo{PLAIN}", [f"{PLAIN}{GREEN}one{PLAIN}", f"{PLAIN}{GREEN}two{PLAIN}"]),
    ],
)
def test_a_screen_shows_what_a_terminal_would(text, lines):
    assert screen(text) == lines


def test_a_command_has_a_terminal_of_its_own():
    program = "import os, sys; print(os.isatty(0), os.isatty(1), os.get_terminal_size().columns); sys.exit(3)"
    assert sent([sys.executable, "-c", program], columns=37, environment={}) == ("True True 37\r\n", 3)


def test_a_picture_has_the_text_and_the_colours_and_needs_nothing_from_elsewhere():
    drawn = svg([f"{GREEN}green{PLAIN} & plain"], columns=40, title="a command")
    found = ["".join(each.itertext()) for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert [text.replace("\xa0", " ") for text in found if text != "\n"] == ["a command", "green", " & plain"]
    assert "fill:" in drawn
    assert "url(http" not in drawn


def test_the_picture_of_a_command_begins_with_the_command_and_has_no_home_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    file = tmp_path / "images" / "it.svg"
    assert main(["--output", str(file), "sh", "-c", 'echo "$HOME/logs ${NO_COLOR-unset}"; exit 4']) == 4
    text = file.read_text().replace("&#160;", " ")
    assert "sh -c" in text
    assert "~/logs unset" in text
