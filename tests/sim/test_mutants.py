"""Deliberate bugs are noticed: a few of them here, all of them by `python -m sim.mutants`."""

import re
from collections import Counter
from pathlib import Path

import pytest

from sim.mutants import MUTANTS, Mutant, StaleMutantError
from sim.mutants.playing import everything
from sim.mutants.switch import edit
from sim.mutants.trial import put_on_trial

ROOT = Path(__file__).parents[2]
SOME = (
    "deletes_before_it_commits",
    "does_not_wait_for_its_own_writes",
    "restarts_once_too_often",
    "takes_those_on_their_way_out_for_gone",
    "loses_keys_that_failed",
)


def one(number):
    return number + 1


def broken(*edits, first=()):
    return Mutant("broken", "", "Something is broken.", tuple(edits), first)


@pytest.mark.parametrize("name", SOME)
def test_a_deliberate_bug_is_noticed(name):
    report = put_on_trial(next(found for found in MUTANTS if found.name == name), most=5)
    assert report.caught, report


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_every_mutant_can_be_switched_on_and_off(mutant):
    originals = {each.function: each.function.__code__ for each in mutant.edits}
    with mutant.active():
        assert all(function.__code__ is not code for function, code in originals.items())
    assert all(function.__code__ is code for function, code in originals.items())


def test_every_mutant_says_where_it_is_noticed_first():
    known = everything()
    assert not [(mutant.name, name) for mutant in MUTANTS for name in mutant.first if name not in known]
    assert all(mutant.first for mutant in MUTANTS)


def test_there_are_enough_of_them_and_each_has_a_clause_or_is_about_what_users_are_told():
    assert len(MUTANTS) >= 35
    assert {mutant.clause for mutant in MUTANTS} <= {"", *map(str, range(1, 12))}


def test_the_contract_says_how_many_there_are_of_each_clause():
    rows = re.findall(r"^\| (\d+) \|.*?\| (\d+) \|", (ROOT / "docs/contract.md").read_text(), re.MULTILINE)
    assert {clause: int(number) for clause, number in rows} == Counter(mutant.clause for mutant in MUTANTS if mutant.clause)


def test_a_mutant_is_active_while_it_is_and_no_longer():
    with broken(edit(one, "number + 1", "number + 2")).active():
        assert one(1) == 3
    assert one(1) == 2


@pytest.mark.parametrize("words", ["number - 1", "number"])
def test_words_that_are_not_there_or_twice_are_an_error(words):
    with pytest.raises(StaleMutantError, match="times, not once"), broken(edit(one, words, "")).active():
        pass


def test_a_mutant_that_does_nothing_wrong_survives():
    report = put_on_trial(broken(edit(one, "number + 1", "1 + number"), first=("created_paused",)), most=3)
    assert not report.caught
    assert (report.runs, report.trouble) == (3, "it survived")


def test_a_mutant_that_cannot_work_at_all_proves_nothing():
    from genericjob.jobs.decide import decide

    report = put_on_trial(broken(edit(decide, "settle(job, seen, now)", "unheard_of"), first=("created_paused",)), most=3)
    assert not report.caught
    assert "NameError" in report.trouble
