"""Manifests from files: what is read, what is refused, and in which line."""

import io
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from genericjob.cli.documents import BadInputError, UnreadableError, parsed, problems, read, repeated, runnable
from genericjob.cli.lines import DEEPEST, NotYamlError, parse
from harness.scalars import READ_AS

from .test_fuzz import fuzzed, outcome

JOB = """\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: train
  labels: {app.example/name: a, app: b}
spec:
  replicaSpecs:
    - type: chief
      template: &template
        spec:
          containers:
            - name: main
              image: none
    - type: worker
      replicas: 2
      template: *template
"""


def lines(text, *fields):
    (document,) = parsed(text, "job.yaml")
    return [document.line(field) for field in fields]


def the_document(text):
    (document,) = parsed(text, "job.yaml")
    return document


def told(text):
    document = the_document(text)
    return [document.told(problem) for problem in problems(document)]


# ------------------------------------------------------------------------------------------------ lines


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 1),
        ("kind", 2),
        ("metadata.name", 4),
        ("metadata.labels.app.example/name", 5),
        ("spec", 6),
        ("spec.replicaSpecs[0]", 8),
        ("spec.replicaSpecs[0].template.spec.containers[0].image", 13),
        ("spec.replicaSpecs[1].replicas", 15),
    ],
)
def test_a_field_knows_its_line(field, line):
    assert lines(JOB, field) == [line]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("metadata.nam", 3),
        ("spec.replicaSpecs[7].type", 7),
        ("spec.replicaSpecs[0].restartPolicy.limit", 8),
        ("spec.service.ports[0]", 6),
        ("nothing", 1),
    ],
)
def test_a_field_that_is_not_there_has_the_line_of_what_would_hold_it(field, line):
    assert lines(JOB, field) == [line]


def test_behind_a_reference_is_the_line_where_it_was_written():
    assert lines(JOB, "spec.replicaSpecs[1].template", "spec.replicaSpecs[1].template.spec.containers[0].name") == [16, 12]


def test_what_is_merged_has_its_own_line_and_what_overrides_it_another():
    text = "a: &a\n  b: 1\n  c: 2\nd:\n  <<: *a\n  c: 3\n"
    assert lines(text, "d.b", "d.c", "d") == [2, 6, 4]
    assert the_document(text).body["d"] == {"b": 1, "c": 3}


def test_documents_and_items_of_lists_have_the_lines_of_their_file():
    items = yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": [{"kind": "A"}, {"kind": "B"}]}, sort_keys=False)
    found = [*parsed(f"{JOB}---\n---\n{items}", "job.yaml")]
    assert [document.where for document in found] == [
        "job.yaml, document 1",
        "job.yaml, document 2, items[0]",
        "job.yaml, document 2, items[1]",
    ]
    assert [document.line("kind") for document in found] == [2, 22, 23]
    assert [document.kind for document in found] == ["GenericJob", "A", "B"]


# ------------------------------------------------------------------------------------------------ what cannot be read


BOMB = "\n".join(
    f"{name}: &{name} [{','.join([inner] * 9)}]"
    for inner, name in zip(["x", *(f"*{one}" for one in "abcdefghi")], "abcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: b\nc: }", 2, "did not find expected"),
        ("args: [$(replicas[worker])]", 1, "is put in quotes inside a list"),
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", 5, "c is there twice, first in line 3"),
        ("a: {b: 1,\n b: 2}", 2, "b is there twice, first in line 1"),
        ("a: 1\nb: *c\n", 2, "undefined alias"),
        ("a:\n  &a [*a]", 2, "refers to itself"),
        (BOMB, 7, "too large"),
        (BOMB.replace("[", "{<<: [").replace("]", "]}").replace("x", "{x: 1}"), 6, "too large"),
        ("[" * 100_000, 1, f"more than {DEEPEST} levels"),
        ("- " * 100_000, 1, f"more than {DEEPEST} levels"),
        ("{a: " * 100_000, 1, f"more than {DEEPEST} levels"),
        ("a: \x00", None, "this is not YAML"),
        ("a: 1\n? [b]\n: 1", 2, "unhashable key"),
        ("!!python/object/apply:os.system ['true']", 1, "could not determine a constructor"),
        ("a: 2024-01-01\nb: !!timestamp 2024-99-99", None, "a value cannot be read"),
        ("a: 1\nb: -.inf", 2, "-.inf is no number that JSON knows"),
        ("a: 1\n~: 2", 2, "a field has no name"),
        ("a: 1\nb: {yes: 1,\n on: 2}", 3, "true is there twice, first in line 2"),
        ("a:\n\tb: 1", 2, "a tab: YAML is indented with spaces"),
        ("a:\n  b: 1\n \tc: 1", 3, "a tab: YAML is indented with spaces"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_yaml_is_refused_with_its_line(text, line, words):
    with pytest.raises(NotYamlError, match=words) as caught:
        parse(text)
    assert caught.value.line == line


@pytest.mark.parametrize(("text", "value"), READ_AS, ids=lambda value: str(value)[:20])
def test_a_value_is_what_kubectl_takes_it_for(text, value):
    (found,) = parse(f"value: {text}")
    assert found.value == {"value": value}
    assert type(found.value["value"]) is type(value)


def test_names_are_text_as_for_kubectl():
    (found,) = parse("{y: 1, 08: 2, 1e3: 3, 1.5: 4, 22:22: 5, '0x10': 6, <<: {a: 7}}")
    assert found.value == {"true": 1, "8": 2, "1000": 3, "1.5": 4, "22:22": 5, "0x10": 6, "a": 7}
    assert lines("metadata:\n  a: 1\n  on: 2\n", "metadata.true") == [3]


def test_what_is_nested_as_deep_as_is_allowed_is_read():
    assert parse("[" * DEEPEST + "]" * DEEPEST)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a list", "job.yaml:1: error: this is not an object"),
        (f"{JOB}---\na text", "job.yaml:18: error: this is not an object"),
        ("a: 1\n1.5: {[x]: y}", "job.yaml:2: error: "),
    ],
)
def test_what_is_no_object_is_refused_with_its_line(text, words):
    with pytest.raises(UnreadableError) as caught:
        [*parsed(text, "job.yaml")]
    assert str(caught.value).startswith(words)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe4")
    for file, why in (("absent", "No such file or directory"), ("", "Is a directory"), ("latin.yaml", "this is not text in UTF-8")):
        with pytest.raises(BadInputError) as caught:
            read([str(tmp_path / file)])
        assert str(caught.value) == f"{tmp_path / file}: {why}"


def test_several_files_and_standard_input_are_read_in_their_order(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"kind: {name.upper()}\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("kind: Ä".encode())))
    assert [(document.kind, document.file) for document in read([str(tmp_path / "b"), "-", str(tmp_path / "a")])] == [
        ("B", str(tmp_path / "b")),
        ("Ä", "standard input"),
        ("A", str(tmp_path / "a")),
    ]
    with pytest.raises(BadInputError, match="only once"):
        read(["-", "-"])


def test_times_are_texts_and_empty_documents_are_none():
    (document,) = parsed("---\n---\nday: 2024-01-31\n---\n# nothing\n", "job.yaml")
    assert document.body == {"day": "2024-01-31"}
    assert document.where == "job.yaml"


def mutilated(text, cuts):
    """A manifest in which something else stands in some places."""
    for place, length, piece in cuts:
        text = text[:place] + piece + text[place + length :]
    return text


PIECES = st.text(max_size=3) | st.sampled_from(
    ["\n", "\n  ", "- ", ": ", "*template", "&a ", "<<: *template", "{", "}", "[", "]", "~", "? ", "| ", "!!x ", "'"]
)
CUTS = st.lists(st.tuples(st.integers(0, len(JOB)), st.integers(0, 8), PIECES), max_size=4)


@fuzzed
@given(st.text() | CUTS.map(lambda cuts: mutilated(JOB, cuts)))
@example("a: !!timestamp 2024-99-99")
@example("=: 1\n<<: {a: 1}")
@example("a: !!omap [b: 1]\nc: !!pairs [d: 1]\ne: !!binary aGk=")
@example("%YAML 9.9\n--- a")
@example("\ud800")
def test_any_text_is_read_or_refused_and_all_it_says_has_a_line(text):
    found, refused = outcome(lambda: [*parsed(text, "job.yaml")], UnreadableError)
    assert "\n" not in str(refused)
    for document in found or ():
        assert all(1 <= problem.line <= len(text.splitlines()) + 1 for problem in problems(document))


# ------------------------------------------------------------------------------------------------ problems


def test_a_job_that_is_right_has_no_problems():
    assert told(JOB) == []


def test_all_that_is_wrong_is_told_by_line():
    text = (
        JOB.replace("name: train", "name: Train")
        .replace("spec:\n  rep", "spec:\n  sucessRules: []\n  suspend: 'no'\n  rep")
        .replace("replicas: 2", "replicas: three")
        .replace("image: none", "image: 5")
    )
    assert told(text) == [
        "job.yaml:4: error: metadata.name: 'Train': a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.'",
        "job.yaml:7: error: spec.sucessRules: there is no such field; did you mean successRules?",
        'job.yaml:8: error: spec.suspend: "no" is not true or false',
        "job.yaml:15: error: spec.replicaSpecs[0].template.spec.containers[0].image: 5 is not text: put it in quotes",
        "job.yaml:15: error: spec.replicaSpecs[1].template.spec.containers[0].image: 5 is not text: put it in quotes",
        'job.yaml:17: error: spec.replicaSpecs[1].replicas: "three" is not a whole number',
    ]


TEMPLATE = "spec.replicaSpecs[0].template"
MAIN = f"{TEMPLATE}.spec.containers[0]"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("replicas: 2", "replicas: '2'", 'error: spec.replicaSpecs[1].replicas: "2" is not a whole number: leave the quotes out'),
        ("replicas: 2", "replicas: -1", "error: spec.replicaSpecs[1].replicas: -1 is too small, 0 is the least"),
        ("replicas: 2", "replicas: [2]", "error: spec.replicaSpecs[1].replicas: a list stands here, not a whole number"),
        (
            "replicas: 2",
            "restartPolicy: Never",
            'error: spec.replicaSpecs[1].restartPolicy: "Never" is not an object with fields; did you mean policy: Never below it?',
        ),
        (
            "replicas: 2",
            "restartPolicy: {policy: never}",
            'error: spec.replicaSpecs[1].restartPolicy.policy: "never" is not one of Never, OnFailure, Always; did you mean Never?',
        ),
        (
            "replicas: 2",
            "limit: 2",
            "error: spec.replicaSpecs[1].limit: there is no such field: limit belongs to spec.replicaSpecs[].restartPolicy",
        ),
        ("type: worker", "type: chief", 'error: spec.replicaSpecs[1]: an element before it has the same type "chief"'),
        ("  name: train", "  generateName: 5", "error: metadata.generateName: 5 is not text: put it in quotes"),
        ("  name: train\n", "", "error: metadata.name: is missing"),
        ("  name: train", "  name: train\n  namespace: My", "error: metadata.namespace: My: a lowercase RFC 1123 label must consist of"),
        ("  name: train", "  name: train\n  owner: me", "error: metadata.owner: there is no such field"),
        ("  name: train", "  name: train\n  finalizers: me", "error: metadata.finalizers: Expected array, got str"),
        ("app: b", "app: 5", "error: metadata.labels.app: 5 is not text: put it in quotes"),
        (
            "v1beta1",
            "v1",
            "error: apiVersion: the apiVersion of a GenericJob is batch.tensorstack.dev/v1beta1, not batch.tensorstack.dev/v1",
        ),
        ("kind: GenericJob", "kind: GenricJob", "error: kind: batch.tensorstack.dev has no kind GenricJob; did you mean GenericJob?"),
        ("kind: GenericJob", "kind: Deployment", "error: kind: batch.tensorstack.dev has no kind Deployment, only GenericJob"),
        (
            "v1beta1\nkind: GenericJob",
            "v1\nkind: GenricJob",
            "error: apiVersion: the apiVersion of batch.tensorstack.dev is batch.tensorstack.dev/v1beta1, not batch.tensorstack.dev/v1",
        ),
        ("kind: GenericJob\n", "", "error: kind: is missing"),
        ("kind: GenericJob\n", "kind: ''\n", "error: kind: is missing"),
        ("  name: train", "  name: train\n  resourceVersion: '5'", "error: metadata.resourceVersion: only an object that a server has"),
        ("kind: GenericJob\n", "kind: [GenericJob]\n", "error: kind: a list stands here, not text"),
        ("image: none", "image: none\n              imag: x", f"warning: {MAIN}.imag: there is no such field"),
        (
            "        spec:",
            "        metadata: {labels: {genericjob: x}}\n        spec:",
            f"warning: {TEMPLATE}.metadata.labels.genericjob: the label",
        ),
        (
            "        spec:",
            "        metadata: {labels: {a: [x]}}\n        spec:",
            f"error: {TEMPLATE}.metadata.labels.a: a list stands here, not text",
        ),
        ("        spec:", "        metadata: x\n        spec:", f'error: {TEMPLATE}.metadata: "x" is not an object with fields'),
        (
            "        spec:",
            "        containers: []\n        spec:",
            f"warning: {TEMPLATE}.containers: there is no such field: containers belongs to template.spec",
        ),
        (
            "          containers:",
            "          restartPolicy: Always\n          containers:",
            f"warning: {TEMPLATE}.spec.restartPolicy: restartPolicy is Never",
        ),
        (
            "          containers:",
            "          hostNetwork: 'yes'\n          containers:",
            f'error: {TEMPLATE}.spec.hostNetwork: "yes" is not true or false',
        ),
        ("name: main", "name: Main", f"error: {MAIN}.name: 'Main': a lowercase RFC 1123 label"),
        (
            "          containers:",
            "          nodeSelector: {'a: b': 5}\n          containers:",
            f"error: {TEMPLATE}.spec.nodeSelector.a: b: 5 is not text: put it in quotes",
        ),
        (
            "image: none",
            "image: none\n              resources: {limits: {'a: b': 'x: a y'}}",
            f'error: {MAIN}.resources.limits[a: b]: "x: a y" is not an amount such as 2, 500m or 8Gi',
        ),
        (
            "image: none",
            "image: none\n              resources: {limits: {'': x}}",
            "is not an amount",
        ),
        (
            "image: none",
            "image: none\n              env: [{nam: A}]",
            f"warning: {MAIN}.env[0].nam: there is no such field; did you mean name?",
        ),
        (
            "image: none",
            'image: none\n              args: [$(rank), "$(replicas[x])"]',
            f"warning: {MAIN}.args[1]: $(replicas[x]) means nothing here and stays as it is: there is no type x",
        ),
        (
            "image: none",
            "image: none\n              env: [{name: A, value: '$(service.port[x]) $(service.port[x])'}]",
            f"warning: {MAIN}.env[0].value: $(service.port[x]) means nothing here",
        ),
        (
            "spec:\n  rep",
            "spec:\n  failureRules: [{chief: [0]}, {worker: [2]}]\n  rep",
            "warning: spec.failureRules[1]: can never fire: type 'worker' has no rank 2",
        ),
        (
            "spec:\n  rep",
            "spec:\n  runMode: {debug: {replicaSpecs: [{type: x}]}}\n  rep",
            "warning: spec.runMode.debug.replicaSpecs[0].type: there is no replica of type 'x'",
        ),
        (
            "spec:\n  rep",
            'spec:\n  runMode: {pause: {resumeSpecs: [{type: chief, args: ["$(replicas[x])"]}]}}\n  rep',
            "warning: spec.runMode.pause.resumeSpecs[0].args[0]: $(replicas[x]) means nothing",
        ),
    ],
    ids=lambda value: value[:30],
)
def test_a_problem_is_told_in_words(before, after, problem):
    assert before in JOB
    assert any(problem in one for one in told(JOB.replace(before, after, 1)))


def test_each_of_many_rules_that_never_fire_is_told():
    rules = "".join(f"\n    - worker: [{rank}]" for rank in range(30))
    found = told(JOB.replace("spec:\n  rep", f"spec:\n  successRules:{rules}\n  rep"))
    assert len(found) == 28
    assert found[-1] == "job.yaml:37: warning: spec.successRules[29]: can never fire: type 'worker' has no rank 29"


def test_what_is_nearly_a_variable_is_asked_about():
    text = JOB.replace("image: none", "image: none\n              args: ['$(rnk) of $(replica[x])', $(Service.port)]")
    assert [one.partition("args")[2] for one in told(text)] == [
        "[0]: $(rnk) is no variable and stays as it is; did you mean $(rank)?",
        "[0]: $(replica[x]) is no variable and stays as it is; did you mean $(replicas[TYPE])?",
        "[1]: $(Service.port) is no variable and stays as it is; did you mean $(service.TYPE[RANK].host) or $(service.port[NAME])?",
    ] * 2


@pytest.mark.parametrize("words", ["$(rank)", "$$(rnk)", "$(date)", "$(type ls)", "$(hostname)", "$(RANK)", "$((rnk))"])
def test_what_others_replace_is_not(words):
    own = "env: [{name: RANK, value: '1'}]"
    assert told(JOB.replace("image: none", f"image: none\n              {own}\n              args: ['{words}']")) == []


def test_what_somebody_else_may_bring_is_not():
    own = "envFrom: [{configMapRef: {name: more}}]"
    assert told(JOB.replace("image: none", f"image: none\n              {own}\n              args: [$(RANK), $(SERVICE_PORT)]")) == []


def test_a_type_without_replicas_is_only_warned_about():
    text = JOB.replace("replicas: 2", "replicas: 0").replace("template: *template", "template: {}")
    assert told(text) == ["job.yaml:16: warning: spec.replicaSpecs[1].template.spec.containers: is missing"]


def test_other_objects_are_looked_at_as_well():
    assert told("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 1, b.c: true}\nmore: x\n") == [
        "job.yaml:4: error: data.a: 1 is not text: put it in quotes",
        "job.yaml:4: error: data.b.c: true is not text: put it in quotes",
        "job.yaml:5: warning: more: there is no such field",
    ]
    assert told("apiVersion: v1\nkind: Secret\nmetadata: {name: c}\nstringData: {a: b}\n") == []
    assert told("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c}\n") == [
        "job.yaml:2: warning: kind: a Deployment is not looked at: GenericJob, ConfigMap, Secret are"
    ]


def test_two_objects_of_one_name_are_one_too_many():
    found = [*repeated([*parsed(JOB, "a.yaml"), *parsed(f"{JOB}---\n{JOB.replace('train', 'eval')}", "b.yaml")])]
    assert [document.told(problem) for document, problem in found] == [
        "b.yaml:4: error: metadata.name: GenericJob train is there already, at a.yaml:4"
    ]
    unnamed = JOB.replace("name: train", "generateName: train-")
    assert [*repeated([*parsed(f"{unnamed}---\n{unnamed}", "a.yaml")])] == []


# ------------------------------------------------------------------------------------------------ what can be run here


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "job.yaml: there is nothing in it"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "job.yaml: there is no GenericJob in it"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: c}\n",
            "job.yaml:2: error: kind: 'Deployment' cannot be run on this machine",
        ),
        (
            JOB.replace("spec:\n  rep", "spec:\n  managedBy: a/b\n  rep"),
            "job.yaml:7: error: spec.managedBy: a/b runs this job, and is not here",
        ),
        (f"{JOB}---\n{JOB}", "job.yaml:21: error: metadata.name: GenericJob train is there already"),
    ],
    ids=lambda value: value[:30],
)
def test_what_cannot_be_run_here_is_refused(tmp_path, text, words):
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(BadInputError) as caught:
        runnable([str(tmp_path / "job.yaml")])
    assert str(caught.value).startswith(f"{tmp_path}/{words}")


def test_all_that_is_wrong_is_told_in_a_line_each(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB.replace("replicas: 2", "replicas: x").replace("kind", "#", 0).replace("image: none", "imag: x"))
    with pytest.raises(BadInputError) as caught:
        runnable([str(tmp_path / "job.yaml")])
    told = str(caught.value).splitlines()
    assert len(told) == 3
    assert all(line.startswith(f"{tmp_path}/job.yaml:") and ": error: spec.replicaSpecs[" in line for line in told)


def test_a_warning_hides_no_error(tmp_path):
    text = JOB.replace("spec:\n  rep", "spec:\n  managedBy: a/b\n  failureRules: [{nobody: [2]}]\n  rep").replace("image: none", "imag: x")
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(BadInputError) as caught:
        runnable([str(tmp_path / "job.yaml")])
    assert {line.rpartition(": ")[0].rpartition(".")[2] for line in str(caught.value).splitlines()} == {"image"}


def test_warnings_keep_nothing_from_being_run(tmp_path):
    (tmp_path / "job.yaml").write_text(JOB.replace("spec:\n  rep", "spec:\n  failureRules: [{nobody: [2]}]\n  rep"))
    assert [document.name for document in runnable([str(tmp_path / "job.yaml")])] == ["train"]
