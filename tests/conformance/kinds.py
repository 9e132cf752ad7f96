"""The kinds of the conformance suite: two of our own, to have every feature of a schema, and the built-in ones that controllers use."""

from genericjob.reconcile.resources import raw

GROUP = "conformance.genericjob.dev"
WIDGETS = raw(GROUP, "v1", "widgets", "Widget")
"""With a status subresource, defaults and a schema."""
GADGETS = raw(GROUP, "v1", "gadgets", "Gadget")
"""Without a status subresource."""

NODE = "conformance-node"
"""Pods are bound to it; nothing runs there."""

_STRING, _INTEGER = {"type": "string"}, {"type": "integer"}

_WIDGET_SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 1, "minimum": 0, "maximum": 100},
                "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                "label": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
                "nothing": {"type": "string", "nullable": True},
                "either": {"x-kubernetes-int-or-string": True},
                "when": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "numbers": {"type": "array", "items": _INTEGER, "maxItems": 3},
                "words": {"type": "object", "additionalProperties": _STRING},
                "nested": {
                    "type": "object",
                    "default": {},
                    "properties": {"deep": {"type": "string", "default": "down"}, "ratio": {"type": "number"}},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": _STRING, "count": {"type": "integer", "default": 2}, "on": {"type": "boolean"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string", "default": "Pending"}, "count": _INTEGER},
        },
    },
}
_GADGET_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


def _definition(resource, schema, **version):
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.full_name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind},
            "versions": [{"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}],
        },
    }


DEFINITIONS = [
    _definition(WIDGETS, _WIDGET_SCHEMA, subresources={"status": {}}, selectableFields=[{"jsonPath": ".spec.color"}]),
    _definition(GADGETS, _GADGET_SCHEMA),
]


def widget(name="w", *, labels=None, finalizers=None, owners=None, status=None, **spec):
    return _object("Widget", name, labels, finalizers, owners, spec, status)


def gadget(name="g", *, labels=None, finalizers=None, owners=None, status=None, **spec):
    return _object("Gadget", name, labels, finalizers, owners, spec, status)


def _object(kind, name, labels, finalizers, owners, spec, status):
    meta = {"name": name, "labels": labels, "finalizers": finalizers, "ownerReferences": owners}
    found = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {k: v for k, v in meta.items() if v is not None}, "spec": spec}
    return found if status is None else {**found, "status": status}


def config_map(name="c", *, labels=None, finalizers=None, owners=None, **data):
    meta = {"name": name, "labels": labels, "finalizers": finalizers, "ownerReferences": owners}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {k: v for k, v in meta.items() if v is not None},
        "data": {k: str(v) for k, v in data.items()},
    }


def pod(name="p", *, labels=None, grace=None, owners=None, finalizers=None):
    """A pod that nobody schedules."""
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "none"}]}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    meta = {"name": name, "labels": labels, "ownerReferences": owners, "finalizers": finalizers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {k: v for k, v in meta.items() if v is not None}, "spec": spec}


def service(name="s", *, labels=None):
    meta = {"name": name, "labels": labels} if labels is not None else {"name": name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"clusterIP": "None", "ports": [{"name": "a", "port": 80}]}}


def owner(of, *, block=False, controller=False):
    """A reference to an object, as its dependents carry it."""
    reference = {"apiVersion": of["apiVersion"], "kind": of["kind"], "name": of["metadata"]["name"], "uid": of["metadata"]["uid"]}
    return {**reference, "blockOwnerDeletion": block, "controller": controller}
