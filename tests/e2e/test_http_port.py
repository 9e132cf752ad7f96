"""The HTTP port on a real server that is killed, compacted, overloaded or lost behind the network."""

import threading
import time
from contextlib import suppress

import msgspec
import pytest

from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Throttling, Timeouts
from genericjob.reconcile.resources import CONFIG_MAPS, EVENTS, PODS, SERVICE_ACCOUNTS, Key, raw
from harness.clusters import PATIENCE, Namespaces, eventually
from harness.configurations import Server
from harness.proxy import Proxy


@pytest.fixture
def somewhere(fragile):
    api = fragile.api()
    with Namespaces(api).fresh() as name:
        yield name


OURS = "ours=yes"  # a cluster puts config maps of its own into a namespace, when it comes to it


def config_map(name):
    return {"metadata": {"name": name, "labels": {"ours": "yes"}}}


def broken(call):
    with pytest.raises(ApiError) as caught:
        call()
    return caught.value


class Follower(threading.Thread):
    """Watches for ever: resumes where the last stream ended, as a reflector will, and lists when the server has forgotten where that was.

    A server that was restarted has, if anything was written before it read its store, forgotten everything before that.
    """

    def __init__(self, api, namespace):
        super().__init__(daemon=True)
        self.api, self.namespace = api, namespace
        self.version = api.list(CONFIG_MAPS, namespace, labels=OURS).resource_version
        self.seen, self.streams, self.problems = [], 0, []
        self.stop = threading.Event()
        self.start()

    def run(self):
        while not self.stop.is_set():
            try:
                with self.api.watch(CONFIG_MAPS, self.namespace, resource_version=self.version, labels=OURS, timeout=60) as watch:
                    self.streams += 1
                    for event in watch:
                        self.version = watch.resource_version
                        if event.object:
                            self.seen.append((event.type, event.object["metadata"]["name"]))
                        if self.stop.is_set():
                            return
            except ApiError as error:
                self.problems.append(error)
                time.sleep(0.1)
                if error.gone:
                    self.list()

    def list(self):
        with suppress(ApiError):
            found = self.api.list(CONFIG_MAPS, self.namespace, labels=OURS)
            known = {name for _, name in self.seen}
            self.seen += [("ADDED", name) for each in found.items if (name := each["metadata"]["name"]) not in known]
            self.version = found.resource_version


def test_a_watch_is_resumed_over_a_restart_of_the_server(fragile, somewhere):
    api = fragile.api()
    follower = Follower(fragile.api(), somewhere)
    for name in ("a", "b"):
        api.create(CONFIG_MAPS, config_map(name), somewhere)
    eventually(lambda: len(follower.seen) == 2)
    fragile.plane.kill("kube-apiserver")
    down = broken(lambda: fragile.api().create(CONFIG_MAPS, config_map("while-down"), somewhere))
    assert down.unreachable
    assert not down.unknown  # nobody listened: it certainly did not happen
    fragile.plane.restart("kube-apiserver")
    eventually(lambda: api.create(CONFIG_MAPS, config_map("c"), somewhere))
    eventually(lambda: ("ADDED", "c") in follower.seen)
    follower.stop.set()
    assert [name for _, name in follower.seen] == ["a", "b", "c"]  # nothing lost, nothing twice
    assert follower.streams >= 2
    assert all(problem.unreachable or problem.gone or problem.code >= 429 for problem in follower.problems)


def test_a_write_in_flight_when_the_server_dies_is_unknown_or_certain_but_never_wrong(fragile, somewhere):
    api = fragile.api()
    outcomes = {}

    def write():
        for n in range(2000):
            try:
                api.create(CONFIG_MAPS, config_map(f"n{n}"), somewhere)
                outcomes[f"n{n}"] = "done"
            except ApiError as error:
                outcomes[f"n{n}"] = "unknown" if error.unknown else "not done"
                if error.unreachable and not error.unknown:
                    return

    writers = [threading.Thread(target=write, daemon=True)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(outcomes) > 50)
    fragile.plane.kill("kube-apiserver")
    for writer in writers:
        writer.join(PATIENCE)
    fragile.plane.restart("kube-apiserver")
    stored = {item["metadata"]["name"] for item in eventually(lambda: api.list(CONFIG_MAPS, somewhere)).items}
    assert {name for name, outcome in outcomes.items() if outcome == "done"} <= stored
    assert not {name for name, outcome in outcomes.items() if outcome == "not done"} & stored


def test_a_compacted_version_is_gone_as_event_and_as_status(fragile, somewhere):
    api = fragile.api()
    happening = {"involvedObject": {"kind": "Pod", "namespace": somewhere, "name": "p"}, "reason": "Test", "type": "Normal"}
    for n in range(3):
        api.create(EVENTS, {"metadata": {"name": f"e{n}"}, **happening}, somewhere)
    first = api.list(EVENTS, somewhere, limit=1)
    for name in ("later", "even-later"):  # the compacted version itself can still be watched from
        api.create(EVENTS, {"metadata": {"name": name}, **happening}, somewhere)
    fragile.plane.compact()
    as_status = broken(lambda: api.list(EVENTS, somewhere, limit=1, continue_token=first.continue_token))
    watch = api.watch(EVENTS, somewhere, resource_version=first.resource_version, timeout=30)  # accepted with 200 ...
    as_event = broken(lambda: list(watch))  # ... and refused by the first line
    for error in (as_status, as_event):
        assert (error.code, error.reason, error.gone) == (410, "Expired", True)


def test_a_kind_that_nobody_defined_is_named(server, namespace):
    things = raw("nobody.genericjob.example", "v1", "things", "Thing")
    for call in (
        lambda: server.list(things),
        lambda: server.list(things, namespace, limit=1),
        lambda: server.watch(things),
        lambda: server.create(things, config_map("a"), namespace),
    ):
        error = broken(call)
        assert error.not_found
        assert error.message.startswith("the server knows no things.nobody.genericjob.example: is its CustomResourceDefinition installed?")


# ------------------------------------------------------------------------------------------------ the network


@pytest.fixture
def proxied(cluster, tmp_path):
    """A way to the server that can be made to fail."""
    door = Server(cluster.kubeconfig)
    with Proxy(door.port) as proxy:
        proxy.kubeconfig = door.write(
            tmp_path / "config", door.admin, server=f"https://127.0.0.1:{proxy.port}", tls_server_name="127.0.0.1"
        )
        yield proxy


def api_through(proxy, **timeouts):
    return HttpApi(from_kubeconfig(str(proxy.kubeconfig)), timeouts=Timeouts(**timeouts))


def test_a_watch_whose_connection_fell_into_a_black_hole_is_found_dead(proxied, server, namespace):
    api = api_through(proxied, silence=1)
    watch = api.watch(CONFIG_MAPS, namespace)
    events = iter(watch)
    assert next(events).type == "ADDED"  # the namespace's own
    proxied.black_hole()
    server.create(CONFIG_MAPS, config_map("unseen"), namespace)
    error = broken(lambda: list(events))
    assert error.reason == "Silent"
    proxied.heal()
    with api.watch(CONFIG_MAPS, namespace, timeout=30) as again:
        names = iter(event.object["metadata"]["name"] for event in again if event.object)
        assert "unseen" in (next(names), next(names))


def test_a_write_whose_answer_is_lost_may_have_happened(proxied, server, namespace):
    api = api_through(proxied, write=1)
    api.list(CONFIG_MAPS, namespace)  # the connection is warm
    proxied.drop_answers()
    error = broken(lambda: api.create(CONFIG_MAPS, config_map("ghost"), namespace))
    assert error.unknown
    assert error.unreachable
    eventually(lambda: server.get(CONFIG_MAPS, Key(namespace, "ghost")))  # and so it had


def test_a_connection_that_cannot_be_made_is_given_up(proxied, namespace):
    proxied.black_hole()
    error = broken(lambda: api_through(proxied, connect=1).create(CONFIG_MAPS, config_map("a"), namespace))
    assert error.unreachable
    assert not error.unknown


def test_connections_that_were_cut_are_replaced_without_a_word(proxied, namespace):
    api = api_through(proxied)
    for _ in range(3):
        api.list(PODS, namespace)
        proxied.cut()
        time.sleep(0.05)
    assert proxied.connections >= 3


# ------------------------------------------------------------------------------------------------ priority and fairness


@pytest.fixture
def crowded(server, cluster, namespace, tmp_path):
    """An account that the server serves one request at a time: further ones are turned away with 429."""
    name = f"crowded-{namespace}"
    flow, rbac = "/apis/flowcontrol.apiserver.k8s.io/v1", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    one_by_one = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    account = {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": "default"}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    schema = {
        "priorityLevelConfiguration": {"name": name},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [account], "resourceRules": [everything]}],
    }
    server.request("POST", f"{flow}/prioritylevelconfigurations", body=named(name, spec={"type": "Limited", "limited": one_by_one}))
    server.request("POST", f"{flow}/flowschemas", body=named(name, spec=schema))
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": "default"}
    server.request("POST", f"{rbac}/rolebindings", body=named("all", roleRef=role, subjects=[subject]))
    answer = server.request("POST", SERVICE_ACCOUNTS.path(namespace, "default", "token"), body={"spec": {}})
    token = msgspec.json.decode(answer.data)["status"]["token"]
    yield Server(cluster.kubeconfig).write(tmp_path / "config", {"token": token})
    server.request("DELETE", f"{flow}/flowschemas/{name}")
    server.request("DELETE", f"{flow}/prioritylevelconfigurations/{name}")


def named(name, **fields):
    return {"metadata": {"name": name}, **fields}


class Crowd:
    """Keeps the server busy: lists at a version that never comes are held for three seconds each."""

    def __init__(self, kubeconfig, namespace):
        self.api = HttpApi(from_kubeconfig(str(kubeconfig)), throttling=Throttling(tries=0))
        self.namespace, self.leaving = namespace, threading.Event()
        self.threads = [threading.Thread(target=self.crowd, daemon=True) for _ in range(3)]
        for thread in self.threads:
            thread.start()

    def crowd(self):
        while not self.leaving.is_set():
            with suppress(ApiError):
                self.api.list(CONFIG_MAPS, self.namespace, resource_version="999999999")
            self.leaving.wait(0.01)

    def leave(self):
        self.leaving.set()
        for thread in self.threads:
            thread.join(PATIENCE)


def test_a_busy_server_is_waited_for_as_it_asks(crowded, namespace):
    crowd = Crowd(crowded, namespace)
    try:
        impatient = HttpApi(from_kubeconfig(str(crowded)), throttling=Throttling(tries=0))
        error = eventually(lambda: turned_away(impatient, namespace))
        assert error.retry_after == 1
        assert not error.unknown
        waits = []

        def wait(seconds):
            waits.append(seconds)
            crowd.leave()

        patient = HttpApi(from_kubeconfig(str(crowded)), sleep=wait)
        eventually(lambda: patient.create(CONFIG_MAPS, {"metadata": {"generateName": "patient-"}}, namespace) and waits)
        assert waits == [1]
    finally:
        crowd.leave()


def turned_away(api, namespace):
    """The 429, if there is one; otherwise we were let through."""
    try:
        api.create(CONFIG_MAPS, {"metadata": {"generateName": "impatient-"}}, namespace)
    except ApiError as error:
        return error if error.throttled else None
    return None
