"""How a job ends, by its rules."""

import json
from itertools import product

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
    assert len(job.build().design.rules.remarks) == 1
    assert job.build().design.rules.remarks[0].startswith("successRules[0] can never fire: ")


def test_a_job_whose_success_rules_can_never_fire_fails_before_it_starts():
    found = ended(a_job().type("worker", 1).success({"nobody": [0]}))
    assert found.reason == "NoSuccessRuleReachable"
    assert "successRules[0] can never fire: there is no replica of type 'nobody'" in found.message


def test_a_job_without_replicas_succeeds_at_once():
    assert phase(a_job().type("worker", 0)) == "Succeeded"


def test_a_rule_over_a_type_without_replicas_can_never_fire():
    job = a_job().type("worker", 1).type("ps", 0).success({"ps": [0]}, {"worker": [0]})
    assert "ps" in job.build().design.rules.remarks[0]


# ------------------------------------------------------------------------------------------------ how much is told


def test_of_many_rules_that_can_never_fire_the_first_are_told_and_the_others_counted():
    job = a_job().type("worker", 1).success(*[{"worker": [1]}] * 8).failure(*[{"nobody": [0]}] * 9_992)
    never = job.build().design.rules.remarks
    assert len(never) == 11
    assert [text.partition("]")[0] for text in never[7:10]] == ["successRules[7", "failureRules[0", "failureRules[1"]
    assert never[10] == "9990 more rules can never fire"
    assert job.failure(*[{"nobody": [0]}] * 3).build().design.rules.remarks[10] == "1 more rule can never fire"
    assert len(job.failure({"nobody": [0]}, {}).build().design.rules.remarks) == 10


def test_a_type_that_nobody_has_is_told_in_short():
    (never,) = a_job().type("worker", 1).failure({"x" * 100_000: [0]}).build().design.rules.remarks
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


# ------------------------------------------------------------------------------------------------ many ranks in few words

EVERY = {
    "all": {"worker": ["all"]},
    "range": {"worker": ["0-3"]},
    "mixed": {"worker": ["0-1", 2, "3"]},
    "overlaps": {"worker": ["0-3", "1-2", 3]},
}


@pytest.mark.parametrize("rule", EVERY.values(), ids=EVERY)
def test_all_and_ranges_need_every_rank_that_they_name(rule):
    job = a_job().type("worker", 4).type("server", 1).success(rule)
    assert phase(job, succeeded={"worker": [0, 1, 3], "server": [0]}) is None
    assert phase(job, succeeded={"worker": [0, 1, 2, 3]}) == "Succeeded"
    assert ended(job, failed={"worker": [2]}).reason == "NoSuccessRuleReachable"
    assert phase(a_job().type("worker", 4).success({"worker": [0]}).failure(rule), failed={"worker": [1, 2, 3]}) is None
    assert phase(a_job().type("worker", 4).failure(rule), failed={"worker": [0, 1, 2, 3]}) == "Failed"


def test_any_needs_one_rank_of_its_type():
    job = a_job().type("worker", 3).type("server", 1).success({"worker": ["any"]})
    assert phase(job, succeeded={"server": [0]}) is None
    assert phase(job, failed={"worker": [0, 1]}) is None
    assert phase(job, failed={"worker": [0, 1]}, succeeded={"worker": [2]}) == "Succeeded"
    assert ended(job, failed={"worker": [0, 1, 2]}).reason == "NoSuccessRuleReachable"


def test_a_rule_with_any_is_still_an_and_over_its_types():
    job = a_job().type("worker", 3).type("server", 2).success({"worker": ["all"]}).failure({"worker": ["any"], "server": [1]})
    assert phase(job, failed={"worker": [2]}) is None
    assert phase(job, failed={"server": [1]}) is None
    assert ended(job, failed={"worker": [2], "server": [1]}).message == (
        'The job is failed with rule: {"worker":["any"],"server":[1]} (worker 2)'
    )


def test_with_any_in_a_failure_rule_the_job_is_decided_when_all_ranks_have_succeeded():
    job = a_job().type("worker", 2).type("server", 1).success({"server": [0]}).failure({"worker": ["any"]})
    assert phase(job, failed={"server": [0]}) is None  # a worker may still fail, and says more
    assert ended(job, failed={"server": [0]}, succeeded={"worker": [0, 1]}).reason == "NoSuccessRuleReachable"


def test_a_server_that_never_ends_and_a_hundred_workers_need_one_line_per_rule():
    job = a_job().type("server", 1).type("worker", 100).success({"worker": ["all"]}).failure({"worker": ["any"]}, {"server": ["any"]})
    assert phase(job, succeeded={"worker": range(99)}) is None
    assert phase(job, succeeded={"worker": range(100)}) == "Succeeded"
    assert ended(job, failed={"worker": [57]}).message == 'The job is failed with rule: {"worker":["any"]} (worker 57)'


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([3, "0-1", "2", "0-1", 3], '["0-1",2,3]'),
        ([2, "1", 0, 0], "[0,1,2]"),
        (["all"], '["all"]'),
        (["0-0"], '["0-0"]'),
    ],
)
def test_a_rule_is_told_as_it_is_written_each_item_once(items, told):
    found = ended(a_job().type("worker", 4).failure({"worker": items}), failed={"worker": range(4)})
    assert found.message == f'The job is failed with rule: {{"worker":{told}}}'


def test_all_and_any_follow_the_number_of_replicas_and_ranges_do_not():
    def job(replicas):
        return a_job().type("worker", replicas).success({"worker": ["all"]}, {"worker": ["0-2"]}).failure({"worker": ["any"]})

    assert phase(job(2), succeeded={"worker": [0, 1]}) == "Succeeded"
    assert phase(job(4), succeeded={"worker": [0, 1]}) is None
    assert [one.index for one in job(2).build().design.rules.never] == [1]
    assert phase(job(4), succeeded={"worker": [0, 1, 2]}) == "Succeeded"


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        (["0-4"], "type 'worker' has no rank 4"),
        ([9, "0-6", "5-8"], "type 'worker' has no rank 4"),
        ([9, "7-8"], "type 'worker' has no rank 7"),
        (["0-9999"], "type 'worker' has no rank 4"),
        ([0, "3-1"], "the range 3-1 of type 'worker' is backwards and names no rank"),
    ],
)
def test_a_range_that_names_what_is_not_there_never_fires(items, reason):
    job = a_job().type("worker", 4).success({"worker": items}, {"worker": [0]})
    assert job.build().design.rules.remarks == (f"successRules[0] can never fire: {reason}",)
    assert phase(job, succeeded={"worker": [1, 2, 3]}) is None


@pytest.mark.parametrize("word", ["all", "any"])
def test_words_for_nobody_never_fire(word):
    job = a_job().type("worker", 1).type("ps", 0).success({"ps": [word]}, {"worker": [0]}).failure({"nobody": [word]})
    assert [one.why for one in job.build().design.rules.never] == ["no such type", "no such type"]
    assert phase(job) is None


@pytest.mark.parametrize("word", ["all", "any"])
def test_words_for_those_that_never_end_never_fire(word):
    job = a_job().type("ps", 2, restartPolicy={"policy": "Always"}).type("worker", 1).success({"ps": [word]}).failure({"ps": [word]})
    assert [(one.field, one.why) for one in job.build().design.rules.never] == [("successRules", "endless"), ("failureRules", "endless")]
    assert phase(job, failed={"worker": [0]}) is None


ITEMS = st.lists(st.integers(0, 3) | st.sampled_from(["0-0", "0-1", "0-3", "1-2", "2-3", "3-9", "2-1"]), max_size=3) | st.sampled_from(
    [["all"], ["any"]]
)
SHORT = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), ITEMS, max_size=2), max_size=3)


def spelled_out(rules):
    """The same in numbers alone: `any` as a rule for each rank."""

    def numbers(item):
        if isinstance(item, int):
            return [item]
        first, last = map(int, item.split("-"))
        return [*range(first, last + 1)] or [99]  # as little there as nobody

    def choices(type, items):
        size = SIZES.get(type, 1)
        if items == ["any"]:
            return [(type, [rank]) for rank in range(size)] or [(type, [0])]
        return [(type, [*range(size)] or [0] if items == ["all"] else [rank for item in items for rank in numbers(item)])]

    return [dict(made) for rule in rules for made in product(*(choices(type, items) for type, items in rule.items()))]


SIZES = {"a": 4, "b": 2}


@given(SHORT, SHORT, st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.booleans()))
def test_words_and_ranges_mean_what_numbers_would(success, failure, ends):
    def now(success, failure):
        rules = Rules.of(a_job().type("a", 4).type("b", 2).success(*success).failure(*failure).build().spec)

        def of(wanted):
            return {type: frozenset(r for (t, r), end in ends.items() if t == type and r < SIZES[t] and end is wanted) for type in SIZES}

        found = verdict(rules, Outcomes(of(True), of(False)))
        return found and (found.phase, found.reason)

    assert now(success, failure) == now(spelled_out(success), spelled_out(failure))


class Counting(frozenset):
    """Ranks that count how often they are asked for."""

    asked = 0

    def __contains__(self, rank):
        type(self).asked += 1
        return super().__contains__(rank)


def test_ten_thousand_rules_over_ten_thousand_ranks_cost_one_walk():
    """Each of them in ten characters: whoever walked through every range would be busy for minutes."""
    shapes = ({"worker": ["0-9998"]}, {"worker": ["all"]}, {"worker": ["1-9998", 0]}, {"worker": ["any"], "ps": ["all"]})
    rules = a_job().type("worker", 9_999).type("ps", 1).failure(*shapes * 2_500).build().design.rules
    Counting.asked = 0
    assert verdict(rules, Outcomes({}, {"worker": Counting(range(9_998))})) is None
    assert Counting.asked < 50_000


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
    assert rules.remarks == (
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
    assert job.build().design.rules.remarks == ()
    assert phase(job, succeeded={"ps": [0]}) == "Succeeded"
