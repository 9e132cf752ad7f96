"""One process's claim to a Lease: what the record says, and one attempt at a time to hold it. `lease.py` adds the threads and the waiting.

A record that has not changed for the duration it promises, BY OUR OWN MONOTONIC CLOCK, may be taken. Times in the record are never compared
with anything: clocks of machines differ and jump. Every take-over is a PUT with the resourceVersion that was watched: if the holder renewed
in between, the server refuses.
"""

import logging
import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from .api import Api
from .errors import ApiError
from .primitives import Primitives
from .resources import LEASES, Key

log = logging.getLogger(__name__)

MOST = 2**31 - 1


class Record:
    """What a Lease says. Anybody may have written it: what makes no sense counts as not there."""

    def __init__(self, lease: dict[str, Any]) -> None:
        spec, metadata = lease.get("spec"), lease.get("metadata")
        self._lease = lease
        self._spec: Mapping[str, Any] = spec if isinstance(spec, dict) else {}
        holder, version = self._spec.get("holderIdentity"), metadata.get("resourceVersion") if isinstance(metadata, dict) else ""
        self.holder = holder if isinstance(holder, str) else ""
        self.version = version if isinstance(version, str) else ""

    @property
    def duration(self) -> int:
        """Seconds for which the holder relies on it; 0 if it does not say."""
        return _count(self._spec.get("leaseDurationSeconds"))

    def held(self, identity: str, now: datetime, seconds: float) -> Mapping[str, Any]:
        """The Lease to store so that this process holds it."""
        # A RENEWAL MUST CHANGE SOMETHING: the server gives no new version for an equal object, and a clock may stand still or go back.
        time = _time(now) if _time(now) != self._spec.get("renewTime") else _time(now + timedelta(microseconds=1))
        since, transitions = self._spec.get("acquireTime"), _count(self._spec.get("leaseTransitions"))
        ours = self.holder == identity
        return self._with(
            holderIdentity=identity,
            leaseDurationSeconds=max(1, math.ceil(seconds)),
            acquireTime=since if ours and isinstance(since, str) else time,
            renewTime=time,
            leaseTransitions=transitions if ours or not self.version else min(MOST, transitions + 1),
        )

    def released(self, now: datetime) -> Mapping[str, Any]:
        """The Lease to store so that anybody may take it at once."""
        return self._with(holderIdentity="", leaseDurationSeconds=1, acquireTime=_time(now), renewTime=_time(now))

    def _with(self, **fields: Any) -> Mapping[str, Any]:
        return {**self._lease, "spec": {**self._spec, **fields}}


class Claim:
    """Attempts of one process at one Lease. For one thread at a time, except `close`."""

    def __init__(self, api: Api, key: Key, identity: str, *, lease: float, primitives: Primitives) -> None:
        self._api, self._key, self._identity, self._lease, self._primitives = api, key, identity, lease, primitives
        self._seen: Record | None = None
        self._seen_since = float("-inf")
        self._closed = False

    def attempt(self, *, leading: bool) -> float | None:
        """Renew the lease if it is ours, take it if it may be taken.

        Returns the moment from which our time counts, or None if the lease is somebody else's. THAT IS THE MOMENT BEFORE THE REQUEST:
        others count from after they saw its effect, so we stop before they begin.
        """
        if leading and self._seen is not None:
            try:
                return self._store(self._seen)  # the quick way: nobody has written since we did
            except ApiError as error:
                if not error.conflict and not error.not_found:
                    raise
        found = self._read()
        if found is None:
            # ABSENT IS NOT FREE: somebody deleted the record of a holder that may still be at work; it makes a new one, or its time ends.
            return None if self.alive else self._create()
        return None if self.alive else self._store(found)

    @property
    def holder(self) -> str:
        """Whom the record named when last seen."""
        return self._seen.holder if self._seen else ""

    @property
    def alive(self) -> bool:
        """Whether the record last seen is of somebody else whose time is not over."""
        return self.holder not in ("", self._identity) and self._primitives.monotonic() < self.ends

    @property
    def ends(self) -> float:
        """The moment at which the record last seen may be taken, if it does not change before."""
        promised = self._seen.duration if self._seen else 0
        return self._seen_since + (promised or self._lease)

    def close(self) -> None:
        """Let no further attempt succeed: ONE THAT IS STILL UNDER WAY MUST NOT UNDO A RELEASE."""
        self._closed = True

    def give_away(self) -> bool:
        """Empty the record, if it is ours, so that somebody else can take it at once; whether it was."""
        found = self._seen
        for _ in range(2):  # the second time after somebody touched the record
            if found is None or found.holder != self._identity or not found.version:
                break
            try:
                self._api.replace(LEASES, self._key, found.released(self._primitives.now()))
            except ApiError as error:
                if not error.conflict:
                    raise
                found = self._read()
            else:
                return True
        return False

    def _read(self) -> Record | None:
        try:
            found = Record(self._api.get(LEASES, self._key))
        except ApiError as error:
            if error.not_found:
                return None
            raise
        self._observe(found)
        return found

    def _observe(self, found: Record) -> None:
        before, self._seen = self._seen, found
        if before is None or before.version != found.version:
            # THE TIME AFTER THE ANSWER, not before the question: the holder may have renewed while we asked.
            self._seen_since = self._primitives.monotonic()
        if found.holder not in ("", self._identity, before.holder if before else ""):
            log.info("%s leads: it holds the lease %s", found.holder, self._key)

    def _store(self, found: Record) -> float | None:
        if not found.version or self._closed:
            return None  # a PUT without a version would be unconditional
        begin = self._primitives.monotonic()
        self._observe(Record(self._api.replace(LEASES, self._key, found.held(self._identity, self._primitives.now(), self._lease))))
        return begin

    def _create(self) -> float | None:
        if self._closed:
            return None
        begin = self._primitives.monotonic()
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        empty = Record({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata})
        body = empty.held(self._identity, self._primitives.now(), self._lease)
        self._observe(Record(self._api.create(LEASES, body, self._key.namespace).object))
        return begin


def _count(value: Any) -> int:
    return value if type(value) is int and 0 < value <= MOST else 0


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
