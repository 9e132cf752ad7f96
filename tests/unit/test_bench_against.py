"""Old code against new: which package runs, and what ratios say."""

import math
import random
import statistics
import subprocess
import sys
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from bench.against import Comparison, UnknownCommitError, check_origin, checked_out, environment, estimate, interval_rank
from bench.quick import Round, command_line, number_of_pairs, taken_turns

pytestmark = pytest.mark.processes


class Costs(NamedTuple):
    seconds: float
    cpu: float


@pytest.mark.parametrize(
    ("count", "rank"), [(1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8), (30, 10), (40, 14), (100, 40)]
)
def test_the_interval_of_a_median_is_that_of_the_tables(count, rank):
    """Of the sign test: the largest rank whose two tails have at most 5 % together."""
    assert interval_rank(count) == rank


def test_few_ratios_have_no_interval():
    found = estimate([1.0, 1.1, 0.9])
    assert (found.median, found.low, found.high) == (1.0, -math.inf, math.inf)


def test_twenty_ratios_have_the_sixth_from_both_ends():
    ratios = [1 + number / 100 for number in range(20)]
    random.Random(1).shuffle(ratios)
    found = estimate(ratios)
    assert (found.median, found.low, found.high) == pytest.approx((1.095, 1.05, 1.14))
    assert str(found) == "1.095 (1.050 to 1.140)"


def test_one_round_that_was_disturbed_does_not_count():
    assert estimate([1.0] * 19 + [100.0]).median == 1.0


@given(some.lists(some.floats(0.5, 2.0), min_size=6, max_size=60))
def test_an_interval_has_its_median(ratios):
    found = estimate(ratios)
    assert min(ratios) <= found.low <= found.median <= found.high <= max(ratios)


def test_the_interval_covers_the_true_median_of_a_lopsided_distribution_often_enough():
    chance, covered = random.Random(2), 0
    for _ in range(2_000):
        found = estimate([chance.lognormvariate(0, 0.5) for _ in range(20)])
        covered += found.low <= 1.0 <= found.high
    assert covered / 2_000 >= 0.95


@pytest.mark.parametrize(("factor", "slower"), [(1.0, False), (1.04, False), (1.08, True), (0.8, False)])
def test_new_code_is_slower_only_if_it_certainly_is(factor, slower):
    chance = random.Random(3)
    pairs = [(Costs(2.0, factor * chance.uniform(0.99, 1.01)), Costs(2.0, 1.0)) for _ in range(20)]
    found = Comparison(pairs, 1000)
    assert found.slower is slower
    assert found.cpu.median == pytest.approx(factor, abs=0.01)
    assert found.seconds.median == 1.0
    *table, verdict = found.lines("abc")
    assert "processor time per rank, ms" in table[2]
    assert verdict.startswith("MORE THAN ACCEPTED" if slower else "accepted")


def test_a_noisy_machine_is_no_proof():
    noisy = [(Costs(2.0, 0.6 + number / 19), Costs(2.0, 1.0)) for number in range(20)]
    found = Comparison(noisy, 1000)
    assert found.cpu.median > 1.05
    assert found.cpu.low <= 1.0
    assert not found.slower


def test_few_pairs_prove_nothing():
    found = Comparison([(Costs(2.0, 2.0), Costs(2.0, 1.0))] * 19, 1000)
    assert found.cpu.low == 2.0
    assert not found.slower
    assert list(found.lines("abc"))[-1] == "fewer than 20 pairs: a trial, no measurement"


@pytest.mark.parametrize(
    ("words", "pairs"), [((), 5), (("--against", "abc"), 20), (("--against", "abc", "--pairs", "3"), 3), (("--pairs", "7"), 7)]
)
def test_another_commit_is_judged_by_twenty_pairs(words, pairs):
    assert number_of_pairs(command_line().parse_args(words)) == pairs


def test_contenders_take_turns_and_their_first_rounds_do_not_count():
    rounds = []

    def contender(name):
        def measure():
            rounds.append(name)
            return Round(seconds=len(rounds), cpu=1.0)

        return measure

    found = taken_turns(contender("ours"), contender("other"), 3, ranks=10)
    assert rounds == ["other", "ours", "ours", "other", "other", "ours", "ours", "other"]
    assert [(ours.seconds, other.seconds) for ours, other in found] == [(3, 4), (6, 5), (7, 8)]


def test_figures_are_medians_per_rank():
    pairs = [(Costs(seconds, cpu), Costs(2 * seconds, 2 * cpu)) for seconds, cpu in ((1.0, 0.4), (2.0, 0.6), (3.0, 0.5))]
    found = Comparison(pairs, 1000)
    assert statistics.median(new.cpu / old.cpu for new, old in pairs) == found.cpu.median == found.seconds.median == 0.5
    text = "\n".join(found.lines("abc"))
    assert "0.500     1.000   0.500 (-inf to inf)" in text
    assert "fewer than 20 pairs" in text


@pytest.fixture
def repository(tmp_path):
    """A repository with two commits of a package."""

    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        return subprocess.run(["git", "-C", tmp_path, *who, *words], check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "genericjob").mkdir()
    for age in ("old", "new"):
        (tmp_path / "genericjob" / "__init__.py").write_text(f"AGE = {age!r}")
        git("add", ".")
        git("commit", "-m", age)
    return tmp_path


def test_a_program_of_another_commit_has_the_package_of_that_commit(repository):
    with checked_out("HEAD~1", repository=repository) as old:
        ask = [sys.executable, "-c", "import genericjob; print(genericjob.AGE)"]
        assert subprocess.run(ask, cwd=old, env=environment(old), capture_output=True, text=True).stdout == "old\n"
    assert not old.exists()


def test_a_package_that_is_not_there_is_not_taken_from_elsewhere(tmp_path):
    with pytest.raises(RuntimeError, match="takes genericjob from"):
        check_origin(tmp_path)


def test_an_unknown_commit_is_named(repository):
    with pytest.raises(UnknownCommitError, match=r"^nosuch: fatal"), checked_out("nosuch", repository=repository):
        pass
