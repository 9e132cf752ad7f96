"""What the API server refuses beyond types and limits, as rules in its own language (CEL).

A transition rule (one that speaks of `oldSelf`) is not asked where its field is added or removed. So the rules that keep a field from being
changed stand on an object that is always there, the spec or the whole job, and ask on both sides whether the field is there. Only the whole
job sees its name and its status.

EVERY RULE IS ASKED ON EVERY WRITE, those of the status and the removal of a finalizer included. A job that an older definition let pass
must still be told what is wrong with it, and must be able to go: so the other rules are asked of new jobs, and of old ones only where
what they are about has changed.

The server sees nothing inside of pod templates: they are open. What is wrong there is told when the first pod is created, and before that
by the policy in `manifests/policies` where an administrator wants it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .names import NAME_LIMIT, PAUSE_PHASES
from .spec import DOMAIN_PREFIXED_PATH, MAX_ADDRESSES, MAX_REPLICAS


@dataclass(frozen=True)
class Rule:
    """A condition that must hold, and what is said where it does not."""

    holds: str
    message: str
    field: str = ""
    """What the message is about, seen from where the rule stands."""
    reason: Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired"] = "FieldValueInvalid"
    """The server knows one more, for duplicates, but does not show the message then."""
    asked: Literal["at a change", "at creation", "at both"] = "at a change"
    unchanged: str = ""
    """For a rule that is asked at both: how to tell that what it is about is as it was."""

    def schemas(self) -> Iterator[dict[str, Any]]:
        """As the server wants it."""
        told = {"message": self.message, "reason": self.reason} | ({"fieldPath": f".{self.field}"} if self.field else {})
        if self.asked != "at a change":
            yield {"rule": f"oldSelf.hasValue() || {self.holds}", "optionalOldSelf": True, **told}
        if self.asked != "at creation":
            # A RULE OF ITS OWN: of an optional `oldSelf` the server does not know the size, and so the cost.
            yield {"rule": f"{self.unchanged} || {self.holds}" if self.unchanged else self.holds, **told}


def _there(self: str, path: str) -> str:
    """Whether a field is there, at whatever depth."""
    names = path.split(".")
    return " && ".join(f"has({'.'.join((self, *names[: depth + 1]))})" for depth in range(len(names)))


def _fixed(path: str, *, unless: str = "") -> Rule:
    """A field is the same on both sides, or on both sides absent."""
    new, old = _there("self", path), _there("oldSelf", path)
    same = f"({new} ? ({old} && self.{path} == oldSelf.{path}) : !({old}))"
    return Rule(f"{unless} || {same}" if unless else same, "cannot be changed", path, "FieldValueForbidden")


def _sum(self: str) -> str:
    return f"{self}.replicaSpecs.map(one, one.replicas).sum()"


def _same(field: str) -> str:
    return f"self.spec.replicaSpecs.map(one, one.{field}) == oldSelf.spec.replicaSpecs.map(one, one.{field})"


# IN THE SAME ORDER FIRST, which is so in every write of a status: to look for each of 128 types among all takes the server 0.1 s.
_SAME_REPLICAS = (
    f"(({_same('type')} && {_same('replicas')}) || (self.spec.replicaSpecs.size() == oldSelf.spec.replicaSpecs.size()"
    " && self.spec.replicaSpecs.all(new, oldSelf.spec.replicaSpecs.exists(old, old.type == new.type && old.replicas == new.replicas))))"
)
_HAS_ADDRESSES = (
    "(has(self.service) && has(self.service.ports)"
    " && self.service.ports.exists(one, has(one.targetPort) && !(one.targetPort in [dyn(0), dyn(''), dyn(one.port)])))"
)
_PAUSE_ASKED = f"(oldSelf.spec.suspend || ({_there('oldSelf.spec', 'runMode.pause')} && oldSelf.spec.runMode.pause.enabled))"
_PAUSED = f"({_PAUSE_ASKED} && {_there('oldSelf', 'status.phase')} && oldSelf.status.phase in {[*PAUSE_PHASES]})"

RULES: Mapping[str, tuple[Rule, ...]] = {
    "": (
        Rule(
            "self.spec.replicaSpecs.all(one, one.replicas == 0"
            f" || size(self.metadata.name) + size(one.type) + size(string(one.replicas - 1)) + 2 <= {NAME_LIMIT})",
            f"pods are named <job>-<type>-<rank>, and such a name has at most {NAME_LIMIT} characters: shorten metadata.name or the type",
            "metadata.name",
            asked="at both",
            unchanged=_SAME_REPLICAS,
        ),
        Rule(
            "!has(self.spec.service) || self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "services are named <job>-<type>-<rank>: with spec.service the name of a job begins with a letter and has only a-z, 0-9 and -",
            "metadata.name",
            asked="at creation",
        ),
        Rule(
            f"{_PAUSED} || {_SAME_REPLICAS}",
            "types and numbers of replicas can be changed only while the job is paused and status.phase says so",
            "spec.replicaSpecs",
            "FieldValueForbidden",
        ),
    ),
    "spec": (
        Rule(
            f"{_sum('self')} <= {MAX_REPLICAS}",
            f"a job has at most {MAX_REPLICAS} replicas in sum",
            "replicaSpecs",
            asked="at both",
            unchanged=f"{_sum('self')} <= {_sum('oldSelf')}",
        ),
        Rule(
            f"!{_HAS_ADDRESSES} || {_sum('self')} <= {MAX_ADDRESSES}",
            "a targetPort other than port takes one cluster address for each replica, and such a job has at most"
            f" {MAX_ADDRESSES} replicas in sum: let port be the port of the pod",
            "replicaSpecs",
            asked="at both",
            unchanged=f"{_sum('self')} <= {_sum('oldSelf')}",
        ),
        Rule(
            f'!has(self.managedBy) || self.managedBy.matches(r"^{DOMAIN_PREFIXED_PATH}$")',
            "managedBy is a domain-prefixed path such as example.com/controller",
            "managedBy",
            asked="at creation",
        ),
        _fixed("service"),
        _fixed("scheduler"),
        _fixed("managedBy"),
        # A job goes on when its pause is removed, and what was said there goes with it.
        _fixed("runMode.pause.resumeSpecs", unless=f"!({_there('self', 'runMode.pause')})"),
    ),
    "spec.replicaSpecs[].restartPolicy": (
        Rule(
            "self.scope != 'Job' || self.policy != 'Always'",
            "with the policy Always only a replica is started again, never the whole job: choose OnFailure, or leave the scope out",
            "scope",
            asked="at both",
            unchanged="(self.scope == oldSelf.scope && self.policy == oldSelf.policy)",
        ),
    ),
    "spec.replicaSpecs[].restartPolicy.exitCodes": (
        Rule(
            "!has(self.neverRestart) || !has(self.notCharged) || self.neverRestart.all(code, !(code in self.notCharged))",
            "an exit code is in neverRestart as well",
            "notCharged",
            asked="at both",
            unchanged="self == oldSelf",
        ),
    ),
    "spec.service.ports": (
        Rule(
            "self.size() <= 1 || self.all(one, has(one.name) && one.name != '')",
            "one of several ports needs a name",
            reason="FieldValueRequired",
            asked="at creation",
        ),
        Rule(
            "self.all(one, !has(one.name) || one.name == '' || self.exists_one(other, has(other.name) && other.name == one.name))",
            "two ports have the same name",
            asked="at creation",
        ),
    ),
    "spec.service.ports[]": (
        Rule(
            "!has(self.nodePort) || self.nodePort == 0",
            "replicas are reached from inside the cluster, and no node opens a port for them: leave nodePort out",
            "nodePort",
            "FieldValueForbidden",
            asked="at creation",
        ),
    ),
}
"""By the field they stand on; the empty one is the whole job."""
