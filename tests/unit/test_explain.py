"""`genericjob explain`: which rules can still fire, and what they wait for."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api import ranges
from genericjob.api.status import Condition, GenericJobStatus, Replica, Task
from genericjob.cli import explain as module
from genericjob.cli.explain import explained, is_file
from genericjob.cli.outlook import MOST_NOTES, outlook
from genericjob.jobs.rules import Ended
from genericjob.reconcile.errors import ApiError

from .calling import genericjob
from .jobs import NOW, a_job, later, pods, settled
from .test_documents import JOB


def seen(builder, *, now=NOW, stored=True):
    return outlook(builder.build(), now, stored=stored)


def standings(found):
    return [(one.rule, one.ranks, one.state, one.why) for one in found]


# ------------------------------------------------------------------------------------------------ before it runs


def test_rules_that_nobody_wrote_are_spelled_out():
    found = seen(a_job().type("worker", 2), stored=False)
    assert found.phase == ""
    assert standings(found.success) == [("(implicit)", "every rank", "can fire", "waits for worker 0-1 to succeed")]
    assert standings(found.failure) == [
        ("(implicit)", "any", "can fire", "fires when a rank has failed for good; so far none has; worker is not started again")
    ]
    assert found.notes == ()


def test_a_job_that_fails_as_soon_as_it_begins_is_told_so():
    told = "fires as soon as the job begins: no success rule can ever fire"
    hopeless = a_job().type("a", 2).success({"a": [7]}).failure({"x": [0]})
    assert standings(seen(hopeless, stored=False).failure)[-1] == ("(implicit)", "any", "can fire", told)
    for another in (
        a_job().type("a", 2).success({"a": [7]}, {"a": [1]}),
        a_job().type("a", 2).success({"a": [7]}).failure({"a": [0]}),
        a_job().type("a", 1, restartPolicy={"policy": "Always"}).success({"a": [0]}),  # it runs for ever
    ):
        assert seen(another, stored=False).failure[-1].why != told


def test_who_never_ends_is_not_waited_for():
    found = seen(a_job().type("server", 1, restartPolicy={"policy": "Always"}).type("worker", 1), stored=False)
    assert standings(found.success) == [
        ("(implicit)", "every rank, but for server, which never ends", "can fire", "waits for worker 0 to succeed")
    ]


def test_every_rule_is_told_and_those_that_never_fire_with_the_reason():
    builder = a_job().type("a", 2).type("b", 1).success({"a": [0, 1]}, {"a": [7]}).failure({"b": [0], "a": [1]}, {"x": [0]})
    found = seen(builder, stored=False)
    assert [(one.rule, one.ranks, one.state) for one in (*found.success, *found.failure)] == [
        ("successRules[0]", "a 0-1", "can fire"),
        ("successRules[1]", "a 7", "never fires"),
        ("failureRules[0]", "b 0, a 1", "can fire"),
        ("failureRules[1]", "x 0", "never fires"),
        ("(implicit)", "any", "can fire"),
    ]
    assert found.success[1].why == "type 'a' has no rank 7"
    assert found.failure[-1].why.startswith("fires when no success rule can be met any more and no failure rule can fire any more; ")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"policy": "Never"}, "worker is not started again"),
        ({}, "worker is not started again"),
        ({"limit": 1}, "each worker is started again once at most"),
        ({"limit": 3}, "each worker is started again 3 times at most"),
        ({"limit": 3, "scope": "Job"}, "the whole job is started again 3 times at most"),
        ({"policy": "Always", "exitCodes": {"neverRestart": [3, 4, 5]}}, "worker fails for good only with the exit codes 3-5"),
    ],
)
def test_when_a_rank_fails_for_good_is_told(policy, words):
    found = seen(a_job().type("worker", 2, restartPolicy=policy).failure({"worker": [0]}), stored=False)
    assert found.failure[0].why == f"waits for worker 0 to fail for good; {words}"


def test_many_ranks_are_told_in_few_words():
    builder = a_job().type("server", 1).type("worker", 4).success({"worker": ["all"]}, {"worker": ["any"], "server": [0]})
    found = seen(builder.failure({"worker": ["0-1", 3]}, {"worker": ["any"]}, {"worker": ["3-1"]}, {"worker": ["0-4"]}), stored=False)
    assert standings(found.success) == [
        ("successRules[0]", "every worker", "can fire", "waits for worker 0-3 to succeed"),
        ("successRules[1]", "any worker, server 0", "can fire", "waits for server 0, any of worker 0-3 to succeed"),
    ]
    assert standings(found.failure)[:4] == [
        ("failureRules[0]", "worker 0-1,3", "can fire", "waits for worker 0-1,3 to fail for good; worker is not started again"),
        ("failureRules[1]", "any worker", "can fire", "waits for any of worker 0-3 to fail for good; worker is not started again"),
        ("failureRules[2]", "worker 3-1", "never fires", "the range 3-1 of type 'worker' is backwards and names no rank"),
        ("failureRules[3]", "worker 0-4", "never fires", "type 'worker' has no rank 4"),
    ]


def test_each_of_many_rules_that_never_fire_is_found():
    builder = a_job().type("a", 5).success(*({"a": [rank]} for rank in range(40))).failure(*({"a": [rank]} for rank in range(40)))
    found = seen(builder, stored=False)
    assert [one.rule for one in (*found.success, *found.failure) if one.state == "never fires"] == [
        f"{name}[{rank}]" for name in ("successRules", "failureRules") for rank in range(5, 40)
    ]


def test_a_deadline_and_modes_are_told():
    modes = {"runMode": {"debug": {"enabled": True}}, "activeDeadlineSeconds": 10, "managedBy": "a/b"}
    assert seen(a_job().type("a").having(**modes), stored=False).notes == (
        "a/b runs this job, by its own rules.",
        "The job is debugged: how its ranks end says nothing, and no rule fires.",
        "The job fails when it has been active for 10 seconds, whatever its rules say.",
    )
    assert "The job is paused, and no rule fires." in seen(a_job().type("a").having(suspend=True), stored=False).notes[0]


# ------------------------------------------------------------------------------------------------ while it runs


def test_what_is_waited_for_is_told_by_what_it_does():
    builder = a_job().type("worker", 4).success({"worker": [0, 1, 2, 3]}).failure({"worker": [0]}, {"worker": [1, 2]})
    found = seen(settled(builder, pods(worker=["Succeeded", "Running", "Running", "Pending"])))
    assert standings(found.success) == [
        (
            "successRules[0]",
            "worker 0-3",
            "can fire",
            "worker 0 has succeeded; waits for worker 1-2 (Running), worker 3 (Pending) to succeed",
        )
    ]
    assert standings(found.failure)[:2] == [
        ("failureRules[0]", "worker 0", "cannot fire", "worker 0 has succeeded"),
        (
            "failureRules[1]",
            "worker 1-2",
            "can fire",
            "waits for worker 1-2 (Running) to fail for good; worker is not started again",
        ),
    ]


def test_a_success_rule_is_lost_with_one_of_its_ranks():
    builder = a_job().type("worker", 3).success({"worker": [0, 1]}, {"worker": [2]})
    found = seen(settled(builder, pods(worker=["Failed", "Running", "Running"])))
    assert [(one.state, one.why) for one in found.success] == [
        ("cannot fire", "worker 0 has failed for good"),
        ("can fire", "waits for worker 2 (Running) to succeed"),
    ]
    assert found.failure[-1].why == "fires when no success rule can be met any more; worker 0 has failed for good"


def test_any_rank_is_waited_for_until_one_has_done_it_or_none_can():
    def look(*workers):
        builder = a_job().type("server", 1).type("worker", 3).success({"worker": ["any"], "server": [0]}).failure({"worker": ["any"]})
        return seen(settled(builder, pods(server=["Running"], worker=workers)))

    found = look("Succeeded", "Running", "Running")
    assert [(one.state, one.why) for one in (found.success[0], found.failure[0])] == [
        ("can fire", "worker 0 has succeeded; waits for server 0 (Running) to succeed"),
        ("can fire", "waits for any of worker 1-2 (Running) to fail for good; worker is not started again"),
    ]
    found = look(*["Succeeded"] * 3)
    assert (found.failure[0].state, found.failure[0].why) == ("cannot fire", "worker 0-2 have succeeded")
    found = look("Running", "Failed", "Running")
    assert (found.failure[0].state, found.failure[0].why) == ("met", "worker 1 has failed for good")


RANKS = st.lists(st.integers(0, 3) | st.sampled_from(["0-1", "1-3", "2-2", "0-3"]), min_size=1, max_size=3) | st.sampled_from(
    [["all"], ["any"]]
)
RULES = st.lists(st.dictionaries(st.just("a"), RANKS, min_size=1), max_size=3)


@given(RULES, RULES, st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_what_is_told_of_a_rule_is_what_the_controller_would_decide(success, failure, succeeded, failed):
    task = Task("a", succeeded_ranks=ranges.format(succeeded), failed_ranks=ranges.format(failed - succeeded))
    builder = a_job().type("a", 4).success(*success).failure(*failure)
    job = builder.status(GenericJobStatus(phase="Running", tasks=(task,), observed_generation=1)).build()
    found, rules = outlook(job, NOW), job.design.rules
    ended = {word: Ended({"a": frozenset(ranks)}, rules.sizes) for word, ranks in (("good", succeeded), ("bad", failed - succeeded))}

    def state(rule, for_it, against):
        return "met" if ended[for_it].meet(rule) else "cannot fire" if ended[against].forbid(rule) else "can fire"

    assert [one.state for one in found.success if success] == [state(rule, "good", "bad") for rule in job.spec.success_rules]
    assert [one.state for one in found.failure[:-1]] == [state(rule, "bad", "good") for rule in job.spec.failure_rules]


def test_the_rule_that_ended_the_job_is_met_and_the_others_are_over():
    builder = a_job().type("worker", 3).success({"worker": [0]}, {"worker": [1, 2]}).failure({"worker": [1]})
    found = seen(settled(builder, pods(worker=["Succeeded", "Running", "Running"])))
    assert found.phase == "Succeeded"
    assert [(one.state, one.why) for one in (*found.success, *found.failure)] == [
        ("met", "worker 0 has succeeded"),
        ("cannot fire", "the job has ended"),
        ("cannot fire", "the job has ended"),
        ("cannot fire", "the job has ended"),
    ]
    assert found.notes == ("The job has ended and stays as it is: The job has finished successfully.",)


@pytest.mark.parametrize(("rules", "met"), [([{"worker": [1]}], "failureRules[0]"), ([], "(implicit)")])
def test_a_job_that_failed_shows_by_which_rule(rules, met):
    builder = a_job().type("worker", 2).failure(*rules)
    found = seen(settled(builder, pods(worker=["Running", "Failed"])))
    assert [one.rule for one in found.failure if one.state == "met"] == [met]


def test_a_rank_that_waits_for_its_next_try_is_told_with_the_time():
    task = Task("worker", charged_restarts={"2": "0-1"}, restarts_in_a_row={"4": "0-1"}, last_restarts={"2026-01-01T12:00:00Z": "0-1"})
    builder = a_job().type("worker", 2, restartPolicy={"limit": 5}).failure({"worker": [0]})
    found = seen(builder.status(GenericJobStatus(phase="Running", tasks=(task,), observed_generation=1)), now=later(1))
    assert found.notes == ("worker 0 is started again at 12:00:04Z (in 3 s).", "worker 1 is started again at 12:00:04Z (in 3 s).")
    assert found.failure[0].why.endswith("each worker is started again 5 times at most, worker 0 was 2 times")
    assert seen(builder, now=later(5)).notes == ()


def test_of_many_that_wait_only_the_first_are_told():
    task = Task("worker", charged_restarts={"2": "0-99"}, restarts_in_a_row={"4": "0-99"}, last_restarts={"2026-01-01T12:00:00Z": "0-99"})
    builder = a_job().type("worker", 100, restartPolicy={"limit": 5})
    notes = seen(builder.status(GenericJobStatus(phase="Running", tasks=(task,), observed_generation=1))).notes
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "90 more ranks wait for their next try."


def test_a_restart_of_the_whole_job_is_told():
    status = GenericJobStatus(phase="Pending", job_restarts=3, job_restarts_in_a_row=3, last_job_restart=NOW, observed_generation=1)
    found = seen(a_job().type("worker", 2, restartPolicy={"scope": "Job", "limit": 3}).status(status))
    assert found.notes == ("All ranks are started again together at 12:00:02Z (in 2 s).",)
    assert found.failure[-1].why.endswith("the whole job is started again 3 times at most, and was 3 times")


def test_the_time_of_a_deadline_counts_no_pauses():
    builder = a_job().type("worker", 1).having(activeDeadlineSeconds=60)
    status = GenericJobStatus(phase="Running", start_time=NOW, paused_seconds=30, observed_generation=1)
    (note,) = seen(builder.status(status), now=later(40)).notes
    assert note == "The job fails at 12:01:30Z (in 50 s), whatever its rules say: spec.activeDeadlineSeconds is 60."


def test_what_keeps_the_job_waiting_is_told():
    told = Condition("Initialized", "False", "SchedulerMissing", "install the scheduler", NOW)
    status = GenericJobStatus(conditions=(told,), observed_generation=0)
    assert seen(a_job().type("worker", 1).status(status)).notes == (
        "The controller has not looked at the latest change of the job yet.",
        "install the scheduler",
    )


def test_a_rank_that_is_not_listed_is_waited_for_all_the_same():
    status = GenericJobStatus(
        phase="Running", tasks=(Task("worker", replicas=(Replica("train-worker-1", "u", "Failed"),)),), observed_generation=1
    )
    found = seen(a_job().type("worker", 3).status(status))
    assert found.success[0].why == "waits for worker 0,2, worker 1 (Failed) to succeed"


# ------------------------------------------------------------------------------------------------ the command


@pytest.mark.parametrize(
    ("what", "file"),
    [
        ("-", True),
        ("job.yaml", True),
        ("train", False),
        ("gj/train", False),
        ("genericjobs/train", False),
        ("some/where", True),
        ("a.json", True),
    ],
)
def test_a_word_is_a_file_or_a_name(what, file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_file(what) == file
    (tmp_path / "train").write_text("")
    assert is_file("train")


def test_a_directory_is_no_file_and_no_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    (tmp_path / "train").mkdir()
    called = genericjob("explain", "train")
    assert (called.code, called.err.startswith("genericjob: train is a directory: name a file in it (there is no kubeconfig")) == (2, True)


def test_a_file_is_explained():
    called = genericjob("explain", "-", stdin=JOB.replace("spec:\n  rep", "spec:\n  failureRules: [{nobody: [2]}]\n  rep"))
    assert (called.code, called.err) == (0, "")
    assert [line.split("  ")[0] if not line.startswith(" ") else line for line in called.out.splitlines()] == [
        "train, before it runs",
        "",
        "It succeeds when one of these rules is met (all that the rule names has succeeded):",
        "  RULE         RANKS        STATE      WHY",
        "  (implicit)   every rank   can fire   waits for chief 0, worker 0-1 to succeed",
        "",
        "It fails when one of these rules is met (all that the rule names has failed for good):",
        "  RULE              RANKS      STATE         WHY",
        "  failureRules[0]   nobody 2   never fires   there is no replica of type 'nobody'",
        "  (implicit)        any        can fire      fires when a rank has failed for good and no failure rule can fire any more; "
        "so far none has; chief is not started again; worker is not started again",
    ]


def test_machines_get_json():
    (told,) = json.loads(genericjob("explain", "-", "--output", "json", stdin=JOB).out)
    assert (told["name"], told["phase"], told["success"][0]["state"]) == ("train", "", "can fire")


@pytest.mark.parametrize(
    ("stdin", "told"),
    [
        ("kind: ConfigMap\n", "standard input: there is no GenericJob in it"),
        (JOB.replace("replicas: 2", "replicas: x"), 'standard input:15: error: spec.replicaSpecs[1].replicas: "x" is not a whole number'),
    ],
)
def test_a_file_that_is_wrong_is_refused(stdin, told):
    assert genericjob("explain", "-", stdin=stdin) == (2, "", f"genericjob: {told}\n")


class Server:
    """In the place of a cluster with one job."""

    def __init__(self, builder):
        job = builder.build()
        self.job = {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "metadata": {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": "1", "generation": 1},
            "spec": msgspec.json.decode(job.spec.model_dump_json(by_alias=True, exclude_none=True)),
            "status": msgspec.to_builtins(job.status),
        }


def test_a_job_of_a_cluster_is_explained_by_its_status(monkeypatch):
    server = Server(settled(a_job().type("worker", 2), pods(worker=["Succeeded", "Running"])))
    monkeypatch.setattr(module, "target", lambda *options: options)
    monkeypatch.setattr(module, "find", lambda where, name: server.job)
    called = genericjob("explain", "train")
    assert called.code == 0, called.err
    assert called.out.splitlines()[0] == "train: Running"
    assert "worker 0 has succeeded; waits for worker 1 (Running) to succeed" in called.out
    server.job["status"]["tasks"][0]["succeededRanks"] = "x"
    called = genericjob("explain", "train")
    assert (called.code, called.out) == (1, "")
    assert called.err.startswith("genericjob: train: status: what is stored cannot be read")


def test_options_of_a_cluster_make_any_word_a_name(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").write_text("")
    asked = []
    monkeypatch.setattr(module, "target", lambda *options: asked.append(options))
    monkeypatch.setattr(module, "find", lambda where, name: (_ for _ in ()).throw(ApiError(404, "NotFound", f"no {name}")))
    assert genericjob("explain", "train", "-n", "team").err == "genericjob: no train\n"
    assert asked == [("", "", "team", None)]


def test_phases_have_their_colours():
    found = seen(settled(a_job().type("worker", 1), pods(worker=["Running"])))
    assert next(explained("train", found, colours=True)) == "train: \x1b[36mRunning\x1b[0m"
