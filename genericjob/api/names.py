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
LABELS: Final = frozenset((JOB_LABEL, COMPONENT_LABEL))
"""The labels of pods and services that are read."""

EPOCH_ANNOTATION: Final = f"{GROUP}/epoch"
ATTEMPT_ANNOTATION: Final = f"{GROUP}/attempt"
"""Which run of the job, and which try of the rank, a pod belongs to."""
CHARGED_ANNOTATION: Final = f"{GROUP}/charged-restarts"
"""How many restarts the rank had been charged with when the pod was made: a second copy of what the status says."""
DEBUG_ANNOTATION: Final = f"{GROUP}/debug"
"""On pods that were made to be debugged, with the value `true`. How they end says nothing."""
ANNOTATIONS: Final = frozenset((EPOCH_ANNOTATION, ATTEMPT_ANNOTATION, CHARGED_ANNOTATION, DEBUG_ANNOTATION))

T9K_SCHEDULER: Final = "t9k-scheduler"
GROUP_LABEL: Final = "scheduler.tensorstack.dev/group-name"
QUEUE_LABEL: Final = "scheduler.tensorstack.dev/queue"
ROLE_LABEL: Final = "scheduler.tensorstack.dev/role"
SCHEDULER_GROUP: Final = "scheduler.tensorstack.dev"
SCHEDULER_VERSION: Final = "v1beta1"
POD_GROUP: Final = "PodGroup"

CONTROLLER: Final = "genericjob-controller"
MANAGER: Final = f"{GROUP}/{CONTROLLER}"
"""What `spec.managedBy` calls this controller; a job without it is ours as well."""

NAME_LIMIT: Final = 63
"""A pod's name is also a label value, a host name, and the name of a service."""

Phase = Literal["Pending", "Running", "Pausing", "Paused", "Resuming", "Succeeded", "Failed", "Unknown"]
PHASES: tuple[Phase, ...] = ("Pending", "Running", "Pausing", "Paused", "Resuming", "Succeeded", "Failed", "Unknown")
FINAL_PHASES: Final = frozenset(("Succeeded", "Failed"))
PAUSE_PHASES: Final = ("Pausing", "Paused")
"""Phases in which the controller has stored that the job is paused: no pod of before will count again."""

ReplicaPhase = Literal["Creating", "Pending", "Running", "Succeeded", "Failed", "Unknown", "Deleted"]

ConditionType = Literal["Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused"]
CONDITION_TYPES: tuple[ConditionType, ...] = ("Initialized", "Running", "ReplicaFailure", "Completed", "Failed", "Paused")


class Reason:
    """Reasons of conditions and events."""

    INITIALIZED: Final = "Initialized"
    CREATING: Final = "Creating"
    RUNNING: Final = "Running"
    NO_FAILURE: Final = "NoFailure"
    ERROR_IN_POD: Final = "ErrorInPod"
    SUCCEEDED: Final = "Succeeded"
    FAILED: Final = "Failed"
    NO_SUCCESS_RULE_REACHABLE: Final = "NoSuccessRuleReachable"
    NOT_FINISHED: Final = "NotFinished"
    DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
    NOT_PAUSED: Final = "NotPaused"
    PAUSING: Final = "Pausing"
    PAUSED: Final = "Paused"
    RESUMING: Final = "Resuming"
    RESTARTING: Final = "Restarting"
    RESTARTING_JOB: Final = "RestartingJob"
    STUCK_TERMINATING: Final = "StuckTerminating"
    CLEANED_UP: Final = "CleanedUp"
    LEFT_RUNNING: Final = "LeftRunning"
    EXPIRED: Final = "Expired"
    SCHEDULER_MISSING: Final = "SchedulerMissing"
    FAILED_CREATE: Final = "FailedCreate"
    FAILED_DELETE: Final = "FailedDelete"
    NAME_CONFLICT: Final = "NameConflict"
    PREDECESSOR_ENDING: Final = "PredecessorEnding"
    INVALID_SPEC: Final = "InvalidSpec"
    STATUS_TOO_LARGE: Final = "StatusTooLarge"
    UNREADABLE: Final = "Unreadable"
    UNRESOLVED_VARIABLES: Final = "UnresolvedVariables"
    RULE_NEVER_FIRES: Final = "RuleNeverFires"
    UNKNOWN_TYPE: Final = "UnknownType"
    TEMPLATE_OVERRIDDEN: Final = "TemplateOverridden"
    SERVER_WARNING: Final = "ServerWarning"
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
