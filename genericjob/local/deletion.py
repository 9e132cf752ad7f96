"""How objects end: at once, after a grace period, or when their finalizers let go.

`ask` is told that somebody wants an object gone and says what that means now. It changes the draft and nothing else.
"""

from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from genericjob.reconcile.api import Propagation

from .builtin import NAMESPACE_FINALIZER
from .drafts import Draft
from .kinds import Kind
from .names import FOREGROUND, ORPHAN


class Ending(Enum):
    """What becomes of an object that is to go."""

    UNDER_WAY = auto()
    """It is going already, and this request changes nothing."""
    MARK = auto()
    """It stays, marked."""
    REMOVE = auto()
    """It goes."""
    MARK_AND_REMOVE = auto()
    """It goes, and whoever watches sees the mark first."""


def ask(draft: Draft, kind: Kind, *, grace: int | None, propagation: Propagation | None, now: datetime) -> Ending:
    """Ask for an object's end."""
    gentle = _gentle(draft, kind, None if grace is None else 1 if grace < 0 else grace, now)
    if gentle is Ending.UNDER_WAY:
        return gentle
    finalizers = _finalizers(draft, propagation) if kind.propagates else draft.meta.finalizers
    if sorted(finalizers) != sorted(draft.meta.finalizers):
        draft.meta.finalizers = finalizers
    if gentle is Ending.MARK:
        at_once = not draft.meta.finalizers and not draft.meta.deletion_grace_period_seconds
        return Ending.MARK_AND_REMOVE if at_once else Ending.MARK
    if draft.meta.finalizers:
        _mark(draft, now)
        return Ending.MARK
    return Ending.REMOVE


def _gentle(draft: Draft, kind: Kind, grace: int | None, now: datetime) -> Ending:
    """The grace period: MARK if it begins or gets shorter, REMOVE if there is none."""
    meta = draft.meta
    if kind.grace is None:
        return Ending.REMOVE
    if meta.deletion_timestamp is None:
        period = kind.grace(draft, grace)
        meta.deletion_timestamp = text(now + timedelta(seconds=period))
        meta.deletion_grace_period_seconds = period
        if meta.generation:
            meta.generation += 1
        return Ending.MARK
    given = meta.deletion_grace_period_seconds
    if not given:
        return Ending.REMOVE
    if grace is None or grace >= given:
        return Ending.UNDER_WAY
    # ONLY EVER SHORTER, counted from the first request.
    ends = datetime.fromisoformat(meta.deletion_timestamp) - timedelta(seconds=given) + timedelta(seconds=grace)
    if ends < now:
        ends = now
        grace = min(grace, 1)
    meta.deletion_timestamp = text(ends)
    meta.deletion_grace_period_seconds = grace
    return Ending.MARK


def _finalizers(draft: Draft, propagation: Propagation | None) -> list[str]:
    """The finalizers as the wanted propagation has them; without a wish those that are there decide."""
    kept = [name for name in draft.meta.finalizers if name not in (ORPHAN, FOREGROUND)]
    if propagation is None:
        return kept + [name for name in draft.meta.finalizers if name in (ORPHAN, FOREGROUND)]
    return kept + {"Orphan": [ORPHAN], "Foreground": [FOREGROUND], "Background": []}[propagation]


def _mark(draft: Draft, now: datetime) -> None:
    meta = draft.meta
    if meta.deletion_timestamp is None and meta.generation:
        meta.generation += 1
    if meta.deletion_timestamp is None or datetime.fromisoformat(meta.deletion_timestamp) > now:
        meta.deletion_timestamp = text(now)
    meta.deletion_grace_period_seconds = 0


def ask_namespace(draft: Draft, *, propagation: Propagation | None, now: datetime) -> Ending:
    """Ask for a namespace's end: it waits until it is empty."""
    if draft.meta.deletion_timestamp is not None:
        return Ending.UNDER_WAY
    draft.meta.deletion_timestamp = text(now)
    draft.section("status")["phase"] = "Terminating"
    draft.meta.finalizers = _finalizers(draft, propagation)
    return Ending.MARK


def let_go(new: Draft, old: Draft, kind: Kind) -> bool:
    """Whether an update that takes the last finalizer of a dying object ends it."""
    if new.meta.finalizers or old.meta.deletion_timestamp is None or old.meta.deletion_grace_period_seconds:
        return False
    return kind.place != ("", "namespaces") or NAMESPACE_FINALIZER not in (new.peek("spec").get("finalizers") or ())


def text(moment: datetime) -> str:
    """A time as objects carry it."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="seconds")[:19] + "Z"
