"""The files of one cluster: where each lies and what is written into it before anything starts.

NAME/state.json    what was started (see `state`)
NAME/kubeconfig    for people and tests: the administrator
NAME/pki/          CA, certificates, keys
NAME/logs/         one log per program, and the audit log
NAME/etcd/         the data
"""

import base64
import json
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cluster import ClusterError

SERVICE_RANGE = "10.0.0.0/24"
SERVICE_IP = "10.0.0.1"

# What the tests reason about is kept whole, so that a run can be judged from the log alone; of the rest only who did what.
AUDITED = {
    "": ["pods", "pods/*", "services", "services/*", "events", "namespaces", "configmaps", "serviceaccounts"],
    "batch.tensorstack.dev": ["*"],
    "batch": ["*"],
    "coordination.k8s.io": ["leases"],
    "scheduler.tensorstack.dev": ["*"],
}
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "omitManagedFields": True,
    "rules": [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch", "delete", "deletecollection"],
            "resources": [{"group": group, "resources": resources} for group, resources in AUDITED.items()],
        },
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True)
class Layout:
    """The paths inside one cluster's directory."""

    directory: Path

    @property
    def state(self) -> Path:
        """What was started."""
        return self.directory / "state.json"

    @property
    def pki(self) -> Path:
        """The CA, the certificates and the keys."""
        return self.directory / "pki"

    @property
    def logs(self) -> Path:
        """The only part that `down --keep-logs` leaves."""
        return self.directory / "logs"

    @property
    def audit_log(self) -> Path:
        """One JSON object per request, with `up --audit`."""
        return self.logs / "audit.log"

    @property
    def audit_policy(self) -> Path:
        """What the audit log holds of which request."""
        return self.directory / "audit-policy.json"

    @property
    def data(self) -> Path:
        """The data of etcd."""
        return self.directory / "etcd"

    @property
    def tokens(self) -> Path:
        """The API server's table of static bearer tokens."""
        return self.directory / "tokens.csv"

    @property
    def ca_file(self) -> Path:
        """The CA that signed everything, to verify the servers with."""
        return self.pki / "ca.crt"

    def kubeconfig(self, user: str = "admin") -> Path:
        """The kubeconfig of one user."""
        return self.directory / ("kubeconfig" if user == "admin" else f"{user}.kubeconfig")

    def log(self, component: str) -> Path:
        """The log of one program."""
        return self.logs / f"{component}.log"

    def token(self) -> str:
        """The administrator's bearer token."""
        return self.tokens.read_text().partition(",")[0]


def furnish(layout: Layout, *, certs: Path, server: str) -> None:
    """Write everything the programs read: certificates, tokens, kubeconfigs and the audit policy."""
    layout.logs.mkdir(exist_ok=True)
    run_certs(certs, "plane", "--dir", str(layout.pki), "--service-ip", SERVICE_IP)
    write_private(layout.tokens, f'{secrets.token_urlsafe(24)},admin,admin,"system:masters"\n')
    write_private(layout.audit_policy, json.dumps(AUDIT_POLICY, indent=2))
    for user in ("admin", "kube-controller-manager", "kube-scheduler"):
        text = kubeconfig(server=server, ca=layout.ca_file, certificate=layout.pki / f"{user}.crt", key=layout.pki / f"{user}.key")
        write_private(layout.kubeconfig(user), text)


def run_certs(certs: Path, *args: str) -> None:
    """Run our own program for keys and certificates."""
    done = subprocess.run([str(certs), *args], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise ClusterError(f"the certificates could not be made: {done.stderr.strip()}")


def kubeconfig(*, server: str, ca: Path, certificate: Path, key: Path) -> str:
    """A kubeconfig that needs no other file, so that it can be copied anywhere."""
    return f"""\
apiVersion: v1
kind: Config
current-context: genericjob
clusters:
- name: genericjob
  cluster:
    server: {server}
    certificate-authority-data: {_base64(ca)}
contexts:
- name: genericjob
  context: {{cluster: genericjob, user: genericjob}}
users:
- name: genericjob
  user:
    client-certificate-data: {_base64(certificate)}
    client-key-data: {_base64(key)}
"""


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
