"""A place with a network and mounts of its own: nothing that runs there reaches this machine's network.

Addresses that belong to others elsewhere (10.96.0.1, api.corp.test) are this place's own servers, and
a process there can have the service account of a pod. It needs Linux and the right to make
namespaces; where that is missing, tests that need the place are skipped.

Run as a program this module is the place itself: it takes commands as JSON lines, and answers each
with what came of it and with the requests that its servers have seen.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.commands import Warm
from harness.recording import Record, proxying, serving

SERVERS = {"one": 6443, "two": 6444, "pod": 443}
PLAIN, PROXY, SOCKS = 8080, 3128, 1080
NETWORKS = ("10.96.0.0/12", "172.30.0.0/16")
SERVICE_ADDRESS = "10.96.0.1"
HOSTS = ("api.corp.test", "corp.test", "other.test")
TOKEN_OF_THE_POD, NAMESPACE_OF_THE_POD = "token-of-the-pod", "home-of-the-pod"
ACCOUNT = Path("/run/secrets/kubernetes.io/serviceaccount")
PATIENCE = 60.0
ALONE = ("unshare", "--map-root-user", "--mount", "--net")


def impossible() -> str:
    """Return why there can be no such place; empty if there can."""
    if not shutil.which("unshare") or not shutil.which("ip"):
        return "there is no unshare or no ip"
    tried = subprocess.run([*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return f"namespaces cannot be made here: {tried.stderr.strip()}" if tried.returncode else ""


class Secluded:
    """The place, as a process that runs commands in it."""

    def __init__(self, pki: Path) -> None:
        command = [*ALONE, sys.executable, "-m", "harness.secluded", str(pki)]
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
        )
        assert self._answer() == "ready"

    def run(self, program: str, args: Sequence[str], environment: Mapping[str, str], *, pod: bool = False) -> dict[str, Any]:
        """Run `genericjob`, or a program of a path, to its end: `code`, `out`, `err`, and the `requests` that servers saw."""
        order = {"program": program, "args": [*args], "environment": {**environment}, "pod": pod}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = self._answer()
        return found

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the secluded place has ended"
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._process.stdout.close()


# ------------------------------------------------------------------------------------------------ inside


def _furnish(pki: Path) -> None:
    """Make the network and the mounts."""
    commands = [["ip", "link", "set", "lo", "up"], *(["ip", "route", "add", "local", network, "dev", "lo"] for network in NETWORKS)]
    hosts = pki / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(HOSTS)}\n")
    commands += [["mount", "-t", "tmpfs", "none", "/run"], ["mount", "--bind", str(hosts), "/etc/hosts"]]
    for command in commands:
        subprocess.run(command, check=True, timeout=PATIENCE, stdout=sys.stderr)


def _become_a_pod(pki: Path, wanted: bool) -> None:
    shutil.rmtree(ACCOUNT, ignore_errors=True)
    if wanted:
        ACCOUNT.mkdir(parents=True)
        (ACCOUNT / "token").write_text(TOKEN_OF_THE_POD)
        (ACCOUNT / "namespace").write_text(NAMESPACE_OF_THE_POD)
        shutil.copy(pki / "ca.crt", ACCOUNT)


def _done(order: dict[str, Any], warm: Warm) -> dict[str, Any]:
    if order["program"] == "genericjob":
        return asdict(warm.run(tuple(order["args"]), order["environment"], None))
    argv, environment = [order["program"], *order["args"]], order["environment"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, check=False)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def _live(pki: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pki / "serving.crt", pki / "serving.key")
    tls.load_verify_locations(pki / "ca.crt")
    tls.verify_mode = ssl.CERT_OPTIONAL
    record = Record()
    _furnish(pki)
    with ExitStack() as stack:
        for name, port in SERVERS.items():
            stack.enter_context(serving(name, port, record, tls))
        stack.enter_context(serving("plain", PLAIN, record))
        stack.enter_context(proxying(PROXY, record))
        stack.enter_context(proxying(SOCKS, record, socks=True))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        warm = Warm(directory)
        stack.callback(warm.close)
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            _become_a_pod(pki, order["pod"])
            record.taken()
            print(json.dumps(_done(order, warm) | {"requests": record.taken()}), flush=True)


if __name__ == "__main__":
    _live(Path(sys.argv[1]))
