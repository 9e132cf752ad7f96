"""The pods of a type, compiled once, so that the body for a rank is a join of bytes.

The user's template is open: fields that we do not know pass, and so does what is malformed, because the API server refuses it in words that
name the field. What we decide ourselves is little:

- name, owner and the labels that we find our pods by; of the template's metadata only labels and annotations are copied, and ours win
- restartPolicy Never: a replica is started again as a new pod, so that a lost node and a failed process take the same way
- the scheduler, when the job names one
- enableServiceLinks false, unless the template sets it: a kubelet makes seven variables of each service with a cluster address, in every
  container of the namespace, and with some thousand such services no program starts any more
- what the first container starts with, when the job is debugged or goes on after a pause (see `modes.py`)

Each time that the template says otherwise there is a remark for its author. Variables are replaced in command, args and env values of
containers and init containers, nowhere else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from genericjob.api.names import (
    ATTEMPT_ANNOTATION,
    CHARGED_ANNOTATION,
    DEBUG_ANNOTATION,
    EPOCH_ANNOTATION,
    GROUP_LABEL,
    QUEUE_LABEL,
    ROLE_LABEL,
    T9K_SCHEDULER,
    JobIdentity,
    replica_name,
)
from genericjob.api.spec import GenericJobSpec, InvalidSpecError
from genericjob.templating import Scope, Stencil, parse, substitute

from . import owned
from .modes import mode_of

SERVICE_LINKS = "enableServiceLinks"
"""A kubelet's variables for all services of the namespace that have a cluster address; on unless a pod says otherwise."""
MARKED = ("rank", "epoch", "attempt", "charged")
"""What differs from pod to pod of a type."""


@dataclass(frozen=True)
class PodBodies:
    """The bodies of a type's pods."""

    stencil: Stencil
    unresolved: tuple[str, ...]
    """Variables that mean nothing in this job, as written; they were left as they are."""
    remarks: tuple[str, ...]
    """What of the template was not followed."""

    def body(self, rank: int, *, epoch: int, attempt: int, charged: int) -> bytes:
        """The pod of a rank, as it is sent."""
        return self.stencil.fill(b"%d" % rank, b"%d" % epoch, b"%d" % attempt, b"%d" % charged)


def compile_pods(
    *,
    job: JobIdentity,
    spec: GenericJobSpec,
    type: str,
    resumed: bool,
    host: Callable[[str, int], str],
    markers: tuple[str, str, str, str],
) -> PodBodies:
    """Make the pods of a type, all but the numbers; the markers must be new and unguessable (see `templating/stencil.py`)."""
    rank, epoch, attempt, charged = marks = tuple(owned.mark(what, marker) for what, marker in zip(MARKED, markers, strict=True))
    replicas = spec.replicas(type)
    if replicas is None:
        raise KeyError(type)
    filling = _Filling(scope_of(spec, type=type, rank=rank, host=host))
    overriding = _Overriding(type)
    ours = owned.metadata(job, replica_name(job.name, type, rank))
    ours["labels"] |= _scheduler_labels(job, spec, type)
    ours["annotations"] = {
        EPOCH_ANNOTATION: epoch,
        ATTEMPT_ANNOTATION: attempt,
        CHARGED_ANNOTATION: charged,
        # NOT THE TEMPLATE'S TO SAY: the end of a pod that carries it counts for nothing.
        DEBUG_ANNOTATION: "true" if spec.debugged else None,
    }
    template = mode_of(spec, type=type, resumed=resumed).applied(replicas.template)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": overriding.metadata(template.get("metadata"), ours),
        "spec": filling.spec(overriding.spec(_without_links(template.get("spec")), _decided(spec))),
    }
    try:
        stencil = owned.compiled(pod, *marks)
    except (TypeError, ValueError, RecursionError) as error:  # nested a thousand deep, or read from YAML that JSON has no words for
        raise InvalidSpecError(f"the template of type {type} cannot be written as JSON: {error}") from None
    return PodBodies(stencil, tuple(filling.unresolved), tuple(overriding.remarks))


def scope_of(spec: GenericJobSpec, *, type: str, rank: str, host: Callable[[str, int], str]) -> Scope:
    """What variables mean for a type of this job: hosts and ports only while the job has services."""
    service = spec.service if spec.service and spec.service.ports else None
    return Scope(
        type=type,
        rank=rank,
        replicas={each.type: each.replicas for each in spec.replica_specs},
        host=host if service else None,
        ports={port.name: port.port for port in service.ports} if service else {},
    )


def _decided(spec: GenericJobSpec) -> dict[str, str]:
    """Fields of a pod's spec that are the job's to decide."""
    if spec.scheduler and spec.scheduler.t9k_scheduler:
        return {"restartPolicy": "Never", "schedulerName": T9K_SCHEDULER}
    return {"restartPolicy": "Never"}


def _without_links(found: Any) -> Any:
    """Return the template's spec, with service links switched off where it does not mention them."""
    if found is not None and not isinstance(found, Mapping):
        return found
    spec = found or {}
    return spec if spec.get(SERVICE_LINKS) is not None else {**spec, SERVICE_LINKS: False}


def _scheduler_labels(job: JobIdentity, spec: GenericJobSpec, type: str) -> dict[str, str]:
    if not spec.scheduler or not spec.scheduler.t9k_scheduler:
        return {}
    return {GROUP_LABEL: job.name, QUEUE_LABEL: spec.scheduler.t9k_scheduler.queue, ROLE_LABEL: type}


class _Overriding:
    """Puts our fields over the template's, and remembers where they differed."""

    def __init__(self, type: str) -> None:
        self.remarks: list[str] = []
        self._type = type

    def metadata(self, found: Any, ours: dict[str, Any]) -> Any:
        """Our metadata, with the template's labels and annotations."""
        if found is None:
            found = {}
        if not isinstance(found, Mapping):
            return found
        labels = self._over(found.get("labels"), ours["labels"], "the label {name} is reserved")
        annotations = self._over(found.get("annotations"), ours["annotations"], "the annotation {name} is reserved")
        return {**ours, "labels": labels, "annotations": annotations}

    def spec(self, found: Any, ours: dict[str, str]) -> Any:
        """The template's spec, with what the job decides."""
        return self._over(found, ours, "{name} is {value} for the pods of this job")

    def _over(self, found: Any, ours: Mapping[str, str | None], why: str) -> Any:
        """Ours over what was found; None is a field that nobody may set."""
        if found is None:
            found = {}
        if not isinstance(found, Mapping):
            return found
        for name, value in ours.items():
            if found.get(name, value) not in (value, None):
                self.remarks.append(
                    f"template of type {self._type}: {why.format(name=name, value=value)}, the template's own value is not used"
                )
        return {name: value for name, value in {**found, **ours}.items() if value is not None or name not in ours}


class _Filling:
    """Fills in the texts of a template, and remembers the variables that meant nothing."""

    def __init__(self, scope: Scope) -> None:
        self.unresolved: dict[str, None] = {}
        self._scope = scope

    def spec(self, found: Any) -> Any:
        """A pod's spec."""
        return _each_field(found, {"initContainers": self._containers, "containers": self._containers})

    def _containers(self, found: Any) -> Any:
        fields = {"command": self._texts, "args": self._texts, "env": self._environment}
        return _each_item(found, lambda container: _each_field(container, fields))

    def _environment(self, found: Any) -> Any:
        return _each_item(found, lambda variable: _each_field(variable, {"value": self._text}))

    def _texts(self, found: Any) -> Any:
        return _each_item(found, self._text)

    def _text(self, found: Any) -> Any:
        if not isinstance(found, str):
            return found
        template = parse(found)
        if template.constant:
            return found
        filled = substitute(template, self._scope)
        self.unresolved.update(dict.fromkeys(filled.unresolved))
        return filled.text


# A template may have anything anywhere. What is not a list or an object where one belongs stays as it is: the API server will say so.


def _each_item(found: Any, change: Callable[[Any], Any]) -> Any:
    return [change(item) for item in found] if isinstance(found, list) else found


def _each_field(found: Any, changes: Mapping[str, Callable[[Any], Any]]) -> Any:
    """A changed copy: the template belongs to the cache."""
    if not isinstance(found, Mapping):
        return found
    return {**found, **{name: change(found[name]) for name, change in changes.items() if name in found}}
