"""`genericjob controller`: the controller of a cluster, inside it or beside it."""

import logging
import re
from typing import Annotated, Literal

import typer

from genericjob.api.spec import LABEL
from genericjob.jobs.assembly import Assembly
from genericjob.reconcile import access, logs
from genericjob.reconcile.fence import Fence, Fenced
from genericjob.reconcile.health import Health
from genericjob.reconcile.http import HttpApi, Timeouts
from genericjob.reconcile.lease import Elector, Timings, new_identity
from genericjob.reconcile.metrics import Metrics
from genericjob.reconcile.primitives import System
from genericjob.reconcile.process import Process, install_signals, settle_interpreter, share_malloc_arenas
from genericjob.reconcile.resources import Key
from genericjob.reconcile.serving import Address, Pages, Server, pages, parse_address
from genericjob.reconcile.timeouts import CREATE_S

from .options import HOME, LEASE, LONGEST_NAME, NAMESPACE_PATTERN, Context
from .options import lease_name as default_lease

log = logging.getLogger(__name__)

ControllerKubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Path of a kubeconfig. Default: the service account of the pod, $KUBECONFIG, ~/.kube/config.")
]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", "-n", help="Watch this namespace only; may be given several times. Default: all.")
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Jobs that are looked at at the same time.")]
Writers = Annotated[int, typer.Option("--writers", min=1, max=64, help="Writes that are under way at the same time.")]
CreateTimeout = Annotated[
    float,
    typer.Option(
        "--create-timeout",
        min=1,
        max=34,
        help="Seconds that the creation of a pod, Service or PodGroup may take: admission can be slow. The API server allows 34 at most.",
    ),
]
LeaderElect = Annotated[
    bool, typer.Option("--leader-elect/--no-leader-elect", help="Work only while holding the lease: for several controllers.")
]
LeaseNamespace = Annotated[str, typer.Option("--lease-namespace", help=f"Where the lease is. Default: this pod's namespace, else {HOME}.")]
LeaseName = Annotated[
    str,
    typer.Option("--lease-name", help=f"Name of the lease. Default: {LEASE}, with --namespace followed by the namespaces."),
]
MetricsBind = Annotated[str, typer.Option("--metrics-bind", help="Address of /metrics, /healthz and /readyz; 0 for none.")]
LogFormat = Annotated[Literal["text", "json"], typer.Option("--log-format", help="Lines for people, or JSON.")]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], typer.Option("--log-level", help="What is worth a line.")]


def controller(
    kubeconfig: ControllerKubeconfig = "",
    context: Context = "",
    namespace: Namespaces = None,
    workers: Workers = 8,
    writers: Writers = 8,
    create_timeout: CreateTimeout = CREATE_S,
    leader_elect: LeaderElect = False,
    lease_namespace: LeaseNamespace = "",
    lease_name: LeaseName = "",
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
    _check_lease(lease_name)
    logs.configure(log_format, log_level)
    share_malloc_arenas()
    primitives, metrics, health, timings = System(), Metrics(), Health(), Timings()
    credentials = access.find(kubeconfig, context, pod_first=True)
    log.info("the cluster is %s, configured by the %s", credentials.current.url, credentials.current.described)
    metrics.requests(credentials.current.authority)
    elector = None
    if leader_elect:
        key = Key(lease_namespace or access.pod_namespace() or HOME, lease_name or default_lease(namespace or ()))
        own = HttpApi(credentials, timeouts=timings.timeouts())  # OF ITS OWN: no other request may stand in the way of a renewal
        elector = Elector(own, key, new_identity(primitives), primitives=primitives, metrics=metrics, timings=timings)
    fence = Fence(elector.may_write if elector else lambda: True, primitives)
    api = HttpApi(credentials, timeouts=Timeouts(create=create_timeout), may_write=fence.is_open, observe=metrics.request)
    assembly = Assembly(
        api,
        writes=Fenced(api, fence),
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
        fence=fence,
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
    if not NAMESPACE_PATTERN.fullmatch(name):
        hint = "leave the option out to watch all of them" if not name else "lower-case letters, digits and dashes, 63 at most"
        raise typer.BadParameter(f"{name!r} is no name of a namespace: {hint}", param_hint="--namespace")


def _check_lease(name: str) -> None:
    if len(name) > LONGEST_NAME or not (name == "" or all(re.fullmatch(LABEL, part) for part in name.split("."))):
        hint = f"lower-case letters, digits, dashes and dots, {LONGEST_NAME} at most"
        raise typer.BadParameter(f"{name!r} is no name of a lease: {hint}", param_hint="--lease-name")


def _server(address: Address, found: Pages) -> Server:
    try:
        return Server(address, found)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror} (--metrics-bind names another address, or 0 for none)") from error
