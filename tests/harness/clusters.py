"""Clusters for tests: a control plane of our own, or one that exists already.

Tests ask for what they need, not for a way to get it: `cluster` is any cluster, `plane` one whose processes may be killed and whose store
may be compacted. Where a cluster cannot offer that, the test is skipped with the reason.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from cluster.plane import Plane
from genericjob.reconcile.access import from_kubeconfig
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.resources import NAMESPACES, SERVICE_ACCOUNTS, Key

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds a test waits for something that always comes; long, because two busy cores can be slow."""


@dataclass(frozen=True)
class Cluster:
    """A Kubernetes cluster, and what tests may do to it."""

    kubeconfig: Path
    plane: Plane | None = None
    """The control plane's processes, where they are ours."""

    def api(self, timeouts: Timeouts = Timeouts(write=30.0)) -> HttpApi:  # noqa: B008 - frozen
        """A port with its own connections."""
        return HttpApi(from_kubeconfig(str(self.kubeconfig)), timeouts=timeouts)


@contextmanager
def started(name: str, *, audit: bool = True) -> Iterator[Cluster]:
    """A control plane that lives as long as the block, or until this process is gone."""
    with Plane.up(name, audit=audit, owner=os.getpid()) as plane:
        yield Cluster(plane.kubeconfig, plane)


def eventually(ask: Callable[[], T], *, within: float = PATIENCE) -> T:
    """Ask until the answer is neither empty nor an error, and return it."""
    deadline = time.monotonic() + within
    while True:
        problem: object = "the answer stayed empty"
        try:
            if found := ask():
                return found
        except (ApiError, AssertionError) as error:
            problem = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {problem}")
        time.sleep(0.02)


class Namespaces:
    """Fresh namespaces, each with its default service account; nobody waits for their end."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api

    @contextmanager
    def fresh(self) -> Iterator[str]:
        """A namespace for one test."""
        name = self.make()
        try:
            yield name
        finally:
            self._api.delete(NAMESPACES, Key("", name))

    def make(self) -> str:
        """A namespace that is ready for pods."""
        made = self._api.create(NAMESPACES, {"metadata": {"generateName": "test-"}}).object
        name: str = made["metadata"]["name"]
        eventually(lambda: self._api.get(SERVICE_ACCOUNTS, Key(name, "default")))
        return name


def who(api: HttpApi) -> str:
    """The user the server takes us for."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = msgspec.json.decode(api.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review).data)
    name: str = answer["status"]["userInfo"]["username"]
    return name
