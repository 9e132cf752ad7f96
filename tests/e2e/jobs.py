"""Jobs on a real control plane, as end-to-end tests make them, run them and look at them."""

from itertools import count

from genericjob.api.names import API_VERSION, GROUP, KIND
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import EVENTS, RAW_PODS, RAW_SERVICES, Key
from harness.clusters import eventually
from harness.definitions import GENERIC_JOBS

CONTAINER = {"name": "main", "image": "app:1"}
FINALIZER = "genericjob.test/hold"


def a_job(name, *types, **spec):
    """A manifest; without types it has one worker."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"replicaSpecs": [*types] or [replicas()], **spec}}


def replicas(number=1, type="worker", **container):
    """A type of replicas; keywords are fields of its container."""
    return {"type": type, "replicas": number, "template": {"spec": {"containers": [CONTAINER | container]}}}


def restarts(policy="OnFailure", limit=None, **more):
    """What a type says of restarts: `replicas(2) | restarts("OnFailure", 3)`."""
    return {"restartPolicy": {"policy": policy} | ({} if limit is None else {"limit": limit}) | more}


def counts(**phases):
    """The aggregate, where what is not named is 0."""
    return dict.fromkeys(("creating", "pending", "running", "succeeded", "failed", "unknown", "deleted"), 0) | phases


def uid(pod):
    return pod["metadata"]["uid"]


def marks(pod):
    """What the controller noted on a pod: the epoch, the attempt, the charge."""
    return {name.removeprefix(f"{GROUP}/"): value for name, value in pod["metadata"]["annotations"].items() if name.startswith(GROUP)}


class Job:
    """One job: what the server has of it, and its pods on a stand-in node."""

    def __init__(self, server, node, body):
        self.server, self.node = server, node
        self.name, self.uid = body["metadata"]["name"], body["metadata"]["uid"]
        self.key = Key(body["metadata"]["namespace"], self.name)

    # -------------------------------------------------------------------------------------------- what the server has

    @property
    def body(self):
        return self.server.get(GENERIC_JOBS, self.key)

    @property
    def status(self):
        return self.body.get("status", {})

    @property
    def phase(self):
        return self.status.get("phase")

    @property
    def aggregate(self):
        return self.status.get("aggregate")

    def task(self, type="worker"):
        """What its status says of a type."""
        return next((each for each in self.status.get("tasks", ()) if each["type"] == type), {})

    @property
    def conditions(self):
        """Type → status, reason and message."""
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in self.status.get("conditions", ())}

    @property
    def pods(self):
        """Its own pods by name: those that it owns, whatever their labels."""
        return self._owned(RAW_PODS)

    @property
    def services(self):
        return self._owned(RAW_SERVICES)

    @property
    def events(self):
        """What was told about it, by reason: how often, and in which words."""
        found = self.server.list(EVENTS, self.key.namespace, fields=f"involvedObject.uid={self.uid}").items
        told = {}
        for each in found:
            told.setdefault(each["reason"], []).append((each["count"], each["message"]))
        return told

    @property
    def exists(self):
        try:
            return self.body["metadata"]["uid"] == self.uid
        except ApiError as error:
            if not error.not_found:
                raise
        return False

    def _owned(self, resource):
        found = self.server.list(resource, self.key.namespace).items
        return {each["metadata"]["name"]: each for each in found if self.uid in owners(each)}

    # -------------------------------------------------------------------------------------------- waiting

    def becomes(self, phase):
        """Wait for a phase, and return the status."""
        eventually(lambda: self.phase == phase)
        return self.status

    def has_services(self, number):
        """Wait until there are so many, which are created side by side with the pods, and return them."""

        def enough():
            found = self.services
            assert len(found) == number, f"{self.key} has {len(found)} services, not {number}"
            return found

        return eventually(enough)

    def has_pods(self, number):
        """Wait until there are so many, none of them on its way out, and return them."""

        def enough():
            found = self.pods
            assert len(found) == number, f"{self.key} has {len(found)} pods, not {number}"
            assert not [name for name, pod in found.items() if "deletionTimestamp" in pod["metadata"]]
            return found or True

        return eventually(enough)

    def told(self, reason):
        """Wait for events with a reason: how often, and in which words."""
        return eventually(lambda: self.events.get(reason))

    def successor(self, pod):
        """Wait until another pod has the name of one that was replaced, and return it."""
        name = pod["metadata"]["name"]

        def other():
            found = self.pods.get(name)
            return found if found and uid(found) != uid(pod) and "deletionTimestamp" not in found["metadata"] else None

        return eventually(other)

    # -------------------------------------------------------------------------------------------- what its user does

    def edit(self, **spec):
        """Change fields of its spec; None takes one away."""
        self.server.patch(GENERIC_JOBS, self.key, {"spec": spec})

    def pause(self):
        self.edit(runMode={"pause": {"enabled": True}})

    def resume(self):
        self.edit(runMode={"pause": {"enabled": False}})

    # -------------------------------------------------------------------------------------------- its pods

    def pod(self, rank, type="worker"):
        return Key(self.key.namespace, f"{self.name}-{type}-{rank}")

    def run(self, *ranks, type="worker"):
        for rank in ranks:
            self.node.run(self.pod(rank, type))

    def finish(self, rank, exit_code=0, *, type="worker", **how):
        self.node.finish(self.pod(rank, type), exit_code, **how)

    def run_again(self, pod):
        """Run the pod that takes the place of another, and return it."""
        new = self.successor(pod)
        self.node.run(uid(new))  # BY ITS UID: the node may not have forgotten the old one yet
        return new

    def fails_again(self, pod, exit_code=1, **how):
        """Have a pod end badly, and run the one that takes its place."""
        self.node.finish(uid(pod), exit_code, **how)
        return self.run_again(pod)

    def cling(self, rank, type="worker"):
        """Have a pod keep its name although it was deleted, until `release`: somebody's finalizer."""
        self.server.patch(RAW_PODS, self.pod(rank, type), {"metadata": {"finalizers": [FINALIZER]}})

    def release(self, rank, type="worker"):
        self.server.patch(RAW_PODS, self.pod(rank, type), {"metadata": {"finalizers": None}})


class Team:
    """A namespace, a controller that looks after it, and a node that runs what the test says."""

    def __init__(self, server, namespace, node):
        self.server, self.namespace, self.node = server, namespace, node
        self._numbers = count(1)

    def submit(self, body):
        """Create a job."""
        return Job(self.server, self.node, self.server.create(GENERIC_JOBS, body, self.namespace).object)

    def start(self, body):
        """Create a job and run all of its pods, until it says so of all; returns both, the pods by rank and type."""
        job = self.submit(body)
        specs = body["spec"]["replicaSpecs"]
        all = sum(each["replicas"] for each in specs)
        pods = job.has_pods(all)
        for each in specs:
            job.run(*range(each["replicas"]), type=each["type"])
        job.becomes("Running")
        eventually(lambda: job.aggregate["running"] == all)
        return job, [pods[job.pod(rank, each["type"]).name] for each in specs for rank in range(each["replicas"])]

    def find(self, name):
        """A job that somebody else created."""
        return Job(self.server, self.node, self.server.get(GENERIC_JOBS, Key(self.namespace, name)))

    def controller_is_up_to_date(self):
        """Return once the controller has seen all that happened so far: it tells of a pod that was created only now."""
        fence = self.submit(a_job(f"fence-{next(self._numbers)}"))
        eventually(lambda: fence.aggregate and not fence.aggregate["creating"])


def owners(found):
    return [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
