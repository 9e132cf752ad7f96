"""Logs of a run that has ended: no server has them any more, but its files are still there.

    DIRECTORY/train-worker-0/2/main.log     the second attempt of rank worker-0 of the job train

`local/logfiles.py` writes them. The API of the run is gone, so jobs and ranks are known by the names of directories alone.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from genericjob.local.arrivals import SECOND, Arrivals
from genericjob.reconcile.resources import Key

from .failures import CommandError
from .loglines import Line, Source
from .printed import LONGEST_LINE

_POD = re.compile(r"(?:(?P<namespace>[^_]+)_)?(?P<pod>(?P<label>.+)-(?P<number>\d{1,5}))")


class EndedLog(NamedTuple):
    """The file of a container."""

    type: str
    number: int
    source: Source
    file: Path


def ended_logs(directory: Path, job: str, *, previous: bool = False, container: str = "") -> list[EndedLog]:
    """Return the logs of a job's ranks, of their last attempts or, with `previous`, of those before; raises CommandError without any."""
    found = [log for path in sorted(directory.iterdir()) if path.is_dir() for log in _of_pod(path, job, previous=previous)]
    if not found:
        what = "of an attempt before the last" if previous else "of a job of that name"
        raise CommandError(f"there is no log {what} ({job}) in {directory}")
    chosen = [log for log in found if container in ("", log.source.container)]
    if not chosen:
        known = ", ".join(dict.fromkeys(log.file.stem for log in found))
        raise CommandError(f"there is no log of a container {container}: there are {known}")
    return sorted(chosen, key=lambda log: (log.type, log.number, log.file.name))


def _of_pod(path: Path, job: str, *, previous: bool) -> Iterator[EndedLog]:
    found = _POD.fullmatch(path.name)
    if not found or not found["label"].startswith(f"{job}-"):
        return
    type, number = found["label"].removeprefix(f"{job}-"), int(found["number"])
    attempts = sorted(int(each.name) for each in path.iterdir() if each.name.isdecimal())
    if len(attempts) <= previous:
        return
    files = sorted((path / str(attempts[-1 - previous])).glob("*.log"))
    for file in files:
        label = f"{type}-{number}" if len(files) == 1 else f"{type}-{number}/{file.stem}"
        yield EndedLog(type, number, Source(label, Key(found["namespace"] or "default", found["pod"]), "", file.stem), file)


def in_order(logs: Iterable[EndedLog], tail: int = -1) -> Iterator[Line]:
    """Yield the lines of logs in the order of time. All of them are open at once."""
    return merge(*(_lines(log, tail) for log in logs), key=lambda line: line.at)


def parts(logs: Sequence[EndedLog], most: int) -> Iterator[list[EndedLog]]:
    """Return the logs in parts that can be open at once."""
    left = iter(logs)
    while part := list(islice(left, most)):
        yield part


def _lines(log: EndedLog, tail: int) -> Iterator[Line]:
    arrivals = Arrivals(log.file)
    try:
        with log.file.open("rb") as file:
            for number, (begin, line) in enumerate(_placed(file, tail)):
                at = datetime.fromtimestamp(arrivals.of(begin) / SECOND, UTC)
                yield Line(at, number, log.source, line)
    finally:
        arrivals.close()


def _placed(file: BinaryIO, tail: int) -> Iterable[tuple[int, bytes]]:
    """Lines with the bytes at which they begin: all, or the last ones."""
    found = _counted(file)
    return found if tail < 0 else deque(found, maxlen=tail)


def _counted(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield lines; one that is very long in parts."""
    begin = 0
    while line := file.readline(LONGEST_LINE):
        yield begin, line
        begin += len(line)
