"""Pods as programs of this machine: the kubelet's role, on the API in memory."""

import os
import signal
from datetime import UTC, datetime

import pytest

from genericjob.local import FaultyApi, MemoryApi
from genericjob.local.addresses import Addresses
from genericjob.local.kubelet import NODE, Kubelet
from genericjob.local.reports import Running, Seen, Waiting, status
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import CONFIG_MAPS, RAW_PODS
from harness.clusters import eventually

from .builders import in_default

pytestmark = pytest.mark.processes


class Machine:
    """An API in memory, and this machine as its only node."""

    def __init__(self, api=None, *, start=True, logs=None, cgroups=None):
        self.memory = MemoryApi()
        self.api = api(self.memory) if api else self.memory
        self.output = {}
        self.noticed = []
        self.addresses = Addresses(network=200)
        self.kubelet = Kubelet(
            self.api,
            bind=self.memory.bind,
            address=self.addresses.of,
            output=self._hear,
            notice=lambda pod, text: self.noticed.append((pod.name, text)),
            logs=logs,
            cgroups=cgroups,
            primitives=System(),
        )
        if start:
            self.kubelet.start()

    def create(self, name, *containers, init=(), **spec):
        spec = {"restartPolicy": "Never", "containers": list(containers), "initContainers": list(init)} | spec
        return self.memory.create(RAW_PODS, {"metadata": {"name": name}, "spec": spec}, "default").object

    def pod(self, name="p"):
        return self.memory.get(RAW_PODS, in_default(name))

    def reaches(self, phase, name="p"):
        def there():
            found = self.pod(name)
            return found if found["status"]["phase"] == phase else None

        return eventually(there)

    def waits(self, name="p"):
        """What the first container of a pod waits for, once there is something to say."""
        return eventually(lambda: (found := state(self.pod(name)).get("waiting", {})).get("message") and found)

    def is_gone(self, name="p"):
        return eventually(lambda: name not in {pod["metadata"]["name"] for pod in self.memory.list(RAW_PODS).items})

    def deleted(self, name="p"):
        """Deletes a pod and returns it as it was when the server forgot it."""
        with self.memory.watch(RAW_PODS, resource_version=self.memory.resource_version) as watch:
            self.memory.delete(RAW_PODS, in_default(name))
            return next(event.object for event in watch if event.type == "DELETED" and event.object["metadata"]["name"] == name)

    def _hear(self, pod, container, data):
        if data:
            self.output[pod.name, container] = self.output.get((pod.name, container), b"") + data

    @property
    def printed(self):
        """Lines by pod and container, in the order in which containers began to print."""
        return [(*whose, line) for whose, data in list(self.output.items()) for line in data.decode().splitlines()]

    def lines(self, name="p"):
        return [line for pod, _, line in self.printed if pod == name]

    def line(self, name="p"):
        whole = lambda: any(pod == name and b"\n" in data for (pod, _), data in list(self.output.items()))  # noqa: E731
        return eventually(lambda: whole() and self.lines(name))[0]


@pytest.fixture
def machine():
    found = Machine()
    yield found
    assert found.kubelet.stop()


def sh(script, name="main", **container):
    return {"name": name, "image": "none", "command": ["sh", "-c", script], **container}


def state(pod, name="main", group="containerStatuses"):
    return next((one["state"] for one in pod["status"].get(group, ()) if one["name"] == name), {})


def ended(pod, name="main", group="containerStatuses"):
    return state(pod, name, group).get("terminated")


def conditions(pod):
    return {one["type"]: one["status"] for one in pod["status"]["conditions"]}


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# ------------------------------------------------------------------------------------------------ life


def test_a_pod_whose_program_ends_well_succeeds(machine):
    machine.create("p", sh("echo hello"))
    pod = machine.reaches("Succeeded")
    assert machine.printed == [("p", "main", "hello")]
    assert ended(pod)["exitCode"] == 0
    assert ended(pod)["reason"] == "Completed"
    assert pod["spec"]["nodeName"] == NODE


def test_a_pod_whose_program_fails_fails_with_its_exit_code(machine):
    machine.create("p", sh("exit 7"))
    assert ended(machine.reaches("Failed")) | {"startedAt": 0, "finishedAt": 0} == {
        "exitCode": 7,
        "reason": "Error",
        "startedAt": 0,
        "finishedAt": 0,
    }


def test_a_running_pod_is_ready_and_says_where_it_is(machine):
    machine.create("p", sh("sleep 600"))
    pod = machine.reaches("Running")
    assert conditions(pod) == dict.fromkeys(
        ["PodScheduled", "PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"], "True"
    )
    assert pod["status"]["podIP"] == "127.200.0.1" == machine.addresses.of(in_default("p"))
    assert pod["status"]["startTime"]
    assert "running" in state(pod)


def test_conditions_say_how_a_pod_ended(machine):
    machine.create("p", sh("exit 1"))
    found = {one["type"]: one.get("reason") for one in machine.reaches("Failed")["status"]["conditions"] if one["status"] == "False"}
    assert found == {"PodReadyToStartContainers": None, "Ready": "PodFailed", "ContainersReady": "PodFailed"}


def test_init_containers_run_one_after_another_and_before_the_containers(machine, tmp_path):
    log = tmp_path / "log"
    first = sh(f"sleep 0.05; echo first >> {log}", "first")
    second = sh(f"cat {log} && echo second >> {log}", "second")
    machine.create("p", sh(f"cat {log}"), init=[first, second])
    pod = machine.reaches("Succeeded")
    assert machine.printed == [("p", "second", "first"), ("p", "main", "first"), ("p", "main", "second")]
    assert ended(pod, "first", "initContainerStatuses")["exitCode"] == 0


def test_a_failing_init_container_fails_the_pod_and_nothing_else_starts(machine):
    machine.create("p", sh("echo never"), init=[sh("exit 3", "first"), sh("echo never", "second")])
    pod = machine.reaches("Failed")
    assert machine.printed == []
    assert ended(pod, "first", "initContainerStatuses")["exitCode"] == 3
    assert conditions(pod)["Initialized"] == "False"


def test_containers_run_together(machine, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    machine.create("p", sh(f"echo over here > {tmp_path}/pipe", "one"), sh(f"cat {tmp_path}/pipe", "two"))
    machine.reaches("Succeeded")
    assert machine.printed == [("p", "two", "over here")]


def test_a_pod_runs_until_its_last_container_has_ended_and_one_failure_is_enough(machine, tmp_path):
    machine.create("p", sh("exit 1", "bad"), sh(f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done", "good"))
    eventually(lambda: ended(machine.pod(), "bad"))
    assert machine.pod()["status"]["phase"] == "Running"
    (tmp_path / "go").touch()
    machine.reaches("Failed")


def test_a_sidecar_is_not_waited_for_and_ends_with_the_pod(machine):
    sidecar = sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 600 & wait; done", "sidecar", restartPolicy="Always")
    machine.create("p", sh("sleep 0.1"), init=[sidecar])
    pod = machine.reaches("Succeeded")
    assert machine.lines() == ["up", "bye"]
    assert ended(pod, "sidecar", "initContainerStatuses")["exitCode"] == 0


# ------------------------------------------------------------------------------------------------ what a program is given


def test_a_program_is_told_where_and_who_it_is(machine):
    fields = {"NAME": "metadata.name", "NAMESPACE": "metadata.namespace", "UID": "metadata.uid", "IP": "status.podIP"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    created = machine.create("p", sh("echo $(NAME) $NAMESPACE $(UID) $IP $$(echo $$HOSTNAME)", env=env))
    machine.reaches("Succeeded")
    assert machine.lines() == [f"p default {created['metadata']['uid']} 127.200.0.1 p"]


def test_a_container_waits_for_its_config_map(machine, monkeypatch):
    monkeypatch.setattr("genericjob.local.groups.RETRY", 0.02)
    env = [{"name": "RATE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "rate"}}}]
    machine.create("p", sh("echo $RATE", env=env))
    assert machine.waits() == {"reason": "CreateContainerConfigError", "message": "ConfigMap 'settings' not found"}
    assert machine.pod()["status"]["phase"] == "Pending"
    machine.memory.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"rate": "0.1"}}, "default")
    machine.reaches("Succeeded")
    assert machine.lines() == ["0.1"]


def test_a_program_that_cannot_start_fails_its_container_and_says_why(machine):
    machine.create("p", {"name": "main", "image": "none", "command": ["no-such-program"]})
    found = ended(machine.reaches("Failed"))
    assert (found["exitCode"], found["reason"]) == (128, "NeverStartsHere")
    assert found["message"] == "there is no program 'no-such-program' on this machine: it is in no directory of $PATH"


# ------------------------------------------------------------------------------------------------ deletion


def test_a_deleted_pod_is_asked_to_end_and_then_removed(machine):
    machine.create("p", sh("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 600 & wait; done"))
    machine.line()
    machine.memory.delete(RAW_PODS, in_default("p"))
    machine.is_gone()
    assert machine.lines() == ["up", "bye"]


def test_a_pod_that_does_not_listen_is_killed_when_its_grace_is_over(machine):
    machine.create("p", sh("trap 'echo no' TERM; echo $$$$; while :; do sleep 600 & wait; done"), terminationGracePeriodSeconds=1)
    pid = int(machine.line())
    last = machine.deleted()
    assert ended(last)["exitCode"] == 137  # the server heard of the end before it forgot the pod
    assert last["status"]["phase"] == "Failed"
    assert machine.lines()[1:] == ["no"]
    assert not lives(pid)


def test_a_pod_is_asked_to_end_once(machine):
    machine.create("p", sh("trap 'echo no' TERM; echo up; while :; do sleep 600 & wait; done"), terminationGracePeriodSeconds=1)
    machine.line()
    machine.memory.delete(RAW_PODS, in_default("p"))
    eventually(lambda: machine.lines() == ["up", "no"])
    machine.memory.patch(RAW_PODS, in_default("p"), {"metadata": {"labels": {"looked": "at"}}})
    machine.is_gone()
    assert machine.lines() == ["up", "no"]


def test_a_shorter_grace_can_be_asked_for_later(machine):
    machine.create("p", sh("trap '' TERM; echo up; while :; do sleep 600 & wait; done"), terminationGracePeriodSeconds=600)
    machine.line()
    machine.memory.delete(RAW_PODS, in_default("p"))
    machine.memory.delete(RAW_PODS, in_default("p"), grace=1)
    machine.is_gone()


def test_what_was_removed_by_force_ends_before_its_successor_begins(machine, tmp_path):
    script = (
        f"if [ -e {tmp_path}/lock ]; then echo two at once; fi; touch {tmp_path}/lock; trap 'sleep 0.1; rm {tmp_path}/lock; exit' TERM; "
    )
    machine.create("p", sh(script + "echo up; while :; do sleep 600 & wait; done"))
    machine.line()
    machine.memory.delete(RAW_PODS, in_default("p"), grace=0)
    machine.create("p", sh(f"[ ! -e {tmp_path}/lock ] && echo alone"))
    machine.reaches("Succeeded")
    assert machine.lines() == ["up", "alone"]


def test_a_pod_deleted_while_it_initializes_starts_nothing_more(machine):
    init = sh("trap 'exit 0' TERM; echo up; while :; do sleep 600 & wait; done", "init")
    machine.create("p", sh("echo never"), init=[init])
    machine.line()
    last = machine.deleted()
    assert ended(last, "init", "initContainerStatuses")["exitCode"] == 0
    assert "waiting" in state(last)


def test_a_pod_that_waits_for_its_config_map_can_be_deleted(machine):
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x"}}}]
    machine.create("p", sh("echo never", env=env))
    eventually(lambda: state(machine.pod()))
    machine.memory.delete(RAW_PODS, in_default("p"))
    machine.is_gone()


def test_what_was_over_before_the_kubelet_came_is_not_run():
    machine = Machine(start=False)
    for name in ("deleted", "failed"):
        machine.create(name, sh("echo never"))
        machine.memory.bind(in_default(name), NODE)
    machine.memory.delete(RAW_PODS, in_default("deleted"))
    machine.memory.patch(RAW_PODS, in_default("failed"), {"status": {"phase": "Failed"}}, subresource="status")
    machine.create("p", sh("echo mine"))
    machine.kubelet.start()
    try:
        machine.is_gone("deleted")
        machine.reaches("Succeeded")
        assert machine.printed == [("p", "main", "mine")]
        assert machine.pod("failed")["status"]["phase"] == "Failed"
    finally:
        assert machine.kubelet.stop()


def test_a_pod_that_has_ended_is_not_run_again(machine):
    machine.create("p", sh("echo once"))
    machine.reaches("Succeeded")
    machine.memory.patch(RAW_PODS, in_default("p"), {"metadata": {"labels": {"seen": "yes"}}})
    machine.create("q", sh("echo later"))
    machine.reaches("Succeeded", "q")
    assert machine.lines() == ["once"]


def test_the_end_of_the_kubelet_is_the_end_of_all_programs():
    machine = Machine()
    machine.create("p", sh("trap '' TERM; echo $$$$; while :; do sleep 600 & wait; done"))
    pid = int(machine.line())
    assert machine.kubelet.stop()
    assert not lives(pid)


# ------------------------------------------------------------------------------------------------ beside others


def test_pods_of_other_nodes_and_gated_pods_are_left_alone(machine):
    machine.create("elsewhere", sh("echo never"), nodeName="another")
    machine.create("gated", sh("echo never"), schedulingGates=[{"name": "wait"}])
    machine.create("p", sh("echo mine"))
    machine.reaches("Succeeded")
    assert machine.printed == [("p", "main", "mine")]
    assert not machine.pod("gated")["spec"].get("nodeName")


def test_conditions_of_others_survive(machine):
    machine.create("p", sh("sleep 600"))
    pod = machine.reaches("Running")
    others = [*pod["status"]["conditions"], {"type": "DisruptionTarget", "status": "True"}]
    machine.memory.patch(RAW_PODS, in_default("p"), {"status": {"conditions": others}}, subresource="status")
    last = machine.deleted()
    assert conditions(last)["DisruptionTarget"] == "True"
    assert conditions(last)["Ready"] == "False"


def test_a_program_that_was_killed_from_outside_is_told_with_its_signal(machine):
    machine.create("p", sh("echo $$$$; sleep 600"))
    os.kill(int(machine.line()), signal.SIGUSR1)
    assert ended(machine.reaches("Failed"))["exitCode"] == 128 + signal.SIGUSR1


def test_a_report_that_is_lost_is_repeated():
    faulty = []
    machine = Machine(lambda memory: faulty.append(FaultyApi(memory)) or faulty[0])
    try:
        faulty[0].lose("patch", times=2)
        machine.create("p", sh("echo once"))
        machine.reaches("Succeeded")
        assert machine.lines() == ["once"]
    finally:
        machine.kubelet.stop()


def test_conditions_change_their_time_only_with_their_status():
    first, later = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)

    def report(state, before, now):
        seen = Seen(ip="", began=first, init={}, sidecars=frozenset(), containers={"main": state}, images={}, over=False)
        return status(seen, own=before, others=(), now=now)["conditions"]

    before = report(Waiting(), (), first)
    after = {one["type"]: one["lastTransitionTime"] for one in report(Running(later), before, later)}
    assert after["Initialized"] == "2026-01-01T00:00:00Z"
    assert after["Ready"] == "2026-01-02T00:00:00Z"
