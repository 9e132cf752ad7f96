"""The reference model: which status may follow upon which."""

import pytest

from sim.chance.facts import Change, End, Past, Side, Try
from sim.chance.model import complaints, meaning, verdicts

FAILED, DONE = End("Failed", frozenset({1})), End("Succeeded")
NOW = "2026-01-01T00:01:00Z"


def status(phase="Running", *, epoch=0, charged=0, uncharged=0, row=None, last=NOW, succeeded="", failed="", **fields):
    task = {"type": "worker", "succeededRanks": succeeded, "failedRanks": failed}
    task["chargedRestarts"] = {str(charged): "0"} if charged else {}
    task["unchargedRestarts"] = {str(uncharged): "0"} if uncharged else {}
    if charged + uncharged:
        task |= {"restartsInARow": {str(row or charged + uncharged): "0"}, "lastRestarts": {last: "0"}}
    return {"phase": phase, "epoch": epoch, "tasks": [task], **fields}


def said(old, new, *, ends=(), gone=False, replicas=2, policy=None, had_pods=True, **spec):
    """What the model complains about, when rank 0 ended so in its present try."""
    spec = {"replicaSpecs": [{"type": "worker", "replicas": replicas, "restartPolicy": policy or {}}], **spec}
    before = Side(old)
    present = Try("u", "job-worker-0", before.epoch, before.attempt(("worker", 0)))
    past = Past({present: list(ends)}, {present} if gone else set(), {"u"} if had_pods else set())
    return list(complaints(Change("u", "job", spec, before, Side(new), past)))


PAUSED_UNSTARTED = {"runMode": {"pause": {"enabled": True}}, "had_pods": False}
ONCE = {"policy": "OnFailure", "limit": 1}
TOGETHER = {**ONCE, "scope": "Job"}


@pytest.mark.parametrize(
    ("end", "policy", "charges", "means"),
    [
        (FAILED, {}, 0, "failed"),
        (FAILED, ONCE, 0, "charged"),
        (FAILED, ONCE, 1, "failed"),
        (FAILED, {"policy": "Never", "limit": 3}, 0, "failed"),
        (FAILED, {"policy": "Always"}, 1000, "charged"),
        (DONE, ONCE, 0, "succeeded"),
        (DONE, {"policy": "Always", "limit": 1}, 0, "charged"),
        (DONE, {"policy": "Always", "limit": 1}, 1, "succeeded"),
        (End("Failed", frozenset({1}), disrupted=True), {"policy": "Never"}, 0, "uncharged"),
        (End("Failed", frozenset({1}), debugged=True), {}, 0, "uncharged"),
        (End("Failed", frozenset({42})), {"exitCodes": {"notCharged": [42]}}, 0, "uncharged"),
        (End("Failed", frozenset({42, 1})), {"exitCodes": {"notCharged": [42]}}, 0, "failed"),
        (End("Failed", frozenset({3})), {**ONCE, "exitCodes": {"neverRestart": [3]}}, 0, "failed"),
    ],
)
def test_what_an_end_means(end, policy, charges, means):
    assert meaning(end, policy, charges, debugged=False) == means
    assert meaning(end, policy, charges, debugged=True) == ("succeeded" if means == "succeeded" else "uncharged")


def test_what_may_happen():
    assert said(status("Pending"), status()) == []
    assert said(status(), status("Running", charged=1), ends=[FAILED], policy=ONCE) == []
    assert said(status(), status(uncharged=1), gone=True) == []
    assert said(status(uncharged=1), status(uncharged=2), gone=True) == []
    assert said(status(uncharged=1), status(uncharged=2, row=1, last="2026-01-01T00:11:00Z"), gone=True) == []
    assert said(status(), status("Failed", failed="0", completionTime=NOW, startTime=NOW), ends=[FAILED]) == []
    assert said(status(), status(succeeded="0"), ends=[DONE]) == []
    assert said(status(), status("Pending", epoch=1, jobRestarts=1), ends=[FAILED], policy=TOGETHER) == []
    assert said(status(), status("Pending", epoch=1), gone=True, policy=TOGETHER) == []
    assert said(status(), status(epoch=1, pauseTime=NOW), suspend=True) == []
    assert said(status("Paused", epoch=1, pauseTime=NOW), status("Resuming", epoch=1, resumes=1)) == []
    fresh = status("Paused", epoch=1, pauseTime=NOW, pausedBeforeStart=True)
    assert said({}, fresh, suspend=True, had_pods=False) == []
    assert said({}, fresh, suspend=True) == []  # a pod that nobody has seen yet
    assert said(fresh, status("Resuming", epoch=1), had_pods=False) == []
    assert said({}, status("Paused", epoch=1, pauseTime=NOW), runMode={"pause": {"enabled": True}}, had_pods=False) == []
    late = {"startTime": "2026-01-01T00:00:30Z", "completionTime": NOW}
    assert said(status(), status("Failed", **late), activeDeadlineSeconds=30) == []


@pytest.mark.parametrize(
    ("complaint", "old", "new", "facts"),
    [
        ("Succeeded is Running", status("Succeeded"), status(), {}),
        ("Running is Pending", status(), status("Pending"), {}),
        ("Running is Resuming", status(), status("Resuming"), {}),
        ("Running is Paused", status(), status("Paused"), {}),
        ("Running is Unknown", status(), status("Unknown"), {}),
        ("nobody wants", status(), status(epoch=1, pauseTime=NOW), {}),
        ("somebody wants", status("Paused", pauseTime=NOW), status("Resuming", resumes=1), {"suspend": True}),
        ("not counted", status("Paused", pauseTime=NOW), status("Resuming"), {}),
        ("has not ended", status(), status(resumes=1), {}),
        ("not counted", status("Paused", pauseTime=NOW, pausedBeforeStart=True), status("Resuming", resumes=1), {}),
        ("for the first time", status(), status(pausedBeforeStart=True), {}),
        ("for the first time", status(resumes=1), status("Paused", epoch=1, pauseTime=NOW, pausedBeforeStart=True), {"suspend": True}),
        ("is to resume", {}, status("Paused", epoch=1, pauseTime=NOW), {"suspend": True, "had_pods": False}),
        ("is to resume", status("Pending", startTime=NOW), status("Paused", epoch=1, pauseTime=NOW), PAUSED_UNSTARTED),
        ("has succeeded", status(), status(succeeded="0"), {}),
        ("has succeeded", status(), status(succeeded="0"), {"ends": [FAILED]}),
        ("has failed", status(), status(failed="0"), {"ends": [FAILED], "policy": ONCE}),
        ("again, charged", status(), status(charged=1), {"gone": True, "policy": ONCE}),
        ("again, charged", status(), status(charged=1), {"ends": [End("Failed", frozenset({1}), disrupted=True)], "policy": ONCE}),
        ("again, uncharged", status(), status(uncharged=1), {"ends": [FAILED], "policy": ONCE}),
        ("after the end", status("Failed"), status("Failed", charged=1), {"ends": [FAILED], "policy": ONCE}),
        ("epochs begin", status(), status("Pending", epoch=2), {"gone": True, "policy": TOGETHER}),
        ("epochs begin", status(pauseTime=NOW), status(epoch=1, pauseTime=NOW), {"gone": True, "policy": TOGETHER, "suspend": True}),
        ("again, uncharged", status(), status("Pending", epoch=1), {"gone": True}),
        ("times in a row", status(uncharged=1), status(uncharged=2, row=1, last="2026-01-01T00:10:59Z"), {"gone": True}),
        ("times in a row", status(uncharged=1), status(uncharged=2, row=3), {"gone": True}),
        ("since when", status(), {"phase": "Running", "tasks": [{"type": "worker", "unchargedRestarts": {"1": "0"}}]}, {"gone": True}),
        ("again alone", status(), status(charged=1), {"ends": [FAILED], "policy": TOGETHER}),
        ("all begin anew", status(succeeded="1"), status("Pending", epoch=1, succeeded="1"), {"gone": True, "policy": TOGETHER}),
        ("all begin anew", status("Paused", pauseTime=NOW, failed="1"), status("Resuming", resumes=1, failed="1"), {}),
        (
            "a success rule is met",
            status(),
            status("Failed", succeeded="0", failed="1"),
            {"ends": [DONE], "successRules": [{"worker": [0]}]},
        ),
        ("again, charged", status(), status("Pending", epoch=1, jobRestarts=1), {"gone": True, "policy": TOGETHER}),
        ("the job has succeeded", status(), status("Succeeded", succeeded="0"), {"ends": [DONE]}),
        ("the job has failed", status(), status("Failed", completionTime=NOW, startTime=NOW), {"activeDeadlineSeconds": 30}),
        ("the job goes on", status(), status(succeeded="0"), {"ends": [DONE], "replicas": 1}),
    ],
)
def test_what_may_not_happen(complaint, old, new, facts):
    assert any(complaint in found for found in said(old, new, **facts))


def test_outcomes_lead_to_an_end_by_rules():
    def ends(succeeded=(), failed=(), policy=None, **spec):
        replicas = {("ps", 0): policy or {}, ("worker", 0): {}, ("worker", 1): {}}
        return verdicts(spec, replicas, set(succeeded), set(failed))

    ps, first, second = ("ps", 0), ("worker", 0), ("worker", 1)
    first_decides = {"successRules": [{"worker": [0]}]}
    assert ends([ps, first]) == set()
    assert ends([ps, first, second]) == {"Succeeded", "Failed"}  # success is asked first
    assert ends([first, second], policy={"policy": "Always"}) == {"Succeeded"}
    assert ends(failed=[ps]) == {"Failed"}
    assert ends([first], **first_decides) == {"Succeeded"}
    assert ends(failed=[second], **first_decides) == set()
    assert ends(failed=[first], **first_decides) == {"Failed"}
    assert ends(failed=[first], failureRules=[{"worker": [1]}], **first_decides) == set()  # the failure rule is still to be decided
    assert ends([first], successRules=[{"worker": ["any"]}]) == {"Succeeded"}
    assert ends([first], successRules=[{"worker": ["all"]}]) == set()
    assert ends([first, second], successRules=[{"worker": ["0-1"]}]) == {"Succeeded"}
    assert ends(failed=[second], successRules=[{"ps": ["all"]}], failureRules=[{"worker": ["any"]}]) == {"Failed"}
    assert ends(failed=[second], successRules=[{"worker": ["any"]}]) == set()
    assert ends(successRules=[{"nobody": [0]}]) == {"Failed"}
    assert ends(failureRules=[{"nobody": [0]}]) == set()
