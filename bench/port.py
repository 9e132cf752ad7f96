"""What the API port costs: per create, per watch event, per cached pod; and how fast the API in memory is.

    make bench

Every comparison is made in one run on one server, in alternating rounds, and the median is reported: API servers are noisy neighbours.
"""

import gc
import http.client
import json
import os
import platform
import resource as system
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from cluster.plane import Plane
from genericjob.local import MemoryApi
from genericjob.reconcile.access import Access, from_kubeconfig
from genericjob.reconcile.codec import codec
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.resources import NAMESPACES, PODS, RAW_PODS, SERVICE_ACCOUNTS, Key, Resource, raw

ROUNDS = 5
CREATES = 1000
CONNECTIONS = 8
EVENTS = 2000
CACHED = 20_000
IN_MEMORY = 100_000
MIXED = 20_000
PAUSE = 3.0
"""Seconds for the server's controllers to calm down after a round."""

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
console = Console(stderr=True)


@dataclass(frozen=True)
class Round:
    """One measurement of `count` equal things."""

    count: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    @property
    def cpu_each(self) -> float:
        return self.cpu / self.count


@dataclass(frozen=True)
class Memory:
    """Rounds of the API in memory."""

    created: Round
    read: Round
    written: Round
    pods: Round
    things: Round
    resident: float


class Meta(msgspec.Struct):
    name: str


class Named(msgspec.Struct):
    metadata: Meta


@contextmanager
def measured(count: int) -> Iterator[list[Round]]:
    found: list[Round] = []
    gc.collect()
    begin, cpu = time.perf_counter(), time.process_time()
    yield found
    found.append(Round(count, time.perf_counter() - begin, time.process_time() - cpu))


def median(rounds: Sequence[Round], of: Callable[[Round], float]) -> float:
    return statistics.median(of(each) for each in rounds)


# ------------------------------------------------------------------------------------------------ creates


def bodies(count: int) -> list[bytes]:
    """Pods as a job controller writes them: about 2 KB each, ready to be sent."""
    env = [{"name": f"VARIABLE_{n}", "value": f"value of variable number {n}"} for n in range(16)]
    found = []
    for rank in range(count):
        name = f"train-worker-{rank}"
        labels = {"genericjob": "train", "genericjob-replica": name, "tensorstack.dev/component": "genericjob"}
        main = {"name": "main", "image": "registry.example/train:1", "command": ["python", "train.py", f"--rank={rank}"], "env": env}
        spec = {"schedulerName": "nobody", "restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [main]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
        found.append(msgspec.json.encode(pod))
    return found


def in_parallel(work: Callable[[Sequence[bytes]], None], sent: Sequence[bytes]) -> Round:
    threads = [threading.Thread(target=work, args=(sent[n::CONNECTIONS],)) for n in range(CONNECTIONS)]
    with measured(len(sent)) as found:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found[0]


def through_the_port(api: HttpApi, namespace: str, sent: Sequence[bytes]) -> Round:
    def work(part: Sequence[bytes]) -> None:
        for body in part:
            api.create(PODS, body, namespace)

    return in_parallel(work, sent)


def bare_loop(access: Access, namespace: str, sent: Sequence[bytes]) -> Round:
    """The same bodies on as many connections, by a loop that does nothing else."""

    def work(part: Sequence[bytes]) -> None:
        connection = http.client.HTTPSConnection(access.host, access.port, context=access.tls)
        for body in part:
            connection.request("POST", RAW_PODS.path(namespace), body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 201:
                raise RuntimeError(f"the server answered {answer.status}")
        connection.close()

    return in_parallel(work, sent)


def creates(api: HttpApi, access: Access) -> tuple[list[Round], list[Round]]:
    ours, bare, sent = [], [], bodies(CREATES)
    for number in range(ROUNDS + 1):
        pair = []
        # Who goes first alternates: the second of a pair always meets a fuller server.
        for contender in ("port", "bare") if number % 2 else ("bare", "port"):
            namespace = fresh_namespace(api)
            done = through_the_port(api, namespace, sent) if contender == "port" else bare_loop(access, namespace, sent)
            pair.append((contender, done))
            api.request("DELETE", RAW_PODS.path(namespace), body={"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            time.sleep(PAUSE)
        if number:  # the first pair only warms the server up
            ours += [done for contender, done in pair if contender == "port"]
            bare += [done for contender, done in pair if contender == "bare"]
            told = ", ".join(f"{contender} {done.rate:.0f}/s {done.cpu_each * 1e3:.3f} ms" for contender, done in pair)
            console.print(f"creates, round {number} of {ROUNDS}: {told}")
    return ours, bare


def fresh_namespace(api: HttpApi) -> str:
    name: str = api.create(NAMESPACES, {"metadata": {"generateName": "bench-"}}).object["metadata"]["name"]
    while not api.list(SERVICE_ACCOUNTS, name, fields="metadata.name=default").items:
        time.sleep(0.02)
    return name


# ------------------------------------------------------------------------------------------------ watch events


def running_pods(api: HttpApi, count: int) -> str:
    """A namespace with pods that look as pods do on a node, about 5 KB of JSON each."""
    namespace = fresh_namespace(api)

    def work(part: Sequence[bytes]) -> None:
        for body in part:
            pod = api.create(RAW_PODS, body, namespace).object
            api.patch(RAW_PODS, Key(namespace, pod["metadata"]["name"]), running(), subresource="status")

    in_parallel(work, bodies(count))
    return namespace


def running() -> dict[str, Any]:
    now = "2026-01-01T00:00:00Z"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now} for kind in kinds]
    image = {
        "image": "registry.example/train:1",
        "imageID": "registry.example/train@sha256:" + "0" * 64,
        "containerID": "containerd://" + "1" * 64,
    }
    main = {"name": "main", "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": now}}, **image}
    return {
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": "10.1.2.3",
            "startTime": now,
            "containerStatuses": [main],
        }
    }


def events(api: HttpApi, namespace: str) -> tuple[list[Round], float]:
    """Read the pods as a stream of events, several times; also the size of one."""
    rounds = []
    for _ in range(ROUNDS):
        with measured(EVENTS) as found, api.watch(PODS, namespace, initial_events=True) as watch:
            for event in watch:
                if event.initial_events_end:
                    break
        rounds += found
    size = len(api.request("GET", RAW_PODS.path(namespace)).data) / EVENTS
    console.print(f"watch: {median(rounds, lambda r: r.cpu_each) * 1e6:.1f} µs per event of {size:.0f} bytes")
    return rounds, size


# ------------------------------------------------------------------------------------------------ memory


def json_loads(api: HttpApi, namespace: str) -> float:
    """What the standard library takes to read one event, in µs: tells how fast this machine is today."""
    data = api.request("GET", RAW_PODS.path(namespace, "train-worker-0")).data
    with measured(EVENTS) as found:
        for _ in range(EVENTS):
            json.loads(data)
    return found[0].cpu_each * 1e6


def cached_pods(api: HttpApi, namespace: str) -> float:
    """Bytes that one more slim pod costs a cache: pods as the server sent them, each with a name, identity and times of its own."""
    one = api.request("GET", RAW_PODS.path(namespace, "train-worker-0")).data
    uid = codec(PODS).one(one).uid
    decode = codec(PODS).one
    tracemalloc.start()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    cache = {}
    for rank in range(CACHED):
        own = f"{rank:08d}{uid[8:]}".encode()
        stamp = f"2026-01-01T{rank // 3600 % 24:02}:{rank // 60 % 60:02}:{rank % 60:02}Z".encode()
        data = one.replace(b"train-worker-0", b"train-worker-%d" % rank).replace(uid.encode(), own).replace(b"2026-01-01T00:00:00Z", stamp)
        pod = decode(data)
        cache[Key(pod.namespace, pod.name)] = pod
    gc.collect()
    each = (tracemalloc.get_traced_memory()[0] - before) / CACHED
    tracemalloc.stop()
    console.print(f"cache: {each:.0f} bytes per pod, its place in the cache included")
    return each


def in_memory() -> Memory:
    """The API in memory: creates up to 100,000 pods, reads and status writes among them, then the three mixed; the same of a small kind."""
    api = MemoryApi()
    spec = {"containers": [{"name": "main", "image": "i"}]}
    sent = [msgspec.json.encode({"metadata": {"name": f"p{n}"}, "spec": spec}) for n in range(IN_MEMORY + MIXED)]
    with measured(IN_MEMORY) as created:
        for body in sent[:IN_MEMORY]:
            api.create(PODS, body, "default")
    keys = [Key("default", f"p{n * 7919 % IN_MEMORY}") for n in range(IN_MEMORY)]
    with measured(IN_MEMORY) as read:
        for key in keys:
            api.get(PODS, key)
    with measured(IN_MEMORY) as written:
        for key in keys:
            api.patch(PODS, key, b'{"status":{"phase":"Running"}}', subresource="status")
    pods = mixed(api, PODS, sent[IN_MEMORY:])
    small = raw("bench.genericjob.dev", "v1", "things", "Thing")
    api.register(small, status=True)
    kind = {"apiVersion": small.api_version, "kind": small.kind}
    things = mixed(api, small, [msgspec.json.encode({**kind, "metadata": {"name": f"t{n}"}, "spec": {"n": n}}) for n in range(MIXED)])
    found = Memory(created[0], read[0], written[0], pods, things, resident())
    console.print(f"in memory, mixed: {found.pods.rate:.0f} operations/s on pods, {found.things.rate:.0f} on small objects")
    return found


def mixed(api: MemoryApi, resource: Resource[Any], sent: Sequence[bytes]) -> Round:
    """Each object is created, read, and given a status."""
    with measured(3 * len(sent)) as found:
        for body in sent:
            name = msgspec.json.decode(body, type=Named).metadata.name
            api.create(resource, body, "default")
            api.get(resource, Key("default", name))
            api.patch(resource, Key("default", name), b'{"status":{"phase":"Running"}}', subresource="status")
    return found[0]


def resident() -> float:
    """MiB of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * system.getpagesize() / 2**20


# ------------------------------------------------------------------------------------------------ the page


def page(ours: list[Round], bare: list[Round], watched: list[Round], size: float, cached: float, memory: Memory, yardstick: float) -> str:
    ratio = statistics.median(one.rate / other.rate for one, other in zip(ours, bare, strict=True))
    cpu, bare_cpu = median(ours, lambda r: r.cpu_each) * 1e3, median(bare, lambda r: r.cpu_each) * 1e3
    event = median(watched, lambda r: r.cpu_each) * 1e6
    pairs = enumerate(zip(ours, bare, strict=True), 1)
    rows = "\n".join(f"| {n} | {o.rate:.0f} | {o.cpu_each * 1e3:.3f} | {b.rate:.0f} | {b.cpu_each * 1e3:.3f} |" for n, (o, b) in pairs)
    return f"""# Benchmarks

Written by `make bench`; do not edit. {platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()};
client, API server and etcd share the cores. Medians of {ROUNDS} rounds; the contenders of a comparison take turns on one server.

Other pages: the [controller](benchmarks-controller.md) against the bare limit of the server, and what a
[rank costs](benchmarks-engine.md) under `genericjob run`.

## The API port over HTTP

A real kube-apiserver with TLS. "Bare loop" is `http.client` with one connection per thread, the same ready bodies, and nothing else:
no retries, no decoding of the answer, no errors, no token.

| what | port | bare loop | aim |
|---|---:|---:|---:|
| pods created per second, {CONNECTIONS} connections | {median(ours, lambda r: r.rate):.0f} | {median(bare, lambda r: r.rate):.0f} | |
| ratio of the rates (median of pairs) | {ratio:.2f} | 1 | ≥ 0.95 |
| client CPU per create | {cpu:.3f} ms | {bare_cpu:.3f} ms | ≤ 0.30 ms |
| client CPU per watch event ({size / 1024:.1f} KiB of JSON, {EVENTS} events) | {event:.1f} µs | | ≤ 25 µs |
| for comparison: `json.loads` of one event, no network | | {yardstick:.1f} µs | |
| events per second, one watch (the server is the limit) | {median(watched, lambda r: r.rate):,.0f} | | |

| creates, round | port: pods/s | port: CPU ms | bare: pods/s | bare: CPU ms |
|---:|---:|---:|---:|---:|
{rows}

## Slim objects

| what | figure | aim |
|---|---:|---:|
| bytes per cached pod, its key and place in the cache included ({CACHED:,} pods) | {cached:.0f} | ≤ 1,536 |

## The API in memory

One thread; {IN_MEMORY:,} pods in the store, {memory.resident:.0f} MiB resident with them.

| operation | per second | aim |
|---|---:|---:|
| create, read and status patch in turn, small objects | {memory.things.rate:,.0f} | ≥ 20,000 |
| create, read and status patch in turn, pods | {memory.pods.rate:,.0f} | ≥ 20,000 |
| create a pod | {memory.created.rate:,.0f} | |
| read a pod | {memory.read.rate:,.0f} | |
| patch a pod's status | {memory.written.rate:,.0f} | |
"""


def main() -> None:
    """Measure everything and write the page."""
    console.print("This takes some minutes; nothing else should run on this machine meanwhile.")
    memory = in_memory()
    with Plane.up(f"bench-{os.getpid()}", owner=os.getpid()) as plane:
        credentials = from_kubeconfig(str(plane.kubeconfig))
        api = HttpApi(credentials, timeouts=Timeouts(write=30))
        ours, bare = creates(api, credentials.current)
        namespace = running_pods(api, EVENTS)
        watched, size = events(api, namespace)
        yardstick = json_loads(api, namespace)
        cached = cached_pods(api, namespace)
    PAGE.write_text(page(ours, bare, watched, size, cached, memory, yardstick))
    console.print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main()
