"""The kind that the T9k scheduler brings along, as far as a job needs it: nobody here places pods by it."""

from typing import Any

from genericjob.api.names import POD_GROUP, SCHEDULER_GROUP, SCHEDULER_VERSION

NAME = f"podgroups.{SCHEDULER_GROUP}"


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition of PodGroups."""
    version = {
        "name": SCHEDULER_VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": _spec(), "status": _status()}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": SCHEDULER_GROUP,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": POD_GROUP, "listKind": f"{POD_GROUP}List"},
            "versions": [version],
        },
    }


def _spec() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["minMember"],
        "properties": {
            "minMember": {"type": "integer", "format": "int32", "minimum": 1},
            "queue": {"type": "string", "default": "default"},
            "priority": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100, "default": 0},
        },
    }


def _status() -> dict[str, Any]:
    texts = ("type", "status", "reason", "message", "lastTransitionTime")
    condition = {"type": "object", "required": ["type", "status"], "properties": {name: {"type": "string"} for name in texts}}
    conditions = {"type": "array", "items": condition, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return {"type": "object", "properties": {"conditions": conditions}}
