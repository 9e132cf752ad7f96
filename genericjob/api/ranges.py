"""Sets of ranks as text: `0-99,105`. Ten thousand ranks that ended well take ten characters."""

from collections.abc import Iterable
from functools import lru_cache


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


@lru_cache(maxsize=64)  # of a few hot jobs; one of 10,000 ranks takes 0.4 MB
def parse(text: str) -> frozenset[int]:
    """Read a set of ranks; raises ValueError for anything that `format` would not have written."""
    ranks: set[int] = set()
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise ValueError(f"not a set of ranks: {text[:80]!r}")
        begin, end = int(first), int(last) if dash else int(first)
        if end < begin or end > 1_000_000:
            raise ValueError(f"not a set of ranks: {text[:80]!r}")
        ranks.update(range(begin, end + 1))
    return frozenset(ranks)
