"""`render`, `new` and `explain` before a real server: it takes what they print, and they know what it knows."""

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from e2e.jobs import a_job, replicas, restarts
from genericjob.cli.main import main
from genericjob.cli.new import PRESETS, made
from harness.clusters import eventually
from harness.scalars import READ_AS

EXAMPLES = Path(__file__).parents[2] / "examples"
STRICT = ("--validate=strict", "--dry-run=server", "--output=name", "--filename=-")


def genericjob(*words):
    out = io.StringIO()
    with patch.object(sys, "argv", ["genericjob", *map(str, words)]), redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return out.getvalue()


@pytest.mark.parametrize("example", ["hello", "tensorflow-ps", "mpi", "debug"])
def test_a_server_takes_what_is_rendered(kubectl, namespace, example):
    text = genericjob("render", EXAMPLES / f"{example}.yaml", "-n", namespace)
    assert len(kubectl("create", *STRICT, input=text).splitlines()) == text.count("\nkind: ")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_server_takes_what_is_new_and_what_becomes_of_it(kubectl, genericjobs, namespace, tmp_path, preset):
    file = tmp_path / "job.yaml"
    file.write_text(made(PRESETS[preset], "new", gpus=1, cpu="2", memory="1Gi", port=2222))
    assert kubectl("apply", *STRICT, input=file.read_text()) == "genericjob.batch.tensorstack.dev/new\n"
    assert kubectl("create", *STRICT, input=genericjob("render", file, "-n", namespace, "--rank", "0"))


def test_kubectl_reads_values_as_they_are_read_here(plane):
    text = "apiVersion: example.dev/v1\nkind: Any\nmetadata: {name: any}\nvalues:\n" + "".join(f"  - {text}\n" for text, _ in READ_AS)
    read = json.loads(plane.kubectl("annotate", "--local", "--filename=-", "--output=json", "a=b", input=text))["values"]
    assert [*map(_typed, read)] == [_typed(value) for _, value in READ_AS]


def _typed(value):
    return (type(value).__name__, value) if isinstance(value, str | bool | None) else ("number", float(value))


def test_a_job_is_explained_while_it_runs_and_when_it_has_ended(team, cluster):
    def explained():
        told = genericjob("explain", job.name, "-n", team.namespace, "--kubeconfig", cluster.kubeconfig)
        return {words[0]: words[1:] for line in told.splitlines() if len(words := line.split(maxsplit=5)) > 1}

    rules = {"successRules": [{"worker": [0, 1]}, {"worker": [2]}], "failureRules": [{"worker": [2]}]}
    job, _ = team.start(a_job("explained", replicas(3) | restarts("Never"), **rules))
    assert explained()["explained:"] == ["Running"]
    assert explained()["successRules[0]"][2:4] == ["can", "fire"]
    job.finish(0)
    eventually(lambda: "0 has succeeded; waits for worker 1 (Running) to succeed" in explained()["successRules[0]"][-1])
    job.finish(2, 1)
    job.becomes("Failed")
    found = explained()
    assert found["explained:"] == ["Failed"]
    assert found["failureRules[0]"][2] == "met"
