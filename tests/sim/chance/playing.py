"""Playing a schedule: each kind of step is a method of `Run`.

Every step can be played at any time, or be left out: what makes no sense at the moment (a job that is not there, a pod that does not run)
does nothing. So a schedule stays one when it is made smaller.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

from genericjob.api.names import ATTEMPT_ANNOTATION, COMPONENT, COMPONENT_LABEL, EPOCH_ANNOTATION, JOB_LABEL, PAUSE_PHASES
from genericjob.api.spec import parse
from genericjob.jobs.podgroups import POD_GROUPS
from genericjob.reconcile.api import Propagation
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.passing import WRITES, Call, Verb
from genericjob.reconcile.resources import CUSTOM_RESOURCE_DEFINITIONS, RAW_PODS, RAW_SERVICES, Key
from harness import podgroups
from sim.chance.controllers import Controllers
from sim.chance.coverage import mode_of
from sim.chance.hostile import Hostile
from sim.chance.schedules import Schedule
from sim.chance.trouble import ERRORS, RESOURCES
from sim.hostile_bytes import PLAIN, UNSALVAGEABLE
from sim.jobs import NAMESPACE, RAW_JOBS
from sim.node import FOREVER, Program
from sim.undecodable import UNUSUAL

LIMIT = 30_000
"""Steps of the scheduler; a run that takes more of them without any time passing is one without end."""
LATEST = 8.0
"""Seconds that a user waits to see something."""


class Run(Controllers):
    """One run of a schedule, whoever leads."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.others: dict[tuple[str, str], dict[str, Any]] = {}
        """What other writers have stored last, by the UID of the job and the type of the condition."""
        super().__init__(Hostile(schedule.seed, self._program), schedule.latency)

    # -------------------------------------------------------------------------------------------- users

    def submit(self, name: str = "train", **spec: Any) -> None:
        """A user creates a job, perhaps under a name that was used before."""
        with suppress(ApiError):
            self.cluster.submit(name, **spec)

    def edit(self, name: str = "train", **spec: Any) -> None:
        """A user changes something."""
        with suppress(ApiError):
            self.cluster.edit(name, **spec)

    def policy(self, name: str = "train", **policy: Any) -> None:
        """A user changes the restart policy of all types."""
        if job := self._job(name):
            self.edit(name, replicaSpecs=[{**part, "restartPolicy": policy} for part in job["spec"]["replicaSpecs"]])

    def resize(self, name: str = "train", **types: int) -> None:
        """A user changes the numbers of replicas. The server allows it only while the job is paused and says so."""
        job = self._job(name)
        if job and parse(job["spec"]).paused and job.get("status", {}).get("phase") in PAUSE_PHASES:
            specs = job["spec"]["replicaSpecs"]
            self.edit(name, replicaSpecs=[{**part, "replicas": types.get(part["type"], part.get("replicas", 1))} for part in specs])

    def delete(self, name: str = "train", how: Propagation = "Background") -> None:
        """A user deletes a job."""
        with suppress(ApiError):
            self.api.delete(RAW_JOBS, Key(NAMESPACE, name), propagation=how)

    def delete_pod(self, name: str) -> None:
        """A user deletes a pod, or a preempting scheduler."""
        self._hit("pod deleted", name)
        with suppress(ApiError):
            self.cluster.delete_pod(name)

    def delete_service(self, name: str) -> None:
        """A user deletes a service."""
        with suppress(ApiError):
            self.api.delete(RAW_SERVICES, Key(NAMESPACE, name))

    def condition(self, name: str = "train", **condition: str) -> None:
        """Another writer, such as a queueing system, stores a condition of its own."""
        self._hit("condition of others", name)
        with suppress(ApiError):
            job, stored = self.cluster.add_condition(name=name, **condition)
            self.others[job, stored["type"]] = stored

    def flip(self, name: str = "train", times: int = 4, every: float = 1.0, type: str = "QuotaReserved") -> None:
        """Another writer changes its mind about its condition again and again."""
        for number in range(times):
            change = partial(self.condition, name=name, type=type, status=("True", "False")[number % 2])
            self.cluster.agenda.after(every * number, change)

    def intrude(self, resource: str, name: str) -> None:
        """Another writer creates an object under the name and with the labels of one of ours, and with senseless annotations."""
        self._hit(f"{resource} of others", name)
        job = name.rsplit("-", 2)[0]
        meta = {
            "name": name,
            "labels": {COMPONENT_LABEL: COMPONENT, JOB_LABEL: job},
            "annotations": {EPOCH_ANNOTATION: "9" * 30, ATTEMPT_ANNOTATION: "-1", "test.dev/odd": UNUSUAL},
        }
        pod = {"containers": [{"name": "main", "image": "i"}]}
        spec = pod if resource == "pods" else {"clusterIP": "None", "ports": [{"port": 80}]}
        with suppress(ApiError):
            self.api.create(RESOURCES[resource], {"metadata": meta, "spec": spec}, NAMESPACE)

    def install(self) -> None:
        """An administrator installs the T9k scheduler."""
        with suppress(ApiError):
            self.api.create(CUSTOM_RESOURCE_DEFINITIONS, podgroups.definition())

    # -------------------------------------------------------------------------------------------- pods and nodes

    def kill(self, name: str, exit_code: int = 137) -> None:
        """A program ends."""
        if self.node.table.running(name):
            self._hit("program ended", name)
            self.node.kill(name, exit_code)

    def drain(self, name: str) -> None:
        """A pod is evicted, for the sake of others."""
        if self.node.table.running(name):
            self._hit("eviction", name)
            with suppress(ApiError):
                self.node.disrupt(name)

    def lose(self, name: str) -> None:
        """The node of a pod goes silent."""
        self._hit("node lost", name)
        self.node.lose(name)

    def back(self) -> None:
        """Lost nodes come back."""
        self.node.back()

    def burn(self) -> None:
        """Lost nodes do not come back."""
        self.node.removed()

    # -------------------------------------------------------------------------------------------- the server

    def refuse(self, code: int, verb: Verb, **which: Any) -> None:
        """Some calls are answered with an error, at once or after a while, and do not happen."""
        self.cluster.faults.refuse(ERRORS[code](verb in WRITES), verb, **self._which(f"{code or 'no answer'}", **which))

    def lose_answers(self, verb: Verb, **which: Any) -> None:
        """Some writes happen, and their answers are lost, which is known at once or after a while."""
        self.cluster.faults.lose(verb, **self._which("answer lost", **which))

    def slow(self, seconds: float) -> None:
        """Writes take so long, at most, from now on."""
        self._hit("slow server")
        self._latency = seconds
        for found in self.controllers:
            found.latency = seconds

    def slow_admission(self, seconds: float) -> None:
        """Creates of what jobs own take so long, at most, from now on: a webhook does."""
        self._hit("slow admission")
        self._admission = seconds
        for found in self.controllers:
            found.admission = seconds

    def slow_reads(self, seconds: float) -> None:
        """Answers to reads take so long, at most, from now on."""
        self._hit("slow reads")
        self._reading = seconds
        for found in self.controllers:
            found.reading = seconds

    def spoil(self, resource: str, name: str, seconds: float, how: str = PLAIN) -> None:
        """An object becomes one that controllers cannot decode, for a while."""
        if self.cluster.undecodable.spoil(RESOURCES[resource], Key(NAMESPACE, name), how):
            self._hit(f"{resource} unreadable", name)
            if resource == "pods":
                self.cluster.oracle.hide(name, entirely=how in UNSALVAGEABLE)
            self.cluster.agenda.after(seconds, self.cluster.undecodable.mend)

    # -------------------------------------------------------------------------------------------- streams

    def cut(self) -> None:
        """All watches end."""
        self._hit("watches cut")
        self.cluster.oracle.cut()

    def forget(self) -> None:
        """The server forgets the past, and all watches end: 410."""
        self._hit("history gone (410)")
        self.cluster.oracle.cut(forget=True)

    def bookmark(self, times: int = 1) -> None:
        """Watches tell how far they are, now and every other second, and nothing else where nothing happens."""
        self._hit("bookmarks")
        for number in range(times):
            self.cluster.agenda.after(2.0 * number, self.api.bookmark)

    def lag(self, resource: str, seconds: float, who: Literal["", "leader", "standby"] = "") -> None:
        """What happens to this resource is told later, to one controller or to all; of all resources if it is empty."""
        self._hit(f"{resource or 'all'} late" + (f" for the {who}" if who else ""))
        self._hold(resource, seconds, who)

    def behind(self, seconds: float, times: int = 1) -> None:
        """Watches go on at another server that is behind: they are silent until it has caught up, and it cannot list the newest state."""
        self._hit("server behind")
        self.cluster.faults.refuse(ERRORS[504](False), "list", times=times)
        self._hold("", seconds)
        self.cluster.oracle.cut()

    def _hold(self, resource: str, seconds: float, who: str = "") -> None:
        chosen = {"leader": [self.leader], "standby": [self.other] if self.other else []}.get(who, self.controllers)
        for plural in (resource,) if resource else ("pods", "services", "genericjobs"):
            for controller in chosen:
                controller.streams.hold(plural, seconds)

    def stutter(self, resource: str, seconds: float) -> None:
        """What happens to this resource is told twice."""
        self._hit("events twice")
        for controller in self.controllers:
            controller.streams.stutter(resource, seconds)

    # -------------------------------------------------------------------------------------------- time

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.stepped.advance(seconds, limit_steps=LIMIT)

    def until(self, mode: str, name: str = "train") -> None:
        """Wait to see a job in a mode, but not for ever."""
        asked, seen = "", False

        def shown() -> bool:
            nonlocal asked, seen
            if asked != self.api.resource_version:
                asked, job = self.api.resource_version, self._job(name)
                seen = job is not None and mode_of(job) == mode
            return seen

        self.stepped.advance(LATEST, until=shown, limit_steps=LIMIT)

    def heal(self) -> None:
        """Everything is well from now on, and users clean up what nobody owns."""
        cluster, self.calm = self.cluster, True
        cluster.faults.heal()
        cluster.undecodable.mend()
        self.slow(0.0)
        self.slow_admission(0.0)
        self.slow_reads(0.0)
        self._mend()
        self.node.back()
        self.stepped.advance(self.RECOVERY, limit_steps=LIMIT)
        if any((found["spec"].get("scheduler") or {}).get("t9kScheduler") for found in self.api.list(RAW_JOBS).items):
            self.install()
        for resource in (RAW_PODS, RAW_SERVICES, POD_GROUPS):
            with suppress(ApiError):
                for found in self.api.list(resource).items:
                    if not found["metadata"].get("ownerReferences") and found["metadata"]["name"] != "kubernetes":
                        self.api.delete(resource, Key(NAMESPACE, found["metadata"]["name"]))

    # -------------------------------------------------------------------------------------------- inside

    def _program(self, name: str, before: int) -> Program:
        """What a pod does. When all is healed it runs on, or ends well if that leads anywhere."""
        if not self.calm:
            return self.schedule.script(name, before)
        if not self.schedule.ends:
            return FOREVER
        for job in self.api.list(RAW_JOBS).items:
            for part in job["spec"]["replicaSpecs"]:
                if name.startswith(f"{job['metadata']['name']}-{part['type']}-"):
                    endless = (part.get("restartPolicy") or {}).get("policy") == "Always" or parse(job["spec"]).debugged
                    return FOREVER if endless else Program(3.0)
        return FOREVER

    def _job(self, name: str) -> dict[str, Any] | None:
        try:
            return self.api.get(RAW_JOBS, Key(NAMESPACE, name))
        except ApiError:
            return None

    def _which(self, fault: str, resource: str = "", times: int = 1, skip: int = 0, delay: float = 0.0) -> dict[str, Any]:
        return {"resource": RESOURCES.get(resource), "times": times, "skip": skip, "delay": delay, "when": self._noting(fault)}

    def _noting(self, fault: str) -> Callable[[Call], bool]:
        def note(call: Call) -> bool:
            self._hit(fault)
            return True

        return note
