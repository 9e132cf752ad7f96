"""A node whose pods are programs of this machine, for a control plane that has none.

The kubelet of the embedded engine, in a process of its own, with the real API server in place of the one in memory. Real are: server,
scheduler, controller-manager, and the programs with their output, exit codes, signals and grace periods. What the engine cannot honour
(images, limits, most volumes), it cannot honour here either.

Stood in for: the node's registration and its lease; the pod network, by an address on loopback for every pod; and the cluster's DNS, by an
`/etc/hosts` that only this process and its programs see, in a mount namespace of their own. The name of a Service stands in it from the
moment on when both the Service and the pod of that name were seen, and for good. Namespaces are not told apart: two jobs of one name in
two namespaces would hear of each other.

    with Machine(cluster, directory) as machine:     # the only node without a taint: what is created from now on runs here
        ...
        machine.lines(Key("team", "hello-worker-0"))
"""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from genericjob.local.addresses import Addresses
from genericjob.local.kubelet import NODE, Kubelet
from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.informer import Informer
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.objects import Service
from genericjob.reconcile.primitives import System
from genericjob.reconcile.resources import LEASES, NODES, RAW_PODS, SERVICES, Key, Resource
from genericjob.reconcile.store import Change

from .clusters import PATIENCE, Cluster, eventually
from .kubelet.registration import Machine as Offer
from .kubelet.registration import lease, lease_key, node, renew_time

ROOT = Path(__file__).parents[2]
HEARTBEAT = 5.0
HOSTS = "/etc/hosts"


class Machine:
    """The node, as tests see it: it lives as long as the block."""

    def __init__(self, cluster: Cluster, directory: Path, *, work: Path = ROOT, path: Sequence[Path] = ()) -> None:
        """Programs start in the directory `work`, and are looked for in `path` first."""
        self._cluster, self._output = cluster, directory / "output"
        hosts = directory / "hosts"
        hosts.write_bytes(Path(HOSTS).read_bytes())
        search = os.pathsep.join([*map(str, path), os.environ["PATH"]])
        packages = os.pathsep.join(str(ROOT / name) for name in (".", "hack", "tests"))
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*_with_hosts(hosts), sys.executable, "-m", "harness.machine", str(cluster.kubeconfig), str(hosts)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=work,
                env=os.environ | {"PATH": search, "PYTHONPATH": packages},
            )

    def lines(self, pod: Key, container: str = "main") -> list[str]:
        """What a container, and those that had its place before, printed so far."""
        found = []
        for line in self.log.splitlines():
            with suppress(msgspec.DecodeError):  # a line that is being written, or one that is not a program's
                told = msgspec.json.decode(line)
                if told[:3] == [pod.namespace, pod.name, container]:
                    found.append(told[3])
        return "".join(found).splitlines()

    @property
    def log(self) -> str:
        """All that was printed, by programs and by the node itself."""
        return self._output.read_text(errors="replace")

    def __enter__(self) -> Self:
        with closing(self._cluster.api()) as api:
            try:
                eventually(lambda: self._is_ready(api))
            except BaseException:
                self._process.kill()
                raise
        return self

    def _is_ready(self, api: HttpApi) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the node ended with {self._process.returncode}:\n{self.log}")
        return not api.get(NODES, Key("", NODE))["spec"].get("taints")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE) == 0, self.log


def _with_hosts(file: Path) -> list[str]:
    """What to put before a command so that this file is its `/etc/hosts`, and nobody else's."""
    words = alone()
    if not words:
        raise RuntimeError(f"{HOSTS} cannot be replaced for some programs only: this user may not have mounts of his own")
    return [*words, "sh", "-ec", f'mount --bind "$1" {HOSTS}; shift; exec "$@"', "sh", str(file)]


def alone() -> list[str]:
    """What to put before a command so that it has mounts of its own; empty where this user may not."""
    for words in (["unshare", "--mount"], ["unshare", "--mount", "--map-root-user"]):
        with suppress(OSError):
            if subprocess.run([*words, "mount", "--bind", HOSTS, HOSTS], capture_output=True).returncode == 0:
                return words
    return []


# ------------------------------------------------------------------------------------------------ the process


class Names:
    """Names of pods that have a Service, in a file of hosts."""

    def __init__(self, file: Path, addresses: Addresses) -> None:
        self._file, self._addresses = file, addresses
        self._pods: set[Key] = set()
        self._services: set[Key] = set()

    def address(self, pod: Key) -> str:
        """The address of a pod that begins."""
        self._note(pod, self._pods)
        return self._addresses.of(pod)

    def seen(self, change: Change[Service]) -> None:
        """A Service has come, or has gone, which names outlive."""
        if change.new is not None:
            self._note(Key(change.new.namespace, change.new.name), self._services)

    def _note(self, name: Key, known: set[Key]) -> None:
        if name in known:
            return
        known.add(name)
        if name in self._pods and name in self._services:
            # IN PLACE, AND AT ONCE: the file is mounted, and programs read it at any moment.
            with self._file.open("ab", buffering=0) as file:
                file.write(f"{self._addresses.of(name)} {name.name}\n".encode())


def _tell(pod: Key, container: str, data: bytes) -> None:
    os.write(sys.stdout.fileno(), msgspec.json.encode([*pod, container, data.decode(errors="replace")]) + b"\n")


def _register(api: HttpApi) -> None:
    body = node(NODE, Offer(pods=1000), ip="127.0.0.1", zone="this-room")
    body["status"]["nodeInfo"]["osImage"] = "programs of this machine"
    uid = api.create(NODES, body).object["metadata"]["uid"]
    api.create(LEASES, lease(NODE, uid), lease_key(NODE).namespace)


def _unregister(api: HttpApi) -> None:
    """Nobody is left to end these pods, and namespaces would wait a minute for the pod garbage collector."""
    for pod in api.list(RAW_PODS, fields=f"spec.nodeName={NODE}").items:
        _drop(api, RAW_PODS, Key(pod["metadata"]["namespace"], pod["metadata"]["name"]))
    _drop(api, NODES, Key("", NODE))
    _drop(api, LEASES, lease_key(NODE))  # unless the garbage collector was quicker


def _drop(api: HttpApi, resource: Resource[Any], key: Key) -> None:
    try:
        api.delete(resource, key, grace=0)
    except ApiError as error:
        if not error.not_found:
            raise


def main(kubeconfig: str, hosts: str) -> None:
    """Be a node until standard input ends: whoever started this has gone, one way or another."""
    api, primitives = HttpApi(from_kubeconfig(kubeconfig)), System()
    addresses = Addresses()
    names = Names(Path(hosts), addresses)
    services = Informer(api, SERVICES, primitives=primitives, metrics=Metrics())
    services.on_change(names.seen)
    kubelet = Kubelet(api, address=names.address, output=_tell, primitives=primitives)
    services.start()
    kubelet.start()
    _register(api)
    try:
        while not select.select([sys.stdin], [], [], HEARTBEAT)[0]:
            api.patch(LEASES, lease_key(NODE), {"spec": {"renewTime": renew_time()}})
    finally:
        kubelet.stop()
        services.stop()
        _unregister(api)
        addresses.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
