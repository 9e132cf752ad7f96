"""The directory of a run: what its pods need for as long as they live, and what must be gone when the run is.

A run that was killed cannot tidy up. So the directory is locked while its run lives, and it lists what was made outside of it. Whoever
makes the next one removes those that nobody holds.
"""

import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

PREFIX = "genericjob-"
LIST = ".genericjob-outside"
"""File with the links that were made elsewhere, and the directories that were made for them. A directory without one is not ours."""


class Scratch:
    """A directory that is made when it is first needed."""

    def __init__(self, place: Path | None = None) -> None:
        self._place = place or Path(tempfile.gettempdir())
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._held = -1

    @property
    def path(self) -> Path:
        """Where it is."""
        with self._lock:
            if self._path is None:
                remove_abandoned(self._place)
                self._path, self._held = _made(self._place)
            return self._path

    def list_outside(self, path: str, target: str = "") -> None:
        """Note a link that must go with this directory; without a target, a directory that was made for one."""
        with (self.path / LIST).open("a") as file:
            file.write(f"{path}\0{target}\n")

    def close(self) -> None:
        """Remove it with all that belongs to it."""
        with self._lock:
            if self._path is not None:
                _remove(self._path)
                os.close(self._held)
                self._path = None


def _made(place: Path) -> tuple[Path, int]:
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    held = os.open(path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    (path / LIST).touch()  # AFTER THE LOCK: from now on it could be taken for an abandoned one
    return path, held


def remove_abandoned(place: Path) -> None:
    """Remove the directories of runs that are gone."""
    for path in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if path.is_symlink() or not (path / LIST).is_file() or path.stat().st_uid != os.getuid():
                continue
            held = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(path)
            finally:
                os.close(held)


def _remove(path: Path) -> None:
    with suppress(OSError):  # a program may have emptied the directory
        for line in reversed((path / LIST).read_text().splitlines()):
            remove_outside(*line.split("\0"))
    shutil.rmtree(path, ignore_errors=True)


def remove_outside(path: str, target: str) -> None:
    """Remove a link that leads where it did, or a directory that was made for one and is empty."""
    with suppress(OSError):
        if not target:
            os.rmdir(path)
        elif os.readlink(path) == target:
            os.unlink(path)
