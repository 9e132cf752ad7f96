"""Nodes of the kubelet stand-in: their life, what drives pods from them, lines that break, and machines that are lost."""

import threading

import pytest

from e2e.standing_in import MACHINE, OURS, conditions, container, create, history, is_gone, make, states, status, target, uid_of
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import LEASES, NODES, RAW_PODS, Key, raw
from harness.clusters import eventually
from harness.kubelet import Machine, Nodes, disruptions
from harness.kubelet.work import Line, WorkQueue

PRIORITY_CLASSES = raw("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)


@pytest.fixture
def node(nodes):
    return nodes.add(machine=MACHINE)


@pytest.fixture
def pod(server, namespace, node):
    """A pod on the node, of which the node has said that its containers are being created."""
    return make(server, namespace, node)


# ------------------------------------------------------------------------------------------------ nodes


def test_a_node_is_registered_healthy_and_open(server, node):
    found = server.get(NODES, Key("", node.name))
    assert {each["type"]: each["status"] for each in found["status"]["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert found["status"]["allocatable"] == {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
    assert {each["type"] for each in found["status"]["addresses"]} == {"InternalIP", "Hostname"}
    assert found["spec"]["taints"] == [OURS]


def test_a_lease_belongs_to_its_node_and_is_renewed(server, node):
    key = Key("kube-node-lease", node.name)
    first = server.get(LEASES, key)
    assert first["spec"]["holderIdentity"] == node.name
    assert first["metadata"]["ownerReferences"][0]["uid"] == server.get(NODES, Key("", node.name))["metadata"]["uid"]
    eventually(lambda: server.get(LEASES, key)["spec"]["renewTime"] > first["spec"]["renewTime"])


def test_a_lease_that_somebody_deleted_is_made_again(server, node):
    key = Key("kube-node-lease", node.name)
    server.delete(LEASES, key)
    eventually(lambda: server.get(LEASES, key))


def test_a_node_that_looks_ill_to_others_reports_again(server, node):
    ill = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    path = NODES.path(name=node.name, subresource="status")
    server.request("PATCH", path, body={"status": {"conditions": [ill]}}, content="application/strategic-merge-patch+json")
    eventually(lambda: conditions(server.get(NODES, Key("", node.name))["status"], "status")["Ready"] == ("True",))


def test_nothing_is_left_at_the_end(cluster, server, namespace):
    before = set(threading.enumerate())
    with Nodes(cluster.api) as nodes:
        node = nodes.add(machine=MACHINE, automatic=True)
        key = make(server, namespace, node)
        assert set(threading.enumerate()) - before
    assert not set(threading.enumerate()) - before
    eventually(lambda: is_gone(server, key))
    for resource, key in ((NODES, Key("", node.name)), (LEASES, Key("kube-node-lease", node.name))):
        with pytest.raises(ApiError) as caught:
            server.get(resource, key)
        assert caught.value.not_found


def test_an_error_in_a_thread_reaches_the_test(cluster, server, namespace):
    nodes = Nodes(cluster.api)
    node = nodes.add(machine=MACHINE)
    key = create(server, namespace, node, initContainers=[container("sidecar") | {"restartPolicy": "Always"}])
    eventually(lambda: server.get(RAW_PODS, key)["spec"].get("nodeName"))
    eventually(lambda: not any(thread.name == f"kubelet {node.name}" for thread in threading.enumerate()))
    with pytest.raises(ExceptionGroup) as caught:
        nodes.close()
    assert "sidecar" in str(caught.value.exceptions[0])


# ------------------------------------------------------------------------------------------------ disruption


@pytest.mark.parametrize("disruption", [True, False])
@pytest.mark.parametrize("running", [True, False])
def test_a_node_evicts_for_want_of_resources(server, pod, node, nodes, running, disruption):
    if running:
        node.run(pod)
    node.evict(pod, disruption=disruption)
    found = status(server, pod)
    assert (found["phase"], found["reason"]) == ("Failed", "Evicted")
    assert found["message"] == "The node was low on resource: memory. "
    assert states(found) == {"main": ("terminated", "Error" if running else "ContainerStatusUnknown", 137)}
    assert conditions(found)["Ready"] == ("False", "PodFailed", None)
    target = ("True", "TerminationByKubelet", found["message"]) if disruption else None
    assert conditions(found).get("DisruptionTarget") == target
    assert not nodes.running


def last_words(server, namespace, key, act):
    """The last state of a pod that something leads to its end."""
    with history(server, namespace) as events:
        act()
        eventually(lambda: [type for type, pod in list(events) if type == "DELETED" and pod["metadata"]["name"] == key.name])
        return next(pod for type, pod in list(events) if type == "DELETED" and pod["metadata"]["name"] == key.name)


def test_the_eviction_api_s_reason_survives_to_the_end(server, namespace, pod, node):
    node.run(pod)
    last = last_words(server, namespace, pod, lambda: disruptions.evict(server, pod))
    assert target(last)["reason"] == "EvictionByEvictionAPI"
    assert last["status"]["phase"] == "Failed"
    assert "reason" not in last["status"]


def test_preemption_by_hand_looks_like_the_scheduler_s(server, namespace, nodes):
    node = nodes.add(machine=Machine(pods=1, taints=(OURS,)), automatic=True)
    urgent = server.create(PRIORITY_CLASSES, {"metadata": {"generateName": "stand-in-"}, "value": 1000}).object["metadata"]["name"]
    try:
        low = make(server, namespace, node, "low")
        real = last_words(server, namespace, low, lambda: create(server, namespace, node, "high", priorityClassName=urgent))
    finally:
        server.delete(PRIORITY_CLASSES, Key("", urgent))
    high = Key(namespace, "high")
    eventually(lambda: status(server, high)["phase"] == "Running")
    by_hand = last_words(server, namespace, high, lambda: disruptions.preempt(server, high))
    assert target(by_hand) == target(real)
    assert by_hand["status"]["phase"] == real["status"]["phase"] == "Failed"


def test_taint_eviction_by_hand_looks_like_the_taint_manager_s(server, namespace, nodes):
    node = nodes.add(machine=MACHINE, automatic=True)
    one, two = make(server, namespace, node, "one"), make(server, namespace, node, "two")
    by_hand = last_words(server, namespace, one, lambda: disruptions.evict_by_taint(server, one))
    out = {"key": "genericjob.test/out", "effect": "NoExecute"}
    real = last_words(server, namespace, two, lambda: disruptions.taint(server, node.name, OURS, out))
    assert target(by_hand) == target(real)
    assert by_hand["status"]["phase"] == real["status"]["phase"] == "Failed"


# ------------------------------------------------------------------------------------------------ broken lines


def test_a_broken_watch_is_taken_up_again(server, namespace, node, nodes):
    for name in ("one", "two"):
        node.run(make(server, namespace, node, name))
        node.pods.wake()  # closes the stream
    assert len(nodes.running) == 2


def test_a_restart_of_the_server_is_survived(plane, server, namespace, nodes):
    node = nodes.add(machine=MACHINE, automatic=True)
    key = make(server, namespace, node, "before")
    plane.restart("kube-apiserver")
    server.delete(RAW_PODS, key)
    after = make(server, namespace, node, "after")
    eventually(lambda: is_gone(server, key) and status(server, after)["phase"] == "Running")
    assert nodes.running == {uid_of(server, after)}


def test_a_lost_node_says_nothing_until_it_is_back(server, namespace, node, nodes):
    first, second, third = (make(server, namespace, node, name) for name in ("first", "second", "third"))
    for key in (first, second, third):
        node.run(key)
    uid = uid_of(server, second)
    node.lose()
    node.finish(first, 0)  # on the node it has ended
    server.delete(RAW_PODS, second, grace=0)  # on the server it has
    server.delete(RAW_PODS, third)
    assert uid in nodes.running
    assert status(server, first)["phase"] == "Running"
    assert status(server, third)["phase"] == "Running"
    node.come_back()
    eventually(lambda: status(server, first)["phase"] == "Succeeded")
    eventually(lambda: is_gone(server, third))
    eventually(lambda: not nodes.running)


def test_a_node_that_is_back_does_not_touch_a_successor_elsewhere(server, namespace, pod, node, nodes):
    node.run(pod)
    old = uid_of(server, pod)
    node.lose()
    server.delete(RAW_PODS, pod, grace=0)
    other = nodes.add(machine=MACHINE)
    make(server, namespace, other)
    node.come_back()
    eventually(lambda: not nodes.running)
    assert states(status(server, pod)) == {"main": ("waiting", "ContainerCreating", None)}
    assert nodes.of(pod) is other
    assert [life.uid for life in nodes.lives] == [old]


# ------------------------------------------------------------------------------------------------ in bulk


def test_many_pods_need_few_threads(server, namespace, nodes):
    before = threading.active_count()
    node = nodes.add(machine=Machine(pods=300, cpu=1000, taints=(OURS,)), automatic=True, brisk=True)
    for number in range(200):
        create(server, namespace, node, f"pod-{number}")
    eventually(lambda: len(server.list(RAW_PODS, namespace, fields="status.phase=Running").items) == 200)
    assert threading.active_count() == before + 1  # the watch; writers and heart were there already
    assert len(nodes.running) == 200


def test_work_is_done_by_one_thread_at_a_time_and_not_lost_meanwhile():
    queue = WorkQueue()
    queue.add("pod")
    queue.add("pod")
    queue.add("later", after=3600)
    with queue.take() as first:
        queue.add("pod")  # news, while somebody is at it
        queue.add("other")
        with queue.take() as second:
            assert (first, second) == ("pod", "other")
    with queue.take() as third:
        assert third == "pod"
    queue.close()
    with queue.take() as last:
        assert last is None


def test_a_line_is_cut_after_the_last_request_on_its_way():
    line = Line()
    cutter = threading.Thread(target=line.cut)
    with line.use() as up:
        assert up
        cutter.start()
        eventually(lambda: not line.up)
        assert cutter.is_alive()
    cutter.join()
    with line.use() as up:
        assert not up
