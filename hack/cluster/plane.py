"""One control plane: up, down, and everything tests do to it in between.

    with Plane.up("mine", audit=True) as plane:
        plane.kubectl("get", "namespaces")
        plane.kill("kube-apiserver")
        plane.restart("kube-apiserver")

The directory is the truth: `Plane` holds nothing but its path, so any program can take a cluster over from the one that started it. A
directory that exists belongs to a cluster; making it, and promising ports, happens under the lock of the directory above.
"""

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cluster import ClusterError, build, probe
from cluster.components import COMPONENTS, END_ORDER, ETCD, choose_ports, command_lines
from cluster.launch import PortTakenError, await_ready, is_ready, start_all, start_one
from cluster.layout import Layout, kubeconfig, run_certs, write_private
from cluster.lock import locked, uninterrupted
from cluster.processes import end, look_up, marked, this_process
from cluster.state import Component, State

NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
PORT_ATTEMPTS = 3
# The data is thrown away with the cluster, so nobody needs long to say goodbye.
DOWN_GRACE = 5.0
RESTART_GRACE = 10.0  # etcd waits seven seconds for its clients to leave


@dataclass(frozen=True)
class Certificate:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Plane:
    """A control plane on this machine."""

    def __init__(self, name: str = "default", *, directory: Path | None = None) -> None:
        """Name a cluster, which may or may not be up; `directory` holds the directories of all clusters."""
        if not NAME.fullmatch(name):
            raise ClusterError(f"{name!r} is no name for a cluster: use a-z, 0-9 and '-', at most 63 characters")
        self.name = name
        # Resolved, because the path is also the mark by which processes are found again.
        self.directory = (directory or build.clusters_directory()).resolve() / name
        self._layout = Layout(self.directory)

    # ---- up and down

    @classmethod
    def up(
        cls,
        name: str = "default",
        *,
        directory: Path | None = None,
        audit: bool = False,
        owner: int | None = None,
        programs: Path | None = None,
        timeout: float = 90,
    ) -> Self:
        """Start a cluster and return once it is ready for work; on failure or Ctrl-C nothing of it is left.

        `owner` is the pid of the program it belongs to: once that is gone, the next `up` in the same directory takes the cluster down.
        """
        plane = cls(name, directory=directory)
        programs = programs.resolve() if programs else build.ensure()
        owned_by = look_up(owner) if owner is not None else None
        if owner is not None and owned_by is None:
            raise ClusterError(f"there is no process {owner} that could own the cluster")
        state = State(programs=str(programs), audit=audit, starter=this_process(), owner=owned_by)
        plane._claim(state)
        try:
            plane._launch(state, deadline=time.monotonic() + timeout)
        except BaseException:
            plane.down()
            raise
        return plane

    def down(self, *, keep_logs: bool = False) -> None:
        """End every process and remove every file of the cluster, in whatever condition it is; nothing happens if there is none."""
        with uninterrupted():
            self._end_all()
            self._remove(keep_logs=keep_logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.down()

    # ---- what clients need

    @property
    def exists(self) -> bool:
        """Whether somebody has started it and nobody has taken it down."""
        return self._layout.state.exists()

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._state().server

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig: a client certificate in system:masters."""
        return self._layout.kubeconfig()

    @property
    def ca_file(self) -> Path:
        """The CA that signed the API server's certificate."""
        return self._layout.ca_file

    @property
    def serving(self) -> Certificate:
        """The certificate that the API server presents. It is valid for 127.0.0.1, so a server of a test may present it as well."""
        return Certificate(certificate=self._layout.pki / "serving.crt", key=self._layout.pki / "serving.key")

    @property
    def token(self) -> str:
        """A bearer token of a user in system:masters."""
        return self._layout.token()

    @property
    def audit_log(self) -> Path:
        """Where the API server writes the audit log if the cluster was started with `audit`."""
        return self._layout.audit_log

    def log(self, component: str) -> Path:
        """The log of one program."""
        return self._layout.log(_known(component))

    def kubectl(self, *args: str, input: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """Run kubectl as the administrator and return what it printed; with `check`, a failure is an error that holds its message."""
        program = Path(self._state().programs) / "kubectl"
        argv = [str(program), f"--kubeconfig={self.kubeconfig}", *args]
        done = subprocess.run(argv, input=input, capture_output=True, text=True, timeout=timeout)
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def issue_certificate(self, cn: str, orgs: tuple[str, ...] = (), *, valid: timedelta = timedelta(hours=1)) -> Certificate:
        """Make a client certificate for user `cn` in groups `orgs`; a negative `valid` makes one that expired that long ago."""
        issued = self.directory / "issued"
        issued.mkdir(exist_ok=True)
        path = Path(tempfile.mkdtemp(dir=issued)) / re.sub("[^A-Za-z0-9]+", "-", cn)
        groups = [f"--org={org}" for org in orgs]
        certs = Path(self._state().programs) / "certs"
        run_certs(certs, "client", f"--dir={self._layout.pki}", f"--out={path}", f"--cn={cn}", *groups, f"--valid={valid.total_seconds()}s")
        return Certificate(certificate=Path(f"{path}.crt"), key=Path(f"{path}.key"))

    def kubeconfig_for(self, identity: Certificate) -> Path:
        """Write a kubeconfig whose user presents this certificate, beside the certificate."""
        path = identity.certificate.with_suffix(".kubeconfig")
        write_private(path, kubeconfig(server=self.server, ca=self.ca_file, certificate=identity.certificate, key=identity.key))
        return path

    # ---- what tests do to it

    def kill(self, component: str) -> None:
        """End a program with SIGKILL; it stays down until `restart`."""
        _known(component)
        with self._changing() as state:
            if process := state.components[component].process:
                end([process], grace=0)
            state.components[component].process = None

    def restart(self, component: str, *, timeout: float = 90) -> None:
        """End a program if it runs, start it on the same port with the same data, and return once all that runs is ready again."""
        _known(component)
        with self._changing() as state:
            if process := state.components[component].process:
                end([process], grace=RESTART_GRACE)
            for each in state.components.values():
                if not each.running:
                    each.process = None  # it ended earlier, and that is not this restart's failure
            start_one(self._layout, state, component)
            running = [name for name, each in state.components.items() if each.process]
            await_ready(self._layout, state, running, deadline=time.monotonic() + timeout)

    def compact(self) -> int:
        """Make etcd forget all history before its current revision, which is returned.

        The API server still answers from the history in its own watch cache; restart it to make it forget too.
        """
        etcd = f"http://127.0.0.1:{self._state().ports[ETCD]}/v3/kv"
        try:
            revision = int(probe.ask(f"{etcd}/range", {"key": "AA==", "limit": 1})["header"]["revision"])
            probe.ask(f"{etcd}/compaction", {"revision": revision, "physical": True})
        except OSError as problem:
            raise ClusterError(f"etcd does not compact: {problem}") from problem
        return revision

    def status(self) -> dict[str, Any]:
        """What is there and how it does, ready for JSON."""
        state = self._state()
        return {
            "name": self.name,
            "directory": str(self.directory),
            "phase": state.phase,
            "server": self.server,
            "kubeconfig": str(self.kubeconfig),
            "kubectl": str(Path(state.programs) / "kubectl"),
            "auditLog": str(self.audit_log) if state.audit else None,
            "owner": state.owner.pid if state.owner else None,
            "components": {
                name: {
                    "running": component.running,
                    "ready": component.running and is_ready(self._layout, state, name),
                    "pid": component.process.pid if component.process else None,
                    "port": component.port,
                    "log": str(self.log(name)),
                }
                for name, component in state.components.items()
            },
        }

    # ---- inside

    def _claim(self, state: State) -> None:
        """Make the directory ours and write the state into it, with ports that no other cluster was promised."""
        above = self.directory.parent
        with locked(above):
            for other in clusters(above):
                if (found := other._peek()) and found.abandoned:
                    other.down()
            if self.exists:
                hint = f"`restart COMPONENT` brings back what is down, `down --name {self.name}` removes it"
                raise ClusterError(f"cluster {self.name!r} is already up, or being brought up, in {self.directory}; {hint}")
            if self.directory.exists():
                self._remove()  # what `down --keep-logs` left
            self.directory.mkdir(mode=0o700)
            self._promise_ports(state)

    def _promise_ports(self, state: State) -> None:
        taken = {port for other in clusters(self.directory.parent) if (found := other._peek()) for port in found.ports.values()}
        state.ports = choose_ports(taken=taken)
        lines = command_lines(self._layout, programs=Path(state.programs), ports=state.ports, audit=state.audit)
        state.components = {name: Component(argv=argv, port=state.ports[name]) for name, argv in lines.items()}
        state.save(self._layout.state)

    def _launch(self, state: State, *, deadline: float) -> None:
        for _ in range(PORT_ATTEMPTS - 1):
            try:
                return start_all(self._layout, state, deadline=deadline)
            except PortTakenError:
                self._end_all()
                shutil.rmtree(self._layout.data, ignore_errors=True)
                shutil.rmtree(self._layout.logs, ignore_errors=True)
                with locked(self.directory.parent):
                    self._promise_ports(state)
        return start_all(self._layout, state, deadline=deadline)

    def _state(self) -> State:
        state = State.load(self._layout.state)
        if state is None:
            raise ClusterError(f"there is no cluster {self.name!r} in {self.directory.parent}")
        return state

    @contextmanager
    def _changing(self) -> Iterator[State]:
        """The state, for one changer at a time, saved at the end."""
        self._state()
        with locked(self.directory):
            state = self._state()
            yield state
            state.save(self._layout.state)

    def _end_all(self) -> None:
        state = self._peek()
        recorded = state.components if state else {}
        for names in END_ORDER:
            end((process for name in names if name in recorded and (process := recorded[name].process)), grace=DOWN_GRACE)
        end(marked(self.directory), grace=DOWN_GRACE)  # started, but never written down

    def _peek(self) -> State | None:
        """The state if there is one that can be read: whoever looks at all clusters must not stumble over one."""
        with suppress(ClusterError):
            return State.load(self._layout.state)
        return None

    def _remove(self, *, keep_logs: bool = False) -> None:
        """Remove the files; the state goes last, so that a removal cut short is still known as a cluster."""
        if not self.directory.exists():
            return
        if not self.exists and {entry.name for entry in self.directory.iterdir()} - {"logs", "state.draft"}:
            raise ClusterError(f"{self.directory} holds files that are no cluster's: it is left alone")
        kept = {self._layout.state} | ({self._layout.logs} if keep_logs else set())
        for entry in self.directory.iterdir():
            if entry in kept:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self._layout.state.unlink(missing_ok=True)
        if not keep_logs:
            self.directory.rmdir()


def clusters(directory: Path | None = None) -> list[Plane]:
    """Every cluster in a directory of clusters."""
    above = directory or build.clusters_directory()
    return [Plane(path.parent.name, directory=above) for path in sorted(above.glob("*/state.json")) if NAME.fullmatch(path.parent.name)]


def _known(component: str) -> str:
    if component not in COMPONENTS:
        raise ClusterError(f"there is no component {component!r}: the components are {', '.join(COMPONENTS)}")
    return component
