"""`genericjob new`: manifests that can be used as they are, whatever the flags."""

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from genericjob.api.admission import RULES
from genericjob.api.spec import parse
from genericjob.cli.documents import parsed, problems
from genericjob.cli.lines import parse as read_lines
from genericjob.cli.new import FOLDER, PRESETS, made, quoted

from .calling import genericjob

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = {
    "workers": [1, 3],
    "servers": [1, 2],
    "processes": [4],
    "image": ["registry.example:5000/team/image@sha256:0123"],
    "gpus": [0, 8],
    "cpu": ["2", "500m"],
    "memory": ["8Gi"],
    "port": [8080],
    "restarts": [0, 5],
}


def choices(preset):
    """Each flag alone with each of its values, and all of them together with the last ones."""
    known = {flag: values for flag, values in FLAGS.items() if getattr(PRESETS[preset].values, flag) is not None}
    return [
        {},
        *({flag: value} for flag, values in known.items() for value in values),
        {flag: values[-1] for flag, values in known.items()},
    ]


CASES = [(preset, flags) for preset in PRESETS for flags in choices(preset)]


def the_job(text):
    (job,) = yaml.safe_load_all(text)
    return job


def containers(text):
    return {spec["type"]: spec["template"]["spec"]["containers"][0] for spec in the_job(text)["spec"]["replicaSpecs"]}


# ------------------------------------------------------------------------------------------------ presets


@pytest.mark.parametrize(("preset", "flags"), CASES, ids=str)
def test_what_is_printed_has_no_problems_at_all_and_looks_as_if_a_person_had_written_it(preset, flags):
    text = made(PRESETS[preset], "train", **flags)
    (document,) = parsed(text, "job.yaml")
    assert problems(document) == []
    assert text.startswith("# ")
    assert "genericjob validate train.yaml" in text
    assert text.endswith("\n")
    assert not any(line != line.rstrip() or not line or len(line) > 140 for line in text.splitlines())


@pytest.mark.parametrize("preset", ["torchrun", "tensorflow-ps", "mpi"])
def test_a_preset_is_like_its_example(preset):
    shown = next(job for job in yaml.safe_load_all((EXAMPLES / f"{preset}.yaml").read_text()) if job["kind"] == "GenericJob")
    flags = {"servers": 2} if preset == "tensorflow-ps" else {}
    ours, theirs = parse(the_job(made(PRESETS[preset], "x", workers=2, **flags))["spec"]), parse(shown["spec"])
    assert [part.type for part in ours.replica_specs] == [part.type for part in theirs.replica_specs]
    assert [part.restart_policy for part in ours.replica_specs] == [part.restart_policy for part in theirs.replica_specs]
    assert (ours.success_rules, ours.failure_rules, ours.service) == (theirs.success_rules, theirs.failure_rules, theirs.service)


def test_however_many_servers_there_are_they_take_one_rule():
    rules = parse(the_job(made(PRESETS["tensorflow-ps"], "x", servers=100))["spec"]).failure_rules
    assert rules == ({"chief": (0,)}, {"ps": ("any",)})


def test_every_preset_has_a_file_and_every_file_a_preset():
    assert {path.name.removesuffix(".yaml.j2") for path in FOLDER.glob("*.yaml.j2")} == {*PRESETS}


def test_flags_arrive_where_they_belong():
    text = made(
        PRESETS["tensorflow-ps"], "train", ("python3", "x.py"), workers=3, servers=2, gpus=4, cpu="2", memory="1Gi", port=99, restarts=7
    )
    spec = parse(the_job(text)["spec"])
    assert [(part.type, part.replicas) for part in spec.replica_specs] == [("chief", 1), ("worker", 3), ("ps", 2)]
    assert spec.replica_specs[1].restart_policy.limit == 7
    assert spec.service.ports[0].port == 99
    main = containers(text)["worker"]
    assert main["command"] == ["python3", "x.py"]
    assert main["resources"] == {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 4}}
    assert main["env"][0]["value"].count("$(service.worker[") == 3


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (["train.py", "--lr", "1"], ["train.py", "--lr", "1"]),
        (["python3", "train.py"], ["train.py"]),
        (["-m", "package"], ["-m", "package"]),
        (["python", "-m", "package"], ["-m", "package"]),
        (["/bin/program"], ["--no-python", "/bin/program"]),
        ([], ["train.py"]),
    ],
)
def test_torchrun_starts_python_itself(command, started):
    found = containers(made(PRESETS["torchrun"], "train", tuple(command)))["worker"]["command"]
    assert found[0] == "torchrun"
    assert found[6:] == started


def test_there_is_a_process_for_each_gpu_unless_somebody_says_otherwise():
    def command(**flags):
        return containers(made(PRESETS["torchrun"], "train", **flags))["worker"]["command"]

    assert "--nproc_per_node=8" in command(gpus=8)
    assert "--nproc_per_node=2" in command(gpus=8, processes=2)
    assert "--nproc_per_node=1" in command()


# ------------------------------------------------------------------------------------------------ what users type stays one value

HOSTILE = (
    "a: b",
    "- x",
    "x # y",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "'",
    '"',
    "a\nspec: 5",
    "*a",
    "&a",
    "!!int 5",
    "~",
    "yes",
    "1e3",
    "",
    " ",
    "\t",
    "\u2028",
)


@pytest.mark.parametrize("preset", PRESETS)
def test_no_value_can_become_anything_else(preset):
    image, cpu, memory = "i: {{ 1 }} # x", "1e3", "0.5"
    text = made(PRESETS[preset], "train", ("program.py", *HOSTILE), image=image, cpu=cpu, memory=memory)
    first = containers(text)[{"mpi": "launcher", "tensorflow-ps": "chief"}.get(preset, "worker")]
    assert first["command"][-len(HOSTILE) :] == [*HOSTILE]
    assert first["image"] == image
    assert containers(text)["worker"]["resources"] == {"limits": {"cpu": cpu, "memory": memory}}
    assert the_job(text).keys() == {"apiVersion", "kind", "metadata", "spec"}


@given(st.text() | st.integers(-(2**63), 2**63 - 1) | st.text("0123456789.eE+-_xob"))
@example("\ud7ff\ue000\ufffe")
@example("a" * 5_000 + " b")
def test_any_value_comes_back_from_yaml_on_one_line(value):
    written = quoted(value)
    assert "\n" not in written
    for read in (yaml.safe_load, as_kubectl_does):
        assert read(f"a:\n  - {written}\n  - b: {written}\n") == {"a": [value, {"b": value}]}


def as_kubectl_does(text):
    (found,) = read_lines(text)
    return found.value


# ------------------------------------------------------------------------------------------------ the command


def test_a_job_is_printed():
    called = genericjob("new", "torchrun", "train", "--workers", 4, "--gpus", 8, "--", "train.py", "--epochs", 3)
    assert (called.code, called.err) == (0, "")
    assert called.out == made(PRESETS["torchrun"], "train", ("train.py", "--epochs", "3"), workers=4, gpus=8)


def test_a_job_without_a_preset_is_plain():
    assert genericjob("new", "train", "--", "sleep", "1").out == made(PRESETS["plain"], "train", ("sleep", "1"))
    assert genericjob("new", "plain", "plain").out == made(PRESETS["plain"], "plain")


def test_only_the_first_two_dashes_are_not_part_of_the_command():
    assert genericjob("new", "train", "--", "env", "--", "x").out == made(PRESETS["plain"], "train", ("env", "--", "x"))
    assert genericjob("new", "--", "--workers", "1").code == 2
    assert genericjob("new", "train", "--").out == made(PRESETS["plain"], "train")


def test_a_name_alone_may_be_like_a_preset():
    assert genericjob("new", "torchrn").out == made(PRESETS["plain"], "torchrn")
    assert genericjob("new", "train", "sleep", "1").out == made(PRESETS["plain"], "train", ("sleep", "1"))


def test_the_presets_are_listed():
    assert [line.split()[0] for line in genericjob("new", "--list").out.splitlines()] == [*PRESETS]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "what is the job's name? genericjob new plain train; the presets are plain, torchrun, tensorflow-ps, mpi"),
        (["mpi"], "what is the job's name? genericjob new mpi train; the presets are plain, torchrun, tensorflow-ps, mpi"),
        (["plain", "Train"], "'Train' is no name for a job: it has a-z, 0-9 and -, and begins and ends with a letter or a digit"),
        (["plain", "a\nb"], "'a\\nb' is no name for a job: it has a-z, 0-9 and -, and begins and ends with a letter or a digit"),
        (
            ["torchrn", "train"],
            "there is no preset torchrn; did you mean torchrun? A plain job of that name: genericjob new plain torchrn",
        ),
        (
            ["pytorch", "train"],
            "there is no preset pytorch; did you mean torchrun? A plain job of that name: genericjob new plain pytorch",
        ),
        (
            ["train", "--cpu", "lots"],
            "that makes no job: error: spec.replicaSpecs[0].template.spec.containers[0].resources.limits[cpu]: "
            '"lots" is not an amount such as 2, 500m or 8Gi',
        ),
        (
            ["plain", "--", "sleep", "3"],
            "what is the job's name? genericjob new plain train; the presets are plain, torchrun, tensorflow-ps, mpi",
        ),
        (
            ["--", "plain", "train"],
            "what is the job's name? genericjob new plain train; the presets are plain, torchrun, tensorflow-ps, mpi",
        ),
        (
            ["pytorch", "--", "train.py"],
            "there is no preset pytorch; did you mean torchrun? A plain job of that name: genericjob new plain pytorch",
        ),
        (
            ["nonsense", "a", "--", "b"],
            "there is no preset nonsense; the presets are plain, torchrun, tensorflow-ps, mpi: genericjob new plain a -- b",
        ),
        (
            ["mpi", "a", "b c", "--", "d"],
            "what is b c? All words of the command stand behind the two dashes: genericjob new mpi a -- 'b c' d",
        ),
        (["plain", "train", "--servers", "2"], "the preset plain has no use for --servers"),
        (["torchrun", "1st"], f"that makes no job: error: metadata.name: {RULES[''][1].message}"),
    ],
)
def test_what_makes_no_job_is_told_in_a_sentence(words, told):
    assert genericjob("new", *words) == (2, "", f"genericjob: {told}\n")


def test_numbers_have_their_bounds():
    for words in (["--workers", 0], ["--port", 70_000], ["--gpus", "x"]):
        assert genericjob("new", "train", *words).code == 2
