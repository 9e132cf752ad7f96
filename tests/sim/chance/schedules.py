"""A schedule: values that can be printed as Python, played again, and made smaller."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sim.node import FOREVER, Program, Script
from sim.scenarios.script import ranks

WIDTH = 140
INDENT = "    "


@dataclass(frozen=True)
class Step:
    """One thing that happens: a method of `Run`, and its arguments."""

    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **arguments: Any) -> "Step":
        """The same with some other arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    def without(self, argument: str) -> "Step":
        """The same with one argument less."""
        return replace(self, arguments={name: value for name, value in self.arguments.items() if name != argument})

    def __str__(self) -> str:
        return f"run.{self.do}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


def step(do: str, **arguments: Any) -> Step:
    """A step."""
    return Step(do, arguments)


@dataclass(frozen=True)
class Schedule:
    """Everything that decides a run."""

    seed: int
    """Of the scheduler: who goes on when several can."""
    steps: tuple[Step, ...] = ()
    programs: Mapping[str, tuple[Program, ...]] = field(default_factory=dict)
    """By the end of a pod's name, `worker_0`; each run has the next one, and the last one stays."""
    latency: float = 0.0
    """Seconds that writes are on their way, at most."""
    ends: bool = False
    """Whether programs that are started when all is healed end well, where that brings the job to an end; otherwise they run on."""
    elected: bool = False
    """Whether controllers are whole processes that hold an election (`electing.py`); otherwise a step says who leads."""

    @property
    def script(self) -> Script:
        """What pods do."""
        return ranks(**{"other": (FOREVER,), **self.programs})

    def __len__(self) -> int:
        return len(self.steps)


def python(schedule: Schedule, name: str, why: str) -> str:
    """A schedule as a function for `found.py`."""
    programs = "".join(f",\n{INDENT}{rank}={_programs(found)}" for rank, found in schedule.programs.items())
    options = "".join(
        f", {field}={getattr(schedule, field)!r}"
        for field in ("latency", "ends", "elected")
        if getattr(schedule, field) != getattr(Schedule(0), field)
    )
    head = f"@found({schedule.seed}{options}{programs}{',' if programs else ''}\n)" if programs else f"@found({schedule.seed}{options})"
    body = "\n".join(f"{INDENT}{line}" for each in schedule.steps for line in _lines(each)) or f"{INDENT}pass"
    return f'{head}\ndef {name}(run: Run) -> None:\n{INDENT}"""{why}"""\n{body}\n'


def _lines(each: Step) -> Iterator[str]:
    text = str(each)
    if len(text) + len(INDENT) <= WIDTH:
        yield text
        return
    yield f"run.{each.do}("
    for name, value in each.arguments.items():
        yield f"{INDENT}{name}={value!r},"
    yield ")"


def _programs(found: tuple[Program, ...]) -> str:
    return f"({', '.join(map(_program, found))},)"


def _program(found: Program) -> str:
    """Without what goes without saying."""
    if found == FOREVER:
        return "FOREVER"
    usual = Program()
    told = {name: getattr(found, name) for name in Program.__dataclass_fields__ if getattr(found, name) != getattr(usual, name)}
    return f"Program({', '.join(f'{name}={value!r}' for name, value in told.items())})"
