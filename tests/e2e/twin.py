"""The scenarios of the simulation on a real control plane: the same scripts, with real time, real connections and a stand-in for kubelets.

What a script asks of `sim.jobs.Cluster` it finds here: users' deeds go to the server, programs are played by nodes, and faults are made by
the proxy between the controller and its server. Each scenario has a namespace for itself, so that many are played at the same time before
one controller. Seconds of a script are shorter here (`scale`); a controller's own times (back-off, leases) are what they are.
"""

import threading
import time
from contextlib import suppress
from functools import partial

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, RAW_PODS, Key
from harness.clusters import eventually
from harness.definitions import GENERIC_JOBS, establish
from harness.kubelet import Machine, Shutdown
from harness.kubelet.disruptions import evict
from harness.kubelet.pods import STRATEGIC_MERGE_PATCH
from sim.jobs import NAMESPACE, Cluster
from sim.node import UNSCHEDULABLE

PATIENCE = 120.0
"""Seconds that a script waits for anything."""
SHORT = 5.0
"""Seconds of a program that are never made fewer."""
BRIEF = 2.0
"""Seconds of a program that ends whether anybody has seen it run or not."""
UNSEEN = 40.0
"""Seconds that a program goes on for a controller that says nothing of it: longer than any answer is withheld."""
SCHEDULER = "twin"
"""Pods name it, so that the real one leaves them to us."""


class NotReachedError(AssertionError):
    """What a script waits for did not come."""


class Theatre:
    """Watches what happens on the server, and has it played: one for all scenarios."""

    def __init__(self, world, proxy):
        self.world, self.proxy, self.api = world, proxy, world.cluster.api()
        self.closing = threading.Event()
        self.shared = world.nodes.add(machine=Machine(pods=2000), brisk=True)
        self._stages = {}
        self._watches = []
        for resource in (RAW_PODS, GENERIC_JOBS):
            threading.Thread(target=self._follow, args=(resource,), daemon=True).start()

    def stage(self, scenario, scale, lonely):
        """A namespace for one scenario."""
        namespace = self.world.namespace()
        stage = self._stages[namespace] = Twin(self, namespace, scenario.programs, scale, lonely)
        return stage

    def _follow(self, resource):
        version = ""
        while not self.closing.is_set():
            try:
                if not version:
                    page = self.api.list(resource)
                    version = page.resource_version
                    for item in page.items:
                        self._tell(resource, item)
                with self.api.watch(resource, resource_version=version) as watch:
                    self._watches.append(watch)
                    for event in watch:
                        if event.object is not None:
                            self._tell(resource, event.object)
                    version = watch.resource_version
            except ApiError:
                version = ""

    def _tell(self, resource, item):
        stage = self._stages.get(item["metadata"]["namespace"])
        if stage is not None:
            if resource is RAW_PODS:
                stage.node.look(item)
                stage.hear()
            else:
                stage.hear(_running(item))

    def close(self):
        self.closing.set()
        for watch in self._watches:
            watch.close()


class Twin(Cluster):
    """What a script sees of the world. Users' deeds are inherited."""

    def __init__(self, theatre, namespace, script, scale, lonely):  # NOT super().__init__(): there is no simulation behind it
        self.namespace, self.scale = namespace, scale
        self.api = Here(theatre, namespace)
        self.faults = theatre.proxy.faults(namespace)
        self.faults.cut_watches = theatre.proxy.cut_watches
        self.node = Nodes(theatre, self, script, lonely)
        self.stepped = Clock(self)
        self._news = threading.Condition()
        self._heard, self._told = 0, set()

    def submit(self, name="train", namespace=NAMESPACE, **spec):
        """Create a job; its times are scaled."""
        container = {"name": "main", "image": "i", "command": ["run", "$(rank)"]}
        grace = max(1, round(30 * self.scale))
        template = {"spec": {"containers": [container], "schedulerName": SCHEDULER, "terminationGracePeriodSeconds": grace}}
        times = {
            field: max(1, round(spec[field] * self.scale))
            for field in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
            if field in spec
        }
        return super().submit(name, namespace, template=template, **spec | times)

    def reach(self, predicate, *, within=PATIENCE):
        """Wait until this holds; asked when there is something new, and now and then."""
        deadline = time.monotonic() + within
        while True:
            heard = self._heard
            if predicate():
                return
            if time.monotonic() > deadline:
                raise NotReachedError(
                    f"not within {within:g} s: the job is {self.phase() or 'not there'}, pods {self.pods()}, {self.status()}"
                )
            with self._news:
                self._news.wait_for(lambda heard=heard: self._heard != heard, 1.0)
            time.sleep(0.05)

    def hear(self, running=frozenset()):
        """Something happened in our namespace; a job may tell which pods run."""
        with self._news:
            self._heard += 1
            self._told |= running
            self._news.notify_all()

    def wait_told(self, uid, over):
        """Until a job's status has told that this pod runs, or that does not matter any more."""
        deadline = time.monotonic() + UNSEEN
        with self._news:
            while uid not in self._told and not over() and time.monotonic() < deadline:
                self._news.wait(1.0)


def _running(job):
    """Which pods run, in the words of the controller."""
    replicas = (replica for task in job.get("status", {}).get("tasks", ()) for replica in task.get("replicas", ()))
    return {replica["uid"] for replica in replicas if replica["phase"] == "Running"}


class Clock:
    """Time passes by itself here."""

    def __init__(self, twin):
        self._twin = twin

    def advance(self, seconds):
        time.sleep(seconds * self._twin.scale)

    def reach(self, predicate, *, within=PATIENCE):
        self._twin.reach(predicate, within=min(within, PATIENCE))

    run = reach


class Here:
    """The API, with one namespace in the place of that of the scripts."""

    def __init__(self, theatre, namespace):
        self._api, self._namespace, self._proxy, self._plane = theatre.api, namespace, theatre.proxy, theatre.world.plane
        self.cut_watches, self.lag, self.catch_up = self._proxy.cut_watches, self._proxy.lag, self._proxy.catch_up
        self.compact = self._plane.compact

    def get(self, resource, key):
        return self._api.get(resource, self._key(key))

    def list(self, resource):
        return self._api.list(resource, self._namespace)

    def create(self, resource, body, namespace=""):
        if resource is CUSTOM_RESOURCE_DEFINITIONS:  # all scenarios share it
            return establish(self._api, body)
        return self._api.create(resource, body, self._namespace if namespace == NAMESPACE else namespace)

    def patch(self, resource, key, body, **more):
        return self._api.patch(resource, self._key(key), body, **more)

    def delete(self, resource, key, **more):
        return self._api.delete(resource, self._key(key), **more)

    def _key(self, key):
        return Key(self._namespace, key.name) if key.namespace == NAMESPACE else key


class Table:
    """Who ran, by the nodes' own knowledge."""

    def __init__(self, lives, namespace):
        self._lives, self._namespace = lives, namespace

    def of(self, name):
        return [life for life in list(self._lives) if life.key == Key(self._namespace, name)]

    def runs(self, name):
        return len(self.of(name))

    def running(self, name):
        return any(life.ended is None for life in self.of(name))


class Nodes:
    """The scheduler and the kubelets of one scenario. Where nodes are lost (`lonely`) each rank has one for itself."""

    def __init__(self, theatre, twin, script, lonely):
        self._theatre, self._twin, self._script, self._lonely = theatre, twin, script, lonely
        self._all, self._api = theatre.world.nodes, theatre.api
        self.table = Table(self._all.lives, twin.namespace)
        self._own, self._lost, self._seen = {}, [], set()

    # -------------------------------------------------------------------------------------------- what scripts do

    def lose(self, *names):
        for name in names:
            self._own[name].lose()
            self._lost.append(name)

    def back(self):
        for name in self._lost:
            self._own[name].come_back()
        self._lost = []

    def removed(self):
        """The machine burns, and somebody tells the server."""
        for name in self._lost:
            node = self._own.pop(name)
            for instance in node.pods.all():
                with instance.changed:
                    instance.kill(137)
            node.delete_node()
        self._lost = []

    def disrupt(self, name):
        evict(self._api, Key(self._twin.namespace, name))

    def kill(self, name, exit_code=137):
        (life,) = [life for life in self.table.of(name) if life.ended is None]
        self._all.of(life.uid).finish(life.uid, exit_code)

    # -------------------------------------------------------------------------------------------- what happens by itself

    def look(self, pod):
        """Each pod has a thread that plays it."""
        meta = pod["metadata"]
        if meta["uid"] not in self._seen and "deletionTimestamp" not in meta:
            self._seen.add(meta["uid"])
            program = self._script(meta["name"], self.table.runs(meta["name"]))
            threading.Thread(target=self._play, args=(meta["name"], meta["uid"], program, "nodeName" in pod["spec"]), daemon=True).start()

    def _play(self, name, uid, program, bound):
        with suppress(ApiError, AssertionError, ValueError, TypeError):  # it was taken away meanwhile
            key = Key(self._twin.namespace, name)
            if program.waits and program.why == "Unschedulable":
                patch = {"metadata": {"uid": uid}, "status": {"conditions": [UNSCHEDULABLE]}}
                self._api.request("PATCH", RAW_PODS.path(*key, "status"), body=patch, content=STRATEGIC_MERGE_PATCH)
                self._sleep(program.waits)
            node = self._all.of(uid) if bound else self._bound(key, uid)
            instance = eventually(lambda: node.pods.find(uid), within=20.0)
            with instance.changed:
                instance.shutdown = Shutdown(after=program.stops * self._twin.scale, exit_code=program.stops_with)
            if program.waits and program.why != "Unschedulable":
                node.stick(uid, program.why)
                self._sleep(program.waits)
            self._run(node, uid, program)

    def _bound(self, key, uid):
        node = self._own.get(key.name) if self._lonely else self._theatre.shared
        if node is None:
            node = self._own[key.name] = self._all.add(machine=Machine(pods=10), brisk=True)
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": key.name, "uid": uid}}
        self._api.request("POST", RAW_PODS.path(*key, "binding"), body=body | {"target": {"kind": "Node", "name": node.name}})
        return node

    def _run(self, node, uid, program):
        """Seconds of all but the briefest begin when the controller has told of it: what a script waits for must not be over before."""
        stopping = partial(self._stopping, node, uid)
        if stopping():
            return
        node.run(uid)
        self._twin.hear()
        if program.exit_code is None and not program.taken:
            return
        if program.seconds > BRIEF:
            self._twin.wait_told(uid, lambda: stopping() or self._theatre.closing.is_set())
        self._sleep(program.seconds)
        if stopping():
            return
        if program.taken:
            node.evict(uid, disruption=program.taken == "Disrupted")
        else:
            node.finish(uid, program.exit_code)

    def _stopping(self, node, uid):
        try:
            return node.pods.find(uid).stopping
        except AssertionError:  # it is gone
            return True

    def _sleep(self, seconds):
        """What is short is not shortened: a controller has to see it."""
        self._theatre.closing.wait(seconds if seconds <= SHORT else max(SHORT, seconds * self._twin.scale))
