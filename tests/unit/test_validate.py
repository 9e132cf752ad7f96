"""`genericjob validate`: the same verdicts as a server's, on the same corpus; and the rules in Python beside those in CEL."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.api.admission import RULES
from genericjob.api.validation import CHECKS, broken
from genericjob.cli.documents import BadInputError, parsed, problems, runnable
from genericjob.cli.judging import findings
from genericjob.cli.validate import judged
from harness.corpus import manifests

from .calling import genericjob
from .test_documents import JOB
from .test_fuzz import JSON, SPEC, fuzzed, near, nested

PODS_REFUSED = {"odd-empty-template", "odd-template-that-can-never-run", "seed-02-resources", "seed-04-environment"}
"""Accepted by a server, which does not look into templates; but it would refuse the pods."""


def of(folder):
    return pytest.mark.parametrize("manifest", manifests(folder), ids=str)


def errors(text):
    return [[one for one in problems(document) if one.severity == "error"] for document in parsed(text, "job.yaml")]


# ------------------------------------------------------------------------------------------------ the corpus


@of("refused")
def test_what_a_server_refuses_is_refused_for_the_same_field(manifest):
    _, remarks = judged([str(manifest.path)])
    assert manifest.field in [remark.problem.field for remark in remarks if remark.problem.severity == "error"]
    lines = manifest.path.read_text().splitlines()
    assert all(not lines[remark.problem.line - 1].startswith("#") for remark in remarks)


@of("refused")
def test_what_a_server_refuses_cannot_be_run_here(manifest):
    with pytest.raises(BadInputError) as caught:
        runnable([str(manifest.path)])
    assert f": error: {manifest.field}: " in str(caught.value)


@of("accepted")
def test_what_a_server_accepts_is_right_but_for_pods_that_it_would_refuse(manifest):
    (found,) = errors(manifest.path.read_text())
    assert bool(found) == (str(manifest) in PODS_REFUSED)
    assert all(".template.spec.containers" in one.field for one in found)


@of("changes-accepted")
def test_every_step_of_an_accepted_change_is_right(manifest):
    assert not any(errors(manifest.path.read_text()))


@of("changes-refused")
def test_every_step_before_a_refused_change_is_right(manifest):
    assert not any(errors(manifest.path.read_text())[:-1])


@of("pods-refused")
def test_pods_that_a_server_refuses_are_refused_for_the_same_field_and_nothing_else(manifest):
    (found,) = errors(manifest.path.read_text())
    assert [one.field for one in found] == [manifest.field]
    with pytest.raises(BadInputError) as caught:
        runnable([str(manifest.path)])
    assert f": error: {manifest.field}: " in str(caught.value)


@of("pods-accepted")
def test_of_pods_that_a_server_accepts_nothing_is_said(manifest):
    assert judged([str(manifest.path)])[1] == []


# ------------------------------------------------------------------------------------------------ rules in Python


def test_every_rule_has_its_like():
    assert {place: len(rules) for place, rules in RULES.items()} == {place: len(checks) for place, checks in CHECKS.items()}


def test_a_rule_is_told_where_it_is_broken():
    policy = {"policy": "Always", "scope": "Job", "exitCodes": {"neverRestart": [1], "notCharged": [2, 1]}}
    job = {
        "metadata": {"name": "1"},
        "spec": {
            "service": {"ports": [{"name": "a"}, {"name": "a", "nodePort": 5}, {}]},
            "replicaSpecs": [{"type": "a" * 62}, {"type": "b", "restartPolicy": policy, "replicas": 10_000}],
        },
    }
    assert [one.field for one in broken(job)] == [
        "metadata.name",
        "metadata.name",
        "spec.replicaSpecs",
        "spec.replicaSpecs[1].restartPolicy.scope",
        "spec.replicaSpecs[1].restartPolicy.exitCodes.notCharged",
        "spec.service.ports",
        "spec.service.ports",
        "spec.service.ports[1].nodePort",
    ]


@pytest.mark.parametrize(
    "spec", [None, 5, [], {"replicaSpecs": 5}, {"replicaSpecs": [5, {"restartPolicy": 5}]}, {"service": {"ports": [5]}}]
)
def test_what_has_the_wrong_type_breaks_no_rule(spec):
    assert [*broken({"metadata": {"name": "j"}, "spec": spec})] == []


# ------------------------------------------------------------------------------------------------ anything at all

HEAD = {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "metadata": {"name": "j"}}
CONTAINER = {
    "name": "main",
    "image": "x",
    "command": ["$(rank)"],
    "env": [{"name": "a", "value": "b"}],
    "resources": {"limits": {"cpu": 1}},
}
POD = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
GOOD = SPEC | {"replicaSpecs": [{**SPEC["replicaSpecs"][0], "template": POD}]}


@fuzzed
@given(JSON | near(GOOD) | near(POD).map(lambda pod: {"replicaSpecs": [{"type": "w", "template": pod}]}))
def test_any_spec_is_judged(spec):
    body = json.loads(json.dumps(HEAD | {"spec": spec}, allow_nan=False)) if _is_json(spec) else HEAD
    before = copy.deepcopy(body)
    found = findings(body)
    assert body == before
    assert all(one.message and one.severity in ("error", "warning") for one in found)


@fuzzed
@given(JSON | near(HEAD | {"metadata": {"name": "j", "labels": {"a": "b"}, "finalizers": ["a/b"], "namespace": "n"}}), st.booleans())
def test_any_object_is_judged(body, job):
    if isinstance(body, dict) and _is_json(body):
        findings(json.loads(json.dumps(body)) | ({"kind": "ConfigMap", "apiVersion": "v1"} if not job else {}))


def _is_json(value):
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return "\\ud" not in json.dumps(value)


def test_a_template_that_is_nested_deeply_is_judged():
    assert findings(HEAD | {"spec": {"replicaSpecs": [{"type": "w", "template": nested(80)}]}})


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture
def file(tmp_path):
    def write(text, name="job.yaml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


WARNED = JOB.replace("spec:\n  rep", "spec:\n  failureRules: [{nobody: [2]}]\n  rep")


def test_a_good_file_is_ok(file):
    assert genericjob("validate", file(JOB)) == (0, "OK: 1 document\n", "")


def test_errors_are_told_with_their_lines_and_end_with_2(file):
    path = file(JOB.replace("replicas: 2", "replicas: -2"))
    told = f"{path}:15: error: spec.replicaSpecs[1].replicas: -2 is too small, 0 is the least\n1 error\n"
    assert genericjob("validate", path) == (2, told, "")


def test_warnings_are_allowed_unless_strict(file):
    path = file(WARNED)
    warning = f"{path}:7: warning: spec.failureRules[0]: can never fire: there is no replica of type 'nobody'\n"
    assert genericjob("validate", path) == (0, f"{warning}OK: 1 document, 1 warning\n", "")
    assert genericjob("validate", "--strict", path) == (2, f"{warning}1 warning\n", "")


def test_a_type_that_is_misspelled_in_a_rule_is_guessed(file):
    path = file(WARNED.replace("nobody", "wroker"))
    assert "there is no replica of type 'wroker'; did you mean worker?" in genericjob("validate", path)[1]


def test_a_range_that_is_backwards_is_turned_around(file):
    path = file(WARNED.replace("{nobody: [2]}", "{worker: [0, 1-0]}"))
    assert "the range 1-0 of type 'worker' is backwards and names no rank; did you mean 0-1?" in genericjob("validate", path)[1]


def test_a_file_that_cannot_be_read_does_not_hide_the_others(file, tmp_path):
    paths = file("a: }", "a.yaml"), tmp_path / "absent.yaml", file(WARNED, "b.yaml")
    called = genericjob("validate", *paths)
    assert called.code == 2
    assert [line.partition(": ")[0] for line in called.out.splitlines()] == [
        f"{paths[0]}:1",
        str(paths[1]),
        f"{paths[2]}:7",
        "2 errors, 1 warning",
    ]


def test_standard_input_is_judged_and_told_as_json():
    called = genericjob("validate", "-", "--output", "json", stdin=WARNED)
    assert called.code == 0
    assert json.loads(called.out) == {
        "valid": True,
        "documents": 1,
        "problems": [
            {
                "file": "standard input",
                "line": 7,
                "severity": "warning",
                "field": "spec.failureRules[0]",
                "message": "can never fire: there is no replica of type 'nobody'",
            }
        ],
    }
    called = genericjob("validate", "-", "--output", "json", "--strict", stdin=WARNED)
    assert (called.code, json.loads(called.out)["valid"]) == (2, False)


def test_the_same_job_in_two_files_is_a_warning_and_twice_in_one_an_error(file):
    first, second = file(JOB, "dev.yaml"), file(JOB, "prod.yaml")
    warning = f"{second}:4: warning: metadata.name: GenericJob train is there already, at {first}:4: of files that are applied together"
    called = genericjob("validate", first, second)
    assert (called.code, called.out.count("is there already")) == (0, 1)
    assert called.out.startswith(warning)
    assert genericjob("validate", "--strict", first, second).code == 2
    called = genericjob("validate", file(f"{JOB}---\n{JOB}"))
    assert (called.code, called.out.count("error: metadata.name: GenericJob train is there already, at ")) == (2, 1)


def test_findings_come_in_the_order_of_files_and_lines(file):
    first, second = file(WARNED, "b.yaml"), file(WARNED, "a.yaml")
    told = [line.split(": ")[:3] for line in genericjob("validate", first, second).out.splitlines()[:-1]]
    assert told == [
        [f"{first}:7", "warning", "spec.failureRules[0]"],
        [f"{second}:4", "warning", "metadata.name"],
        [f"{second}:7", "warning", "spec.failureRules[0]"],
    ]


def test_files_are_named_as_for_apply_or_bare(file):
    first, second = file(JOB), file(JOB.replace("name: train", "name: other"), "other.yaml")
    for arguments in (("-f", first, second), ("-f", first, "-f", second), (f"--filename={first}", second), (first, second)):
        assert genericjob("validate", *arguments) == (0, "OK: 2 documents\n", "")
    called = genericjob("validate")
    assert called.code == 2
    assert "which file? genericjob validate FILE" in called.err


@pytest.mark.parametrize(
    ("policy", "warned"),
    [
        ({"policy": "OnFailure"}, True),
        ({"policy": "OnFailure", "scope": "Job", "exitCodes": {"notCharged": [75]}}, True),
        ({"policy": "OnFailure", "limit": 0}, False),
        ({"policy": "OnFailure", "limit": 3}, False),
        ({"policy": "Always"}, False),
        ({"policy": "Never"}, False),
        ({"scope": "Replica"}, False),
        (None, False),
    ],
)
def test_restarts_that_never_come_are_warned_about(policy, warned):
    spec = {
        "replicaSpecs": [{"type": "w", "template": POD}, {"type": "v", "template": POD} | ({"restartPolicy": policy} if policy else {})]
    }
    found = [
        (one.field, one.severity) for one in findings(HEAD | {"spec": spec}) if "with OnFailure no replica is restarted" in one.message
    ]
    assert found == ([("spec.replicaSpecs[1].restartPolicy.policy", "warning")] if warned else [])


def test_nothing_in_a_file_gives_orders_to_a_terminal(file):
    path = file(
        JOB.replace("  name: train", '  name: train\n  namespace: "a\\nb"').replace("spec:\n  rep", 'spec:\n  "x\\e[31m\\ny": 5\n  rep')
    )
    called = genericjob("validate", path)
    assert called.out.replace("\n", "").isprintable()
    assert len(called.out.splitlines()) == 3
    called = genericjob("validate", file('"\\e[31m": 1\n"\\e[31m": 2\n'))
    assert called.out.replace("\n", "").isprintable()


def test_an_empty_file_is_no_reason_to_be_content(file):
    path = file("# nothing\n")
    assert genericjob("validate", path) == (2, f"{path}: error: there is nothing in it\n1 error\n", "")


@pytest.mark.parametrize("command", ["run", "render", "explain", "apply"])
def test_every_command_says_the_same_of_an_empty_file(file, command):
    path = file("# nothing\n")
    assert genericjob(command, path) == (2, "", f"genericjob: {path}: there is nothing in it\n")


@pytest.mark.parametrize("command", ["run", "render", "explain"])
def test_every_line_of_several_says_who_speaks(file, command):
    called = genericjob(command, file(JOB.replace("replicas: 2", "replicas: -2").replace("type: chief", "type: Chief")))
    assert called.code == 2
    assert [line.startswith("genericjob: ") for line in called.err.splitlines()] == [True, True]


def test_run_refuses_a_pod_that_no_server_would_take(file):
    path = file(JOB.replace("image: none", "image: none\n              command: [sleep, 5]"))
    called = genericjob("run", path)
    assert called.code == 2
    told = "spec.replicaSpecs[0].template.spec.containers[0].command[1]: 5 is not text: put it in quotes"
    assert f"genericjob: {path}:14: error: {told}" in called.err.splitlines()


def test_run_refuses_in_the_same_words(file):
    path = file(JOB.replace("replicas: 2", "replicas: -2"))
    called = genericjob("run", path)
    assert called.code == 2
    assert f"{path}:15: error: spec.replicaSpecs[1].replicas: -2 is too small, 0 is the least" in called.err
