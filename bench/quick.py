"""One job of many ranks: the controller against the bare limit, in interleaved pairs on one server.

    make bench-quick

Both are programs of their own and create the same pods. The bare one (`bench/bare.py`) gets ready bodies and posts them on 8 connections
with one watch open; the controller gets a GenericJob. A third party asks the server how many pods there are, every 25 ms, the same way for
both: from the moment of the request until the last pod exists.

With `--against COMMIT` the other contender is the controller of that commit: `bench/against.py`.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.against import LEAST_PAIRS, ROOT, Comparison, UnknownCommitError, checked_out, environment
from bench.port import fresh_namespace
from cluster.plane import Plane
from genericjob.api.names import JobIdentity
from genericjob.api.spec import parse
from genericjob.jobs.pods import compile_pods
from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.resources import RAW_PODS
from harness.controllers import ControllerProcess
from harness.definitions import GENERIC_JOBS, install

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-controller.md"
PAIRS = 5
LOOK_EVERY = 0.025
SETTLE = 3.0
"""Seconds for the server to calm down before each round."""
PATIENCE = 300.0

console = Console(stderr=True)


@dataclass(frozen=True)
class Round:
    """One contender, once."""

    seconds: float
    cpu: float
    """Seconds of processor time of the contender's process, from the request until a second after the last pod."""
    writes: float = 0
    status_writes: float = 0
    resident: int = 0


def main() -> int:
    options = command_line()
    asked = options.parse_args()
    with ExitStack() as opened:
        try:
            old = opened.enter_context(checked_out(asked.against)) if asked.against else None
        except UnknownCommitError as error:
            options.error(str(error))
        plane = opened.enter_context(Plane.up(f"bench-{os.getpid()}", owner=os.getpid()))
        bench = Bench(plane, Path(opened.enter_context(tempfile.TemporaryDirectory())), asked.ranks)
        if old:
            compared = Comparison(taken_turns(bench.ours, partial(bench.ours, old), number_of_pairs(asked), asked.ranks), asked.ranks)
            print("\n".join(compared.lines(asked.against)))
            return int(compared.slower)
        pairs = taken_turns(bench.ours, bench.bare, number_of_pairs(asked), asked.ranks)
    text = page(pairs, asked.ranks)
    if asked.no_page:
        console.print(text)
    else:
        PAGE.write_text(text)
        console.print(f"written: docs/{PAGE.name}")
    return 0


def command_line() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, default=1000)
    options.add_argument("--pairs", type=int, help=f"default: 5, and {LEAST_PAIRS} with --against")
    options.add_argument("--no-page", action="store_true", help="print the result only")
    options.add_argument(
        "--against", metavar="COMMIT", help="compare with the controller of a commit instead; exit code 1 if that needs less"
    )
    return options


def number_of_pairs(asked: argparse.Namespace) -> int:
    """How many pairs to measure, unless a number was asked for: another commit is judged, so that needs more."""
    return int(asked.pairs or (LEAST_PAIRS if asked.against else PAIRS))


def taken_turns(ours: Callable[[], Round], other: Callable[[], Round], pairs: int, ranks: int) -> list[tuple[Round, Round]]:
    """Measure pairs, in alternating order, and one before them to warm up."""
    found, begin = [], time.monotonic()
    for number in range(pairs + 1):
        order = (ours, other) if number % 2 else (other, ours)
        rounds = {contender: contender() for contender in order}
        mine, theirs = rounds[ours], rounds[other]
        told = f"{mine.seconds:.2f} s to {theirs.seconds:.2f} s, ratio {mine.seconds / theirs.seconds:.2f}"
        per_rank = f"{mine.cpu / ranks * 1e3:.3f} to {theirs.cpu / ranks * 1e3:.3f} ms per rank, ratio {mine.cpu / theirs.cpu:.2f}"
        left = (time.monotonic() - begin) / (number + 1) * (pairs - number) / 60
        console.print(f"pair {f'{number} of {pairs}' if number else 'to warm up'}: {told}; {per_rank}; about {left:.0f} min left")
        if number:
            found.append((mine, theirs))
    return found


class Bench:
    """A server, and the two contenders on it."""

    def __init__(self, plane: Plane, directory: Path, ranks: int) -> None:
        self._plane, self._directory, self._ranks = plane, directory, ranks
        self._api = HttpApi(from_kubeconfig(str(plane.kubeconfig)), timeouts=Timeouts(write=120))
        install(self._api)

    def ours(self, package: Path = ROOT) -> Round:
        """Measure the controller whose package is in a directory."""
        namespace = fresh_namespace(self._api)
        log = self._directory / "controller.log"
        with ControllerProcess(self._plane.kubeconfig, log, directory=package, environment=environment(package)) as process:
            process.wait_ready()
            before = requests(process)
            found = self._measure(namespace, process.pid, lambda: self._api.create(GENERIC_JOBS, job(self._ranks), namespace))
            after = requests(process)
            writes = {method: after.get(method, 0) - before.get(method, 0) for method in ("POST", "PUT", "PATCH", "DELETE")}
            resident = process.usage()[1]
            process.terminate()
        self._clean(namespace)
        return Round(found.seconds, found.cpu, sum(writes.values()), writes["PUT"], resident)

    def bare(self) -> Round:
        namespace = fresh_namespace(self._api)
        # PODS WITHOUT A LIVING OWNER WOULD BE COLLECTED; nobody acts on this job, because no controller runs now.
        owner = self._api.create(GENERIC_JOBS, job(self._ranks), namespace).object
        sent = self._directory / "bodies"
        sent.write_bytes(b"\n".join(bodies(owner, self._ranks)))
        command = [sys.executable, "-m", "bench.bare", str(self._plane.kubeconfig), namespace, str(sent)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - for the type checker
            process.stdout.readline()

            def go() -> None:
                assert process.stdin is not None
                process.stdin.write("go\n")
                process.stdin.flush()

            found = self._measure(namespace, process.pid, go)
            process.stdin.close()
        self._clean(namespace)
        return found

    def _measure(self, namespace: str, pid: int, go: Callable[[], object]) -> Round:
        time.sleep(SETTLE)
        cpu, begin = processor_time(pid), time.monotonic()
        go()
        while self._count(namespace) < self._ranks:
            if time.monotonic() - begin > PATIENCE:
                raise RuntimeError(f"after {PATIENCE:g} s there are {self._count(namespace)} of {self._ranks} pods")
            time.sleep(LOOK_EVERY)
        seconds = time.monotonic() - begin
        time.sleep(1.0)  # what a controller has to say afterwards belongs to its costs
        return Round(seconds, processor_time(pid) - cpu)

    def _count(self, namespace: str) -> int:
        found = self._api.list(RAW_PODS, namespace, limit=1)
        return len(found.items) + (found.remaining or 0)

    def _clean(self, namespace: str) -> None:
        self._api.request("DELETE", GENERIC_JOBS.path(namespace), body={"propagationPolicy": "Orphan"})
        self._api.request("DELETE", RAW_PODS.path(namespace), body={"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        while self._count(namespace):
            time.sleep(0.2)


def job(ranks: int) -> dict[str, Any]:
    """A job as people write them; its pods wait for a scheduler that nobody runs."""
    env = [{"name": f"SETTING_{n}", "value": f"value {n}"} for n in range(5)] + [{"name": "RANK", "value": "$(rank)"}]
    command = ["python", "train.py", "--rank=$(rank)", "--world=$(replicas[worker])"]
    main = {"name": "main", "image": "registry.example/train:1", "command": command, "env": env}
    template = {"spec": {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": [main]}}
    spec = {"successRules": [{"worker": [0]}], "replicaSpecs": [{"type": "worker", "replicas": ranks, "template": template}]}
    return {"apiVersion": GENERIC_JOBS.api_version, "kind": GENERIC_JOBS.kind, "metadata": {"name": "train"}, "spec": spec}


def bodies(owner: dict[str, Any], ranks: int) -> list[bytes]:
    """What the controller would send."""
    meta = owner["metadata"]
    identity = JobIdentity(meta["namespace"], meta["name"], meta["uid"])
    compiled = compile_pods(
        job=identity,
        spec=parse(owner["spec"]),
        type="worker",
        resumed=False,
        host=lambda _, rank: str(rank),
        markers=("rank", "epoch", "attempt", "charged"),
    )
    return [compiled.body(rank, epoch=0, attempt=0, charged=0) for rank in range(ranks)]


def processor_time(pid: int) -> float:
    """Seconds of processor time of all threads that live, from the scheduler's own books (10 ms ticks are too coarse)."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def requests(process: ControllerProcess) -> dict[str, float]:
    """Requests of the controller by method, as its metrics say."""
    found: dict[str, float] = {}
    for line in process.page("/metrics").splitlines():
        if line.startswith("rest_client_requests_total{"):
            method = line.split('method="')[1].split('"')[0]
            found[method] = found.get(method, 0) + float(line.rsplit(" ", 1)[1])
    return found


def page(pairs: list[tuple[Round, Round]], ranks: int) -> str:
    ratios = [ours.seconds / bare.seconds for ours, bare in pairs]
    cpu = [ours.cpu / ranks * 1e3 for ours, _ in pairs]
    bare_cpu = [bare.cpu / ranks * 1e3 for _, bare in pairs]
    rows = "\n".join(
        f"| {number} | {ours.seconds:.2f} | {bare.seconds:.2f} | {ours.seconds / bare.seconds:.2f} | {ours.cpu / ranks * 1e3:.3f} "
        f"| {bare.cpu / ranks * 1e3:.3f} | {ours.writes / ranks:.3f} | {ours.status_writes:.0f} | {ours.resident / 2**20:.0f} |"
        for number, (ours, bare) in enumerate(pairs, 1)
    )
    return f"""# The controller against the bare limit

Written by `make bench-quick`; do not edit. {platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()};
contender, API server, etcd and controller manager share the cores.

One job of {ranks:,} ranks: the time from its creation until all pods exist. The bare limit is a loop that posts the same pods, ready
made, on 8 connections, with one watch on them open, and does nothing else. {len(pairs)} interleaved pairs.

| what | median | spread | aim |
|---|---:|---:|---:|
| time, ours : bare limit | {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} | ≤ 1.2 |
| pods per second, ours | {ranks / statistics.median(ours.seconds for ours, _ in pairs):,.0f} | | |
| pods per second, bare limit | {ranks / statistics.median(bare.seconds for _, bare in pairs):,.0f} | | |
| processor time per rank, ours | {statistics.median(cpu):.3f} ms | {min(cpu):.3f} to {max(cpu):.3f} | ≤ 0.4 ms |
| processor time per rank, bare limit | {statistics.median(bare_cpu):.3f} ms | {min(bare_cpu):.3f} to {max(bare_cpu):.3f} | |
| writes per rank | {statistics.median(ours.writes for ours, _ in pairs) / ranks:.3f} | | 1 |
| resident memory, MiB | {statistics.median(ours.resident for ours, _ in pairs) / 2**20:.0f} | | |

| pair | ours, s | bare, s | ratio | ours, ms per rank | bare, ms per rank | writes per rank | status writes | MiB |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|
{rows}
"""


if __name__ == "__main__":
    sys.exit(main())
