"""The table of all mutants: who is caught, by which check, where, and how soon."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from sim.cores import keep_to
from sim.mutants import MUTANTS, Mutant
from sim.mutants.trial import Report, put_on_trial_by_name

HEAD = "| mutant | clause | caught by | in | runs | seconds |", "|---|---|---|---|---|---|"
INTRODUCTION = """# Deliberate bugs

The controller is broken on purpose, in one place at a time, and the simulation is played until somebody notices: the scenarios that the
author of the bug thought of first, with two leaders and with a crash at every write, then all others, then random schedules. What failed
must pass with the controller as it is. Written by `make mutants`; the bugs themselves stand in `tests/sim/mutants`.
"""
WIDTH = 90
"""Longest text in a cell."""


def main() -> int:
    """Try all mutants, or some; 1 if one survives."""
    options = _options()
    if options.processes == 1:
        keep_to(0)
    chosen = [found for found in MUTANTS if not options.words or any(word in f"{found} {found.wrong}" for word in options.words)]
    if options.list:
        for found in chosen:
            print(f"{found}\n    {f'{found.clause}: ' if found.clause else ''}{found.wrong}")
        return 0
    began, missed, table = time.monotonic(), [], list(HEAD)
    print("\n".join(HEAD))
    for found, report in zip(chosen, _tried(chosen, options), strict=True):
        table.append(_line(found, report))
        print(table[-1], flush=True)
        if not report.caught:
            missed.append(f"NOT CAUGHT: {found}: {found.wrong} ({report.trouble})")
    caught = f"{len(chosen) - len(missed)} of {len(chosen)} mutants are caught"
    print(f"\n{caught}, in {time.monotonic() - began:.0f} s")
    print("\n".join(missed))
    if options.report and not options.words:
        options.report.write_text("\n".join((INTRODUCTION, f"{caught}.", "", *table, "")))
    return 1 if missed or not chosen else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m sim.mutants", description="Show that each deliberate bug is caught.")
    parser.add_argument("words", nargs="*", help="only mutants that have one of these in their names or sentences")
    parser.add_argument("--runs", type=int, default=1000, help="most runs per mutant (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="mutants that are tried at the same time (default: %(default)s)")
    parser.add_argument("--chance", action="store_true", help="only random schedules, to see what they are worth by themselves")
    parser.add_argument("--report", type=Path, help="a page to write when all were tried, in Markdown")
    parser.add_argument("--list", action="store_true", help="say what there is, and try nothing")
    return parser.parse_args()


def _tried(mutants: Sequence[Mutant], options: argparse.Namespace) -> Iterator[Report]:
    trial = partial(put_on_trial_by_name, most=options.runs, chance=options.chance)
    if options.processes == 1:
        yield from map(trial, map(str, mutants))
        return
    # A CONTROLLER'S CODE IS EXCHANGED: no two mutants in one process at a time.
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(trial, map(str, mutants))


def _line(found: Mutant, report: Report) -> str:
    check = report.check if report.caught else f"NOT CAUGHT: {report.trouble}"
    return f"| {found} | {found.clause or '-'} | {_short(check)} | {_short(report.where)} | {report.runs} | {report.seconds:.1f} |"


def _short(text: str) -> str:
    text = text.replace("|", "/")
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


if __name__ == "__main__":
    sys.exit(main())
