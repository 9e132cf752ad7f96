"""A plugin for pytest: lists all tests, or runs those of a plan, each as often as the plan says, in rounds.

Between two rounds everything but session fixtures is torn down, so that a test finds what it finds
in a run of its own; the control plane that most tests share is started once. Every result is
written down at once.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flaky.record import append, failure

MARK = "processes"
"""Tests that involve signals, terminals or processes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("flaky", "repeat tests (hack/flaky)")
    group.addoption("--flaky-list", type=Path, help="write all tests into this file, as JSON, and run none")
    group.addoption("--flaky-plan", type=Path, help="run the tests of this JSON file: how often each")
    group.addoption("--flaky-record", type=Path, help="directory for the results")
    group.addoption("--flaky-at", type=Path, help="file for the name of the test that runs")


def pytest_configure(config: pytest.Config) -> None:
    """Begin."""
    if config.option.flaky_plan:
        plan: dict[str, int] = json.loads(config.option.flaky_plan.read_text())
        config.pluginmanager.register(Repeating(plan, config.option.flaky_record, config.option.flaky_at), "flaky-repeating")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down which tests there are."""
    if session.config.option.flaky_list:
        from harness.lanes import lane  # of the tests, and not there before pytest is

        found = [{"test": item.nodeid, "lane": lane(item), "marked": item.get_closest_marker(MARK) is not None} for item in session.items]
        session.config.option.flaky_list.write_text(json.dumps(found))


class BetweenRounds(pytest.Item):
    """Stands for the next test at the end of a round: pytest keeps what that shares with the last one, which is the session."""

    def runtest(self) -> None:
        """Never called."""


class Repeating:
    """Runs a plan."""

    def __init__(self, plan: dict[str, int], directory: Path, at: Path) -> None:
        self._plan, self._directory, self._at = plan, directory, at
        self._parent = os.getppid()
        self._seconds, self._failed = 0.0, ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what is not in the plan."""
        items[:] = [item for item in items if item.nodeid in self._plan]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the rounds."""
        order = list(self._order(session))
        for item, following in zip(order, [*order[1:], None], strict=True):
            if isinstance(item, BetweenRounds):
                continue
            if os.getppid() != self._parent:
                raise session.Interrupted("the program that has started this one is gone")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        return True

    def _order(self, session: pytest.Session) -> Iterator[pytest.Item]:
        between = BetweenRounds.from_parent(session, name="between two rounds")
        for number in range(max(self._plan.values(), default=0)):
            if number:
                yield between
            yield from (item for item in session.items if self._plan[item.nodeid] > number)

    # -------------------------------------------------------------------------------------------- results

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note what runs now, for the case that nothing is heard of it again."""
        self._at.write_text(nodeid)
        self._seconds, self._failed = 0.0, ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one of the three parts of a test."""
        self._seconds += report.duration
        if report.failed:
            parts: list[Any] = [f"=== {report.when}", report.longreprtext]
            parts += [f"--- {title}\n{text}" for title, text in report.sections]
            self._failed += "\n".join(parts) + "\n"

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Write the result down."""
        failed = failure(self._directory / "failures", nodeid, self._failed) if self._failed else ""
        append(self._directory / "results.jsonl", {"test": nodeid, "seconds": round(self._seconds, 3), "failed": failed})
        self._at.write_text("")
