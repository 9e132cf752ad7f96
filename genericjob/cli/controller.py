"""`genericjob controller`: the controller of a cluster, inside it or beside it."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from genericjob.api.spec import LABEL
from genericjob.jobs.assembly import Assembly
from genericjob.reconcile import access, logs
from genericjob.reconcile.fence import Fenced
from genericjob.reconcile.health import Health
from genericjob.reconcile.http import HttpApi
from genericjob.reconcile.lease import Elector, Timings, new_identity
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.process import Process, install_signals, settle_interpreter
from genericjob.reconcile.resources import Key
from genericjob.reconcile.serving import Address, Pages, Server, pages, parse_address

from .options import HOME, LEASE, Context, Kubeconfig

OWN_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
LONGEST_LABEL = 63

Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", "-n", help="Watch this namespace only; may be given several times. Default: all.")
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Jobs that are looked at at the same time.")]
Writers = Annotated[int, typer.Option("--writers", min=1, max=64, help="Writes that are under way at the same time.")]
LeaderElect = Annotated[
    bool, typer.Option("--leader-elect/--no-leader-elect", help="Work only while holding the lease: for several controllers.")
]
LeaseNamespace = Annotated[str, typer.Option("--lease-namespace", help=f"Where the lease is. Default: this pod's namespace, else {HOME}.")]
MetricsBind = Annotated[str, typer.Option("--metrics-bind", help="Address of /metrics, /healthz and /readyz; 0 for none.")]
LogFormat = Annotated[Literal["text", "json"], typer.Option("--log-format", help="Lines for people, or JSON.")]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="What is worth a line.")]


def controller(
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    namespace: Namespaces = None,
    workers: Workers = 8,
    writers: Writers = 8,
    leader_elect: LeaderElect = False,
    lease_namespace: LeaseNamespace = "",
    metrics_bind: MetricsBind = "127.0.0.1:8080",
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> None:
    """Run GenericJobs on a cluster, until SIGTERM or Ctrl-C; a second one ends at once.

    Exit code 0 after a good end, 1 when the lease was lost or something went wrong.
    """
    try:
        address = parse_address(metrics_bind)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--metrics-bind") from None
    for name in namespace or ():
        _check_namespace(name)
    logs.configure(log_format, log_level)
    primitives, metrics, health, timings = System(), Metrics(), Health(), Timings()
    credentials = access.find(kubeconfig, context)
    api = HttpApi(credentials, observe=metrics.request)
    metrics.requests(credentials.current.authority)
    elector = None
    if leader_elect:
        key = Key(lease_namespace or _own_namespace(), LEASE)
        own = HttpApi(credentials, timeouts=timings.timeouts())  # OF ITS OWN: no other request may stand in the way of a renewal
        elector = Elector(own, key, new_identity(primitives), primitives=primitives, metrics=metrics, timings=timings)
    assembly = Assembly(
        api,
        writes=Fenced(api, elector.may_write) if elector else api,
        namespaces=namespace or ("",),
        workers=workers,
        writers=writers,
        primitives=primitives,
        metrics=metrics,
    )
    process = Process(
        informers={"genericjobs": assembly.jobs, "pods": assembly.pods, "services": assembly.services},
        controllers=[assembly.controller],
        writer=assembly.writer,
        recorder=assembly.recorder,
        elector=elector,
        servers=[_server(address, pages(health, metrics))] if address else (),
        primitives=primitives,
        metrics=metrics,
        health=health,
        when_filled=settle_interpreter,
    )
    install_signals(process)
    raise typer.Exit(process.run())


def _check_namespace(name: str) -> None:
    """AN EMPTY NAME WOULD MEAN ALL NAMESPACES, and mostly is a variable of a shell that nobody has set."""
    if len(name) > LONGEST_LABEL or not re.fullmatch(LABEL, name):
        hint = "leave the option out to watch all of them" if not name else "lower-case letters, digits and dashes, 63 at most"
        raise typer.BadParameter(f"{name!r} is no name of a namespace: {hint}", param_hint="--namespace")


def _server(address: Address, found: Pages) -> Server:
    try:
        return Server(address, found)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (--metrics-bind names another address, or 0 for none)") from error


def _own_namespace() -> str:
    """The namespace of the pod that this process is in."""
    try:
        return os.environ.get("POD_NAMESPACE") or OWN_NAMESPACE.read_text().strip() or HOME
    except OSError:
        return HOME
