"""Logs of containers: which there are, and their lines with the times at which they were written."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from genericjob.reconcile.resources import RAW_PODS, Key

from .options import Target
from .ranks import Pod, Rank
from .tables import moment

STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d) ")
"""What a server puts before each line. ONE OF THEM IS TAKEN AWAY: what comes behind it is the program's, a time as well."""

LONGEST_STAMP = len("2026-11-16T12:00:00.000000000+01:00 ")


class Source(NamedTuple):
    """A container that has begun, and so has a log."""

    label: str
    pod: Key
    uid: str
    container: str


class Line(NamedTuple):
    """A line of a log, and when it was written."""

    at: datetime
    number: int
    """Its place in the log: several lines have the same time."""
    source: Source
    data: bytes
    """With its newline. Without one it is a part of a line, and the next goes on with it."""


def sources_of(rank: Rank, container: str = "") -> list[Source]:
    """The logs that a rank has by now."""
    if rank.pod is None:
        return []
    status = rank.pod.get("status") or {}
    main = [each["name"] for each in status.get("containerStatuses") or () if _begun(each)]
    init = [each["name"] for each in status.get("initContainerStatuses") or () if _begun(each)]
    order = [each["name"] for each in rank.pod["spec"]["containers"]]
    names = sorted(main, key=order.index) or init
    if container:
        names = [container] if container in (*main, *init) else []
    return labelled(rank, rank.pod, names)


def labelled(rank: Rank, pod: Pod, names: Sequence[str]) -> list[Source]:
    """The logs of these containers of a pod, with the label of its rank and, where that is not enough, their own names."""
    meta = pod["metadata"]
    alone = len(pod["spec"]["containers"]) == 1 and names == [pod["spec"]["containers"][0]["name"]]
    return [
        Source(rank.label if alone else f"{rank.label}/{each}", Key(meta["namespace"], meta["name"]), meta["uid"], each) for each in names
    ]


def _begun(container: dict[str, dict[str, object]]) -> bool:
    state = container.get("state") or {}
    return "running" in state or "terminated" in state


def lines_of(
    where: Target, source: Source, *, tail: int = -1, follow: bool = False, previous: bool = False, since: datetime | None = None
) -> Iterator[Line]:
    """Read a log, to its end or for as long as it goes on; from the second of `since` on, if that is given.

    A line of a log that is followed comes in parts, as they are printed.
    """
    query = {"container": source.container, "timestamps": "true"}
    query |= {name: "true" for name, on in {"follow": follow, "previous": previous}.items() if on}
    if tail >= 0:
        query["tailLines"] = str(tail)
    if since is not None:
        query["sinceTime"] = f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    at = datetime.min.replace(tzinfo=UTC)
    begins, number, held = True, 0, b""
    for part in where.api.text(RAW_PODS.path(*source.pod, "log"), query, whole=not follow):
        data = held + part
        found = STAMP.match(data) if begins else None
        if begins and not found and not data.endswith(b"\n") and len(data) < LONGEST_STAMP:
            held = data  # the rest of its time is under way
            continue
        # ONLY WHERE A LINE BEGINS. And a line without a time is of the same moment as the one before it.
        if found:
            at, data = moment(found[0].decode().strip()) or at, data[found.end() :]
        yield Line(at, number, source, data)
        begins, number, held = data.endswith(b"\n"), number + 1, b""
    if held:
        yield Line(at, number, source, held)
