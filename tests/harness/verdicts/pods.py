"""Clauses 1 and 2: whose things are, and how many of a rank there are at a time.

A pod may run from the moment in which it is created, and it does so until its node says that it has ended, or the server forgets it. Who
makes the server forget a pod that runs takes the risk that it runs on; a controller never does.
"""

from dataclasses import dataclass

from genericjob.api.names import ATTEMPT_ANNOTATION, DEBUG_ANNOTATION, EPOCH_ANNOTATION, FINAL_PHASES, KIND, REPLICA_LABEL

from .entries import JOBS, OWNED, Entry, History, Meta, Thing
from .violations import Findings


@dataclass
class Life:
    """What is known of one pod."""

    meta: Meta
    owner: str
    """UID of its job; empty if it is nobody's."""
    began: Entry
    """Its create, or what first told of it."""
    ran: Entry | None = None
    ended: Entry | None = None
    """The write that says how it ended, before anybody asked it to."""
    condemned: Entry | None = None
    """The write that asked it to go."""
    over: Entry | None = None
    """The write after which nothing of it runs."""
    gone: Entry | None = None
    """The write after which the server knows it no more."""
    disrupted: bool = False
    """Whether its end was for the sake of others."""

    @property
    def is_to_blame(self) -> bool:
        """Whether its end was its own doing, and means something."""
        return self.ended is not None and not self.disrupted and self.meta.annotations.get(DEBUG_ANNOTATION) != "true"

    @property
    def rank(self) -> tuple[str, str]:
        """Its job, and the name of all pods of its rank."""
        return self.owner, self.meta.labels.get(REPLICA_LABEL) or self.meta.name

    @property
    def epoch(self) -> int:
        """Of the job, when it was made."""
        return int(self.meta.annotations.get(EPOCH_ANNOTATION, "0"))

    @property
    def attempt(self) -> int:
        """Of the rank."""
        return int(self.meta.annotations.get(ATTEMPT_ANNOTATION, "0"))


class Pods:
    """Every pod that there ever was, as far as the history was told."""

    def __init__(self, history: History, user: str, findings: Findings) -> None:
        self._user, self._findings = user, findings
        doubtful = [entry for entry in history.writes if entry.verb == "delete" and entry.resource == "pods" and entry.in_doubt]
        self._perhaps_deleted = {entry.deletion.uid for entry in doubtful}
        self.lives: dict[str, Life] = {}
        self.of: dict[str, list[Life]] = {}
        """The same, by the UID of their job."""
        self._living: dict[tuple[str, str], dict[str, Life]] = {}
        """Those that may run, by rank."""

    def tell(self, entry: Entry, thing: Thing) -> Life:
        """The next write of a pod; returns what is known of it."""
        uid, owner = thing.metadata.uid, thing.metadata.owner
        life = self.lives.get(uid)
        if life is None:
            ours = owner.uid if owner and owner.kind == KIND else ""
            life = self.lives[uid] = Life(thing.metadata, ours, entry)
            self.of.setdefault(ours, []).append(life)
            if ours and not thing.gone:
                self._begins(life, entry)
        if entry.verb == "delete" and entry.user.username == self._user:
            self._deletes(life, entry)
        self._learn(life, entry, thing)
        return life

    def _begins(self, life: Life, entry: Entry) -> None:
        """CLAUSE 1: nobody else of its rank may be there."""
        others = self._living.setdefault(life.rank, {})
        for other in others.values():
            # A SERVER THAT IS KILLED loses lines: it has forgotten a pod that was asked to go, or the name would not be free.
            asked = other.condemned is not None or other.meta.uid in self._perhaps_deleted
            gone = asked and other.meta.name == life.meta.name
            what = f"{life.meta.name} begins, and another instance of it is not over"
            self._findings.unless(gone, 1, what, other.began, other.ran, entry)
        others[life.meta.uid] = life

    def _learn(self, life: Life, entry: Entry, thing: Thing) -> None:
        condemned = thing.metadata.deletion_timestamp is not None
        if thing.phase == "Running" and life.ran is None:
            life.ran = entry
        if thing.phase in FINAL_PHASES and not condemned and life.ended is None:
            life.ended, life.disrupted = entry, thing.disrupted
        if condemned and life.condemned is None:
            life.condemned = entry
        if life.over is None and (thing.gone or thing.phase in FINAL_PHASES):
            life.over = entry
            self._living.get(life.rank, {}).pop(life.meta.uid, None)
        if thing.gone and life.gone is None:
            life.gone = entry
        life.meta = thing.metadata

    def left_over(self, life: Life) -> Life | None:
        """A pod of an earlier epoch that is there when one of a later is made; who may have been deleted unheard is none."""
        return next(
            (
                each
                for each in self.of[life.owner]
                if each.epoch < life.epoch and not each.gone and each.meta.uid not in self._perhaps_deleted
            ),
            None,
        )

    def _deletes(self, life: Life, entry: Entry) -> None:
        self._findings.unless(life.owner, 2, f"{life.meta.name} is nobody's, and is deleted", life.began, entry)
        by_force = entry.deletion.grace_period_seconds is not None and life.over is None
        self._findings.unless(not by_force, 1, f"{life.meta.name} is deleted by force", life.began, life.ran, entry)


def belongings(history: History, user: str, findings: Findings) -> None:
    """CLAUSE 2, of every write that a controller sent, whatever came of it: things have an owner, and deletes name a UID."""
    strangers = {thing.metadata.uid: entry for entry, thing in history.stored if entry.resource in OWNED and not thing.metadata.owner}
    for entry in history.writes:
        if entry.user.username != user or (entry.resource not in OWNED and entry.resource != JOBS):
            continue
        name = entry.object_ref.name
        findings.unless(entry.verb != "deletecollection", 2, f"all {entry.resource} are deleted, whoever they belong to", entry)
        if entry.verb == "delete" and entry.request_object:
            uid = entry.deletion.uid
            findings.unless(uid, 2, f"{name} is deleted, whatever its UID", entry)
            alien = entry.succeeded and entry.resource == "services" and uid in strangers
            findings.unless(not alien, 2, f"{name} is nobody's, and is deleted", strangers.get(uid), entry)
        elif entry.verb == "delete":
            findings.unless(False, 2, f"{name} is deleted on no conditions at all", entry)
        elif entry.verb == "create" and entry.sent is not None:
            owner = entry.sent.metadata.owner
            findings.unless(owner and owner.uid and owner.kind == KIND, 2, f"{name} is created without a job as its owner", entry)
        elif entry.verb in ("update", "patch") and entry.resource in OWNED and entry.stored is not None:
            findings.unless(entry.stored.metadata.owner, 2, f"{name} is nobody's, and is changed", entry)
