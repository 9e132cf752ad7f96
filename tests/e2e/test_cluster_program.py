"""hack/cluster itself: real control planes, brought up and down, broken and mended.

Whatever happens to an `up`, nothing of it may be left: no process that names the cluster's directory, no file in it.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster import ClusterError, build, plane, probe, processes, toolchain
from cluster.components import APISERVER, COMPONENTS, CONTROLLERS, ETCD, SCHEDULER, choose_ports
from cluster.plane import Plane

PROGRAM = Path(build.__file__).parent


@pytest.fixture(scope="module")
def programs() -> Path:
    found = build.published()
    assert found, "the programs of the control plane are not built: run `python3 hack/cluster build`"
    return found


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory of clusters in which nothing is left at the end."""
    directory = tmp_path_factory.mktemp("clusters")
    yield directory
    for left in plane.clusters(directory):
        left.down()


@pytest.fixture(scope="module")
def shared(clusters: Path, programs: Path) -> Iterator[Plane]:
    """One cluster for all tests that do no lasting harm."""
    with Plane.up("shared", directory=clusters, programs=programs, audit=True, owner=os.getpid()) as up:
        yield up


class Command:
    """`python3 hack/cluster …` for the clusters of one directory."""

    def __init__(self, clusters: Path, programs: Path) -> None:
        self.clusters, self.programs = clusters, programs

    def argv(self, command: str, *args: str) -> list[str]:
        place = [f"--dir={self.clusters}"] + ([f"--programs={self.programs}"] if command == "up" else [])
        return [sys.executable, str(PROGRAM), command, *place, *args]

    def run(self, command: str, *args: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(self.argv(command, *args), capture_output=True, text=True, timeout=120)

    def start(self, command: str, *args: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(self.argv(command, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def command(clusters: Path, programs: Path) -> Command:
    return Command(clusters, programs)


# ---- what a cluster is


def test_it_is_the_kubernetes_that_go_mod_names(shared: Plane) -> None:
    version = json.loads(shared.kubectl("version", "--output=json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == build.kubernetes_version()


def test_status_shows_every_component_ready(shared: Plane, command: Command) -> None:
    done = command.run("status", "--name=shared", "--json")
    status = json.loads(done.stdout)
    assert done.returncode == 0
    assert status["server"] == shared.server
    assert {name: each["ready"] for name, each in status["components"].items()} == dict.fromkeys(COMPONENTS, True)
    assert "kube-scheduler           ready" in command.run("status", "--name=shared").stdout
    assert command.run("kubeconfig", "--name=shared").stdout.strip() == str(shared.kubeconfig)


def test_status_of_no_cluster_is_one_sentence(command: Command) -> None:
    done = command.run("status", "--name=nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cluster: there is no cluster 'nobody'")
    assert command.run("kubeconfig", "--name=nobody").returncode == 1


def test_everything_listens_on_loopback_only(shared: Plane) -> None:
    state = shared._state()
    listening = {name: processes.listeners(each.process) for name, each in state.components.items() if each.process}
    assert all(address.is_loopback for found in listening.values() for address, _ in found)
    assert {port for found in listening.values() for _, port in found} == set(state.ports.values())


def test_up_of_a_name_that_is_up_is_refused_and_harms_nothing(shared: Plane, command: Command) -> None:
    before = shared.status()
    done = command.run("up", "--name=shared")
    assert done.returncode == 1
    assert "already up" in done.stderr
    assert shared.status() == before


def test_certificate_and_token_both_open_the_door(shared: Plane) -> None:
    assert shared.kubectl("auth", "whoami", "--output=jsonpath={.status.userInfo.username}") == "admin"
    pods = json.loads(probe.fetch(f"{shared.server}/api/v1/pods", ca=shared.ca_file, token=shared.token))
    assert pods["kind"] == "PodList"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        probe.fetch(f"{shared.server}/api/v1/pods", ca=shared.ca_file, token="wrong")  # not a secret


@pytest.mark.parametrize("name", ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default.svc.cluster.local", "10.0.0.1"])
def test_api_server_is_known_by_each_of_its_names(shared: Plane, name: str) -> None:
    context = ssl.create_default_context(cafile=shared.ca_file)
    address = ("127.0.0.1", shared._state().ports[APISERVER])
    with socket.create_connection(address, timeout=10) as plain, context.wrap_socket(plain, server_hostname=name) as secure:
        assert secure.version() == "TLSv1.3"


def test_secrets_are_readable_by_their_owner_alone(shared: Plane) -> None:
    secret = [shared.directory, shared.kubeconfig, shared.directory / "tokens.csv", *(shared.directory / "pki").glob("*.key")]
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in secret)


def test_issued_certificate_is_its_user_and_an_expired_one_is_nobody(shared: Plane) -> None:
    valid = shared.kubeconfig_for(shared.issue_certificate("alice", ("readers", "writers")))
    who = json.loads(shared.kubectl("auth", "whoami", "--output=json", f"--kubeconfig={valid}"))["status"]["userInfo"]
    assert who["username"] == "alice"
    assert {"readers", "writers"} <= set(who["groups"])
    with pytest.raises(ClusterError, match="Forbidden"):
        shared.kubectl("get", "pods", f"--kubeconfig={valid}")

    expired = shared.kubeconfig_for(shared.issue_certificate("admin", ("system:masters",), valid=timedelta(minutes=-5)))
    with pytest.raises(ClusterError, match=r"Unauthorized|must be logged in|provide credentials"):
        shared.kubectl("get", "pods", f"--kubeconfig={expired}")


def test_dependents_go_with_their_owner(shared: Plane) -> None:
    shared.kubectl("create", "configmap", "owner")
    uid = shared.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    shared.kubectl("create", "--filename=-", input=manifest("v1", "ConfigMap", "dependent", ownerReferences=[reference]))
    shared.kubectl("delete", "configmap", "owner")
    until(lambda: "dependent" not in shared.kubectl("get", "configmaps", "--output=name"))


def test_service_accounts_exist_and_their_tokens_work(shared: Plane) -> None:
    shared.kubectl("create", "namespace", "accounts")
    until(lambda: "serviceaccount/default" in shared.kubectl("get", "serviceaccounts", "--namespace=accounts", "--output=name"))
    token = shared.kubectl("create", "token", "default", "--namespace=accounts").strip()
    review = manifest("authentication.k8s.io/v1", "SelfSubjectReview", None)
    who = json.loads(
        probe.fetch(
            f"{shared.server}/apis/authentication.k8s.io/v1/selfsubjectreviews", ca=shared.ca_file, token=token, body=review.encode()
        )
    )
    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:accounts:default"
    with pytest.raises(urllib.error.HTTPError, match="403"):
        probe.fetch(f"{shared.server}/api/v1/pods", ca=shared.ca_file, token=token)


def test_secret_asks_for_a_lasting_token_and_gets_one(shared: Plane) -> None:
    annotations = {"kubernetes.io/service-account.name": "default"}
    secret = manifest("v1", "Secret", "lasting", annotations=annotations, type="kubernetes.io/service-account-token")
    shared.kubectl("create", "--filename=-", input=secret)
    until(lambda: shared.kubectl("get", "secret", "lasting", "--output=jsonpath={.data.token}") != "")


def test_pod_is_accepted_and_scheduled_onto_a_node_object(shared: Plane) -> None:
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    shared.kubectl("create", "--filename=-", input=manifest("v1", "Node", "paper", status={"capacity": room, "allocatable": room}))
    shared.kubectl("taint", "node", "paper", "node.kubernetes.io/not-ready-", check=False)
    tolerations = [{"operator": "Exists"}]
    spec = {"containers": [{"name": "main", "image": "none"}], "tolerations": tolerations}
    shared.kubectl("create", "--filename=-", input=manifest("v1", "Pod", "first", spec=spec))
    until(lambda: shared.kubectl("get", "pod", "first", "--output=jsonpath={.spec.nodeName}") == "paper")


def test_audit_log_has_writes_in_full_and_reads_in_outline(shared: Plane) -> None:
    shared.kubectl("create", "service", "externalname", "audited", "--external-name=example.invalid")
    shared.kubectl("get", "service", "audited")
    until(lambda: {"create", "get"} <= {event["verb"] for event in audited(shared, "services", "audited")})
    events = {event["verb"]: event for event in audited(shared, "services", "audited")}
    assert events["create"]["requestObject"]["spec"]["externalName"] == "example.invalid"
    assert "managedFields" not in events["create"]["responseObject"]["metadata"]
    assert "responseObject" not in events["get"]


# ---- several, and what tests do to one


def test_two_clusters_at_once_share_nothing(shared: Plane, clusters: Path, programs: Path) -> None:
    with Plane.up("second", directory=clusters, programs=programs) as second:
        assert not set(second._state().ports.values()) & set(shared._state().ports.values())
        second.kubectl("create", "namespace", "only-in-the-second")
        assert "only-in-the-second" not in shared.kubectl("get", "namespaces", "--output=name")
        assert {each.name for each in plane.clusters(clusters)} >= {"shared", "second"}
        with pytest.raises((urllib.error.URLError, urllib.error.HTTPError)):
            probe.fetch(f"{second.server}/readyz", ca=shared.ca_file, token=shared.token)
    assert_nothing_left(second)
    assert shared.kubectl("get", "--raw=/readyz") == "ok"


@pytest.mark.processes
def test_api_server_is_killed_and_comes_back_with_its_data(shared: Plane, command: Command) -> None:
    shared.kubectl("create", "configmap", "survivor")
    assert command.run("kill", "--name=shared", APISERVER).returncode == 0
    with pytest.raises(ClusterError, match="refused"):
        shared.kubectl("get", "configmap", "survivor")
    status = command.run("status", "--name=shared")
    assert status.returncode == 1
    assert "kube-apiserver           down" in status.stdout

    assert command.run("restart", "--name=shared", APISERVER).returncode == 0
    assert shared.kubectl("get", "configmap", "survivor", "--output=name") == "configmap/survivor\n"


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_restarts_on_its_port(shared: Plane, component: str) -> None:
    before = shared.status()["components"][component]
    shared.restart(component)
    after = shared.status()["components"]
    assert after[component]["port"] == before["port"]
    assert after[component]["pid"] != before["pid"]
    assert all(each["ready"] for each in after.values())


def test_compaction_makes_old_versions_expire(shared: Plane, command: Command) -> None:
    shared.kubectl("create", "configmap", "history")
    old = shared.kubectl("get", "configmap", "history", "--output=jsonpath={.metadata.resourceVersion}")
    shared.kubectl("delete", "configmap", "history")
    watch = f"/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1&resourceVersion={old}"
    assert '"DELETED"' in shared.kubectl("get", f"--raw={watch}")

    revision = int(command.run("compact", "--name=shared").stdout)
    assert revision > int(old)
    shared.kill(APISERVER)  # its watch cache remembers what etcd has forgotten
    shared.restart(APISERVER)
    (event,) = map(json.loads, shared.kubectl("get", f"--raw={watch}").splitlines())
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")


@pytest.mark.processes
def test_restart_of_one_component_does_not_mind_that_another_is_down(shared: Plane) -> None:
    crashed = shared.status()["components"][SCHEDULER]["pid"]
    os.kill(crashed, signal.SIGKILL)
    shared.restart(CONTROLLERS)
    assert not shared.status()["components"][SCHEDULER]["running"]
    shared.restart(SCHEDULER)
    assert all(each["ready"] for each in shared.status()["components"].values())


def test_unknown_component_is_refused_by_name(shared: Plane) -> None:
    with pytest.raises(ClusterError, match="no component 'kubelet': the components are etcd"):
        shared.kill("kubelet")


# ---- nothing is left, whatever happens


def test_down_is_idempotent_and_can_keep_the_logs(clusters: Path, command: Command) -> None:
    up = command.run("up", "--name=logged", "--json")
    assert json.loads(up.stdout)["phase"] == "up"
    logged = Plane("logged", directory=clusters)
    assert command.run("down", "--name=logged", "--keep-logs").returncode == 0
    assert_no_process(logged)
    assert {path.name for path in logged.directory.iterdir()} == {"logs"}
    assert {path.stem for path in (logged.directory / "logs").iterdir()} == set(COMPONENTS)
    for _ in range(2):
        assert command.run("down", "--name=logged").returncode == 0
        assert_nothing_left(logged)


def test_directory_with_foreign_files_is_left_alone(clusters: Path, command: Command) -> None:
    treasure = clusters / "home" / "treasure"
    treasure.parent.mkdir()
    treasure.touch()
    for name in ("up", "down"):
        done = command.run(name, "--name=home")
        assert done.returncode == 1
        assert "left alone" in done.stderr
    assert treasure.exists()


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_that_does_not_start_is_named_with_its_log(component: str, clusters: Path, programs: Path, tmp_path: Path) -> None:
    for path in programs.iterdir():
        if path.name != component:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / component).write_text("#!/bin/sh\necho 'no work today' >&2\nexit 3\n")
    (tmp_path / component).chmod(0o755)
    done = Command(clusters, tmp_path).run("up", "--name=broken")
    assert done.returncode == 1
    assert f"{component} ended with exit code 3" in done.stderr
    assert "  no work today" in done.stderr
    assert_nothing_left(Plane("broken", directory=clusters))


@pytest.mark.processes
@pytest.mark.parametrize(("moment", "name"), [(ETCD, signal.SIGTERM), (SCHEDULER, signal.SIGINT)])
def test_interrupted_up_leaves_nothing(moment: str, name: signal.Signals, clusters: Path, command: Command) -> None:
    cut = Plane("cut", directory=clusters)
    with command.start("up", "--name=cut") as up:
        until(lambda: has_started(cut, moment))
        up.send_signal(name)
        _, errors = up.communicate(timeout=60)
    assert up.returncode == 128 + name
    assert "Traceback" not in errors
    assert_nothing_left(cut)


@pytest.mark.processes
@pytest.mark.parametrize(("moment", "remedy"), [(ETCD, "up"), (CONTROLLERS, "down")])
def test_after_a_killed_up_all_is_put_right(moment: str, remedy: str, clusters: Path, command: Command) -> None:
    half = Plane("half", directory=clusters)
    with command.start("up", "--name=half") as up:
        until(lambda: has_started(half, moment))
        up.kill()
    assert processes.marked(half.directory)
    done = command.run(remedy, "--name=half")
    assert done.returncode == 0, done.stderr
    if remedy == "up":
        assert command.run("status", "--name=half").returncode == 0
        half.down()
    assert_nothing_left(half)


@pytest.mark.processes
def test_cluster_of_a_program_that_is_gone_is_taken_down_by_the_next_up(shared: Plane, clusters: Path, command: Command) -> None:
    with subprocess.Popen(["sleep", "600"]) as owner:
        assert command.run("up", "--name=orphan", f"--owner={owner.pid}").returncode == 0
        owner.kill()
    orphan = Plane("orphan", directory=clusters)
    assert orphan.exists
    assert command.run("up", "--name=next").returncode == 0
    assert_nothing_left(orphan)
    assert shared.exists  # its owner lives
    assert command.run("down", "--name=next").returncode == 0


@pytest.mark.parametrize("listener", [ETCD, APISERVER])
def test_port_taken_in_the_last_moment_is_replaced(listener: str, clusters: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[dict[str, int]] = []
    with socket.create_server(("127.0.0.1", 0)) as busy:

        def choose(*, taken: set[int]) -> dict[str, int]:
            chosen.append(choose_ports(taken=taken) | ({} if chosen else {listener: busy.getsockname()[1]}))
            return chosen[-1]

        monkeypatch.setattr(plane, "choose_ports", choose)
        with Plane.up("pushed", directory=clusters, programs=programs) as pushed:
            assert len(chosen) == 2
            assert all(each["ready"] for each in pushed.status()["components"].values())
    assert_nothing_left(pushed)


@pytest.mark.processes
def test_interrupted_build_publishes_nothing_and_ends_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go waits for modules from a server that never answers: the build is in its middle for as long as we like."""
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{build.cache_directory() / 'go' / 'bin'}")
    go = shutil.which("go")
    if not go or (toolchain.go_version(Path(go)) or (0, 0, 0)) < build.wanted_go():
        pytest.skip("no Go here that is new enough, and fetching one is not this test's business")
    cache = tmp_path / "cache"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("GENERICJOB_CACHE", str(cache))
        monkeypatch.setenv("GOPROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with subprocess.Popen([sys.executable, str(PROGRAM), "build"], stderr=subprocess.PIPE, text=True) as command:
            silent.settimeout(60)
            connection, _ = silent.accept()
            command.send_signal(signal.SIGINT)
            _, errors = command.communicate(timeout=60)
            connection.close()
    assert command.returncode == 130
    assert "Traceback" not in errors
    assert not (cache / "programs").exists()
    assert naming(cache) == []


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.02)


def manifest(version: str, kind: str, name: str | None, **fields: Any) -> str:
    """An object as JSON; what belongs into its metadata goes there."""
    metadata = {field: fields.pop(field) for field in ("annotations", "ownerReferences") if field in fields}
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata | ({"name": name} if name else {}), **fields})


def audited(cluster: Plane, resource: str, name: str) -> list[dict[str, Any]]:
    events = map(json.loads, cluster.audit_log.read_text().splitlines())
    return [event for event in events if (ref := event.get("objectRef", {})).get("resource") == resource and ref.get("name") == name]


def has_started(cluster: Plane, component: str) -> bool:
    state = cluster._peek()
    return state is not None and state.components[component].process is not None


def assert_nothing_left(cluster: Plane) -> None:
    assert_no_process(cluster)
    assert not cluster.directory.exists()


def assert_no_process(cluster: Plane) -> None:
    assert naming(cluster.directory) == []
    assert processes.marked(cluster.directory) == []


def naming(directory: Path) -> list[str]:
    """The command lines of all processes that name a directory in their arguments or their environment, except this one's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line, environment = ((entry / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ"))
        except OSError:
            continue
        if f"{directory}/" in line + environment and entry.name != str(os.getpid()):
            found.append(line.replace("\0", " "))
    return found
