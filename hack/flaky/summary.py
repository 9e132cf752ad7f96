"""The table in the end: a line for each file of tests, and each test that has failed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from flaky.record import Record, Runs

HEAD = ("FILE", "TESTS", "RUNS", "FAILED", "SLOWEST")


def summary(record: Record, wanted: Mapping[str, int]) -> Iterator[str]:
    """Lines that say what came of the tests that were wanted."""
    files: dict[str, list[Runs]] = defaultdict(list)
    for test in sorted(wanted):
        files[test.partition("::")[0]].append(record.tests.get(test, Runs()))
    rows = [HEAD, *(_row(name, found) for name, found in files.items()), _row("all", [runs for found in files.values() for runs in found])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        yield "  ".join((name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True))))
    yield from _failures(record, wanted)


def _row(name: str, found: Iterable[Runs]) -> tuple[str, ...]:
    found = [runs for runs in found if runs.count]
    slowest = max((max(runs.seconds) for runs in found), default=0.0)
    sums = (len(found), sum(runs.count for runs in found), sum(len(runs.failures) for runs in found))
    return (name, *(f"{number:,}" for number in sums), f"{slowest:.1f} s")


def _failures(record: Record, wanted: Mapping[str, int]) -> Iterator[str]:
    failed = {test: record.tests[test] for test in sorted(wanted) if test in record.tests and record.tests[test].failures}
    if failed:
        yield ""
    for test, runs in failed.items():
        yield f"FAILED {len(runs.failures)} of {runs.count}: {test}"
        yield f"    {record.failures / runs.failures[0]}"
