"""Who has to be tested together when several processes run tests: all who share a control plane."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
REAL = ("e2e", "conformance")
"""Levels of tests that need control planes."""


def lane(test: pytest.Item) -> str:
    """The name of its lane; empty if it does not matter who runs it."""
    if not test.path.is_relative_to(TESTS):
        return ""
    level = test.path.relative_to(TESTS).parts[0]
    asked: list[str] = getattr(test, "fixturenames", [])
    if level not in REAL or _world(test) in ("memory", "served"):
        return ""
    if "controller" in asked:
        return "controller"
    return "cluster" if level == "conformance" or "cluster" in asked else test.path.stem


def _world(test: pytest.Item) -> str:
    """The implementation of the port that a test of conformance is about; empty for all other tests."""
    made = getattr(test, "callspec", None)
    return str(made.params.get("world", "")) if made else ""
