"""What the reference model is told: a job, two of its statuses, and what the server saw of its pods. As JSON, and read here anew."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from genericjob.api import ranges

FINAL = ("Succeeded", "Failed")
Rank = tuple[str, int]
Status = Mapping[str, Any]


class End(NamedTuple):
    """How a pod ended that nobody had asked to."""

    phase: str
    codes: frozenset[int] = frozenset()
    """Exit codes other than 0."""
    disrupted: bool = False
    debugged: bool = False


class Try(NamedTuple):
    """What a pod is made for."""

    job: str
    name: str
    epoch: int
    attempt: int


@dataclass
class Past:
    """What the server saw of pods."""

    ends: dict[Try, list[End]] = field(default_factory=dict)
    gone: set[Try] = field(default_factory=set)
    """Pods that were asked to go, or went."""
    owners: set[str] = field(default_factory=set)
    """UIDs of the jobs that have, or had, pods."""
    unreadable: bool = False
    """Whether pods could not be decoded at some time: what they do is not known then."""


@dataclass(frozen=True)
class Side:
    """A status, read."""

    status: Status

    def __getattr__(self, field: str) -> Any:
        return self.status.get(field, 0)

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", "Pending"))

    @property
    def paused(self) -> bool:
        return bool(self.status.get("pauseTime"))

    def ranks(self, field: str) -> set[Rank]:
        """Ranks with an outcome."""
        return {(task["type"], rank) for task in self.status.get("tasks", ()) for rank in ranges.parse(task.get(field, ""))}

    def values(self, field: str) -> dict[Rank, str]:
        """Something per rank."""
        return {
            (task["type"], rank): value
            for task in self.status.get("tasks", ())
            for value, text in task.get(field, {}).items()
            for rank in ranges.parse(text)
        }

    def counts(self, field: str) -> dict[Rank, int]:
        """A number per rank."""
        return {rank: int(value) for rank, value in self.values(field).items()}

    def in_a_row(self, rank: Rank) -> int:
        """How often a rank was started again without a good while of running in between."""
        return self.counts("restartsInARow").get(rank, 0)

    def last(self, rank: Rank) -> datetime | None:
        """When a rank was last started again."""
        found = self.values("lastRestarts").get(rank)
        return datetime.fromisoformat(found) if found else None

    def attempt(self, rank: Rank) -> int:
        return self.counts("chargedRestarts").get(rank, 0) + self.counts("unchargedRestarts").get(rank, 0)


@dataclass(frozen=True)
class Change:
    """One status after another."""

    uid: str
    name: str
    spec: Mapping[str, Any]
    old: Side
    new: Side
    past: Past

    @cached_property
    def replicas(self) -> dict[Rank, Mapping[str, Any]]:
        """Restart policies by rank."""
        return {
            (part["type"], rank): part.get("restartPolicy") or {}
            for part in self.spec["replicaSpecs"]
            for rank in range(part.get("replicas", 1))
        }

    @property
    def debugged(self) -> bool:
        return bool(((self.spec.get("runMode") or {}).get("debug") or {}).get("enabled"))

    @property
    def pause_wanted(self) -> bool:
        return bool(self.spec.get("suspend") or ((self.spec.get("runMode") or {}).get("pause") or {}).get("enabled"))

    @property
    def created_paused(self) -> bool:
        """Return whether no spec of the job could be used before, and runMode.pause is on."""
        return not self.old.startTime and bool(((self.spec.get("runMode") or {}).get("pause") or {}).get("enabled"))

    @property
    def had_pods(self) -> bool:
        """Whether the server has ever seen a pod of the job."""
        return self.uid in self.past.owners

    @property
    def joint(self) -> int:
        """How often the whole job was started again."""
        return int(self.new.epoch - self.old.epoch - (self.new.paused and not self.old.paused))

    def together(self, rank: Rank) -> bool:
        """Whether nobody of its type is started again alone."""
        return self.replicas[rank].get("scope") == "Job" and not self.debugged

    def present(self, rank: Rank) -> Try:
        return Try(self.uid, f"{self.name}-{rank[0]}-{rank[1]}", self.old.epoch, self.old.attempt(rank))
