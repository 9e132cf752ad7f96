"""What was started, as one JSON file in the cluster's directory.

It is written before the first program starts and again after each, so that `down` finds everything whenever `up` was stopped.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from cluster import ClusterError
from cluster.components import APISERVER
from cluster.processes import Process


@dataclass
class Component:
    """One program: how it is started, and the process that runs it now, if any."""

    argv: list[str]
    port: int
    process: Process | None = None

    @property
    def running(self) -> bool:
        """Whether its process is alive."""
        return self.process is not None and self.process.alive


@dataclass
class State:
    """One cluster on paper."""

    programs: str
    audit: bool
    starter: Process
    owner: Process | None = None
    phase: Literal["starting", "up"] = "starting"
    ports: dict[str, int] = field(default_factory=dict)
    components: dict[str, Component] = field(default_factory=dict)

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.ports[APISERVER]}"

    @property
    def abandoned(self) -> bool:
        """Whether nobody will ever use it: its owner is gone, or its `up` was killed half-way."""
        owner_gone = self.owner is not None and not self.owner.alive
        return owner_gone or (self.phase == "starting" and not self.starter.alive)

    def save(self, path: Path) -> None:
        """Write it in one step: a reader sees the old or the new, never half."""
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=2))
        os.replace(draft, path)

    @classmethod
    def load(cls, path: Path) -> "State | None":
        """Read it back; None if there is none."""
        try:
            text = path.read_text()
        except FileNotFoundError:
            return None
        try:
            return cls._parse(json.loads(text))
        except (KeyError, TypeError, ValueError) as problem:
            raise ClusterError(f"{path} cannot be understood ({problem!r}); `down` removes the cluster all the same") from problem

    @classmethod
    def _parse(cls, raw: dict[str, Any]) -> "State":
        components = {
            name: Component(argv=each["argv"], port=each["port"], process=_process(each["process"]))
            for name, each in raw["components"].items()
        }
        starter = _process(raw["starter"])
        if starter is None:
            raise ValueError("no starter")
        return cls(**{**raw, "components": components, "starter": starter, "owner": _process(raw["owner"])})


def _process(raw: dict[str, int] | None) -> Process | None:
    return Process(**raw) if raw else None
