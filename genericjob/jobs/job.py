"""A job as decisions see it: parsed, and with what follows from its spec alone."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import msgspec

from genericjob.api.names import NAME_LIMIT, JobIdentity, replica_name
from genericjob.api.rank_items import Mixed
from genericjob.api.spec import GenericJobSpec, InvalidSpecError, ReplicaSpec
from genericjob.api.status import GenericJobStatus
from genericjob.reconcile.structs import decoder

from .rules import Rules

PER_NAME, PER_MODEL, PER_RANGE = 64, 1_024, 64
"""Bytes in memory: of a text beside its characters, with its place in a tuple; of a model of the spec; of a range beside its text."""

_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


@dataclass(frozen=True, slots=True)
class Design:
    """What follows from a spec: made once per generation."""

    spec: GenericJobSpec
    rules: Rules
    replicas: Mapping[str, ReplicaSpec]
    """By type."""
    names: Mapping[str, tuple[str, ...]]
    """Names of pods by type, in the order of ranks."""
    lines: int
    """How long a list of all replicas would be: containers, or at least one per replica."""
    decoded_weight: int
    """The bytes that the spec takes at most once it is decoded with its templates, which are kept as JSON."""

    @classmethod
    def of(cls, job: str, spec: GenericJobSpec, *, decoded_weight: int = 0) -> "Design":
        """Work it out; raises InvalidSpecError for what admission should have refused."""
        names = {part.type: tuple(replica_name(job, part.type, rank) for rank in range(part.replicas)) for part in spec.replica_specs}
        if len(names) < len(spec.replica_specs):
            raise InvalidSpecError("spec.replicaSpecs: two of them have the same type")
        for number, part in enumerate(spec.replica_specs):
            if part.replicas and len(names[part.type][-1]) > NAME_LIMIT:
                name = names[part.type][-1]
                raise InvalidSpecError(
                    f"spec.replicaSpecs[{number}].type: the name {name} has {len(name)} characters, {NAME_LIMIT} is the most"
                )
        if spec.service and not _SERVICE_NAME.match(job):
            raise InvalidSpecError(
                f"metadata.name: {job} cannot be part of the name of a service: that has a-z, 0-9 and - and begins with a letter"
            )
        replicas = {part.type: part for part in spec.replica_specs}
        lines = sum(part.replicas * _containers(part) for part in spec.replica_specs)
        return cls(spec, Rules.of(spec), replicas, names, lines, decoded_weight)

    @property
    def weight(self) -> int:
        """The bytes of what is not in the text of the spec, at most: names by the thousand, and models with their defaults."""
        names = sum(len(found) * (PER_NAME + len(found[-1])) for found in self.names.values() if found)
        ports = len(self.spec.service.ports) if self.spec.service else 0
        rules = chain.from_iterable(rule.values() for rule in (*self.spec.success_rules, *self.spec.failure_rules))
        ranges = sum(len(items) for items in rules if isinstance(items, Mixed))
        return names + PER_MODEL * (4 + len(self.names) + ports) + PER_RANGE * ranges


class _Pod(msgspec.Struct):
    containers: list[msgspec.Raw] = []


class _Template(msgspec.Struct):
    """What is read of a template without decoding the rest."""

    spec: _Pod = msgspec.field(default_factory=_Pod)


_template = decoder(_Template)


def _containers(part: ReplicaSpec) -> int:
    try:
        return max(1, len(_template.decode(part.written_json or msgspec.json.encode(part.template)).spec.containers))
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError):  # whatever it is, a server would refuse the pod
        return 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job at one moment."""

    identity: JobIdentity
    generation: int
    design: Design
    status: GenericJobStatus

    @property
    def spec(self) -> GenericJobSpec:
        """What the user asked for."""
        return self.design.spec
