"""Small objects for tests of the API in memory."""

import pytest

from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key, raw

THINGS = raw("example.dev", "v1", "things", "Thing")


def a_map(name="c", **meta):
    return {"metadata": {"name": name, **meta}, "data": {"k": "v"}}


def a_pod(name="p", **meta):
    return {"metadata": {"name": name, **meta}, "spec": {"containers": [{"name": "main", "image": "none"}]}}


def a_definition(schema=None, **spec):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema or {"type": "object"}}}
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": "things.example.dev"},
        "spec": {"group": "example.dev", "scope": "Namespaced", "names": names, "versions": [version]} | spec,
    }


def a_thing(name="t", spec=None, **meta):
    return {"apiVersion": "example.dev/v1", "kind": "Thing", "metadata": {"name": name, **meta}, "spec": spec or {}}


def refusal(call, *args, **kwargs):
    with pytest.raises(ApiError) as caught:
        call(*args, **kwargs)
    return caught.value


def in_default(name):
    return Key("default", name)
