"""The runs of this user that are going on: each can be talked to, by whoever finds its kubeconfig.

A run writes one, that nobody else may read, and keeps it locked. The lock is the kernel's and ends with the run in whatever way that ends:
a file without a lock belongs to nobody, and whoever meets one removes it.
"""

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from genericjob.reconcile.access import Access, Credentials

SUFFIX = ".yaml"
LOGS_KEPT = 50
"""Runs whose log files are kept where nobody named a place for them."""
ANY = ("", "-")
"""Names of the only run that there is."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


class RunError(Exception):
    """There is no such run, or there is one already; says which there are."""


class Registration:
    """The name of a run, for as long as it lasts."""

    def __init__(self, name: str, path: Path, file: int) -> None:
        self.name, self.path, self._file = name, path, file

    def announce(self, host: str, port: int, *, token: str, namespace: str) -> None:
        """Let the run be found: where its server is, and how it knows its user."""
        text = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": self.name,
                # THE TOKEN IS IN THE ADDRESS, TOO: over plain HTTP kubectl sends no other.
                "clusters": [{"name": self.name, "cluster": {"server": f"http://{host}:{port}/{token}"}}],
                "users": [{"name": self.name, "user": {"token": token}}],
                "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": self.name, "namespace": namespace}}],
            },
            sort_keys=False,
        )
        os.pwrite(self._file, text.encode(), 0)

    def close(self) -> None:
        """The run is over."""
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            os.close(self._file)


def directory() -> Path:
    """Where kubeconfigs of runs are: of this user alone."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    found = Path(runtime) / "genericjob" if runtime else _home() / ".cache" / "genericjob" / "runs"
    found.mkdir(mode=0o700, parents=True, exist_ok=True)
    seen = found.stat()
    if seen.st_uid != os.geteuid() or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RunError(f"{found} can be written by others: runs cannot be kept there")
    return found


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user whom the machine does not know
        raise RunError("there is no home directory, and $HOME names none") from None


def register(name: str, *, exactly: bool = False) -> Registration:
    """Take a name for a run, or the first of name-2, name-3, … that nobody has; with `exactly` this one or none."""
    if not _NAME.fullmatch(name):
        raise RunError(f"{name!r} is no name of a run: letters, digits, dots, dashes and underscores, 100 at most")
    here = directory()
    for number in count(1):
        tried = name if number == 1 else f"{name}-{number}"
        path = here / f"{tried}{SUFFIX}"
        if (file := _claimed(path)) is not None:
            return Registration(tried, path, file)
        if exactly:
            raise RunError(f"a run with the name {name} is going on already")
    raise AssertionError("numbers do not end")


def runs() -> list[str]:
    """The names of all runs that are going on. What ended runs have left behind is removed on the way."""
    return sorted(path.name.removesuffix(SUFFIX) for path in _living(directory()))


@dataclass(frozen=True)
class Reached:
    """A run, and all that it takes to talk to it."""

    name: str
    namespace: str
    credentials: Credentials


def reach(name: str = "") -> Reached:
    """A run's server for our own client: NOT BY ITS KUBECONFIG, which would take the `kubernetes` package and perhaps a proxy."""
    path = find(name)
    try:
        found = yaml.safe_load(path.read_text())
        context, token = found["contexts"][0]["context"], found["users"][0]["user"]["token"]
        url = urlsplit(found["clusters"][0]["cluster"]["server"])
    except (OSError, yaml.YAMLError, LookupError, TypeError):
        raise RunError(f"the run {path.name.removesuffix(SUFFIX)} has just ended, or {path} is not its own") from None
    access = Access(url.hostname or "", url.port or 0, authorization=f"Bearer {token}", source=f"run {found['current-context']}")
    return Reached(found["current-context"], context["namespace"], Credentials(lambda: access))


def find(name: str = "") -> Path:
    """The kubeconfig of a run; without a name that of the only one."""
    here, known = directory(), runs()
    if name in ANY and len(known) == 1:
        return here / f"{known[0]}{SUFFIX}"
    if name in known:
        return here / f"{name}{SUFFIX}"
    if not known:
        raise RunError("no run is going on on this machine: `genericjob run FILE` begins one")
    there_are = f"there {'is' if len(known) == 1 else 'are'}: {', '.join(known)}"
    raise RunError(f"which run? {there_are}" if name in ANY else f"no run {name} is going on; {there_are}")


def _logs() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else _home() / ".local" / "state") / "genericjob" / "logs"


def kept_logs(name: str) -> Path | None:
    """The log files of the last run of that name, or of the last one at all, if there are any."""
    wanted = re.compile((".+" if name in ANY else re.escape(name)) + r"-\d{8}-\d{6}(-\d+)?")
    try:
        found = [path for path in _logs().iterdir() if path.is_dir() and wanted.fullmatch(path.name)]
    except (OSError, RunError):
        return None
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def log_directory(name: str, now: datetime) -> Path:
    """A new directory for what a run's programs print. It stays when the run is over; of old ones only the newest are kept."""
    here = _logs()
    here.mkdir(mode=0o700, parents=True, exist_ok=True)
    _forget_old(here)
    for number in count(1):
        made = here / f"{name}-{now:%Y%m%d-%H%M%S}{f'-{number}' if number > 1 else ''}"
        with suppress(FileExistsError):
            made.mkdir(mode=0o700)
            return made
    raise AssertionError("numbers do not end")


def _forget_old(here: Path) -> None:
    with suppress(OSError, RunError):
        living = tuple(f"{name}-" for name in runs())
        known = sorted((path for path in here.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in known[LOGS_KEPT:]:
            if not path.name.startswith(living):
                shutil.rmtree(path, ignore_errors=True)


# ------------------------------------------------------------------------------------------------ locks


def _claimed(path: Path) -> int | None:
    """The locked file of a name, unless somebody else has the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        # THE NAME MAY BELONG TO ANOTHER FILE BY NOW: whoever had the lock before removed this one.
        if _same(file, path):
            os.ftruncate(file, 0)
            return file
        os.close(file)


def _living(here: Path) -> Iterator[Path]:
    for path in here.glob(f"*{SUFFIX}"):
        try:
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue  # it ended this moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if os.fstat(file).st_size:  # an empty one is still beginning
                yield path
        else:
            if _same(file, path):
                path.unlink(missing_ok=True)
        finally:
            os.close(file)


def _same(file: int, path: Path) -> bool:
    try:
        there, here = os.stat(path), os.fstat(file)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)
