"""Manifests that are let pass and manifests that are refused, kept as files in `tests/corpus`: one corpus for every level of tests.

The first line of a file is a comment. Where the file is accepted it says what is shown; where it is refused, the field that is named and
words that are told: `# spec.suspend: must be of type boolean`. A second comment line that begins with "Only the server sees it" says why
the models let it pass. A change is two or more documents: what a job is, with its status if that matters, and what it becomes; of a refused
one all but the last are let pass. A job whose pods are refused is let pass itself: nobody but who makes the pods looks into templates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from genericjob.reconcile.api import Api
from genericjob.reconcile.errors import ApiError
from genericjob.reconcile.resources import Key

from .definitions import GENERIC_JOBS

CORPUS: Final = Path(__file__).parents[1] / "corpus"
BLIND: Final = "Only the server sees it: "


@dataclass(frozen=True)
class Manifest:
    """One file."""

    path: Path
    comments: tuple[str, ...]
    documents: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return self.path.stem

    @property
    def job(self) -> dict[str, Any]:
        """The only document."""
        (job,) = self.documents
        return job

    @property
    def field(self) -> str:
        """What a refusal is about."""
        return self.comments[0].partition(": ")[0]

    @property
    def words(self) -> str:
        """What a refusal says of it."""
        return self.comments[0].partition(": ")[2]

    @property
    def only_the_server_sees_it(self) -> bool:
        """Whether the models let it pass."""
        return self.comments[1:2] != () and self.comments[1].startswith(BLIND)


def manifests(folder: str) -> list[Manifest]:
    """The files of a folder of the corpus, by name."""
    return [_read(path) for path in sorted((CORPUS / folder).glob("*.yaml"))]


def _read(path: Path) -> Manifest:
    text = path.read_text()
    comments = []
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        comments.append(line.removeprefix("# "))
    return Manifest(path, tuple(comments), tuple(yaml.safe_load_all(text)))


class Writer:
    """Somebody who writes jobs as kubectl does, which has unknown fields refused."""

    def __init__(self, server: Api, namespace: str) -> None:
        self.server, self.namespace = server, namespace
        self.written: list[Key] = []

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        """Create a job."""
        made = self.server.create(GENERIC_JOBS, job, self.namespace, field_validation="Strict").object
        self.written.append(self.key(made))
        return self._tell(made, job)

    def change(self, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        """Put one in the place of another."""
        metadata = new["metadata"] | {"resourceVersion": old["metadata"]["resourceVersion"]}
        return self._tell(self.server.replace(GENERIC_JOBS, self.key(old), new | {"metadata": metadata}), new)

    def walk(self, documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Create a job and change it, document by document."""
        job = self.create(documents[0])
        for document in documents[1:]:
            job = self.change(job, document)
        return job

    def key(self, job: dict[str, Any]) -> Key:
        """Where a job is."""
        return Key(self.namespace, job["metadata"]["name"])

    def _tell(self, job: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Write the status that a manifest has, in the controller's place."""
        status = wanted.get("status")
        return self.server.patch(GENERIC_JOBS, self.key(job), {"status": status}, subresource="status") if status else job


def refusal(manifest: Manifest, call: Callable[..., object], *args: object) -> ApiError:
    """See that a write is refused for the field and in the words that the file names."""
    with pytest.raises(ApiError) as caught:
        call(*args)
    error = caught.value
    assert error.refused, error
    assert manifest.field in error.message
    assert manifest.words in error.message
    if error.causes:  # unknown fields are found before there are any
        assert manifest.field in [cause.field for cause in error.causes]
    return error


def see_that_it_became(manifest: Manifest, job: dict[str, Any]) -> None:
    """What the last document says of replicas and of the run mode."""
    kept, given = job["spec"], manifest.documents[-1]["spec"]
    assert [(one["type"], one["replicas"]) for one in kept["replicaSpecs"]] == [
        (one["type"], one.get("replicas", 1)) for one in given["replicaSpecs"]
    ]
    assert kept.get("runMode", {}).keys() == given.get("runMode", {}).keys()


def see_that_the_last_is_refused(manifest: Manifest, writer: Writer) -> None:
    """And that what was before it is still taken."""
    job = writer.walk(manifest.documents[:-1])
    refusal(manifest, writer.change, job, manifest.documents[-1])
    writer.change(job, manifest.documents[-2])


def see_that_replicas_are_fixed_in(phase: str, writer: Writer) -> None:
    """Types and replicas, of a job that is to be paused."""
    before, after = next(found for found in manifests("changes-accepted") if str(found) == "more-replicas-while-paused").documents
    job = writer.create(before | {"status": {"phase": phase}})
    with pytest.raises(ApiError, match=r"spec\.replicaSpecs: Forbidden"):
        writer.change(job, after)
