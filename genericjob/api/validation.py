"""The rules of `admission.py` in Python: for whoever judges a manifest without a server, and for the API in memory, which knows no CEL.

Unlike the server they are also asked of a job that has the wrong types somewhere: all that is wrong is to be told at once. What has the
wrong type counts as absent here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .admission import RULES, Rule
from .names import NAME_LIMIT, PAUSE_PHASES, replica_name
from .spec import DOMAIN_PREFIXED_PATH, MAX_ADDRESSES, MAX_REPLICAS

_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_MANAGER = re.compile(DOMAIN_PREFIXED_PATH)
NEW: Mapping[str, Any] = {}
"""In the place of what was there before, where nothing was."""


@dataclass(frozen=True)
class Check:
    """A rule in Python: what holds of a value, or else how to tell that nothing about it is new."""

    holds: Callable[[Any], bool] = lambda value: False
    unchanged: Callable[[Any, Any], bool] = lambda value, old: False

    def broken(self, rule: Rule, value: Any, old: Any) -> bool:
        """Whether a value breaks it, in the place of another one or of nothing."""
        if old is NEW:
            return rule.asked != "at a change" and not self.holds(value)
        return rule.asked != "at creation" and not self.unchanged(value, old) and not self.holds(value)


class Broken(NamedTuple):
    """A rule that a job breaks."""

    field: str
    rule: Rule
    value: Any
    """What the rule stands on."""


def broken(job: Mapping[str, Any], old: Mapping[str, Any] = NEW) -> Iterator[Broken]:
    """Rules that a new job breaks, or one in the place of an older one."""
    for place, rules in RULES.items():
        for path, value, before in _found(job, old, "", place):
            for rule, check in zip(rules, CHECKS[place], strict=True):
                if check.broken(rule, value, before):
                    yield Broken(".".join(filter(None, (path, rule.field))), rule, value)


def _found(value: Any, old: Any, path: str, place: str) -> Iterator[tuple[str, Any, Any]]:
    """What stands at a place, and what stood there: `replicaSpecs[].restartPolicy` are those of all elements."""
    if place.startswith("[]"):
        before = _keyed(_list(old))
        for number, one in enumerate(_list(value)):
            yield from _found(one, before.get(_key(one), NEW), f"{path}[{number}]", place.removeprefix("[]").removeprefix("."))
    elif not place:
        yield path, value, old
    else:
        name = re.split(r"\.|(?=\[)", place, maxsplit=1)[0]
        if name in (below := _map(value)):
            rest = place.removeprefix(name).removeprefix(".")
            yield from _found(below[name], _map(old).get(name, NEW), f"{path}.{name}" if path else name, rest)


# ------------------------------------------------------------------------------------------------ the rules


def _names_fit(job: Any) -> bool:
    name, specs = _text(_map(job.get("metadata")).get("name")), _list(_map(job.get("spec")).get("replicaSpecs"))
    return all(
        len(replica_name(name, _text(_map(one).get("type")), count - 1)) <= NAME_LIMIT for one in specs if (count := _replicas(one)) > 0
    )


def _is_part_of_a_service(job: Any) -> bool:
    name = _text(_map(job.get("metadata")).get("name"))
    return "service" not in _map(job.get("spec")) or _SERVICE_NAME.fullmatch(name) is not None


def _replicas_are_as_they_were(job: Any, old: Any) -> bool:
    return _numbers(job) == _numbers(old)


def _replicas_change_in_a_pause(job: Any, old: Any) -> bool:
    """If they change at all."""
    spec, phase = _map(_map(old).get("spec")), _map(_map(old).get("status")).get("phase")
    asked = spec.get("suspend") is True or _map(_at(spec, "runMode.pause")).get("enabled") is True
    return (asked and phase in PAUSE_PHASES) or _replicas_are_as_they_were(job, old)


def _numbers(job: Any) -> dict[str, int]:
    return {_text(_map(one).get("type")): _replicas(one) for one in _list(_map(_map(job).get("spec")).get("replicaSpecs"))}


def _sum(spec: Any) -> int:
    return sum(map(_replicas, _list(_map(spec).get("replicaSpecs"))))


def _has_no_more_replicas(spec: Any, old: Any) -> bool:
    return _sum(spec) <= _sum(old)


def _has_addresses(spec: Any) -> bool:
    """Whether the services of a job have cluster addresses (see `jobs/services.py`)."""
    ports = _list(_at(spec, "service.ports"))
    return any(_map(port).get("targetPort") not in (None, 0, "", _map(port).get("port")) for port in ports)


def _names_a_manager(spec: Any) -> bool:
    """Whether managedBy is absent or well-formed."""
    found = _map(spec).get("managedBy")
    return not isinstance(found, str) or _MANAGER.fullmatch(found) is not None


def _fixed(path: str, unless: Callable[[Any], bool] = lambda spec: False) -> Check:
    return Check(unchanged=lambda spec, old: unless(spec) or _unordered(_at(spec, path)) == _unordered(_at(old, path)))


def _unordered(value: Any) -> Any:
    """As the server compares values: lists whose elements have keys are the same in any order."""
    if isinstance(value, Mapping):
        return {name: _unordered(one) for name, one in value.items()}
    if isinstance(value, list) and any(map(_key, value)):
        return _keyed(value)
    return value


def _keyed(elements: list[Any]) -> dict[tuple[str, ...], Any]:
    return {_key(one): one for one in elements}


def _key(element: Any) -> tuple[str, ...]:
    """What tells the elements of such a list apart; nothing in any other."""
    return tuple(f"{name} {_map(element)[name]}" for name in ("type", "port", "protocol") if name in _map(element))


def _at(value: Any, path: str) -> Any:
    """What stands there; None if nothing does."""
    for name in path.split("."):
        value = _map(value).get(name)
    return value


def _ends_somehow(policy: Any) -> bool:
    return _map(policy).get("scope") != "Job" or _map(policy).get("policy") != "Always"


def _has_the_scope_it_had(policy: Any, old: Any) -> bool:
    return all(_map(policy).get(name) == _map(old).get(name) for name in ("scope", "policy"))


def _in_one_list_only(codes: Any) -> bool:
    return not any(code in _list(_map(codes).get("notCharged")) for code in _list(_map(codes).get("neverRestart")))


def _have_names(ports: Any) -> bool:
    return len(_list(ports)) <= 1 or all(_map(one).get("name") for one in _list(ports))


def _are_told_apart(ports: Any) -> bool:
    names = [name for one in _list(ports) if (name := _text(_map(one).get("name")))]
    return len({*names}) == len(names)


def _opens_no_port_of_nodes(port: Any) -> bool:
    return not _map(port).get("nodePort")


CHECKS: Mapping[str, tuple[Check, ...]] = {
    "": (
        Check(_names_fit, _replicas_are_as_they_were),
        Check(_is_part_of_a_service),
        Check(unchanged=_replicas_change_in_a_pause),
    ),
    "spec": (
        Check(lambda spec: _sum(spec) <= MAX_REPLICAS, _has_no_more_replicas),
        Check(lambda spec: _sum(spec) <= MAX_ADDRESSES or not _has_addresses(spec), _has_no_more_replicas),
        Check(_names_a_manager),
        _fixed("service"),
        _fixed("scheduler"),
        _fixed("managedBy"),
        _fixed("runMode.pause.resumeSpecs", unless=lambda spec: _at(spec, "runMode.pause") is None),
    ),
    "spec.replicaSpecs[].restartPolicy": (Check(_ends_somehow, _has_the_scope_it_had),),
    "spec.replicaSpecs[].restartPolicy.exitCodes": (Check(_in_one_list_only, lambda codes, old: codes == old),),
    "spec.service.ports": (Check(_have_names), Check(_are_told_apart)),
    "spec.service.ports[]": (Check(_opens_no_port_of_nodes),),
}
"""In the order of `RULES`."""


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _replicas(spec: Any) -> int:
    found = _map(spec).get("replicas", 1)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
