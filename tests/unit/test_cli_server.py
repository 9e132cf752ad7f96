"""Commands against a server without a cluster: the API in memory as a run serves it, and one that has no definition of our kind."""

import os
import shlex
import sys
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec
import pytest
import yaml

from genericjob.api import crd
from genericjob.cli import following, modes, wait
from genericjob.cli.main import HOW_TO_INSTALL, main
from genericjob.cli.options import target
from genericjob.local import runs
from genericjob.local.arrivals import SECOND
from genericjob.local.logfiles import LogFiles
from genericjob.local.memory import MemoryApi
from genericjob.local.serving import ApiServer
from genericjob.reconcile import http
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, EVENTS, NAMESPACES, RAW_PODS, Key, raw
from harness.clusters import eventually
from harness.scripted import ScriptedServer, answer, stream, stream_and_say_nothing

JOBS = raw("batch.tensorstack.dev", "v1beta1", "genericjobs", "GenericJob")


def a_job(name="train", **spec):
    template = {"spec": {"containers": [{"name": "main", "image": "a"}]}}
    replicas = [{"type": "worker", "replicas": 2, "template": template}]
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name},
        "spec": {"replicaSpecs": replicas, **spec},
    }


THEN = "2026-01-01T00:00:00Z"
PAUSED = {
    "phase": "Paused",
    "observedGeneration": 1,
    "conditions": [{"type": "Paused", "status": "True", "reason": "Paused", "message": "It is.", "lastTransitionTime": THEN}],
}


@pytest.fixture
def call(monkeypatch, capfd):
    """`call("get", …)`: exit code, output, complaints."""

    def called(*words):
        monkeypatch.setattr(sys, "argv", ["genericjob", *words])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
            if isinstance(code, str):  # as Python itself does at the end of a program
                print(code, file=sys.stderr)
                code = 1
        out, err = capfd.readouterr()
        return code, out, err

    return called


@pytest.fixture
def logs(tmp_path):
    """What programs print, of which there are none here: a line in a second, from noon on."""
    seconds = count(1794830400)
    found = LogFiles(tmp_path / "logs", clock=lambda: next(seconds) * SECOND)
    yield found
    found.close()


@pytest.fixture
def served(monkeypatch, tmp_path, logs):
    """An API and its server, which commands find as the only run on this machine."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    api = MemoryApi()
    api.create(CUSTOM_RESOURCE_DEFINITIONS, crd.definition())
    server = ApiServer(api, find_log=logs.path_of)
    server.start()
    registration = runs.register("hello")
    registration.announce(server.host, server.port, token=server.token, namespace="default")
    yield api, server
    registration.close()
    server.stop()


@pytest.fixture
def api(served):
    return served[0]


# ------------------------------------------------------------------------------------------------ a run


def test_a_job_of_a_run_is_applied_listed_described_and_deleted(api, call, tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(a_job()))
    assert call("apply", "--run", "-", str(tmp_path / "job.yaml")) == (0, "genericjob/train created\n", "")
    assert call("apply", "--run", "-", str(tmp_path / "job.yaml")) == (0, "genericjob/train unchanged\n", "")
    code, out, _ = call("get", "--run", "hello")
    assert (code, out.splitlines()[1].split()[:4]) == (0, ["train", "Pending", "0/2", "0"])
    assert "none has looked at this job yet" in call("describe", "--run", "-", "train")[1]
    api.patch(JOBS, Key("default", "train"), {"spec": {"successRules": [{"worker": [0]}], "failureRules": [{"worker": [0, 1]}]}})
    told = call("describe", "--run", "-", "train")[1]
    assert "when worker 0 has succeeded" in told
    assert "when worker 0,1 have failed" in told
    assert call("delete", "--run", "-", "train") == (0, "train deleted\n", "")
    assert call("get", "--run", "-") == (0, "", "There are no jobs in namespace default (run hello).\n")


def test_apply_names_the_word_that_does_not_stand_alone(api, call, tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(a_job(successRules=[{"worker": [0, "any"]}])))
    code, _, complaint = call("apply", "--run", "-", str(tmp_path / "job.yaml"))
    assert code == 2
    assert [line.split(": ")[2] for line in complaint.splitlines()] == ["spec.successRules[0].worker[1]"]


def test_apply_warns_of_restarts_that_never_come(api, call, tmp_path):
    job = a_job()
    job["spec"]["replicaSpecs"][0]["restartPolicy"] = {"policy": "OnFailure"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    code, out, complaint = call("apply", "--run", "-", "-f", str(tmp_path / "job.yaml"))
    assert (code, out) == (0, "genericjob/train created\n")
    assert "warning: spec.replicaSpecs[0].restartPolicy.policy: with OnFailure no replica is restarted" in complaint


def test_what_happened_to_pods_of_an_earlier_job_is_another_story(api, call):
    made = api.create(JOBS, a_job(), "default").object["metadata"]
    for name, at in (("old", "2020-01-01T00:00:00Z"), ("new", made["creationTimestamp"])):
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "train-worker-1", "uid": name}
        event = {"metadata": {"name": name}, "involvedObject": about, "reason": "Scheduled", "message": f"the {name} one", "type": "Normal"}
        api.create(EVENTS, event | {"firstTimestamp": at, "lastTimestamp": at, "count": 1}, "default")
    story = call("describe", "--run", "-", "train")[1].partition("What happened:")[2]
    assert ["worker-1", "Scheduled:", "the", "new", "one"] in [line.split()[1:] for line in story.splitlines()]
    assert "the old one" not in story


def test_logs_of_a_job_without_pods_say_so(api, call):
    api.create(JOBS, a_job(), "default")
    told = "genericjob: worker-0 has no pod yet\ngenericjob: worker-1 has no pod yet\n"
    assert call("logs", "--run", "-", "train") == (0, "", told)
    assert call("logs", "--run", "-", "train", "-c", "mian") == (2, "", "genericjob: there is no container mian: there are main\n")
    assert call("logs", "--run", "-", "train", "--previous") == (0, "", told)
    assert call("exec", "--run", "-", "train", "--rank", "worker-0", "--", "true") == (1, "", "genericjob: worker-0 has no pod\n")


def start(api, job, rank=0):
    """Let the pod of a rank run, in the place of one that had its name; returns its UID."""
    name = f"{job['metadata']['name']}-worker-{rank}"
    with suppress(ApiError):
        api.delete(RAW_PODS, Key("default", name), grace=0)
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    meta = {"name": name, "labels": {"genericjob": job["metadata"]["name"]}, "ownerReferences": [owner]}
    made = api.create(RAW_PODS, {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "a"}]}}, "default").object
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    api.patch(RAW_PODS, Key("default", name), {"status": status}, subresource="status")
    return made["metadata"]["uid"]


DATED = ["2026-11-16 12:00:00,123 INFO begun", "2026-11-16T12:00:01Z done", "20261116 is a date as well", "", " 2026-11-16T12:00:01Z"]


def test_times_that_a_rank_prints_itself_are_its_own(api, call, logs):
    uid = start(api, api.create(JOBS, a_job(), "default").object)
    for line in DATED:
        logs.write(Key("default", "train-worker-0"), uid, "main", line.encode() + b"\n")
    assert call("logs", "--run", "-", "train", "--rank", "worker-0", "--no-prefix")[1].splitlines() == DATED
    stamped = call("logs", "--run", "-", "train", "--rank", "worker-0", "--no-prefix", "--timestamps")[1].splitlines()
    assert stamped == [f"2026-11-16T12:00:0{second}.000000Z {line}" for second, line in enumerate(DATED)]


def test_logs_say_what_they_cannot_show_and_what_goes_on(api, call, logs):
    pod, uid = Key("default", "train-worker-0"), start(api, api.create(JOBS, a_job(), "default").object)
    logs.write(pod, uid, "main", b"caf\xe9\n" + b"x" * 600_000 + b"\nlast")
    code, out, err = call("logs", "--run", "-", "train", "--rank", "worker-0")
    first, *long, last = out.splitlines()
    assert (code, first, last) == (0, r"worker-0 | caf\xe9", "worker-0 | last")
    assert err == "genericjob: worker-0 prints bytes that are not UTF-8: they are shown as \\xNN\n"
    assert [line[:11] for line in long] == ["worker-0 | ", *["worker-0 + "] * (len(long) - 1)]
    assert len(long) > 1
    assert sum(len(line) - 11 for line in long) == 600_000


def test_logs_of_a_run_come_in_the_order_of_time(api, call, logs):
    job = api.create(JOBS, a_job(), "default").object
    pods = [(Key("default", f"train-worker-{rank}"), start(api, job, rank)) for rank in (0, 1)]
    for turn, rank in enumerate((1, 0, 1, 1, 0)):
        logs.write(*pods[rank], "main", f"line {turn}\n".encode())
    out = call("logs", "--run", "-", "train")[1]
    assert out.splitlines() == [f"worker-{rank} | line {turn}" for turn, rank in enumerate((1, 0, 1, 1, 0))]


def test_a_run_still_has_what_the_pod_before_has_printed(api, call, logs):
    job, pod = api.create(JOBS, a_job(), "default").object, Key("default", "train-worker-0")
    logs.write(pod, start(api, job), "main", b"first try\n")
    start(api, job, 1)
    assert call("logs", "--run", "-", "train", "--previous") == (0, "", "genericjob: none of these ranks was started again\n")
    logs.write(pod, start(api, job), "main", b"second try\n")
    assert call("logs", "--run", "-", "train", "--previous") == (0, "worker-0 | first try\n", "")
    assert call("logs", "--run", "-", "train")[1] == "worker-0 | second try\n"


def test_the_log_of_a_pod_that_is_gone_is_among_the_files_of_a_run(api, call):
    made = api.create(JOBS, a_job(), "default").object
    status = {"phase": "Failed", "tasks": [{"type": "worker", "succeededRanks": "0"}]}
    api.replace_status(JOBS, Key("default", "train"), made | {"status": status})
    told = call("logs", "--run", "-", "train")[2]
    assert "worker-0 succeeded with exit code 0; its pod is gone, and its log is among the files of the run\n" in told
    assert "worker-1 has no pod any more, and its log is among the files of the run\n" in told


def test_a_name_that_is_nearly_right_in_a_run(api, call):
    api.create(JOBS, a_job(), "default")
    message = "genericjob: there is no job trian in namespace default (run hello): did you mean train?\n"
    for command in ("describe", "logs", "wait", "pause", "resume", "debug", "watch", "delete"):
        assert call(command, "--run", "-", "trian") == (1, "", message)
    assert call("exec", "--run", "-", "trian", "--", "true") == (1, "", message)


@pytest.mark.parametrize("name", ["train-worker-1", "pod/train-worker-1", "gj/train-worker-1"])
def test_the_name_of_a_pod_is_understood_as_that_of_its_job(api, call, name):
    made = api.create(JOBS, a_job(), "default").object
    start(api, made, 0)
    start(api, made, 1)
    note = "genericjob: train-worker-1 is a pod of the job train\n"
    assert call("get", "--run", "-", name, "-o", "name") == (0, "genericjob.batch.tensorstack.dev/train\n", note)
    assert call("pause", "--run", "-", name, "--no-wait") == (0, "train is being paused\n", note)
    code, out, complaint = call("logs", "--run", "-", name)  # of this rank alone
    assert (code, out, complaint) == (0, "", note)
    code, out, complaint = call("delete", "--run", "-", name)  # all of the job may not have been meant
    assert (code, out) == (1, "")
    assert complaint == "genericjob: train-worker-1 is a pod of the job train: name the job if all of it is meant\n"


@pytest.mark.parametrize("name", ["train-worker-2", "train-chief-0", "pod/train", "train-worker-x"])
def test_a_name_that_no_pod_of_a_job_can_have_is_not(api, call, name):
    api.create(JOBS, a_job(), "default")
    code, _, complaint = call("get", "--run", "-", name)
    assert (code, "there is no job" in complaint) == (1, True)


def test_pause_resume_and_debug_turn_switches_and_nothing_else(api, call):
    api.create(JOBS, a_job(runMode={"pause": {"enabled": False, "resumeSpecs": [{"type": "worker"}]}}), "default")

    def mode():
        return api.get(JOBS, Key("default", "train"))["spec"]["runMode"]

    assert call("pause", "--run", "-", "train", "--no-wait") == (0, "train is being paused\n", "")
    assert mode()["pause"] == {"enabled": True, "resumeSpecs": [{"type": "worker", "skipInitContainer": False}]}
    assert call("resume", "--run", "-", "train") == (0, "train is being resumed\n", "")
    assert not mode()["pause"]["enabled"]
    assert call("resume", "--run", "-", "train") == (0, "train is not paused\n", "")
    assert call("debug", "--run", "-", "train") == (0, "train: debug is on\n", "")
    assert mode()["debug"]["enabled"]
    assert call("debug", "--run", "-", "train", "--off") == (0, "train: debug is off\n", "")
    assert not mode()["debug"]["enabled"]
    assert call("debug", "--run", "-", "train", "--off", "--rank", "worker-0")[0] == 2


def test_a_rank_that_cannot_be_entered_is_not_made_to_wait(api, call):
    api.create(JOBS, a_job(), "default")
    told = "genericjob: --rank opens a shell in a container, and ranks of a run are ordinary processes of this machine\n"
    assert call("debug", "--run", "-", "train", "--rank", "worker-0", "--timeout", "1s") == (2, "", told)
    assert "runMode" not in api.get(JOBS, Key("default", "train"))["spec"]


def test_a_job_that_is_suspended_is_resumed_as_well(api, call):
    api.create(JOBS, a_job(suspend=True), "default")
    assert call("resume", "--run", "-", "train") == (0, "train is being resumed\n", "")
    assert not api.get(JOBS, Key("default", "train"))["spec"]["suspend"]


def test_a_pause_that_does_not_come_in_time(api, call):
    api.create(JOBS, a_job(), "default")
    code, _, complaint = call("pause", "--run", "-", "train", "--timeout", "1s")
    assert (code, complaint) == (
        3,
        "genericjob: train is not paused after 1 s: no controller has seen the change yet (`genericjob check --run hello`)\n",
    )


def test_a_pause_that_no_controller_has_seen_is_reported_once_while_it_is_waited_for(api, call, monkeypatch):
    monkeypatch.setattr(modes, "REPORT_EVERY_S", 0.3)
    api.create(JOBS, a_job(), "default")
    code, _, complaint = call("pause", "--run", "-", "train", "--timeout", "2s")
    assert (code, complaint.count("no controller has seen the change yet")) == (3, 2)


def test_a_pause_says_how_many_pods_still_terminate(api, call):
    key = Key("default", "train")
    api.create(JOBS, a_job(), "default")
    message = "2 pods are still terminating."
    told = {"type": "Paused", "status": "False", "reason": "Pausing", "message": message, "lastTransitionTime": THEN}
    pausing = {"phase": "Pausing", "terminating": 2, "observedGeneration": 2, "conditions": [told]}
    api.patch(JOBS, key, {"status": pausing}, subresource="status")
    code, out, complaint = call("pause", "--run", "-", "train", "--timeout", "1s")
    assert (code, out) == (3, "")
    assert complaint == f"train: {message}\ngenericjob: train is not paused after 1 s: {message}\n"
    assert call("describe", "--run", "-", "train")[1].count(message) == 2  # its condition, and what it waits for


def test_a_pause_returns_when_the_pods_are_gone_whatever_an_older_controller_says(api, call):
    """Earlier versions stored Paused as soon as all pods were asked to end."""
    made = api.create(JOBS, a_job(), "default").object
    start(api, made)
    api.patch(JOBS, Key("default", "train"), {"status": PAUSED | {"observedGeneration": 9}}, subresource="status")
    told = "genericjob: train is not paused after 1 s: 1 pod is still terminating: train-worker-0\n"
    assert call("pause", "--run", "-", "train", "--timeout", "1s") == (3, "", told)
    timer = threading.Timer(0.3, lambda: api.delete(RAW_PODS, Key("default", "train-worker-0"), grace=0))
    timer.start()
    assert call("pause", "--run", "-", "train") == (0, "train is paused\n", "")
    timer.join()


@pytest.mark.parametrize("command", ["pause", "resume", "wait", "delete", "get"])
def test_an_unknown_name_does_not_keep_the_others_from_being_handled(api, call, command):
    for name in ("train", "eval"):
        api.create(JOBS, a_job(name, suspend=True), "default")
        api.patch(JOBS, Key("default", name), {"status": PAUSED | {"observedGeneration": 9}}, subresource="status")
    options = ["--for", "phase=Paused"] if command == "wait" else []
    code, out, complaint = call(command, "--run", "-", "train", "nobody", "eval", *options)
    assert (code, "train" in out, "eval" in out) == (1, True, True)
    assert complaint.startswith("genericjob: there is no job nobody in namespace default")


@pytest.mark.parametrize("command", ["pause", "resume", "wait", "describe", "get", "delete"])
def test_jobs_are_chosen_by_their_labels(api, call, command):
    for name, team in (("one", "red"), ("two", "red"), ("other", "blue")):
        body = a_job(suspend=True) | {"metadata": {"name": name, "labels": {"team": team}}}
        api.create(JOBS, body, "default")
        api.patch(JOBS, Key("default", name), {"status": PAUSED | {"observedGeneration": 9}}, subresource="status")
    options = ["--for", "phase=Paused"] if command == "wait" else []
    code, out, complaint = call(command, "--run", "-", "-l", "team=red", *options)
    assert (code, "one" in out, "two" in out, "other" in out, complaint) == (0, True, True, False, "")
    code, out, complaint = call(command, "--run", "-", "-l", "team=green", *options)
    assert (code, out, complaint.startswith("There are no jobs ")) == (1 if command == "wait" else 0, "", True)


@pytest.mark.parametrize("command", ["pause", "resume", "wait", "describe"])
def test_jobs_are_named_or_chosen(api, call, command):
    told = "one of the two\n"
    assert call(command, "--run", "-")[2].endswith(told)
    assert call(command, "--run", "-", "train", "-l", "a=b")[2].endswith(told)


def test_neither_does_one_that_the_user_may_not_change(call, tmp_path):
    one, other = (a_job(name) | {"metadata": {"name": name, "namespace": "default", "uid": name}} for name in ("one", "other"))
    refusal = answer(403, {"message": "you may not", "reason": "Forbidden"})
    with ScriptedServer(answer(200, one), refusal, answer(200, other), answer(200, other)) as server:
        config = kubeconfig_of(server, tmp_path / "config")
        done = call("pause", "one", "other", "--no-wait", "--kubeconfig", config)
    assert done == (1, "other is being paused\n", "genericjob: you may not\n")


def test_neither_does_one_that_takes_too_long(api, call):
    for name in ("slow", "paused"):
        api.create(JOBS, a_job(name, suspend=True), "default")
    api.patch(JOBS, Key("default", "paused"), {"status": PAUSED | {"observedGeneration": 9}}, subresource="status")
    assert call("pause", "--run", "-", "slow", "paused", "--timeout", "1s")[:2] == (3, "paused is paused\n")
    assert call("wait", "--run", "-", "slow", "paused", "--for", "phase=Paused", "--timeout", "1s")[:2] == (
        3,
        "paused is in phase Paused\n",
    )


def test_a_pause_that_somebody_else_ends_is_not_waited_for(api, call):
    api.create(JOBS, a_job(), "default")
    key = Key("default", "train")

    def resume():
        eventually(lambda: api.get(JOBS, key)["spec"].get("runMode"))
        api.patch(JOBS, key, {"spec": {"runMode": {"pause": {"enabled": False}}}})

    other = threading.Thread(target=resume)
    other.start()
    assert call("pause", "--run", "-", "train") == (1, "", "genericjob: train was resumed by somebody else before it was paused\n")
    other.join()


def test_a_pause_of_before_is_not_the_one_that_was_asked_for(api, call):
    made = api.create(JOBS, a_job(), "default").object
    api.replace_status(JOBS, Key("default", "train"), made | {"status": {"phase": "Paused", "observedGeneration": 1}})
    assert call("pause", "--run", "-", "train", "--timeout", "1s")[0] == 3
    api.patch(JOBS, Key("default", "train"), {"status": {"observedGeneration": 2}}, subresource="status")
    assert call("pause", "--run", "-", "train") == (0, "train is paused\n", "")


def test_a_job_that_no_controller_has_seen_says_so_where_its_state_is_reported(api, call):
    told = "no controller has looked at this job yet; `genericjob check --run hello` tells whether one runs\n"
    made = api.create(JOBS, a_job(), "default").object
    assert call("wait", "--run", "hello", "train", "--timeout", "0") == (3, "", f"genericjob: train is not over after 0 s: {told}")
    assert call("get", "--run", "hello", "-o", "wide")[1].endswith(told)
    api.replace_status(JOBS, Key("default", "train"), made | {"status": PAUSED})
    assert "no controller" not in call("wait", "--run", "hello", "train", "--timeout", "0")[2]
    assert "no controller" not in call("get", "--run", "hello", "-o", "wide")[1]


@pytest.mark.parametrize("goal", ["phase=Paused", "condition=Paused"])
def test_a_pause_of_before_is_not_waited_for_either(api, call, goal):
    made = api.create(JOBS, a_job(suspend=True), "default").object
    api.replace_status(JOBS, Key("default", "train"), made | {"status": PAUSED})
    assert call("wait", "--run", "-", "train", "--for", goal)[0] == 0
    api.patch(JOBS, Key("default", "train"), {"spec": {"suspend": False}})
    code, out, complaint = call("wait", "--run", "-", "train", "--for", goal, "--timeout", "1s")
    assert (code, out) == (3, "")
    assert "after 1 s: it was Paused before its last change, which no controller has seen yet (`genericjob check --run hello`)" in complaint


def test_a_job_that_is_deleted_while_it_is_waited_for(api, call):
    made = api.create(JOBS, a_job(), "default").object

    def replace():
        api.delete(JOBS, Key("default", "train"), uid=made["metadata"]["uid"])
        api.create(JOBS, a_job(), "default")  # the name alone does not make it the same

    timer = threading.Timer(0.3, replace)
    timer.start()
    assert call("wait", "--run", "-", "train") == (1, "train was deleted before it was over\n", "")
    timer.join()
    assert call("wait", "--run", "-", "nobody", "--for", "delete") == (0, "nobody is deleted\n", "")


def test_a_job_that_goes_with_another_is_no_failure_of_who_wants_none(api, call):
    first = api.create(JOBS, a_job("first"), "default").object
    second = a_job("second")
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "first", "uid": first["metadata"]["uid"]}
    second["metadata"]["ownerReferences"] = [owner]
    api.create(JOBS, second, "default")
    assert call("delete", "--run", "-", "--all") == (0, "first deleted\n", "")


def test_what_a_job_made_can_be_left_behind(api, call):
    made = api.create(JOBS, a_job(), "default").object
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "train", "uid": made["metadata"]["uid"], "controller": True}
    api.create(CONFIG_MAPS, {"metadata": {"name": "kept", "ownerReferences": [owner]}}, "default")
    assert call("delete", "--run", "-", "train", "--cascade", "orphan")[0] == 0
    eventually(lambda: not api.get(CONFIG_MAPS, Key("default", "kept"))["metadata"].get("ownerReferences"))


def test_a_run_that_ends_while_a_job_is_waited_for(served, call):
    api, server = served
    api.create(JOBS, a_job(), "default")
    timer = threading.Timer(0.5, server.stop)
    timer.start()
    assert call("wait", "--run", "-", "train") == (1, "", "genericjob: the run hello has ended\n")
    timer.join()


@pytest.fixture
def impatient(monkeypatch):
    """What takes seconds otherwise, in an instant, but not so soon that an answer on its way is overtaken."""
    monkeypatch.setattr(following, "RETRY", 0.01)
    monkeypatch.setattr(following, "REPORT_AFTER_S", 0.2)


@pytest.fixture
def vanishing(served, monkeypatch):
    """`vanishing(2)`: the kubeconfig of a server that goes away as soon as it has been asked for two watches."""
    api, server = served

    def until(watches):
        opened, watch = count(1), api.watch

        def watched(*words, **options):
            found = watch(*words, **options)
            if next(opened) == watches:
                threading.Thread(target=server.stop).start()
            return found

        monkeypatch.setattr(api, "watch", watched)
        return str(runs.find("hello"))

    return until


LOST = "genericjob: cannot reach the server, trying again: "


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("wait", "train"), "genericjob: train is not over after 2 s, and the server has not answered for the last "),
        (("pause", "train"), "genericjob: train is not paused after 2 s, and the server has not answered for the last "),
    ],
    ids=str,
)
def test_a_time_out_says_that_the_server_was_away(vanishing, api, call, impatient, words, told):
    api.create(JOBS, a_job(), "default")
    code, out, complaint = call(*words, "--kubeconfig", vanishing(1), "--timeout", "2s")
    lost, ended = complaint.splitlines()
    assert (code, out, lost[: len(LOST)], ended[: len(told)]) == (3, "", LOST, told)


@pytest.mark.parametrize(
    ("words", "watches"), [(("watch", "train"), 2), (("logs", "-f", "train"), 2), (("get", "-w"), 1), (("wait", "train"), 1)], ids=str
)
def test_a_server_that_is_away_is_reported_once_while_it_is_followed(vanishing, api, call, impatient, monkeypatch, words, watches):
    monkeypatch.setattr(following, "OUTAGE", 0.6)
    api.create(JOBS, a_job(), "default")
    code, _, complaint = call(*words, "--kubeconfig", vanishing(watches))
    assert (code, complaint.count(LOST), complaint.count("\n")) == (1, 1, 2)


@pytest.mark.parametrize(
    ("words", "watches"),
    [(("wait", "train"), 1), (("watch", "train"), 2), (("logs", "-f", "train"), 2), (("pause", "train"), 1), (("get", "-w"), 1)],
    ids=str,
)
def test_a_command_that_gives_up_says_after_which_time_and_how_the_job_was(vanishing, api, call, impatient, monkeypatch, words, watches):
    monkeypatch.setattr(following, "OUTAGE", 0.6)
    monkeypatch.setattr(modes, "REPORT_EVERY_S", 0.3)  # a pause asks anew that often: an outage may be longer
    made = api.create(JOBS, a_job(), "default").object
    about = {"type": "Running", "status": "True", "reason": "Running", "message": "It runs.", "lastTransitionTime": THEN}
    api.replace_status(JOBS, Key("default", "train"), made | {"status": {"phase": "Running", "conditions": [about]}})
    code, _, complaint = call(*words, "--kubeconfig", vanishing(watches))
    state = "" if words[0] == "get" else "; train was Running (It runs.)"
    assert (code, complaint.endswith(f"; given up after 0.6 s{state}\n")) == (1, True), complaint


UNAVAILABLE = answer(503, {"message": "cannot reach the server for now", "reason": "ServiceUnavailable"})


@pytest.mark.parametrize("chosen", ["train", "-l team=red"])
def test_a_wait_with_a_time_out_may_begin_while_the_server_is_away(call, tmp_path, monkeypatch, chosen):
    monkeypatch.setattr(wait, "RETRY", 0.01)
    monkeypatch.setattr(following, "REPORT_AFTER_S", 0.0)
    done = {"phase": "Succeeded", "observedGeneration": 1}
    job = a_job() | {"metadata": {"name": "train", "namespace": "default", "uid": "1"}, "status": done}
    found = job if chosen == "train" else {"metadata": {"resourceVersion": "1"}, "items": [job]}
    with ScriptedServer(UNAVAILABLE, UNAVAILABLE, answer(200, found)) as server:
        config = kubeconfig_of(server, tmp_path / "config")
        code, out, complaint = call("wait", *chosen.split(), "--kubeconfig", config, "--timeout", "1h")
    assert (code, out) == (0, "train succeeded: \n")
    assert complaint == f"{LOST}for now\ngenericjob: the server answers again\n"


@pytest.mark.parametrize(("timeout", "code"), [(["--timeout", "1s"], 3), ([], 1)])
def test_a_server_that_never_comes_is_no_job_that_has_failed(served, api, call, impatient, monkeypatch, timeout, code):
    monkeypatch.setattr(wait, "RETRY", 0.01)
    served[1].stop()
    ended, out, complaint = call("wait", "train", "other", "--kubeconfig", str(runs.find("hello")), *timeout)
    assert (ended, out, complaint.count(LOST)) == (code, "", 1 if timeout else 0)
    last = complaint.splitlines()[-1]
    assert last.startswith("genericjob: cannot reach the server http://127.0.0.1:")
    assert last.endswith("; given up after 1 s") == bool(timeout)


def test_a_wait_with_a_time_out_does_not_end_after_the_minute(vanishing, api, call, impatient, monkeypatch):
    monkeypatch.setattr(following, "OUTAGE", 0.1)
    api.create(JOBS, a_job(), "default")
    code, _, complaint = call("wait", "train", "--kubeconfig", vanishing(1), "--timeout", "2s")
    assert (code, "train is not over after 2 s, and the server has not answered" in complaint) == (3, True)


def test_a_certificate_that_is_not_trusted_is_not_waited_for():
    contact = following.Contact(endless=True)
    assert contact.bears(ApiError(0, "Unreachable", "refused"))
    assert not contact.bears(ApiError(0, "Certificate", "not trusted"))
    assert not contact.bears(ApiError(403, "Forbidden", "no"))


def test_contact_that_is_lost_and_found_again_is_reported(capsys, monkeypatch):
    monkeypatch.setattr(following, "REPORT_AFTER_S", 0.0)
    contact = following.Contact()
    assert (contact.lost, str(contact)) == (False, "")
    for _ in range(3):
        contact.failed(ApiError(0, "Unreachable", "refused"))
    assert contact.lost
    contact.answered()
    contact.answered()
    assert (contact.lost, str(contact)) == (False, "")
    assert capsys.readouterr().err == f"{LOST}refused\ngenericjob: the server answers again\n"


def test_a_short_outage_is_not_reported(capsys):
    contact = following.Contact()
    contact.failed(ApiError(0, "Unreachable", "refused"))
    contact.answered()
    assert capsys.readouterr().err == ""


def test_a_server_that_falls_silent_has_been_away_since_its_last_word(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(following.time, "monotonic", lambda: now[0])
    contact = following.Contact()
    now[0] += 13
    contact.failed(ApiError(0, "Silent", "no event"))
    assert capsys.readouterr().err == f"{LOST}no event\n"
    assert str(contact) == ", and the server has not answered for the last 13 s"


def test_a_server_that_falls_silent_does_not_make_a_time_out_longer(call, tmp_path, monkeypatch):
    monkeypatch.setattr(http, "WATCH_END_S", 0.2)
    job = a_job() | {"metadata": {"name": "train", "namespace": "default", "uid": "1"}}
    listed = {"metadata": {"resourceVersion": "1"}, "items": [job]}
    with ScriptedServer(answer(200, job), answer(200, listed), stream_and_say_nothing()) as server:
        config = kubeconfig_of(server, tmp_path / "config")
        code, _, complaint = call("wait", "train", "--kubeconfig", config, "--timeout", "1s")
    assert code == 3
    assert "train is not over after 1 s, and the server has not answered for the last " in complaint
    assert "it was Pending" in complaint


def test_a_run_can_be_checked(api, call):
    code, out, _ = call("check", "--run", "-")
    told = dict(line.split(maxsplit=1) for line in out.replace("You ", "you_").splitlines())
    assert code == 0
    assert told["Jobs"] == "genericjobs.batch.tensorstack.dev v1beta1"
    assert (told["Controller"], told["you_are"]) == ("this run", "the user of this run")


def test_a_check_fails_where_jobs_are_not_known(api, call):
    api.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", crd.definition()["metadata"]["name"]))
    code, out, _ = call("check", "--run", "-")
    assert code == 1
    assert f"is not installed: {HOW_TO_INSTALL}\n" in out


def test_what_a_server_takes_although_no_pod_can_come_of_it_is_told(api, call, tmp_path):
    job, file = a_job(), tmp_path / "job.yaml"
    job["spec"]["replicaSpecs"][0]["template"]["spec"]["containers"][0] |= {"env": [{"name": "A", "value": 3}], "comand": ["x"]}
    file.write_text(yaml.safe_dump(job))
    code, out, complaint = call("apply", "--run", "-", str(file))
    assert (code, out) == (0, "genericjob/train created\n")
    warnings = sorted(line.split(": ", 1)[1] for line in complaint.splitlines())
    assert [each.split(": ")[:2] for each in warnings] == [
        ["warning", "spec.replicaSpecs[0].template.spec.containers[0].comand"],
        ["warning", "spec.replicaSpecs[0].template.spec.containers[0].env[0].value"],
    ]


WRONG = """
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata: {name: train}
spec:
  cleanUpPolicy: all
  failureRules: [{worker: [7]}]
  suspended: true
  replicaSpecs:
    - type: worker
      replicas: "2"
      template: {spec: {containers: [{name: main, image: a, command: [train, 3]}]}}
"""


def test_what_a_server_refuses_is_reported_with_all_that_validate_knows_each_finding_once(api, call, tmp_path):
    (tmp_path / "job.yaml").write_text(WRONG)
    known = call("validate", str(tmp_path / "job.yaml"))[1].splitlines()[:-1]
    code, out, complaint = call("apply", "--run", "-", "-f", str(tmp_path / "job.yaml"))
    assert (code, out, complaint.splitlines()) == (2, "", known)
    assert len(known) >= 4
    assert "did you mean All?" in complaint
    assert "did you mean suspend?" in complaint


def test_what_only_the_server_knows_is_reported_beside_what_validate_knows(call, tmp_path):
    """That a field cannot be changed any more does not stand in the file, even if something else is wrong with the field."""
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(a_job(managedBy="b", successRules=[{"worker": [9]}])))
    causes = [
        {"field": "spec.managedBy", "reason": "FieldValueForbidden", "message": f"Forbidden: {why}"} for why in ("cannot be changed", "x")
    ]
    refusal = {"message": "spec.managedBy: Forbidden: cannot be changed", "reason": "Invalid", "details": {"causes": causes}}
    there = a_job() | {"metadata": {"name": "train", "namespace": "default"}}
    with ScriptedServer(
        answer(409, {"message": "there is one", "reason": "AlreadyExists"}), answer(200, there), answer(422, refusal)
    ) as server:
        code, _, complaint = call("apply", "--kubeconfig", kubeconfig_of(server, tmp_path / "config"), str(tmp_path / "job.yaml"))
    told = [line.partition("job.yaml:")[2] for line in complaint.splitlines()[:-1]]
    assert code == 2
    assert [line.partition(": ")[2].partition(" ")[0] for line in told] == ["error:", "error:", "warning:"]
    assert "spec.managedBy: Forbidden: cannot be changed" in complaint
    assert "Forbidden: x" not in complaint
    assert "delete the job and apply it again" in complaint.splitlines()[-1]


def test_commands_that_are_proposed_are_about_the_same_run_and_namespace(api, call):
    for namespace in ("default", "team"):
        with suppress(ApiError):
            api.create(NAMESPACES, {"metadata": {"name": namespace}})
        made = api.create(JOBS, a_job(), namespace).object
        api.replace_status(JOBS, Key(namespace, "train"), made | {"status": PAUSED})
    for words, options in (("--run", "-"), "--run hello"), (("--run", "hello", "-n", "team"), "--run hello -n team"):
        assert f"`genericjob resume train {options}` lets it go on" in call("describe", "train", *words)[1]
        assert f"`genericjob get {options}` lists those that exist" in call("describe", "nobody", *words)[2]


def test_a_run_is_reached_by_its_kubeconfig_as_well_and_its_token_not_printed(served, api, call):
    api.create(JOBS, a_job(), "default")
    path = runs.find("hello")
    assert call("get", "--kubeconfig", str(path), "-o", "name")[:2] == (0, "genericjob.batch.tensorstack.dev/train\n")
    served[1].stop()
    code, _, told = call("get", "--kubeconfig", str(path))
    assert (code, "cannot reach the server http://127.0.0.1:" in told) == (1, True)
    assert served[1].token not in told


def test_pods_are_replaced_in_the_run_that_has_them(api, call):
    start(api, api.create(JOBS, a_job(), "default").object)
    told = "pods that work already: 1; `genericjob pause train --run hello` and `genericjob resume train --run hello` replace them\n"
    assert call("debug", "--run", "-", "train")[2] == told


@pytest.mark.parametrize("given", [(), ("--context", "it"), ("--kubeconfig", "a b/config"), ("-n", "team")], ids=str)
def test_commands_that_are_proposed_are_about_the_same_cluster(given, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "namespace": "home"}}],
        "clusters": [{"name": "it", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    (tmp_path / "a b" / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "a b" / "config"))
    options = dict([given]) if given else {}
    where = target(options.get("--kubeconfig", ""), options.get("--context", ""), options.get("-n"))
    assert shlex.split(where.command("get")) == ["genericjob", "get", *given]
    assert where.command("get", "other").endswith(" -n other")


def test_where_there_is_no_cluster_a_run_may_have_been_meant(api, call, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    code, _, told = call("get")
    assert (code, told.startswith("genericjob: there is no kubeconfig at"), told.endswith("; a run is going on: --run hello\n")) == (
        1,
        True,
        True,
    )
    assert "--run" not in call("get", "--kubeconfig", "elsewhere")[2]
    runs.register("other").announce("127.0.0.1", 1, token="t", namespace="default")
    assert call("get")[2].endswith("; runs are going on: --run hello, --run other\n")


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("get --run h", ["hello"]),
        ("get --run hello tr", ["train"]),
        ("logs --run hello train --rank worker-", ["worker-0", "worker-1"]),
        ("exec --run hello train --rank w", ["worker-0", "worker-1"]),
        ("logs train --run hello --type w", ["worker"]),
        ("logs --run hello nobody --rank w", []),
        ("logs --rank w", []),
        ("new t", ["torchrun", "tensorflow-ps"]),
        ("new torchrun t", []),
    ],
)
def test_a_shell_completes_runs_jobs_ranks_and_presets(api, call, monkeypatch, line, proposed):
    api.create(JOBS, a_job(), "default")
    words = ["genericjob", *line.split(" ")]
    for name, value in {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_GENERICJOB_COMPLETE": "complete_bash"}.items():
        monkeypatch.setenv(name, value)
    assert call()[1].split() == proposed


def test_a_job_of_which_nothing_is_known_has_no_empty_tables(api, call):
    api.create(JOBS, a_job(), "default")
    out = call("describe", "--run", "-", "train")[1]
    assert "Ranks:" in out
    assert "CONDITION" not in out


def test_options_that_exclude_each_other(api, call):
    assert call("delete", "--run", "-")[0] == 2
    assert call("delete", "--run", "-", "train", "--all")[0] == 2
    assert call("get", "--run", "-", "train", "-A")[0] == 2
    assert call("exec", "--run", "-", "train")[0] == 2
    assert call("apply", "--run", "-", "--dry-run", "server", "job.yaml")[0] == 2
    assert call("logs", "--run", "-", "train", "--tail", "-2")[0] == 2


def test_debug_shows_requests_and_where_a_failure_came_from(api, call):
    code, _, told = call("--debug", "get", "--run", "-", "nobody")
    assert code == 1
    assert "genericjob: GET /apis/batch.tensorstack.dev/v1beta1/namespaces/default/genericjobs/nobody\n" in told
    assert "Traceback" in told
    assert "Traceback" not in call("get", "--run", "-", "nobody")[2]


# ------------------------------------------------------------------------------------------------ a server without our kind


def kubeconfig_of(server, path):
    url = f"http://127.0.0.1:{server.credentials().current.port}"
    config = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_a_cluster_that_does_not_know_our_kind(call, tmp_path):
    with ScriptedServer(answer(404, b"404 page not found\n")) as server:
        code, out, complaint = call("get", "--kubeconfig", kubeconfig_of(server, tmp_path / "config"))
    assert (code, out, complaint.count("\n")) == (1, "", 1)
    assert "is its CustomResourceDefinition installed?" in complaint
    assert complaint.endswith(f"{HOW_TO_INSTALL}\n")
    assert HOW_TO_INSTALL in (Path(__file__).parents[2] / "README.md").read_text()


def test_a_watch_names_each_job_that_cannot_be_decoded_once(call, tmp_path):
    def stored(name, version):
        body = a_job(name)
        return body | {"metadata": {"name": name, "namespace": "team", "uid": name, "resourceVersion": str(version)}}

    def deep(name, version):
        return stored(name, version) | {"x": "@"}

    def written(body):
        return msgspec.json.encode(body).replace(b'"@"', b"[" * 9_000 + b"]" * 9_000)

    listed = {"metadata": {"resourceVersion": "3"}, "items": [stored("fine", 1), deep("old", 2)]}
    events = [{"type": "MODIFIED", "object": deep("old", 4)}, {"type": "ADDED", "object": deep("new", 5)}]
    with ScriptedServer(
        answer(200, written(listed)), stream(*(written(event) + b"\n" for event in events)), answer(403, {"message": "enough"})
    ) as server:
        code, out, complaint = call("get", "-A", "-w", "--kubeconfig", kubeconfig_of(server, tmp_path / "config"))
    assert "fine" in out
    lines = [line.split(" cannot be read: ")[0] for line in complaint.splitlines() if "cannot be read" in line]
    assert lines == ["genericjob: the job team/old", "genericjob: the job team/new"]
    assert "enough" in complaint
    assert code == 1


@pytest.mark.parametrize("command", [("wait", "train", "--for", "delete"), ("delete", "train", "--ignore-not-found")], ids=" ".join)
@pytest.mark.parametrize("page", [b"<html>404 Not Found</html>", b"404 page not found\n"], ids=["ingress", "unknown kind"])
def test_no_job_is_taken_for_deleted_because_of_a_404_that_does_not_speak_of_jobs(call, tmp_path, command, page):
    with ScriptedServer(answer(404, page)) as server:
        code, out, complaint = call(*command, "--kubeconfig", kubeconfig_of(server, tmp_path / "config"))
    assert (code, out) == (1, "")
    assert "answered 404" in complaint


@pytest.mark.parametrize(
    ("message", "words"), [("types can be changed only while the job is paused", "pause"), ("managedBy cannot be changed", "delete")]
)
def test_what_helps_against_a_refusal_is_proposed_for_the_same_cluster_and_namespace(call, tmp_path, message, words):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(a_job()))
    there = a_job(suspend=True) | {"metadata": {"name": "train", "namespace": "team"}}
    refusal = {"message": message, "reason": "Invalid"}
    with ScriptedServer(
        answer(409, {"message": "there is one", "reason": "AlreadyExists"}), answer(200, there), answer(422, refusal)
    ) as server:
        config = kubeconfig_of(server, tmp_path / "config")
        code, _, complaint = call("apply", "--kubeconfig", config, "-n", "team", str(tmp_path / "job.yaml"))
    assert code == 2
    assert complaint.endswith(f"genericjob {words} train --kubeconfig {config} -n team\n")


def test_nobody_reads(tmp_path, monkeypatch):
    from genericjob.cli.following import Newsroom, unheard

    reader, writer = os.pipe()
    with open(writer, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert not unheard()
        os.close(reader)
        assert unheard()
        with pytest.raises(BrokenPipeError):
            Newsroom().next()
        monkeypatch.undo()
