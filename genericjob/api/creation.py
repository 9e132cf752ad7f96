"""The rules of `admission.py` that a server asks of a new job, in Python: for whoever judges a manifest without one.

Unlike the server they are also asked of a job that has the wrong types somewhere: all that is wrong is to be told at once. What has the
wrong type counts as absent here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .admission import RULES
from .names import NAME_LIMIT, replica_name
from .spec import MAX_REPLICAS

_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def broken(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rules that a new job breaks: the field, and what is said of it."""
    for place, rules in RULES.items():
        for path, value in _found(job, "", place):
            for rule, holds in zip(rules, HOLDS[place], strict=True):
                if holds is not None and not holds(value):
                    yield ".".join(filter(None, (path, rule.field))), rule.message


def _found(value: Any, path: str, place: str) -> Iterator[tuple[str, Any]]:
    """What stands at a place: `replicaSpecs[].restartPolicy` are those of all elements."""
    if place.startswith("[]"):
        for number, one in enumerate(_list(value)):
            yield from _found(one, f"{path}[{number}]", place.removeprefix("[]").removeprefix("."))
    elif not place:
        yield path, value
    else:
        name = re.split(r"\.|(?=\[)", place, maxsplit=1)[0]
        if name in (below := _map(value)):
            yield from _found(below[name], f"{path}.{name}" if path else name, place.removeprefix(name).removeprefix("."))


# ------------------------------------------------------------------------------------------------ the rules


def _names_fit(job: Any) -> bool:
    name, specs = _text(_map(job.get("metadata")).get("name")), _list(_map(job.get("spec")).get("replicaSpecs"))
    return all(
        len(replica_name(name, _text(_map(one).get("type")), count - 1)) <= NAME_LIMIT for one in specs if (count := _replicas(one)) > 0
    )


def _is_part_of_a_service(job: Any) -> bool:
    name = _text(_map(job.get("metadata")).get("name"))
    return "service" not in _map(job.get("spec")) or _SERVICE_NAME.fullmatch(name) is not None


def _not_too_many(spec: Any) -> bool:
    return sum(map(_replicas, _list(_map(spec).get("replicaSpecs")))) <= MAX_REPLICAS


def _ends_somehow(policy: Any) -> bool:
    return _map(policy).get("scope") != "Job" or _map(policy).get("policy") != "Always"


def _in_one_list_only(codes: Any) -> bool:
    return not any(code in _list(_map(codes).get("notCharged")) for code in _list(_map(codes).get("neverRestart")))


def _have_names(ports: Any) -> bool:
    return len(_list(ports)) <= 1 or all(_map(one).get("name") for one in _list(ports))


def _are_told_apart(ports: Any) -> bool:
    names = [name for one in _list(ports) if (name := _text(_map(one).get("name")))]
    return len({*names}) == len(names)


def _opens_no_port_of_nodes(port: Any) -> bool:
    return not _map(port).get("nodePort")


HOLDS: Mapping[str, tuple[Callable[[Any], bool] | None, ...]] = {
    "": (_names_fit, _is_part_of_a_service, None),
    "spec": (_not_too_many, None, None, None, None),
    "spec.replicaSpecs[].restartPolicy": (_ends_somehow,),
    "spec.replicaSpecs[].restartPolicy.exitCodes": (_in_one_list_only,),
    "spec.service.ports": (_have_names, _are_told_apart),
    "spec.service.ports[]": (_opens_no_port_of_nodes,),
}
"""In the order of `RULES`; None for those that are asked at a change alone."""


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _replicas(spec: Any) -> int:
    found = _map(spec).get("replicas", 1)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
