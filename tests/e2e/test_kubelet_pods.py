"""Pods on the kubelet stand-in, held to what a kubelet does with them: every later test believes it."""

import pytest

from e2e.standing_in import MACHINE, OURS, conditions, container, create, history, is_gone, make, stages, states, status, target, uid_of
from genericjob.reconcile.resources import NODES, RAW_PODS, Key
from harness.clusters import eventually
from harness.kubelet import Shutdown


@pytest.fixture
def node(nodes):
    return nodes.add(machine=MACHINE)


@pytest.fixture
def pod(server, namespace, node):
    """A pod on the node, of which the node has said that its containers are being created."""
    return make(server, namespace, node)


# ------------------------------------------------------------------------------------------------ starting


def test_a_new_pod_is_being_created_until_the_test_decides(server, pod, node):
    found = status(server, pod)
    why = ("False", "ContainersNotReady", "containers with unready status: [main]")
    assert found["phase"] == "Pending"
    assert conditions(found) == {
        "PodReadyToStartContainers": ("False", None, None),
        "Initialized": ("True", None, None),
        "Ready": why,
        "ContainersReady": why,
        "PodScheduled": ("True", None, None),
    }
    assert states(found) == {"main": ("waiting", "ContainerCreating", None)}
    assert found["hostIP"]
    assert found["startTime"]
    assert "podIP" not in found


def test_a_running_pod_looks_as_on_a_real_node(server, pod, node):
    before = status(server, pod)
    node.run(pod)
    found = status(server, pod)
    assert found["phase"] == "Running"
    assert conditions(found, "status", "reason", "message", "observedGeneration") == dict.fromkeys(
        ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"), ("True", None, None, 1)
    )
    assert found["observedGeneration"] == 1
    assert found["qosClass"] == before["qosClass"] == "Burstable"
    assert found["startTime"] == before["startTime"]
    assert found["podIPs"] == [{"ip": found["podIP"]}]
    assert found["hostIPs"] == [{"ip": found["hostIP"]}]
    (main,) = found["containerStatuses"]
    mounts = main.pop("volumeMounts")  # the service account's token, mounted by the server
    assert mounts[0]["readOnly"]
    assert mounts[0]["recursiveReadOnly"] == "Disabled"
    assert main.pop("containerID").startswith("containerd://")
    assert main.pop("imageID").startswith("sha256:")
    assert main.pop("state")["running"]["startedAt"] >= found["startTime"]
    assert main == {
        "name": "main",
        "image": "app:1",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "lastState": {},
        "resources": {"requests": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
    }


def test_an_automatic_node_runs_pods_at_once_and_watchers_see_each_stage(server, namespace, nodes):
    node = nodes.add(machine=MACHINE, automatic=True)
    with history(server, namespace) as events:
        create(server, namespace, node)
        eventually(lambda: stages(events)[-1:] == [("MODIFIED", "Running", "running")])
    assert stages(events) == [
        ("ADDED", "Pending"),
        ("MODIFIED", "Pending"),
        ("MODIFIED", "Pending", "waiting"),
        ("MODIFIED", "Running", "running"),
    ]


def test_a_brisk_node_needs_one_write_to_run_a_pod(server, namespace, nodes):
    node = nodes.add(machine=MACHINE, automatic=True, brisk=True)
    with history(server, namespace) as events:
        create(server, namespace, node)
        eventually(lambda: stages(events)[-1:] == [("MODIFIED", "Running", "running")])
    assert ("MODIFIED", "Pending", "waiting") not in stages(events)


def test_a_pod_of_another_scheduler_is_bound_by_hand(server, namespace, node):
    key = create(server, namespace, node, schedulerName="nobody")
    long_ago = "2020-01-01T00:00:00Z"
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": long_ago}
    server.patch(RAW_PODS, key, {"status": {"conditions": [scheduled]}}, subresource="status")
    node.bind(key)
    node.run(key)
    assert status(server, key)["phase"] == "Running"
    assert conditions(status(server, key), "status", "lastTransitionTime")["PodScheduled"] == ("True", long_ago)  # as it was set


def test_readiness_comes_and_goes(server, namespace, node):
    key = make(server, namespace, node, containers=[container("main"), container("side")])
    node.run(key)
    node.set_ready(key, False, "side")
    found = status(server, key)
    assert found["phase"] == "Running"
    assert conditions(found)["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [side]")
    assert {each["name"]: each["ready"] for each in found["containerStatuses"]} == {"main": True, "side": False}
    node.set_ready(key, True)
    assert conditions(status(server, key))["Ready"] == ("True", None, None)


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError"])
def test_a_pod_can_wait_for_what_does_not_come(server, pod, node, reason):
    node.stick(pod, reason, "no such thing")
    found = status(server, pod)
    assert found["phase"] == "Pending"
    assert found["containerStatuses"][0]["state"] == {"waiting": {"reason": reason, "message": "no such thing"}}
    assert found["podIP"]
    assert conditions(found, "status")["PodReadyToStartContainers"] == ("True",)
    node.run(pod)
    assert status(server, pod)["phase"] == "Running"


def test_init_containers_run_one_after_the_other(server, namespace, node):
    key = make(server, namespace, node, initContainers=[container("one"), container("two")])
    assert states(status(server, key)) == {"main": ("waiting", "PodInitializing", None)}
    node.run_init(key, "one")
    found = status(server, key)
    assert found["phase"] == "Pending"
    assert conditions(found)["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [one two]")
    assert states(found, "initContainerStatuses") == {"one": ("running", None, None), "two": ("waiting", "PodInitializing", None)}
    node.run_init(key, "two")
    assert conditions(status(server, key))["Initialized"][2] == "containers with incomplete status: [two]"
    node.run(key)
    found = status(server, key)
    assert found["phase"] == "Running"
    assert states(found, "initContainerStatuses") == dict.fromkeys(("one", "two"), ("terminated", "Completed", 0))
    assert [each["ready"] for each in found["initContainerStatuses"]] == [True, True]
    assert conditions(found)["Initialized"] == ("True", None, None)


def test_a_pod_fails_with_its_init_container(server, namespace, node, nodes):
    key = make(server, namespace, node, initContainers=[container("one")])
    node.run_init(key, "one")
    node.finish(key, 3)
    found = status(server, key)
    assert found["phase"] == "Failed"
    assert states(found, "initContainerStatuses") == {"one": ("terminated", "Error", 3)}
    assert states(found) == {"main": ("waiting", "PodInitializing", None)}
    assert conditions(found)["Ready"] == ("False", "PodFailed", None)
    assert conditions(found)["Initialized"] == ("False", "ContainersNotInitialized", "containers with incomplete status: [one]")
    assert not nodes.running


# ------------------------------------------------------------------------------------------------ ending


@pytest.mark.parametrize(
    ("exit_code", "phase", "reason", "why"),
    [(0, "Succeeded", "Completed", "PodCompleted"), (1, "Failed", "Error", "PodFailed"), (255, "Failed", "Error", "PodFailed")],
)
def test_a_pod_ends_with_its_containers(server, pod, node, nodes, exit_code, phase, reason, why):
    node.run(pod)
    node.finish(pod, exit_code)
    found = status(server, pod)
    assert found["phase"] == phase
    assert conditions(found) == {
        "PodReadyToStartContainers": ("False", None, None),
        "Initialized": ("True", "PodCompleted" if phase == "Succeeded" else None, None),
        "Ready": ("False", why, None),
        "ContainersReady": ("False", why, None),
        "PodScheduled": ("True", None, None),
    }
    (main,) = found["containerStatuses"]
    ended = main["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["containerID"]) == (exit_code, reason, main["containerID"])
    assert ended["startedAt"] <= ended["finishedAt"]
    assert not main["ready"]
    assert not main["started"]
    assert found["podIP"]
    assert not nodes.running


def test_one_container_may_end_before_the_other(server, namespace, node):
    key = make(server, namespace, node, containers=[container("main"), container("side")])
    node.run(key)
    node.finish(key, {"side": 0})
    found = status(server, key)
    assert found["phase"] == "Running"
    assert states(found) == {"main": ("running", None, None), "side": ("terminated", "Completed", 0)}
    assert conditions(found)["Ready"] == ("False", "ContainersNotReady", "containers with unready status: [side]")
    node.finish(key, 7)
    found = status(server, key)
    assert found["phase"] == "Failed"
    assert states(found) == {"main": ("terminated", "Error", 7), "side": ("terminated", "Completed", 0)}


def test_containers_end_before_the_phase_does(server, namespace, pod, node):
    node.run(pod)
    with history(server, namespace) as events:
        node.finish(pod)
        eventually(lambda: stages(events)[-1:] == [("MODIFIED", "Succeeded", "terminated")])
    assert stages(events) == [("MODIFIED", "Running", "terminated"), ("MODIFIED", "Succeeded", "terminated")]


def test_an_end_has_a_message_of_bounded_length(server, pod, node):
    node.run(pod)
    node.finish(pod, 1, message="é" * 3000)
    assert status(server, pod)["containerStatuses"][0]["state"]["terminated"]["message"] == "é" * 2048


def test_the_kernel_kills_a_container_for_its_memory(server, pod, node):
    node.run(pod)
    node.kill_for_memory(pod)
    found = status(server, pod)
    assert (found["phase"], states(found)) == ("Failed", {"main": ("terminated", "OOMKilled", 137)})


def test_what_a_kubelet_would_restart_is_refused(server, namespace, node):
    key = make(server, namespace, node, restartPolicy="OnFailure")
    node.run(key)
    with pytest.raises(ValueError, match="would restart"):
        node.finish(key, 1)
    node.finish(key, 0)
    assert status(server, key)["phase"] == "Succeeded"


def test_what_others_write_over_is_put_right(server, pod, node):
    node.run(pod)
    others = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    patch = {"status": {"conditions": [others, {"type": "Other", "status": "True"}]}}
    server.request("PATCH", RAW_PODS.path(*pod, "status"), body=patch, content="application/strategic-merge-patch+json")
    eventually(lambda: conditions(status(server, pod), "status")["Ready"] == ("True",))
    assert conditions(status(server, pod), "status")["Other"] == ("True",)  # which is not a kubelet's to judge


# ------------------------------------------------------------------------------------------------ deletion


@pytest.mark.parametrize(("exit_code", "phase"), [(143, "Failed"), (137, "Failed"), (0, "Succeeded")])
def test_a_deleted_pod_ends_before_it_goes(server, namespace, nodes, exit_code, phase):
    node = nodes.add(machine=MACHINE, shutdown=Shutdown(exit_code=exit_code))
    key = make(server, namespace, node)
    node.run(key)
    with history(server, namespace) as events:
        server.delete(RAW_PODS, key)
        eventually(lambda: stages(events)[-1:] == [("DELETED", phase, "terminated")])
    assert stages(events) == [("MODIFIED", "Running", "running"), ("MODIFIED", phase, "terminated"), ("DELETED", phase, "terminated")]
    last = events[-1][1]
    assert last["metadata"]["generation"] == last["status"]["observedGeneration"] == 2
    assert states(last["status"])["main"][2] == exit_code
    eventually(lambda: not nodes.running)


def test_a_pod_deleted_before_it_ran_is_lost_track_of(server, namespace, pod, node):
    with history(server, namespace) as events:
        server.delete(RAW_PODS, pod)
        eventually(lambda: events and events[-1][0] == "DELETED")
    found = events[-1][1]["status"]
    assert found["phase"] == "Failed"
    assert states(found) == {"main": ("terminated", "ContainerStatusUnknown", 137)}
    assert conditions(found)["Ready"][1] == "ContainersNotReady"


def test_a_deleted_pod_may_take_its_time(server, namespace, nodes):
    node = nodes.add(machine=MACHINE, shutdown=Shutdown(after=0.5))
    key = make(server, namespace, node)
    node.run(key)
    server.delete(RAW_PODS, key)
    eventually(lambda: status(server, key)["observedGeneration"] == 2)  # the kubelet knows
    assert nodes.running
    eventually(lambda: is_gone(server, key) and not nodes.running)


def test_a_deleted_pod_is_held_until_the_test_lets_go(server, pod, node, nodes):
    node.run(pod)
    node.hold(pod)
    server.delete(RAW_PODS, pod)
    eventually(lambda: status(server, pod)["observedGeneration"] == 2)
    assert status(server, pod)["phase"] == "Running"
    assert nodes.running == {uid_of(server, pod)}
    node.let_go(pod, exit_code=0)
    eventually(lambda: is_gone(server, pod))
    assert not nodes.running


def test_a_held_pod_may_finish_by_itself(server, pod, node):
    node.run(pod)
    node.hold(pod)
    server.delete(RAW_PODS, pod)
    node.finish(pod, 0)
    eventually(lambda: is_gone(server, pod))


def test_a_finalizer_outlasts_the_kubelet(server, pod, node):
    node.run(pod)
    server.patch(RAW_PODS, pod, {"metadata": {"finalizers": ["genericjob.test/keep"]}})
    server.delete(RAW_PODS, pod)
    eventually(lambda: server.get(RAW_PODS, pod)["metadata"].get("deletionGracePeriodSeconds") == 0)  # the final delete came
    assert status(server, pod)["phase"] == "Failed"
    server.patch(RAW_PODS, pod, {"metadata": {"finalizers": None}})
    eventually(lambda: is_gone(server, pod))


def test_the_process_table_outlives_the_server_s_memory(server, pod, node, nodes):
    node.run(pod)
    uid = uid_of(server, pod)
    node.hold(pod)
    server.delete(RAW_PODS, pod, grace=0)
    assert is_gone(server, pod)
    assert nodes.running == {uid}
    node.let_go(uid)
    eventually(lambda: not nodes.running)  # once the node has noticed


def test_a_force_deleted_pod_ends_when_the_node_notices(server, pod, node, nodes):
    node.run(pod)
    server.delete(RAW_PODS, pod, grace=0)
    eventually(lambda: not nodes.running)


def test_the_end_of_an_instance_does_not_touch_its_successor(server, namespace, pod, node, nodes):
    node.run(pod)
    old = uid_of(server, pod)
    node.hold(pod)
    server.delete(RAW_PODS, pod)
    eventually(lambda: status(server, pod)["observedGeneration"] == 2)
    server.delete(RAW_PODS, pod, grace=0)
    make(server, namespace, node)
    new = uid_of(server, pod)
    node.run(new)
    assert nodes.running == {old, new}
    assert [{one.uid, two.uid} for one, two in nodes.overlaps()] == [{old, new}]
    node.let_go(old)
    eventually(lambda: nodes.running == {new})
    assert (uid_of(server, pod), status(server, pod)["phase"]) == (new, "Running")


def test_instances_one_after_the_other_do_not_overlap(server, namespace, pod, node, nodes):
    for _ in range(2):
        node.run(pod)
        server.delete(RAW_PODS, pod)
        eventually(lambda: is_gone(server, pod))
        make(server, namespace, node)
    assert len(nodes.lives) == 2
    assert not nodes.overlaps()


# ------------------------------------------------------------------------------------------------ lost machines


LONG = 180.0


def test_pods_of_a_lost_node_hang_until_it_is_back(server, disaster):
    nodes, lost, _, left, patient, _ = disaster
    uid = uid_of(server, left)
    eventually(lambda: "deletionTimestamp" in server.get(RAW_PODS, left)["metadata"], within=LONG)
    found = server.get(NODES, Key("", lost.name))
    assert conditions(found["status"], "status", "reason")["Ready"] == ("Unknown", "NodeStatusUnknown")
    assert {taint["key"] for taint in found["spec"]["taints"]} >= {"node.kubernetes.io/unreachable"}
    found = status(server, left)
    assert found["phase"] == "Running"
    assert conditions(found)["DisruptionTarget"][:2] == ("True", "DeletionByTaintManager")
    for key in (left, patient):
        assert conditions(status(server, key), "status")["Ready"] == ("False",)  # says the node lifecycle controller
    assert uid in nodes.running
    lost.come_back()
    eventually(lambda: is_gone(server, left))
    assert uid not in nodes.running
    eventually(lambda: conditions(status(server, patient), "status")["Ready"] == ("True",))
    eventually(lambda: server.get(NODES, Key("", lost.name))["spec"]["taints"] == [OURS])


def test_pods_of_a_deleted_node_are_collected(server, disaster):
    nodes, _, deleted, _, _, orphan = disaster
    eventually(lambda: "deletionTimestamp" in server.get(RAW_PODS, orphan)["metadata"], within=LONG)
    last = server.get(RAW_PODS, orphan)
    assert target(last)["reason"] == "DeletionByPodGC"
    assert last["status"]["phase"] == "Failed"
    assert states(last["status"])["main"][0] == "running"  # nobody asked the kubelet
    assert last["metadata"]["uid"] in nodes.running
    server.patch(RAW_PODS, orphan, {"metadata": {"finalizers": None}})
    eventually(lambda: is_gone(server, orphan))
    deleted.come_back()
    eventually(lambda: last["metadata"]["uid"] not in nodes.running)
