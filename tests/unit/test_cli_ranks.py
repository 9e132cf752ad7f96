"""Ranks as people see them: put together from status and pods, and chosen by options."""

from datetime import timedelta

import pytest

from genericjob.cli.describe import described
from genericjob.cli.failures import CommandError
from genericjob.cli.loglines import sources_of
from genericjob.cli.logs import without_log
from genericjob.cli.ranks import chosen, counted, parsed, ranks_of
from genericjob.cli.tables import now
from genericjob.cli.timeline import Moment

THEN = "2026-01-01T00:00:00Z"


def a_job(phase="Running", *, server=1, worker=3, **task):
    conditions = [
        {"type": type, "status": "False", "reason": "NotFinished", "message": "m", "lastTransitionTime": THEN}
        for type in ("Completed", "Failed")
    ]
    specs = [{"type": "server", "replicas": server}, {"type": "worker", "replicas": worker}]
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": "1", "generation": 1},
        "spec": {"replicaSpecs": specs},
        "status": {"phase": phase, "conditions": conditions, "observedGeneration": 1, "tasks": [{"type": "worker", **task}]},
    }


def a_pod(name, phase="Running", *containers, **meta):
    statuses = [{"name": each, "state": state} for each, state in containers]
    spec = {"containers": [{"name": each} for each, _ in containers] or [{"name": "main"}], "nodeName": "n1"}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "creationTimestamp": THEN, **meta},
        "spec": spec,
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def by_label(job, *pods):
    return {rank.label: rank for rank in ranks_of(job, {pod["metadata"]["name"]: pod for pod in pods})}


def test_what_the_status_says_of_an_outcome_stands_whatever_the_pod_does():
    job = a_job(succeededRanks="0", failedRanks="1")
    ranks = by_label(job, a_pod("train-worker-0", "Running"), a_pod("train-worker-1", "Running"))
    assert [ranks[f"worker-{number}"].phase for number in range(3)] == ["Succeeded", "Failed", "Creating"]
    assert ranks["worker-0"].exit_code == 0


def test_restarts_of_both_kinds_are_counted_by_rank():
    ranks = by_label(a_job(chargedRestarts={"2": "0-1"}, unchargedRestarts={"1": "1"}))
    assert [ranks[f"worker-{number}"].restarts for number in range(3)] == [2, 3, 0]


def test_a_failure_tells_how_a_rank_without_pod_ended():
    failure = {"rank": 1, "uid": "u", "time": THEN, "exitCode": 3, "reason": "OOMKilled", "message": "too much", "node": "n7"}
    rank = by_label(a_job("Failed", failedRanks="1", failures=[failure]))["worker-1"]
    assert (rank.exit_code, rank.why, rank.node) == (3, "OOMKilled: too much", "n7")
    assert without_log(rank) == "worker-1 failed with exit code 3 (OOMKilled: too much); its pod is gone, and the log with it"


def test_ranks_without_log_say_why():
    job = a_job(failures=[{"rank": 2, "uid": "u", "time": THEN, "exitCode": 1}])
    ranks = by_label(
        job, a_pod("train-worker-0", "Pending", ("main", {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}))
    )
    assert without_log(ranks["worker-0"]) == "worker-0 has not begun: ImagePullBackOff: no such image"
    assert without_log(ranks["worker-1"]) == "worker-1 has no pod yet"
    assert without_log(ranks["worker-2"]) == "worker-2 has no pod now; the last one failed with exit code 1, and its log is gone"
    assert without_log(by_label(a_job("Failed"))["worker-0"]) == "worker-0 has no pod any more, and its log is gone"
    assert without_log(by_label(a_job(succeededRanks="0"))["worker-0"]).startswith("worker-0 succeeded with exit code 0;")


def test_a_pod_that_goes_is_terminating_and_one_that_waits_says_for_what():
    leaving = a_pod("train-worker-0", deletionTimestamp=THEN)
    unplaced = a_pod("train-worker-1", "Pending")
    unplaced["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]
    ranks = by_label(a_job(), leaving, unplaced)
    assert ranks["worker-0"].phase == "Terminating"
    assert ranks["worker-1"].why == "Unschedulable: no node"
    assert counted(ranks.values()) == "2 Creating, 1 Terminating, 1 Pending"


def test_a_status_in_other_words_hides_nothing_else():
    job = a_job()
    job["status"] = {"phase": "Dancing", "tasks": 3}
    assert [rank.phase for rank in ranks_of(job, {})] == ["Creating"] * 4


# ------------------------------------------------------------------------------------------------ logs


def test_containers_that_have_begun_have_logs_and_init_containers_while_they_are_alone():
    running, waiting = {"running": {}}, {"waiting": {}}
    begun = a_pod("train-worker-0", "Running", ("main", running), ("helper", running))
    begun["status"]["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": {"exitCode": 0}}}]
    rank = by_label(a_job(), begun)["worker-0"]
    assert [source.label for source in sources_of(rank)] == ["worker-0/main", "worker-0/helper"]
    assert [source.container for source in sources_of(rank, "fetch")] == ["fetch"]
    begun["status"]["containerStatuses"] = [{"name": "main", "state": waiting}, {"name": "helper", "state": waiting}]
    assert [source.label for source in sources_of(by_label(a_job(), begun)["worker-0"])] == ["worker-0/fetch"]
    alone = a_pod("train-worker-0", "Running", ("main", running))
    assert [source.label for source in sources_of(by_label(a_job(), alone)["worker-0"])] == ["worker-0"]


# ------------------------------------------------------------------------------------------------ which ranks


def labels(types, numbers):
    return [rank.label for rank in chosen(ranks_of(a_job(), {}), types, numbers)]


def test_ranks_are_chosen_by_type_and_number():
    assert labels([], "") == ["server-0", "worker-0", "worker-1", "worker-2"]
    assert labels(["worker"], "") == ["worker-0", "worker-1", "worker-2"]
    assert labels([], "0") == ["server-0", "worker-0"]
    assert labels(["worker"], "2,0-1") == ["worker-0", "worker-1", "worker-2"]
    assert labels([], "worker-1") == ["worker-1"]


@pytest.mark.parametrize(
    ("types", "numbers", "complaint"),
    [
        (["wroker"], "", "the job has no type wroker: there are server, worker"),
        (["worker"], "3", "type worker has no rank 3: they are 0 to 2"),
        ([], "2-1", "2-1 is no range of ranks"),
        ([], "wroker-0", "the job has no type wroker: there are server, worker"),
        ([], "one", "'one' names no ranks: write 0, 0-3,7 or worker-0"),
        ([], "1,,2", "'1,,2' names no ranks"),
    ],
)
def test_ranks_that_cannot_be_meant(types, numbers, complaint):
    with pytest.raises(CommandError, match=complaint) as raised:
        labels(types, numbers)
    assert raised.value.code == 2


def test_ranges_may_overlap():
    assert parsed("0-3,2-4,9") == {0, 1, 2, 3, 4, 9}


# ------------------------------------------------------------------------------------------------ describe


def told(job, *pods, moments=(), **how):
    return "\n".join(described(job, list(by_label(job, *pods).values()), list(moments), **how))


def test_of_a_large_job_only_the_unusual_ranks_are_described():
    text = told(a_job(worker=200, succeededRanks="0-197", failedRanks="198"))
    rows = [line.split()[0] for line in text.splitlines() if line.startswith(("  worker-", "  server-"))]
    assert rows == ["server-0", "worker-198", "worker-199"]
    assert "3 of 201 ranks are shown, --all shows all: 198 Succeeded" in text
    assert "worker-0" in told(a_job(worker=200, succeededRanks="0-197"), everything=True)


def test_what_is_waited_for_follows_the_rules():
    job = a_job(succeededRanks="0", failedRanks="2")
    job["spec"]["successRules"] = [{"worker": [0, 1]}, {"worker": [2]}, {"server": ["0"]}]
    waits = told(job).partition("Waits for:\n")[2].partition("\n\n")[0]
    assert waits.splitlines() == ["  worker-1 to succeed (one of several rules)", "  server-0 to succeed (one of several rules)"]


def test_what_is_waited_for_of_many_ranks_in_few_words():
    job = a_job(succeededRanks="0")
    job["spec"]["successRules"] = [{"worker": ["all"]}, {"worker": ["0-1"], "server": ["any"]}, {"worker": ["0-9"]}]
    waits = told(job).partition("Waits for:\n")[2].partition("\n\n")[0]
    assert waits.splitlines() == [
        "  worker-1, worker-2 to succeed (one of several rules)",
        "  worker-1, any server to succeed (one of several rules)",
    ]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([{"worker": ["all"]}], "when every worker has failed"),
        ([{"worker": ["any"]}], "when any worker has failed"),
        ([{"server": [0]}, {"worker": ["any"]}], "when server 0 or any worker has failed"),
        ([{"worker": ["0-1"]}], "when worker 0-1 have failed"),
        ([{"worker": ["any"], "server": [0]}], "when any worker and server 0 have failed"),
    ],
)
def test_rules_of_many_ranks_are_told_in_a_few_words(rules, words):
    job = a_job()
    job["spec"]["failureRules"] = rules
    assert next(line for line in told(job).splitlines() if line.startswith("Fails:")).split(maxsplit=1)[1] == words


def test_a_job_that_nobody_looked_at_waits_for_a_controller_and_a_paused_one_for_its_user():
    job = a_job()
    job["status"] = {}
    assert "a controller: none has looked at this job yet" in told(job)
    assert "you: `genericjob resume train` lets it go on" in told(a_job("Paused"))
    assert "Waits for:" not in told(a_job("Succeeded"))


def test_a_long_story_begins_late():
    moments = [Moment(now(), "job", f"number {number}") for number in range(50)]
    text = told(a_job(), moments=moments)
    assert "… 10 earlier, --all shows them" in text
    assert "number 9\n" not in text
    assert "number 9\n" in told(a_job(), moments=moments, everything=True)


SENTENCE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def unschedulable(name):
    pod = a_pod(name, "Pending")
    pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": SENTENCE}]
    return pod


def test_what_many_ranks_wait_for_is_said_once():
    job, names = a_job("Pending", server=0, worker=16), [f"train-worker-{number}" for number in range(16)]
    message = f"Pod[train-worker-0] waits: Unschedulable: {SENTENCE} (and 15 more)"
    waiting = {"type": "Running", "status": "False", "reason": "Unschedulable", "message": message, "lastTransitionTime": THEN}
    job["status"]["conditions"].append(waiting)
    text = told(job, *map(unschedulable, names))
    assert text.count(SENTENCE) == 1
    assert f"  worker-0, worker-1, worker-2, worker-3, worker-4 and 11 more ranks: Unschedulable: {SENTENCE}\n" in text
    assert "Unschedulable: Pod[train-worker-0] waits, see below" in text
    row = next(line for line in text.splitlines() if line.startswith("  worker-7 "))
    assert row.split()[-1] == "Unschedulable"


def test_what_happened_to_many_ranks_at_the_same_time_is_told_once():
    at = now()
    moments = [Moment(at, f"worker-{number}", f"FailedScheduling: {SENTENCE}") for number in range(16)]
    moments += [Moment(at + timedelta(minutes=5), "worker-0", f"FailedScheduling: {SENTENCE}"), Moment(at, "job", "Created 16 pods")]
    text = told(a_job(), moments=moments).partition("What happened:")[2]
    assert text.count(SENTENCE) == 2
    assert "worker-0 and 15 more" in text
    assert told(a_job(), moments=moments, everything=True).count(SENTENCE) == 17


def test_a_rule_about_a_type_that_does_not_exist_is_marked():
    job = a_job()
    job["spec"] |= {"successRules": [{"chief": [0]}, {"worker": [0]}], "failureRules": [{"worker": [1], "master": [0]}]}
    text = told(job)
    assert "when chief 0 (there is no such type) or worker 0 has succeeded" in text
    assert "when worker 1 and master 0 (there is no such type) have failed" in text
