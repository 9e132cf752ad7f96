"""Sets of ranks as text: `0-99,105`. Ten thousand ranks that ended well take ten characters."""

from collections.abc import Iterable
from functools import lru_cache

MOST = 10_000
"""Ranks of a job."""


def format(ranks: Iterable[int]) -> str:
    """Write a set of ranks."""
    parts: list[str] = []
    first = last = -2
    for rank in sorted(set(ranks)):
        if rank == last + 1:
            last = rank
            continue
        if last >= 0:
            parts.append(_part(first, last))
        first = last = rank
    if last >= 0:
        parts.append(_part(first, last))
    return ",".join(parts)


def _part(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


_RANKS = tuple(range(MOST))
"""One object per number: sets of many jobs share them."""


@lru_cache(maxsize=32)  # sets of a few busy jobs; one of 10,000 ranks takes 0.5 MB
def parse(text: str) -> frozenset[int]:
    """Read a set of ranks; raises ValueError for anything that `format` would not have written: no text costs more than its ranks."""
    ranks: list[int] = []
    free = 0
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        begin, end = _number(first), _number(last if dash else first)
        if begin < free or end < begin or (dash and begin == end):
            raise ValueError(f"not a set of ranks: {text[:80]!r}")
        ranks += _RANKS[begin : end + 1]
        free = end + 2  # what touches would have been written as one
    return frozenset(ranks)


def _number(text: str) -> int:
    """A rank as it is written, or -1."""
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(MOST)) or (text[0] == "0" and text != "0"):
        return -1
    return int(text) if int(text) < MOST else -1
