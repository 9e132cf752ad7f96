"""How often ranks were started again, as the status remembers it.

A rank's attempt is the number of its restarts, charged and not. Its pod carries the number, so a pod of an earlier attempt is known for
what it is, whoever looks, and whenever. The status has the numbers turned around, ranks by number: ten thousand ranks that failed once
are one entry.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from genericjob.api import ranges
from genericjob.api.status import RanksBy, Task

FIRST, LONGEST = 1.0, 300.0
"""Seconds of waiting: the first restart comes at once, the second after one second, then twice as long each time."""
FORGIVEN = timedelta(minutes=10)
"""Who ran so long begins anew."""
MOST_IN_A_ROW = 12
"""Counted no further: the wait is at its longest by then."""
DIGITS = 9
"""Of a number of restarts: nobody counts further."""

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Ledger:
    """The restarts of all ranks of a type; a rank that is not in it had none."""

    charged: Mapping[int, int] = field(default_factory=dict)
    uncharged: Mapping[int, int] = field(default_factory=dict)
    in_a_row: Mapping[int, int] = field(default_factory=dict)
    last: Mapping[int, datetime] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.charged or self.uncharged)

    @classmethod
    def of(cls, task: Task | None, replicas: int) -> "Ledger":
        """Read it from a status; ranks that are no more are left out. Raises ValueError for what nobody can have written."""
        if task is None or not (task.charged_restarts or task.uncharged_restarts):
            return EMPTY
        return cls(
            _turned(task.charged_restarts, _count, replicas),
            _turned(task.uncharged_restarts, _count, replicas),
            _turned(task.restarts_in_a_row, _count, replicas),
            _turned(task.last_restarts, _moment, replicas),
        )

    def attempt(self, rank: int) -> int:
        """Which try of the rank is the present one; the first is 0."""
        return self.charged.get(rank, 0) + self.uncharged.get(rank, 0)

    def not_before(self, rank: int) -> datetime | None:
        """When the rank may be started, if it has to wait."""
        last = self.last.get(rank)
        return last + back_off(self.in_a_row.get(rank, 0)) if last else None

    @property
    def total(self) -> int:
        """All charged restarts."""
        return sum(self.charged.values())

    def written(self) -> dict[str, RanksBy]:
        """As fields of a status."""
        return {
            "charged_restarts": _by_value({rank: str(count) for rank, count in self.charged.items()}),
            "uncharged_restarts": _by_value({rank: str(count) for rank, count in self.uncharged.items()}),
            "restarts_in_a_row": _by_value({rank: str(count) for rank, count in self.in_a_row.items()}),
            "last_restarts": _by_value({rank: _text(moment) for rank, moment in self.last.items()}),
        }


EMPTY = Ledger()


class Entries:
    """New entries of a ledger in the making."""

    def __init__(self, ledger: Ledger) -> None:
        self._charged, self._uncharged = dict(ledger.charged), dict(ledger.uncharged)
        self._in_a_row, self._last = dict(ledger.in_a_row), dict(ledger.last)

    def restart(self, rank: int, now: datetime, *, charged: bool, forgiven: bool) -> None:
        """A rank is started again; `forgiven` if it had run for long."""
        counts = self._charged if charged else self._uncharged
        counts[rank] = counts.get(rank, 0) + 1
        self._in_a_row[rank] = 1 if forgiven else min(MOST_IN_A_ROW, self._in_a_row.get(rank, 0) + 1)
        self._last[rank] = now.replace(microsecond=0)

    def at_least(self, rank: int, *, charged: int, attempt: int) -> None:
        """A pod says so, whatever the status says: THE LARGER WINS, lest a status that was wiped gives a rank all its restarts again."""
        self._charged[rank] = charged = max(charged, self._charged.get(rank, 0))
        self._uncharged[rank] = max(attempt - charged, self._uncharged.get(rank, 0))

    def ledger(self) -> Ledger:
        """The new ledger."""
        charged = {rank: count for rank, count in self._charged.items() if count}
        return Ledger(charged, {rank: count for rank, count in self._uncharged.items() if count}, self._in_a_row, self._last)


def back_off(in_a_row: int) -> timedelta:
    """How long to wait after an end, by how many restarts there were in a row."""
    return timedelta(seconds=min(LONGEST, FIRST * 2.0 ** (in_a_row - 2)) if in_a_row > 1 else 0.0)


def _turned(source: RanksBy, read: Callable[[str], _Value], replicas: int) -> dict[int, _Value]:
    values = {text: read(text) for text in source}
    return {rank: values[text] for text, ranks in source.items() for rank in ranges.parse(ranks) if rank < replicas}


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        raise ValueError(f"not a number of restarts: {text[:80]!r}")
    return int(text)


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or not datetime.min.year < moment.year < datetime.max.year:  # it is compared, and added to
        raise ValueError(f"not the time of a restart: {text[:80]!r}")
    return moment


def _by_value(values: Mapping[int, str]) -> RanksBy:
    found: dict[str, list[int]] = {}
    for rank, value in values.items():
        found.setdefault(value, []).append(rank)
    return {value: ranges.format(found[value]) for value in sorted(found)}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
