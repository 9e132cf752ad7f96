"""Clause 10: who wrote while somebody else led, or after its own time was over.

A leader renews its lease, and each renewal that it heard of gives it the right to write for `RENEW` seconds, counted from the time in the
renewal. A write that was sent in the last moment of that may arrive later, but not by more than the time after which its sender gives it
up. The order of versions tells more: once another has taken the lease, nothing of the old leader is stored any more. Creates are the
exception: admission may hold them up, so it only counts when the server received them.

Who never asks for the lease does not take part: a controller that was started without `--leader-elect`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from genericjob.reconcile.http import Timeouts
from genericjob.reconcile.lease import Timings

from .entries import JOBS, LEASES, OWNED, Entry, History
from .violations import Findings

RENEW = timedelta(seconds=Timings().renew)
ON_ITS_WAY = timedelta(seconds=Timeouts().write)


class _Lease(msgspec.Struct, rename="camel"):
    holder_identity: str = ""
    renew_time: datetime | None = None


@dataclass
class Term:
    """A process that holds the lease, or held it last."""

    who: str
    holder: str
    taken: Entry
    renewed: Entry
    until: datetime
    released: Entry | None = None


def reigns(history: History, user: str, findings: Findings, *, lease: str) -> None:
    """Walk through the leases and the work, in the order of versions."""
    taking_part = {who for who, name in history.candidates if name == lease}
    terms: dict[str, Term] = {}
    current: Term | None = None
    for entry, thing in history.stored:
        if entry.user.username != user:
            continue
        if _is_lease(entry, lease):
            current = _renewed(terms, current, entry, msgspec.json.decode(thing.spec, type=_Lease))
        elif entry.who in taking_part and (entry.resource in OWNED or entry.resource == JOBS):
            _judge(terms, current, entry, findings)


def _renewed(terms: dict[str, Term], current: Term | None, entry: Entry, lease: _Lease) -> Term | None:
    if not lease.holder_identity:
        if own := terms.get(entry.who):
            own.released = entry
        return None
    until = (lease.renew_time or entry.received).astimezone(UTC) + RENEW
    same = current is not None and (current.who, current.holder) == (entry.who, lease.holder_identity)
    taken = current.taken if same and current is not None else entry
    terms[entry.who] = Term(entry.who, lease.holder_identity, taken, entry, until)
    return terms[entry.who]


def _judge(terms: Mapping[str, Term], current: Term | None, entry: Entry, findings: Findings) -> None:
    own, what = terms.get(entry.who), f"{entry.verb} of {entry.object_ref.name}"
    if current is not None and current.who != entry.who and not _was_under_way(entry, current.taken):
        findings.unless(False, 10, f"{what}, and another leads", own.renewed if own else None, current.taken, entry)
    elif own is None or (own.released and not _was_under_way(entry, own.released)):
        findings.unless(False, 10, f"{what} by one that does not lead", entry)
    else:
        late = entry.received - own.until
        findings.unless(late <= ON_ITS_WAY, 10, f"{what}, {late.total_seconds():.1f} s after the renew deadline", own.renewed, entry)


def _was_under_way(write: Entry, end: Entry) -> bool:
    """Whether a write is a create that the server had received when its sender's term ended."""
    return write.verb == "create" and write.received < end.received


def _is_lease(entry: Entry, name: str) -> bool:
    return entry.resource == LEASES and entry.object_ref.name == name
