"""Objects as rows of a table: what `kubectl get` asks a server for.

Columns of custom kinds are those of their definition, pods have the ones that everybody knows, and all others a name and an age.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .discovery import Column

NAME = Column("Name", "string", ".metadata.name", "Name of the object.")
AGE = Column("Age", "date", ".metadata.creationTimestamp", "Time since it was created.")
_NOTHING = "<none>"
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\['((?:[^'\\]|\\.)+)'\]")

Read = Callable[[Mapping[str, Any], datetime], Any]
"""What a cell says of an object."""


@dataclass(frozen=True)
class Printer:
    """The columns of a kind."""

    columns: Sequence[Column]
    cells: Sequence[Read]

    def table(self, objects: Iterable[Mapping[str, Any]], metadata: Mapping[str, Any], now: datetime, *, whole: bool) -> dict[str, Any]:
        """A Table with a row for each object, which carries the object itself or its metadata only."""
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": metadata,
            "columnDefinitions": [
                {
                    "name": column.name,
                    "type": column.type,
                    "format": "name" if column is NAME else "",
                    "description": column.description,
                    "priority": column.priority,
                }
                for column in self.columns
            ],
            "rows": [{"cells": [read(found, now) for read in self.cells], "object": _carried(found, whole=whole)} for found in objects],
        }


def _carried(found: Mapping[str, Any], *, whole: bool) -> Mapping[str, Any]:
    if whole:
        return found
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": found.get("metadata") or {}}


def printer(columns: Sequence[Column]) -> Printer:
    """The table of a custom kind."""
    wanted = (NAME, *(columns or (AGE,)))
    return Printer(wanted, [_reader(column) for column in wanted])


def _reader(column: Column) -> Read:
    steps = [plain or quoted for plain, quoted in _STEP.findall(column.json_path)]

    def read(found: Mapping[str, Any], now: datetime) -> Any:
        value: Any = found
        for step in steps:
            value = value.get(step) if isinstance(value, Mapping) else None
        if column.type == "date":
            return age(value, now)
        return value if isinstance(value, str | int | float | bool) else _NOTHING if column is NAME else None

    return read


def age(moment: Any, now: datetime) -> str:
    """How long ago something was, as kubectl writes it: 7s, 3m5s, 8m, 5h, 2d3h."""
    try:
        seconds = int((now - datetime.fromisoformat(moment)).total_seconds())
    except (TypeError, ValueError):
        return "<unknown>"
    if seconds < 0:
        return "0s" if seconds >= -2 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _pair(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    return f"{days}d" if days < 365 * 2 else _pair(days // 365, "y", days % 365, "d")


def _pair(large: int, unit: str, small: int, other: str) -> str:
    return f"{large}{unit}{small}{other}" if small else f"{large}{unit}"


# ------------------------------------------------------------------------------------------------ pods and events


def _containers(pod: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _ready(pod: Mapping[str, Any], now: datetime) -> str:
    return f"{sum(bool(one.get('ready')) for one in _containers(pod))}/{len((pod.get('spec') or {}).get('containers') or ())}"


def _status(pod: Mapping[str, Any], now: datetime) -> str:
    """One word, from the most telling to the plainest."""
    if (pod.get("metadata") or {}).get("deletionTimestamp"):
        return "Terminating"
    status = pod.get("status") or {}
    for one in status.get("containerStatuses") or ():
        state = one.get("state") or {}
        told = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        if told and told != "PodInitializing":
            return str(told)
    return str(status.get("reason") or status.get("phase") or "Unknown")


def _restarts(pod: Mapping[str, Any], now: datetime) -> str:
    return str(sum(int(one.get("restartCount") or 0) for one in _containers(pod)))


def _about(event: Mapping[str, Any], now: datetime) -> str:
    about = event.get("involvedObject") or {}
    return f"{str(about.get('kind')).lower()}/{about.get('name')}"


def _text(*path: str) -> Read:
    return _reader(Column("", "string", "".join(f".{step}" for step in path)))


def _last_seen(event: Mapping[str, Any], now: datetime) -> str:
    return age(event.get("lastTimestamp") or event.get("eventTime") or (event.get("metadata") or {}).get("creationTimestamp"), now)


PODS = Printer(
    (
        NAME,
        Column("Ready", "string", ""),
        Column("Status", "string", ""),
        Column("Restarts", "string", ""),
        AGE,
        Column("IP", "string", "", priority=1),
        Column("Node", "string", "", priority=1),
    ),
    (_reader(NAME), _ready, _status, _restarts, _reader(AGE), _text("status", "podIP"), _text("spec", "nodeName")),
)
EVENTS = Printer(
    tuple(Column(name, "string", "") for name in ("Last Seen", "Type", "Reason", "Object", "Message")),
    (_last_seen, _text("type"), _text("reason"), _about, _text("message")),
)
BUILT_IN: Mapping[tuple[str, str], Printer] = {("", "pods"): PODS, ("", "events"): EVENTS}
