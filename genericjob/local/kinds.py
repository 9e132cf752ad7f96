"""What the server knows about a kind: where it lives, and how its objects may come, change and go.

A `Kind` is a value: flags and functions. The verbs in `memory.py` are the same for all kinds and ask it at the places where kinds differ.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from genericjob.reconcile.errors import Cause
from genericjob.reconcile.resources import Resource

from . import names
from .drafts import Draft
from .schema import Schema
from .selectors import Field
from .shapes import Shape

NAMED = {"metadata.name": Field(("metadata.name",)), "metadata.namespace": Field(("metadata.namespace",))}
"""The fields that every namespaced kind can be selected by."""


def _nothing(draft: Draft) -> None:
    """Leave the object as it is."""


def keep_status(new: Draft, old: Draft) -> None:
    """An update through the front door cannot touch the status."""
    new.keep("status", old)


def keep_spec(new: Draft, old: Draft) -> None:
    """An update of the status cannot touch the spec. It can touch labels and annotations, on the real server, too."""
    new.keep("spec", old)


def _leave(new: Draft, old: Draft) -> None:
    """Take the new object as it is."""


Policy = Callable[[Mapping[str, Any], Mapping[str, Any] | None], Iterable[Cause]]
"""What somebody who knows more of a kind than its schema says has against a new object, or against a change."""


def _fine(new: Draft, old: Draft | None) -> Iterable[Cause]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind, in one of its versions."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    status: bool = False
    """Whether there is a status subresource."""
    unconditional_update: bool = True
    """Whether a replace may come without a resourceVersion."""
    create_on_update: bool = False
    """Whether a replace of what is not there creates it."""
    returns_deleted: bool = False
    """Whether a delete that takes effect at once answers with the object."""
    propagates: bool = True
    """Whether deletion propagates to dependents, and from owners."""
    name: names.NameRule = names.subdomain
    fields: Mapping[str, Field] = field(default_factory=lambda: NAMED)
    schema: Schema | None = None
    """Custom resources have one, if only an empty one."""
    shape: Shape | None = None
    """Built-in kinds have one."""

    fill: Callable[[Draft], None] = _nothing
    """Fill in defaults, whenever an object comes in."""
    creating: Callable[[Draft], None] = _nothing
    creating_by_status: Callable[[Draft], None] | None = None
    """What a status does that is written to an object that is not there; mostly that cannot be."""
    updating: Callable[[Draft, Draft], None] = _leave
    updating_status: Callable[[Draft, Draft], None] = keep_spec
    check: Callable[[Draft, Draft | None], Iterable[Cause]] = _fine
    """What is wrong with a new object, or with a change."""
    check_status: Callable[[Draft, Draft], Iterable[Cause]] = _fine
    lifetime: timedelta | None = None
    """How long an object is kept after it was last written; unset: until it is deleted."""
    grace: Callable[[Draft, int | None], int] | None = None
    """Seconds between the wish for an object's end and the end; only kinds that end gracefully."""

    @property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """As messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def full_kind(self) -> str:
        """As messages about invalid objects write it."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def core(self) -> bool:
        """Whether it belongs to the core group."""
        return self.group == ""

    @property
    def place(self) -> tuple[str, str]:
        """Where its objects are stored, whatever the version."""
        return self.group, self.plural


def plain(resource: Resource[object], *, status: bool = False) -> Kind:
    """A kind without rules of its own, to be registered for tests and for what controllers merely write."""
    return Kind(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
        status=status,
        updating=keep_status if status else _leave,
        fields=NAMED if resource.namespaced else {"metadata.name": NAMED["metadata.name"]},
    )
