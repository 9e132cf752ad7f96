"""What a rule names of a type: ranks by number, ranges of them, or a word for the whole type."""

import re
from collections.abc import Mapping
from typing import Final, Literal

ALL: Final = "all"
ANY: Final = "any"
"""In a rule: every rank of a type, however many there are; and at least one of them."""
_BOUND = "(0|[1-9][0-9]{0,3})"
RANKS_PATTERN = f"^([0-9]+|{_BOUND}-{_BOUND}|{ALL}|{ANY})$"
_RANGE = re.compile(f"{_BOUND}-{_BOUND}")

RankItem = int | range | Literal["all", "any"]
"""One item of what a rule names of a type."""

_WORDS: Mapping[str, RankItem] = {ALL: ALL, ANY: ANY}


class Mixed(tuple[RankItem, ...]):
    """What a rule names of a type, if it is not only numbers."""

    __slots__ = ()


def rank_item(value: object) -> RankItem:
    """Read an item. Numbers may be digits in quotes: vendors' tools write them so."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        if value.isascii() and value.isdigit():
            return int(value)
        if value in _WORDS:
            return _WORDS[value]
        if ends := _RANGE.fullmatch(value):
            return range(int(ends[1]), int(ends[2]) + 1)
    raise ValueError("not a rank (0), a range of ranks (0-99), all, or any")
