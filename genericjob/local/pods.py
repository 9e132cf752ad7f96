"""Pods: their defaults, their life, and what of them may change.

What admission plug-ins of a certain cluster add (tolerations, priorities, service accounts) is not added, and what lies deep inside
(probes, affinities, container states) is kept as it comes.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from genericjob.reconcile.errors import Cause

from . import podspecs
from .drafts import Draft, same
from .refusals import denied, missing, wrong


def fill(pod: Draft) -> None:
    """Fill in the defaults that the real server writes into a spec."""
    spec = pod.section("spec")
    for field, value in _POD_DEFAULTS:
        spec.setdefault(field, value)
    spec.setdefault("securityContext", {})
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            _fill_container(container)


_POD_DEFAULTS: tuple[tuple[str, Any], ...] = (
    ("restartPolicy", "Always"),
    ("terminationGracePeriodSeconds", 30),
    ("dnsPolicy", "ClusterFirst"),
    ("schedulerName", "default-scheduler"),
    ("enableServiceLinks", True),
)


def _fill_container(container: dict[str, Any]) -> None:
    resources = container.setdefault("resources", {})
    if resources:
        for side in [side for side in ("limits", "requests") if side in resources]:
            resources[side] = {name: amount if isinstance(amount, str) else str(amount) for name, amount in resources[side].items()}
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        image = str(container.get("image") or "")
        tag = image.rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = "IfNotPresent" if "@" in image or tag not in ("", "latest") else "Always"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")


def create(pod: Draft) -> None:
    """A new pod is pending, whatever it says."""
    pod.meta.generation = 1
    pod.rest["status"] = {"phase": "Pending", "qosClass": _quality(pod.peek("spec"))}


def _quality(spec: dict[str, Any]) -> str:
    """The pod's quality of service, by the processor time and memory its containers ask for."""
    best, guaranteed = True, True
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            asked = container.get("resources") or {}
            limits, requests = asked.get("limits") or {}, asked.get("requests") or {}
            for name in ("cpu", "memory"):
                best = best and name not in limits and name not in requests
                guaranteed = guaranteed and name in limits and requests.get(name, limits[name]) == limits[name]
    return "BestEffort" if best else "Guaranteed" if guaranteed else "Burstable"


def update(new: Draft, old: Draft) -> None:
    """Keep the status, and count changes of the spec."""
    new.keep("status", old)
    if not same(new.peek("spec"), old.peek("spec")):
        new.meta.generation += 1


def update_status(new: Draft, old: Draft) -> None:
    """Keep the spec and the owners, and the quality of service if it is not told."""
    new.keep("spec", old)
    new.meta.deletion_timestamp = None
    new.meta.owner_references = old.meta.owner_references
    before = old.peek("status")
    if "qosClass" in before:
        new.section("status").setdefault("qosClass", before["qosClass"])


def check(new: Draft, old: Draft | None) -> Iterable[Cause]:
    """What is wrong with a new pod, or with a change of one."""
    if old is None:
        return _check_new(new.peek("spec"))
    return _check_change(new.peek("spec"), old.peek("spec"))


def _check_new(spec: dict[str, Any]) -> Iterator[Cause]:
    if not spec.get("containers"):
        yield missing("spec.containers")
    yield from podspecs.named_containers(spec)
    yield from podspecs.problems(spec)
    yield from _check_deadline(spec.get("activeDeadlineSeconds"), None)


def _check_change(new: dict[str, Any], old: dict[str, Any]) -> Iterator[Cause]:
    """Images, the deadline, additional tolerations and fewer scheduling gates may change; nothing else."""
    if same(new, old):
        return
    for group in ("containers", "initContainers"):
        if len(new.get(group) or ()) != len(old.get(group) or ()):
            yield denied(f"spec.{group}", "pod updates may not add or remove containers")
            return
    yield from podspecs.named_containers(new)
    yield from _check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if any(one not in (new.get("tolerations") or ()) for one in old.get("tolerations") or ()):
        yield denied("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if any(one not in (old.get("schedulingGates") or ()) for one in new.get("schedulingGates") or ()):
        yield denied("spec.schedulingGates", "only deletion is allowed")
    if not same(_fixed(new), _fixed(old)):
        yield denied("spec", "pod updates may not change fields other than images, activeDeadlineSeconds and tolerations (only additions)")


def _check_deadline(new: Any, old: Any) -> Iterator[Cause]:
    if new is not None and not 1 <= new < 2**31:
        yield wrong("spec.activeDeadlineSeconds", new, "must be between 1 and 2147483647, inclusive")
    elif new is None and old is not None:
        yield wrong("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value")
    elif new is not None and old is not None and new > old:
        yield wrong("spec.activeDeadlineSeconds", new, "must be less than or equal to previous value")


def _fixed(spec: dict[str, Any]) -> dict[str, Any]:
    """The part of a pod's spec that never changes."""
    kept = {name: value for name, value in spec.items() if name not in ("activeDeadlineSeconds", "tolerations", "schedulingGates")}
    for group in ("containers", "initContainers"):
        if isinstance(kept.get(group), list):
            kept[group] = [{k: v for k, v in one.items() if k != "image"} if isinstance(one, dict) else one for one in kept[group]]
    return kept


def check_status(new: Draft, old: Draft) -> Iterable[Cause]:
    """What a status may not say: another quality of service, or that a container runs again which must not."""
    quality = new.peek("status").get("qosClass")
    if quality != old.peek("status").get("qosClass"):
        yield wrong("status.qosClass", quality, "field is immutable")
    policy = old.peek("spec").get("restartPolicy")
    if policy != "Always":
        for group in ("initContainerStatuses", "containerStatuses"):
            yield from _check_restarts(new.peek("status").get(group), old.peek("status").get(group), str(policy), f"status.{group}")


def _check_restarts(new: Any, old: Any, policy: str, path: str) -> Iterator[Cause]:
    ended = {one.get("name"): _end(one) for one in old or ()}
    for index, one in enumerate(new or ()):
        end = ended.get(one.get("name"))
        if end is not None and _end(one) is None and not (policy == "OnFailure" and end.get("exitCode")):
            yield denied(f"{path}[{index}].state", "may not be transitioned to non-terminated state")


def _end(status: dict[str, Any]) -> dict[str, Any] | None:
    end = (status.get("state") or {}).get("terminated")
    return end if isinstance(end, dict) else None


def grace(pod: Draft, asked: int | None) -> int:
    """A pod on no node, and one that has ended, goes at once."""
    spec = pod.peek("spec")
    if not spec.get("nodeName") or pod.peek("status").get("phase") in ("Failed", "Succeeded"):
        return 0
    grace = spec.get("terminationGracePeriodSeconds") if asked is None else asked
    return 1 if (grace or 0) < 0 else int(grace or 0)
