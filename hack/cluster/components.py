"""The four programs of a control plane: their arguments, their ports and how each says that it is ready.

Everything listens on loopback only. Controller manager and scheduler show the API server's serving certificate as their own: making one
each would cost them a quarter of a second at every start.
"""

import random
import socket
from collections.abc import Collection
from pathlib import Path

from cluster import ClusterError
from cluster.layout import SERVICE_RANGE, Layout

ETCD, APISERVER, CONTROLLERS, SCHEDULER = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
COMPONENTS = (ETCD, APISERVER, CONTROLLERS, SCHEDULER)
# Who talks to whom decides: a server is started before its clients and ended after them.
START_ORDER = ((ETCD,), (APISERVER,), (CONTROLLERS, SCHEDULER))
END_ORDER = START_ORDER[::-1]

LISTENERS = (*COMPONENTS, "etcd-peer")
# Below the range from which the kernel takes the near end of outgoing connections. Inside it, a client that keeps trying a port whose
# server is down can be given that very port for its own end; it then talks to itself, and the server can never come back.
PORTS = range(20000, 32000)

ISSUER = "https://kubernetes.default.svc.cluster.local"


def choose_ports(*, taken: Collection[int]) -> dict[str, int]:
    """A free port for each listener, none of them in `taken` (promised to another cluster, whose program may be down just now)."""
    ports: dict[str, int] = {}
    for port in random.sample(PORTS, k=len(PORTS)):
        if port not in taken and _is_free(port):
            ports[LISTENERS[len(ports)]] = port
            if len(ports) == len(LISTENERS):
                return ports
    raise ClusterError(f"no free port is left between {PORTS.start} and {PORTS.stop - 1}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def ready_question(component: str, port: int) -> tuple[str, str]:
    """The URL where a program tells how it is, and what stands in its answer once it is ready.

    The controller manager calls itself healthy before it has a single controller; the list of its controllers comes when all have started.
    """
    path, sign = {
        ETCD: ("health", '"true"'),
        APISERVER: ("readyz", "ok"),
        CONTROLLERS: ("healthz?verbose", "garbage-collector-controller ok"),
        SCHEDULER: ("readyz", "ok"),
    }[component]
    return f"{'http' if component == ETCD else 'https'}://127.0.0.1:{port}/{path}", sign


def command_lines(layout: Layout, *, programs: Path, ports: dict[str, int], audit: bool) -> dict[str, list[str]]:
    """The full command line of each program."""
    flags = {
        ETCD: _etcd(layout, ports),
        APISERVER: _apiserver(layout, ports, audit),
        CONTROLLERS: _controllers(layout, ports),
        SCHEDULER: _scheduler(layout, ports),
    }
    return {name: [str(programs / name), *(f"--{flag}={value}" for flag, value in flags[name].items())] for name in COMPONENTS}


def _etcd(layout: Layout, ports: dict[str, int]) -> dict[str, object]:
    client, peer = f"http://127.0.0.1:{ports[ETCD]}", f"http://127.0.0.1:{ports['etcd-peer']}"
    return {
        "data-dir": layout.data,
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "unsafe-no-fsync": "true",  # a power cut may lose this cluster; nothing else can
        "log-level": "warn",
    }


def _apiserver(layout: Layout, ports: dict[str, int], audit: bool) -> dict[str, object]:
    flags: dict[str, object] = {
        "etcd-servers": f"http://127.0.0.1:{ports[ETCD]}",
        "secure-port": ports[APISERVER],
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",  # loopback is no valid endpoint address
        "service-cluster-ip-range": SERVICE_RANGE,
        "cert-dir": layout.pki,
        **_serving(layout),
        "client-ca-file": layout.ca_file,
        "token-auth-file": layout.tokens,
        "authorization-mode": "Node,RBAC",
        # The second one is off by default and on in careful clusters: who blocks an owner's deletion must be allowed to.
        "enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
        "service-account-issuer": ISSUER,
        "service-account-key-file": layout.pki / "sa.pub",
        "service-account-signing-key-file": layout.pki / "sa.key",
        "allow-privileged": "true",
        "shutdown-watch-termination-grace-period": "1s",  # otherwise watchers keep a server that was asked to end for a minute
    }
    if audit:
        # One file that is never rotated away: whoever judges a run needs all of it.
        flags |= {"audit-policy-file": layout.audit_policy, "audit-log-path": layout.audit_log, "audit-log-maxsize": 100_000}
    return flags


def _controllers(layout: Layout, ports: dict[str, int]) -> dict[str, object]:
    return {
        "kubeconfig": layout.kubeconfig(CONTROLLERS),
        "secure-port": ports[CONTROLLERS],
        "bind-address": "127.0.0.1",
        **_serving(layout),
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": layout.pki / "sa.key",
        "root-ca-file": layout.ca_file,
        "cluster-signing-cert-file": layout.ca_file,
        "cluster-signing-key-file": layout.pki / "ca.key",
        "flex-volume-plugin-dir": layout.directory / "volume-plugins",  # its default is made outside our directory
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
    }


def _scheduler(layout: Layout, ports: dict[str, int]) -> dict[str, object]:
    return {
        "kubeconfig": layout.kubeconfig(SCHEDULER),
        "secure-port": ports[SCHEDULER],
        "bind-address": "127.0.0.1",
        **_serving(layout),
        "leader-elect": "false",
        "kube-api-qps": 1000,
        "kube-api-burst": 2000,
    }


def _serving(layout: Layout) -> dict[str, object]:
    return {"tls-cert-file": layout.pki / "serving.crt", "tls-private-key-file": layout.pki / "serving.key"}
