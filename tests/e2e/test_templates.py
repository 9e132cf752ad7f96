"""Pods as templates make them, before a real server: it refuses those that `validate` refuses, for the same field, and takes the others."""

import re

import pytest

from genericjob.cli.documents import read
from genericjob.cli.render import rendered
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import RAW_PODS
from harness.clusters import Namespaces
from harness.corpus import manifests

TEMPLATE = "spec.replicaSpecs[0].template."


def of(folder):
    return pytest.mark.parametrize("manifest", manifests(folder), ids=str)


@pytest.fixture(scope="module")
def place(server):
    """A namespace for all pods of this module: nobody runs them."""
    with Namespaces(server).fresh() as name:
        yield name


@pytest.fixture
def create(server, place):
    def create(manifest):
        (document,) = read([str(manifest.path)])
        (pod,) = rendered(document, namespace=place)
        del pod["metadata"]["ownerReferences"]  # there is no such job, and the collector looks
        pod["metadata"]["name"] = str(manifest)
        return server.create(RAW_PODS, pod, place)

    return create


@of("pods-refused")
def test_refused(create, manifest):
    with pytest.raises(ApiError) as caught:
        create(manifest)
    error, field = caught.value, manifest.field.removeprefix(TEMPLATE)
    assert error.refused, error
    assert manifest.words in error.message
    if error.causes:
        assert field in [cause.field for cause in error.causes]
    elif found := re.search(r"Go struct field \w+\.(\S+) of type", error.message):  # it counts no elements, and names no entries of maps
        assert re.sub(r"\[\d+\]", "", field).startswith(found[1])


@of("pods-accepted")
def test_accepted(create, manifest):
    assert not any("unknown field" in warning for warning in create(manifest).warnings)
