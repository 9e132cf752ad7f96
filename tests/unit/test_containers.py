"""What a container would run, and what of a pod means nothing to a process."""

import base64
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genericjob.local.containers import expand, launch, unhonoured
from genericjob.local.sources import CannotStartError, NotYetError, Surroundings, quantity

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


def test_a_value_from_somewhere_else_is_refused():
    with pytest.raises(CannotStartError, match="neither from a field or resource nor from a ConfigMap or Secret"):
        env({"name": "X", "valueFrom": {"fileKeyRef": {"key": "x"}}})


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


# ------------------------------------------------------------------------------------------------ resources

LIMITED = {"name": "main", "command": ["run"], "resources": {"limits": {"cpu": "1500m", "memory": "2Gi"}, "requests": {"cpu": "250m"}}}


def from_resource(resource, divisor=None, container=None):
    asked = {"resource": resource} | ({"divisor": divisor} if divisor else {}) | ({"containerName": container} if container else {})
    variable = {"name": "X", "valueFrom": {"resourceFieldRef": asked}}
    pod = {"containers": [LIMITED], "initContainers": [{"name": "plain"}]}
    return launch(LIMITED | {"env": [variable]}, replace(around(), spec=pod)).env["X"]


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.cpu", "1m", "250"),
        ("limits.memory", "1Mi", "2048"),
        ("limits.memory", None, str(2 * 2**30)),
        ("requests.memory", "1Gi", "2"),  # not written: as large as the limit
        ("requests.ephemeral-storage", None, "0"),
    ],
)
def test_limits_and_requests_become_values(resource, divisor, value):
    assert from_resource(resource, divisor) == value


def test_a_limit_that_is_not_written_is_what_the_machine_has():
    assert from_resource("limits.cpu", container="plain") == str(os.cpu_count())
    assert int(from_resource("limits.memory", container="plain")) > 2**20
    assert from_resource("limits.ephemeral-storage", container="plain") == "0"


@pytest.mark.parametrize(
    ("resource", "divisor", "container", "words"),
    [
        ("cpu", None, None, "the resource 'cpu': not known here"),
        ("limits.cpu", "much", None, "'much' is not an amount"),
        ("limits.cpu", None, "other", "the container 'other', which the pod does not have"),
    ],
)
def test_a_resource_that_makes_no_sense_is_named(resource, divisor, container, words):
    with pytest.raises(CannotStartError, match=words):
        from_resource(resource, divisor, container)


@pytest.mark.parametrize(
    ("written", "amount"),
    [("4", 4), (4, 4), ("1e3", 1000), ("0.5", 0.5), ("3k", 3000), ("1Ki", 1024), ("2E", 2 * 10**18), ("5m", 0.005)],
)
def test_amounts_are_read_as_kubernetes_reads_them(written, amount):
    assert float(quantity(written)) == amount


@pytest.mark.parametrize("written", ["", "1.2.3", "Gi", "1 Gi", "1KiB"])
def test_what_is_no_amount_is_refused(written):
    with pytest.raises(CannotStartError, match="is not an amount"):
        quantity(written)


# ------------------------------------------------------------------------------------------------ what is not honoured


def test_what_a_process_cannot_honour_is_named_once():
    container = {
        "name": "a",
        "image": "x",
        "command": ["run"],
        "resources": {"limits": {"cpu": 1}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
        "terminationMessagePath": "/dev/termination-log",
        "stdin": False,
        "comand": ["typo"],
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "disk", "nfs": {}}, {"name": "none"}]
    spec = {
        "containers": [container, container | {"name": "b"}],
        "volumes": [*volumes, {"name": "scratch", "emptyDir": {"medium": "Memory"}}],
        "restartPolicy": "Never",
        "tolerations": [],
        "hostNetwork": False,
        "nodeSelector": {"disk": "fast"},
    }
    assert list(unhonoured(spec)) == ["nodeSelector", "persistentVolumeClaim", "nfs", "image", "comand", "resources.limits.cpu", "readOnly"]


def test_what_a_process_cannot_honour_is_found_in_init_containers_too_and_nothing_in_nonsense():
    assert list(unhonoured({"initContainers": [{"name": "i", "livenessProbe": {"exec": {}}}]})) == ["livenessProbe"]
    assert list(unhonoured({"containers": "nonsense", "volumes": "nonsense"})) == []
    assert list(unhonoured({"containers": [{"volumeMounts": 1}, "x"], "volumes": ["x"]})) == []
