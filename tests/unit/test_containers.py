"""What a container would run, and what of a pod means nothing to a process."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.containers import CannotStartError, NotYetError, Surroundings, expand, launch, unhonoured

POD = {
    "name": "train-worker-3",
    "namespace": "team",
    "uid": "u-1",
    "labels": {"app.kubernetes.io/part-of": "train"},
    "annotations": {"note": "well"},
}
SETTINGS = {"data": {"RATE": "0.1", "DEPTH": "$(RATE)"}}
PASSWORD = {"data": {"password": base64.b64encode(b"open sesame").decode()}}


def around(**objects):
    found = {("ConfigMap", "settings"): SETTINGS, ("Secret", "login"): PASSWORD}
    return Surroundings(POD, "127.1.0.4", "this-machine", {"PATH": "/bin", "HOME": "/root"}, lambda kind, name: found.get((kind, name)))


def started(**container):
    return launch({"name": "main", "image": "img", "command": ["run"], **container}, around())


def env(*variables, **container):
    return started(env=list(variables), **container).env


def from_field(path):
    return env({"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}})["X"]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain", "plain"),
        ("$(A)-$(B)", "1-$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$", "$$"),
        ("$A ${A} $", "$A ${A} $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("$(date) $(A)", "$(date) 1"),
        ("$($(A))", "$($(A))"),
    ],
)
def test_variables_are_put_in_as_a_kubelet_does(text, expanded):
    assert expand(text, {"A": "1"}) == expanded


@given(st.text(alphabet="$()AB "))
def test_what_is_escaped_comes_out_as_it_was(text):
    assert expand(text.replace("$", "$$"), {"A": "1", "B": "$(A)"}) == text


def test_command_and_args_make_one_command_line():
    found = started(command=["sh", "-c"], args=["echo $(WHO)"], env=[{"name": "WHO", "value": "me"}])
    assert found.argv == ("sh", "-c", "echo me")


def test_a_value_sees_variables_declared_before_it_and_not_those_after():
    found = env({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)"}, {"name": "C", "value": "3"})
    assert found["B"] == "1$(C)"


def test_the_environment_of_the_machine_lies_below_the_pods_and_is_not_for_variables():
    found = started(command=["run", "$(HOME)"], env=[{"name": "PATH", "value": "/pod"}])
    assert (found.env["PATH"], found.env["HOME"], found.argv[1]) == ("/pod", "/root", "$(HOME)")


def test_a_program_knows_the_name_of_its_pod():
    assert env()["HOSTNAME"] == "train-worker-3"
    assert env({"name": "HOSTNAME", "value": "other"})["HOSTNAME"] == "other"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "train-worker-3"),
        ("metadata.namespace", "team"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app.kubernetes.io/part-of']", "train"),
        ("metadata.labels['absent']", ""),
        ("metadata.annotations['note']", "well"),
        ("status.podIP", "127.1.0.4"),
        ("spec.nodeName", "this-machine"),
    ],
)
def test_fields_of_the_pod_become_values(path, value):
    assert from_field(path) == value


def test_an_unknown_field_of_the_pod_is_named():
    with pytest.raises(CannotStartError, match=r"spec\.hostname"):
        from_field("spec.hostname")


def test_config_maps_and_secrets_become_values():
    sources = {
        "RATE": {"configMapKeyRef": {"name": "settings", "key": "RATE"}},
        "KEY": {"secretKeyRef": {"name": "login", "key": "password"}},
    }
    found = env(*({"name": name, "valueFrom": source} for name, source in sources.items()))
    assert (found["RATE"], found["KEY"]) == ("0.1", "open sesame")


def test_a_whole_config_map_becomes_variables_that_later_ones_can_use():
    found = env({"name": "ALL", "value": "$(M_RATE)"}, envFrom=[{"prefix": "M_", "configMapRef": {"name": "settings"}}])
    assert (found["M_DEPTH"], found["ALL"]) == ("$(RATE)", "0.1")  # data are taken as they are


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMapKeyRef": {"name": "absent", "key": "x"}}, "ConfigMap 'absent' not found"),
        ({"secretKeyRef": {"name": "login", "key": "absent"}}, "Secret login has no key 'absent'"),
    ],
)
def test_what_is_missing_may_still_come_unless_it_is_optional(source, words):
    with pytest.raises(NotYetError, match=words):
        env({"name": "X", "valueFrom": source})
    ((kind, reference),) = source.items()
    assert "X" not in env({"name": "X", "valueFrom": {kind: reference | {"optional": True}}})


def test_a_container_without_command_says_why_it_cannot_run_here():
    with pytest.raises(CannotStartError, match=r"entrypoint of the image img is not known here: write the program into `command`"):
        launch({"name": "main", "image": "img", "args": ["--fast"]}, around())


def test_a_malformed_container_says_where():
    with pytest.raises(CannotStartError, match=r"\$\.env\[0\]\.value"):
        env({"name": "PORT", "value": 80})


def test_what_a_process_cannot_honour_is_named_once():
    container = {
        "name": "a",
        "image": "x",
        "command": ["run"],
        "resources": {"limits": {"cpu": 1}},
        "volumeMounts": [{}],
        "comand": ["typo"],
    }
    spec = {"containers": [container, container | {"name": "b"}], "volumes": [{}], "restartPolicy": "Never", "tolerations": []}
    assert list(unhonoured(spec)) == ["volumes", "image", "resources", "volumeMounts", "comand"]


def test_what_a_process_cannot_honour_is_found_in_init_containers_too_and_nothing_in_nonsense():
    assert list(unhonoured({"initContainers": [{"name": "i", "livenessProbe": {"exec": {}}}]})) == ["livenessProbe"]
    assert list(unhonoured({"containers": "nonsense"})) == []
