"""Volumes of a pod, as directories of this machine.

An emptyDir is a directory that lives as long as its pod, a ConfigMap or Secret becomes files in one, and a hostPath is the path itself. A
program finds each in the variable GENERICJOB_VOLUME_<NAME>, and where it can be, at its mountPath too: as a link, if nothing is there yet.
A machine has one file system for all ranks, so only one of them can have the link; where it is missing, that is said once.

    cd "${GENERICJOB_VOLUME_DATA:-/data}"

works here and on a cluster. Other volumes (claims, network file systems) are not there.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from genericjob.reconcile.structs import converter

from .scratch import Scratch, remove_outside
from .sources import CannotStartError, Kind, Surroundings, entries, missing_key

VARIABLE = "GENERICJOB_VOLUME_"
HONOURED = ("emptyDir", "configMap", "secret", "hostPath")
FILE_MODE = 0o644

# ------------------------------------------------------------------------------------------------ as manifests write it


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _Item(_Wire):
    key: str
    path: str
    mode: int | None = None


class _Files(_Wire):
    name: str = ""
    secret_name: str = ""
    items: list[_Item] | None = None
    default_mode: int | None = None
    optional: bool | None = None


class _HostPath(_Wire):
    path: str
    type: str | None = None


class _Volume(_Wire):
    name: str
    config_map: _Files | None = None
    secret: _Files | None = None
    host_path: _HostPath | None = None


class _Mount(_Wire):
    name: str
    mount_path: str
    sub_path: str | None = None


class _Container(_Wire):
    volume_mounts: list[_Mount] | None = None


class _Pod(_Wire):
    volumes: list[_Volume] | None = None
    init_containers: list[_Container] | None = None
    containers: list[_Container] | None = None


_as_pod, _as_container = converter(_Pod), converter(_Container)


# ------------------------------------------------------------------------------------------------ what is not honoured


def unhonoured_volumes(spec: Mapping[str, Any]) -> Iterator[str]:
    """Kinds of volumes that are not there."""
    return (kind for volume in _mappings(spec.get("volumes")) if (kind := _kind(volume)) not in HONOURED)


def unhonoured_mounts(container: Mapping[str, Any]) -> Iterator[str]:
    """Fields of mounts that mean nothing to a link."""
    known = ("name", "mountPath", "subPath")
    return (name for mount in _mappings(container.get("volumeMounts")) for name, value in mount.items() if name not in known and value)


def _mappings(found: object) -> Iterator[Mapping[str, Any]]:
    return (each for each in found if isinstance(each, Mapping)) if isinstance(found, list) else iter(())


def _kind(volume: Mapping[str, Any]) -> str:
    return next((name for name, value in volume.items() if name != "name" and value is not None), "emptyDir")


# ------------------------------------------------------------------------------------------------ volumes


class Volumes:
    """The volumes of one pod."""

    def __init__(self, spec: Mapping[str, Any], around: Surroundings, scratch: Scratch, notice: Callable[[str], None]) -> None:
        self._spec, self._around, self._scratch, self._notice = spec, around, scratch, notice
        self._places: dict[str, str] = {}
        """Where a volume is, by name."""
        self._made: list[tuple[str, str]] = []
        """Links with their targets, and directories that were made for them."""
        self._ready = not spec.get("volumes")

    @property
    def _directory(self) -> Path:
        return self._scratch.path / "volumes" / str(self._around.metadata["uid"])

    def prepare(self) -> None:
        """Make what is not there yet; raises NotYetError while something is missing."""
        if self._ready:
            return
        try:
            pod = _as_pod(self._spec)
        except msgspec.ValidationError as error:
            raise CannotStartError(f"the pod's volumes cannot be read: {error}") from None
        self._scratch.path  # noqa: B018 - BEFORE THE LINKS: those of runs that were killed go when it is made
        honoured = {str(volume.get("name")) for volume in _mappings(self._spec.get("volumes")) if _kind(volume) in HONOURED}
        for volume in pod.volumes or ():
            if volume.name in honoured and volume.name not in self._places:
                self._fill(volume)
        mounts = [mount for each in (*(pod.init_containers or ()), *(pod.containers or ())) for mount in each.volume_mounts or ()]
        for mount in sorted(mounts, key=lambda mount: mount.mount_path):  # a mount in a mount comes after it
            if mount.name in self._places:
                self._link(mount)
        self._ready = True

    def variables(self, container: Mapping[str, Any]) -> dict[str, str]:
        """The variables in which a container finds its volumes; of several mounts of one, the first."""
        return {variable(mount.name): self._target(mount) for mount in reversed(self._mounts(container))}

    def directory(self, container: Mapping[str, Any], path: str) -> str:
        """Where a path of the container is on this machine: a mountPath may lead into the volume of another rank, or nowhere."""
        for mount in sorted(self._mounts(container), key=lambda mount: mount.mount_path, reverse=True):  # the innermost
            at = os.path.normpath(mount.mount_path)
            if os.path.normpath(path) == at or path.startswith(f"{at}/"):
                return os.path.join(self._target(mount), os.path.relpath(path, at)).removesuffix("/.")
        return path

    def remove(self) -> None:
        """The pod is over."""
        for made, target in reversed(self._made):
            remove_outside(made, target)
        self._made.clear()
        if self._places:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._places.clear()

    # -------------------------------------------------------------------------------------------- contents

    def _fill(self, volume: _Volume) -> None:
        if volume.host_path is not None:
            self._places[volume.name] = os.path.normpath(volume.host_path.path)
            self._look_at(volume.name, volume.host_path)
            return
        directory = self._directory / volume.name
        kinds: tuple[tuple[Kind, _Files | None], ...] = (("ConfigMap", volume.config_map), ("Secret", volume.secret))
        for kind, wanted in kinds:
            for path, (data, mode) in self._files(kind, wanted).items() if wanted else ():
                file = directory / _inside(path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
                file.chmod(mode)
        directory.mkdir(parents=True, exist_ok=True)
        self._places[volume.name] = str(directory)

    def _look_at(self, name: str, wanted: _HostPath) -> None:
        if os.path.exists(wanted.path):
            return
        why = "does not exist on this machine"
        if wanted.type == "DirectoryOrCreate":
            try:
                os.makedirs(wanted.path, exist_ok=True)
            except OSError as error:
                why = f"cannot be made on this machine ({error.strerror})"
            else:
                return
        self._notice(f"the hostPath {wanted.path} of the volume {name} {why}")

    def _files(self, kind: Kind, wanted: _Files) -> dict[str, tuple[bytes, int]]:
        wanted.name = wanted.name or wanted.secret_name
        mode = FILE_MODE if wanted.default_mode is None else wanted.default_mode
        found = entries(kind, wanted, self._around, binary=True) or {}
        if wanted.items is None:
            return {key: (data, mode) for key, data in found.items()}
        for item in wanted.items:
            if item.key not in found and not wanted.optional:
                raise missing_key(kind, wanted, item.key)
        return {item.path: (found[item.key], item.mode or mode) for item in wanted.items if item.key in found}

    # -------------------------------------------------------------------------------------------- mounts

    def _mounts(self, container: Mapping[str, Any]) -> list[_Mount]:
        if not self._places:
            return []
        return [mount for mount in _as_container(container).volume_mounts or () if mount.name in self._places]

    def _target(self, mount: _Mount) -> str:
        return os.path.join(self._places[mount.name], _inside(mount.sub_path)) if mount.sub_path else self._places[mount.name]

    def _link(self, mount: _Mount) -> None:
        path, target = os.path.normpath(os.path.join("/", mount.mount_path)), self._target(mount)
        if path == target:
            return
        where = f"the volume {mount.name} is in ${variable(mount.name)}"
        try:
            if mount.sub_path and not os.path.exists(target):
                os.makedirs(target, exist_ok=True)
            self._make_parents(os.path.dirname(path))
            os.symlink(target, path)
            self._remember(path, target)
        except FileExistsError:
            if os.path.realpath(path) != os.path.realpath(target):
                self._notice(f"the mountPath {path} {self._whose(path)}: {where}")
        except OSError as error:
            self._notice(f"the mountPath {path} cannot be made on this machine ({error.strerror}): {where}")

    def _make_parents(self, directory: str) -> None:
        if not os.path.lexists(directory):
            self._make_parents(os.path.dirname(directory))
            with suppress(FileExistsError):  # another rank was quicker
                os.mkdir(directory)
                self._remember(directory)

    def _whose(self, path: str) -> str:
        ours = os.path.islink(path) and os.readlink(path).startswith(f"{self._scratch.path}/")
        return "belongs to another rank" if ours else "exists on this machine"

    def _remember(self, made: str, target: str = "") -> None:
        self._made.append((made, target))
        self._scratch.list_outside(made, target)


def variable(volume: str) -> str:
    """The variable in which programs find a volume."""
    return VARIABLE + re.sub(r"[^A-Z0-9]", "_", volume.upper())


def _inside(path: str) -> str:
    if os.path.isabs(path) or ".." in path.split("/"):
        raise CannotStartError(f"the path {path!r} leads out of its volume")
    return path
