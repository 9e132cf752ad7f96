"""The command line: `python3 hack/cluster COMMAND`, or `python3 -m cluster COMMAND` with `hack` on the path."""

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

if sys.version_info < (3, 11):  # noqa: UP036 - said here, before an older Python fails at the imports below
    sys.exit(f"cluster: Python 3.11 or newer is needed, and this is {sys.version.split()[0]}")
if not __package__:  # run as a directory: what Python put on the path is the package itself, not the directory above
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from cluster import ClusterError, build
from cluster.components import COMPONENTS
from cluster.plane import Plane, clusters


def main(argv: list[str] | None = None) -> int:
    """Run one command; the answer is the exit code."""
    options = _parser().parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt:
        print("cluster: interrupted", file=sys.stderr)
        return 130
    except (ClusterError, OSError) as problem:
        print(f"cluster: {problem}", file=sys.stderr)
        return 1


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Go the way of Ctrl-C, through every clean-up."""
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 hack/cluster",
        description="A real Kubernetes control plane on this machine: API server, controller manager, scheduler and etcd as plain "
        "processes on loopback. No containers, no root and no nodes: pods are accepted, scheduled if you make Node objects, and never run.",
        epilog="Everything is kept in $GENERICJOB_CACHE, else $XDG_CACHE_HOME/genericjob, else ~/.cache/genericjob.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Any, text: str, *, named: bool = True) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text.partition(";")[0], description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(run=run)
        if named:
            sub.add_argument("--name", default="default", help="name of the cluster (default: %(default)s)")
            sub.add_argument("--dir", type=Path, help="directory that holds the clusters (default: `clusters` in the cache)")
        return sub

    command("build", _build, "build the programs; a second time is instant, and an interrupted build goes on where it was", named=False)

    up = command("up", _up, "start a cluster; return when it is ready for pods, or leave nothing behind")
    up.add_argument(
        "--audit", action="store_true", help="write an audit log: writes to jobs, pods, services and leases in full, the rest in outline"
    )
    up.add_argument("--json", action="store_true", help="print what `status --json` prints")
    up.add_argument(
        "--owner", type=int, metavar="PID", help="process the cluster belongs to: when it is gone, the next `up` takes the cluster down"
    )
    up.add_argument("--programs", type=Path, metavar="DIR", help="take the programs from here and build none")
    up.add_argument("--timeout", type=float, default=90, metavar="SECONDS", help="how long to wait for readiness (default: %(default)s)")

    down = command("down", _down, "end a cluster and remove its files; fine in any condition, and where there is none")
    down.add_argument("--keep-logs", action="store_true", help="leave the logs, the audit log included, where they are")

    status = command("status", _status, "say what is running; exit code 1 unless all of it is ready")
    status.add_argument("--json", action="store_true", help="for programs")

    command(
        "kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig; export KUBECONFIG=$(python3 hack/cluster kubeconfig)"
    )
    command("compact", _compact, "make etcd forget its history up to now; print the revision")
    for name, run, text in (
        ("restart", _restart, "start a component again on its port and its data; end it first if it runs"),
        ("kill", _kill, "end a component with SIGKILL; it stays down until `restart`"),
    ):
        command(name, run, text).add_argument("component", choices=COMPONENTS, metavar="COMPONENT", help=f"one of: {', '.join(COMPONENTS)}")
    return parser


def _plane(options: argparse.Namespace) -> Plane:
    return Plane(options.name, directory=options.dir)


def _build(options: argparse.Namespace) -> None:
    print(build.ensure())


def _up(options: argparse.Namespace) -> None:
    if options.timeout <= 0:
        raise ClusterError("--timeout takes a number of seconds above 0")
    if not options.json and sys.stdout.isatty():
        print(f"starting cluster {options.name}: etcd, API server, controller manager, scheduler (about 6 seconds)", flush=True)
    plane = Plane.up(
        options.name, directory=options.dir, audit=options.audit, owner=options.owner, programs=options.programs, timeout=options.timeout
    )
    _print_status(plane.status(), as_json=options.json)
    if not options.json:
        print(f"to use it:  export KUBECONFIG={plane.kubeconfig}")
        print(f"to end it:  python3 hack/cluster down --name {plane.name}")


def _down(options: argparse.Namespace) -> None:
    plane = _plane(options)
    there = plane.exists
    plane.down(keep_logs=options.keep_logs)
    print(f"cluster {plane.name} is down" if there else f"there is no cluster {plane.name}")


def _status(options: argparse.Namespace) -> int:
    status = _plane(options).status()
    _print_status(status, as_json=options.json)
    if not options.json:
        others = [plane.name for plane in clusters(options.dir) if plane.name != options.name]
        print(f"other clusters: {', '.join(others)}" if others else "no other clusters")
    return 0 if all(component["ready"] for component in status["components"].values()) else 1


def _kubeconfig(options: argparse.Namespace) -> None:
    plane = _plane(options)
    if not plane.exists:  # a path to nothing would only be found out later, in a worse place
        raise ClusterError(f"there is no cluster {plane.name!r}; `up` starts one")
    print(plane.kubeconfig)


def _compact(options: argparse.Namespace) -> None:
    print(_plane(options).compact())


def _restart(options: argparse.Namespace) -> None:
    _plane(options).restart(options.component)


def _kill(options: argparse.Namespace) -> None:
    _plane(options).kill(options.component)


def _print_status(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, indent=2))
        return
    print(f"cluster {status['name']} at {status['server']}")
    for name, component in status["components"].items():
        condition = "ready" if component["ready"] else "not ready" if component["running"] else "down"
        print(f"  {name:24} {condition:10} pid {component['pid'] or '-':<8} port {component['port']}")
    print(f"  logs        {status['directory']}/logs")
    print(f"  kubeconfig  {status['kubeconfig']}")
    print(f"  kubectl     {status['kubectl']}")


if __name__ == "__main__":
    sys.exit(main())
