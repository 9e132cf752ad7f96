"""Play many schedules, on all processors, and tell what came of them.

With a state file a run can be interrupted and goes on where it was, unless the code has changed since. What fails is made small and printed
as Python, once per check.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from sim.chance.failing import smallest, told
from sim.chance.many import played, tried
from sim.chance.report import Tally, fingerprint, write

EVERY = 10.0
"""Seconds between two lines."""


def main() -> int:
    """Play, and say 1 if anything failed, 2 if there is nothing to go on with."""
    options = _options()
    tally = Tally(options.first, options.first, code=fingerprint())
    if options.state and options.state.exists():
        before, tally = tally.code, Tally.load(options.state.read_bytes())
        if tally.code != before:
            print(f"{options.state} is of another controller or simulation: remove it to begin anew", file=sys.stderr)
            return 2
    try:
        _go_on(tally, options)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    _save(tally, options)
    if options.shrink:
        for check in dict.fromkeys(failure.check for failure in tally.failures):
            _explain(min(failure.seed for failure in tally.failures if failure.check == check))
    return 1 if tally.failures else 0


def _go_on(tally: Tally, options: argparse.Namespace) -> None:
    begun, before, last = time.monotonic(), tally.count, tally.first + options.count
    shown = begun - EVERY
    for result in played(range(tally.next, last), options.processes):
        tally.add(result)
        tally.next = result["seed"] + 1
        if result["failure"]:
            print(f"seed {result['seed']}: {result['failure'].splitlines()[0]}", flush=True)
        if time.monotonic() - shown > EVERY or tally.next == last:
            shown = time.monotonic()
            rate = (tally.count - before) / (shown - begun)
            left = f"{(last - tally.next) / rate / 60:.0f} min left, next seed {tally.next}"
            print(f"{tally.count:,} schedules, {len(tally.failures)} failed, {rate:.1f}/s, {left}", flush=True)
            _save(tally, options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sim.chance", description="Random schedules: see docs/contract.md.")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--count", type=_positive, default=1_000, help="how many schedules (default: 1000)")
    parser.add_argument("--processes", type=_positive, default=os.cpu_count() or 1, help="how many at a time (default: all processors)")
    parser.add_argument("--state", type=Path, help="a file in which to keep the state, and from which to go on")
    parser.add_argument("--report", type=Path, help="a page to write, in Markdown; its picture is put beside it")
    parser.add_argument("--no-shrink", dest="shrink", action="store_false", help="do not make what fails as small as possible")
    options = parser.parse_args()
    for path in filter(None, (options.state, options.report)):
        if not path.parent.is_dir():
            parser.error(f"{path}: there is no directory {path.parent}")
    return options


def _positive(text: str) -> int:
    found = int(text)
    if found < 1:
        raise ValueError(text)
    return found


def _explain(seed: int) -> None:
    trial = tried(seed)
    if trial.failure:
        print(f"\n{told(trial, smallest(trial))}", flush=True)


def _save(tally: Tally, options: argparse.Namespace) -> None:
    if options.state:
        new = options.state.with_suffix(".new")
        new.write_bytes(tally.dump())
        new.replace(options.state)
    if options.report:
        write(tally, options.report)


if __name__ == "__main__":
    sys.exit(main())
