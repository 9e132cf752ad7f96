"""Jobs on a real control plane, as end-to-end tests make them, run them and look at them."""

from itertools import count

from genericjob.api.names import API_VERSION, KIND
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import EVENTS, RAW_PODS, RAW_SERVICES, Key
from harness.clusters import eventually
from harness.definitions import GENERIC_JOBS

CONTAINER = {"name": "main", "image": "app:1"}


def a_job(name, *types, **spec):
    """A manifest; without types it has one worker."""
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"replicaSpecs": [*types] or [replicas()], **spec}}


def replicas(number=1, type="worker", **container):
    """A type of replicas; keywords are fields of its container."""
    return {"type": type, "replicas": number, "template": {"spec": {"containers": [CONTAINER | container]}}}


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

    # -------------------------------------------------------------------------------------------- its pods

    def pod(self, rank, type="worker"):
        return Key(self.key.namespace, f"{self.name}-{type}-{rank}")

    def run(self, *ranks, type="worker"):
        for rank in ranks:
            self.node.run(self.pod(rank, type))

    def finish(self, rank, exit_code=0, *, type="worker"):
        self.node.finish(self.pod(rank, type), exit_code)


class Team:
    """A namespace, a controller that looks after it, and a node that runs what the test says."""

    def __init__(self, server, namespace, node):
        self.server, self.namespace, self.node = server, namespace, node
        self._numbers = count(1)

    def submit(self, body):
        """Create a job."""
        return Job(self.server, self.node, self.server.create(GENERIC_JOBS, body, self.namespace).object)

    def find(self, name):
        """A job that somebody else created."""
        return Job(self.server, self.node, self.server.get(GENERIC_JOBS, Key(self.namespace, name)))

    def controller_is_up_to_date(self):
        """Return once the controller has seen all that happened so far: it tells of a pod that was created only now."""
        fence = self.submit(a_job(f"fence-{next(self._numbers)}"))
        eventually(lambda: fence.aggregate and not fence.aggregate["creating"])


def owners(found):
    return [owner["uid"] for owner in found["metadata"].get("ownerReferences", ())]
