"""How a scenario is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from genericjob.reconcile.resources import Key
from sim.jobs import NAMESPACE, Cluster
from sim.node import Program, Script

TRAIN = Key(NAMESPACE, "train")


@dataclass(frozen=True)
class Scenario:
    """A script, what the programs in it do, and how it must end."""

    play: Callable[[Cluster], None]
    programs: Script
    phase: str
    """Of the job `train` at the end; empty if there is none."""
    events: frozenset[str]
    """Reasons of all events that a controller without a crash tells."""
    writers: int
    """How many writes a controller sends at a time."""
    losses: bool
    """Whether others take pods away: how many of that a controller has seen depends on when it was there."""
    runs: Mapping[str, int]
    """How often ranks run, by the end of their pods' names."""
    status: Mapping[str, Any]
    """Some fields of the status at the end."""

    def __str__(self) -> str:
        return self.play.__name__


SCENARIOS: list[Scenario] = []


def scenario(
    phase: str,
    programs: Script,
    *events: str,
    runs: Mapping[str, int] | None = None,
    creates: bool = True,
    writers: int = 3,
    losses: bool = False,
    **status: Any,
) -> Callable[[Callable[[Cluster], None]], None]:
    """Register a script."""

    def register(play: Callable[[Cluster], None]) -> None:
        told = frozenset((*events, "SuccessfulCreate") if creates else events)
        SCENARIOS.append(Scenario(play, programs, phase, told, writers, losses, runs or {}, status))

    return register


def ranks(**programs: Program | tuple[Program, ...]) -> Script:
    """Programs by the end of a pod's name: `ranks(worker_0=Program(), other=FOREVER)`. Of several, each run has the next."""

    def script(name: str, before: int) -> Program:
        found = programs.get("_".join(name.split("-")[-2:]), programs.get("other", Program()))
        return found[min(before, len(found) - 1)] if isinstance(found, tuple) else found

    return script


def fails(seconds: float = 1.0, exit_code: int = 1) -> Program:
    """A program that runs for so long and fails."""
    return Program(seconds, exit_code)
