"""A cluster on which everything may go wrong.

    controller ── writes that are on their way when it dies, and arrive then, later, or never
        │
     streams ──── of each resource, held back or told twice
        │
      faults ──── refusals and lost answers (`FaultyApi`)
        │
     decoding ─── objects that cannot be decoded (`undecodable.py`)
        │
      server

What happens later without anybody doing it (a write that arrives late, a successor) stands in an agenda.
"""

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import Any, TypeVar, cast

from genericjob.jobs.assembly import Assembly
from genericjob.local.faults import FaultyApi
from genericjob.reconcile.api import Api, Event, Watch
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.informer import Informer, Target
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.passing import Call, Passing
from sim.chance.history import Oracle
from sim.chance.trouble import Will
from sim.jobs import Cluster, Watched, job_kind
from sim.node import Node, Script
from sim.processes import Process
from sim.scheduler import Stepped
from sim.undecodable import Undecodable
from sim.world import World

T = TypeVar("T")

Write = tuple[Call, Callable[[], Any]]
"""What is sent, and the sending."""
WORKERS, WRITERS = 2, 3
PATIENCE = 600.0
"""Virtual seconds in which caches are filled, whatever goes wrong."""


class Agenda:
    """What is going to happen."""

    def __init__(self, stepped: Stepped) -> None:
        self._stepped = stepped
        self._process = stepped.process("agenda")
        self._entries: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()
        self._thread = self._process.start("agenda", self._follow)

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Do this then. NO SCHEDULING POINT: whoever dies may say this with his last breath."""
        heapq.heappush(self._entries, (self._stepped.monotonic() + seconds, next(self._order), do))
        self._stepped.wake(self._thread)

    def _follow(self) -> None:
        while True:
            left = self._entries[0][0] - self._stepped.monotonic() if self._entries else None
            if left is None or left > 0:
                self._process.block(left, "waits for what is next")
            else:
                heapq.heappop(self._entries)[2]()


class Streams(Passing):
    """The watches of a controller: held back for a while, or telling everything twice."""

    def __init__(self, api: FaultyApi, stepped: Stepped) -> None:
        super().__init__(api)
        self._stepped = stepped
        self._process = stepped.process("network")
        self._held: dict[str, float] = {}
        self._twice: dict[str, float] = {}

    def hold(self, plural: str, seconds: float) -> None:
        """What happens to these is told later."""
        self._held[plural] = self._stepped.monotonic() + seconds

    def stutter(self, plural: str, seconds: float) -> None:
        """What happens to these is told twice."""
        self._twice[plural] = self._stepped.monotonic() + seconds

    def heal(self) -> None:
        """From now on at once, and once."""
        self._held.clear()
        self._twice.clear()

    def through(self, call: Call, do: Callable[[], T]) -> T:
        """Let a call pass."""
        answer: Any = do()
        return cast(T, Stream(answer, call.resource.plural, self) if call.verb == "watch" else answer)

    def tell(self, events: Iterator[Event[T]], plural: str) -> Iterator[Event[T]]:
        """Pass events on, as it is with them at the time."""
        for event in events:
            while (left := self._held.get(plural, 0.0) - self._stepped.monotonic()) > 0:
                self._process.sleep(left)
            yield event
            if event.object is not None and self._twice.get(plural, 0.0) > self._stepped.monotonic():
                yield event


class Stream:
    """One watch."""

    def __init__(self, watch: Watch[T], plural: str, streams: Streams) -> None:
        self._watch, self._plural, self._streams = watch, plural, streams

    @property
    def resource_version(self) -> str:
        """Where the stream stands."""
        return self._watch.resource_version

    def __iter__(self) -> Iterator[Event[Any]]:
        return self._streams.tell(iter(self._watch), self._plural)

    def close(self) -> None:
        """End the stream."""
        self._watch.close()


class Mortal(Watched):
    """The API as a controller sees it that is going to die, and what becomes of its writes then."""

    bequeath: Callable[["Mortal", list[Write]], None]
    will = Will()
    assembly: Assembly
    streams: Streams

    def crash(self, commit: Any = None) -> None:
        """Crash the process now."""
        self.bequeath(self, list(self._under_way.values()))
        super().crash()

    def spare(self) -> None:
        """Not to crash after all."""
        self._crash_at = None

    def jump(self, seconds: float) -> None:
        """Its clock is wrong by so much from now on."""
        process, off = self._process, timedelta(seconds=seconds)

        def now() -> datetime:
            return process.stepped.now() + off

        process.now = now  # type: ignore[method-assign]

    def lead(self) -> None:
        """A standby takes over: first it makes sure that it knows what its predecessor knew."""
        self.contract.takes_over(self._process.name)
        self._process.start("takes over", self._take_over)

    def _take_over(self) -> None:
        for informer in self.assembly.informers:
            target = self._target(informer)
            while not informer.reach(target, 60.0):
                pass
        self.assembly.recorder.start()
        self.assembly.controller.start()

    def _target(self, informer: Informer[Any]) -> Target:
        while True:
            try:
                return informer.target()
            except ApiError:
                self._process.sleep(1.0)


class Hostile(Cluster):
    """A cluster on which everything may go wrong."""

    def __init__(self, seed: int, script: Script) -> None:
        World.__init__(self, seed)
        self.api.register(job_kind())
        self.undecodable = Undecodable(self.api)
        self.faults = FaultyApi(self.undecodable, sleep=self.stepped.process("faults").sleep)
        self.contract = self.oracle = Oracle(self.api, self.stepped.now)
        self.assemblies: list[Assembly] = []
        self.agenda = Agenda(self.stepped)
        self.node = Node(self, script, self.oracle)

    def begin(self, *, leads: bool) -> Mortal:
        """Start a controller, or a standby."""
        process, streams = self.stepped.process("controller"), Streams(self.faults, self.stepped)
        api = Mortal(streams, process)
        api.streams, api.contract = streams, self.contract
        api.assembly = assembly = self.assembly(api, api, process, _metrics())
        process.start("main", lambda: _begin(assembly, leads=leads))
        return api

    def assembly(self, api: Api, writes: Api, process: Process, metrics: Metrics) -> Assembly:
        """The parts of a controller."""
        made = Assembly(
            api, writes=writes, primitives=process, metrics=metrics, workers=WORKERS, writers=WRITERS, processor_time=lambda: 0.0
        )
        self.assemblies.append(made)
        return made

    def deliver(self, write: Write) -> None:
        """A write arrives whose sender is dead, or has given it up."""
        call, do = write
        self.stepped.note("a late write arrives")
        self.oracle.expect(call)
        try:
            do()
        except ApiError as error:
            self.stepped.note(f"and is refused: {error.code} {error.reason}")


def _begin(assembly: Assembly, *, leads: bool) -> None:
    if leads:
        assembly.start(timeout=PATIENCE)
        return
    for informer in assembly.informers:
        informer.start()


@cache
def _metrics() -> Metrics:
    """One for all: nobody reads them, and making them costs."""
    return Metrics()
