"""Pods on stand-in nodes, as tests look at them.

The nodes are tainted, so that nobody else's pods land on them while tests share a cluster.
"""

import threading
from contextlib import contextmanager, suppress

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS, Key
from harness.clusters import eventually
from harness.kubelet import Machine

OURS = {"key": "genericjob.test/stand-in", "value": "here", "effect": "NoSchedule"}
MACHINE = Machine(taints=(OURS,))


def make(server, namespace, node, name="pod", **spec):
    key = create(server, namespace, node, name, **spec)
    eventually(lambda: status(server, key).get("containerStatuses"))
    return key


def create(server, namespace, node, name="pod", **spec):
    defaults = {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "nodeSelector": {"kubernetes.io/hostname": node.name},
        "containers": [container("main")],
    }
    server.create(RAW_PODS, {"metadata": {"name": name}, "spec": defaults | spec}, namespace)
    return Key(namespace, name)


def container(name):
    return {"name": name, "image": "app:1", "resources": {"requests": {"cpu": "1"}}}


def status(server, key):
    return server.get(RAW_PODS, key)["status"]


def uid_of(server, key):
    return server.get(RAW_PODS, key)["metadata"]["uid"]


def conditions(status, *fields):
    """The conditions in short: type → the fields asked for."""
    return {each["type"]: tuple(each.get(field) for field in fields or ("status", "reason", "message")) for each in status["conditions"]}


def states(status, kind="containerStatuses"):
    """The container states in short: name → (state, its reason, its exit code)."""
    found = {}
    for each in status.get(kind, ()):
        ((state, fields),) = each["state"].items()
        found[each["name"]] = (state, fields.get("reason"), fields.get("exitCode"))
    return found


def is_gone(server, key):
    try:
        server.get(RAW_PODS, key)
    except ApiError as error:
        return error.not_found
    return False


@contextmanager
def history(server, namespace):
    """All events of the namespace's pods, as they come, for as long as the block lasts.

    A watch may break off: the server is restarted, or sends no bookmark for longer than a watch waits. It is continued where it was.
    """
    events, watches, ended = [], [], threading.Event()
    version = server.list(RAW_PODS, namespace).resource_version

    def read():
        nonlocal version
        while not ended.wait(0.1 if watches else 0.0):
            with suppress(ApiError):
                watches.append(server.watch(RAW_PODS, namespace, resource_version=version))
                if ended.is_set():
                    return
                for event in watches[-1]:
                    version = event.resource_version or version
                    if event.object is not None:
                        events.append((event.type, event.object))

    thread = threading.Thread(target=read, name="history")
    thread.start()
    try:
        yield events
    finally:
        ended.set()
        while thread.is_alive():
            for watch in list(watches[-1:]):
                watch.close()
            thread.join(0.1)


def stages(events):
    """What a watcher saw, in short, repetitions left out."""
    found = []
    for type, pod in list(events):
        containers = sorted({next(iter(each["state"])) for each in pod["status"].get("containerStatuses", ())})
        stage = (type, pod["status"].get("phase"), *containers)
        if not found or found[-1] != stage:
            found.append(stage)
    return found


def target(pod):
    """The condition DisruptionTarget, but for its time."""
    (found,) = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    return {name: value for name, value in found.items() if name != "lastTransitionTime"}
