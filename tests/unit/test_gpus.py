"""GPUs: which there are, and that no two containers have the same."""

import io
import os

import pytest
import yaml

from genericjob.cli.documents import BadInputError, runnable
from genericjob.cli.run import Run
from genericjob.cli.screen import Screen
from genericjob.local.gpus import Gpus, asked, asked_by_pod, gpus_of_this_machine
from genericjob.local.sources import NotYetError

pytestmark = pytest.mark.processes


def container(count=None, kind="limits", **fields):
    resources = {} if count is None else {"resources": {kind: {"nvidia.com/gpu": count}}}
    return {"name": "main", "image": "none", "command": ["sh", "-c", "echo has ${CUDA_VISIBLE_DEVICES-none}"], **resources, **fields}


# ------------------------------------------------------------------------------------------------ which there are


def stand_in(tmp_path, script):
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program), "-L"


def test_the_driver_lists_the_gpus(tmp_path):
    listed = "GPU 0: NVIDIA A100 (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\nGPU 1: NVIDIA A100 (UUID: GPU-2)"
    assert gpus_of_this_machine({}, stand_in(tmp_path, f"echo '{listed}'")) == ("0", "1")


@pytest.mark.parametrize("script", ["echo no devices were found; exit 6", "echo GPU 0: broken; exit 9", "true"])
def test_a_driver_that_has_none_or_does_not_work_means_none(tmp_path, script):
    assert gpus_of_this_machine({}, stand_in(tmp_path, script)) == ()


def test_without_a_driver_there_are_none():
    assert gpus_of_this_machine({}, ("/no/nvidia-smi",)) == ()


@pytest.mark.parametrize(
    ("given", "found"), [("2,3", ("2", "3")), (" GPU-a , GPU-b,", ("GPU-a", "GPU-b")), ("", ()), ("-1", ()), ("1,1", ("1",))]
)
def test_what_the_shell_may_use_is_all_that_ranks_get(given, found):
    assert gpus_of_this_machine({"CUDA_VISIBLE_DEVICES": given}, ("/no/nvidia-smi",)) == found


# ------------------------------------------------------------------------------------------------ who has them


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        (container(), 0),
        (container(2), 2),
        (container("1"), 1),
        (container(1, "requests"), 1),
        (container("nonsense"), 0),
        (container(2, env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]), 0),
    ],
)
def test_a_container_asks_by_its_limit(fields, count):
    assert asked(fields) == count


def test_a_pod_needs_what_its_containers_need_at_once():
    assert asked_by_pod({"containers": [container(1), container(2)], "initContainers": [container(2), container(4)]}) == 4
    assert asked_by_pod({"containers": [container(1), container(2)]}) == 3


def test_no_gpu_has_two_owners_until_it_is_given_back():
    gpus = Gpus(lambda: ("0", "1", "2"))
    assert gpus.take("a", container(2)) == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert gpus.take("b", container(1)) == {"CUDA_VISIBLE_DEVICES": "2"}
    with pytest.raises(NotYetError, match="waits for 1 of the 3 GPUs of this machine: 0 are free"):
        gpus.take("c", container(1))
    gpus.give_back("a")
    assert gpus.take("c", container(1)) == {"CUDA_VISIBLE_DEVICES": "0"}
    assert gpus.take("d", container()) == {}


def test_without_gpus_nothing_is_set():
    assert Gpus(lambda: ()).take("a", container(8)) == {}


# ------------------------------------------------------------------------------------------------ in a run


@pytest.fixture
def go(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def run(there, *containers, replicas=2, restarts=0, **options):
        part = {"type": "w", "replicas": replicas, "template": {"spec": {"containers": list(containers)}}}
        part["restartPolicy"] = {"policy": "OnFailure", "limit": restarts}
        body = {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "metadata": {"name": "j"},
            "spec": {"replicaSpecs": [part]},
        }
        (tmp_path / "j.yaml").write_text(yaml.safe_dump(body))
        out = io.StringIO()
        code = Run(runnable([str(tmp_path / "j.yaml")]), Screen(out), gpus=Gpus(lambda: there), **options).go()
        return code, out.getvalue()

    return run


def test_ranks_have_gpus_of_their_own(go, tmp_path):
    both = f"touch {tmp_path}/up-$(rank); until [ -e {tmp_path}/up-0 -a -e {tmp_path}/up-1 ]; do sleep 0.01; done"
    code, text = go(("0", "1", "4", "5"), container(2, command=["sh", "-c", f"{both}; echo has $CUDA_VISIBLE_DEVICES"]))
    assert code == 0
    assert sorted(line.partition("has ")[2] for line in text.splitlines() if "| has" in line) == ["0,1", "4,5"]
    assert "not honoured here: image\n" in text


def test_a_rank_that_is_started_again_gets_gpus_again(go, tmp_path):
    again = container(1, command=["sh", "-c", f"echo has $CUDA_VISIBLE_DEVICES; mkdir {tmp_path}/was && exit 1; exit 0"])
    code, text = go(("7",), again, replicas=1, restarts=1)
    assert (code, text.count("| has 7")) == (0, 2)


def test_more_than_there_are_is_refused_with_the_numbers_and_what_to_do(go, tmp_path):
    with pytest.raises(BadInputError) as caught:
        go(("0", "1"), container(1), replicas=4)
    line = (tmp_path / "j.yaml").read_text().splitlines().index("          resources:") + 1
    assert str(caught.value) == (
        f"{tmp_path}/j.yaml:{line}: error: spec.replicaSpecs[0].template.spec.containers[0].resources: the ranks ask for 4 GPUs in all "
        "(w: 4 x 1), and this machine has 2 (0,1): --set replicas.w=N runs fewer ranks, --env CUDA_VISIBLE_DEVICES=0,1 lets all share them"
    )
    assert list((tmp_path / "runtime").rglob("*")) == []


def test_on_a_machine_without_gpus_the_ranks_run_and_that_is_said(go):
    code, text = go((), container(1), replicas=2)
    assert (code, text.count("| has none")) == (0, 2)
    assert "not honoured here: image, resources.limits.nvidia.com/gpu\n" in text


def test_nobody_asks_the_driver_for_a_job_without_gpus(go):
    def never():
        raise AssertionError

    assert Gpus(never).take("a", container()) == {}
    assert os.environ.get("CUDA_VISIBLE_DEVICES") is None
