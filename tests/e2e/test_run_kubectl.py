"""kubectl against a run on this machine. The program is the real one; a control plane is not needed."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from cluster import build
from harness.clusters import eventually

pytestmark = pytest.mark.processes

PATIENCE = 60.0
SCRIPT = "trap 'exit 0' TERM; echo hello from $(rank); while :; do sleep 600 & wait; done"
JOB = {
    "apiVersion": "batch.tensorstack.dev/v1beta1",
    "kind": "GenericJob",
    "metadata": {"name": "j", "namespace": "team"},
    "spec": {
        "activeDeadlineSeconds": 3000,
        "replicaSpecs": [
            {
                "type": "w",
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "main", "image": "none", "command": ["sh", "-c", SCRIPT]}]}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A run whose ranks have begun, and kubectl for it: exit code, output, errors."""
    programs = build.published()
    assert programs, "the programs of the control plane are not built: run `python3 hack/cluster build`"
    home = tmp_path_factory.mktemp("run")
    env = {**os.environ, "XDG_RUNTIME_DIR": str(home), "XDG_STATE_HOME": str(home), "KUBECACHEDIR": str(home / "cache")}
    argv = [sys.executable, "-m", "genericjob.cli", "run", "-"]
    run = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        run.stdin.write(yaml.safe_dump(JOB))
        run.stdin.close()
        begun = 0
        while begun < 2:
            line = run.stdout.readline()
            assert line, "the run ended before its ranks began"
            begun += "| hello" in line

        def kubectl(*arguments):
            command = [str(programs / "kubectl"), f"--kubeconfig={home}/genericjob/j.yaml", *arguments]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
            return done.returncode, done.stdout, done.stderr

        kubectl.run = run
        yield kubectl
    finally:
        run.terminate()
        run.stdout.read()
        run.wait(PATIENCE)


def test_get_shows_jobs_and_pods_as_on_a_cluster(talk):
    code, out, _ = talk("get", "gj,pods")
    rows = [line.split() for line in out.splitlines() if line]
    assert code == 0
    assert rows[0] == ["NAME", "PHASE", "READY", "RESTARTS", "AGE"]
    assert rows[1][0] == "genericjob.batch.tensorstack.dev/j"
    assert rows[2] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:3] for row in rows[3:]] == [[f"pod/j-w-{rank}", "1/1", "Running"] for rank in range(2)]
    assert talk("get", "gj", "-A", "-o", "name")[1] == "genericjob.batch.tensorstack.dev/j\n"
    assert talk("get", "all")[0] == 0


def test_objects_are_applied_and_changed(talk, tmp_path):
    file = tmp_path / "c.yaml"
    for word in ("one", "two"):
        file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": word}}))
        assert talk("apply", "-f", str(file))[0] == 0
        assert talk("get", "configmap", "c", "-o", "jsonpath={.data.a}")[1] == word


def test_describe_and_logs_work(talk):
    assert "Kind:         GenericJob" in talk("describe", "gj", "j")[1]
    assert talk("logs", "j-w-1")[1] == "hello from 1\n"
    assert re.fullmatch(r"[0-9-]{10}T[0-9:]{8}\.[0-9]{9}Z hello from 1\n", talk("logs", "j-w-1", "--timestamps", "--since=1h")[1])
    assert talk("logs", "j-w-1", "--since-time=2999-01-01T00:00:00Z")[1] == ""
    assert talk("logs", "-l", "genericjob=j", "--tail=1", "--prefix")[1].count("hello from") == 2


def test_labels_patches_and_deletions_of_pods_work(talk):
    assert talk("label", "gj", "j", "team=a")[0] == 0
    assert talk("get", "gj", "-l", "team=a", "-o", "name")[1].strip().endswith("/j")
    assert talk("patch", "gj", "j", "--type=merge", "--patch", '{"spec": {"ttlSecondsAfterFinished": 600}}')[0] == 0
    before = talk("get", "pod", "j-w-0", "-o", "jsonpath={.metadata.uid}")[1]
    # WITHOUT WAITING: kubectl waits for a name, and the next pod of the rank may have it before kubectl looks.
    assert talk("delete", "pod", "j-w-0", "--wait=false")[0] == 0
    eventually(lambda: talk("get", "pod", "j-w-0", "-o", "jsonpath={.metadata.uid}", "--ignore-not-found")[1] not in ("", before))


def test_what_a_cluster_refuses_is_refused_here_in_the_same_words(talk):
    patch = '[{"op": "replace", "path": "/spec/replicaSpecs/0/replicas", "value": 5}]'
    code, _, error = talk("patch", "gj", "j", "--type=json", "--patch", patch)
    why = "types and numbers of replicas can be changed only while the job is paused and status.phase says so"
    assert (code, error) == (1, f'The GenericJob "j" is invalid: spec.replicaSpecs: Forbidden: {why}\n')


def test_unknown_fields_are_refused_in_changes_as_in_new_objects(talk, tmp_path):
    file = tmp_path / "j.yaml"
    file.write_text(yaml.safe_dump(JOB | {"spec": JOB["spec"] | {"foo": 1}}))
    for verb in ("apply", "replace"):
        code, _, error = talk(verb, "-f", str(file))
        assert (code, 'unknown field "spec.foo"' in error) == (1, True)


def test_a_field_that_is_taken_out_of_the_file_goes(talk, tmp_path):
    file = tmp_path / "j.yaml"
    file.write_text(yaml.safe_dump(JOB | {"spec": {name: value for name, value in JOB["spec"].items() if name != "activeDeadlineSeconds"}}))
    assert talk("get", "gj", "j", "-o", "jsonpath={.spec.activeDeadlineSeconds}")[1] == "3000"
    code, out, error = talk("apply", "-f", str(file))
    assert (code, error) == (0, "")
    assert out.endswith("configured\n")
    assert talk("get", "gj", "j", "-o", "jsonpath={.spec.activeDeadlineSeconds}")[1] == ""


def test_patches_that_a_cluster_does_not_know_of_this_kind_are_refused(talk):
    code, _, error = talk("patch", "gj", "j", "--patch", '{"spec": {"ttlSecondsAfterFinished": 7}}')
    assert (code, "merge patches and JSON patches only" in error) == (1, True)


def test_every_field_is_explained(talk):
    code, out, _ = talk("explain", "gj.spec.replicaSpecs.restartPolicy.limit")
    assert (code, "FIELD: limit <integer>" in out) == (0, True)
    code, _, error = talk("explain", "pods")
    assert (code, "not found in OpenAPI schema" in error) == (1, True)


def test_what_cannot_work_says_so_in_one_sentence(talk):
    code, _, error = talk("exec", "j-w-1", "--", "ls")
    assert (code, "exec is not possible in a local run" in error) == (1, True)
    code, _, error = talk("get", "gj", "absent")
    assert (code, error) == (1, 'Error from server (NotFound): genericjobs.batch.tensorstack.dev "absent" not found\n')


def test_deleting_the_job_ends_the_run(talk):
    assert talk("delete", "gj", "j")[0] == 0
    assert talk.run.stdout.read().splitlines()[-1] == "j was deleted"
    assert talk.run.wait(PATIENCE) == 1
