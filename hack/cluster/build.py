"""The programs of the control plane, built once and kept outside the checkout.

    CACHE/programs/KEY/    the finished programs; KEY stands for all that went into them
    CACHE/unfinished/      Go's caches and the output of a build that is not through
    CACHE/go/              a Go toolchain, where the machine had none
    CACHE/clusters/        the clusters (see `plane`)

A finished directory appears by one rename, so what is there is whole. An interrupted build keeps Go's caches and goes on from them; a
finished one removes them, for they are twenty times the size of the programs.
"""

import hashlib
import os
import platform
import re
import shutil
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from cluster import ClusterError
from cluster.lock import locked
from cluster.progress import Progress, run_watched
from cluster.toolchain import Version, find_go, parse_version

SOURCE = Path(__file__).resolve().parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "certs")
PACKAGES = ("tool", "./certs")

GB = 1000**3
DISK_NEEDED = 10 * GB
MEMORY_NEEDED = 2 * GB

# Settings of the user that would change what is built. Those that say where modules come from (GOPROXY and the like) stay.
UNWANTED = {"GOROOT", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOBIN", "GOEXPERIMENT", "GODEBUG", "GOFIPS140", "GO111MODULE"}
SETTINGS = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
    "GOWORK": "off",
    "GOTOOLCHAIN": "local",
}


def cache_directory() -> Path:
    """Where everything that is made here is kept."""
    if own := os.environ.get("GENERICJOB_CACHE"):
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "genericjob"


def clusters_directory() -> Path:
    """Where clusters are kept unless somebody says otherwise."""
    return cache_directory() / "clusters"


def published() -> Path | None:
    """The directory of the finished programs, if they have been built from what the source is now."""
    directory = cache_directory() / "programs" / key()
    return directory if directory.is_dir() else None


def ensure(progress: Progress | None = None) -> Path:
    """The directory of the finished programs, built first if need be."""
    if not sys.platform.startswith("linux"):
        raise ClusterError("the control plane needs Linux")
    if done := published():
        return done
    progress = progress or Progress()
    cache = cache_directory()
    with locked(cache, waiting=f"another build is going on in {cache}: waiting for it"):
        try:
            return published() or _build(cache, progress)
        finally:
            progress.close()


def key(source: Path = SOURCE) -> str:
    """A short name for all that decides what the programs will be."""
    digest = hashlib.sha256()
    for path in (source / "go.mod", source / "go.sum", *sorted((source / "certs").glob("*.go"))):
        digest.update(f"{path.name} {path.stat().st_size}\n".encode() + path.read_bytes())
    digest.update("\n".join([*_build_flags(source), *SETTINGS.values(), platform.machine()]).encode())
    return digest.hexdigest()[:16]


def kubernetes_version(source: Path = SOURCE) -> str:
    """The version of Kubernetes that go.mod asks for, such as v1.34.4."""
    match = re.search(r"^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)\b", (source / "go.mod").read_text(), re.MULTILINE)
    if not match:
        raise ClusterError(f"{source / 'go.mod'} requires no k8s.io/kubernetes")
    return match[1]


def wanted_go(source: Path = SOURCE) -> Version:
    """The oldest Go that go.mod accepts."""
    match = re.search(r"^go .*$", (source / "go.mod").read_text(), re.MULTILINE)
    version = parse_version(match[0]) if match else None
    if not version:
        raise ClusterError(f"{source / 'go.mod'} names no Go version")
    return version


def _build_flags(source: Path = SOURCE) -> list[str]:
    version = kubernetes_version(source)
    major, minor, _ = version.removeprefix("v").split(".")
    # Without these the programs call themselves v0.0.0, and clients that look at the version believe it.
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return [
        "-trimpath",
        "-ldflags",
        " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in facts.items())]),
    ]


def _build(cache: Path, progress: Progress) -> Path:
    unfinished = cache / "unfinished"
    _check_room(cache, unfinished)
    go = find_go(wanted_go(), cache=cache, say=progress.say)
    out, tmp = unfinished / "out", unfinished / "tmp"
    for directory in (out, tmp):  # half-made programs of an earlier attempt; what Go compiled for them is in its cache
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    progress.say(f"building Kubernetes {kubernetes_version()} with {go} in {cache}: some minutes, once")
    packages = _packages_to_build(go, unfinished, progress)
    _compile(go, unfinished, packages=packages, progress=progress)
    (out / "server").rename(out / "etcd")  # Go names a program after the last part of its package's path
    if missing := [name for name in PROGRAMS if not (out / name).is_file()]:
        raise ClusterError(f"the build went through but made no {', '.join(missing)}")
    finished = cache / "programs" / key()
    finished.parent.mkdir(exist_ok=True)
    out.rename(finished)
    progress.say(f"built: {finished}")
    shutil.rmtree(unfinished)
    return finished


def _packages_to_build(go: Path, unfinished: Path, progress: Progress) -> set[str]:
    """Fetch the modules, and name each package that Go's cache does not hold yet."""
    fetched = 0

    def on_line(line: str) -> None:
        nonlocal fetched
        fetched += line.startswith("go: downloading")

    listing = unfinished / "packages.txt"
    stale = ["list", "-deps", "-trimpath", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}", *PACKAGES]
    _run_go([str(go), *stale], unfinished, listing, on_line=on_line, on_pause=lambda: progress.show(f"modules: {fetched} fetched"))
    return set(listing.read_text().splitlines())


def _compile(go: Path, unfinished: Path, *, packages: set[str], progress: Progress) -> None:
    seen: set[str] = set()
    argv = [str(go), "build", "-v", *_build_flags(), "-o", f"{unfinished / 'out'}/", *PACKAGES]

    def on_line(line: str) -> None:
        if line in packages:
            seen.add(line)

    _run_go(
        argv,
        unfinished,
        unfinished / "build.txt",
        on_line=on_line,
        on_pause=lambda: progress.show(f"packages: {len(seen)} of {len(packages)}" if len(seen) < len(packages) else "linking"),
    )


def _run_go(argv: list[str], unfinished: Path, stdout: Path, *, on_line: Callable[[str], None], on_pause: Callable[[], None]) -> None:
    last: deque[str] = deque(maxlen=20)

    def keep(line: str) -> None:
        last.append(line)
        on_line(line)

    code = run_watched(argv, env=_environment(unfinished), cwd=SOURCE, stdout=stdout, on_line=keep, on_pause=on_pause)
    if code:
        raise ClusterError(
            f"`go {argv[1]}` failed with exit code {code}; the end of what it said:\n" + "\n".join(f"  {line}" for line in last)
        )


def _environment(unfinished: Path) -> dict[str, str]:
    places = {"GOCACHE": "gocache", "GOMODCACHE": "gomodcache", "GOPATH": "gopath", "GOTMPDIR": "tmp"}
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return kept | SETTINGS | {name: str(unfinished / place) for name, place in places.items()}


def _check_room(cache: Path, unfinished: Path) -> None:
    # What an interrupted build has already written need not be written again.
    used = sum(path.lstat().st_size for path in unfinished.rglob("*"))
    free = shutil.disk_usage(cache).free
    if free + used < DISK_NEEDED:
        raise ClusterError(
            f"the build needs {DISK_NEEDED / GB:.0f} GB of free disk in {cache} and {free / GB:.1f} GB are free: "
            "make room, or point GENERICJOB_CACHE to another disk"
        )
    available = available_memory()
    if available < MEMORY_NEEDED:
        raise ClusterError(
            f"the build needs {MEMORY_NEEDED / GB:.0f} GB of available memory and {available / GB:.1f} GB are: end something big first"
        )


def available_memory() -> int:
    """How many bytes of memory programs could still get."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else sys.maxsize
