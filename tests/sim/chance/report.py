"""What came of many schedules: figures, and a picture of which faults met jobs in which modes."""

import hashlib
import html
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

import genericjob
import sim
from sim.chance.coverage import MODES
from sim.chance.found import FOUND
from sim.chance.trial import Trial

CELL, LEFT, TOP = 62, 150, 92
SHADES = ("#f6f8fa", "#dbeafe", "#bfdbfe", "#93c5fd", "#60a5fa", "#3b82f6", "#2563eb")
"""From nothing to very often, a shade per power of ten."""


INTRODUCTION = """A schedule is what users, programs, the server, the network and clocks do to jobs, decided by a seed: jobs are created,
edited, paused, resumed, debugged, resized, deleted and created again; programs end, wait and are taken away, nodes are lost; the server
refuses, is slow, loses answers before and after it acted, forgets; streams lag behind, each for itself, break, repeat themselves, and go
on at a server that is behind; controllers die with writes on their way that arrive seconds later or never, hand over to others, and have
clocks that are wrong. In one of seven they are two whole processes with a lease, and the leader is cut off, stands still, or is asked to
stop. The controller is the real one, with its threads, on the server in memory and a virtual clock. Every write is judged by the contract
and every status by a reference model as well. Then everything is healed: within minutes nobody may write any more, and every job must have
ended, be paused, or run with all its pods.

`python -m sim.chance --first SEED --count 1` (with `tests` on the path) plays a seed again, always in the same way, and makes it smaller
if it fails."""


class Failure(msgspec.Struct):
    """A schedule that failed."""

    seed: int
    failure: str
    check: str


@dataclass
class Tally:
    """What came of all schedules so far."""

    first: int = 0
    next: int = 0
    """The seed after the last one that was played."""
    hits: Counter[tuple[str, str]] = field(default_factory=Counter)
    sums: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    code: str = ""
    """Of what they were schedules: the fingerprint of the controller and the simulation."""

    @property
    def count(self) -> int:
        """How many schedules were played."""
        return self.sums["schedules"]

    def add(self, found: dict[str, Any]) -> None:
        """Count one more, as `counted` tells it."""
        for mode, fault, number in found["hits"]:
            self.hits[mode, fault] += number
        self.sums.update(found["sums"])
        if found["failure"]:
            self.failures.append(Failure(found["seed"], found["failure"], found["check"]))

    def dump(self) -> bytes:
        """As JSON, to go on later."""
        hits = [(mode, fault, number) for (mode, fault), number in self.hits.items()]
        return msgspec.json.encode(
            {"first": self.first, "next": self.next, "hits": hits, "sums": self.sums, "failures": self.failures, "code": self.code}
        )

    @classmethod
    def load(cls, data: bytes) -> "Tally":
        """Go on."""
        found = msgspec.json.decode(data)
        return cls(
            found["first"],
            found["next"],
            Counter({(mode, fault): number for mode, fault, number in found["hits"]}),
            Counter(found["sums"]),
            msgspec.convert(found["failures"], list[Failure]),
            found["code"],
        )


def fingerprint() -> str:
    """The same for the same controller and the same simulation."""
    found = hashlib.sha256()
    for package in (genericjob, sim):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def counted(trial: Trial, processor: float) -> dict[str, Any]:
    """A trial, as far as it is counted."""
    return {
        "seed": trial.schedule.seed,
        "failure": trial.failure[:2_000],
        "check": trial.check,
        "hits": [(mode, fault, number) for (mode, fault), number in trial.hits.items()],
        "sums": {
            "schedules": 1,
            "happenings": len(trial.schedule),
            "scheduler steps": trial.steps,
            "writes": trial.writes,
            "statuses judged": trial.statuses,
            "crashes": trial.crashes,
            "virtual seconds": round(trial.seconds),
            "milliseconds": round(processor * 1000),
        },
    }


def faults(tally: Tally) -> list[str]:
    """All faults, the most frequent first."""
    sums: Counter[str] = Counter()
    for (_, fault), number in tally.hits.items():
        sums[fault] += number
    return [fault for fault, _ in sums.most_common()]


def picture(tally: Tally) -> str:
    """States by faults, as SVG."""
    rows = faults(tally)
    width, height = LEFT + CELL * len(MODES) + 10, TOP + 24 * len(rows) + 10
    parts = [f'<text x="10" y="20" class="title">Faults by what the job was doing, in {tally.count:,} schedules</text>']
    for column, mode in enumerate(MODES):
        x = LEFT + CELL * column + CELL / 2
        parts.append(f'<text x="{x}" y="{TOP - 8}" transform="rotate(-35 {x} {TOP - 8})">{mode}</text>')
    for row, fault in enumerate(rows):
        y = TOP + 24 * row
        parts.append(f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{html.escape(fault)}</text>')
        for column, mode in enumerate(MODES):
            number = tally.hits.get((mode, fault), 0)
            shade = SHADES[min(len(str(number)), len(SHADES) - 1) if number else 0]
            x = LEFT + CELL * column
            light = ' class="light"' if number >= 10_000 else ""
            parts.append(f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="22" rx="3" fill="{shade}"/>')
            parts.append(f'<text x="{x + CELL / 2}" y="{y + 16}" text-anchor="middle"{light}>{number:,}</text>' if number else "")
    style = "text{font:11px system-ui,sans-serif;fill:#1f2937}.title{font-size:14px;font-weight:600}.light{fill:#fff}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
    return "\n".join(
        (head, f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>', *filter(None, parts), "</svg>\n")
    )


def page(tally: Tally, image: str) -> str:
    """The report, as Markdown."""
    sums = tally.sums
    each = sums["milliseconds"] / max(1, tally.count)
    figures = [
        ("schedules", f"{tally.count:,} (seeds {tally.first:,} to {tally.next - 1:,})"),
        ("happenings: what users, programs, the server and clocks did", f"{sums['happenings']:,}"),
        ("crashes and leader switches", f"{sums['crashes']:,}"),
        ("writes of controllers, each judged by the contract", f"{sums['writes']:,}"),
        ("statuses, each judged by the model as well", f"{sums['statuses judged']:,}"),
        ("virtual time", f"{sums['virtual seconds'] / 3_600:,.0f} hours"),
        ("processor time of a schedule", f"{each:.0f} ms"),
        ("faults that met a job, by kind and by what it was doing", f"{sum(tally.hits.values()):,} in {len(tally.hits)} combinations"),
        ("violations", f"{len(tally.failures):,}"),
    ]
    lines = ["# Random schedules", "", INTRODUCTION, "", *_table(("", ""), figures), "", f"![States by faults]({image})", ""]
    lines += [
        "## What was found",
        "",
        "Each is mended, and kept as a script in `tests/sim/chance/found.py` that is played with every `make sim`.",
        "",
    ]
    lines += [*_table(("script", "what was wrong"), [(str(found), found.script.__doc__ or "") for found in FOUND]), ""]
    if tally.failures:
        checks = Counter(failure.check for failure in tally.failures)
        rows = [(check.replace("|", "\\|"), number, ", ".join(_seeds(tally, check))) for check, number in checks.most_common()]
        lines += ["## Violations", "", *_table(("check", "schedules", "seeds"), rows), ""]
    return "\n".join(lines)


def _seeds(tally: Tally, check: str) -> list[str]:
    return [str(failure.seed) for failure in tally.failures if failure.check == check][:10]


def _table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    return [f"| {' | '.join(map(str, row))} |" for row in (head, ("---",) * len(head), *rows)]


def write(tally: Tally, path: Path) -> None:
    """The page, and the picture beside it."""
    image = path.with_suffix(".svg")
    image.write_text(picture(tally))
    path.write_text(page(tally, image.name))
