"""What the rules of a stored job name, in words and by rank. They are read as they are written: nobody has checked them here."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from genericjob.api.rank_items import ALL, ANY, rank_item

Rule = Mapping[str, list[Any]]


def named_of(type: str, items: list[Any]) -> str:
    """Return what a rule names of a type: `worker 0,1`, `every worker`, `any worker`."""
    word = {ALL: "every", ANY: "any"}.get(str(items[0]))
    return f"{word} {type}" if word else f"{type} {','.join(map(str, items))}"


def names_one(rule: Rule) -> bool:
    """Return whether a rule names a single rank, or a type in the singular."""
    items = [*chain.from_iterable(rule.values())]
    return len(items) == 1 and "-" not in str(items[0])


def phases_of(rule: Rule, phases: Mapping[tuple[str, int], str]) -> Iterator[tuple[str, set[str]]]:
    """Return each rank that a rule names with its phase, none if it is not there; of `any` of a type the phases of all its ranks."""
    for type, items in rule.items():
        for item in map(rank_item, items):
            if item == ANY:
                yield f"any {type}", {phase for (each, _), phase in phases.items() if each == type}
                continue
            numbers = [number for each, number in phases if each == type] if item == ALL else item if isinstance(item, range) else (item,)
            yield from ((f"{type}-{number}", {phases[type, number]} if (type, number) in phases else set()) for number in numbers)
