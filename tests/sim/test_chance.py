"""Random schedules with fixed seeds, those that failed once, and whether a run can be repeated."""

import os
from dataclasses import replace

import pytest

from genericjob.reconcile.resources import Key
from sim.chance.__main__ import main
from sim.chance.coverage import MODES
from sim.chance.failing import told
from sim.chance.found import FOUND
from sim.chance.making import schedule
from sim.chance.report import Tally, counted, page, picture
from sim.chance.schedules import Schedule, step
from sim.chance.trial import play
from sim.jobs import NAMESPACE, RAW_JOBS

SEEDS = range(int(os.environ.get("SIM_SCHEDULES", "200")))
AT_A_TIME = 20


def explained(trial):
    return f"{told(trial, trial)}\n`python -m sim.chance --first {trial.schedule.seed} --count 1` makes it smaller"


@pytest.mark.parametrize(
    "seeds", [SEEDS[n : n + AT_A_TIME] for n in range(0, len(SEEDS), AT_A_TIME)], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}"
)
def test_whatever_happens_the_contract_holds_and_jobs_come_to_rest(seeds):
    for seed in seeds:
        trial = play(schedule(seed))
        assert not trial.failure, explained(trial)


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_what_failed_once_does_not_fail_again(found):
    for seed in (found.schedule.seed, 1, 2, 3):
        trial = play(replace(found.schedule, seed=seed), script=found.script)
        assert not trial.failure, f"seed {seed}: {trial.failure}"


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_gives_the_same_trace(seed):
    assert schedule(seed) == schedule(seed)
    assert play(schedule(seed), traced=True).trace == play(schedule(seed), traced=True).trace


def test_a_schedule_that_is_played_as_printed_is_the_same():
    made = schedule(3)
    script = {}
    exec(f"def script(run):\n    pass\n    {'; '.join(map(str, made.steps))}", script)
    assert play(made, traced=True).trace == play(made, traced=True, script=script["script"]).trace


def test_a_violation_is_seen(monkeypatch):
    """That a pause creates nothing is checked, and not only by good fortune."""
    monkeypatch.setattr("genericjob.jobs.decide._paused", lambda job, settled, now: None)
    steps = (step("submit", types={"worker": 1}, suspend=True), step("wait", seconds=5.0))
    assert "unexpected" in play(Schedule(1, steps)).failure


def test_a_condition_of_another_writer_that_is_lost_is_seen():
    def script(run):
        run.submit(types={"worker": 1})
        run.until(mode="Running")
        run.condition(type="QuotaReserved", status="True")
        job = run.api.get(RAW_JOBS, Key(NAMESPACE, "train"))
        kept = [found for found in job["status"]["conditions"] if found["type"] != "QuotaReserved"]
        run.api.replace_status(RAW_JOBS, Key(NAMESPACE, "train"), {**job, "status": {**job["status"], "conditions": kept}})

    assert play(Schedule(1), script=script).failure.startswith("6: the condition 'QuotaReserved' of another writer is None")


def test_a_violation_without_words_is_seen():
    def script(run):
        raise AssertionError

    assert "raise AssertionError" in play(Schedule(1), script=script).failure


def test_a_state_of_other_code_is_not_gone_on_with(tmp_path, capsys, monkeypatch):
    state = tmp_path / "state.json"
    state.write_bytes(Tally(code="another").dump())
    monkeypatch.setattr("sys.argv", ["sim.chance", "--count", "1", "--state", str(state)])
    assert main() == 2
    assert "of another controller or simulation" in capsys.readouterr().err
    assert Tally.load(state.read_bytes()).count == 0


def test_what_was_counted_is_told():
    tally = Tally()
    for seed in range(5):
        tally.add(counted(play(schedule(seed)), 0.05))
        tally.next = seed + 1
    assert Tally.load(tally.dump()) == tally
    assert tally.count == 5
    assert {mode for mode, _ in tally.hits} <= set(MODES)
    assert "seeds 0 to 4" in page(tally, "x.svg")
    assert picture(tally).startswith("<svg")
