"""Controllers as users run them: a process of their own, with the rights that `manifests/rbac` grants and no others."""

import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import yaml

from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.resources import NAMESPACES, SERVICE_ACCOUNTS, Key, raw

from .clusters import Cluster, eventually
from .configurations import Server
from .definitions import MANIFESTS

NAMESPACE, ACCOUNT = "genericjob-system", "genericjob-controller"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

KINDS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": SERVICE_ACCOUNTS,
    **{
        kind: raw("rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))
        for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    },
}


def grant(api: Api) -> None:
    """Put the controller's account and roles on a cluster, exactly as an administrator would."""
    for file in ("namespace.yaml", "rbac/controller.yaml"):
        for body in yaml.safe_load_all((MANIFESTS / file).read_text()):
            resource, name = KINDS[body["kind"]], body["metadata"]["name"]
            namespace = body["metadata"].get("namespace", "")
            try:
                api.create(resource, body, namespace)
            except ApiError as error:
                if not error.already_exists:
                    raise
                api.patch(resource, Key(namespace, name), {key: value for key, value in body.items() if key in ("rules", "subjects")})


def account_kubeconfig(cluster: Cluster, api: HttpApi, path: Path) -> Path:
    """A kubeconfig with a token of the controller's account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    answer = api.request("POST", SERVICE_ACCOUNTS.path(NAMESPACE, ACCOUNT, "token"), body=request)
    token = msgspec.json.decode(answer.data)["status"]["token"]
    return Server(cluster.kubeconfig).write(path, {"token": token})


class ControllerProcess:
    """`genericjob controller`, running."""

    def __init__(
        self, config: Path, log: Path, *options: str, directory: Path | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        """Start it, in a directory that may have a package of its own."""
        self.log_file = log
        self._log = log.open("wb")
        command = [
            sys.executable,
            "-m",
            "genericjob.cli",
            "controller",
            "--kubeconfig",
            str(config),
            "--metrics-bind",
            "127.0.0.1:0",
            *options,
        ]
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, cwd=directory, env={**environment, "PYTHONUNBUFFERED": "1"}
        )
        self.pid = self._process.pid

    @property
    def log(self) -> str:
        """What it said so far."""
        return self.log_file.read_text()

    @property
    def address(self) -> str:
        """Where it serves health and metrics."""
        found = eventually(lambda: re.search(r"served on (127\.0\.0\.1:\d+)", self._alive_log()))
        assert found is not None
        return f"http://{found[1]}"

    def _alive_log(self) -> str:
        if self._process.poll() is not None:
            raise RuntimeError(f"the controller ended with {self._process.returncode}:\n{self.log}")
        return self.log

    def page(self, path: str) -> str:
        """One of its pages."""
        with urllib.request.urlopen(self.address + path, timeout=10) as answer:
            text: str = answer.read().decode()
        return text

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.page("/metrics").splitlines() if re.match(rf"{name}[{{ ]", line))

    def wait_ready(self) -> Self:
        """Return once its caches are filled."""
        eventually(lambda: _answers(lambda: self.page("/readyz")))
        return self

    def wait_leading(self) -> Self:
        """Return once it leads."""
        eventually(lambda: self.wait_ready().metric("leader_election_master_status") == 1)
        return self

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait()

    def terminate(self) -> int:
        """SIGTERM; its exit code."""
        self._process.terminate()
        return self._process.wait(60)

    def signal(self, number: signal.Signals) -> None:
        """Any other signal."""
        self._process.send_signal(number)

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    def usage(self) -> tuple[float, int]:
        """Seconds of processor time so far, and bytes of resident memory."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")

    def peak(self) -> int:
        """The most bytes of memory that it ever had resident."""
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return 1024 * int(found[1])

    def close(self) -> None:
        """End it, whatever its state."""
        if self._process.poll() is None:
            self.kill()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _answers(ask: Any) -> bool:
    try:
        return bool(ask())
    except OSError:
        return False


@contextmanager
def controller(config: Path, log: Path, *options: str) -> Iterator[ControllerProcess]:
    """A controller that lives as long as the block."""
    with ControllerProcess(config, log, *options) as process:
        yield process
