"""The shrinker, with failures that need no cluster."""

from dataclasses import replace

import pytest

from sim.chance.failing import smallest, told
from sim.chance.found import FOUND, found
from sim.chance.making import schedule
from sim.chance.playing import Run
from sim.chance.schedules import Schedule, Step, python, step
from sim.chance.shrinking import shrink, simpler, without_a_part
from sim.chance.trial import play
from sim.mutants import MUTANTS
from sim.node import FOREVER, Program

LONG = Schedule(
    1,
    (
        step("submit", types={"worker": 3}, restart={"policy": "OnFailure", "limit": 3}),
        *(step("wait", seconds=float(n)) for n in range(10)),
        step("lag", resource="pods", seconds=5.0),
        *(step("cut") for _ in range(10)),
        step("crash", writes=3, when="after", arrive=(0, 2), late=1.5),
    ),
    {"worker_0": (Program(5.0, 1), FOREVER), "worker_1": (Program(2.0),)},
    latency=0.3,
    ends=True,
)


def same_if(condition):
    return lambda candidate: candidate if condition(candidate) else None


def has(do, **arguments):
    return lambda candidate: any(each.do == do and arguments.items() <= each.arguments.items() for each in candidate.steps)


def test_only_what_is_needed_stays():
    small = shrink(LONG, same_if(lambda candidate: has("lag")(candidate) and has("crash")(candidate)))
    assert [each.do for each in small.steps] == ["lag", "crash"]
    assert small == Schedule(1, (step("lag", resource="pods", seconds=0.0), step("crash")))


def test_order_is_kept():
    def after_one_another(candidate):
        does = [each.do for each in candidate.steps]
        return "lag" in does and "cut" in does[does.index("lag") :]

    assert [each.do for each in shrink(LONG, same_if(after_one_another)).steps] == ["lag", "cut"]


def test_arguments_become_simple():
    small = shrink(LONG, same_if(lambda candidate: any(each.arguments.get("types", {}).get("worker", 0) >= 2 for each in candidate.steps)))
    assert small.steps == (step("submit", types={"worker": 2}),)
    small = shrink(LONG, same_if(lambda candidate: any(2 in each.arguments.get("arrive", ()) for each in candidate.steps)))
    assert small.steps == (step("crash", arrive=(2,)),)


def test_programs_become_simple():
    small = shrink(LONG, same_if(lambda candidate: any(found.exit_code == 1 for each in candidate.programs.values() for found in each)))
    assert small == Schedule(1, (), {"worker_0": (Program(1.0, 1),)})


def test_the_seed_with_which_it_fails_is_kept():
    assert shrink(LONG, lambda candidate: replace(candidate, seed=7) if has("cut")(candidate) else None) == Schedule(7, (step("cut"),))


def test_what_does_not_fail_stays_as_it_is():
    assert shrink(LONG, lambda candidate: None) == LONG


def test_it_gives_up_after_so_many_tries():
    tried = []
    shrink(LONG, lambda candidate: tried.append(candidate), tries=17)
    assert len(tried) == 17


@pytest.mark.parametrize("seed", range(50))
def test_every_simpler_schedule_is_another_one_and_the_chain_ends(seed):
    made = schedule(seed)
    assert all(other != made for other in simpler(made))
    assert shrink(made, lambda candidate: candidate, tries=10_000) == Schedule(seed)


def test_parts():
    assert list(without_a_part([1, 2, 3, 4], 2)) == [[3, 4], [1, 2]]
    assert list(without_a_part([1, 2, 3], 5)) == [[2, 3], [1, 3], [1, 2]]


def test_a_schedule_is_printed_as_python():
    text = python(replace(LONG, steps=LONG.steps[:1] + LONG.steps[-1:]), "it_fails", "Why.")
    assert text.startswith("@found(1, latency=0.3, ends=True,\n    worker_0=(Program(seconds=5.0, exit_code=1), FOREVER,)")
    assert "    run.crash(writes=3, when='after', arrive=(0, 2), late=1.5)\n" in text
    compile(text, "text", "exec")
    assert str(Step("back")) == "run.back()"


def test_what_is_printed_of_a_failure_fails_again_when_it_is_pasted():
    """The whole way: a controller with a bug, the first schedule that notices, made small, told, and read as a script."""
    bug = next(each for each in MUTANTS if each.name == "charges_a_disruption")
    with bug.active():
        trial = next(each for each in map(play, map(schedule, range(200))) if each.failure)
        small = smallest(trial, tries=40)
        exec(told(trial, small).partition("\n\n")[2], {"found": found, "Run": Run, "Program": Program, "FOREVER": FOREVER})
        pasted = FOUND.pop()
        assert len(small.schedule.steps) < len(trial.schedule.steps)
        assert play(pasted.schedule, script=pasted.script).check == trial.check
    assert not play(pasted.schedule, script=pasted.script).failure
