"""What a rank costs under `genericjob run`, beside the bare limit: the same programs, started one by one and waited for. And how many
lines per second can be printed.

    python -m bench.engine
    python -m bench.engine --lines-only         prints the lines per second, and leaves the page as it is

Processor time is that of the whole tree of processes, the programs too, as the kernel adds it up when a process is waited for. Each
contender runs once with many ranks and once with one; the difference is what ranks cost, and beginning and end are not in it. For memory
all ranks live at once: they wait for a file that is opened when the last one is there.

For lines, two ranks print a million short lines each as fast as they can, and the output of the run goes into a pipe that is read to its
end, as it is and with `-o json`. The time is that of the whole run without that of a run whose ranks print one line.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-engine.md"
PATIENCE = 300.0
NO_OP = ["/bin/true"]
LINE = "epoch 7 step 1234: loss 0.4711"
PRINTERS = 2
AIM = 200_000
"""Lines per second."""
SHOWN = {"lines": ("--plain",), "JSON": ("-o", "json")}
T = TypeVar("T")

BARE = """
import sys
from subprocess import DEVNULL, PIPE, STDOUT, run
for _ in range(int(sys.argv[1])):
    run(sys.argv[2:], stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True, check=True)
"""

console = Console(stderr=True)


@dataclass(frozen=True)
class Cost:
    """A contender, from its start to its end."""

    seconds: float
    cpu: float

    def per_rank(self, one: "Cost", ranks: int) -> "Cost":
        """What each rank but the first has added."""
        return Cost((self.seconds - one.seconds) / (ranks - 1), (self.cpu - one.cpu) / (ranks - 1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--ranks", type=int, default=1000)
    options.add_argument("--pairs", type=int, default=5)
    options.add_argument("--lines", type=int, default=1_000_000, help="how many each of two ranks prints")
    options.add_argument("--lines-only", action="store_true", help="measure and print the lines per second only")
    options.add_argument("--no-page", action="store_true", help="print the result only")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), asked.ranks)
        rates = {name: [bench.rate(asked.lines, *how) for _ in range(asked.pairs)] for name, how in SHOWN.items()}
        for name, each in rates.items():
            console.print(f"{name}: {statistics.median(each):,.0f} lines per second ({min(each):,.0f} to {max(each):,.0f})")
        if asked.lines_only:
            return
        pairs = []
        for number in range(asked.pairs + 1):
            first, second = (bench.ours, bench.bare) if number % 2 else (bench.bare, bench.ours)
            found = {first: first(), second: second()}
            ours, bare = found[bench.ours], found[bench.bare]
            told = f"ours {ours.cpu * 1e3:.2f} ms per rank, bare {bare.cpu * 1e3:.2f} ms"
            console.print(f"pair {number or 'to warm up'}: {told}")
            if number:
                pairs.append((ours, bare))
        memory = bench.memory()
    text = page(pairs, memory, asked.ranks, rates, asked.lines)
    if asked.no_page:
        console.print(text)
    else:
        PAGE.write_text(text)
        console.print(f"written: docs/{PAGE.name}")


class Bench:
    """The two contenders."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self._directory, self._ranks = directory, ranks

    def ours(self) -> Cost:
        many, one = (measured(_run(self._manifest(NO_OP, ranks))) for ranks in (self._ranks, 1))
        return many.per_rank(one, self._ranks)

    def bare(self) -> Cost:
        many, one = (measured([sys.executable, "-c", BARE, str(ranks), *NO_OP]) for ranks in (self._ranks, 1))
        return many.per_rank(one, self._ranks)

    def rate(self, lines: int, *options: str) -> float:
        """Lines per second that two ranks print into a pipe."""
        many, one = (self._printed(count, *options) for count in (lines, 1))
        return PRINTERS * (lines - 1) / (many - one)

    def _printed(self, lines: int, *options: str) -> float:
        command = ["sh", "-c", f"yes '{LINE}' | head -n {lines}"]
        with tempfile.TemporaryDirectory(dir=self._directory) as logs:
            return self._read([*_run(self._manifest(command, PRINTERS)), "--logs", logs, *options], PRINTERS * lines)

    def _read(self, command: Sequence[str], lines: int) -> float:
        begin, found = time.monotonic(), 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as run:
            while data := os.read(run.stdout.fileno(), 1 << 20) if run.stdout else b"":
                found += data.count(b"\n")
        if run.returncode or found < lines:
            raise RuntimeError(f"the run ended with {run.returncode} after {found} lines")
        return time.monotonic() - begin

    def memory(self) -> float:
        """Bytes that each rank takes in the processes of the run while all are alive."""
        many, one = (self._resident(ranks) for ranks in (self._ranks, 1))
        return (many - one) / (self._ranks - 1)

    def _resident(self, ranks: int) -> int:
        gate = self._directory / f"gate-{ranks}"
        os.mkfifo(gate)
        with subprocess.Popen(_run(self._manifest(["/bin/cat", str(gate)], ranks)), stdout=subprocess.DEVNULL) as run:
            own = eventually(lambda: chain(run.pid))
            eventually(lambda: len(children(own[-1])) == ranks)
            time.sleep(1.0)  # what is said about the last ones belongs to them
            found = sum(map(resident, own))
            gate.write_bytes(b"")
        if run.returncode:
            raise RuntimeError(f"the run ended with {run.returncode}")
        return found

    def _manifest(self, command: Sequence[str], ranks: int) -> Path:
        file = self._directory / "job.json"
        file.write_text(json.dumps(job(command, ranks)))
        return file


def _run(manifest: Path) -> list[str]:
    return [sys.executable, "-m", "genericjob.cli", "run", str(manifest)]


def job(command: Sequence[str], ranks: int) -> dict[str, Any]:
    main = {"name": "main", "image": "none", "command": list(command)}
    spec = {"replicaSpecs": [{"type": "worker", "replicas": ranks, "template": {"spec": {"containers": [main]}}}]}
    return {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "metadata": {"name": "bench"}, "spec": spec}


def measured(command: Sequence[str]) -> Cost:
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return Cost(time.monotonic() - begin, usage.ru_utime + usage.ru_stime)


def chain(runner: int) -> list[int]:
    """The runner, the process behind the warden, and the warden; empty as long as one is missing."""
    found = [runner]
    while len(found) < 3:
        below = [pid for pid in children(found[-1]) if b"warden.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        if not below:
            return []
        found += below
    return found


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def resident(pid: int) -> int:
    """Bytes; what several processes share is divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the kernel does not say what process {pid} takes")


def eventually(ask: Callable[[], T]) -> T:
    end = time.monotonic() + PATIENCE
    while not (found := ask()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {PATIENCE:g} s")
        time.sleep(0.05)
    return found


def page(pairs: list[tuple[Cost, Cost]], memory: float, ranks: int, rates: Mapping[str, list[float]], lines: int) -> str:
    ours, bare = [pair[0].cpu * 1e3 for pair in pairs], [pair[1].cpu * 1e3 for pair in pairs]
    added = [one - other for one, other in zip(ours, bare, strict=True)]
    seconds = [statistics.median(pair[side].seconds for pair in pairs) * ranks for side in (0, 1)]
    rows = "\n".join(
        f"| {number} | {pair[0].cpu * 1e3:.2f} | {pair[1].cpu * 1e3:.2f} | {pair[0].seconds * ranks:.1f} | {pair[1].seconds * ranks:.1f} |"
        for number, pair in enumerate(pairs, 1)
    )
    printed = "\n".join(
        f"| {name} | {statistics.median(found):,.0f} | {min(found):,.0f} to {max(found):,.0f} | ≥ {AIM:,} |"
        for name, found in rates.items()
    )
    return f"""# What a rank costs under `genericjob run`

Written by `python -m bench.engine`; do not edit. {platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}.

A job of {ranks:,} ranks that do nothing (`{" ".join(NO_OP)}`), against the bare limit: the same programs, started one by one by a loop
that does nothing else. Processor time is that of all processes together, the programs too. {len(pairs)} interleaved pairs.

| what, per rank | median | spread | aim |
|---|---:|---:|---:|
| processor time, ours | {statistics.median(ours):.2f} ms | {min(ours):.2f} to {max(ours):.2f} | |
| processor time, bare limit | {statistics.median(bare):.2f} ms | {min(bare):.2f} to {max(bare):.2f} | |
| processor time that the engine adds | {statistics.median(added):.2f} ms | {min(added):.2f} to {max(added):.2f} | ≤ 5 ms |
| memory of the engine, all ranks alive | {memory / 1024:.0f} KB | | ≤ 200 KB |

From the first rank to the last: {seconds[0]:.1f} s, bare limit {seconds[1]:.1f} s.

| pair | ours, ms per rank | bare, ms per rank | ours, s | bare, s |
|---:|---:|---:|---:|---:|
{rows}

## How fast output is shown

{PRINTERS} ranks print {lines:,} lines of {len(LINE)} characters each with `yes | head`. All of it is written to log files,
and the output of the run to a pipe that is read to its end. The time of a run whose ranks print one line is subtracted.
Measured {len(next(iter(rates.values())))} times.

| what the run prints | lines per second, median | spread | aim |
|---|---:|---:|---:|
{printed}
"""


if __name__ == "__main__":
    main()
