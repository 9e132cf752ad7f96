"""One stand-in node, and what a test can do to it and to its pods.

Operations return when the server knows, except on a node that is lost: there the change waits for the node's return, as it would on a
machine behind a broken switch.
"""

import time
from collections.abc import Callable, Mapping

from genericjob.reconcile.resources import RAW_PODS, Key
from harness.clusters import PATIENCE, eventually

from .instance import Instance, Shutdown
from .pods import Habits, Pods, Surroundings, Which
from .status import Eviction, precisely


class Node:
    """A node without a machine. Made by `Nodes.add`."""

    def __init__(self, name: str, ip: str, habits: Habits, shared: Surroundings) -> None:
        self.name = name
        self.pods = Pods(name, ip, habits, shared)
        self.line = self.pods.line
        self._shared = shared

    # -------------------------------------------------------------------------------------------- pods

    def bind(self, key: Key) -> None:
        """Do the scheduler's work for a pod that the real one leaves alone."""
        target = {"apiVersion": "v1", "kind": "Node", "name": self.name}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": key.name}, "target": target}
        self._shared.api.request("POST", RAW_PODS.path(*key, "binding"), body=body)

    def run(self, which: Which) -> None:
        """Start a pod: its init containers have succeeded, its containers run and are ready."""
        self._change(which, lambda instance: instance.begin())

    def run_init(self, which: Which, name: str) -> None:
        """Start an init container; those before it have succeeded."""
        self._change(which, lambda instance: instance.begin_init(name))

    def set_ready(self, which: Which, ready: bool, *containers: str) -> None:
        """Have the readiness probes of these containers, or of all, succeed or fail."""
        self._change(which, lambda instance: instance.get_ready(ready, containers))

    def finish(self, which: Which, exit_code: int | Mapping[str, int] = 0, *, reason: str = "", message: str = "") -> None:
        """Have containers (also init containers) end by themselves: all that run with one exit code, or some with one each."""
        self._change(which, lambda instance: instance.end(exit_code, reason, message))

    def kill_for_memory(self, which: Which, *containers: str) -> None:
        """Have the kernel kill these containers, or all that run, for their use of memory."""
        self._change(which, lambda instance: instance.end(dict.fromkeys(containers, 137) if containers else 137, "OOMKilled", ""))

    def stick(self, which: Which, reason: str, message: str = "", *containers: str) -> None:
        """Have a pod wait for something that does not come: `ImagePullBackOff`, `CreateContainerConfigError`…"""
        self._change(which, lambda instance: instance.stick(reason, message, containers))

    def evict(self, which: Which, message: str = "The node was low on resource: memory. ", *, disruption: bool = True) -> None:
        """End a pod for lack of resources on the node.

        Without `disruption` the condition DisruptionTarget is missing, as when a pod outgrew its own limit of local storage, and as with
        kubelets before 1.26.
        """
        self._change(which, lambda instance: instance.evict(Eviction(message, disruption)))

    def prints(self, which: Which, *lines: str, container: str = "") -> None:
        """Have a container, the first if none is named, print lines: what its log holds for those who ask at the node's door."""
        with (instance := self._seen(which)).changed:
            log = instance.printed(container or instance.spec.containers[0].name)
            log += [(precisely(), line) for line in lines]
            instance.changed.notify_all()

    def hold(self, which: Which) -> None:
        """Have a pod outlive its deletion until `let_go`."""
        with (instance := self._seen(which)).changed:
            instance.shutdown = Shutdown(after=None)
            instance.stop_at = None

    def let_go(self, which: Which, exit_code: int = 143) -> None:
        """End a pod that was deleted, and return when the server was told to forget it; one that was not deleted yet will not be held."""
        with (instance := self._seen(which)).changed:
            instance.shutdown = Shutdown(exit_code=exit_code)
            if not instance.stopping:
                return
            instance.stop_at = time.monotonic()
        self.pods.look_at(instance)
        if self.line.up:
            eventually(lambda: (instance.gone or instance.removed) and not instance.alive)

    # -------------------------------------------------------------------------------------------- the line to the server

    def lose(self) -> None:
        """Cut the node off: no lease, no status, no pod is handled. What runs there goes on running.

        The control plane only reacts while another node is healthy: with none left it takes itself for the one that is cut off.
        """
        self.line.cut()
        self.pods.wake()

    def come_back(self) -> None:
        """Let the node find out what it missed: it lists its pods, ends those that were deleted, and reports all others."""
        self.line.mend()
        self._shared.beat()
        self.pods.wake()
        for instance in self.pods.all():
            self.pods.report(instance)

    def delete_node(self) -> None:
        """Delete the Node object. The kubelet, if not lost, lives on with its pods: it neither renews its lease nor registers again."""
        self._shared.unregister(self.name)

    # -------------------------------------------------------------------------------------------- inside

    def _change(self, which: Which, change: Callable[[Instance], None]) -> None:
        instance = self._seen(which)
        with instance.changed:
            change(instance)
            instance.touched = True
        self._wait(instance, self.pods.report(instance))

    def _wait(self, instance: Instance, target: int) -> None:
        with instance.changed:
            done = instance.changed.wait_for(lambda: instance.written >= target or instance.error or not self.line.up, PATIENCE)
        if instance.error:
            raise instance.error
        if not done:
            raise AssertionError(f"the server was not told about pod {instance.spec.key} within {PATIENCE:g} s")

    def _seen(self, which: Which) -> Instance:
        return eventually(lambda: self.pods.find(which))
