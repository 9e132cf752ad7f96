"""A terminal's screen, as far as programs here move the cursor about: lines of characters, each with its colours.

It grows downwards for ever, as if one could always scroll back. What is not known is not obeyed.
"""

import re

_ORDER = re.compile(r"\x1b\[([0-9;:?]*)([A-Za-z])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\[\]]|[\x00-\x1f\x7f]")
TAB = 8
RESET = "\x1b[0m"


class Screen:
    """What a terminal shows of what it was sent."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._lines: list[list[tuple[str, str]]] = [[]]
        """Characters with the escape sequences of their colours."""
        self._row = self._column = 0
        self._colours = ""

    @property
    def lines(self) -> list[str]:
        """What stands there, each line with the escape sequences of its colours; empty ones at the end left out."""
        found = [_joined(line) for line in self._lines]
        while found and not found[-1]:
            found.pop()
        return found

    def write(self, text: str) -> None:
        """Take what a program has sent, in whole sequences."""
        at = 0
        for order in _ORDER.finditer(text):
            self._print(text[at : order.start()])
            self._obey(order[0], order[1] or "", order[2] or "")
            at = order.end()
        self._print(text[at:])

    def _print(self, text: str) -> None:
        for character in text:
            if self._column >= self._columns:
                self._feed()
                self._column = 0
            line = self._lines[self._row]
            line += [(" ", "")] * (self._column + 1 - len(line))
            line[self._column] = character, self._colours
            self._column += 1

    def _obey(self, order: str, number: str, letter: str) -> None:
        count = int(number) if number.isdigit() else 0
        match letter or order:
            case "\n":
                self._feed()
            case "\r" | "\t" | "\b" | "C" | "D" | "G":
                self._column = self._moved(letter or order, max(1, count))
            case "A":
                self._row = max(0, self._row - max(1, count))
            case "J" | "K":
                self._erase(letter, count)
            case "m":
                self._colours = "" if number in ("", "0") else self._colours + order

    def _moved(self, order: str, count: int) -> int:
        """The column in which the cursor is afterwards."""
        to = {"\r": 0, "\t": self._column + TAB - self._column % TAB, "C": self._column + count, "G": count - 1}
        return to.get(order, max(0, self._column - count))

    def _erase(self, what: str, how: int) -> None:
        """From here to the end, of the line or of everything; 2 takes what is before, too."""
        del self._lines[self._row][0 if how == 2 else self._column :]
        if what == "J":
            del self._lines[self._row + 1 :]

    def _feed(self) -> None:
        self._row += 1
        if self._row == len(self._lines):
            self._lines.append([])


def _joined(line: list[tuple[str, str]]) -> str:
    text, before = "", ""
    for character, colours in line:
        if colours != before:
            text += RESET + colours
            before = colours
        text += character
    return (text + RESET if before else text).rstrip()
