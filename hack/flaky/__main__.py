"""The command line: `python -m flaky` with `hack` on the path, or `make flaky OPTIONS=…`."""

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from cluster.progress import Progress
from flaky import FlakyError
from flaky.busy import busy
from flaky.packs import Case, packed, wanted
from flaky.record import Record, fingerprint
from flaky.summary import summary
from flaky.testers import Tester, collected, testing

ROOT = Path(__file__).resolve().parents[2]
SECONDS = ".pytest_cache/v/genericjob/seconds"
"""How long each test took when it ran last: `tests/conftest.py` keeps it."""
ENOUGH_KNOWN = 0.9
"""Part of the tests whose seconds must be known to say which are the slowest."""


def main(argv: list[str] | None = None) -> int:
    """Repeat tests; 0 if none failed, 1 if one did, 2 if there is nothing to go on with."""
    options = _options(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return _run(options)
    except KeyboardInterrupt:
        print("flaky: interrupted; the same command continues", file=sys.stderr)
        return 130
    except (FlakyError, OSError) as problem:
        print(f"flaky: {problem}", file=sys.stderr)
        return 2


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Leave as after Ctrl-C, through every clean-up."""
    raise SystemExit(128 + number)


def _run(options: argparse.Namespace) -> int:
    if options.anew:
        shutil.rmtree(options.state, ignore_errors=True)
    record = Record(options.state, fingerprint(options.root))
    progress = Progress()
    progress.say("collecting the tests")
    tests = [test for test in collected(options.root, options.state) if options.only in test.name]
    if options.slowest and len(tests) * ENOUGH_KNOWN > len(_seconds(tests, record, options.root).keys() & {test.name for test in tests}):
        progress.say(f"each of {len(tests):,} tests once, to find the slowest; `make test` before makes this unnecessary")
        _repeat(tests, {test.name: 1 for test in tests}, record, progress, options)
    plan = wanted(tests, _seconds(tests, record, options.root), times=options.times, slowest=options.slowest, slow_times=options.slow_times)
    if not plan:
        raise FlakyError(f"no test that is marked or slow has {options.only!r} in its name")
    progress.say(f"{len(plan):,} tests, {sum(plan.values()):,} runs, beside {options.busy} busy processes")
    _repeat(tests, plan, record, progress, options)
    print("\n".join(summary(record, plan)))
    return 1 if any(record.tests[test].failures for test in plan) else 0


def _seconds(tests: list[Case], record: Record, root: Path) -> dict[str, float]:
    """How long tests take, by what is kept from other runs of pytest and by our own."""
    kept: dict[str, float] = json.loads((root / SECONDS).read_text()) if (root / SECONDS).exists() else {}
    found = {test.name: kept[name] for test in tests for name in (test.name, f"{test.name}@{test.lane}") if name in kept}
    return found | {test: runs.usual for test, runs in record.tests.items()}


def _repeat(tests: list[Case], plan: Mapping[str, int], record: Record, progress: Progress, options: argparse.Namespace) -> None:
    seconds = _seconds(tests, record, options.root)

    def left() -> dict[str, int]:
        return {test: number - record.tests[test].count for test, number in plan.items() if number > record.tests[test].count}

    def work() -> float:
        return sum(seconds.get(test, 1.0) * number for test, number in left().items())

    begun, before, failed = time.monotonic(), work(), record.failed
    with busy(options.busy):
        while packs := packed(tests, left(), seconds, most=2 * options.testers):
            done = record.runs
            with testing(packs, record, options.root, at_a_time=options.testers) as states:
                for working in states:
                    progress.show(_told(record, sum(left().values()), work(), before, time.monotonic() - begun, working))
                    if record.failed > failed:
                        failed = record.failed
                        progress.say(f"{failed} failed so far: see {record.failures}")
            if record.runs == done:
                raise FlakyError(f"no test has run: see {record.logs}")
    progress.close()


def _told(record: Record, runs: int, work: float, before: float, elapsed: float, working: list[Tester]) -> str:
    rate = (before - work) / elapsed if elapsed else 0.0
    minutes = f"about {work / rate / 60:.0f} min" if rate > 0 else "some time"
    now = next((tester.at for tester in working if tester.at), "")
    return f"{runs:,} runs left, {record.failed} failed, {minutes} left; now {now.rpartition('/')[2][:60]}"


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m flaky",
        description="Repeat tests beside busy processes: those marked `processes`, and the slowest. An interrupted run continues where it "
        "was. Exit code 1 if a test has failed; what it printed is kept.",
    )
    parser.add_argument("--times", type=int, default=50, help="runs of each test that is marked (default: %(default)s)")
    parser.add_argument(
        "--slowest", type=int, default=20, metavar="N", help="how many of the slowest tests to repeat (default: %(default)s)"
    )
    parser.add_argument("--slow-times", type=int, default=10, metavar="TIMES", help="runs of each of those (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only tests with this in their names")
    parser.add_argument("--busy", type=int, default=4, metavar="N", help="busy processes beside them (default: %(default)s)")
    parser.add_argument("--testers", type=int, default=4, metavar="N", help="pytest processes at a time (default: %(default)s)")
    parser.add_argument("--state", type=Path, default=ROOT / ".flaky", metavar="DIR", help="where results are kept (default: .flaky)")
    parser.add_argument("--anew", action="store_true", help="forget the results that are there")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
