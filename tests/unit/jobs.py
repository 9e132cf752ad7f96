"""Builders of jobs and pods for tests of pure decisions."""

from datetime import UTC, datetime, timedelta

from msgspec import structs

from genericjob.api.names import ATTEMPT_ANNOTATION, CHARGED_ANNOTATION, DEBUG_ANNOTATION, EPOCH_ANNOTATION, JobIdentity
from genericjob.api.spec import parse
from genericjob.api.status import GenericJobStatus
from genericjob.jobs.decide import decide
from genericjob.jobs.job import Design, Job
from genericjob.jobs.observe import observe
from genericjob.reconcile.objects import Container, Pod, Service

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
NAME, UID = "train", "job-uid"


def later(seconds):
    return NOW + timedelta(seconds=seconds)


class JobBuilder:
    """A job in the making: `a_job().type("worker", 4).success({"worker": [0]})`."""

    def __init__(self, name=NAME):
        self._name = name
        self._spec = {"replicaSpecs": []}
        self._status = GenericJobStatus()
        self._generation = 1

    def type(self, name, replicas=1, **fields):
        self._spec["replicaSpecs"].append({"type": name, "replicas": replicas, "template": {}, **fields})
        return self

    def success(self, *rules):
        return self.having(successRules=list(rules))

    def failure(self, *rules):
        return self.having(failureRules=list(rules))

    def having(self, **fields):
        self._spec.update(fields)
        return self

    def status(self, status):
        self._status = status
        return self

    def generation(self, number):
        self._generation = number
        return self

    def build(self):
        spec = parse(self._spec)
        return Job(JobIdentity("team", self._name, UID), self._generation, Design.of(self._name, spec), self._status)


def a_job(name=NAME):
    return JobBuilder(name)


def a_pod(
    name, phase="Running", *, exit_code=None, deleted=False, uid="", owner=UID, reason="", attempt=0, epoch=0, charged=None, **fields
):
    """A pod of a rank; `charged` are the restarts it knows of, all of its attempts if nothing is said."""
    if phase == "Failed" and exit_code is None:
        exit_code = 1
    if phase == "Succeeded":
        exit_code = 0
    state = {"Running": "running", "Pending": "waiting", "Succeeded": "terminated", "Failed": "terminated"}.get(phase, "")
    container = Container("main", state, "", "", exit_code if state == "terminated" else None, 0, None)
    notes = {EPOCH_ANNOTATION: epoch, ATTEMPT_ANNOTATION: attempt, CHARGED_ANNOTATION: attempt if charged is None else charged}
    pod = Pod(
        namespace="team",
        name=name,
        uid=uid or f"uid-of-{name}",
        resource_version="1",
        generation=1,
        labels={"genericjob": NAME},
        annotations={name: str(number) for name, number in notes.items()},
        owner_uid=owner,
        finalizers=(),
        created=NOW,
        deleted=NOW if deleted else None,
        node="n",
        phase=phase,
        reason=reason,
        message="",
        conditions=(),
        init_containers=(),
        containers=(container,),
    )
    return structs.replace(pod, **fields)


def debugged(pod):
    """The same, made to be debugged."""
    return structs.replace(pod, annotations={**pod.annotations, DEBUG_ANNOTATION: "true"})


def a_service(name):
    return Service("team", name, f"uid-of-{name}", "1", 1, {"genericjob": NAME}, {}, UID, (), NOW, None, "None", ())


def pods(job_name=NAME, **types):
    """`pods(worker=["Running", None, "Succeeded"])`: by rank; None means that there is none."""
    return [
        phase if isinstance(phase, Pod) else a_pod(f"{job_name}-{type}-{rank}", phase)
        for type, phases in types.items()
        for rank, phase in enumerate(phases)
        if phase is not None
    ]


def planned(builder, found=(), *, services=(), departed=(), now=NOW):
    """The plan for a job with these pods."""
    job = builder.build()
    return decide(job, observe(job, found, services=[a_service(name) for name in services], departed=departed), now)


def settled(builder, found=(), *, now=NOW, **more):
    """The job after its plan's status was stored."""
    return builder.status(planned(builder, found, now=now, **more).status)
