"""The contract, judged from the audit log of an API server alone: afterwards, and by nobody who took part.

    assert judge(plane.audit_log) == []
    python -m harness.verdicts audit.log

The log says who wrote what, and in which order the server stored it. From that the lives of all pods, the statuses of all jobs and the
terms of all leaders are put together, and clauses 1 to 5 and 10 of `docs/contract.md` are asked of each write. The log has to hold the
bodies of requests and answers for pods, services, jobs and leases, as that of a control plane of ours does.

What no log can show: what ran on a node that nobody heard of any more, and what a controller decided and did not send.
"""

from pathlib import Path

from .entries import JOBS, Entry, History, history, read
from .leaders import reigns
from .pods import Pods, belongings
from .statuses import Jobs
from .violations import Findings, Violation

__all__ = ["CONTROLLER", "Entry", "History", "Violation", "history", "judge", "judged", "read"]

CONTROLLER = "system:serviceaccount:genericjob-system:genericjob-controller"
"""The account of controllers."""
LEASE = "genericjob-controller"


def judge(path: Path, *, since: int = 0, user: str = CONTROLLER) -> list[Violation]:
    """What is wrong in a log, from a place in it on."""
    return judged(read(path, since=since), user=user)


def judged(found: History, *, user: str = CONTROLLER, lease: str = LEASE) -> list[Violation]:
    """What is wrong in a history; raises ValueError if that cannot be seen in it."""
    if any(entry.succeeded and not entry.response_object and entry.resource in ("pods", JOBS) for entry in found.writes):
        raise ValueError("the log has no bodies of pods or jobs: nothing can be judged from it")
    findings = Findings()
    pods = Pods(found, user, findings)
    jobs = Jobs(user, findings, pods)
    for entry, thing in found.stored:
        if entry.resource == JOBS and thing.kind == "GenericJob":
            jobs.tell(entry, thing)
        elif entry.resource == "pods" and thing.kind == "Pod":
            ours, known = entry.user.username == user, pods.lives.get(thing.metadata.uid)
            if ours and entry.verb == "delete" and known is not None:
                jobs.deleted(known, entry)  # BEFORE IT IS TOLD: what counts is what was there when it was deleted
            life = pods.tell(entry, thing)
            if ours and entry.verb == "create":
                jobs.created(life, entry)
    belongings(found, user, findings)
    reigns(found, user, findings, lease=lease)
    return findings.all
