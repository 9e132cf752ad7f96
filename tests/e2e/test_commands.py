"""The command line on a real control plane, called as users call it: a process for each call."""

import json
import os
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from e2e.jobs import FINALIZER, Team, a_job, replicas, restarts, uid
from genericjob.api.names import API_VERSION
from genericjob.cli.jsonpath import template
from genericjob.reconcile.resources import CONFIG_MAPS, Key
from harness.clusters import Namespaces, eventually
from harness.commands import Program, Warm
from harness.definitions import GENERIC_JOBS
from harness.kubelet import Machine, Nodes
from unit.jsonpaths import BODY, PRINTED

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"rate": "1"}}


@pytest.fixture(scope="module")
def ground(cluster):
    """A node with a door: logs can be read there, and commands be run."""
    if cluster.plane is None:
        pytest.skip("needs a control plane of its own: its API server has to find the stand-in nodes")
    made = cluster.plane.issue_certificate("stand-in")
    with Nodes(cluster.api, certificate=(made.certificate, made.key)) as nodes:
        yield nodes.add(machine=Machine(pods=1000))


@pytest.fixture(scope="module")
def shop(server, controller, ground):
    """A namespace for all tests of this module, whose jobs are run."""
    with Namespaces(server).fresh() as namespace:
        yield Team(server, namespace, ground)


@pytest.fixture(scope="module")
def place(cluster, shop, tmp_path_factory):
    """A kubeconfig whose context names the namespace."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = shop.namespace
    path = tmp_path_factory.mktemp("commands") / "config"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    found = Warm(tmp_path_factory.mktemp("warm"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def gj(place, warm):
    return Program(warm=warm, KUBECONFIG=str(place))


@pytest.fixture(scope="module")
def train(shop):
    """A job that runs as long as the module: two workers and a server, of which the workers have said something."""
    job, _ = shop.start(a_job("train", replicas(2) | restarts("OnFailure", 3), replicas(1, "server"), successRules=[{"worker": [0, 1]}]))
    shop.node.prints(job.pod(0), "reading", "epoch 1")
    shop.node.prints(job.pod(1), "reading as well")
    shop.node.prints(job.pod(0), "epoch 2")
    return job


def written(path, *bodies):
    path.write_text(yaml.safe_dump_all(bodies))
    return str(path)


# ------------------------------------------------------------------------------------------------ apply


def test_apply_creates_what_is_not_there_and_changes_what_is(gj, shop, server, tmp_path):
    file = written(tmp_path / "job.yaml", CONFIG_MAP, a_job("applied") | {"metadata": {"name": "applied", "labels": {"team": "red"}}})
    assert gj("apply", "-f", file).out == "configmap/settings created\ngenericjob/applied created\n"
    assert gj("apply", "-f", file).out == "configmap/settings unchanged\ngenericjob/applied unchanged\n"
    other = a_job("applied", activeDeadlineSeconds=600)
    written(tmp_path / "job.yaml", CONFIG_MAP | {"data": {"speed": "2"}}, other)
    assert gj("apply", file).out == "configmap/settings changed\ngenericjob/applied changed\n"
    assert server.get(CONFIG_MAPS, Key(shop.namespace, "settings"))["data"] == {"speed": "2"}
    found = server.get(GENERIC_JOBS, Key(shop.namespace, "applied"))
    assert found["spec"]["activeDeadlineSeconds"] == 600
    assert "labels" not in found["metadata"]


def test_apply_and_kubectl_take_turns(gj, shop, plane, tmp_path):
    file = written(tmp_path / "job.yaml", a_job("in-turns", ttlSecondsAfterFinished=60))
    kubectl = ("--namespace", shop.namespace, "apply", "--filename", file)
    assert "created" in plane.kubectl(*kubectl)
    written(tmp_path / "job.yaml", a_job("in-turns"))
    assert gj("apply", file).out == "genericjob/in-turns changed\n"
    assert "ttlSecondsAfterFinished" not in shop.find("in-turns").body["spec"]  # kubectl had put it there
    written(tmp_path / "job.yaml", a_job("in-turns", cleanUpPolicy="All"))
    assert "configured" in plane.kubectl(*kubectl)


def test_what_the_server_refuses_is_told_with_its_line(gj, train, tmp_path):
    body = a_job("train", replicas(3), replicas(1, "server"), managedBy="example.com/other", successRules=[{"worker": [0, 1]}])
    file = written(tmp_path / "job.yaml", body)
    line = (tmp_path / "job.yaml").read_text().splitlines().index("  managedBy: example.com/other") + 1
    done = gj("apply", "-f", file)
    assert (done.code, done.out) == (2, "")
    assert f"{file}:{line}: error: spec.managedBy: Forbidden: cannot be changed" in done.err
    assert "only while the job is paused" in done.err
    assert "genericjob pause train" not in done.err  # THAT WOULD NOT HELP: the other can never be changed
    assert "genericjob delete train" in done.err

    body = a_job("strange")
    body["spec"] |= {"failureRules": [{"worker": [9]}], "suspend": "yes"}
    body["spec"]["replicaSpecs"][0]["replicaz"] = 3
    file = written(tmp_path / "job.yaml", body)
    done = gj("apply", file)
    assert (done.code, done.out, done.err) == (2, "", gj("validate", file).out.rpartition("1 warning")[0].rpartition("\n")[0] + "\n")
    assert "error: spec.replicaSpecs[0].replicaz: there is no such field; did you mean replicas?\n" in done.err
    assert 'error: spec.suspend: "yes" is not true or false\n' in done.err


def test_a_dry_run_leaves_nothing_behind(gj, shop, server, tmp_path):
    assert gj("apply", "--dry-run", "server", written(tmp_path / "job.yaml", a_job("dry"))).out == "genericjob/dry created (dry run)\n"
    assert not server.list(GENERIC_JOBS, shop.namespace, fields="metadata.name=dry").items


# ------------------------------------------------------------------------------------------------ get and describe


def test_get_shows_what_kubectl_shows(gj, shop, plane, train):
    ours, theirs = gj("get", "gj/train").lines, plane.kubectl("--namespace", shop.namespace, "get", "gj", "train").splitlines()
    assert ours[0] == theirs[0].split() == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert ours[1][:4] == theirs[1].split()[:4] == ["train", "Running", "3/3", "0"]


def test_get_in_other_forms(gj, shop, train):
    assert gj("get", "train", "-o", "name").out == "genericjob.batch.tensorstack.dev/train\n"
    found = yaml.safe_load(gj("get", "train", "-o", "yaml").out)
    assert (found["apiVersion"], found["metadata"]["uid"]) == (API_VERSION, train.uid)
    assert "managedFields" not in found["metadata"]
    listed = msgspec.json.decode(gj("get", "-A", "-o", "json").out)
    assert listed["kind"] == "List"
    assert train.uid in [uid(each) for each in listed["items"]]
    assert "2 worker, 1 server" in gj("get", "-A", "-o", "wide").out


def test_templates_print_what_they_print_for_kubectl(gj, shop, plane):
    body = a_job("templated", *BODY["spec"]["replicaSpecs"], **{name: BODY["spec"][name] for name in ("suspend", "successRules")})
    for part in body["spec"]["replicaSpecs"]:
        part |= {"template": {"spec": {"containers": [{"name": "main", "image": "app:1"}]}}}
    shop.submit(body | {"metadata": {"name": "templated", "labels": BODY["metadata"]["labels"]}})
    kubectl = ("--namespace", shop.namespace, "get", "gj", "templated", "--output")
    stored = json.loads(plane.kubectl(*kubectl, "json"))
    for text in PRINTED:
        assert template(text)(stored) == plane.kubectl(*kubectl, f"jsonpath={text}"), text
    assert gj("get", "templated", "-o", "jsonpath={.metadata.name}").out == "templated"
    listed = "jsonpath={range .items[*]}{.metadata.name},{end}"
    assert gj("get", "-o", listed).out == plane.kubectl("--namespace", shop.namespace, "get", "gj", "--output", listed)


def test_nothing_to_show(gj, server):
    done = gj("get", "-l", "nobody=has-this")
    assert (done.code, done.out, "There are no jobs with these labels in namespace" in done.err) == (0, "", True)


@pytest.mark.processes
def test_get_goes_on_until_ctrl_c(gj, shop):
    with gj.start("get", "-w") as watching:
        watching.shows("NAME")
        shop.submit(a_job("seen", replicas(0)))
        watching.shows("seen")
        watching.interrupt()
        assert watching.end() == 130
        assert "Traceback" not in watching.text


def test_describe_tells_the_story(gj, shop):
    job, (pod, *_) = shop.start(a_job("story", replicas(2) | restarts("OnFailure", 1)))
    job.fails_again(pod, 3, message="out of luck")
    job.told("Restarting")
    job.server.patch(GENERIC_JOBS, job.key, {"spec": {"activeDeadlineSeconds": 3600}})
    text = gj("describe", "gj/story").out
    lines = [line.split() for line in text.splitlines()]
    assert ["worker-0", "Running", "1", "<none>", shop.node.name] in [line[:5] for line in lines]
    assert "worker-0, worker-1 to succeed" in text
    story = text.partition("What happened:")[2]
    told = ["Created", "Created 2 pods", "Failed with exit code 3", "out of luck", "restart 1 of 1"]
    assert [each for each in told if each not in story] == []
    assert story.index("Created 2 pods") < story.index("Failed with exit code 3")


# ------------------------------------------------------------------------------------------------ logs


def test_logs_of_all_ranks_come_in_order_with_their_ranks(gj, train):
    done = gj("logs", "train")
    assert done.out.splitlines() == [
        "worker-0 | reading",
        "worker-0 | epoch 1",
        "worker-1 | reading as well",
        "worker-0 | epoch 2",
    ]
    assert gj("logs", "train", "--rank", "worker-0", "--tail", "1", "--no-prefix").out == "epoch 2\n"
    assert gj("logs", "train", "--type", "server").out == ""


def test_a_log_that_is_gone_leaves_its_exit_code_and_message(gj, shop):
    job, _ = shop.start(a_job("gone", replicas(2) | restarts("Never"), cleanUpPolicy="All"))
    job.finish(0)
    job.finish(1, 3, message="the disk is full")
    job.becomes("Failed")
    eventually(lambda: not job.pods)
    done = gj("logs", "gone")
    assert (done.code, done.out) == (0, "")
    assert "worker-0 succeeded with exit code 0; its pod is gone, and the log with it" in done.err
    assert "worker-1 failed with exit code 3 (the disk is full); its pod is gone, and the log with it" in done.err
    assert "worker-1 failed" in gj("logs", "gone", "--previous").out


@pytest.mark.processes
def test_logs_are_followed_over_restarts_to_the_end_of_the_job(gj, shop):
    job, (pod, *_) = shop.start(
        a_job("followed", replicas(1) | restarts("OnFailure", 1), replicas(1, "server"), successRules=[{"worker": [0]}])
    )
    shop.node.prints(uid(pod), "first try")
    with gj.start("logs", "-f", "followed") as following:
        following.shows("worker-0 | first try")
        again = job.fails_again(pod)
        shop.node.prints(uid(again), "second try")
        following.shows("worker-0 | second try")
        shop.node.prints(uid(again), "done")
        job.finish(0)
        assert following.end() == 0
        assert following.text.index("second try") < following.text.index("worker-0 | done")
        assert "followed succeeded" in following.text
        assert "still running, although the job has ended: server-0" in following.text


@pytest.mark.processes
def test_a_closed_pipe_ends_a_command_quietly(place, train):
    command = f"{sys.executable} -m genericjob.cli logs -f train --rank worker-0 | head -n 1"
    done = Program("bash", "-c", KUBECONFIG=str(place))(command)
    assert (done.code, done.out, done.err) == (0, "worker-0 | reading\n", "")


# ------------------------------------------------------------------------------------------------ wait, pause, resume, delete, watch


@pytest.mark.processes
def test_wait_returns_with_the_job_and_watch_shows_how_it_went(gj, shop):
    job, _ = shop.start(a_job("awaited", replicas(2)))
    with gj.start("wait", "awaited") as waiting, gj.start("watch", "awaited") as watching:
        watching.shows("worker-1 Running")
        job.finish(0)
        job.finish(1)
        assert (waiting.end(), watching.end()) == (0, 0)
        assert waiting.text == "awaited succeeded: The job has finished successfully.\n"
        assert "worker-0 Succeeded with exit code 0" in watching.text
    done = gj("wait", "awaited", "--for", "phase=Running")
    assert (done.code, "will not be in phase Running any more" in done.out) == (1, True)


@pytest.mark.processes
def test_wait_for_a_job_that_fails_or_goes_away_or_takes_too_long(gj, shop, train):
    job, _ = shop.start(a_job("unlucky", replicas(1) | restarts("Never")))
    done = gj("wait", "unlucky", "--timeout", "1s")
    assert (done.code, "unlucky is not over after 1 s: it is Running" in done.err) == (3, True)
    job.finish(0, 1)
    done = gj("wait", "unlucky")
    assert (done.code, "unlucky failed:" in done.out) == (1, True)
    with gj.start("wait", "unlucky", "--for", "delete") as waiting:
        assert gj("delete", "unlucky").out == "unlucky deleted\n"
        assert (waiting.end(), waiting.text) == (0, "unlucky is deleted\n")


def test_pause_and_resume(gj, shop):
    job, _ = shop.start(a_job("sleeper", replicas(1)))
    assert gj("pause", "sleeper").out == "sleeper is paused\n"
    assert (job.phase, job.pods) == ("Paused", {})
    assert gj("resume", "sleeper").out == "sleeper is being resumed\n"
    job.has_pods(1)
    job.run(0)
    job.finish(0)
    job.becomes("Succeeded")
    done = gj("pause", "sleeper")
    assert (done.code, done.err) == (1, "genericjob: sleeper has succeeded: a job that has ended cannot be paused\n")


def test_a_job_whose_pods_do_not_end_is_not_paused(gj, shop):
    job, _ = shop.start(a_job("clinging", replicas(2)))
    job.cling(0)
    done = gj("pause", "clinging", "--timeout", "3s")
    assert (done.code, done.out) == (3, "")
    assert "clinging is not paused after 3 s: 1 pod is still terminating" in done.err
    assert gj("get", "clinging", "-o", "wide").out.splitlines()[1].split()[1] == "Pausing"
    job.release(0)
    assert gj("pause", "clinging").out == "clinging is paused\n"
    assert (job.phase, job.pods) == ("Paused", {})


def test_delete_waits_and_says_what_holds_a_job(gj, shop, server):
    job = shop.submit(a_job("held", replicas(0)))
    server.patch(GENERIC_JOBS, job.key, {"metadata": {"finalizers": [FINALIZER]}})
    done = gj("delete", "held", "--timeout", "1s")
    assert (done.code, done.out) == (3, "held deleted\n")
    assert FINALIZER in done.err
    server.patch(GENERIC_JOBS, job.key, {"metadata": {"finalizers": None}})
    eventually(lambda: not job.exists)
    assert gj("delete", "held", "--ignore-not-found").code == 0


@pytest.mark.processes
def test_watch_paints_a_table_on_a_terminal(gj, shop):
    job, _ = shop.start(a_job("painted", replicas(2)))
    with gj.on_a_terminal("watch", "painted") as watching:
        watching.shows("worker-1")
        watching.shows("\x1b[36mRunning")
        job.finish(0)
        job.finish(1)
        assert watching.end() == 0
        watching.shows("painted succeeded")
    with gj.on_a_terminal("get", "painted", NO_COLOR="1") as getting:
        assert getting.end() == 0
        getting.shows("Succeeded")
        assert "\x1b" not in getting.text


# ------------------------------------------------------------------------------------------------ exec and debug


@pytest.mark.processes
def test_exec_runs_a_command_in_a_rank_and_ends_as_it_does(gj, train):
    done = gj("exec", "train", "--type", "worker", "--rank", "1", "--", "sh", "-c", "echo I am in $POD; echo oh >&2; exit 7")
    assert (done.code, done.out, done.err) == (7, "I am in train-worker-1\n", "oh\n")
    done = gj("exec", "train", "--rank", "server-0", "--", "no-such-program")
    assert (done.code, "no-such-program" in done.err, "Traceback" in done.err) == (1, True, False)


def asked_until(shell, keys, shown):
    """Press keys until something is shown, once in a second: a terminal drops what nobody has read for long."""

    def pressed():
        shell.press(keys)
        return eventually(lambda: shell.has(shown), within=1.0)

    eventually(pressed)


@pytest.mark.processes
def test_exec_on_a_terminal_hands_keys_and_sizes_on(gj, train):
    with gj.on_a_terminal("exec", "train", "--rank", "worker-0", "--", "sh") as shell:
        asked_until(shell, "stty size\n", "30 100")
        shell.resize(40, 120)
        shell.signal_of_a_new_size()
        asked_until(shell, "stty size\n", "40 120")
        shell.press("exit 5\n")
        assert shell.end() == 5


@pytest.mark.processes
def test_debug_turns_the_switch_and_enters_a_rank(gj, shop):
    job, _ = shop.start(a_job("puzzling", replicas(1)))
    done = gj("debug", "puzzling")
    assert (done.code, done.out) == (0, "puzzling: debug is on\n")
    assert "pods that work already: 1; `genericjob pause puzzling`" in done.err
    assert gj("pause", "puzzling").code == gj("resume", "puzzling").code == 0
    with gj.start("debug", "puzzling", "--rank", "worker-0", "--shell", "date") as entering:
        entering.shows("waiting for worker-0")
        job.has_pods(1)
        job.run(0)
        assert entering.end() == 0
    assert gj("debug", "puzzling", "--off").out == "puzzling: debug is off\n"
    assert not job.body["spec"]["runMode"]["debug"]["enabled"]


# ------------------------------------------------------------------------------------------------ what goes wrong


@pytest.mark.parametrize("command", ["describe", "logs", "exec", "wait", "watch", "pause", "resume", "debug", "delete"])
def test_a_name_that_is_nearly_right(gj, train, command):
    done = gj(command, "train-", *(("--", "true") if command == "exec" else ()))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert done.err.startswith("genericjob: there is no job train- in namespace ")
    assert done.err.endswith("did you mean train?\n")


def test_a_context_is_chosen_by_its_name_and_kept_in_what_is_proposed(gj, place, shop, train):
    name = yaml.safe_load(place.read_text())["contexts"][0]["name"]
    assert gj("get", "train", "--context", name, "-o", "name").out == "genericjob.batch.tensorstack.dev/train\n"
    done = gj("get", "zzz", "--context", name)
    assert (done.code, f"`genericjob get --context {name}` lists those that exist" in done.err) == (1, True)
    done = gj("get", "--context", "elsewhere")
    assert (done.code, done.out, done.err) == (
        1,
        "",
        f"genericjob: there is no context 'elsewhere' in the kubeconfig {place}; it has: {name}\n",
    )


def test_who_may_do_nothing_is_told_what_and_check_tells_it_before(gj, plane, shop):
    alice = plane.kubeconfig_for(plane.issue_certificate("alice"))
    done = gj("get", "--kubeconfig", str(alice), "-n", shop.namespace)
    assert (done.code, 'User "alice" cannot list resource "genericjobs"' in done.err) == (1, True)
    done = gj("check", "--kubeconfig", str(alice))
    assert (done.code, "nothing; not: list jobs, create them" in done.out) == (1, True)
    done = gj("check")
    assert "genericjobs.batch.tensorstack.dev v1beta1" in done.out
    assert " leads" in done.out
    assert f"run commands in pods (in namespace {shop.namespace})" in done.out


def test_kubectl_has_it_as_a_plugin(plane, place, train):
    kubectl = plane.status()["kubectl"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = Program(kubectl, KUBECONFIG=str(place), PATH=path)
    assert program("gj", "get", "train", "-o", "name").out == "genericjob.batch.tensorstack.dev/train\n"


def test_kubectl_completes_names_of_jobs(gj, plane, place, train, tmp_path):
    script = tmp_path / "kubectl_complete-gj"
    script.write_text(gj("completion", "kubectl").out)
    script.chmod(0o755)
    path = os.pathsep.join((str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]))
    asked = Program(plane.status()["kubectl"], KUBECONFIG=str(place), PATH=path)("__complete", "gj", "logs", "tra")
    assert asked.out == "train\n:4\n"


def test_a_shell_completes_names_of_jobs(place, warm, train):
    words = Program(
        warm=warm, KUBECONFIG=str(place), COMP_WORDS="genericjob logs tra", COMP_CWORD="2", _GENERICJOB_COMPLETE="complete_bash"
    )
    assert words().out == "train\n"
