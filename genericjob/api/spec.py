"""The spec of a GenericJob, as users write it.

Tolerant where the API server is the judge (pod templates stay opaque: the server refuses what is wrong in them with its own words), strict
in what the controller itself reads. Field descriptions are what `kubectl explain` shows.

The CRD is made of these models (`crd.py`), so what the server needs to know beyond types stands here too: limits, because it works out the
worst case of every rule before it accepts one, and which lists are maps. Each limit is one that no job which can run will meet.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    field_validator,
)
from pydantic.alias_generators import to_camel

from . import ranges
from .names import MANAGER
from .rank_items import RANKS_PATTERN, Mixed, RankItem, rank_item

MAX_REPLICAS = ranges.MOST
"""Replicas of a job, of all its types together: what the status of one object has been measured to hold."""
MAX_TYPES = 128
"""With all exit codes in two lists of each, the dearest rule is at 85 % of what the server allows for one; all others are far below."""
MAX_TYPE_LENGTH = 59
"""A pod's name has 63 characters at most, and besides the type there are one of the job, two dashes and a digit."""
MAX_RULES = MAX_REPLICAS
"""Enough to say of each replica that the job fails with it."""
MAX_PORTS = 64
MAX_ADDRESSES = 1_000
"""Replicas of a job whose services have cluster addresses: a quarter of the addresses of a /20 service range."""
MAX_EXIT_CODES = 255
"""As many as there are, beside 0."""
MAX_SECONDS = 2**31 - 1
MAX_DEPTH = 100
"""Levels of lists and mappings in a spec; a pod template has about fifteen."""
TOO_DEEP = f"spec: it is nested too deeply, {MAX_DEPTH} levels are the most"
MAX_WORDS = 1_024
MAX_WORD_LENGTH = 131_072
"""Linux starts no program with a longer argument."""

LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
QUALIFIED_NAME = rf"({LABEL}(\.{LABEL})*/)?{LABEL_VALUE}"
DOMAIN_PREFIXED_PATH = rf"{LABEL}(\.{LABEL})*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
"""As batch/v1 wants managedBy to be: example.com/controller."""
PORT_NAME = "([0-9]-?)*[a-z](-?[a-z0-9])*"
"""An IANA service name: it has a letter, and no two dashes side by side."""
INT_OR_STRING = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}


class _Model(BaseModel):
    """Frozen, camel-cased in manifests, and blind to fields that a newer version may add."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")


BESIDE_OTHERS = "^[0-9]"
"""What an item is that does not stand alone: no word."""
WORDS_STAND_ALONE = [{"maxItems": 1}, {"items": {"pattern": BESIDE_OTHERS}}]
"""What the server asks of a rule's list, either of both.

NOT IN CEL, which works out the cost of each rule for the largest job that could be: 10,000 rules of 128 types of 10,000 ranks are a
thousand times the most that it allows, however cheap the question. For the same reason the server does not compare the two ends of a range;
one that is backwards names no rank, and a rule with it can never fire.
"""


def _items(found: tuple[RankItem, ...]) -> tuple[RankItem, ...]:
    """Refuse words beside other items; what has only numbers is left as it is."""
    if all(type(item) is int for item in found):
        return found
    if len(found) > 1 and (word := next((item for item in found if isinstance(item, str)), "")):
        raise ValueError(f"{word} stands beside other ranks, and has to stand alone")
    return Mixed(found)


def _map_by(*keys: str) -> dict[str, Any]:
    """A list that is a map: the server refuses two elements with the same keys, and old and new elements correspond by them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


_Item = Annotated[
    RankItem, PlainValidator(rank_item), WithJsonSchema(INT_OR_STRING | {"minimum": 0, "pattern": RANKS_PATTERN, "maxLength": 9})
]
Ranks = Annotated[tuple[_Item, ...], Field(max_length=MAX_REPLICAS, json_schema_extra={"anyOf": WORDS_STAND_ALONE}), AfterValidator(_items)]
Rule = Annotated[Mapping[str, Ranks], Field(max_length=MAX_TYPES)]
"""What is named of each type: numbers, ranges, or one word. All of it together."""
_NAMED = (
    "A rule maps types to lists of ranks: numbers (0) and ranges (0-99), or one of the words all (every rank of the type, however many "
    "there are) and any (at least one of them)."
)

TypeName = Annotated[str, Field(min_length=1, max_length=MAX_TYPE_LENGTH, pattern=f"^{LABEL}$")]
Words = Annotated[tuple[Annotated[str, Field(max_length=MAX_WORD_LENGTH)], ...], Field(max_length=MAX_WORDS)]
"""A command or its arguments."""


def _template(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """JSON of an object stays as it is: decoded, a template of a megabyte takes thirty to forty."""
    if not isinstance(value, msgspec.Raw):
        return check(value)
    return value if bytes(memoryview(value)[:1]) == b"{" else check(msgspec.json.decode(value))


def _decoded(template: Any) -> Any:
    if not isinstance(template, msgspec.Raw):
        return template
    try:
        return msgspec.json.decode(template)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidSpecError(f"spec.replicaSpecs: what is stored as a template cannot be read: {error}") from None


Template = Annotated[
    dict[str, Any],
    WrapValidator(_template),
    PlainSerializer(_decoded),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""What was read from YAML, or the JSON that is stored."""

ExitCodeList = Annotated[tuple[Annotated[int, Field(ge=1, le=255)], ...], Field(max_length=MAX_EXIT_CODES)]


class ExitCodes(_Model):
    """Ends of containers that are judged by their exit code."""

    never_restart: ExitCodeList = Field(
        default=(), description="A replica one of whose containers exits with one of these has failed for good."
    )
    not_charged: ExitCodeList = Field(
        default=(),
        description="A replica that fails with these codes alone is started again under every policy, and the limit is not charged.",
    )

    @field_validator("not_charged")
    @classmethod
    def _in_one_list_only(cls, found: tuple[int, ...], others: ValidationInfo) -> tuple[int, ...]:
        if both := sorted({*found} & {*others.data.get("never_restart", ())}):
            raise ValueError(f"{both[0]} is in neverRestart as well")
        return found


class RestartPolicy(_Model):
    """When a replica is started again."""

    policy: Literal["Never", "OnFailure", "Always"] = Field(default="OnFailure", description="Never, OnFailure (default) or Always.")
    limit: int | None = Field(
        default=None,
        ge=0,
        description="How often one replica, or with scope Job the whole job, is started again at most. Unset means 0, and no limit for "
        "the policy Always.",
    )
    scope: Literal["Replica", "Job"] = Field(
        default="Replica",
        description="What is started again when a replica fails: the replica (default), or all replicas of the job together.",
    )
    exit_codes: ExitCodes = Field(default=ExitCodes(), description="Exit codes that are judged differently.")

    @field_validator("scope")
    @classmethod
    def _ends_somehow(cls, found: str, others: ValidationInfo) -> str:
        """With both, the first replica that ends well would start all the others again."""
        if found == "Job" and others.data.get("policy") == "Always":
            raise ValueError("with the policy Always only a replica is started again, never the whole job")
        return found

    @property
    def most(self) -> int | None:
        """How many restarts are allowed; None is any number."""
        if self.policy == "Never":
            return 0
        return self.limit if self.limit is not None or self.policy == "Always" else 0


class ReplicaSpec(_Model):
    """Replicas of one type."""

    type: TypeName = Field(description="Name of this type of replica; part of the names of its pods and services.")
    replicas: int = Field(default=1, ge=0, le=MAX_REPLICAS, description="How many replicas there are; their ranks are 0 to replicas - 1.")
    restart_policy: RestartPolicy = Field(default=RestartPolicy(), description="When a replica is started again.")
    written_template: Template = Field(
        alias="template",
        default_factory=dict,
        description="The pod of a replica (core/v1 PodTemplateSpec). $(type), $(rank), $(replicas[T]), $(service.T[R].host) and "
        "$(service.port[P]) are replaced in command, args and env values of its containers.",
    )

    @property
    def template(self) -> dict[str, Any]:
        """The template. DECODED WHENEVER IT IS ASKED FOR and not kept, so that jobs at rest take the memory of their text alone."""
        found: dict[str, Any] = _decoded(self.written_template)
        return found

    @property
    def written_json(self) -> bytes:
        """The JSON that is kept of the template, if it was read from JSON."""
        return bytes(self.written_template) if isinstance(self.written_template, msgspec.Raw) else b""


TargetPort = Annotated[
    int | str, WithJsonSchema(INT_OR_STRING | {"minimum": 0, "maximum": 65535, "maxLength": 15, "pattern": f"^({PORT_NAME})?$"})
]


class ServicePort(_Model):
    """A port, as in a core/v1 Service."""

    name: str = Field(
        default="",
        max_length=63,
        pattern=f"^({LABEL})?$",
        description="Name of the port: $(service.port[NAME]) is its number. One of several needs one.",
    )
    port: int = Field(ge=1, le=65535, description="Number of the port.")
    target_port: TargetPort | None = Field(
        default=None,
        description="Port of the pod, as a number or by name, if it differs from port. "
        f"Then each replica has a service with a cluster address, and the job has at most {MAX_ADDRESSES} replicas.",
    )
    protocol: Literal["TCP", "UDP", "SCTP"] = Field(default="TCP", description="TCP (default), UDP or SCTP.")
    app_protocol: str | None = Field(
        default=None, max_length=317, pattern=f"^{QUALIFIED_NAME}$", description="A hint at the protocol spoken, as in a core/v1 Service."
    )
    node_port: int | None = Field(
        default=None, ge=0, le=65535, description="0 or left out: replicas are reached from inside the cluster, and no node opens a port."
    )


class Service(_Model):
    """How replicas reach each other."""

    ports: tuple[ServicePort, ...] = Field(
        default=(),
        max_length=MAX_PORTS,
        description="Ports of each replica.",
        json_schema_extra=_map_by("port", "protocol"),
    )

    @field_validator("ports")
    @classmethod
    def _told_apart(cls, found: tuple[ServicePort, ...]) -> tuple[ServicePort, ...]:
        names = [one.name for one in found]
        if len(names) > 1 and not all(names):
            raise ValueError("one of several ports needs a name")
        if len({*names}) < len(names):
            raise ValueError("two ports have the same name")
        return found


class T9kScheduler(_Model):
    """The T9k scheduler's view of a job."""

    queue: str = Field(
        default="default",
        min_length=1,
        max_length=63,
        pattern=f"^{LABEL_VALUE}$",
        description="Queue in which the job waits: a label value, which the pods carry.",
    )
    priority: int = Field(default=0, ge=0, le=100, description="0 to 100; more is sooner.")


class Scheduler(_Model):
    """Who places the pods."""

    # Spelled out: the alias generator makes t9KScheduler of it.
    t9k_scheduler: T9kScheduler | None = Field(default=None, alias="t9kScheduler", description="Use the T9k scheduler.")


class DebugReplicaSpec(_Model):
    """How replicas of one type wait to be debugged."""

    type: TypeName = Field(description="Type of the replicas.")
    skip_init_container: bool = Field(default=False, description="Leave init containers out.")
    command: Words | None = Field(default=None, description='What runs instead. Default: ["sleep", "inf"].')


class Debug(_Model):
    """Deploy the environment, do not start the work."""

    enabled: bool = Field(default=False, description="Whether the job is debugged.")
    replica_specs: tuple[DebugReplicaSpec, ...] = Field(
        default=(), max_length=MAX_TYPES, description="Per type; a type not named has the defaults.", json_schema_extra=_map_by("type")
    )


class ResumeSpec(_Model):
    """How replicas of one type go on after a pause."""

    type: TypeName = Field(description="Type of the replicas.")
    skip_init_container: bool = Field(default=False, description="Leave init containers out.")
    command: Words | None = Field(default=None, description="Command after a pause. Default: the template's.")
    args: Words | None = Field(default=None, description="Arguments after a pause. Default: the template's.")


class Pause(_Model):
    """Have no replicas for a while."""

    enabled: bool = Field(default=False, description="Whether the job is paused. May be changed at any time.")
    resume_specs: tuple[ResumeSpec, ...] = Field(
        default=(), max_length=MAX_TYPES, description="How to go on. Cannot be changed.", json_schema_extra=_map_by("type")
    )


class RunMode(_Model):
    """Ways to run other than at once."""

    debug: Debug | None = Field(default=None, description="Deploy the environment, do not start the work.")
    pause: Pause | None = Field(default=None, description="Have no replicas for a while.")


class GenericJobSpec(_Model):
    """What a job is made of, and when it ends."""

    replica_specs: tuple[ReplicaSpec, ...] = Field(
        min_length=1,
        max_length=MAX_TYPES,
        description="The types of replicas. Types and numbers of replicas can be changed only while the job is paused.",
        json_schema_extra=_map_by("type"),
    )
    success_rules: tuple[Rule, ...] = Field(
        default=(), max_length=MAX_RULES, description=f"The job succeeds when everything named by any one of these has succeeded. {_NAMED}"
    )
    failure_rules: tuple[Rule, ...] = Field(
        default=(),
        max_length=MAX_RULES,
        description=f"The job fails when everything named by any one of these has failed for good. {_NAMED}",
    )
    service: Service | None = Field(default=None, description="Gives each replica a name that the others can reach. Cannot be changed.")
    clean_up_policy: Literal["None", "Unfinished", "All"] = Field(default="None", description="Which pods are deleted when the job ends.")
    scheduler: Scheduler | None = Field(
        default=None, description="Who places the pods. Default: the cluster's scheduler. Cannot be changed."
    )
    run_mode: RunMode | None = Field(default=None, description="Debug and pause.")
    suspend: bool = Field(default=False, description="Whether the job is paused: the same as runMode.pause.enabled, for queueing systems.")
    ttl_seconds_after_finished: int | None = Field(
        default=None, ge=0, le=MAX_SECONDS, description="The job is deleted so long after it has ended. Unset: never."
    )
    active_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SECONDS,
        description="The job fails, and its unfinished pods are deleted, when it has been active for so long. Time in which it was paused "
        "does not count.",
    )
    managed_by: str | None = Field(
        default=None,
        min_length=1,
        max_length=63,
        description="The controller that runs the job, as a domain-prefixed path (example.com/controller). A job that names another "
        f"controller than {MANAGER} is left alone. Cannot be changed.",
    )

    @field_validator("replica_specs")
    @classmethod
    def _not_too_many(cls, found: tuple[ReplicaSpec, ...]) -> tuple[ReplicaSpec, ...]:
        if sum(one.replicas for one in found) > MAX_REPLICAS:
            raise ValueError(f"more than {MAX_REPLICAS} replicas in sum")
        return found

    def replicas(self, type: str) -> ReplicaSpec | None:
        """The replicas of one type."""
        return next((found for found in self.replica_specs if found.type == type), None)

    @property
    def paused(self) -> bool:
        """Whether the user wants no replicas for now."""
        pause = self.run_mode.pause if self.run_mode else None
        return self.suspend or (pause is not None and pause.enabled)

    @property
    def debugged(self) -> bool:
        """Whether the user wants the environment and not the work."""
        debug = self.run_mode.debug if self.run_mode else None
        return debug is not None and debug.enabled

    @property
    def total(self) -> int:
        """Replicas of all types."""
        return sum(found.replicas for found in self.replica_specs)


class InvalidSpecError(Exception):
    """A spec that admission should have refused; says which field and why."""


def parse(spec: Any) -> GenericJobSpec:
    """Read a spec that was decoded from JSON or YAML."""
    if _deeper_than(MAX_DEPTH, spec):
        raise InvalidSpecError(TOO_DEEP)
    try:
        return GenericJobSpec.model_validate(spec)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise InvalidSpecError(f"spec{path}: {first['msg']}") from None


def _deeper_than(limit: int, value: Any) -> bool:
    """Whether lists and mappings are nested deeper than a limit. Values that YAML's aliases share are visited once per level."""
    level = [value]
    for _ in range(limit):
        children = {id(child): child for each in level for child in _children(each)}
        if not children:
            return False
        level = list(children.values())
    return True


def _children(value: Any) -> Iterable[Any]:
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (child for child in found if isinstance(child, dict | list))
