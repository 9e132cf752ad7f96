"""What debug and resume change in a pod template.

A job runs its templates as they are, unless it is debugged or goes on after a pause:

    debug     the first container waits instead of working: another command, no args, and none of the probes that would end a container
              which does not answer. The environment stays.
    resume    the first container starts with another command, other args, or both. What is not given is the template's own.

Either may leave out the init containers, which have done their work before. Debug wins over resume entirely, since whoever debugs wants
neither the first start nor the second. The first container is the one that works; others are helpers of it and stay as they are.

What is put in is text of the user like the text it replaces: variables are replaced afterwards, in both alike (see `pods.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from genericjob.api.spec import GenericJobSpec

WAITING = ("sleep", "inf")
"""What a container does while it is debugged, if its type names nothing else."""
PROBES = ("livenessProbe", "startupProbe")
"""Probes that end a container. The readiness probe stays: it only tells."""


@dataclass(frozen=True, slots=True)
class Mode:
    """What takes the place of fields of a template."""

    put: Mapping[str, tuple[str, ...]]
    """Fields of the first container, and what they become."""
    removed: tuple[str, ...] = ()
    """Fields that the first container loses."""
    skips_init_containers: bool = False

    def applied(self, template: Mapping[str, Any]) -> Mapping[str, Any]:
        """A changed copy, since the template belongs to the cache. One that has no first container stays: the API server will say so."""
        spec = template.get("spec")
        containers = spec.get("containers") if isinstance(spec, Mapping) else None
        if not isinstance(spec, Mapping) or not isinstance(containers, list) or not containers or not isinstance(containers[0], Mapping):
            return template
        dropped = ("initContainers",) if self.skips_init_containers else ()
        first = _without(containers[0], self.removed) | {name: list(words) for name, words in self.put.items()}
        return {**template, "spec": _without(spec, dropped) | {"containers": [first, *containers[1:]]}}


AS_WRITTEN = Mode({})


def mode_of(spec: GenericJobSpec, *, type: str, resumed: bool) -> Mode:
    """Return how the pods of a type are started; `resumed` says whether the job went on after a pause, which its first start is not."""
    if spec.debugged:
        return _debugging(spec, type)
    return _resuming(spec, type) if resumed else AS_WRITTEN


def _debugging(spec: GenericJobSpec, type: str) -> Mode:
    debug = spec.run_mode.debug if spec.run_mode else None
    given = next((one for one in debug.replica_specs if one.type == type), None) if debug else None
    # AN EMPTY COMMAND IS NONE: with it the image's own would run, which is the work that is not to start.
    command = (given.command if given else None) or WAITING
    return Mode({"command": command}, ("args", *PROBES), given is not None and given.skip_init_container)


def _resuming(spec: GenericJobSpec, type: str) -> Mode:
    pause = spec.run_mode.pause if spec.run_mode else None
    given = next((one for one in pause.resume_specs if one.type == type), None) if pause else None
    if given is None:
        return AS_WRITTEN
    # AN EMPTY LIST IS GIVEN: `args: []` is how one says that there are none after a pause.
    words = {"command": given.command, "args": given.args}
    return Mode({name: found for name, found in words.items() if found is not None}, (), given.skip_init_container)


def _without(found: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in names}
