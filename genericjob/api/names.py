"""Every text that users or other programs depend on, once: kinds, labels, annotations, phases, conditions, reasons."""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

GROUP: Final = "batch.tensorstack.dev"
VERSION: Final = "v1beta1"
KIND: Final = "GenericJob"
PLURAL: Final = "genericjobs"
API_VERSION: Final = f"{GROUP}/{VERSION}"

JOB_LABEL: Final = "genericjob"
REPLICA_LABEL: Final = "genericjob-replica"
COMPONENT_LABEL: Final = "tensorstack.dev/component"
COMPONENT_TYPE_LABEL: Final = "tensorstack.dev/component-type"
COMPONENT: Final = "genericjob"
COMPONENT_TYPE: Final = "user"
SELECTOR: Final = f"{COMPONENT_LABEL}={COMPONENT}"
"""What everything we create carries, and all that we watch."""

EPOCH_ANNOTATION: Final = f"{GROUP}/epoch"
ATTEMPT_ANNOTATION: Final = f"{GROUP}/attempt"
"""Which run of the job, and which try of the rank, a pod belongs to."""
ANNOTATIONS: Final = frozenset((EPOCH_ANNOTATION, ATTEMPT_ANNOTATION))

T9K_SCHEDULER: Final = "t9k-scheduler"
GROUP_LABEL: Final = "scheduler.tensorstack.dev/group-name"
QUEUE_LABEL: Final = "scheduler.tensorstack.dev/queue"
ROLE_LABEL: Final = "scheduler.tensorstack.dev/role"

CONTROLLER: Final = "genericjob-controller"
MANAGER: Final = f"{GROUP}/{CONTROLLER}"
"""What `spec.managedBy` calls this controller; a job without it is ours as well."""

NAME_LIMIT: Final = 63
"""A pod's name is also a label value, a host name, and the name of a service."""

Phase = Literal["Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown"]
PHASES: tuple[Phase, ...] = ("Pending", "Running", "Paused", "Resuming", "Succeeded", "Failed", "Unknown")
FINAL_PHASES: Final = frozenset(("Succeeded", "Failed"))

ReplicaPhase = Literal["Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted"]

ConditionType = Literal["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
CONDITION_TYPES: tuple[ConditionType, ...] = ("Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused")


class Reason:
    """Reasons of conditions and events."""

    INITIALIZED: Final = "Initialized"
    CREATING: Final = "Creating"
    RUNNING: Final = "Running"
    PENDING: Final = "Pending"
    NO_FAILURE: Final = "NoFailure"
    ERROR_IN_POD: Final = "ErrorInPod"
    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    NO_SUCCESS_RULE_REACHABLE: Final = "NoSuccessRuleReachable"
    EVERY_RANK_ENDED: Final = "EveryRankEnded"
    NOT_FINISHED: Final = "NotFinished"
    NOT_PAUSED: Final = "NotPaused"
    FAILED_CREATE: Final = "FailedCreate"
    FAILED_DELETE: Final = "FailedDelete"
    NAME_CONFLICT: Final = "NameConflict"
    PREDECESSOR_ENDING: Final = "PredecessorEnding"
    INVALID_SPEC: Final = "InvalidSpec"
    UNRESOLVED_VARIABLES: Final = "UnresolvedVariables"
    RULE_NEVER_FIRES: Final = "RuleNeverFires"
    TEMPLATE_OVERRIDDEN: Final = "TemplateOverridden"
    SERVER_WARNING: Final = "ServerWarning"
    NOT_YET_SUPPORTED: Final = "NotYetSupported"
    CREATED: Final = "SuccessfulCreate"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """Which job: a name can be used again, a UID never is."""

    namespace: str
    name: str
    uid: str


class Rank(NamedTuple):
    """One replica of a job."""

    type: str
    number: int


def replica_name(job: str, type: str, rank: int | str) -> str:
    """The name of a rank's pod and service."""
    return f"{job}-{type}-{rank}"
