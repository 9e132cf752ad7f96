"""A control plane for one module alone, whose server, audit log and controllers nobody else touches."""

import base64
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import msgspec
import pytest
import yaml

from e2e.jobs import Job, a_job, replicas
from harness.audit import Audit
from harness.clusters import Namespaces, eventually, started
from harness.configurations import Server
from harness.controllers import USER, ControllerProcess, account_kubeconfig, grant
from harness.definitions import GENERIC_JOBS, install
from harness.kubelet import Machine, Nodes

LEASE = "genericjob-controller"
LINES = 60
"""How much of each controller's log is shown with a test that failed."""
WRITERS = 8
"""Pods that end at the same time."""


@contextmanager
def apart(request, name):
    """A world that lives as long as the block."""
    if request.config.getoption("kubeconfig"):
        pytest.skip("needs a control plane of its own; --kubeconfig names a cluster that belongs to others")
    with started(f"{name}-{os.getpid()}") as cluster, ExitStack() as stack:
        api, nodes = cluster.api(), Nodes(cluster.api)
        stack.callback(nodes.close, clean_up=False)
        pool = stack.enter_context(ThreadPoolExecutor(WRITERS))
        install(api)
        grant(api)
        yield World(cluster, api, nodes, nodes.add(machine=Machine(pods=2000), automatic=True, brisk=True), pool)


class World:
    """A control plane with our kind, our roles, and a node that runs every pod at once; pods end when the test says so."""

    def __init__(self, cluster, api, nodes, node, pool):
        self.cluster, self.api, self.nodes, self.node, self._pool = cluster, api, nodes, node, pool
        self.plane, self.audit = cluster.plane, Audit(cluster.plane.audit_log, api)
        self._begun = {}
        """Where in the audit log the story of a namespace begins."""

    def namespace(self):
        """A fresh one."""
        here = self.audit.here
        made = Namespaces(self.api).make()
        self._begun[made] = here
        return made

    def submit(self, namespace, name, ranks, **spec):
        """Create a job of so many workers."""
        body = a_job(name, replicas(ranks), **spec)
        return Squad(self.api, self.node, self.api.create(GENERIC_JOBS, body, namespace).object)

    @contextmanager
    def contenders(self, directory, number=2, port=None):
        """So many controllers, the leader first; they come to a good end, but for those that the test has ended."""
        with ExitStack() as stack:
            configs = [account_kubeconfig(self.cluster, self.api, directory / f"config-{n}") for n in range(number)]
            for config in configs if port else ():
                config.write_text(config.read_text().replace(f":{Server(config).port}", f":{port}"))
            here = self.audit.here
            all = [stack.enter_context(Contender(config, directory / f"log-{n}", since=here)) for n, config in enumerate(configs)]
            for each in all:
                each.wait_ready()
            leader = eventually(lambda: [each for each in all if each.leads])[0]
            try:
                yield [leader, *(each for each in all if each is not leader)]
            finally:
                for each in all:
                    lines = each.log.splitlines()[-LINES:]
                    print(f"---- {'the first leader' if each is leader else 'another'}, {each.log_file}", *lines, sep="\n")
            living = sorted((each for each in all if each.exit_code is None), key=lambda each: each.leads)
            assert {each.terminate() for each in living} <= {0}
            assert not any("Traceback" in each.log for each in all)

    def statuses(self, namespace, *fields):
        """The fields asked for of every job's status, by its name."""
        found = self.api.list(GENERIC_JOBS, namespace).items
        return {each["metadata"]["name"]: tuple(each.get("status", {}).get(field) for field in fields) for each in found}

    def neighbour(self, ranks=1):
        """Create a small job in a namespace of its own, and see it succeed; its `waited` is how long it waited for its first pod."""
        namespace, since = self.namespace(), self.audit.here
        job = self.submit(namespace, "neighbour", ranks)
        self.run(job)
        self.end(job.keys).kept()
        job.becomes("Succeeded")
        made = [each for each in self.audit.writes(since=since, namespace=namespace) if each.verb == "create" and each.succeeded]
        began = next(each.answered for each in made if each.resource == "genericjobs")
        job.waited = (min(each.answered for each in made if each.resource == "pods") - began).total_seconds()
        return job

    # -------------------------------------------------------------------------------------------- pods

    def running(self, namespace):
        """The pods that run, by the nodes' own table: the server is not asked."""
        return {life.key for life in list(self.nodes.lives) if life.ended is None and life.key.namespace == namespace}

    def run(self, *jobs):
        """Return once all pods of these jobs run."""
        wanted = {key for job in jobs for key in job.keys}
        eventually(lambda: wanted <= self.running(jobs[0].key.namespace))

    def end(self, keys, *, but=()):
        """Have pods that run end well, `but` for some; the promise that is returned is kept when the server knows of all."""
        failing = set(but)
        return Promise([self._pool.submit(self.node.finish, key, int(key in failing)) for key in keys])

    # -------------------------------------------------------------------------------------------- what is to be read in the audit log

    def instances(self, namespace):
        """Every pod that ever was, by name: the UIDs in their order, and the owner of each.

        The create of a client that dies before it is answered is in the log as one that failed, whatever came of it. So what nodes said
        of pods counts as well.
        """
        found = {}
        for each in self._asked_for(namespace):
            if each.succeeded and each.verb != "delete" and each.resource in ("pods", "pods/status"):
                found.setdefault(each.name, {}).setdefault(each.uid, each.owner_uid)
        return found

    def removed(self, namespace):
        """UIDs of the pods that nodes gave back."""
        deletes = (each for each in self._asked_for(namespace, resource="pods") if each.succeeded and each.verb == "delete")
        return {each.sent["preconditions"]["uid"] for each in deletes if each.sent and each.sent.get("gracePeriodSeconds") == 0}

    def verbs(self, namespace):
        """What controllers did to pods, or tried to."""
        return {each.verb for each in self._asked_for(namespace, user=USER, resource="pods")}

    def _asked_for(self, namespace, **which):
        return self.audit.writes(since=self._begun[namespace], namespace=namespace, **which)

    def writes(self, contender):
        """What one controller wrote, or tried to."""
        return [each for each in self.audit.writes(since=contender.since, user=USER) if each.credential == contender.credential]


class Squad(Job):
    """A job of workers only."""

    def __init__(self, server, node, body):
        super().__init__(server, node, body)
        (workers,) = body["spec"]["replicaSpecs"]
        self.keys = [self.pod(rank) for rank in range(workers["replicas"])]
        """Of the pods that it is to have."""
        self.waited = None
        """Seconds from the answer to its creation to the answer to that of its first pod, by the server's audit log."""


class Promise:
    """Something that goes on in other threads."""

    def __init__(self, futures):
        self._futures = futures

    def kept(self):
        """Wait until all is done."""
        for future in self._futures:
            future.result()


class Contender(ControllerProcess):
    """A controller among several, which the audit log can tell apart."""

    def __init__(self, config, log, *, since):
        super().__init__(config, log, "--leader-elect")
        self.credential, self.since = _credential(config), since

    @property
    def leads(self):
        return self.exit_code is None and self.metric("leader_election_master_status") == 1


def _credential(config):
    """The mark of a kubeconfig's token in the audit log."""
    (user,) = yaml.safe_load(config.read_text())["users"]
    claims = user["user"]["token"].split(".")[1]
    return f"JTI={msgspec.json.decode(base64.urlsafe_b64decode(claims + '=='))['jti']}"
