"""The outline of built-in kinds: which fields they have, and of which type, as deep as controllers look.

A real server decodes built-in kinds into typed values: fields it does not know vanish, null and what is empty count as absent, and a wrong
type makes the request unreadable. An outline does that for the top of an object (`spec.nodeName`, `data.key`), and for the containers and
volumes of pods; what lies deeper is kept as it comes.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .amounts import amount

AMOUNT = (int, float, str)
"""The type of an amount of something: `2`, `0.5`, `500m`."""
_TYPES: Mapping[str, Any] = {
    "text": str,
    "either": (int, str),
    "amount": AMOUNT,
    "time": str,
    "number": int,
    "flag": bool,
    "list": list,
    "map": dict,
}
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True, slots=True)
class Part:
    """One field: its type, and whether an empty value is a value (a pointer in the server's own language) or nothing."""

    type: Any
    kept: bool = False
    pattern: re.Pattern[str] | None = None
    inside: "Section | None" = None
    """What an object, or an element of a list, looks like."""
    words: bool = False
    """Whether it is a list of texts."""

    def holds(self, value: Any, path: str, unknown: list[str]) -> bool:
        """Whether a value is there at all; one of another type is an error."""
        if value is None:
            return False
        # A FLAG IS NO NUMBER: Python thinks otherwise.
        if not isinstance(value, self.type) or (isinstance(value, bool) and self.type is not bool):
            raise msgspec.ValidationError(f"{path}: a {type(value).__name__} cannot stand here")
        if self.pattern is not None and not self.pattern.fullmatch(value):
            raise msgspec.ValidationError(f"{path}: {value!r} is not a time")
        if self.type is AMOUNT and amount(value) is None:
            raise msgspec.ValidationError(f"{path}: {value!r} is not an amount")
        if self.words:
            _fit_words(value, path)
        if self.inside is not None:
            if isinstance(value, dict):
                self.inside.fit(value, path, unknown)
            else:
                for index, item in enumerate(value):
                    self.inside.fit(item, f"{path}[{index}]", unknown)
        return bool(value) or self.kept


def _fit_words(value: list[Any], path: str) -> None:
    for index, word in enumerate(value):
        if word is None:
            value[index] = ""
        elif not isinstance(word, str):
            raise msgspec.ValidationError(f"{path}[{index}]: a {type(word).__name__} is not text")


@dataclass(frozen=True, slots=True)
class Section:
    """An object with known fields; with `texts` a map from any key to text, with `amounts` one to amounts."""

    parts: Mapping[str, Part] = field(default_factory=dict)
    texts: bool = False
    amounts: bool = False
    always: bool = False
    """Whether it is written when it is empty."""
    zeros: Mapping[str, Any] = field(default_factory=dict)
    """What is written of fields that are not there."""

    def fit(self, value: Any, path: str, unknown: list[str]) -> None:
        """Make a value fit."""
        if not isinstance(value, dict):
            raise msgspec.ValidationError(f"{path}: a {type(value).__name__} is not an object")
        if self.texts:
            self._fit_texts(value, path)
            return
        if self.amounts:
            self._fit_amounts(value, path)
            return
        parts = self.parts
        for name in list(value):
            part = parts.get(name)
            if part is None:
                unknown.append(f"{path}.{name}")
                del value[name]
            elif not part.holds(value[name], f"{path}.{name}", unknown):
                del value[name]
        for name, zero in self.empty().items() if self.zeros else ():
            value.setdefault(name, zero)

    def empty(self) -> dict[str, Any]:
        """An object of which nothing is known."""
        return {name: {} if zero == {} else zero for name, zero in self.zeros.items()}

    def _fit_texts(self, value: dict[str, Any], path: str) -> None:
        for name, text in value.items():
            if text is None:
                value[name] = ""
            elif not isinstance(text, str):
                raise msgspec.ValidationError(f"{path}.{name}: a {type(text).__name__} is not text")

    def _fit_amounts(self, value: dict[str, Any], path: str) -> None:
        for name, written in value.items():
            if written is None:
                value[name] = "0"
            elif amount(written) is None:
                raise msgspec.ValidationError(f"{path}[{name}]: {written!r} is not an amount")


@dataclass(frozen=True, slots=True)
class Shape:
    """The outline of a kind."""

    sections: Mapping[str, Section]
    parts: Mapping[str, Part] = field(default_factory=dict)
    """Fields beside the sections."""

    def fit(self, rest: dict[str, Any], touched: Collection[str] | None = None) -> list[str]:
        """Make an object, or its touched fields, fit; returns the paths of fields that nobody knows."""
        unknown: list[str] = []
        for name in list(rest) if touched is None else rest.keys() & set(touched):
            section = self.sections.get(name)
            if section is not None:
                if rest[name] is not None:
                    section.fit(rest[name], name, unknown)
                if not rest[name]:
                    del rest[name]
            elif name in self.parts:
                if not self.parts[name].holds(rest[name], name, unknown):
                    del rest[name]
            elif name not in ("apiVersion", "kind"):
                unknown.append(name)
                del rest[name]
        for name, section in self.sections.items():
            if section.always and name not in rest:
                rest[name] = section.empty()
        return unknown


def parts(*, kept: bool = False, **names: str) -> dict[str, Part]:
    """Fields by type: `parts(text="a b", list="c")`."""
    return {
        name: Part(_TYPES[type], kept, _MICRO_TIME if type == "time" else None) for type, listed in names.items() for name in listed.split()
    }


def within(type: type, kept: bool = False, /, **sections: Section) -> dict[str, Part]:
    """Objects, or lists of them, whose fields are known: `within(list, env=_VARIABLE)`."""
    return {name: Part(type, kept, inside=section) for name, section in sections.items()}


TEXTS = Section(texts=True)
_AMOUNTS = Section(amounts=True)
_WORDS = Part(list, words=True)

_REFERENCE = Section(parts(text="name") | parts(kept=True, flag="optional"))
_KEY = Section(parts(text="name key") | parts(kept=True, flag="optional"), zeros={"key": ""})
_VARIABLE = Section(
    parts(text="name value")
    | within(
        dict,
        True,
        valueFrom=Section(
            parts(kept=True, map="fileKeyRef")
            | within(
                dict,
                True,
                fieldRef=Section(parts(text="apiVersion fieldPath"), zeros={"fieldPath": ""}),
                resourceFieldRef=Section(parts(text="containerName resource", amount="divisor"), zeros={"resource": ""}),
                configMapKeyRef=_KEY,
                secretKeyRef=_KEY,
            )
        ),
    ),
    zeros={"name": ""},
)
_BUNDLE = Section(parts(text="prefix") | within(dict, True, configMapRef=_REFERENCE, secretRef=_REFERENCE))
_MOUNT = Section(
    parts(text="name mountPath subPath subPathExpr", flag="readOnly") | parts(kept=True, text="mountPropagation recursiveReadOnly"),
    zeros={"name": "", "mountPath": ""},
)
_FILES = within(list, items=Section(parts(text="key path") | parts(kept=True, number="mode"), zeros={"key": "", "path": ""})) | parts(
    kept=True, number="defaultMode", flag="optional"
)
_VOLUME = Section(
    parts(text="name")
    | within(
        dict,
        True,
        emptyDir=Section(parts(text="medium") | parts(kept=True, amount="sizeLimit")),
        configMap=Section(parts(text="name") | _FILES),
        secret=Section(parts(text="secretName") | _FILES),
        hostPath=Section(parts(text="path") | parts(kept=True, text="type"), zeros={"path": ""}),
        persistentVolumeClaim=Section(parts(text="claimName", flag="readOnly"), zeros={"claimName": ""}),
    )
    | parts(
        kept=True,
        map="awsElasticBlockStore azureDisk azureFile cephfs cinder csi downwardAPI ephemeral fc flexVolume flocker gcePersistentDisk "
        "gitRepo glusterfs image iscsi nfs photonPersistentDisk portworxVolume projected quobyte rbd scaleIO storageos vsphereVolume",
    ),
    zeros={"name": ""},
)

_RESOURCES = Section(parts(list="claims") | within(dict, limits=_AMOUNTS, requests=_AMOUNTS))
_CONTAINER = Section(
    parts(
        text="name image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy",
        flag="stdin stdinOnce tty",
        list="resizePolicy restartPolicyRules volumeDevices",
    )
    | parts(kept=True, text="restartPolicy", map="livenessProbe readinessProbe startupProbe lifecycle securityContext")
    | {"command": _WORDS, "args": _WORDS}
    | within(dict, True, resources=_RESOURCES)
    | within(
        list,
        env=_VARIABLE,
        envFrom=_BUNDLE,
        volumeMounts=_MOUNT,
        ports=Section(parts(text="name protocol hostIP", number="hostPort containerPort"), zeros={"containerPort": 0}),
    )
)
_POD_CONDITION = Section(
    parts(text="type status reason message lastProbeTime lastTransitionTime", number="observedGeneration"),
    zeros={"lastProbeTime": None, "lastTransitionTime": None},
)
_NODE_CONDITION = Section(
    parts(text="type status reason message lastHeartbeatTime lastTransitionTime"),
    zeros={"lastHeartbeatTime": None, "lastTransitionTime": None},
)
_STATES = Section(
    {
        "waiting": Part(dict, kept=True, inside=Section(parts(text="reason message"))),
        "running": Part(dict, kept=True, inside=Section(parts(text="startedAt"), zeros={"startedAt": None})),
        "terminated": Part(
            dict,
            kept=True,
            inside=Section(
                parts(text="reason message startedAt finishedAt containerID", number="exitCode signal"),
                zeros={"exitCode": 0, "startedAt": None, "finishedAt": None},
            ),
        ),
    }
)
_CONTAINER_STATUS = Section(
    parts(text="name image imageID containerID", number="restartCount", flag="ready", list="volumeMounts allocatedResourcesStatus")
    | parts(kept=True, text="stopSignal", flag="started", map="resources user allocatedResources")
    | {name: Part(dict, kept=True, inside=_STATES) for name in ("state", "lastState")},
    zeros={"state": {}, "lastState": {}, "ready": False, "restartCount": 0, "image": "", "imageID": ""},
)
_PORT = Section(parts(text="name protocol", number="nodePort") | parts(kept=True, number="port", text="appProtocol", either="targetPort"))

POD = Shape(
    {
        "spec": Section(
            parts(
                text="restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname subdomain schedulerName "
                "priorityClassName",
                flag="hostNetwork hostPID hostIPC",
                list="ephemeralContainers tolerations hostAliases readinessGates topologySpreadConstraints schedulingGates resourceClaims",
                map="overhead",
            )
            | within(list, containers=_CONTAINER, initContainers=_CONTAINER, volumes=_VOLUME, imagePullSecrets=Section(parts(text="name")))
            | within(dict, nodeSelector=TEXTS)
            | parts(
                kept=True,
                text="runtimeClassName preemptionPolicy hostnameOverride",
                number="terminationGracePeriodSeconds activeDeadlineSeconds priority",
                flag="automountServiceAccountToken shareProcessNamespace enableServiceLinks setHostnameAsFQDN hostUsers",
                map="securityContext affinity dnsConfig os resources",
            ),
            always=True,
        ),
        "status": Section(
            parts(
                text="phase message reason nominatedNodeName hostIP podIP qosClass startTime resize",
                number="observedGeneration",
                list="hostIPs podIPs resourceClaimStatuses",
                map="extendedResourceClaimStatus",
            )
            | {"conditions": Part(list, inside=_POD_CONDITION)}
            | {
                name: Part(list, inside=_CONTAINER_STATUS)
                for name in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
            },
            always=True,
        ),
    }
)

SERVICE = Shape(
    {
        "spec": Section(
            parts(
                text="clusterIP type sessionAffinity loadBalancerIP externalName externalTrafficPolicy",
                number="healthCheckNodePort",
                flag="publishNotReadyAddresses",
                list="clusterIPs externalIPs loadBalancerSourceRanges ipFamilies",
                map="selector",
            )
            | {"ports": Part(list, inside=_PORT)}
            | parts(
                kept=True,
                text="ipFamilyPolicy internalTrafficPolicy loadBalancerClass trafficDistribution",
                flag="allocateLoadBalancerNodePorts",
                map="sessionAffinityConfig",
            ),
            always=True,
        ),
        "status": Section(parts(list="conditions") | parts(kept=True, map="loadBalancer"), always=True, zeros={"loadBalancer": {}}),
    }
)

LEASE = Shape(
    {
        "spec": Section(
            parts(
                kept=True,
                text="holderIdentity strategy preferredHolder",
                time="acquireTime renewTime",
                number="leaseDurationSeconds leaseTransitions",
            ),
            always=True,
        )
    }
)

CONFIG_MAP = Shape({"data": TEXTS, "binaryData": TEXTS}, parts(kept=True, flag="immutable"))
SECRET = Shape({"data": TEXTS, "stringData": TEXTS}, parts(text="type") | parts(kept=True, flag="immutable"))
SERVICE_ACCOUNT = Shape({}, parts(list="secrets imagePullSecrets") | parts(kept=True, flag="automountServiceAccountToken"))

NODE = Shape(
    {
        "spec": Section(
            parts(text="podCIDR providerID externalID", flag="unschedulable", list="podCIDRs taints")
            | parts(kept=True, map="configSource"),
            always=True,
        ),
        "status": Section(
            parts(
                text="phase",
                list="addresses images volumesInUse volumesAttached runtimeHandlers",
                map="capacity allocatable",
            )
            | {"conditions": Part(list, inside=_NODE_CONDITION)}
            | parts(kept=True, map="daemonEndpoints nodeInfo config features"),
            always=True,
        ),
    }
)

NAMESPACE = Shape(
    {"spec": Section(parts(list="finalizers"), always=True), "status": Section(parts(text="phase", list="conditions"), always=True)}
)

EVENT = Shape(
    {},
    parts(text="reason message type action", number="count")
    | parts(
        kept=True,
        text="reportingComponent reportingInstance firstTimestamp lastTimestamp eventTime",
        map="involvedObject source series related",
    ),
)
