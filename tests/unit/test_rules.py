"""How a job ends, by its rules."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.jobs.rules import Outcomes, Rules, verdict
from unit.jobs import a_job


def ended(job, *, succeeded=None, failed=None):
    def ranks(found):
        return {type: frozenset(numbers) for type, numbers in (found or {}).items()}

    return verdict(job.build().design.rules, Outcomes(ranks(succeeded), ranks(failed)))


def phase(job, **outcomes):
    found = ended(job, **outcomes)
    return found.phase if found else None


def test_worker_zero_decides_although_others_are_open():
    job = a_job().type("worker", 4).success({"worker": [0]})
    assert phase(job, succeeded={"worker": [0]}) == "Succeeded"
    assert phase(job, succeeded={"worker": [1, 2, 3]}) is None


def test_all_ranks_of_one_rule_are_needed_and_any_rule_is_enough():
    job = a_job().type("master", 3).type("worker", 3).success({"master": [0]}, {"master": [2], "worker": [0, 1]})
    assert phase(job, succeeded={"master": [2], "worker": [0]}) is None
    assert phase(job, succeeded={"master": [2], "worker": [0, 1]}) == "Succeeded"
    assert phase(job, succeeded={"master": [0]}) == "Succeeded"


def test_a_failure_rule_names_itself_in_compact_json():
    job = a_job().type("worker", 4).success({"worker": [0]}).failure({"worker": [0]}, {"worker": ["1"]})
    found = ended(job, failed={"worker": [1]})
    assert (found.phase, found.reason) == ("Failed", "Failed")
    assert found.message == 'The job is failed with rule: {"worker":[1]}'


def test_success_is_asked_before_failure():
    job = a_job().type("worker", 2).success({"worker": [0]}).failure({"worker": [1]})
    assert phase(job, succeeded={"worker": [0]}, failed={"worker": [1]}) == "Succeeded"


def test_without_rules_all_must_succeed_and_one_failure_is_enough():
    job = a_job().type("worker", 2).type("ps", 1)
    assert phase(job, succeeded={"worker": [0, 1]}) is None
    assert phase(job, succeeded={"worker": [0, 1], "ps": [0]}) == "Succeeded"
    found = ended(job, failed={"worker": [1]})
    assert (found.phase, found.reason) == ("Failed", "Failed")
    assert "rank 1 of type worker" in found.message


def test_with_success_rules_alone_the_job_fails_when_none_can_be_met():
    job = a_job().type("worker", 3).success({"worker": [0]}, {"worker": [1, 2]})
    assert phase(job, failed={"worker": [0]}) is None
    found = ended(job, failed={"worker": [0, 2]})
    assert (found.phase, found.reason) == ("Failed", "NoSuccessRuleReachable")
    assert found.message == "The job is failed: no success rule can be met any more: rank 0 of type worker has failed."


def test_with_both_a_failure_rule_that_can_still_fire_is_waited_for():
    job = a_job().type("worker", 3).success({"worker": [0]}).failure({"worker": [0, 1]})
    assert phase(job, failed={"worker": [0]}) is None  # rank 1 decides whether the rule fires
    assert ended(job, failed={"worker": [0]}, succeeded={"worker": [1]}).reason == "NoSuccessRuleReachable"
    assert ended(job, failed={"worker": [0, 1]}).reason == "Failed"


def test_with_failure_rules_alone_all_others_may_fail():
    job = a_job().type("worker", 3).failure({"worker": [0]})
    assert phase(job, failed={"worker": [1]}) is None
    assert phase(job, failed={"worker": [1]}, succeeded={"worker": [0, 2]}) == "Failed"
    assert phase(job, succeeded={"worker": [0, 1, 2]}) == "Succeeded"


@pytest.mark.parametrize("rule", [{}, {"worker": []}, {"nobody": [0]}, {"worker": [7]}])
def test_a_rule_that_can_never_fire_is_never_true(rule):
    job = a_job().type("worker", 1).success(rule, {"worker": [0]})
    assert phase(job) is None
    assert len(job.build().design.rules.never) == 1
    assert job.build().design.rules.never[0].startswith("successRules[0] can never fire: ")


def test_a_job_whose_success_rules_can_never_fire_fails_before_it_starts():
    found = ended(a_job().type("worker", 1).success({"nobody": [0]}))
    assert found.reason == "NoSuccessRuleReachable"
    assert "successRules[0] can never fire: there is no replica of type 'nobody'" in found.message


def test_a_job_without_replicas_succeeds_at_once():
    assert phase(a_job().type("worker", 0)) == "Succeeded"


def test_a_rule_over_a_type_without_replicas_can_never_fire():
    job = a_job().type("worker", 1).type("ps", 0).success({"ps": [0]}, {"worker": [0]})
    assert "ps" in job.build().design.rules.never[0]


# ------------------------------------------------------------------------------------------------ how much is told


def test_of_many_rules_that_can_never_fire_the_first_are_told_and_the_others_counted():
    job = a_job().type("worker", 1).success(*[{"worker": [1]}] * 8).failure(*[{"nobody": [0]}] * 9_992)
    never = job.build().design.rules.never
    assert len(never) == 11
    assert [text.partition("]")[0] for text in never[7:10]] == ["successRules[7", "failureRules[0", "failureRules[1"]
    assert never[10] == "9990 more rules can never fire"
    assert job.failure(*[{"nobody": [0]}] * 3).build().design.rules.never[10] == "1 more rule can never fire"
    assert len(job.failure({"nobody": [0]}, {}).build().design.rules.never) == 10


def test_a_type_that_nobody_has_is_told_in_short():
    (never,) = a_job().type("worker", 1).failure({"x" * 100_000: [0]}).build().design.rules.never
    assert never.startswith("failureRules[0] can never fire: there is no replica of type 'xxx")
    assert len(never) < 200


def test_a_rule_is_told_exactly_while_there_is_room_and_then_cut():
    prefix = "The job is failed with rule: "
    for ranks, exact in ((249, True), (250, False), (10_000, False)):
        rule = {"worker": [*range(ranks)]}
        found = ended(a_job().type("worker", 10_000).failure(rule), failed=rule).message
        written = json.dumps(rule, separators=(",", ":"))
        assert found.startswith(prefix + written[:800])
        assert (found == prefix + written) is exact
        assert exact or found.endswith("…")
        assert len(found) <= len(prefix) + 900


def test_why_no_rule_can_be_met_is_told_in_short():
    found = ended(a_job().type("worker", 1).success(*[{"x" * 200: [0]}] * 20))
    assert found.reason == "NoSuccessRuleReachable"
    assert found.message.endswith("….")
    assert len(found.message) <= 1_024


RULES = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.lists(st.integers(0, 3), max_size=3), max_size=2), max_size=3)


@given(RULES, RULES, st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), st.booleans()))
def test_no_job_hangs_and_no_verdict_is_taken_back(success, failure, ends):
    """Whatever the rules: once no success can be reached none is, and once every rank has ended there is a verdict."""
    rules = Rules.of(a_job().type("a", 2).type("b", 2).success(*success).failure(*failure).build().spec)
    done = dict.fromkeys([("a", 0), ("a", 1), ("b", 0), ("b", 1)])

    def now():
        def of(wanted):
            return {type: frozenset(rank for (t, rank), end in done.items() if t == type and end is wanted) for type in "ab"}

        return verdict(rules, Outcomes(of(True), of(False)))

    hopeless = False
    for rank, end in [*ends.items(), *((rank, True) for rank in done)]:
        if done[rank] is None:
            done[rank] = end
        found = now()
        assert not (hopeless and (found is None or found.phase == "Succeeded"))
        hopeless = hopeless or (found is not None and found.reason == "NoSuccessRuleReachable")
    assert now() is not None


# ------------------------------------------------------------------------------------------------ who never ends

ENDLESS = {"restartPolicy": {"policy": "Always"}}


def test_without_rules_nobody_waits_for_those_who_are_started_again_for_ever():
    job = a_job().type("ps", 2, **ENDLESS).type("worker", 2)
    assert phase(job, succeeded={"worker": [0]}) is None
    assert phase(job, succeeded={"worker": [0, 1]}) == "Succeeded"
    assert phase(job, failed={"worker": [0]}) == "Failed"


def test_a_job_of_nobody_else_never_ends():
    job = a_job().type("ps", 2, **ENDLESS)
    assert phase(job) is None


def test_a_rule_that_names_one_warns_and_makes_no_job_fail():
    job = a_job().type("ps", 1, **ENDLESS).type("worker", 1).success({"ps": [0]}).failure({"ps": [0]})
    rules = job.build().design.rules
    assert rules.never == (
        "successRules[0] can never fire: type 'ps' is started again always and without a limit",
        "failureRules[0] can never fire: type 'ps' is started again always and without a limit",
    )
    assert phase(job, failed={"worker": [0]}) is None
    assert phase(job, succeeded={"worker": [0]}) is None


def test_a_rule_fails_all_the_same_when_another_rank_of_it_has_failed():
    job = a_job().type("ps", 1, **ENDLESS).type("worker", 1).success({"ps": [0], "worker": [0]})
    assert phase(job, failed={"worker": [0]}) == "Failed"


def test_an_exit_code_that_is_never_restarted_ends_even_those():
    codes = {"restartPolicy": {"policy": "Always", "exitCodes": {"neverRestart": [3]}}}
    job = a_job().type("ps", 1, **codes).type("worker", 1).failure({"ps": [0]})
    assert phase(job, failed={"ps": [0]}) == "Failed"
    assert phase(a_job().type("ps", 1, **codes).type("worker", 1), failed={"ps": [0]}) == "Failed"


def test_always_with_a_limit_ends():
    job = a_job().type("ps", 1, restartPolicy={"policy": "Always", "limit": 2}).success({"ps": [0]})
    assert job.build().design.rules.never == ()
    assert phase(job, succeeded={"ps": [0]}) == "Succeeded"
