"""What the command line of a run changes in its manifests."""

import pytest
import yaml

from genericjob.cli.documents import BadInputError, runnable
from genericjob.cli.overrides import overridden


def job(name="j", **container):
    main = {"name": "main", "image": "none", "command": ["true"], **container}
    first = {"name": "first", "image": "none", "command": ["true"]}
    template = {"spec": {"initContainers": [first], "containers": [main]}}
    parts = [{"type": type, "replicas": 4, "template": template} for type in ("server", "worker")]
    meta = {"name": name}
    return {"apiVersion": "batch.tensorstack.dev/v1beta1", "kind": "GenericJob", "metadata": meta, "spec": {"replicaSpecs": parts}}


@pytest.fixture
def changed(tmp_path):
    def change(*documents, settings=(), env=()):
        (tmp_path / "m.yaml").write_text("\n---\n".join(map(yaml.safe_dump, documents)))
        found = runnable([str(tmp_path / "m.yaml")], lambda read: overridden(read, settings=settings, env=env))
        return [document.body for document in found]

    return change


def containers(body):
    return [each for part in body["spec"]["replicaSpecs"] for group in part["template"]["spec"].values() for each in group]


def test_without_settings_nothing_changes(changed):
    assert changed(job()) == [job()]


def test_replicas_of_a_type_are_set_in_all_jobs_that_have_it(changed):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    *jobs, other = changed(job("one"), job("two"), settings, settings=["replicas.worker=1", "replicas.server=0"])
    assert [[part["replicas"] for part in body["spec"]["replicaSpecs"]] for body in jobs] == [[0, 1], [0, 1]]
    assert other == settings


def test_a_variable_is_set_in_every_container(changed):
    (body,) = changed(job(), env=["A=b=c", "EMPTY="])
    wanted = [{"name": "A", "value": "b=c"}, {"name": "EMPTY", "value": ""}]
    assert [each["env"] for each in containers(body)] == [wanted] * 4


def test_a_variable_takes_the_place_of_the_manifests_own(changed):
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    own = [{"name": "X", "value": "x"}, {"name": "A", "valueFrom": secret}, {"name": "Z", "value": "$(A)$(B)"}]
    (body,) = changed(job(env=own), env=["A=new", "B=too"])
    assert containers(body)[0]["env"] == [{"name": "B", "value": "too"}, own[0], {"name": "A", "value": "new"}, own[2]]


def test_what_is_set_is_judged_with_the_rest(changed):
    with pytest.raises(BadInputError, match=r"replicas"):
        changed(job(), settings=["replicas.worker=1000000"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"settings": ["replicas.wroker=1"]},
            "--set replicas.wroker: there is no replica type 'wroker' in the files: there are server, worker",
        ),
        ({"settings": ["replicas.worker"]}, "--set replicas.worker: only numbers of replicas can be set, such as --set replicas.worker=2"),
        ({"settings": ["replicas.worker=-1"]}, "--set replicas.worker=-1: only numbers of replicas"),
        ({"settings": ["replicas.worker=99999999"]}, "--set replicas.worker=99999999: a job has at most 10000 replicas in sum"),
        ({"settings": ["replicas.worker=" + "9" * 5000]}, "--set replicas.worker=9999"),
        ({"settings": ["image=x"]}, "--set image=x: only numbers of replicas"),
        ({"env": ["NAME"]}, "--env NAME: a variable is written as NAME=VALUE"),
        ({"env": ["=x"]}, "--env =x: a variable is written as NAME=VALUE"),
    ],
)
def test_what_cannot_be_set_is_refused_in_words(changed, options, words):
    with pytest.raises(BadInputError) as caught:
        changed(job(), **options)
    assert str(caught.value).startswith(words)


def test_a_manifest_that_is_wrong_is_told_as_ever(changed):
    with pytest.raises(BadInputError, match="replicaSpecs"):
        changed({**job(), "spec": {"replicaSpecs": ["x", {"type": ["y"], "template": 3}]}}, env=["A=b"])
